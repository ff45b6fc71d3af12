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
from watersmeet.streams.arrival import Admission, Arrivals, Arrived, Gone, one_for_all
from watersmeet.streams.clock import BOTTOM

Numbering = Callable[[np.ndarray], np.ndarray]
"""How many of a stream's first n rows, counted over all cores, are numbered on this one."""


@dataclass
class Turn:
    """What the rows of one batch see, all rows of all streams that have come to this core."""

    seen: list[
        np.ndarray
    ]  # by stream: how many rows of each stream (a row of the matrix) came before, over all cores
    clocks: list[np.ndarray]  # by stream: each stream's clock at that moment
    clock: np.ndarray  # after the batch
    totals: np.ndarray  # after the batch
    order: np.ndarray | None = None  # the interleaving, where it is known


class BatchArrivals:
    """What the rows of a batch may see, worked out before it is pushed to the core whose ``arrivals`` these are."""

    def __init__(self, arrivals: Arrivals, dealing: Sequence[Dealing]) -> None:
        self.own, self.windows, self.dealing = arrivals, arrivals.windows, tuple(dealing)
        self.totals = np.zeros(len(self.windows), np.int64)

    def admission(self, turn: Turn, arrived: tuple[Arrived, ...], stored: Sequence[int]) -> Admission:
        """The batch as the core takes it. ``stored``: how many rows of each stream stay on this core."""
        counts = self.own.counts + np.array(stored, np.int64)
        streams = tuple(range(len(self.windows)))
        gone = tuple(self._gone(k, turn, counts) for k in streams)
        return Admission(arrived, counts, turn.clock, gone, turn.order, streams)

    def verdict(
        self,
        k: int,
        turn: Turn,
        rows: np.ndarray | None,
        times: np.ndarray | None,
        number: Sequence[Numbering],
    ) -> Arrived:
        """What these rows of stream k (positions in the turn; None: all) may see; ``number``: the streams' numberings."""
        seen, clocks = turn.seen[k], turn.clocks[k]
        if rows is not None:
            seen, clocks = seen[:, rows], clocks[:, rows]
            times = None if times is None else times[rows]
        arrived = self.own.verdict(k, np.zeros(seen.shape[1], np.bool_), times, seen, clocks)
        for j, window in enumerate(self.windows):
            if j != k:
                validity = arrived.of(j)
                lowest = np.asarray(window.lowest(seen[j]))
                validity.arrival_lo = 0 if window.rows is None else one_for_all(number[j](lowest))
                validity.arrival_hi = one_for_all(number[j](seen[j]))
        return arrived

    def numbering(self, k: int, turn: Turn, kept: np.ndarray | None) -> Numbering:
        """Of stream k in this batch, of which this core keeps the rows at these positions (None: all)."""
        deal, total, count = self.dealing[k], int(self.totals[k]), int(self.own.counts[k])
        if kept is None:
            return lambda numbers: numbers - total + count
        # Also rows of earlier batches are asked for, and dealing by number knows them all.
        if self.windows[k].rows is not None:
            return lambda numbers: deal.below(numbers) - deal.below(total) + count
        before = np.zeros(int(turn.totals[k]) - total + 1, np.int64)
        before[1:][kept] = 1
        before = before.cumsum() + count
        return lambda numbers: before[numbers - total]

    def _gone(self, k: int, turn: Turn, counts: np.ndarray) -> Gone:
        """What of stream k can never match again once the batch is over."""
        window = self.windows[k]
        if window.rows is None:
            return self.own.gone(counts, turn.clock)[k]
        deal = self.dealing[k]
        gone = deal.below(window.lowest(turn.totals[k])) - deal.below(turn.totals[k])
        return int(gone + counts[k]), BOTTOM


def keyword_turn(arrivals: BatchArrivals, sizes: Sequence[int], clock: np.ndarray) -> Turn:
    """All rows of the first stream come, then all of the second, and so on."""
    totals, streams = arrivals.totals, len(sizes)
    after = totals + np.array(sizes, np.int64)
    seen, clocks = [], []
    for k, rows in enumerate(sizes):
        come = np.arange(streams) < k
        seen.append(_for_all(np.where(come, after, totals), rows))
        clocks.append(_for_all(np.where(come, clock[:streams], arrivals.own.clock[:streams]), rows))
    return Turn(seen, clocks, clock, after)


def _for_all(numbers: np.ndarray, rows: int) -> np.ndarray:
    return np.broadcast_to(numbers[:, None], (numbers.size, rows))


def merged_turn(
    arrivals: BatchArrivals,
    sizes: Sequence[int],
    times: Sequence[np.ndarray | None],
    order: np.ndarray,
    clock: np.ndarray,
) -> Turn:
    """Rows come in ``order``: the stream of each. All rows of all streams are here."""
    starts, streams = np.cumsum([0, *sizes]), len(sizes)
    rows = int(starts[-1])
    codes = np.zeros(rows, np.int64)
    for k, own in enumerate(times):
        if own is not None:
            codes[starts[k] : starts[k + 1]] = own
    running, totals = arrivals.own.clock.copy(), arrivals.totals.copy()
    running[streams:] = BOTTOM  # nobody is late: that has been judged
    timed = np.array([own is not None for own in times])
    late = np.empty(rows, np.bool_)
    seen, clocks = np.empty(streams * rows, np.int64), np.empty(streams * rows, np.int64)
    judge(order, starts[:-1], timed, codes, codes, running, totals, late, seen, clocks, False, True)
    parts = [slice(starts[k], starts[k + 1]) for k in range(streams)]
    by_stream, by_clock = seen.reshape(streams, rows), clocks.reshape(streams, rows)
    return Turn(
        [by_stream[:, part] for part in parts], [by_clock[:, part] for part in parts], clock, totals, order
    )
