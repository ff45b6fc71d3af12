"""Who came when: arrival numbers, late rows, watermark, and what each row may see of the other stream.

This is the one rule of the engine. A row gets the next arrival number of its stream. As a probe it carries a validity range over the
other stream: arrival numbers [lo, hi) and, for time windows, time codes [lo, hi]. A pair is a result iff the condition holds
and the stored row lies in the probing row's range. Nothing else decides, so expiry is only garbage collection.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from watersmeet.kernels.arrival import count_seen, judge
from watersmeet.streams.clock import BOTTOM, TOP, TimeAxis
from watersmeet.streams.window import Window

_NONE = np.empty(0, np.int64)


@dataclass(slots=True)
class Validity:
    """What the rows of one block may match of the other stream. Scalars hold for all rows of the block."""

    arrival_lo: int | np.ndarray
    arrival_hi: int | np.ndarray
    time_lo: np.ndarray | None = None
    time_hi: np.ndarray | None = None

    def part(self, start: int, stop: int) -> "Validity":
        """The ranges of the rows [start, stop) of the block."""
        if isinstance(self.arrival_lo, int) and isinstance(self.arrival_hi, int) and self.time_lo is None:
            return self
        return Validity(
            *(bound[start:stop] if isinstance(bound, np.ndarray) else bound for bound in self._bounds())
        )

    def _bounds(self) -> tuple[Any, ...]:
        return self.arrival_lo, self.arrival_hi, self.time_lo, self.time_hi


@dataclass(slots=True)
class Arrived:
    """One stream's share of a push: which rows were accepted, and what they may see."""

    late: np.ndarray | None  # mask over the pushed rows; None: nobody was late
    times: np.ndarray | None  # codes of the accepted rows' times
    validity: Validity


class Arrivals:
    """Counts, clocks and watermark of two streams. ``admit`` gives a verdict; ``commit`` makes it count."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = tuple(windows)
        self.timed = tuple(window.timed for window in windows)
        self._some_timed = any(self.timed)
        self.counts = np.zeros(2, np.int64)
        # [largest time seen of 0, of 1, largest (time - lateness) of 0, of 1]; an untimed stream holds nobody back.
        self.clock = np.array([BOTTOM, BOTTOM, *(BOTTOM if self.timed[k] else TOP for k in (0, 1))])
        self.axis: TimeAxis | None = None

    def change_axis(self, axis: TimeAxis | None, latest: Sequence[np.ndarray | None]) -> None:
        """Go over to another axis. ``latest``: of each stream, the code on it of the largest time seen, if any."""
        self.axis = axis
        for k, code in enumerate(latest):
            if code is not None:
                self.clock[k] = code[0]
                self.clock[2 + k] = self._ahead(k, code)[0]

    @property
    def watermark(self) -> int:
        """Code of the watermark; BOTTOM until every timed stream has been seen, or where no stream is timed."""
        watermark = int(min(self.clock[2], self.clock[3]))
        return BOTTOM if watermark == TOP and self.axis is None else watermark

    def admit(
        self, sizes: Sequence[int], times: Sequence[np.ndarray | None], order: np.ndarray | None, first: int
    ) -> tuple[tuple[Arrived, Arrived], np.ndarray, np.ndarray]:
        """Judge the pushed rows; returns the verdicts and the new counts and clock, and changes nothing.

        ``order``: the stream of each row in arrival order; None: all rows of stream ``first``, then all of the other.
        """
        counts, clock = self.counts.copy(), self.clock.copy()
        if not self._some_timed:
            return self._admit_untimed(sizes, order, first, counts), counts, clock
        if order is None:
            order = np.repeat(np.array([first, 1 - first], np.uint8), [sizes[first], sizes[1 - first]])
        codes = [_NONE if t is None else t for t in times]
        ahead = [self._ahead(k, codes[k]) for k in (0, 1)]
        late = [np.empty(n, np.bool_) for n in sizes]
        seen = [np.empty(n, np.int64) for n in sizes]
        clocks = [np.empty(n, np.int64) for n in sizes]
        judge(order, codes[0], ahead[0], codes[1], ahead[1], clock, counts, *late, *seen, *clocks)
        verdicts = [self._verdict(k, late[k], times[k], seen[k], clocks[k]) for k in (0, 1)]
        return (verdicts[0], verdicts[1]), counts, clock

    def commit(self, counts: np.ndarray, clock: np.ndarray) -> None:
        self.counts, self.clock = counts, clock

    def moved(self, latest: Sequence[int | None]) -> np.ndarray:
        """The clock once times with these codes have been seen of the streams; None, and a stream without time, moves nothing."""
        clock = self.clock.copy()
        for k, code in enumerate(latest):
            if code is not None and self.timed[k]:
                ahead = self._ahead(k, np.array([code]))[0]
                clock[k], clock[2 + k] = max(clock[k], code), max(clock[2 + k], ahead)
        return clock

    def count(self, k: int, rows: int) -> None:
        """Rows of stream k have come, and no time window is there to ask. The old counts stay as they were, for who has hold of them."""
        self.counts = counts = self.counts.copy()
        counts[k] += rows

    def at(self, clock: np.ndarray) -> "Arrivals":
        """As it stood when the clock was so."""
        then = Arrivals(self.windows)
        then.counts, then.clock, then.axis = self.counts, clock, self.axis
        return then

    def _admit_untimed(
        self, sizes: Sequence[int], order: np.ndarray | None, first: int, counts: np.ndarray
    ) -> tuple[Arrived, Arrived]:
        before = (int(counts[0]), int(counts[1]))
        seen: list[int | np.ndarray] = [0, 0]
        if order is None:
            seen[first], seen[1 - first] = before[1 - first], before[first] + sizes[first]
        else:
            arrays = [np.empty(n, np.int64) for n in sizes]
            count_seen(order, before[0], before[1], *arrays)
            seen = list(arrays)
        counts[0] += sizes[0]
        counts[1] += sizes[1]
        left, right = (Arrived(None, None, self._counted(k, seen[k])) for k in (0, 1))
        return left, right

    def _counted(self, k: int, seen: int | np.ndarray) -> Validity:
        return Validity(self.windows[1 - k].lowest(seen), seen)

    def _ahead(self, k: int, codes: np.ndarray) -> np.ndarray:
        if not codes.size:
            return codes
        assert self.axis is not None
        return self.axis.shift(codes, -self.axis.lateness[k])

    def _verdict(
        self, k: int, late: np.ndarray, times: np.ndarray | None, seen: np.ndarray, clocks: np.ndarray
    ) -> Arrived:
        someone_late = bool(late.any())
        if someone_late:
            kept = ~late
            seen, clocks = seen[kept], clocks[kept]
            times = None if times is None else times[kept]
        hi: int | np.ndarray = seen
        if seen.size and seen[0] == seen[-1]:  # ascending, so all the same
            hi = int(seen[0])
        validity = self._counted(k, hi)
        if self.timed[1 - k] and self.axis is not None:  # no axis: the other stream has no rows yet
            if times is not None:
                validity.time_lo, validity.time_hi = self.axis.bounds(k, times)
            else:  # an untimed row sees the other stream's window at that stream's own clock
                started = clocks > BOTTOM
                validity.time_lo = np.full(clocks.size, BOTTOM)
                validity.time_lo[started] = self.axis.shift(clocks[started], -self.axis.duration[1 - k])
                validity.time_hi = np.full(clocks.size, TOP)
        return Arrived(late if someone_late else None, times, validity)

    def gone_before(self, k: int) -> tuple[int, int]:
        """What of stream k can never match again: arrival numbers below the first, time codes below the second."""
        if self.timed[k] and self.axis is not None:
            now = self.watermark if self.timed[1 - k] else int(self.clock[k])
            return 0, self.axis.earliest(k, now) if now > BOTTOM else BOTTOM
        return self.windows[k].lowest(int(self.counts[k])), BOTTOM
