"""From Arrow columns to integer codes: a function a family of types, giving the encoder of a column type.

An encoder sees only the values; slots of nulls may come out as anything.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.codes.column import number_type, raw
from watersmeet.codes.domain import Encoder
from watersmeet.errors import SchemaError
from watersmeet.kernels.code import INT_MAX, INT_MIN

INT64 = np.dtype(np.int64)
FLIP = np.uint64(2**63)
DAY_MS = 86_400_000


def nothing(column: pa.Array) -> np.ndarray:
    """Codes of a column of the null type."""
    return np.zeros(len(column), np.int64)


def integer(type: pa.DataType) -> Encoder:
    """Integers and booleans as they are; unsigned 64-bit numbers stop at the largest int64."""
    if pa.types.is_null(type):
        return nothing
    if pa.types.is_boolean(type):
        return lambda column: raw(pc.cast(column, pa.int8()), np.dtype(np.int8)).astype(np.int64)
    _check(pa.types.is_integer(type), type, "an integer")
    dtype = number_type(type)
    if dtype == INT64:
        return lambda column: raw(column, INT64)
    if dtype == np.uint64:
        return lambda column: np.minimum(raw(column, dtype), np.uint64(INT_MAX)).view(np.int64)
    return lambda column: raw(column, dtype).astype(np.int64)


def unsigned(type: pa.DataType) -> Encoder:
    """Unsigned numbers moved down by 2**63, so that they fill int64."""
    if pa.types.is_null(type):
        return nothing
    _check(pa.types.is_unsigned_integer(type), type, "an unsigned integer")
    dtype = number_type(type)
    return lambda column: (raw(column, dtype).astype(np.uint64) ^ FLIP).view(np.int64)


def decimal(type: pa.DataType, scale: int) -> Encoder:
    """Decimals and integers as numbers of 10**-scale; the domain has made sure that they fit."""
    if not pa.types.is_decimal(type):
        plain, factor = integer(type), 10**scale
        return plain if factor == 1 else lambda column: plain(column) * factor
    factor = 10 ** (scale - type.scale)
    width = type.bit_width
    if width <= 64:
        dtype: np.dtype[Any] = np.dtype(f"i{width // 8}")
        return lambda column: _times(raw(column, dtype).astype(np.int64, copy=False), factor)
    words = np.dtype(
        f"({width // 64},)i8"
    )  # little-endian words; the lowest holds all of a number this small
    return lambda column: _times(np.ascontiguousarray(_words(column, words)[:, 0]), factor)


def temporal(type: pa.DataType, nanoseconds: int) -> Encoder:
    """Temporal types as counts of so many nanoseconds; what does not fit stops at the end of int64."""
    if pa.types.is_null(type):
        return nothing
    if pa.types.is_date64(type):
        factor = Fraction(86_400 * 10**9, nanoseconds)
        return lambda column: saturating_times(raw(column, INT64) // DAY_MS, int(factor))
    _check(pa.types.is_temporal(type), type, "a date, time, timestamp or duration")
    factor = Fraction(unit_nanoseconds(type), nanoseconds)
    dtype: np.dtype[Any] = np.dtype(f"i{type.bit_width // 8}")
    if factor < 1:  # a column of a finer unit than the domain's
        return lambda column: raw(column, dtype).astype(np.int64) // int(1 / factor)
    if factor == 1:
        return lambda column: raw(column, dtype).astype(np.int64, copy=False)
    return lambda column: saturating_times(raw(column, dtype).astype(np.int64, copy=False), int(factor))


def unit_nanoseconds(type: pa.DataType) -> int:
    """How many nanoseconds a temporal type counts in."""
    if pa.types.is_date(type):
        return 86_400 * 10**9
    return {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[type.unit]


def saturating_times(values: np.ndarray, factor: int) -> np.ndarray:
    """values * factor, where what does not fit becomes the smallest or largest int64."""
    limit = INT_MAX // factor
    product = np.clip(values, -limit, limit) * factor
    product[values > limit] = INT_MAX
    product[values < -limit] = INT_MIN
    return product


def _times(values: np.ndarray, factor: int) -> np.ndarray:
    return values if factor == 1 else values * factor


def _words(column: pa.Array, dtype: np.dtype[Any]) -> np.ndarray:
    if not len(column):
        return np.zeros(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def _check(fits: bool, type: pa.DataType, expected: str) -> None:
    if not fits:
        raise SchemaError(f"a key column must be {expected}; got {type}; cast it in the condition")
