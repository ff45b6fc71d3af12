"""BI-Sort: buffered indexed sort (panjoin.txt III.D).

A sub-window is one sorted main array, an index array with every 16th of its keys, and a small unsorted insertion buffer that spares tiny
batches a merge each. The main array is never changed in place: a merge makes a new one, so that range results and other threads may
keep the old one. Because rows are in key order, a probe's matches are a <start, end> range, however many they are.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from watersmeet.index.base import Bounds, Index, Keys, PairBuffer, SortedRun
from watersmeet.kernels.merge import merge_runs
from watersmeet.kernels.probe import STRIDE, list_pairs, run_pairs, run_ranges
from watersmeet.kernels.ranges import keep_rows, keep_rows_from
from watersmeet.kernels.sort import sort_keys

BUFFERED = 1024  # the paper's size; a batch of at least this many rows is merged directly

_NO_KEYS = np.empty(0, np.int64)
_NO_ROWS = np.empty(0, np.int32)


class BISort(Index):
    """One sub-window, sorted. Insert O(n / batch) a row, probe O(log gap) a row, range results O(1) a row."""

    name: ClassVar[str] = "bi_sort"

    def __init__(self, capacity: int) -> None:
        self.keys, self.rows, self.index = _NO_KEYS, _NO_ROWS, _NO_KEYS
        size = min(capacity, BUFFERED)
        self.buffer_keys, self.buffer_rows = np.empty(size, np.int64), np.empty(size, np.int32)
        self.buffered = 0

    def insert(self, keys: Keys, offset: int) -> None:
        if not self.buffer(keys.key, keys.rows, offset):
            self.flush()
            self._merge(keys.key, keys.rows_from(offset))

    def buffer(self, keys: np.ndarray, rows: np.ndarray, offset: int) -> bool:
        """Put rows, each moved by ``offset``, into the insertion buffer; False, and nothing is done, where there is no room."""
        start, end = self.buffered, self.buffered + keys.size
        if end > self.buffer_keys.size:
            return False
        if keys.size == 1:  # a row a push: plain numbers are cheaper than slices
            self.buffer_keys[start], self.buffer_rows[start] = keys[0], rows[0] + offset
        else:
            self.buffer_keys[start:end] = keys
            self.buffer_rows[start:end] = rows
            self.buffer_rows[start:end] += offset
        self.buffered = end
        return True

    def expect(self, probes: float) -> None:
        """A probe compares all of the insertion buffer, about four times as fast as a merge moves rows."""
        if probes * self.buffered > 4 * (self.keys.size + self.buffered):
            self.flush()

    def flush(self) -> None:
        """Merge the insertion buffer into the main array."""
        if self.buffered:
            keys, order = sort_keys(self.buffer_keys[: self.buffered])
            self._merge(keys, self.buffer_rows[order])
            # A new buffer, not the old one overwritten: another thread may still be reading it.
            self.buffer_keys, self.buffer_rows = (
                np.empty_like(self.buffer_keys),
                np.empty_like(self.buffer_rows),
            )
            self.buffered = 0

    def _merge(self, keys: np.ndarray, rows: np.ndarray) -> None:
        if self.keys.size:
            keys, rows = merge_runs(self.keys, self.rows, keys, rows)
        self.adopt(keys, rows)

    def adopt(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Take a sorted run as the main array."""
        self.keys, self.rows, self.index = keys, rows, keys[::STRIDE].copy()

    def sorted_run(self) -> SortedRun:
        return self

    def trim(self, first: int) -> bool:
        self.flush()
        keys, rows = np.empty_like(self.keys), np.empty_like(self.rows)
        kept = keep_rows_from(self.keys, self.rows, first, keys, rows)
        self.adopt(keys[:kept].copy(), rows[:kept].copy())
        return True

    def near(self, bounds: Bounds) -> Bounds | None:
        """Where keys grow with time, as numbers of orders do, most runs lie outside of most bounds: two searches spare a pass over all."""
        if self.buffered or not self.keys.size or not bounds.lo.size:
            return bounds if self.buffered else None
        lowest, highest = self.keys[0], self.keys[-1]
        stop = int(bounds.lo.searchsorted(highest, "right"))
        # Upper ends need not ascend; the largest so far do.
        first = 0 if bounds.hi[0] >= lowest else int(np.maximum.accumulate(bounds.hi).searchsorted(lowest))
        return bounds.between(first, stop) if first < stop else None

    def only(self, mask: np.ndarray) -> "BISort":
        keys, rows, part = np.empty_like(self.keys), np.empty_like(self.rows), BISort(0)
        kept = keep_rows(self.keys, self.rows, mask, keys, rows)
        part.adopt(keys[:kept], rows[:kept])
        return part

    def pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        if self.keys.size:
            lo, hi, probes = bounds.lo, bounds.hi, bounds.rows
            state = np.array((0, 0, -1))
            while state[0] < lo.size:
                yield run_pairs(
                    self.keys, self.rows, self.index, lo, hi, probes, state, buffer.probe, buffer.row
                )
        yield from self.buffered_pairs(bounds, buffer)

    def buffered_pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        """The candidates in the insertion buffer alone."""
        if self.buffered:
            keys, rows, used = self.buffer_keys, self.buffer_rows, self.buffered
            lo, hi, probes = bounds.lo, bounds.hi, bounds.rows
            state = np.zeros(3, np.int64)
            while state[0] < used:
                yield list_pairs(keys, rows, used, lo, hi, probes, state, buffer.probe, buffer.row)

    def ranges(self, bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
        """Per probe <start, end> in the main array. What is in the insertion buffer is not in any range."""
        size = bounds.lo.size
        start, end = np.empty(size, np.int32), np.empty(size, np.int32)
        run_ranges(self.keys, self.index, bounds.lo, bounds.hi, start, end)
        return start, end

    def seal(self) -> None:
        self.flush()
        self.buffer_keys, self.buffer_rows = _NO_KEYS, _NO_ROWS

    @property
    def nbytes(self) -> int:
        arrays = (self.keys, self.rows, self.index, self.buffer_keys, self.buffer_rows)
        return sum(array.nbytes for array in arrays)
