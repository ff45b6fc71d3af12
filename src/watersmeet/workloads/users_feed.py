"""Feeds the two streams of a users' workload to any joiner, and knows how many results the newest push has.

What stays true: ``expected`` shares nothing with the engine. It makes the rows of the windows again from their numbers, finds candidates by
sorting, and asks the workload's ``holds`` about every one of them.
"""

from functools import lru_cache

import numpy as np
import pyarrow as pa

from watersmeet.workloads.users import UserWorkload, Values

Push = dict[str, pa.RecordBatch]  # the batches of one push, by stream, in keyword order
BLOCK = 1 << 16  # rows that are made again at a time
KEPT = 40  # blocks that are remembered: a million rows of both streams
LOT = 1 << 21  # candidates that are looked at together


class UserFeed:
    """The two streams of ``work``, cut into pushes of equally many rows of both."""

    def __init__(self, work: UserWorkload) -> None:
        self.work = work
        self.pushed = 0  # rows of each stream handed out so far
        self._block = lru_cache(maxsize=KEPT)(self._make_block)

    def pushes(self, batch: int, count: int, streams: tuple[str, ...] = ()) -> list[Push]:
        """The next ``count`` pushes, each with ``batch`` rows of both streams."""
        blocks = {name: self.work.rows(name, self.pushed, batch * count) for name in self.work.streams}
        self.pushed += batch * count
        starts = range(0, batch * count, batch)
        return [{name: block.slice(start, batch) for name, block in blocks.items()} for start in starts]

    def expected(self, push: Push) -> int:
        """Results of ``push``, recounted. It must be the newest push of this feed."""
        left, right = self.work.streams
        end = self.pushed
        begin = end - next(iter(push.values())).num_rows
        # Streams arrive in keyword order: the left one sees the right one as it was, the right one sees the new rows too.
        found = self._partners(left, (begin, end), right, begin).sum()
        found += self._partners(right, (begin, end), left, end).sum()
        if self.work.how == "left":
            found += self._given_up(begin, end)
        return int(found)

    def _partners(self, stream: str, probes: tuple[int, int], other: str, seen: int) -> np.ndarray:
        """Of each probing row, how many partners it has among the other stream's first ``seen`` rows, in its window."""
        if self.work.seconds is None:
            first = seen - self.work.window
        else:  # times lie around their numbers; which of the rows are within the window is asked of each
            first = probes[0] - self.work.window - self.work.disorder
        return partners(
            self.work, stream, self._values(stream, *probes), self._values(other, max(0, first), seen)
        )

    def _given_up(self, begin: int, end: int) -> int:
        """Left rows without a partner that this push has put more than a window below the watermark: its last row's time, if in order."""
        left, right = self.work.streams
        first, last = (max(0, number - 1 - self.work.window) for number in (begin, end))
        return int((self._partners(left, (first, last), right, end) == 0).sum())

    def _values(self, stream: str, first: int, end: int) -> Values:
        """Rows ``first`` to ``end - 1``."""
        numbers = range(first // BLOCK, max(end - 1, first) // BLOCK + 1)
        blocks = [self._block(stream, number) for number in numbers]
        here = slice(first - numbers[0] * BLOCK, end - numbers[0] * BLOCK)
        return {name: np.concatenate([block[name] for block in blocks])[here] for name in blocks[0]}

    def _make_block(self, stream: str, number: int) -> Values:
        return self.work.values(stream, np.arange(number * BLOCK, (number + 1) * BLOCK))


def partners(work: UserWorkload, stream: str, probes: Values, stored: Values) -> np.ndarray:
    """How many of the stored rows each row of ``stream`` is joined with, by NumPy alone."""
    counts = np.zeros(probes["ts"].size, np.int64)
    place, low, high = _candidates(work, stream, probes, stored)
    begin = 0
    ends = np.cumsum(high - low)
    while begin < counts.size:  # as many probing rows as have a lot of candidates, at least one
        before = ends[begin] - (high[begin] - low[begin])
        end = max(begin + 1, int(np.searchsorted(ends, before + LOT, side="right")))
        sizes = (high - low)[begin:end]
        probe = np.repeat(np.arange(begin, end), sizes)
        within = np.arange(probe.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        found = place[np.repeat(low[begin:end], sizes) + within]
        mine = {name: column[probe] for name, column in probes.items()}
        theirs = {name: column[found] for name, column in stored.items()}
        counts += np.bincount(probe[_joined(work, stream, mine, theirs)], minlength=counts.size)
        begin = end
    return counts


def _joined(work: UserWorkload, stream: str, mine: Values, theirs: Values) -> np.ndarray:
    holds = work.holds(mine, theirs) if stream == next(iter(work.streams)) else work.holds(theirs, mine)
    if work.seconds is not None:
        holds = holds & (np.abs(mine["ts"] - theirs["ts"]) <= work.window * work.step)
    return holds


def _candidates(
    work: UserWorkload, stream: str, probes: Values, stored: Values
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places of stored rows in an order, and of each probing row which stretch of that order holds all its partners."""
    kept = np.arange(stored["ts"].size)
    mine = np.zeros(probes["ts"].size, np.int64)
    theirs = np.zeros(kept.size, np.int64)
    if work.equal is not None:
        mine = probes[work.equal]
        kept = np.flatnonzero(np.isin(stored[work.equal], np.unique(mine)))
        theirs = stored[work.equal][kept]
    values, least, most = np.zeros(kept.size), np.zeros(mine.size), np.zeros(mine.size)
    if work.near is not None:
        column, least, most = work.near(stream, probes)
        values = stored[column][kept]  # NaN, which is NULL, is sorted behind all others: a candidate at most
    ranks = np.sort(values)
    codes = theirs * (kept.size + 1) + np.searchsorted(ranks, values)
    order = np.argsort(codes, kind="stable")
    low = np.searchsorted(codes[order], mine * (kept.size + 1) + np.searchsorted(ranks, least, "left"))
    high = np.searchsorted(codes[order], mine * (kept.size + 1) + np.searchsorted(ranks, most, "right"))
    return kept[order], low, np.maximum(low, high)
