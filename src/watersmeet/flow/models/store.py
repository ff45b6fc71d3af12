"""One stream's rows in one core: a few sub-windows, each with an index, whose rows carry their arrival numbers; or one scan that slides.

Nobody tells a core when to forget: it reads that off the rows that pass. Expiry is late, never early; whether a pair counts is decided
by the validity range alone.
"""

from collections import deque
from dataclasses import replace

import numpy as np

from watersmeet.flow.models.load import Encounter, Part
from watersmeet.flow.models.work import Work
from watersmeet.index.base import Index, Keys, PairBuffer
from watersmeet.index.choose import make_index
from watersmeet.index.scan import Scan
from watersmeet.join.chain import Block, Probe, SubWindow, Thin, spread
from watersmeet.join.matches import Matches
from watersmeet.kernels.filter import keep_between
from watersmeet.kernels.scattered import (
    emit_scattered,
    keep_meeting,
    keep_meeting_timed,
    keep_seen,
    row_matches,
)
from watersmeet.streams.arrival import Validity
from watersmeet.streams.clock import BOTTOM, TOP

Seen = tuple[
    np.ndarray, np.ndarray, np.ndarray, np.ndarray
]  # arrival_lo, arrival_hi, time_lo, time_hi by row


class Held(SubWindow):
    """A sub-window whose rows need not follow on one another."""

    def __init__(self, base: int, capacity: int, index: Index | None, checked: int, timed: bool) -> None:
        super().__init__(base, capacity, index, checked, timed)
        self.arrivals = np.empty(capacity, np.int64)
        self.last = base  # arrival number after the last row
        self.since = BOTTOM  # where rows meet in any order: only those from this arrival number on are met

    @property
    def end(self) -> int:
        return self.last

    @property
    def oldest(self) -> int:
        return int(self.arrivals[self.trimmed]) if self.trimmed < self.count else self.last

    @property
    def scattered(self) -> np.ndarray | None:
        return self.arrivals

    def takes(self, block: Block) -> bool:
        return self.count + block.count <= self.capacity

    def insert(self, block: Block) -> None:
        start = self.count
        super().insert(block)
        if block.count == 1:
            self.arrivals[start] = block.first
        else:
            self.arrivals[start : self.count] = np.arange(block.first, block.first + block.count)
        self.last = block.first + block.count

    def seal(self) -> None:
        count, capacity = self.count, self.capacity
        super().seal()
        if count < capacity:
            self.arrivals = self.arrivals[:count].copy()

    def numbers(self, probe: Probe, buffer: PairBuffer, n: int) -> tuple[np.ndarray, np.ndarray]:
        probes, stored = np.empty(n, np.int64), np.empty(n, np.int64)
        emit_scattered(buffer.probe, buffer.row, n, probe.first, self.arrivals, probes, stored)
        return probes, stored

    def _arrival_filter(self, lo: int | np.ndarray, hi: int | np.ndarray) -> Thin:
        arrivals = self.arrivals
        if isinstance(lo, int) and isinstance(hi, int):
            return lambda pairs, n: keep_seen(pairs.probe, pairs.row, n, arrivals, lo, hi)
        lows, highest = spread(lo, hi), spread(hi, lo) - 1
        return lambda pairs, n: keep_between(pairs.probe, pairs.row, n, arrivals, lows, highest)

    def see(self, validity: Validity, rows: int) -> None:
        """What the ``rows`` rows stored last may see: of interest where rows meet in any order."""

    def insert_one(self, block: Block) -> None:
        """A row by itself, of a stream without times."""
        self.insert(block)

    def find_one(self, probe: Probe, side: int, out: Matches) -> bool:
        """What a row by itself matches, in one kernel; False: not possible here, nothing was done."""
        return False

    def make_room(self, rows: int) -> bool:
        """Whether room could be made for so many rows; if not, no more rows will come."""
        self.seal()
        return False

    def expire(self, arrival: int, time: int, came: int) -> bool:
        """Whether all rows have an arrival number below the first, or a time code below the other and an arrival number below the last.
        Who can forget a part of them does."""
        return self.end <= arrival or (self.max_time < time and self.end <= came)


class Sliding(Held):
    """A scan that slides: one sub-window for as long as the join lives. The oldest rows are forgotten by block."""

    def __init__(self, base: int, capacity: int, checked: int, timed: bool) -> None:
        self.scan = Scan(capacity)
        super().__init__(base, capacity, self.scan, checked, timed)
        self.aligned = True  # entry i of the scan is row i; not so once a row without a key has come
        # By block: (entries of the scan, rows, arrival number after it, largest time).
        self.marks: deque[tuple[int, int, int, int]] = deque()
        self._found = np.empty(4096, np.int64)  # room for the matches of one row

    def insert(self, block: Block) -> None:
        if block.keys.size == block.count:
            block = _in_row_order(block)  # a scan needs no other
        else:
            self.aligned = False
        super().insert(block)
        newest = TOP if block.times is None or not block.count else int(block.times.max())
        self.marks.append((self.scan.used, self.count, self.last, newest))

    def insert_one(self, block: Block) -> None:
        # Plain numbers are cheaper than slices.
        scan, count = self.scan, self.count
        if block.keys.size:
            scan.keys[scan.used], scan.rows[scan.used] = block.keys.key[0], count
            scan.used += 1
        else:
            self.aligned = False
        for stored, codes in zip(self.codes, block.codes, strict=True):
            stored[count] = codes[0]
        self.arrivals[count] = block.first
        self.count, self.last = count + 1, block.first + 1
        self.marks.append((scan.used, count + 1, self.last, TOP))

    def find_one(self, probe: Probe, side: int, out: Matches) -> bool:
        if not self.aligned or len(probe.bounds) != 1:
            return False
        scan, wanted, validity = self.scan, probe.bounds[0], probe.validity
        since, until = validity.arrival_lo, validity.arrival_hi
        codes, code_lo, code_hi = self.arrivals, BOTTOM, TOP
        if probe.checks:
            (check,) = probe.checks
            if check is None or len(check) != 1:
                return False
            codes, (lows, highs) = self.codes[0], check[0]
            code_lo, code_hi = lows[0], highs[0]
        since = since if isinstance(since, int) else since[0]
        until = until if isinstance(until, int) else until[0]
        bounds = (wanted.lo[0], wanted.hi[0], code_lo, code_hi)
        n = row_matches(
            scan.keys, codes, scan.start, scan.used, *bounds, self.arrivals, since, until, self._found
        )
        if n > 0:
            out.add(side, np.full(n, probe.first), self._found[:n].copy())
        return bool(n >= 0)

    def expire(self, arrival: int, time: int, came: int) -> bool:
        marks = self.marks
        while marks and (marks[0][2] <= arrival or (marks[0][3] < time and marks[0][2] <= came)):
            self.scan.start, self.trimmed, _, _ = marks.popleft()
        return False

    def make_room(self, rows: int) -> bool:
        self.slide(max(self.capacity, 2 * (self.count - self.trimmed + rows)))
        return True

    def slide(self, capacity: int) -> None:
        """Move the rows that are left to the front of new arrays."""
        gone, entries = self.trimmed, self.scan.start
        self.scan.slide(capacity, gone)
        self.arrivals = _moved(self.arrivals, gone, self.count, capacity)
        self.codes = _moved(self.codes, gone, self.count, capacity)
        self.times = None if self.times is None else _moved(self.times, gone, self.count, capacity)
        self.count, self.trimmed, self.capacity = self.count - gone, 0, capacity
        if self.count:
            self.base = int(self.arrivals[0])
        self.marks = deque((used - entries, rows - gone, end, time) for used, rows, end, time in self.marks)


def _in_row_order(block: Block) -> Block:
    key = np.empty_like(block.keys.key)
    key[block.keys.rows] = block.keys.key
    return replace(block, keys=Keys(key, np.arange(block.count, dtype=np.int32)))


def _moved(array: np.ndarray, start: int, stop: int, capacity: int) -> np.ndarray:
    fresh = np.empty((*array.shape[:-1], capacity), array.dtype)
    fresh[..., : stop - start] = array[..., start:stop]
    return fresh


class Meeting(Held):
    """For flows in which either row may come to the other: stored rows carry what they may see themselves."""

    def __init__(self, base: int, capacity: int, index: Index | None, checked: int, timed: bool) -> None:
        super().__init__(base, capacity, index, checked, timed)
        self.seen = [np.empty(capacity, np.int64) for _ in range(4)]

    def see(self, validity: Validity, rows: int) -> None:
        bounds = (validity.arrival_lo, validity.arrival_hi, validity.time_lo, validity.time_hi)
        for array, bound, open_end in zip(self.seen, bounds, (0, 0, BOTTOM, TOP), strict=True):
            array[self.count - rows : self.count] = open_end if bound is None else bound

    def seal(self) -> None:
        count, capacity = self.count, self.capacity
        super().seal()
        if count < capacity:
            self.seen = [array[:count].copy() for array in self.seen]

    def overlaps(self, validity: Validity) -> bool:
        return self.last > self.since

    def inside(self, validity: Validity) -> bool:
        return False

    def _validity_filters(self, probe: Probe) -> list[Thin]:
        assert isinstance(probe, Encounter)
        filters: list[Thin] = []
        arrivals, first, since = self.arrivals, probe.first, self.since
        if self.oldest < since:
            filters.append(lambda pairs, n: keep_seen(pairs.probe, pairs.row, n, arrivals, since, TOP))
        rows = max((int(bounds.rows.max(initial=0)) for bounds in probe.bounds), default=0) + 1
        validity, seen = probe.validity, self.seen
        lo, hi = (_filled(bound, 0, rows) for bound in (validity.arrival_lo, validity.arrival_hi))
        if self.times is None and probe.times is None:
            filters.append(
                lambda pairs, n: keep_meeting(
                    pairs.probe, pairs.row, n, first, arrivals, lo, hi, seen[0], seen[1]
                )
            )
            return filters
        time_lo, time_hi = _filled(validity.time_lo, BOTTOM, rows), _filled(validity.time_hi, TOP, rows)
        mine = _filled(probe.times, 0, rows)
        times = np.zeros(self.count, np.int64) if self.times is None else self.times
        filters.append(
            lambda pairs, n: keep_meeting_timed(
                pairs.probe, pairs.row, n, first, arrivals, lo, hi, seen[0], seen[1],
                mine, times, time_lo, time_hi, seen[2], seen[3],
            )
        )  # fmt: skip
        return filters


class SlidingMeeting(Sliding, Meeting):
    """The same with a scan that slides."""

    def slide(self, capacity: int) -> None:
        self.seen = [_moved(array, self.trimmed, self.count, capacity) for array in self.seen]
        super().slide(capacity)


def _filled(bound: int | np.ndarray | None, absent: int, rows: int) -> np.ndarray:
    """A bound by row; ``absent`` where there is none."""
    if isinstance(bound, np.ndarray):
        return bound
    return np.full(rows, absent if bound is None else bound, np.int64)


class Store:
    """The rows of one stream that one core keeps, oldest first."""

    def __init__(self, work: Work, side: int, meeting: bool = False) -> None:
        self.work, self.side = work, side
        self.windows: list[Held] = []
        self._meeting = meeting
        self._single = work.single and not meeting

    def insert(self, part: Part) -> None:
        block = part.block
        if not block.count:
            return
        newest = self.windows[-1] if self.windows else None
        if newest is None or newest.count + block.count > newest.capacity:
            newest = self._room(newest, block)
        if block.count == 1 and self._single:
            newest.insert_one(block)
        else:
            newest.insert(block)
        newest.see(part.probe.validity, block.count)

    def _room(self, newest: Held | None, block: Block) -> Held:
        """A sub-window that takes the block."""
        if newest is not None and newest.make_room(block.count):
            return newest
        capacity, kind = self.shape(block)
        checked, timed = len(self.work.plan.checks), self.work.timed[self.side]
        fresh: Held
        if kind == Scan.name:
            fresh = (SlidingMeeting if self._meeting else Sliding)(block.first, capacity, checked, timed)
        else:
            index = make_index(kind, capacity, None if newest is None else newest.index)
            fresh = (Meeting if self._meeting else Held)(block.first, capacity, index, checked, timed)
        self.windows.append(fresh)
        return fresh

    def shape(self, block: Block) -> tuple[int, str]:
        """For a sub-window that begins with the block: how many rows it is to take, and the kind of its index."""
        capacity = max(self.work.sizing.rows(self.side, self.rows), block.count)
        return capacity, self.work.access.kind(self.side, capacity)

    def find(self, part: Part, buffer: PairBuffer, out: Matches, since: int = BOTTOM) -> None:
        """Everything that the part's rows match here. ``since``: leave stored rows below this arrival number out."""
        probe = part.probe
        if not probe.bounds or not self.windows:
            return
        if part.block.count == 1 and self._single and self.windows[0].find_one(probe, part.side, out):
            return
        for sub in self.windows:
            sub.since = since
            if sub.overlaps(probe.validity):
                self.work.find(sub, probe, part.side, out, buffer)

    def expire(self, arrival: int, time: int, came: int = TOP) -> None:
        """Forget what has an arrival number below the first, or a time code below the other; sub-windows go whole. ``came``: where rows
        meet in any order, times are over of the rows below this arrival number only."""
        if self.windows and self.windows[0].expire(arrival, time, came):
            self.windows = [sub for sub in self.windows if not sub.expire(arrival, time, came)]

    @property
    def first(self) -> int | None:
        """Arrival number of the oldest row here; None: there is no row."""
        return next((sub.oldest for sub in self.windows if sub.trimmed < sub.count), None)

    @property
    def rows(self) -> int:
        return sum(sub.count - sub.trimmed for sub in self.windows)

    @property
    def nbytes(self) -> int:
        return sum(sub.nbytes + sub.arrivals.nbytes for sub in self.windows)

    def held(self) -> np.ndarray:
        """The arrival numbers of all rows here."""
        return np.concatenate(
            [np.empty(0, np.int64), *(sub.arrivals[sub.trimmed : sub.count] for sub in self.windows)]
        )
