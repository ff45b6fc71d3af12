"""Domains of strings and binary: a hash for equality, the first eight bytes for order.

SQL order of strings is the byte order of their UTF-8, so strings and binary are the same here. The first eight bytes do not
decide; a hash does, once an interner (``interning.py``) tells texts with the same hash apart. Without one, codes are the same in
every process.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.codes.column import borrowed, plain_column
from watersmeet.codes.domain import Bounder, Domain, Encoder
from watersmeet.codes.encode import nothing
from watersmeet.codes.interning import Interner, Texts
from watersmeet.codes.interval import Interval, Side
from watersmeet.errors import ConditionError, SchemaError
from watersmeet.kernels.code import INT_MAX, INT_MIN, hash_bytes, prefix_bytes

BYTE, INT32, INT64 = np.dtype(np.uint8), np.dtype(np.int32), np.dtype(np.int64)
_OFFSETS: dict[pa.DataType, np.dtype[Any]] = {
    pa.string(): INT32,
    pa.binary(): INT32,
    pa.large_string(): INT64,
    pa.large_binary(): INT64,
}


_NO_BYTES = np.zeros(1, np.uint8), np.zeros(1, np.int64)


class BytesDomain(Domain):
    """Strings or binary."""

    def __init__(self, name: str, *, ordered: bool) -> None:
        super().__init__(f"{name} {'prefix' if ordered else 'hash'}", exact=not ordered, ordered=ordered)
        self.interner: Interner | None = None  # for equality: without one, other values may share a code

    def _encoder(self, type: pa.DataType) -> Encoder:
        if pa.types.is_null(type):
            return nothing
        if not is_bytes(type):
            raise SchemaError(f"a key column must be text or binary; got {type}; cast it in the condition")

        dtype = _OFFSETS.get(type)  # once: to look a type up takes as long as to hash a text

        def encode(column: pa.Array) -> np.ndarray:
            data, offsets, codes = self._hashed(column, dtype)
            if self.interner is not None and not self.ordered:
                codes = self.interner.codes(data, offsets, codes)
            return codes.view(np.int64)

        return encode

    def _hashed(self, column: pa.Array, dtype: np.dtype[Any] | None) -> Texts:
        rows = len(column)
        codes = np.empty(rows, np.uint64)
        if not rows:
            return *_NO_BYTES, codes
        data, offsets = _bytes(column, dtype)
        (prefix_bytes if self.ordered else hash_bytes)(data, offsets, codes)
        return data, offsets, codes

    def texts(self, column: pa.Array) -> Texts:
        """What an interner has to know of a column."""
        column = plain_column(column)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return self._hashed(column, _OFFSETS.get(column.type))

    def bytes(self, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """All bytes of a column, and where each value starts and the last one ends."""
        column = plain_column(column)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return _bytes(column, _OFFSETS.get(column.type)) if len(column) else _NO_BYTES

    def everywhere(self) -> "BytesDomain":
        """The same without an interner."""
        return BytesDomain(self.name.split()[0], ordered=self.ordered)

    def values(self, codes: np.ndarray) -> np.ndarray:
        return codes.astype(np.float64)

    def bounder(self, interval: Interval, probing: Side) -> Bounder:
        low, high = interval.low is not None, interval.high is not None
        strict = interval.low_open or interval.high_open
        differ = strict and low != high  # one half of <>
        if (interval.low or interval.high) or not (self.ordered or differ or (low and high)):
            raise ConditionError(
                f"{self.name} must be compared without an offset; got {interval}; re-check pairs instead"
            )
        has_lower, has_upper = (low, high) if probing == "right" else (high, low)
        if differ and not self.ordered:
            return _above if has_lower else _below

        def bounds(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            lo = keys.copy() if has_lower else np.full(keys.size, INT_MIN)
            hi = keys.copy() if has_upper else np.full(keys.size, INT_MAX)
            return lo, hi

        return bounds


def _above(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All codes above each; of the largest, none."""
    lo, hi = np.minimum(keys, INT_MAX - 1) + 1, np.full(keys.size, INT_MAX)
    hi[keys == INT_MAX] = INT_MAX - 1
    return lo, hi


def _below(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All codes below each; of the least, none."""
    lo, hi = np.full(keys.size, INT_MIN), np.maximum(keys, INT_MIN + 1) - 1
    lo[keys == INT_MIN] = INT_MIN + 1
    return lo, hi


def is_bytes(type: pa.DataType) -> bool:
    """Whether values of the type are sequences of bytes."""
    return is_text(type) or is_binary(type)


def is_text(type: pa.DataType) -> bool:
    """string, large_string or string_view."""
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


def is_binary(type: pa.DataType) -> bool:
    """binary, large_binary, binary_view or binary of a fixed size."""
    test = pa.types
    return bool(
        test.is_binary(type)
        or test.is_large_binary(type)
        or test.is_binary_view(type)
        or test.is_fixed_size_binary(type)
    )


def _bytes(column: pa.Array, dtype: np.dtype[Any] | None) -> tuple[np.ndarray, np.ndarray]:
    """All bytes of the column, and where each value starts and the last one ends. ``dtype``: of the column's own offsets, if it has any."""
    if dtype is None:  # views, and texts of a fixed size
        wide = pa.large_string() if pa.types.is_string_view(column.type) else pa.large_binary()
        column, dtype = pc.cast(column, wide), INT64
    _, starts, data = column.buffers()
    first = column.offset * dtype.itemsize
    offsets = np.ndarray(len(column) + 1, dtype, starts, first).astype(np.int64)
    if data is None or not data.size:
        return np.zeros(1, np.uint8), offsets
    return borrowed(data, 0, data.size, BYTE), offsets
