"""What part of a stream is still joinable: ``Rows(n)``, ``Range(duration, time=, lateness=)``, ``Unbounded()``.

Windows are frozen values, checked when they are made; whether a duration fits its time column is known once the schema is. Every
window answers the same questions, so that nobody has to ask which kind it is:

- ``rows``: of how many rows it is; None if it does not count them.
- ``lowest(seen)``: the first arrival number that it holds for a row before which ``seen`` rows of the stream have come.
- ``endless``: whether it holds every row for ever.
- ``timed``, ``time``: whether it is of time, and the time column that it needs; None if it needs none.
- ``to_json()``: what ``window_from_json`` makes the same window of.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from watersmeet.errors import OptionError

Duration = str | timedelta | int | float
Seen = TypeVar("Seen", int, np.ndarray, int | np.ndarray)  # of one row, or of each of several

_NANOSECONDS = {
    "ns": 1, "nanosecond": 1, "us": 10**3, "microsecond": 10**3, "ms": 10**6, "millisecond": 10**6,
    "s": 10**9, "sec": 10**9, "second": 10**9, "min": 60 * 10**9, "minute": 60 * 10**9,
    "h": 3600 * 10**9, "hour": 3600 * 10**9, "d": 86400 * 10**9, "day": 86400 * 10**9, "w": 604800 * 10**9, "week": 604800 * 10**9,
}  # fmt: skip
MOST_ROWS = 2**62  # arrival numbers, and their differences, are int64
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


class _Untimed:
    """What windows without a time have in common."""

    timed: ClassVar[Literal[False]] = False
    time: ClassVar[None] = None


class _Uncounted:
    """What windows have in common that no number of rows bounds."""

    rows: ClassVar[None] = None
    endless: ClassVar[bool] = False

    def lowest(self, seen: int | np.ndarray) -> int:
        """The first arrival number that the window holds for a row before which ``seen`` rows have come."""
        return 0


@dataclass(frozen=True)
class Rows(_Untimed):
    """The last ``n`` rows of the stream at the moment the other row arrives.

    >>> Rows(1000)
    Rows(n=1000)
    """

    n: int
    endless: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            timed = isinstance(self.n, timedelta) or (isinstance(self.n, str) and _DURATION.fullmatch(self.n))
            hint = f"; for a time say Range({self.n!r}, time=...)" if timed else ""
            raise OptionError(f"Rows(n) must be a whole number of at least 1; got {self.n!r}{hint}")
        if self.n > MOST_ROWS:
            raise OptionError(
                f"Rows(n) must be at most {MOST_ROWS}; got {self.n}; for all rows say Unbounded()"
            )

    @property
    def rows(self) -> int:
        """Of how many rows the window is."""
        return self.n

    def lowest(self, seen: Seen) -> Seen:
        """The first arrival number that the window holds for a row before which ``seen`` rows have come."""
        return seen - self.n  # below 0 while the window fills

    def to_json(self) -> dict[str, Any]:
        """As a saved state has it."""
        return {"rows": self.n}


@dataclass(frozen=True)
class Passing(Rows):
    """No rows: a row is seen by nobody who comes later. Not for users: of a stream that is joined with tables alone."""

    n: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        """Less than a user may ask for."""


@dataclass(frozen=True)
class Range(_Uncounted):
    """Rows whose time is at most ``duration`` before that of the other stream's row.

    - ``duration``: a text with a unit ("10 s", "15 min"; ns, us, ms, s, min, h, d, w), a timedelta, or, for a numeric time
      column, a number.
    - ``time``: the name of the stream's time column: a timestamp, date, duration or number. Default "ts".
    - ``lateness``: how long to wait for rows out of order, like ``duration``. A row more than that behind the slowest
      stream's newest row is late: it is handed back, not joined. Default 0.

    >>> Range("15 min", time="ts", lateness="5 s")
    Range(duration='15 min', time='ts', lateness='5 s')
    """

    duration: Duration
    time: str = "ts"
    lateness: Duration = 0

    timed: ClassVar[Literal[True]] = True

    def __post_init__(self) -> None:
        _check_duration("Range(duration)", self.duration)
        _check_duration("Range(lateness=)", self.lateness)
        if not isinstance(self.time, str) or not self.time:
            raise OptionError(f"Range(time=) must name the time column; got {self.time!r}")

    def to_json(self) -> dict[str, Any]:
        """As a saved state has it."""
        return {
            "time": self.time,
            "duration": _length_to_json(self.duration),
            "lateness": _length_to_json(self.lateness),
        }


@dataclass(frozen=True)
class Unbounded(_Uncounted, _Untimed):
    """Every row stays joinable for ever: the state grows with the stream."""

    endless: ClassVar[bool] = True

    def to_json(self) -> dict[str, Any]:
        """As a saved state has it."""
        return {}


Window = Rows | Range | Unbounded
MOST_STREAMS = 32


def window_from_json(data: Mapping[str, Any]) -> Window:
    """The window that ``to_json`` wrote down."""
    if "rows" in data:
        return Rows(data["rows"])
    if "time" in data:
        return Range(_length_from_json(data["duration"]), data["time"], _length_from_json(data["lateness"]))
    return Unbounded()


def _length_to_json(length: Duration) -> Any:
    return {"microseconds": length // timedelta(microseconds=1)} if isinstance(length, timedelta) else length


def _length_from_json(length: Any) -> Duration:
    return timedelta(microseconds=length["microseconds"]) if isinstance(length, dict) else length


def named_windows(
    windows: Mapping[str, Window] | None,
    streams: Mapping[str, Window],
    options: Sequence[str],
    owner: str = "StreamJoin",
    least: int = 2,
    most: int = MOST_STREAMS,
) -> dict[str, Window]:
    """The streams' windows by name, from ``windows=`` or from keywords; ``options`` are the names that are no streams.

    ``owner``: who has the streams, at least and at most so many.
    """
    if windows is not None and not isinstance(windows, Mapping):
        raise OptionError(
            f"windows= must be a dict from stream to window, such as {{'r': Rows(1000), 's': Rows(1000)}}; got {windows!r}"
        )
    named = {**(windows or {}), **streams}
    if windows and streams:
        raise OptionError(
            "windows are given by windows= or by one keyword per stream; got both"
            f" ({', '.join(windows)}; {', '.join(streams)}); use one of them"
        )
    wrong = [name for name, window in named.items() if not isinstance(window, Window)]
    if not windows:
        _refuse_typos(wrong, len(named), options, owner, least)
    if wrong:
        name = wrong[0]
        raise OptionError(
            f"the window of stream {name!r} must be Rows(n), Range(duration, time=...) or Unbounded(); "
            f"got {_shown(named[name])}{_instead(name, named[name])}"
        )
    if not least <= len(named) <= most:
        raise OptionError(
            f"a {owner} must have {'one' if least == 1 else 'two'} to {most} streams, each with its window, such as r=Rows(1000), "
            f"s=Rows(1000); got {len(named)}: {', '.join(named) or 'none'}"
        )
    return named


def _refuse_typos(wrong: Sequence[str], given: int, options: Sequence[str], owner: str, least: int) -> None:
    """A keyword that is no window is an option's misspelt name, if enough streams are there or the name is that near."""
    for name in wrong:
        near = get_close_matches(name, options, 1, 0.75)
        if given - len(wrong) >= least or (near and given != least):
            hint = f"did you mean {near[0]!r}?" if near else f"its options are {', '.join(options)}"
            raise OptionError(f"{owner} has no option {name!r}; {hint}")


def _shown(window: object) -> str:
    return f"the class {window.__name__}" if isinstance(window, type) else repr(window)


def _instead(stream: str, window: object) -> str:
    """What was meant by a value that is no window, where it can be guessed."""
    if isinstance(window, int) and not isinstance(window, bool) and window > 0:
        return f"; for its last {window:,} rows say {stream}=Rows({window})"
    if isinstance(window, timedelta) or (isinstance(window, str) and _DURATION.fullmatch(window)):
        return (
            f"; for that much time say {stream}=Range({window!r}, time=...), with the name of its time column"
        )
    if window is None or window is Unbounded or str(window).lower() == "unbounded":
        return f"; for all its rows say {stream}=Unbounded()"
    return ""
