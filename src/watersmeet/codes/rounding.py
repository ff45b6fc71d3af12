"""Decimals as floats, each the nearest one (ties to even): what Java's BigDecimal, and so Spark, makes of them.

Arrow's own cast multiplies by a rounded power of ten and is off by an ulp for one value in eight. Here a number whose
digits and power of ten are both exact doubles takes one division, which IEEE rounds correctly; the others take
Python's integer division, which rounds correctly for any size. Rounding is monotone, so codes of the results are too.
"""

from fractions import Fraction

import numpy as np
import pyarrow as pa

from watersmeet.codes.column import validity

EXACT = 2**53  # integers up to here are doubles
LARGEST_POWER = 22  # 10**22 is the last power of ten that is a double
LEAST_NORMAL = 2.0**-126  # of float32
BEYOND = np.int64(2**29 - 1)  # the bits of a double that a float32 has not
TIE = np.int64(2**28)  # ... and how they look half way between two float32


def decimal_to_float64(column: pa.Array) -> np.ndarray:
    """The nearest double of each value of a decimal column of any width and scale; slots of nulls hold anything."""
    scale = column.type.scale
    words = _words(column)
    low = words[:, 0].astype(np.int64)
    power = 10.0 ** min(abs(scale), LARGEST_POWER)
    result: np.ndarray = low / power if scale > 0 else low * power
    quick = (words[:, 1:] == (low >> 63)[:, None]).all(axis=1)  # the lowest word is the whole number
    if scale:
        quick &= (low >= -EXACT) & (low <= EXACT) & (abs(scale) <= LARGEST_POWER)
    mask = validity(column)
    for i in np.flatnonzero(~quick if mask is None else ~quick & mask):
        result[i] = _quotient(_number(words[i]), scale)
    return result


def decimal_to_float32(column: pa.Array) -> np.ndarray:
    """The nearest float32 of each value: not that of the nearest double, which may have been rounded to a tie."""
    double, words = decimal_to_float64(column), _words(column)
    with np.errstate(over="ignore", under="ignore"):
        result: np.ndarray = double.astype(np.float32)
    unsure = ((double.view(np.int64) & BEYOND) == TIE) | (np.abs(double) < LEAST_NORMAL)
    unsure &= double != 0
    mask = validity(column)
    for i in np.flatnonzero(unsure if mask is None else unsure & mask):
        result[i] = nearest_float32(_number(words[i]) / Fraction(10) ** column.type.scale)
    return result


def nearest_float32(exact: Fraction) -> np.float32:
    """The nearest float32 of a number, of two equally near the even one."""
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(_quotient_of(exact))
        around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    return min(around, key=lambda x: (abs(exact - _value(x)), int(x.view(np.int32)) & 1))


def _value(x: np.float32) -> Fraction:
    """A float32; infinity is where the next one would be."""
    return Fraction(float(x)) if np.isfinite(x) else Fraction(2) ** 128 * (1 if x > 0 else -1)


def _quotient_of(exact: Fraction) -> float:
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def _quotient(unscaled: int, scale: int) -> float:
    """unscaled / 10**scale."""
    return _quotient_of(Fraction(unscaled * 10**-scale)) if scale < 0 else unscaled / 10**scale


def _words(column: pa.Array) -> np.ndarray:
    """The unscaled numbers as rows of signed words, the lowest first; one word of their own size up to 64 bits."""
    width, length = column.type.bit_width, len(column)
    size = min(width, 64) // 8
    count = width // 8 // size
    data = column.buffers()[1]
    if data is None or not length:
        return np.zeros((length, count), f"<i{size}")
    start = column.offset * width // 8
    return np.frombuffer(data, f"<i{size}", length * count, start).reshape(length, count)


def _number(words: np.ndarray) -> int:
    return int.from_bytes(words.tobytes(), "little", signed=True)
