"""Who came when: arrival numbers, late rows, watermark, and what each row may see of the other streams.

This is the one rule of the engine. A row gets the next arrival number of its stream. As a probe it carries, for each other stream, a
validity range: arrival numbers [lo, hi) and, for time windows, time codes [lo, hi]. A combination of rows, one a stream, is a result
iff the condition holds and every pair of them is valid: the earlier row lies in the later one's range. Nothing else decides, so expiry
is only garbage collection.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from watersmeet.kernels.arrival import count_seen, judge
from watersmeet.streams.clock import BOTTOM, TOP, TimeAxis
from watersmeet.streams.window import Window

_NONE = np.empty(0, np.int64)

Gone = tuple[int, int]
"""What of a stream can never match again: arrival numbers below the first, time codes below the second."""


@dataclass(slots=True)
class Validity:
    """What the rows of one block may match of another stream. Scalars hold for all rows of the block."""

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

    def take(self, rows: np.ndarray) -> "Validity":
        """The ranges of these rows of the block."""
        if isinstance(self.arrival_lo, int) and isinstance(self.arrival_hi, int) and self.time_lo is None:
            return self
        return Validity(
            *(bound[rows] if isinstance(bound, np.ndarray) else bound for bound in self._bounds())
        )

    def within(self, lo: np.ndarray, hi: np.ndarray) -> "Validity":
        """What the ranges have of these times."""
        return replace(
            self,
            time_lo=lo if self.time_lo is None else np.maximum(self.time_lo, lo),
            time_hi=hi if self.time_hi is None else np.minimum(self.time_hi, hi),
        )

    def before(self, number: int) -> "Validity":
        """What the ranges have before an arrival number."""
        hi = self.arrival_hi
        return replace(
            self, arrival_hi=np.minimum(hi, number) if isinstance(hi, np.ndarray) else min(hi, number)
        )

    def _bounds(self) -> tuple[Any, ...]:
        return self.arrival_lo, self.arrival_hi, self.time_lo, self.time_hi


Sees = tuple[Validity | None, ...]  # by stream; None: its own


@dataclass(slots=True)
class Arrived:
    """One stream's share of a push: which rows were accepted, and what they may see."""

    late: np.ndarray | None  # mask over the pushed rows; None: nobody was late
    times: np.ndarray | None  # codes of the accepted rows' times; where late rows have numbers, of all rows
    sees: Sees

    def part(self, start: int, stop: int) -> Sees:
        """What the rows [start, stop) may see."""
        return tuple(None if validity is None else validity.part(start, stop) for validity in self.sees)

    def of(self, stream: int) -> Validity:
        """What the rows may see of another stream."""
        validity = self.sees[stream]
        assert validity is not None
        return validity


@dataclass(frozen=True, slots=True)
class Admission:
    """What was decided of a push before anything is changed."""

    arrived: tuple[Arrived, ...]  # by stream
    counts: np.ndarray  # rows accepted, with the push
    clock: np.ndarray  # with the push
    gone: tuple[Gone, ...]  # by stream, once the push is over
    interleaving: (
        np.ndarray | None
    )  # the stream of each pushed row, late ones too; None: one stream after the other
    turns: tuple[int, ...]  # the streams in the order in which they come, where ``interleaving`` does not say


def one_for_all(numbers: np.ndarray) -> int | np.ndarray:
    """One number where all are the same; they ascend."""
    return int(numbers[0]) if numbers.size and numbers[0] == numbers[-1] else numbers


class Arrivals:
    """Counts, clocks and watermark of some streams. ``admit`` decides; ``stand_at`` makes it count.

    ``by_push``: the watermark moves once after each push, and not with every row.
    """

    def __init__(self, windows: Sequence[Window], by_push: bool = False) -> None:
        self.windows, self.by_push = tuple(windows), by_push
        self.streams = len(self.windows)
        self.timed = tuple(window.timed for window in self.windows)
        self.some_timed = any(self.timed)
        self._timed_array = np.array(self.timed)
        # Whether a row without a time may have to know the clock of a stream that has one.
        self.mixed = self.some_timed and not all(self.timed)
        self.counts = np.zeros(self.streams, np.int64)
        # Largest time seen by stream, then largest (time - lateness) by stream; an untimed stream holds nobody back.
        self.clock = np.array([*[BOTTOM] * self.streams, *(BOTTOM if timed else TOP for timed in self.timed)])
        self.axis: TimeAxis | None = None
        # Whether late rows are counted, too: where several joins read one stream, a row may be late for one and not for another.
        self.number_late = False

    def change_axis(self, axis: TimeAxis | None, latest: Sequence[np.ndarray | None]) -> None:
        """Go over to another axis. ``latest``: of each stream, the code on it of the largest time seen, if any."""
        self.axis = axis
        for k, code in enumerate(latest):
            if code is not None:
                self.clock[k] = code[0]
                self.clock[self.streams + k] = self.ahead(k, code)[0]

    @property
    def watermark(self) -> int:
        """Code of the watermark; BOTTOM until every timed stream has been seen, or where no stream is timed."""
        return self._watermark(self.clock)

    @property
    def latest(self) -> np.ndarray:
        """The largest time of each stream that has them: codes."""
        return self.clock[: self.streams][self._timed_array]

    def _watermark(self, clock: np.ndarray) -> int:
        watermark = int(clock[self.streams :].min())
        return BOTTOM if watermark == TOP and self.axis is None else watermark

    def admit(
        self,
        sizes: Sequence[int],
        times: Sequence[np.ndarray | None],
        order: np.ndarray | None,
        turns: Sequence[int],
    ) -> Admission:
        """Judge the pushed rows, and change nothing.

        ``order``: the stream of each row in arrival order; None: all rows of one stream after the other, as ``turns`` says.
        """
        turns = tuple(turns)
        counts, clock = self.counts.copy(), self.clock.copy()
        if not self.some_timed:
            arrived = self._admit_untimed(sizes, order, turns, counts)
            return Admission(arrived, counts, clock, self.gone(counts, clock), order, turns)
        if order is None:
            arrived = self._admit_in_turn(sizes, times, turns, counts, clock)
            return Admission(arrived, counts, clock, self.gone(counts, clock), order, turns)
        starts = np.cumsum([0, *sizes])
        codes = [_NONE if t is None else t for t in times]
        rows = int(starts[-1])
        flat, ahead = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        for k, own in enumerate(codes):
            if own.size:
                flat[starts[k] : starts[k + 1]] = own
                ahead[starts[k] : starts[k + 1]] = self.ahead(k, own)
        late, seen = np.empty(rows, np.bool_), np.empty(self.streams * rows, np.int64)
        clocks = np.empty(self.streams * rows if self.mixed else 0, np.int64)
        judge(
            order,
            starts[:-1],
            self._timed_array,
            flat,
            ahead,
            clock,
            counts,
            late,
            seen,
            clocks,
            self.number_late,
            self.by_push,
        )
        parts = [slice(starts[k], starts[k + 1]) for k in range(self.streams)]
        by_stream = seen.reshape(self.streams, rows)
        by_clock = clocks.reshape(self.streams, rows if self.mixed else 0)
        arrived = tuple(
            self.verdict(k, late[part], times[k], by_stream[:, part], by_clock[:, part])
            for k, part in enumerate(parts)
        )
        return Admission(arrived, counts, clock, self.gone(counts, clock), order, turns)

    def _admit_in_turn(
        self,
        sizes: Sequence[int],
        times: Sequence[np.ndarray | None],
        turns: Sequence[int],
        counts: np.ndarray,
        clock: np.ndarray,
    ) -> tuple[Arrived, ...]:
        """All rows of a stream see the same of the others. Counts and clock are moved."""
        arrived: dict[int, Arrived] = {}
        for k in turns:
            own, late, rows = times[k], None, sizes[k]
            before = clock[: self.streams].tolist()
            if self.timed[k] and own is not None and own.size:
                late = self._late(k, own, clock)
                if late is not None and not self.number_late:
                    own = own[~late]
                    rows = own.size
            sees = tuple(
                None
                if j == k
                else self._seen(k, j, own, int(counts[j]), np.full(rows if own is None else 0, before[j]))
                for j in range(self.streams)
            )
            arrived[k] = Arrived(late, own, sees)
            counts[k] += rows
        return tuple(arrived[k] for k in range(self.streams))

    def _late(self, k: int, times: np.ndarray, clock: np.ndarray) -> np.ndarray | None:
        """Which of a stream's rows, that come one after the other, are late; None: nobody. The clock is moved.

        A late row is older than the watermark, and so than its own stream's clock: it moves nothing, and need not be left out first.
        """
        ahead, place = self.ahead(k, times), self.streams + k
        others = min(int(clock[self.streams + j]) for j in range(self.streams) if j != k)
        own, newest = int(clock[place]), int(ahead.max())
        clock[k] = max(int(clock[k]), int(times.max()))
        clock[place] = max(own, newest)
        if self.by_push:
            return self.behind(times)
        if int(times.min()) >= min(others, max(own, newest)):
            return None
        before = np.maximum.accumulate(np.concatenate(([own], ahead[:-1])))
        late: np.ndarray = times < np.minimum(before, others)
        return late if late.any() else None

    def behind(self, times: np.ndarray) -> np.ndarray | None:
        """Which rows the watermark has passed, as it stands; None: none."""
        late: np.ndarray = times < self.watermark
        return late if late.any() else None

    def stand_at(self, counts: np.ndarray, clock: np.ndarray) -> None:
        self.counts, self.clock = counts, clock

    def moved(self, latest: Sequence[int | None]) -> np.ndarray:
        """The clock once times with these codes have been seen of the streams; None, and a stream without time, moves nothing."""
        clock = self.clock.copy()
        for k, code in enumerate(latest):
            if code is not None and self.timed[k]:
                ahead, place = self.ahead(k, np.array([code]))[0], self.streams + k
                clock[k], clock[place] = max(clock[k], code), max(clock[place], ahead)
        return clock

    def nobody(self, clock: np.ndarray) -> Admission:
        """No row has come, and the clock stands so."""
        turns = tuple(range(self.streams))
        nothing = tuple(Arrived(None, None, ()) for _ in turns)
        return Admission(nothing, self.counts, clock, self.gone(self.counts, clock), None, turns)

    def count(self, k: int, rows: int) -> None:
        """Rows of stream k have come, and no time window is there to ask. The old counts stay as they were, for who has hold of them."""
        self.counts = counts = self.counts.copy()
        counts[k] += rows

    def _admit_untimed(
        self, sizes: Sequence[int], order: np.ndarray | None, turns: Sequence[int], counts: np.ndarray
    ) -> tuple[Arrived, ...]:
        streams = range(self.streams)
        if order is None:
            sees: dict[int, Sees] = {}
            now = counts.tolist()
            for k in turns:
                sees[k] = tuple(None if j == k else self._counted(j, now[j]) for j in streams)
                now[k] += sizes[k]
            counts[:] = now
            return tuple(Arrived(None, None, sees[k]) for k in streams)
        starts = np.cumsum([0, *sizes])
        seen = np.empty(self.streams * order.size, np.int64)
        count_seen(order, starts[:-1], counts, seen)
        by_stream = seen.reshape(self.streams, order.size)
        return tuple(
            Arrived(
                None,
                None,
                tuple(
                    None if j == k else self._counted(j, by_stream[j, starts[k] : starts[k + 1]])
                    for j in streams
                ),
            )
            for k in streams
        )

    def _counted(self, j: int, seen: int | np.ndarray) -> Validity:
        """What is seen of stream j by who has seen so many rows of it."""
        return Validity(self.windows[j].lowest(seen), seen)

    def ahead(self, k: int, codes: np.ndarray) -> np.ndarray:
        """Codes of (time - lateness) of stream k: what moves the watermark."""
        if not codes.size:
            return codes
        assert self.axis is not None
        return self.axis.shift(codes, -self.axis.lateness[k])

    def verdict(
        self, k: int, late: np.ndarray, times: np.ndarray | None, seen: np.ndarray, clocks: np.ndarray
    ) -> Arrived:
        """What the rows of stream k may see, by the counts and the clocks that each has seen: matrices with a row a stream."""
        someone_late = bool(late.any())
        if someone_late and not self.number_late:
            kept = ~late
            seen, clocks = seen[:, kept], clocks[:, kept] if clocks.size else clocks
            times = None if times is None else times[kept]
        sees = tuple(
            None if j == k else self._seen(k, j, times, one_for_all(seen[j]), clocks[j])
            for j in range(self.streams)
        )
        return Arrived(late if someone_late else None, times, sees)

    def _seen(
        self, k: int, j: int, times: np.ndarray | None, seen: int | np.ndarray, clocks: np.ndarray
    ) -> Validity:
        validity = self._counted(j, seen)
        if self.timed[j] and self.axis is not None:  # no axis: the other stream has no rows yet
            if times is not None:
                validity.time_lo, validity.time_hi = self.axis.bounds(k, j, times)
            else:  # an untimed row sees the other stream's window at that stream's own clock
                started = clocks > BOTTOM
                validity.time_lo = np.full(clocks.size, BOTTOM)
                validity.time_lo[started] = self.axis.shift(clocks[started], -self.axis.duration[j])
                validity.time_hi = np.full(clocks.size, TOP)
        return validity

    def blind(self, k: int) -> Sees:
        """What no rows of stream k see."""
        return tuple(None if j == k else Validity(0, 0) for j in range(self.streams))

    def gone(self, counts: np.ndarray, clock: np.ndarray) -> tuple[Gone, ...]:
        """By stream: what can never match again once the counts and the clock stand so."""
        return tuple(self._gone(k, counts, clock) for k in range(self.streams))

    def _gone(self, k: int, counts: np.ndarray, clock: np.ndarray) -> Gone:
        if self.timed[k] and self.axis is not None:
            # A row of another timed stream may be as old as the watermark; an untimed one goes by this stream's own clock, which is later.
            others = any(timed for j, timed in enumerate(self.timed) if j != k)
            now = self._watermark(clock) if others else int(clock[k])
            return 0, self.axis.earliest(k, now) if now > BOTTOM else BOTTOM
        return int(self.windows[k].lowest(int(counts[k]))), BOTTOM

    def gone_before(self, k: int) -> Gone:
        """What of stream k can never match again, as things stand."""
        return self._gone(k, self.counts, self.clock)
