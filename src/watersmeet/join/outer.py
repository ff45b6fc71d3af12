"""Outer, semi and anti joins: which rows have found a partner, and which never will.

Each row of a tracked stream has a flag, *done*: it was matched, or it was already emitted. A row is emitted without a partner once, when
it can no longer match: it has left its window, the watermark has passed it, or the streams have ended.
"""

from dataclasses import dataclass

import numpy as np

from watersmeet.errors import OptionError
from watersmeet.join.chain import Chain, SubWindow
from watersmeet.join.matches import NOBODY
from watersmeet.kernels.filter import mark
from watersmeet.streams.clock import BOTTOM


@dataclass(frozen=True)
class How:
    """A join type: which streams (0 left, 1 right) are tracked, and what becomes of pairs."""

    name: str
    unmatched: tuple[int, ...] = ()  # streams whose partnerless rows are emitted
    semi: int | None = None  # emit this stream's rows at their first match, and no pairs
    pairs: bool = True

    def tracks(self, k: int) -> bool:
        return k in self.unmatched or k == self.semi

    @property
    def one_sided(self) -> int | None:
        """The only stream that appears in the output of a semi or anti join."""
        return None if self.pairs else (self.semi if self.semi is not None else self.unmatched[0])


_TYPES = [
    How("inner"), How("left", (0,)), How("right", (1,)), How("full", (0, 1)),
    How("left_semi", (), 0, False), How("right_semi", (), 1, False),
    How("left_anti", (0,), None, False), How("right_anti", (1,), None, False),
]  # fmt: skip
_BY_NAME = {how.name: how for how in _TYPES}
_BY_NAME |= {
    "semi": _BY_NAME["left_semi"], "anti": _BY_NAME["left_anti"], "outer": _BY_NAME["full"],
    "left_outer": _BY_NAME["left"], "right_outer": _BY_NAME["right"], "full_outer": _BY_NAME["full"],
}  # fmt: skip


def join_type(name: object) -> How:
    if not isinstance(name, str) or name not in _BY_NAME:
        raise OptionError(
            f"how= must be one of {', '.join(how.name for how in _TYPES)}, semi, anti; got {name!r}"
        )
    return _BY_NAME[name]


class Journal:
    """The flags that a push has set, so that they can be taken back. A change is written down before it is made."""

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes: list[tuple[SubWindow, np.ndarray, int]] = []

    def set_done(self, sub: SubWindow, rows: np.ndarray) -> None:
        """Flag rows of a sub-window, by offset; none of them was flagged before."""
        assert sub.done is not None
        self._changes.append((sub, rows, sub.swept))
        sub.done[rows] = True

    def clear(self) -> None:
        """The flags stay."""
        self._changes = []

    def take_back(self) -> None:
        """The flags are as they were. May be repeated, should it be interrupted."""
        for sub, rows, swept in reversed(self._changes):
            assert sub.done is not None
            sub.done[rows], sub.swept = False, swept


def note_matches(chain: Chain, arrivals: np.ndarray, journal: Journal) -> np.ndarray:
    """Flag the rows as matched; returns those that were not flagged before, once each, in arrival order."""
    found = []
    for sub in chain.subwindows:
        inside = arrivals[(arrivals >= sub.base) & (arrivals < sub.end)]
        if inside.size:
            fresh = _not_done(sub, inside)
            journal.set_done(sub, fresh)
            found.append(fresh + sub.base)
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _not_done(sub: SubWindow, arrivals: np.ndarray) -> np.ndarray:
    """Of these rows of a sub-window, the offsets of those that are not flagged, once each, ascending."""
    assert sub.done is not None
    if arrivals.size < sub.count // 16:
        rows = np.unique(arrivals - sub.base)
        return rows[~sub.done[rows]]
    matched = np.zeros(sub.count, np.bool_)  # many rows: to mark them costs less than to sort them
    mark(matched, arrivals, sub.base)
    return np.flatnonzero(matched & ~sub.done[: sub.count])


def sweep(chain: Chain, arrival: int, time: int, journal: Journal) -> np.ndarray:
    """The rows below ``arrival`` or with a time code below ``time`` that have found nobody; they are flagged as done."""
    found = [
        _sweep_one(sub, arrival, time, journal)
        for sub in chain.subwindows
        if sub.base < arrival or sub.min_time < time
    ]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _sweep_one(sub: SubWindow, arrival: int, time: int, journal: Journal) -> np.ndarray:
    """Of the rows that are over, those that are not done. Where they are the oldest ones, no row is looked at twice."""
    assert sub.done is not None
    start, stop = sub.swept, min(max(arrival - sub.base, 0), sub.count)
    over: np.ndarray | None = None
    if sub.times is not None and time > BOTTOM:
        times = sub.times[: sub.count]
        if sub.in_order:
            stop = max(stop, int(np.searchsorted(times, time)))
        else:
            stop, over = sub.count, (times[start:] < time) | (np.arange(start, sub.count) < stop)
    if stop <= start:
        return np.empty(0, np.int64)
    waiting = ~sub.done[start:stop]
    found = np.flatnonzero(waiting if over is None else waiting & over) + start
    journal.set_done(sub, found)
    if over is None:
        sub.swept = stop
    return found + sub.base


def alone(side: int, arrivals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows without a partner as (left, right) pairs."""
    nobody = np.full(arrivals.size, NOBODY, np.int64)
    return (arrivals, nobody) if side == 0 else (nobody, arrivals)
