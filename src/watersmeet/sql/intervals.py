"""Atoms, what an index can answer, and their AND and OR.

An atom says: the left key lies in one of some intervals around the right key. The intervals of one atom are
in ascending order of their offsets and do not overlap. Two atoms with the same keys are combined by their
offsets alone, and only where rounding cannot make that wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

from watersmeet.codes import Domain, Form, Interval
from watersmeet.sql.tree import Expr

End = tuple[Any, bool]
"""An offset (None: no end) and whether it is strict."""

NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "day": 86_400 * 10**9}


@dataclass(frozen=True)
class Atom:
    """The left key lies in one of ``intervals`` around the right key; bounds widened by ``slack`` codes.

    ``nan``: a difference that is NaN, the largest of all values, satisfies the text, which intervals cannot say.
    """

    left: Expr
    right: Expr
    domain: Domain
    intervals: tuple[Interval, ...]
    null_safe: bool = False
    slack: int = 0
    nan: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "intervals", tuple(_in_units(i, self.domain) for i in self.intervals))

    @property
    def key(self) -> tuple[Any, ...]:
        """Atoms with the same key can be combined."""
        return (self.left, self.right, self.domain.name, self.domain.exact, self.null_safe, self.slack)

    @property
    def floating(self) -> bool:
        """Whether offsets are subject to rounding."""
        return self.domain.name.startswith("float")

    @property
    def usable(self) -> bool:
        """Whether the intervals say all that the text says."""
        return not (self.nan and self.floating)


def _in_units(interval: Interval, domain: Domain) -> Interval:
    """Offsets as plain numbers: of the domain's unit, if they are spans of time."""
    if domain.unit is None:
        return interval
    return replace(interval, low=_count(interval.low, domain.unit), high=_count(interval.high, domain.unit))


def _count(offset: Any, unit: str) -> Any:
    if not isinstance(offset, timedelta):
        return offset
    count = Fraction(offset // timedelta(microseconds=1) * 1000, NANOSECONDS[unit])
    return int(count) if count.denominator == 1 else count


# AND and OR. Sums round or saturate, so that different offsets can give the same value; and where a strict
# end meets another end at such a value, only the values tell what holds. Those cases are not combined. Nor are
# more than _MOST intervals: each is a search of its own, and to combine n of them one by one takes n * n steps.

_MOST = 256


def intersected(first: Atom, second: Atom) -> Atom | None:
    """Both at once; None if offsets alone cannot tell. No interval left: never true."""
    kept: list[Interval] = []
    if len(first.intervals) + len(second.intervals) > _MOST:
        return None
    for one in first.intervals:
        for two in second.intervals:
            form = _shared_form(one, two)
            low = _tighter((one.low, one.low_open), (two.low, two.low_open), 1)
            high = _tighter((one.high, one.high_open), (two.high, two.high_open), -1)
            if form is None or low is None or high is None:
                return None
            both = Interval(low[0], high[0], low[1], high[1], form)
            empty = _is_empty(both)
            if empty is None:
                return None
            if not empty:
                kept.append(both)
    return replace(first, intervals=tuple(kept), nan=first.nan and second.nan)


def _shared_form(one: Interval, two: Interval) -> Form | None:
    """Without offsets "add_right" and "add_left" are the same; otherwise the two must compute alike."""
    if one.form == two.form:
        return one.form
    if "difference" in (one.form, two.form):
        return None
    for first, second in ((one, two), (two, one)):
        if not first.low and not first.high:
            return second.form
    return None


def _tighter(one: End, two: End, sign: int) -> End | None:
    """The stricter of two lower (sign 1) or upper (sign -1) ends; None if only values can tell."""
    if one[0] is None or two[0] is None:
        return two if one[0] is None else one
    if one[0] == two[0]:
        return one[0], one[1] or two[1]
    tight, loose = (one, two) if (one[0] > two[0]) == (sign > 0) else (two, one)
    return None if loose[1] and not tight[1] else tight


def _looser(one: End, two: End, sign: int) -> End | None:
    """The less strict of two lower (sign 1) or upper (sign -1) ends; None if only values can tell."""
    if one[0] is None or two[0] is None:
        return None, False
    if one[0] == two[0]:
        return one[0], one[1] and two[1]
    loose, tight = (two, one) if (one[0] > two[0]) == (sign > 0) else (one, two)
    return None if loose[1] and not tight[1] else loose


def _is_empty(interval: Interval) -> bool | None:
    """Whether nothing can lie in it; None for [5, 2], where rounding may make the two ends one value."""
    low, high = _ends(interval)
    if low is None or high is None or low < high:
        return False
    if interval.low_open or interval.high_open:
        return True
    return False if low == high else None


def _ends(interval: Interval) -> tuple[Any, Any]:
    """Offsets of one atom are all plain numbers, so they compare."""
    return interval.low, interval.high


def united(first: Atom, second: Atom) -> Atom | None:
    """Either; the intervals in order, those that overlap made one; None if offsets alone cannot tell."""
    whole = (*first.intervals, *second.intervals)
    if len(whole) > _MOST:
        return None
    if None in {_shared_form(one, two) for one in first.intervals for two in second.intervals}:
        return None
    ordered = sorted(whole, key=lambda i: (i.low is not None, i.low or 0, i.low_open))
    merged = ordered[:1]
    for interval in ordered[1:]:
        if _apart(merged[-1], interval):
            merged.append(interval)
            continue
        joined = _joined(merged[-1], interval)
        if joined is None:
            return None
        merged[-1] = joined
    form = next((i.form for i in whole if i.low or i.high), whole[0].form)
    formed = tuple(replace(interval, form=form) for interval in merged)
    return replace(first, intervals=formed, nan=first.nan or second.nan)


def _apart(one: Interval, two: Interval) -> bool:
    """Whether two intervals, in order, have a gap between them, if only the value where strict ends meet."""
    high, low = _ends(one)[1], _ends(two)[0]
    if high is None or low is None:
        return False
    return bool(high < low) or (high == low and one.high_open and two.low_open)


def _joined(one: Interval, two: Interval) -> Interval | None:
    if one.high_open and two.low_open and one.high is not None and two.low is not None:
        return None  # where rounding makes these two ends one value, that value is in neither
    low = _looser((one.low, one.low_open), (two.low, two.low_open), 1)
    high = _looser((one.high, one.high_open), (two.high, two.high_open), -1)
    if low is None or high is None:
        return None
    return Interval(low[0], high[0], low[1], high[1], one.form)
