"""Texts and binary as numbers in a dictionary: a codec, and what sorts its numbers.

A dictionary only grows, until ``keep`` forgets what nobody holds; numbers that are held stay as they are. An interner
(``codes/interning.py``) makes codes exact too, but cannot give a text back by its code, nor put two in order.
"""

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregate.values import Codec, Texts
from watersmeet.codes.column import number_type, plain_column, raw, validity
from watersmeet.codes.text import BytesDomain
from watersmeet.kernels.code import hash_bytes
from watersmeet.kernels.dictionary import (
    BYTES,
    EMPTY,
    FREED,
    FRESH,
    RECENT,
    find_texts,
    gather_texts,
    number_texts,
    place_texts,
    recall,
    text_offsets,
)

SLACK = 1 << 12  # texts that are never too many
LEAST = 64
ALL = np.empty(0, np.bool_)


class Dictionary(Codec):
    """The texts of one column."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._domain = BytesDomain("text", ordered=False)
        self.entries = np.zeros((LEAST, 4), np.int64)
        self.arena = np.empty(1 << 10, np.uint8)
        self._freed = np.empty(LEAST, np.int64)
        self._room = np.zeros(3, np.int64)
        self._enough = SLACK
        self._shift, self._table = _empty(4 * LEAST)
        self._recent = _none_recent()

    def __len__(self) -> int:
        return int(self._room[FRESH] - self._room[FREED])

    def encode(self, column: pa.Array) -> np.ndarray:
        data, offsets = self._domain.bytes(column)
        valid = validity(column)
        out, missed = np.empty(len(column), np.int64), np.empty(len(column), np.int64)
        missed = missed[: recall(data, offsets, ALL if valid is None else valid, self._recent, out, missed)]
        if missed.size:
            self._number(data, offsets, missed, out)
        return out.reshape(-1, 1)

    def _number(self, data: np.ndarray, offsets: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
        """The numbers of the texts of some rows, old and new ones."""
        hashes = np.empty(out.size, np.uint64)
        hash_bytes(data, offsets, hashes)
        done = 0
        while True:
            state = self._table, self._shift, self.entries, self.arena, self._freed, self._room, self._recent
            done = number_texts(data, offsets, hashes, rows, done, *state, out)
            if done == rows.size:
                return
            self._grow(int(offsets[rows[done] + 1] - offsets[rows[done]]))

    def find(self, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """The number of each text, and which have one: those that were encoded before. Nothing is entered."""
        column = plain_column(column)
        if pt.is_dictionary(column.type):
            return self._find_entries(column)
        data, offsets, hashes = self._domain.texts(column)
        valid = validity(column)
        out = np.empty(hashes.size, np.int64)
        mask = ALL if valid is None else valid
        find_texts(data, offsets, hashes, mask, self._table, self._shift, self.entries, self.arena, out)
        return out, out != EMPTY

    def _find_entries(self, column: pa.DictionaryArray) -> tuple[np.ndarray, np.ndarray]:
        """The same, each entry of the column's own dictionary once."""
        numbers, _ = self.find(column.dictionary)
        places, valid = raw(column.indices, number_type(column.indices.type)), validity(column)
        if valid is not None:
            places = np.where(valid, places, 0)
        out = numbers[places] if numbers.size else np.full(len(column), EMPTY)
        if valid is not None:
            out[~valid] = EMPTY
        return out, out != EMPTY

    def _grow(self, size: int) -> None:
        """Room for one more text, of ``size`` bytes."""
        if self._room[BYTES] + size > self.arena.size:
            arena = np.empty(2 * (self.arena.size + size), np.uint8)
            arena[: self._room[BYTES]] = self.arena[: self._room[BYTES]]
            self.arena = arena
        if self._room[FREED] == 0 and self._room[FRESH] == len(self.entries):
            entries = np.zeros((2 * len(self.entries), 4), np.int64)
            entries[: len(self.entries)] = self.entries
            self.entries = entries
            self._place(np.ones(len(entries), np.bool_))

    def _place(self, used: np.ndarray) -> None:
        """Anew, with the numbers that are in use. Made beside the old one, which stays whole until then."""
        shift, table = _empty(4 * len(self.entries))
        entries, arena, room = self.entries.copy(), np.empty(self.arena.size, np.uint8), self._room.copy()
        freed = np.empty(len(entries), np.int64)
        place_texts(used, table, shift, entries, self.arena, freed, room, arena)
        self._recent = _none_recent()  # before a number can be given again
        self._shift, self._table, self.entries, self.arena, self._freed, self._room = (
            shift,
            table,
            entries,
            arena,
            freed,
            room,
        )

    def decode(self, words: np.ndarray) -> pa.Array:
        numbers = np.ascontiguousarray(words[:, 0])
        offsets = np.empty(numbers.size + 1, np.int64)
        text_offsets(numbers, self.entries, offsets)
        data = np.empty(offsets[-1], np.uint8)
        gather_texts(numbers, self.entries, self.arena, offsets, data)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        text = pt.is_string(self.type) or pt.is_large_string(self.type) or pt.is_string_view(self.type)
        large = pa.large_string() if text else pa.large_binary()
        return pa.Array.from_buffers(large, numbers.size, buffers).cast(self.type)

    def texts(self) -> Texts:
        return True, self.entries, self.arena

    @property
    def crowded(self) -> bool:
        """Whether it is time to see what can be forgotten."""
        return len(self) > self._enough

    def keep(self, held: list[np.ndarray]) -> None:
        """Forget all numbers but these (and NULL, which is none)."""
        used = np.zeros(len(self.entries), np.bool_)
        for numbers in held:
            used[numbers[numbers >= 0]] = True
        self._place(used)
        self._enough = SLACK + 2 * len(self)


def _none_recent() -> np.ndarray:
    return np.full((RECENT, 2), EMPTY, np.int64)


def _empty(places: int) -> tuple[np.uint64, np.ndarray]:
    """How far a hash is shifted to be a place of a table, and the table, empty."""
    return np.uint64(65 - places.bit_length()), np.full(places, EMPTY, np.int64)
