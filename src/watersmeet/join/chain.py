"""The chain of sub-windows of one stream: create, insert, probe, expire (panjoin.txt III.A and G).

A sub-window is a run of consecutive arrivals with one index over it. Rows go only into the newest; a full one is sealed and never
touched again; an old one is dropped whole. So only the oldest and the newest sub-windows can hold rows outside a probe's
validity range: only there are candidates checked one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from watersmeet.index.base import Bounds, Index, Keys, PairBuffer, SortedRun
from watersmeet.kernels.filter import emit, keep_among, keep_arrived, keep_between, keep_within
from watersmeet.kernels.sort import is_sorted
from watersmeet.streams.arrival import Sees, Validity
from watersmeet.streams.clock import BOTTOM, TOP

Check = list[tuple[np.ndarray, np.ndarray]]  # by interval: inclusive ends for each row of a block
Thin = Callable[[PairBuffer, int], int]  # thins the first n pairs in place, and returns how many remain


class Test(Protocol):
    """What rows of a block ask of the rows that they meet, beyond their codes."""

    def among(self, stored: np.ndarray, nulls: bool) -> Thin:
        """The same as a filter on candidates, whose columns are given, and whether there are NULLs in them."""


@dataclass(slots=True)
class Block:
    """Rows of one stream, prepared once: as what is stored, and as what probes."""

    first: int  # arrival number of the first row
    count: int
    keys: Keys  # of the first index; rows that can match nothing are left out
    codes: list[np.ndarray]  # codes of the bands checked on candidates, in block order
    times: np.ndarray | None
    others: tuple[Keys, ...] = ()  # of further indexes
    usable: np.ndarray | None = None  # many streams: the rows that can match at all
    hidden: np.ndarray | None = None  # mask: rows that are there for others, and not for this join
    nulls: bool = False  # whether any column beside the codes has NULL


Part = tuple[Block, Sees]  # rows that probe, and what they may see


@dataclass(slots=True)
class Probe:
    """A block on its way through the other stream's chain."""

    first: int  # arrival number of the block's first row
    bounds: list[Bounds]  # on the driver's keys, by interval
    checks: list[Check | None]  # by column of codes; None: not compared
    validity: Validity
    by: int = 0  # which index is asked
    test: Test | None = None  # what else candidates must pass

    @property
    def rows(self) -> int:
        """How many rows probe."""
        return max((bounds.rows.size for bounds in self.bounds), default=0)

    def split(self, parts: int) -> "list[Probe]":
        """Equal shares, for threads."""
        return [self] if parts == 1 else [self._share(i, parts) for i in range(parts)]

    def _share(self, i: int, parts: int) -> "Probe":
        bounds = [interval.share(i, parts) for interval in self.bounds]
        return Probe(self.first, bounds, self.checks, self.validity, self.by, self.test)


class SubWindow:
    """A run of consecutive arrivals, and an index over it, or several, one a driver."""

    __slots__ = (
        "base",
        "capacity",
        "codes",
        "count",
        "hidden",
        "in_order",
        "index",
        "max_time",
        "min_time",
        "nulls",
        "others",
        "times",
        "trimmed",
    )

    def __init__(
        self,
        base: int,
        capacity: int,
        index: Index | None,
        checked: int,
        timed: bool,
        others: Sequence[Index] = (),
    ) -> None:
        self.base, self.capacity, self.count = base, capacity, 0
        self.index, self.others = index, tuple(others)
        self.codes = np.empty((checked, capacity), np.int64)  # by band checked on candidates, then by offset
        self.times = np.empty(capacity, np.int64) if timed else None
        self.min_time, self.max_time, self.in_order = TOP, BOTTOM, True
        self.nulls = False  # whether any column beside the codes may have NULL
        self.trimmed = 0  # rows below this offset are no longer in the index
        self.hidden: np.ndarray | None = None  # mask by offset: rows that this join must not see

    @property
    def end(self) -> int:
        return self.base + self.count

    @property
    def oldest(self) -> int:
        """Arrival number of the oldest row in the index."""
        return self.base + self.trimmed

    def numbers(self, probe: Probe, buffer: PairBuffer, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The first ``n`` candidates of the buffer as arrival numbers: of the probing rows, and of the stored ones."""
        probes, stored = np.empty(n, np.int64), np.empty(n, np.int64)
        emit(buffer.probe, buffer.row, n, probe.first, self.base, probes, stored)
        return probes, stored

    @property
    def scattered(self) -> np.ndarray | None:
        """Arrival numbers by offset, where rows do not follow on one another."""
        return None

    def takes(self, block: Block) -> bool:
        """Whether the block follows on the last row, and fits."""
        return self.end == block.first and self.count + block.count <= self.capacity

    def insert(self, block: Block) -> None:
        start, end = self.count, self.count + block.count
        if self.index is not None:
            _offer(self.index, block.keys, start, end)
        for index, keys in zip(self.others, block.others, strict=True):
            _offer(index, keys, start, end)
        for stored, codes in zip(self.codes, block.codes, strict=True):
            stored[start:end] = codes
        self.count, self.nulls = end, self.nulls or block.nulls
        if block.hidden is not None and self.hidden is None:
            self.hidden = np.zeros(self.capacity, np.bool_)
        if self.hidden is not None:
            self.hidden[start:end] = False if block.hidden is None else block.hidden
        if self.times is not None and block.times is not None and block.count:
            self.times[start:end] = block.times
            self.in_order = (
                self.in_order and int(block.times[0]) >= self.max_time and bool(is_sorted(block.times))
            )
            self.min_time = min(self.min_time, int(block.times.min()))
            self.max_time = max(self.max_time, int(block.times.max()))

    def set_times(self, times: np.ndarray) -> None:
        """New codes for the times of all rows."""
        assert self.times is not None
        self.times[: self.count] = times
        self.min_time, self.max_time, self.in_order = (
            int(times.min()),
            int(times.max()),
            bool(is_sorted(times)),
        )

    def seal(self) -> None:
        for index in self.indexes:
            if not index.sealed:
                index.seal()
                index.sealed = True
        if self.count < self.capacity:
            self.codes = self.codes[:, : self.count].copy()
            self.times = None if self.times is None else self.times[: self.count].copy()
            self.capacity = self.count

    @property
    def indexes(self) -> Sequence[Index]:
        return () if self.index is None else (self.index, *self.others)

    def trim(self, arrival: int, share: float) -> None:
        """Take the rows below ``arrival`` out of an index that can do so, if they are at least ``share`` of it. They stay as rows.

        One of several indexes is left as it is: not all may be able to. So is one that others look into.
        """
        first = arrival - self.base
        if self.others or (self.index is not None and self.index.shared):
            return
        if not 0 < first < self.count or first - self.trimmed < share * (self.count - self.trimmed):
            return
        if self.index is not None and self.index.trim(first):
            self.trimmed = first

    def sorted_run(self, by: int = 0) -> SortedRun | None:
        """The rows in key order, where range results are possible."""
        return None if self.index is None else self.indexes[by].sorted_run()

    def candidates(self, probe: Probe, buffer: PairBuffer) -> Iterator[int]:
        """Yield n each time ``buffer[:n]`` holds pairs that satisfy driver, checked bands and validity range."""
        index = self.indexes[probe.by]
        near = [bounds for bounds in map(index.near, probe.bounds) if bounds is not None]
        thin = self._filters(probe) if near else []
        for bounds in near:
            yield from _thinned(index.pairs(bounds, buffer), buffer, thin)

    def _filters(self, probe: Probe) -> list[Thin]:
        """What candidates of this sub-window must still pass."""
        filters = self._validity_filters(probe)
        for codes, check in zip(self.codes, probe.checks, strict=False):  # columns behind them are the test's
            if check is not None:
                filters.append(_band_filter(codes, check))
        if probe.test is not None:
            filters.append(probe.test.among(self.codes, self.nulls))
        return filters

    def _validity_filters(self, probe: Probe) -> list[Thin]:
        """What keeps the pairs whose stored row the probing row may see."""
        filters: list[Thin] = [] if self.hidden is None else [_hidden_filter(self.hidden)]
        validity = probe.validity
        lo, hi = validity.arrival_lo, validity.arrival_hi
        if not (self.end <= least(hi) and self.oldest >= most(lo)):
            filters.append(self._arrival_filter(lo, hi))
        time_lo, time_hi, times = validity.time_lo, validity.time_hi, self.times
        if (
            time_lo is not None
            and time_hi is not None
            and times is not None
            and not self._timely(time_lo, time_hi)
        ):
            filters.append(lambda pairs, n: keep_between(pairs.probe, pairs.row, n, times, time_lo, time_hi))
        return filters

    def _arrival_filter(self, lo: int | np.ndarray, hi: int | np.ndarray) -> Thin:
        base = self.base
        if isinstance(lo, int) and isinstance(hi, int):
            first, stop = lo - base, hi - base
            return lambda pairs, n: keep_within(pairs.probe, pairs.row, n, first, stop)
        lows, highs = spread(lo, hi), spread(hi, lo)
        return lambda pairs, n: keep_arrived(pairs.probe, pairs.row, n, base, lows, highs)

    def overlaps(self, validity: Validity) -> bool:
        """Whether any row of the sub-window can lie in the validity range of any probe."""
        if self.end <= least(validity.arrival_lo) or self.base >= most(validity.arrival_hi):
            return False
        time_lo, time_hi = validity.time_lo, validity.time_hi
        if time_lo is None or time_hi is None or self.times is None or not time_lo.size:
            return True
        return self.max_time >= int(time_lo.min()) and self.min_time <= int(time_hi.max())

    def inside(self, validity: Validity) -> bool:
        """Whether every row of the sub-window lies in the validity range of every probe."""
        if self.hidden is not None:
            return False
        if not (self.end <= least(validity.arrival_hi) and self.oldest >= most(validity.arrival_lo)):
            return False
        time_lo, time_hi = validity.time_lo, validity.time_hi
        return time_lo is None or time_hi is None or self.times is None or self._timely(time_lo, time_hi)

    def sights(self, validity: Validity) -> tuple[np.ndarray, np.ndarray]:
        """Masks by offset: the rows that lie in the validity range of every probe, and those that lie in some, but not in all."""
        base, lo, hi = self.base, validity.arrival_lo, validity.arrival_hi
        masks = np.zeros((2, self.capacity), np.bool_)
        everyone, someone = masks[:, : self.count]
        everyone[max(most(lo) - base, 0) : max(least(hi) - base, 0)] = True
        someone[max(least(lo) - base, 0) : max(most(hi) - base, 0)] = True
        time_lo, time_hi = validity.time_lo, validity.time_hi
        if time_lo is not None and time_hi is not None and self.times is not None and time_lo.size:
            times = self.times[: self.count]
            everyone &= (times >= time_lo.max()) & (times <= time_hi.min())
            someone &= (times >= time_lo.min()) & (times <= time_hi.max())
        if self.hidden is not None:
            everyone &= ~self.hidden[: self.count]
            someone &= ~self.hidden[: self.count]
        someone &= ~everyone
        return masks[0], masks[1]

    def thinned(self, found: Iterator[int], probe: Probe, buffer: PairBuffer) -> Iterator[int]:
        """Of candidates that were found elsewhere those that satisfy checked bands and validity range, as ``candidates`` gives them."""
        return _thinned(found, buffer, self._filters(probe))

    def _timely(self, time_lo: np.ndarray, time_hi: np.ndarray) -> bool:
        return bool(not time_lo.size or (time_lo.max() <= self.min_time and self.max_time <= time_hi.min()))

    @property
    def nbytes(self) -> int:
        index = sum(one.nbytes for one in self.indexes)
        arrays = [*self.codes, *([] if self.times is None else [self.times])]
        return index + sum(array.itemsize * self.count for array in arrays)


def _offer(index: Index, keys: Keys, start: int, end: int) -> None:
    """Rows [start, end) of a sub-window; nothing is done if another join that shares the index has brought them."""
    if index.shared and index.filled >= end:
        return
    if keys.size:
        index.insert(keys, start)
    index.filled = end


def _thinned(found: Iterator[int], buffer: PairBuffer, filters: list[Thin]) -> Iterator[int]:
    for n in found:
        for keep in filters:
            if n == 0:
                break
            n = keep(buffer, n)
        if n:
            yield n


def least(value: int | np.ndarray) -> int:
    return value if isinstance(value, int) else int(value.min(initial=TOP))


def most(value: int | np.ndarray) -> int:
    return value if isinstance(value, int) else int(value.max(initial=BOTTOM))


def spread(value: int | np.ndarray, other: int | np.ndarray) -> np.ndarray:
    """A scalar bound as an array beside the other, which is one."""
    return value if isinstance(value, np.ndarray) else np.full(np.size(other), value, np.int64)


def _hidden_filter(hidden: np.ndarray) -> Thin:
    def keep(pairs: PairBuffer, n: int) -> int:
        seen = ~hidden[pairs.row[:n]]
        kept = int(seen.sum())
        pairs.probe[:kept], pairs.row[:kept] = pairs.probe[:n][seen], pairs.row[:n][seen]
        return kept

    return keep


def _band_filter(codes: np.ndarray, check: Check) -> Thin:
    if len(check) == 1:
        lo, hi = check[0]
        return lambda pairs, n: keep_between(pairs.probe, pairs.row, n, codes, lo, hi)
    lows, highs = np.array([lo for lo, _ in check]), np.array([hi for _, hi in check])
    return lambda pairs, n: keep_among(pairs.probe, pairs.row, n, codes, lows, highs)


Maker = Callable[[int, SubWindow | None], Sequence[Index]]  # of a capacity, after a sub-window
Mark = tuple[list[SubWindow], int, int, int, int]


def no_index(capacity: int, previous: SubWindow | None) -> Sequence[Index]:
    """For sub-windows whose rows are indexed later, or elsewhere."""
    return ()


def never(sub: SubWindow) -> bool:
    """For sub-windows that are full when they have no more room."""
    return False


def always(sub: SubWindow) -> bool:
    """For blocks that are sub-windows of their own."""
    return True


class Chain:
    """The sub-windows of one stream, oldest first."""

    def __init__(self, checked: int, timed: bool) -> None:
        self.checked, self.timed = checked, timed
        self.subwindows: list[SubWindow] = []
        self.dropped = 0  # arrival number up to which everything has been dropped

    def insert(
        self,
        block: Block,
        size: Callable[[], int],
        make_index: Maker = no_index,
        full: Callable[[SubWindow], bool] = never,
    ) -> None:
        """Store a block, whole, in the newest sub-window; in a new one, of at least ``size()`` rows, where it does not fit.

        ``full``: whether a sub-window should get no more rows, although they would fit.
        """
        if not block.count:
            return
        newest = self.subwindows[-1] if self.subwindows else None
        if newest is None or not newest.takes(block) or full(newest):
            if newest is not None:
                newest.seal()
            capacity = max(size(), block.count)
            newest = self._new(block, capacity, make_index(capacity, newest))
            newest.insert(block)
            self.subwindows.append(newest)
        else:
            newest.insert(block)

    def _new(self, block: Block, capacity: int, indexes: Sequence[Index]) -> SubWindow:
        index = indexes[0] if indexes else None
        return SubWindow(block.first, capacity, index, self.checked, self.timed, indexes[1:])

    def renew(self, old: SubWindow, block: Block, make_index: Maker) -> None:
        """Append a sub-window with the rows of ``block``, in place of ``old``."""
        capacity = max(old.capacity, block.count)
        newest = self.subwindows[-1] if self.subwindows else None
        if newest is not None:
            newest.seal()
        fresh = self._new(block, capacity, make_index(old.capacity, newest))
        if old.hidden is not None:
            block.hidden = old.hidden[: block.count]
        fresh.insert(block)
        self.subwindows.append(fresh)

    def become(self, other: "Chain") -> None:
        """Take over another chain's sub-windows. The lists that were here stay as they were, for who goes back to them."""
        self.checked, self.dropped, self.subwindows = other.checked, other.dropped, other.subwindows

    def mark(self) -> Mark:
        """Where the chain stands: what ``back_to`` goes back to."""
        subwindows = self.subwindows
        newest = subwindows[-1].count if subwindows else 0
        return subwindows, len(subwindows), newest, self.dropped, self.checked

    def back_to(self, mark: Mark) -> None:
        """The same sub-windows with the same rows as at the mark; their indexes may hold more, or less, and must be made anew."""
        subwindows, length, count, self.dropped, self.checked = mark
        self.subwindows = subwindows[:length]
        for newest in self.subwindows[-1:]:
            newest.count = count
            if newest.times is not None and count:
                newest.set_times(newest.times[:count])

    def drop_from(self, arrival: int) -> None:
        """Forget the rows from ``arrival`` on, of sub-windows that have no index yet: a push that failed is undone."""
        self.subwindows = [sub for sub in self.subwindows if sub.base < arrival]
        for sub in self.subwindows[-1:]:
            sub.count = min(sub.count, arrival - sub.base)
            if sub.times is not None:
                sub.set_times(sub.times[: sub.count].copy())

    def expire(self, arrival: int, time: int) -> bool:
        """Drop the sub-windows whose rows all have an arrival number below ``arrival`` or a time code below ``time``."""
        old = self.subwindows
        if not old:
            return False
        if not self.timed and old[0].end > arrival:
            if 2 * (arrival - old[0].base) > old[0].count:
                old[0].trim(arrival, 0.5)
            return False
        kept = [sub for sub in old if sub.end > arrival and not (self.timed and sub.max_time < time)]
        if len(kept) == len(old):
            return False
        self.subwindows = kept
        self.dropped = kept[0].base if kept else old[-1].end
        return True

    @property
    def first(self) -> int:
        """Arrival number of the oldest row kept."""
        return self.subwindows[0].base if self.subwindows else self.dropped

    @property
    def rows(self) -> int:
        return sum(sub.count for sub in self.subwindows)

    @property
    def nbytes(self) -> int:
        return sum(sub.nbytes for sub in self.subwindows)
