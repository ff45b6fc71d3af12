"""BI-Sort: buffered indexed sort (panjoin.txt III.D).

A sub-window is one sorted main array, an index array with every 16th of its keys, and a small unsorted insertion buffer that spares tiny
batches a merge each. What is in the main array is never changed: a merge makes a new one, and keys that follow on the last are written
behind it, so that range results and other threads may keep the old one. Because rows are in key order, a probe's matches are a
<start, end> range, however many they are.

Sorted batches wait to be merged until somebody looks: rows that nobody probes for are never merged, and those that have waited are merged
two and two, each row as often as the logarithm of the batches. A few probes look into batches that wait one by one, as long as these are
few, each at least twice as large as the next. Where most of many probes turn out to find nothing, a bit a key says so
before anything is searched (``presence.py``).
"""

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import ClassVar

import numpy as np

from watersmeet.index.base import Bounds, Index, Keys, PairBuffer, SortedRun
from watersmeet.index.presence import Presence
from watersmeet.kernels.merge import merge_runs
from watersmeet.kernels.probe import STRIDE, list_pairs, run_pairs, run_ranges
from watersmeet.kernels.ranges import keep_rows, keep_rows_from
from watersmeet.kernels.sort import sort_keys

BUFFERED = 1024  # the paper's size; a batch of at least this many rows is merged directly
MANY = 1024  # probes at once from which on it is worth asking whether their keys are there
SELDOM = 4  # probes for each match from which on that pays
# Rows that are merged in the time of a probe. TPC-H's Q3 on one core of a loaded machine, CPU time, the best of three in turns: by date
# 0.89 s, and 1.00 if all are merged before each probe; mixed evenly 0.92 and 0.90. Without bits of keys 1.06 and 0.94.
COSTS = 32

Run = tuple[np.ndarray, np.ndarray, np.ndarray]  # keys, ascending, their rows, and every 16th of the keys

_NO_KEYS = np.empty(0, np.int64)
_NO_ROWS = np.empty(0, np.int32)
_NOTHING = (_NO_KEYS, _NO_ROWS, _NO_KEYS)


class BISort(Index):
    """One sub-window, sorted. Insert O(n / batch) a row, probe O(log gap) a row, range results O(1) a row."""

    name: ClassVar[str] = "bi_sort"

    def __init__(self, capacity: int) -> None:
        # The main array, and sorted batches that wait, the oldest first: replaced together, so that who looks sees every row once.
        self._held: tuple[Run, Sequence[Run]] = (_NOTHING, ())
        self._room: Run | None = None  # that the main array is the beginning of
        self._merging = Lock()
        self._presence: Presence | None = None
        self._probes = self._found = (
            0  # since the presence was made, or given up; several threads count, so about
        )
        size = min(capacity, BUFFERED)
        self.buffer_keys, self.buffer_rows = np.empty(size, np.int64), np.empty(size, np.int32)
        self.buffered = 0

    @property
    def keys(self) -> np.ndarray:
        """The main array."""
        return self._main()[0]

    @property
    def rows(self) -> np.ndarray:
        """The rows with these keys."""
        return self._main()[1]

    @property
    def index(self) -> np.ndarray:
        """Every 16th of the keys."""
        return self._main()[2]

    def _main(self) -> Run:
        """All rows but those of the insertion buffer."""
        main, waiting = self._held
        return self._merged() if waiting else main

    def insert(self, keys: Keys, offset: int) -> None:
        if not self.buffer(keys.key, keys.rows, offset):
            self.flush()
            self._add(keys.key, keys.rows_from(offset))

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
        if probes * self.buffered > 4 * (self._held[0][0].size + self.buffered):
            self.flush()

    def flush(self) -> None:
        """Merge the insertion buffer into the main array."""
        if self.buffered:
            keys, order = sort_keys(self.buffer_keys[: self.buffered])
            self._add(keys, self.buffer_rows[order])
            # A new buffer, not the old one overwritten: another thread may still be reading it.
            self.buffer_keys, self.buffer_rows = (
                np.empty_like(self.buffer_keys),
                np.empty_like(self.buffer_rows),
            )
            self.buffered = 0

    def _add(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """A sorted batch. Nobody probes meanwhile."""
        if self._presence is not None and not self._presence.add(keys):
            self._presence, self._probes, self._found = None, 0, 0
        main, waiting = self._held
        if not main[0].size and not waiting:
            self.adopt(keys, rows)
        elif not waiting and keys[0] >= main[0][-1]:
            self._append(main, keys, rows)
        else:
            self._held = main, (*waiting, _run(keys, rows))

    def _append(self, main: Run, keys: np.ndarray, rows: np.ndarray) -> None:
        """Keys that follow on the last: written behind the main array, where nobody who holds it looks."""
        size, indexed = main[0].size, main[2].size
        end = size + keys.size
        all_indexed = -(-end // STRIDE)
        if self._room is None or self._room[0].size < end:
            room = 2 * end
            self._room = _copied(main[0], room), _copied(main[1], room), _copied(main[2], -(-room // STRIDE))
        all_keys, all_rows, index = self._room
        all_keys[size:end], all_rows[size:end] = keys, rows
        index[indexed:all_indexed] = all_keys[indexed * STRIDE : end : STRIDE]
        self._held = (all_keys[:end], all_rows[:end], index[:all_indexed]), ()

    def _merged(self) -> Run:
        """All batches that wait in the main array. Several threads may find at once that it is to be done."""
        with self._merging:
            main, waiting = self._held
            if waiting:
                runs = list(waiting)
                while len(runs) > 1:
                    odd = runs[len(runs) & ~1 :]
                    runs = [_both(one, two) for one, two in zip(runs[::2], runs[1::2], strict=False)] + odd
                self._room = None
                main = _both(main, runs[0])
                self._held = main, ()
            return main

    def _runs(self, probes: int) -> Sequence[Run]:
        """The sorted runs that so many probes look into: batches that wait, where that is cheaper than to merge them, few of them."""
        main, waiting = self._held
        if not waiting:
            return (main,)
        if self.sealed or probes * COSTS * len(waiting) > main[0].size:
            return (self._merged(),)
        with self._merging:
            main, waiting = self._held
            tiers: list[Run] = []
            for run in waiting:
                while tiers and 2 * run[0].size > tiers[-1][0].size:
                    run = _both(tiers.pop(), run)
                tiers.append(run)
            self._held = main, tuple(tiers)
            return (main, *tiers)

    def adopt(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Take a sorted run as the main array."""
        self._room = None
        self._held = _run(keys, rows), ()

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
        lo, hi = bounds.lo, bounds.hi
        if self.buffered or len(runs := self._runs(lo.size)) > 1:
            return bounds
        keys = runs[0][0]
        if not keys.size or not lo.size:
            return None
        lowest, highest = keys[0], keys[-1]
        first, stop = 0, int(lo.searchsorted(highest, "right"))
        if (
            hi[0] < lowest
        ):  # upper ends need not ascend; but what begins above the lowest key does not end below it
            above = hi[: int(lo.searchsorted(lowest))] >= lowest
            first = int(above.argmax()) if above.any() else above.size
        if first >= stop:
            return None
        bounds = bounds.between(first, stop)
        return bounds if stop - first < MANY or bounds.beside else self._there(keys, bounds)

    def _there(self, keys: np.ndarray, bounds: Bounds) -> Bounds | None:
        """Of many bounds those whose keys may be there, where it has turned out that most are not."""
        presence = self._presence
        if presence is None:
            self._probes += bounds.lo.size
            if self._probes < keys.size or self._probes < SELDOM * self._found:
                return bounds
            self._presence = presence = Presence(keys)
        return presence.only(bounds) if presence.useful else bounds

    def only(self, mask: np.ndarray) -> "BISort":
        keys, rows, part = np.empty_like(self.keys), np.empty_like(self.rows), BISort(0)
        kept = keep_rows(self.keys, self.rows, mask, keys, rows)
        part.adopt(keys[:kept], rows[:kept])
        return part

    def pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        for run in self._runs(bounds.lo.size):
            if run[0].size:
                yield from self._pairs_of(run, bounds, buffer)
        yield from self.buffered_pairs(bounds, buffer)

    def _pairs_of(self, run: Run, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        lo, hi, probes = bounds.lo, bounds.hi, bounds.rows
        state = np.array((0, 0, -1))
        while state[0] < lo.size:
            n = run_pairs(*run, lo, hi, probes, state, buffer.probe, buffer.row)
            self._found += n
            yield n

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
        if self._room is not None:
            (keys, rows, index), waiting = self._held
            self._held = (keys.copy(), rows.copy(), index.copy()), waiting
            self._room = None

    @property
    def nbytes(self) -> int:
        main, waiting = self._held
        arrays = [*(self._room or main), self.buffer_keys, self.buffer_rows]
        arrays += [array for run in waiting for array in run]
        return sum(array.nbytes for array in arrays) + (
            0 if self._presence is None else self._presence.nbytes
        )


def _run(keys: np.ndarray, rows: np.ndarray) -> Run:
    return keys, rows, keys[::STRIDE].copy()


def _copied(array: np.ndarray, room: int) -> np.ndarray:
    """A copy with room behind it."""
    copy = np.empty(room, array.dtype)
    copy[: array.size] = array
    return copy


def _both(one: Run, two: Run) -> Run:
    return _run(*merge_runs(*one[:2], *two[:2]))
