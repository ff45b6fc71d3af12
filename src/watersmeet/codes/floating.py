"""Domains of floating point: float64, float32, and decimals too wide for exact integer codes.

Codes are those of ``kernels/code.py``. Bounds answer for the text's own rounded arithmetic, not for real
numbers: 0.1 + 0.2 is not 0.3 here either. A decimal beside a float is the nearest double, as the text has it, so its
code decides. Where a code is only near the value (decimals too wide for int64, compared with each other), bounds are
wider by ``SLACK`` codes and ``exact`` is False.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.codes.column import number_type, raw
from watersmeet.codes.domain import Bounder, Domain, Encoder
from watersmeet.codes.encode import nothing
from watersmeet.codes.interval import Interval, Offset, Side
from watersmeet.codes.rounding import decimal_to_float64
from watersmeet.errors import ConditionError, SchemaError
from watersmeet.kernels.code import (
    INFINITY32,
    INFINITY64,
    computed_key_bounds,
    computed_opposite_bounds,
    difference_bounds,
    float32_codes,
    float64_codes,
    proportional_codes,
)

INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
SLACK = 2  # codes; a decimal lies within half a code of its nearest double
OPEN = float("nan")  # how the kernels are told that a band has no such end

Ends = tuple[float, int, float, int]  # lower, above, upper, below: as the kernels take them


class FloatDomain(Domain):
    """float64 or float32 (``single``) with Spark's order: -0.0 = 0.0, NaN = NaN and is above infinity."""

    def __init__(self, name: str, *, single: bool = False, loose: bool = False) -> None:
        super().__init__(name, exact=not loose, ordered=True)
        self._single = single
        self._infinity = INFINITY32 if single else INFINITY64

    def _encoder(self, type: pa.DataType) -> Encoder:
        if pa.types.is_null(type):
            return nothing
        if pa.types.is_decimal(type):
            return lambda column: _codes64(decimal_to_float64(column).view(INT64))
        if not (pa.types.is_integer(type) or pa.types.is_floating(type)):
            raise SchemaError(f"a key column must be a number; got {type}; cast it in the condition")
        dtype = number_type(type)
        real, bits, codes = (np.float32, INT32, _codes32) if self._single else (np.float64, INT64, _codes64)
        if dtype == real:
            return lambda column: codes(raw(column, bits))
        return lambda column: codes(raw(column, dtype).astype(real).view(bits))

    def values(self, codes: np.ndarray) -> np.ndarray:
        magnitude = np.minimum(np.abs(codes), self._infinity - 1)
        real = magnitude.astype(np.int32).view(np.float32) if self._single else magnitude.view(np.float64)
        return np.copysign(real.astype(np.float64), codes)

    @property
    def floating(self) -> bool:
        return True

    def proportional(self, codes: np.ndarray, factor: float) -> np.ndarray:
        out = np.empty_like(codes)
        proportional_codes(codes, factor, self._single, out)
        return out

    def bounder(self, interval: Interval, probing: Side) -> Bounder:
        if self.exact and interval.is_equality and interval.form != "difference":
            return lambda keys: (keys.copy(), keys.copy())
        bounds = self._kernel_bounds(*self._plan(interval, probing))
        return bounds if self.exact else self._widened(bounds)

    def _plan(self, interval: Interval, probing: Side) -> tuple[Callable[..., None], Ends]:
        """The kernel for what the text computes, and the opposite value's ends as it takes them."""
        low, above = self._offset(interval.low), int(interval.low_open)
        high, below = self._offset(interval.high), int(interval.high_open)
        if interval.form == "difference":
            return difference_bounds, (low, above, high, below) if probing == "right" else (
                -high,
                below,
                -low,
                above,
            )
        if interval.form == f"add_{probing}":
            return computed_key_bounds, (low, above, high, below) if probing == "right" else (
                -high,
                below,
                -low,
                above,
            )
        return computed_opposite_bounds, (high, below, low, above) if probing == "left" else (
            -low,
            above,
            -high,
            below,
        )

    def _kernel_bounds(self, kernel: Callable[..., None], ends: Ends) -> Bounder:
        single = self._single

        def bounds(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            lo, hi = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
            kernel(keys, *ends, single, lo, hi)
            return lo, hi

        return bounds

    def _widened(self, bounds: Bounder) -> Bounder:
        """Bounds that hold for every key, and every opposite value, within SLACK codes of the one given."""
        least, most = -self._infinity, self._infinity + 1

        def widened(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            lo = np.maximum(bounds(np.maximum(keys - SLACK, least))[0] - SLACK, least)
            hi = np.minimum(bounds(np.minimum(keys + SLACK, most))[1] + SLACK, most)
            return lo, np.maximum(hi, lo - 1)

        return widened

    def _offset(self, offset: Offset | None) -> float:
        if offset is None:
            return OPEN
        if isinstance(offset, timedelta):
            raise ConditionError(
                f"an offset on {self.name} must be a number; got {offset}; compare dates or times instead"
            )
        try:
            with np.errstate(over="ignore"):
                value = float(np.float32(offset)) if self._single else float(offset)
        except OverflowError:
            value = float("inf")
        if np.isinf(value):
            raise ConditionError(
                f"an offset on {self.name} must be finite there; got {offset}; cast to a wider type"
            )
        return value


class WideDecimalDomain(FloatDomain):
    """Decimals of more than 18 digits: coded as the nearest double, compared exactly afterwards."""

    def __init__(self, name: str) -> None:
        super().__init__(name, loose=True)

    def _plan(self, interval: Interval, probing: Side) -> tuple[Callable[..., None], Ends]:
        # Decimal sums are exact, so every form is the same; an offset lies between its double's neighbours.
        low, high = self._offset(interval.low), self._offset(interval.high)
        if probing == "left":
            low, high = -high, -low
        return computed_key_bounds, (
            float(np.nextafter(low, -np.inf)),
            0,
            float(np.nextafter(high, np.inf)),
            0,
        )


def _codes64(bits: np.ndarray[Any, Any]) -> np.ndarray:
    out = np.empty(bits.size, np.int64)
    float64_codes(bits, out)
    return out


def _codes32(bits: np.ndarray[Any, Any]) -> np.ndarray:
    out = np.empty(bits.size, np.int64)
    float32_codes(bits, out)
    return out
