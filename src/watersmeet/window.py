"""What part of a stream is still joinable: ``Rows(n)``, ``Range(duration, time=, lateness=)``, ``Unbounded()``.

Windows are frozen values, checked when they are made; whether a duration fits its time column is known once the schema is.
"""

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from watersmeet.errors import OptionError

Duration = str | timedelta | int | float

_NANOSECONDS = {
    "ns": 1, "nanosecond": 1, "us": 10**3, "microsecond": 10**3, "ms": 10**6, "millisecond": 10**6,
    "s": 10**9, "sec": 10**9, "second": 10**9, "min": 60 * 10**9, "minute": 60 * 10**9,
    "h": 3600 * 10**9, "hour": 3600 * 10**9, "d": 86400 * 10**9, "day": 86400 * 10**9, "w": 604800 * 10**9, "week": 604800 * 10**9,
}  # fmt: skip
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-zµ]+)\s*")


def nanoseconds(duration: str | timedelta) -> Fraction:
    """The length of a duration given as text ("10 s", "15 min") or as a timedelta."""
    if isinstance(duration, timedelta):
        return Fraction(duration // timedelta(microseconds=1)) * 1000
    match = _DURATION.fullmatch(duration)
    name = match[2].lower().replace("µ", "u") if match else ""
    unit = _NANOSECONDS.get(name) or _NANOSECONDS.get(name.removesuffix("s"))
    if match is None or unit is None:
        raise OptionError(
            f"a duration must be a number and a unit, such as '10 s' or '15 min'; got {duration!r}; "
            "use one of ns, us, ms, s, min, h, d, w"
        )
    return Fraction(match[1]) * unit


def _check_duration(what: str, duration: object) -> None:
    if isinstance(duration, bool) or not isinstance(duration, str | timedelta | int | float):
        raise OptionError(f"{what} must be a text like '10 s', a timedelta or a number; got {duration!r}")
    if isinstance(duration, str | timedelta):
        negative = nanoseconds(duration) < 0
    else:
        negative = not (math.isfinite(duration) and duration >= 0)
    if negative:
        raise OptionError(f"{what} must be finite and not negative; got {duration!r}")


@dataclass(frozen=True)
class Rows:
    """The last ``n`` rows of the stream at the moment the other row arrives.

    >>> Rows(1000)
    Rows(n=1000)
    """

    n: int

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise OptionError(f"Rows(n) must be a whole number of at least 1; got {self.n!r}")


@dataclass(frozen=True)
class Range:
    """Rows whose time is at most ``duration`` before that of the other stream's row.

    ``time`` names the time column: a timestamp, date, duration or number. ``lateness`` says how long to wait for rows out of order;
    a row more than that behind the slowest stream's newest row is late. For a numeric time column both are numbers.

    >>> Range("15 min", time="ts", lateness="5 s")
    Range(duration='15 min', time='ts', lateness='5 s')
    """

    duration: Duration
    time: str = "ts"
    lateness: Duration = 0

    def __post_init__(self) -> None:
        _check_duration("Range(duration)", self.duration)
        _check_duration("Range(lateness=)", self.lateness)
        if not isinstance(self.time, str) or not self.time:
            raise OptionError(f"Range(time=) must name the time column; got {self.time!r}")


@dataclass(frozen=True)
class Unbounded:
    """Every row stays joinable for ever: the state grows with the stream."""


Window = Rows | Range | Unbounded
