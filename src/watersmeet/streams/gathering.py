"""Columns of rows that lie in many chunks, gathered by kernels over the chunks' own buffers.

Numbers, times, decimals, texts and binary are gathered so; ``None`` says that a type's layout is another one (booleans, nested types,
dictionaries, views), and Arrow has to do it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.kernels.gather import (
    chunk_table,
    find_chunks,
    gather_bits,
    gather_bytes,
    gather_lengths,
    gather_values,
    gather_words,
)

_CELLS = 1024  # of the table that finds a number's chunk
_WIDTHS: dict[int, type[np.signedinteger]] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_NO_BITS = np.empty(0, np.uint8)


# Where a column of a chunk lies: addresses of row 0's validity bitmap (0: no NULL), rows of the buffers before the chunk's first,
# addresses of values or offsets, and of bytes.
BITMAP, SKIPPED, VALUES, BYTES = range(4)


def places(columns: Sequence[pa.Array]) -> np.ndarray:
    """Where arrays lie that have one of the layouts: a row for each of the above, a column an array."""
    found = np.zeros((4, len(columns)), np.int64)
    for i, column in enumerate(columns):
        addresses = [0 if buffer is None else buffer.address for buffer in column.buffers()]
        bitmap, values, content = (*addresses, 0, 0)[:3]
        found[:, i] = bitmap if column.null_count else 0, column.offset, values, content
    return found


@dataclass(frozen=True)
class Layout:
    """How the values of a type lie in memory: ``words`` of 64 bits, or one value, or text, whose offsets are values."""

    kind: type[np.signedinteger]
    words: int
    text: bool

    @property
    def width(self) -> int:
        """Bytes of a value."""
        return np.dtype(self.kind).itemsize * self.words

    @classmethod
    def of(cls, kind: pa.DataType) -> "Layout | None":
        """None: a layout that no kernel reads."""
        is_type = pa.types
        if is_type.is_string(kind) or is_type.is_binary(kind):
            return cls(np.int32, 1, True)
        if is_type.is_large_string(kind) or is_type.is_large_binary(kind):
            return cls(np.int64, 1, True)
        if is_type.is_decimal(kind) or is_type.is_fixed_size_binary(kind):
            return cls(np.int64, kind.bit_width // 64, False) if kind.bit_width % 64 == 0 else None
        if is_type.is_primitive(kind) and kind.bit_width in _WIDTHS:
            return cls(_WIDTHS[kind.bit_width], 1, False)
        return None


def only_where(column: pa.Array, there: np.ndarray) -> pa.Array:
    """The column with NULL where a mask is False; of one of the layouts, and without a NULL where it is True."""
    _, *buffers = column.buffers()
    start = column.offset
    bits = np.packbits(np.concatenate((np.zeros(start, np.bool_), there)), bitorder="little")
    nulls = there.size - int(np.count_nonzero(there))
    return pa.Array.from_buffers(column.type, there.size, [pa.py_buffer(bits), *buffers], nulls, start)


class Gathering:
    """Rows with these numbers, of chunks whose first numbers are ``firsts``. A number below 0 is a row of NULLs."""

    def __init__(self, numbers: np.ndarray, firsts: Sequence[int], end: int, absent: bool) -> None:
        self.numbers = np.ascontiguousarray(numbers, np.int64)
        self._firsts, self._absent = np.array(firsts, np.int64), absent
        span = max(1, end - int(self._firsts[0]))
        shift = max(0, span.bit_length() - _CELLS.bit_length() + 1)
        table = np.empty(((span - 1) >> shift) + 1, np.int64)
        chunk_table(self._firsts, shift, table)
        self._chunks = np.empty(numbers.size, np.int32)
        find_chunks(self.numbers, self._firsts, shift, table, self._chunks)

    def offsets(self) -> pa.Array:
        """The rows by their place among those of all chunks, for Arrow."""
        return pa.array(self.numbers - self._firsts[0], mask=self.numbers < 0 if self._absent else None)

    def column(self, kind: pa.DataType, layout: Layout, places: np.ndarray) -> pa.Array | None:
        """A column of the rows, which lies at these ``places``. None: more text than one array has room for."""
        skipped = places[SKIPPED] - self._firsts
        bases = places[VALUES] + skipped * layout.width
        bitmap, nulls = self._validity(places[BITMAP], skipped)
        if layout.text:
            buffers = self._text(layout, bases, np.ascontiguousarray(places[BYTES]))
            if buffers is None:
                return None
        else:
            values = np.empty(self.numbers.size * layout.words, layout.kind)
            if layout.words == 1:
                gather_values(self.numbers, self._chunks, bases, values)
            else:
                gather_words(self.numbers, self._chunks, bases, layout.words, values)
            buffers = [pa.py_buffer(values)]
        return pa.Array.from_buffers(kind, self.numbers.size, [bitmap, *buffers], nulls)

    def _validity(self, bitmaps: np.ndarray, skipped: np.ndarray) -> tuple[pa.Buffer | None, int]:
        if not (self._absent or bitmaps.any()):
            return None, 0
        bitmaps = np.ascontiguousarray(bitmaps)
        found = np.empty((self.numbers.size + 7) // 8, np.uint8)
        nulls = gather_bits(self.numbers, self._chunks, bitmaps, skipped, _NO_BITS, found)
        return pa.py_buffer(found), int(nulls)

    def _text(self, layout: Layout, bases: np.ndarray, contents: np.ndarray) -> list[pa.Buffer] | None:
        offsets = np.empty(self.numbers.size + 1, layout.kind)
        starts = np.empty(self.numbers.size, layout.kind)
        total = gather_lengths(self.numbers, self._chunks, bases, offsets, starts)
        if total > np.iinfo(layout.kind).max:
            return None
        content = np.empty(total, np.uint8)
        gather_bytes(self._chunks, contents, starts, offsets, content)
        return [pa.py_buffer(offsets), pa.py_buffer(content)]
