"""Arrival in batches: which rows of a micro-batch are late, and what each may see. The engine's rule, with Spark's clock.

The watermark stands still within a batch: rows are judged by that of the batches before, and it moves when the batch is over, by
the largest event times that all map partitions report. So it is one watermark for all cores, also for those that got no rows.

A row without a time (NULL, NaN) could never be joined, as no window holds it. It is late whenever it comes, and moves no clock: one bad row
must not stop a query.

Rows are counted over all cores (``totals``) and on this one (``counts``). Where a stream is dealt out the two differ: a
``Numbering`` leads from the one to the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.kernels.arrival import judge
from watersmeet.spark.shuffle.layout import Dealing
from watersmeet.streams.arrival import Arrivals, Arrived
from watersmeet.streams.clock import BOTTOM
from watersmeet.streams.window import Rows, Window

Numbering = Callable[[np.ndarray], np.ndarray]
"""How many of a stream's first n rows, counted over all cores, are numbered on this one."""


@dataclass
class Turn:
    """What the rows of one batch see, all rows of both streams that have come to this core."""

    seen: list[np.ndarray]  # rows of the other stream that came before, over all cores
    clocks: list[np.ndarray]  # the other stream's clock at that moment
    clock: np.ndarray  # after the batch
    totals: np.ndarray  # after the batch


class BatchArrivals(Arrivals):
    """Arrivals whose verdicts are worked out with the batch, before it is pushed."""

    def __init__(self, windows: Sequence[Window], dealing: Sequence[Dealing]) -> None:
        super().__init__(windows)
        self.dealing = tuple(dealing)
        self.totals = np.zeros(2, np.int64)
        self.verdicts: tuple[Arrived, Arrived] | None = None
        self.turn: Turn | None = None

    def admit(
        self, sizes: Sequence[int], times: Sequence[np.ndarray | None], order: np.ndarray | None, first: int
    ) -> tuple[tuple[Arrived, Arrived], np.ndarray, np.ndarray]:
        turn = self.turn
        assert turn is not None
        assert self.verdicts is not None
        self.totals = turn.totals
        return self.verdicts, self.counts + np.array(sizes, np.int64), turn.clock

    def verdict(self, k: int, rows: np.ndarray | None, times: np.ndarray | None, other: Numbering) -> Arrived:
        """What these rows of stream k (positions in the turn; None: all) may see; ``other``: the other stream's numbering."""
        assert self.turn is not None
        seen, clocks = self.turn.seen[k], self.turn.clocks[k]
        if rows is not None:
            seen, clocks = seen[rows], clocks[rows]
            times = None if times is None else times[rows]
        arrived = self._verdict(k, np.zeros(seen.size, np.bool_), times, seen, clocks)
        window = self.windows[1 - k]
        arrived.validity.arrival_lo = _short(other(seen - window.n)) if isinstance(window, Rows) else 0
        arrived.validity.arrival_hi = _short(other(seen))
        return arrived

    def numbering(self, k: int, kept: np.ndarray | None) -> Numbering:
        """Of stream k in this batch, of which this core keeps the rows at these positions (None: all)."""
        deal, total, count = self.dealing[k], int(self.totals[k]), int(self.counts[k])
        if kept is None:
            return lambda numbers: numbers - total + count
        if isinstance(
            self.windows[k], Rows
        ):  # also rows of earlier batches are asked for, and dealing by number knows them all
            return lambda numbers: deal.below(numbers) - deal.below(total) + count
        assert self.turn is not None
        before = np.zeros(int(self.turn.totals[k]) - total + 1, np.int64)
        before[1:][kept] = 1
        before = before.cumsum() + count
        return lambda numbers: before[numbers - total]

    def gone_before(self, k: int) -> tuple[int, int]:
        window = self.windows[k]
        if not isinstance(window, Rows):
            return super().gone_before(k)
        deal = self.dealing[k]
        gone = deal.below(self.totals[k] - window.n) - deal.below(self.totals[k])
        return int(gone + self.counts[k]), BOTTOM


def _short(numbers: np.ndarray) -> int | np.ndarray:
    """One number where all are the same; they ascend."""
    return int(numbers[0]) if numbers.size and numbers[0] == numbers[-1] else numbers


def keyword_turn(arrivals: BatchArrivals, sizes: Sequence[int], clock: np.ndarray) -> Turn:
    """All rows of the first stream come, then all of the second."""
    totals = arrivals.totals
    seen = [np.full(sizes[0], totals[1]), np.full(sizes[1], totals[0] + sizes[0])]
    clocks = [np.full(sizes[0], arrivals.clock[1]), np.full(sizes[1], clock[0])]
    return Turn(seen, clocks, clock, totals + np.array(sizes, np.int64))


def merged_turn(
    arrivals: BatchArrivals,
    sizes: Sequence[int],
    times: Sequence[np.ndarray | None],
    order: np.ndarray,
    clock: np.ndarray,
) -> Turn:
    """Rows come in ``order``: the stream of each. All rows of both streams are here."""
    none = np.empty(0, np.int64)
    codes = [none if t is None else t for t in times]
    low = [np.full(t.size, BOTTOM) for t in codes]  # nobody is late: that has been judged
    running, totals = arrivals.clock.copy(), arrivals.totals.copy()
    running[2:] = BOTTOM
    late = [np.empty(n, np.bool_) for n in sizes]
    seen = [np.empty(n, np.int64) for n in sizes]
    clocks = [np.empty(n, np.int64) for n in sizes]
    judge(order, codes[0], low[0], codes[1], low[1], running, totals, *late, *seen, *clocks)
    return Turn(seen, clocks, clock, totals)
