"""Domains whose values are integers: integers, booleans, decimals without their point, temporal types.

A code is the number itself (an unsigned 64-bit number is shifted down by 2**63), so an offset is an addition.
Additions never wrap. Where the text's own arithmetic saturates at the ends of int64 the bounds say what it
would find; ``Arithmetic`` lists the three ways.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pyarrow as pa

from watersmeet.codes.domain import Bounder, Domain, Encoder
from watersmeet.codes.interval import Interval, Offset, Side
from watersmeet.errors import ConditionError
from watersmeet.kernels.code import INT_MAX, INT_MIN, integer_bounds

NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "day": 86_400 * 10**9}
ROOM = (
    2**62
)  # codes of a narrow domain are smaller than this; so no sum of code and (clipped) offset overflows
NEVER = 2**66  # an offset that carries every code out of range


class Arithmetic(Enum):
    """What the text's additions do at the ends of int64."""

    SATURATE = "saturate"  # integers and temporal types: the sum stays at the end
    EXTEND = "extend"  # decimals and unsigned 64-bit numbers: the sum is exact, as if there were no ends
    LOOSE = "loose"  # the ends stand for everything beyond them; bounds may hold too much, never too little


@dataclass(frozen=True)
class End:
    """One end of a band as a key sees it: the opposite code is at least (at most) key + shift, or beyond.

    ``rule`` says how sums behave at ``ends``: "key" (the text adds to the key; the sum stays at the end),
    "opposite" (the same, added to the opposite value), "exact" (sums have no ends) or "loose" (an end stands
    for all that is beyond it).
    """

    shift: int
    open: bool
    rule: str
    ends: tuple[int, int] = (INT_MIN, INT_MAX)

    def lower(self, key: int) -> int:
        """The least opposite code; above the largest if there is none."""
        (least, most), sum = self.ends, key + self.shift
        if self.rule == "loose":
            return least if key == least else min(max(sum, least), most)
        if self.rule == "key":
            return min(max(sum, least), most) + self.open
        if self.rule == "opposite" and key == (most if self.open else least):
            return most + 1 if self.open else least
        return max(sum + self.open, least)

    def upper(self, key: int) -> int:
        """The largest opposite code; below the least if there is none."""
        (least, most), sum = self.ends, key + self.shift
        if self.rule == "loose":
            return most if key == most else min(max(sum, least), most)
        if self.rule == "key":
            return min(max(sum, least), most) - self.open
        if self.rule == "opposite" and key == (least if self.open else most):
            return least - 1 if self.open else most
        return min(sum - self.open, most)


class IntegerDomain(Domain):
    """Codes count steps of ``step`` value units; ``narrow``: few enough that code + offset cannot overflow.

    ``ends`` are the numbers at which the text's sums saturate.
    """

    def __init__(
        self,
        name: str,
        encoder: Callable[[pa.DataType], Encoder],
        *,
        arithmetic: Arithmetic,
        narrow: bool = False,
        step: Fraction = Fraction(1),
        zero: int = 0,
        ends: tuple[int, int] = (INT_MIN, INT_MAX),
        unit: str | None = None,
    ) -> None:
        super().__init__(name, exact=arithmetic is not Arithmetic.LOOSE, ordered=True, unit=unit)
        self._encoder_for, self._arithmetic, self._narrow = encoder, arithmetic, narrow
        self._step, self._zero, self._sum_ends = step, zero, ends

    def _encoder(self, type: pa.DataType) -> Encoder:
        return self._encoder_for(type)

    def values(self, codes: np.ndarray) -> np.ndarray:
        if self._zero:
            return codes.astype(np.float64) - float(self._zero)
        return codes * float(self._step) if self._step >= 1 else codes / float(1 / self._step)

    def bounder(self, interval: Interval, probing: Side) -> Bounder:
        if interval.is_equality and interval.form != "difference":
            return lambda keys: (keys.copy(), keys.copy())
        lower, upper = self._ends(interval, probing)
        return _narrow_bounder(lower, upper) if self._narrow else _wide_bounder(lower, upper)

    def _ends(self, interval: Interval, probing: Side) -> tuple[End | None, End | None]:
        """The interval as seen from the probing side: lower and upper end of the opposite stream's codes."""
        rule = self._rule(interval, probing)
        low = self._end(interval.low, interval.low_open, ceil, rule)
        high = self._end(interval.high, interval.high_open, floor, rule)
        if interval.form == "difference" and self._arithmetic is not Arithmetic.EXTEND:
            low, high = _low_of_difference(low), _high_of_difference(high)
        if probing == "right":
            return low, high
        return high and replace(high, shift=-high.shift), low and replace(low, shift=-low.shift)

    def _rule(self, interval: Interval, probing: Side) -> str:
        if self._arithmetic is Arithmetic.LOOSE:
            return "loose"
        if self._arithmetic is Arithmetic.EXTEND or interval.form == "difference":
            return "exact"
        return "key" if interval.form == f"add_{probing}" else "opposite"

    def _end(
        self, offset: Offset | None, open: bool, inwards: Callable[[Fraction], int], rule: str
    ) -> End | None:
        if offset is None:
            return None
        steps = self._steps(offset)
        if steps.denominator == 1:
            return End(int(steps), open, rule, self._sum_ends)
        # Between two codes strict or not is the same; adding a fraction is decimal, which has no ends.
        return End(inwards(steps), False, "loose" if rule == "loose" else "exact")

    def _steps(self, offset: Offset) -> Fraction:
        if isinstance(offset, timedelta):
            if self.unit is None:
                raise ConditionError(
                    f"an offset on {self.name} must be a number; got {offset}; compare dates or times instead"
                )
            return Fraction(offset // timedelta(microseconds=1) * 1000, NANOSECONDS[self.unit])
        return Fraction(offset) / self._step


def _low_of_difference(low: End | None) -> End | None:
    """What left - right >= low asks when the difference stays within int64."""
    if low is None or low.shift + low.open <= INT_MIN:
        return None
    return End(NEVER, False, "exact") if low.shift + low.open > INT_MAX and low.rule != "loose" else low


def _high_of_difference(high: End | None) -> End | None:
    if high is None or high.shift - high.open >= INT_MAX:
        return None
    return End(-NEVER, False, "exact") if high.shift - high.open < INT_MIN and high.rule != "loose" else high


def _narrow_bounder(lower: End | None, upper: End | None) -> Bounder:
    """No key is near the ends of int64: additions are all there is."""
    least = 0 if lower is None else min(max(lower.shift + lower.open, -ROOM), ROOM)
    most = 0 if upper is None else min(max(upper.shift - upper.open, -ROOM), ROOM)
    has_lower, has_upper = lower is not None, upper is not None

    def bounds(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lo, hi = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
        integer_bounds(keys, has_lower, least, has_upper, most, INT_MIN, INT_MAX, lo, hi)
        return lo, hi

    return bounds


def _wide_bounder(lower: End | None, upper: End | None) -> Bounder:
    """Keys too near the ends for a plain addition, few if any, are looked at one by one."""
    least = 0 if lower is None else lower.shift + lower.open
    most = 0 if upper is None else upper.shift - upper.open
    ends = [end.ends for end in (lower, upper) if end is not None]
    safe_from = max([INT_MIN, *(end[0] for end in ends)]) + 1 + max(0, -least, -most)
    safe_to = min([INT_MAX, *(end[1] for end in ends)]) - 1 - max(0, least, most)
    if safe_from > safe_to or max(abs(least), abs(most)) > INT_MAX:
        least = most = 0
        safe_from, safe_to = INT_MAX, INT_MIN
    has_lower, has_upper = lower is not None, upper is not None

    def bounds(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lo, hi = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
        edge = integer_bounds(keys, has_lower, least, has_upper, most, safe_from, safe_to, lo, hi)
        if edge:
            for i in np.flatnonzero((keys < safe_from) | (keys > safe_to)):
                lo[i], hi[i] = _bounds_of(int(keys[i]), lower, upper)
        return lo, hi

    return bounds


def _bounds_of(key: int, lower: End | None, upper: End | None) -> tuple[int, int]:
    lo = INT_MIN if lower is None else lower.lower(key)
    hi = INT_MAX if upper is None else upper.upper(key)
    if lo > INT_MAX:
        return INT_MAX, INT_MAX - 1
    if hi < INT_MIN:
        return INT_MIN + 1, INT_MIN
    return lo, max(hi, lo - 1)
