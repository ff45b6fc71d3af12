"""A stash: partial results of two streams, kept and indexed for the stream that arrives most often (thesis 6.2, Stashed-MJ, for any N).

An entry is a pair of stored rows that satisfies all that is said of the two streams, and was valid when the later of them came. A row
of the *hot* stream then looks for pairs at once, in place of one stream after the other. Entries carry arrival numbers (and times):
whether a hot row may see both rows is a comparison like others, so nobody has to take out what is over.

The stash is bounded. When it is full the entries with the oldest rows of the first stream are overwritten, and what was overwritten is
recomputed (thesis 6.3.3): the stash is complete for rows of the first stream from ``complete_from`` on, and hot rows look for older ones
in the plain way. It has recovered when those have left their window. A new stash begins so, too, and one that a failed push has touched:
it never changes a result.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from watersmeet.index.base import Index, sorted_keys
from watersmeet.index.choose import Habits, choose, make_index
from watersmeet.join.chain import Block, Chain, Probe, SubWindow
from watersmeet.join.orders import Source, StashPlan
from watersmeet.join.prepare import comparison_checks
from watersmeet.streams.arrival import Sees, Validity
from watersmeet.streams.clock import TOP


class Stash:
    """The entries. Columns of codes: those that other streams are linked by, then both arrival numbers, then the times of timed streams."""

    def __init__(self, plan: StashPlan, timed: Sequence[bool], rows: int, complete_from: int) -> None:
        self.plan, self.rows, self.complete_from = plan, rows, complete_from
        self._timed = [stream for stream in plan.pair if timed[stream]]
        self._width = len(plan.columns) + 2 + len(self._timed)
        self._habits = Habits()
        self._first = self._next = 0  # numbers of entries
        self._chain = Chain(self._width, False)
        self.overwritten = 0  # entries so far

    @property
    def segments(self) -> list[SubWindow]:
        return self._chain.subwindows

    @property
    def held(self) -> int:
        return self._chain.rows

    @property
    def nbytes(self) -> int:
        return self._chain.nbytes

    def place(self, stream: int) -> int:
        """The column with the arrival numbers of a stream of the pair."""
        return len(self.plan.columns) + self.plan.pair.index(stream)

    def time_place(self, stream: int) -> int | None:
        if stream not in self._timed:
            return None
        return len(self.plan.columns) + 2 + self._timed.index(stream)

    # ---- in -----------------------------------------------------------------------------------------------------

    def add(self, columns: Sequence[np.ndarray], oldest: tuple[int, int]) -> None:
        """Pairs that were found, as columns. ``oldest``: arrival numbers of the oldest rows of both streams that are still stored."""
        count = columns[0].size
        if not count:
            return
        self._habits.learn("batch", count)
        if self.held + count > self.rows:
            columns = self._kept(columns, oldest)
            self._chain = Chain(self._width, False)
        self._insert(columns)

    def _kept(self, columns: Sequence[np.ndarray], oldest: tuple[int, int]) -> list[np.ndarray]:
        """All entries, without those that are over; if there are still too many, without those of the oldest rows."""
        parts = [[codes[: sub.count] for codes in sub.codes] for sub in self.segments]
        whole = [np.concatenate([*(part[i] for part in parts), column]) for i, column in enumerate(columns)]
        first, second = (whole[self.place(stream)] for stream in self.plan.pair)
        alive = (first >= max(oldest[0], self.complete_from)) & (second >= oldest[1])
        if int(alive.sum()) > self.rows:
            numbers = np.sort(first[alive])
            before, self.complete_from = self.complete_from, int(numbers[numbers.size - self.rows - 1]) + 1
            alive &= first >= self.complete_from
            self.overwritten += int(((numbers >= before) & (numbers < self.complete_from)).sum())
        return [column[alive] for column in whole]

    def _insert(self, columns: Sequence[np.ndarray]) -> None:
        count = columns[0].size
        keys = sorted_keys(self.plan.arrangement.keys(columns, count))
        block = Block(self._next, count, keys, list(columns), None)
        self._next += count
        self._chain.insert(block, partial(int, max(1024, self.rows // 4)), self._indexes)

    def _indexes(self, capacity: int, previous: SubWindow | None) -> list[Index]:
        kind = choose(self.plan.arrangement.kinds, self._habits, capacity)
        return [make_index(kind, capacity, None if previous is None else previous.index)]

    def forget(self, complete_from: int) -> None:
        """Nothing is known any more: rows of the first stream that come from now on are."""
        self._chain, self.complete_from = Chain(self._width, False), complete_from

    # ---- out ----------------------------------------------------------------------------------------------------

    def expect(self, probes: float) -> None:
        for segment in self.segments[-1:]:
            for index in segment.indexes:
                index.expect(probes)

    def probe(self, codes: dict[Source, np.ndarray], rows: np.ndarray, sees: Sees) -> Probe:
        """What hot rows look for: by the comparisons between them and the pair, and by what they may see of both."""
        checks = comparison_checks(self.plan.checks, codes, self._width)
        for stream in self.plan.pair:
            validity = sees[stream]
            assert validity is not None
            seen = validity.take(rows)
            low = _filled(seen.arrival_lo, rows.size)
            if stream == self.plan.pair[0]:
                low = np.maximum(low, self.complete_from)
            checks[self.place(stream)] = [(low, _filled(seen.arrival_hi, rows.size) - 1)]
            time = self.time_place(stream)
            if time is not None and seen.time_lo is not None and seen.time_hi is not None:
                checks[time] = [(seen.time_lo, seen.time_hi)]
        return Probe(0, self.plan.bounds(codes, rows.size), checks, Validity(0, TOP))


def _filled(bound: int | np.ndarray, rows: int) -> np.ndarray:
    return bound if isinstance(bound, np.ndarray) else np.full(rows, bound, np.int64)
