"""Exact codes for texts: a text's code is its hash, unless texts that were around together have met in one hash.

A table has the text of every hash. Texts that meet in one hash, which is as good as never seen, are remembered for good: the first keeps
the hash as its code, the others get codes of their own. So equal codes are equal texts, among all texts that the table knows: whoever
stores codes sees to it that the table knows theirs. What nobody stores any more may be forgotten: ``keep`` begins anew with the
texts that are named.
"""

import threading
from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

import numpy as np

from watersmeet.kernels.intern import (
    ANOTHER,
    BYTES,
    EMPTY,
    FULL,
    HASH,
    SEVERAL,
    SPREAD,
    START,
    TABLED,
    learn,
    relearn,
)

Texts = tuple[
    np.ndarray, np.ndarray, np.ndarray
]  # all bytes, where each text starts and the last one ends, hashes
SLACK = 1 << 16  # texts that are never too many
_LEAST = 10  # the size of a table, as a power of two


class Interner:
    """Which text each code stands for. Several threads may ask."""

    def __init__(self) -> None:
        self.keepers: WeakSet[Any] = WeakSet()  # who stores codes
        self._lock = threading.Lock()
        self._table = _Table()
        self._enough = SLACK
        self._met: dict[bytes, np.uint64] = {}  # the codes of texts that have met another in their hash
        self._spoilt: set[int] = set()  # codes that a hash alone does not decide

    def __len__(self) -> int:
        return int(self._table.used[TABLED])

    def codes(self, data: np.ndarray, offsets: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """The codes of texts whose hashes are given: those, but for texts that have met another in theirs."""
        with self._lock:
            return self._enter(self._table, data, offsets, hashes)

    def _enter(
        self, table: "_Table", data: np.ndarray, offsets: np.ndarray, hashes: np.ndarray
    ) -> np.ndarray:
        codes, row = hashes, 0
        while row < hashes.size:
            row, why = table.learn(data, offsets, hashes, row)
            if why == ANOTHER:
                text = data[offsets[row] : offsets[row + 1]].tobytes()
                if codes is hashes:
                    codes = hashes.copy()
                codes[row] = self._apart(table, text, hashes[row])
                row += 1
        return codes

    def _apart(self, table: "_Table", text: bytes, code: np.uint64) -> np.uint64:
        """The code of a text whose hash stands for another one, or for several."""
        first = table.text_of(code)
        if first is not None:
            self._met[first] = code
            self._spoil(table, code)
        if text not in self._met:
            number = int(code)
            while number in self._spoilt or table.knows(np.uint64(number)):
                number = (number * 6364136223846793005 + 1442695040888963407) % 2**64
            self._met[text] = np.uint64(number)
            self._spoil(table, np.uint64(number))
        return self._met[text]

    def _spoil(self, table: "_Table", code: np.uint64) -> None:
        """From now on every text with this hash is looked up by itself."""
        self._spoilt.add(int(code))
        table.spoil(code)

    @property
    def crowded(self) -> bool:
        """Whether it is time to see what can be forgotten."""
        return int(self._table.used[TABLED]) > self._enough

    def allow(self, rows: int) -> None:
        """So many rows are stored: with no more than twice as many texts, there is little to forget."""
        self._enough = SLACK + 2 * rows

    def keep(self, texts: Iterable[Texts]) -> None:
        """Forget all texts but these. Who has codes of others must not compare them any more."""
        table = _Table()
        with self._lock:
            for code in self._spoilt:
                table.spoil(np.uint64(code))
            for data, offsets, hashes in texts:
                self._enter(table, data, offsets, hashes)
            self._table = table


class _Table:
    """Open addressing by hash; grows by doubling."""

    def __init__(self) -> None:
        self.used = np.zeros(2, np.int64)  # slots, bytes
        self._arena = np.empty(1 << 14, np.uint8)
        self._make(_LEAST)

    def _make(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        self._slots = np.empty((1 << bits, 3), np.int64)
        self._slots[:, START] = EMPTY

    def learn(self, data: np.ndarray, offsets: np.ndarray, hashes: np.ndarray, row: int) -> tuple[int, int]:
        """Texts from a row on; how far it came, and why no farther."""
        while True:
            row, why = learn(data, offsets, hashes, row, self._shift, self._slots, self._arena, self.used)
            if why != FULL:
                return row, why
            self._grow(int(offsets[row + 1] - offsets[row]))

    def _grow(self, size: int) -> None:
        """Room for one more slot, and for a text of ``size`` bytes."""
        slots = self._slots.shape[0]
        if self.used[TABLED] >= slots - slots // 4:
            old = self._slots
            self._make(slots.bit_length())
            relearn(old, self._shift, self._slots)
        if self.used[BYTES] + size > self._arena.size:
            arena = np.empty(2 * (self._arena.size + size), np.uint8)
            arena[: self.used[BYTES]] = self._arena[: self.used[BYTES]]
            self._arena = arena

    def _slot(self, code: np.uint64) -> np.ndarray:
        """Where a hash is, or would be."""
        slots, number = self._slots, np.array(code).view(np.int64)
        start = (int(code) * int(SPREAD)) % 2**64 >> int(self._shift)
        for place in range(start, start + slots.shape[0]):
            slot: np.ndarray = slots[place % slots.shape[0]]
            if slot[START] == EMPTY or slot[HASH] == number:
                return slot
        raise AssertionError("a table has free slots")

    def knows(self, code: np.uint64) -> bool:
        return bool(self._slot(code)[START] != EMPTY)

    def text_of(self, code: np.uint64) -> bytes | None:
        """The one text that a hash stands for; None: no single one."""
        _, start, end = self._slot(code).tolist()
        return None if start in (EMPTY, SEVERAL) else self._arena[start:end].tobytes()

    def spoil(self, code: np.uint64) -> None:
        """The hash stands for several texts."""
        self._grow(0)
        slot = self._slot(code)
        self.used[TABLED] += slot[START] == EMPTY
        slot[HASH], slot[START] = np.array(code).view(np.int64), SEVERAL
