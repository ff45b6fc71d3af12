"""Which rows of a stream need no more attention from one join: they were matched, or already emitted.

Flags lie by arrival number, whatever segments the rows are in: they belong to the join, the rows to the stream. A change is written down
before it is made, so that a push can be taken back.
"""

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from watersmeet.kernels.filter import mark
from watersmeet.streams.clock import BOTTOM

_NOBODY = np.empty(0, np.int64)
Mark = tuple[int, int, np.ndarray, dict[int, int]]


class Rows(Protocol):
    """What is asked of a segment of rows."""

    base: int
    count: int
    times: np.ndarray | None
    min_time: int
    in_order: bool


class Flags:
    """Of one stream."""

    def __init__(self) -> None:
        self.first = self.end = 0  # arrival numbers of the rows that have a flag
        self._done = np.zeros(1024, np.bool_)
        self._swept: dict[int, int] = {}  # by segment's base: rows below this offset are all done
        self._changes: list[np.ndarray] = []

    def reach(self, end: int) -> None:
        """Rows have come, up to the arrival number ``end``; nobody has looked at them."""
        if end - self.first > self._done.size:
            fresh = np.zeros(max(2 * self._done.size, 2 * (end - self.first)), np.bool_)
            fresh[: self.end - self.first] = self._done[: self.end - self.first]
            self._done = fresh
        self.end = end

    def drop_before(self, arrival: int) -> None:
        """Rows have gone. Room is given back once they are half of it; the old flags stay as they were, for who goes back to them."""
        if self.first + self._done.size // 2 < arrival <= self.end:
            self._done = np.concatenate((self._done[arrival - self.first :], np.zeros(1024, np.bool_)))
            self.first = arrival
            self._swept = {base: offset for base, offset in self._swept.items() if base >= arrival}

    def between(self, start: int, stop: int) -> np.ndarray:
        """The flags of the rows [start, stop). Not to be written to."""
        return self._done[start - self.first : stop - self.first]

    def start_at(self, arrival: int) -> None:
        """Nobody asks for rows before this one."""
        self.first = self.end = arrival

    def restore(self, start: int, flags: np.ndarray) -> None:
        """Rows from ``start`` on, with flags from a saved state."""
        self.reach(start + flags.size)
        self._done[start - self.first : start - self.first + flags.size] = flags

    # ---- undo ---------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Where the flags stand: what ``back_to`` goes back to."""
        self._changes = []
        return self.first, self.end, self._done, dict(self._swept)

    def back_to(self, mark: Mark) -> None:
        """As it was at the mark. May be repeated, should it be interrupted."""
        first, end, done, swept = mark
        for rows in self._changes:
            done[rows[(rows >= first) & (rows < first + done.size)] - first] = False
        self.first, self.end, self._done, self._swept = first, end, done, dict(swept)

    def drop_from(self, arrival: int) -> None:
        """Forget the rows from ``arrival`` on; those that get these numbers next have found nobody yet."""
        self._done = self._done.copy()
        self._done[max(0, arrival - self.first) :] = False
        self.end = max(self.first, min(self.end, arrival))
        self._swept = {
            base: min(offset, arrival - base) for base, offset in self._swept.items() if base < arrival
        }

    # ---- who is done --------------------------------------------------------------------------------------------

    def match(self, arrivals: np.ndarray) -> np.ndarray:
        """Flag rows as matched; returns those that were not flagged before, once each, in arrival order."""
        if not arrivals.size:
            return _NOBODY
        span = self.end - self.first
        if arrivals.size < span // 16:
            offsets = arrivals - self.first
            fresh = _each_once(offsets[~self._done[offsets]])
        else:  # many rows: to mark them costs less than to sort them
            matched = np.zeros(span, np.bool_)
            mark(matched, arrivals, self.first)
            fresh = np.flatnonzero(matched & ~self._done[:span])
        return self._set(fresh + self.first)

    def _set(self, rows: np.ndarray) -> np.ndarray:
        self._changes.append(rows)
        self._done[rows - self.first] = True
        return rows

    def sweep(self, segments: Iterable[Rows], arrival: int, time: int) -> np.ndarray:
        """The rows below ``arrival`` or with a time code below ``time`` that have found nobody; they are flagged as done."""
        found = [
            self._sweep_one(segment, arrival, time)
            for segment in segments
            if segment.base < arrival or segment.min_time < time
        ]
        return np.concatenate(found) if found else _NOBODY

    def _sweep_one(self, segment: Rows, arrival: int, time: int) -> np.ndarray:
        """Of the rows that are over, those that are not done. Where they are the oldest ones, no row is looked at twice."""
        base, count = segment.base, segment.count
        start, stop = self._swept.get(base, 0), min(max(arrival - base, 0), count)
        over: np.ndarray | None = None
        if segment.times is not None and time > BOTTOM:
            times = segment.times[:count]
            if segment.in_order:
                stop = max(stop, int(np.searchsorted(times, time)))
            else:
                stop, over = count, (times[start:] < time) | (np.arange(start, count) < stop)
        if stop <= start:
            return _NOBODY
        waiting = ~self.between(base + start, base + stop)
        found = np.flatnonzero(waiting if over is None else waiting & over) + (base + start)
        self._set(found)
        if over is None:
            self._swept[base] = stop
        return found


def _each_once(numbers: np.ndarray) -> np.ndarray:
    """In order, without repetitions. ``np.unique`` takes five times as long for 4,500 numbers."""
    numbers.sort()
    repeated = numbers[1:] == numbers[:-1]
    return np.delete(numbers, np.flatnonzero(repeated)) if repeated.any() else numbers
