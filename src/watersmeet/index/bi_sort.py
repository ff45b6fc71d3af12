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

from collections.abc import Iterator
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
COSTS = 32  # rows that are merged in the time of a probe

Run = tuple[np.ndarray, np.ndarray, np.ndarray]  # keys, ascending, their rows, and every 16th of the keys

_NO_KEYS = np.empty(0, np.int64)
_NO_ROWS = np.empty(0, np.int32)


class BISort(Index):
    """One sub-window, sorted. Insert O(n / batch) a row, probe O(log gap) a row, range results O(1) a row."""

    name: ClassVar[str] = "bi_sort"

    def __init__(self, capacity: int) -> None:
        self._keys, self._rows, self._index = _NO_KEYS, _NO_ROWS, _NO_KEYS
        self._room: tuple[np.ndarray, np.ndarray, np.ndarray] | None = (
            None  # that these are the beginnings of
        )
        self._waiting: list[Run] = []  # sorted batches, the oldest first
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
        if self._waiting:
            self._merge_all()
        return self._keys

    @property
    def rows(self) -> np.ndarray:
        """The rows with these keys."""
        if self._waiting:
            self._merge_all()
        return self._rows

    @property
    def index(self) -> np.ndarray:
        """Every 16th of the keys."""
        if self._waiting:
            self._merge_all()
        return self._index

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
        if probes * self.buffered > 4 * (self._keys.size + self.buffered):
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
        if not self._keys.size and not self._waiting:
            self.adopt(keys, rows)
        elif not self._waiting and keys[0] >= self._keys[-1]:
            self._append(keys, rows)
        else:
            self._waiting.append((keys, rows, keys[::STRIDE].copy()))

    def _append(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Keys that follow on the last: written behind the main array, where nobody who holds it looks."""
        size = self._keys.size
        end = size + keys.size
        indexed, all_indexed = self._index.size, -(-end // STRIDE)
        if self._room is None or self._room[0].size < end:
            room = 2 * end
            self._room = (
                np.empty(room, np.int64),
                np.empty(room, np.int32),
                np.empty(-(-room // STRIDE), np.int64),
            )
            for array, old in zip(self._room, (self._keys, self._rows, self._index), strict=True):
                array[: old.size] = old
        all_keys, all_rows, index = self._room
        all_keys[size:end], all_rows[size:end] = keys, rows
        index[indexed:all_indexed] = all_keys[indexed * STRIDE : end : STRIDE]
        self._rows, self._index, self._keys = all_rows[:end], index[:all_indexed], all_keys[:end]

    def _merge_all(self) -> None:
        """All batches that wait into the main array. Several threads may find at once that it is to be done."""
        with self._merging:
            if not self._waiting:
                return
            runs = self._waiting
            while len(runs) > 1:
                odd = runs[len(runs) & ~1 :]
                runs = [_merged(one, two) for one, two in zip(runs[::2], runs[1::2], strict=False)] + odd
            self.adopt(*merge_runs(self._keys, self._rows, *runs[0][:2]))
            self._waiting = []

    def _apart(self, probes: int) -> bool:
        """Whether batches wait that it is cheaper to look into one by one; if not, they are merged, and none wait."""
        if self._waiting and (self.sealed or probes * COSTS * len(self._waiting) > self._keys.size):
            self._merge_all()
        return bool(self._waiting)

    def _runs(self) -> list[Run]:
        """The main array and the batches that wait, few of them: as they are at one moment, for others may be merging them."""
        with self._merging:
            tiers: list[Run] = []
            for run in self._waiting:
                while tiers and 2 * run[0].size > tiers[-1][0].size:
                    run = _merged(tiers.pop(), run)
                tiers.append(run)
            self._waiting = tiers
            return [(self._keys, self._rows, self._index), *tiers]

    def adopt(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Take a sorted run as the main array."""
        self._room = None
        self._rows, self._index, self._keys = rows, keys[::STRIDE].copy(), keys

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
        if self.buffered or self._apart(bounds.lo.size):
            return bounds
        keys = self.keys
        if not keys.size or not bounds.lo.size:
            return None
        lowest, highest = keys[0], keys[-1]
        stop = int(bounds.lo.searchsorted(highest, "right"))
        # Upper ends need not ascend; the largest so far do.
        first = 0 if bounds.hi[0] >= lowest else int(np.maximum.accumulate(bounds.hi).searchsorted(lowest))
        if first >= stop:
            return None
        bounds = bounds.between(first, stop)
        return bounds if stop - first < MANY or bounds.beside else self._there(bounds)

    def _there(self, bounds: Bounds) -> Bounds | None:
        """Of many bounds those whose keys may be there, where it has turned out that most are not."""
        presence = self._presence
        if presence is None:
            self._probes += bounds.lo.size
            if self._probes < self._keys.size or self._probes < SELDOM * self._found:
                return bounds
            self._presence = presence = Presence(self._keys)
        return presence.only(bounds) if presence.useful else bounds

    def only(self, mask: np.ndarray) -> "BISort":
        keys, rows, part = np.empty_like(self.keys), np.empty_like(self.rows), BISort(0)
        kept = keep_rows(self.keys, self.rows, mask, keys, rows)
        part.adopt(keys[:kept], rows[:kept])
        return part

    def pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        if self._apart(bounds.lo.size):
            for run in self._runs():
                yield from self._pairs_of(run, bounds, buffer)
        elif self._keys.size:
            yield from self._pairs_of((self._keys, self._rows, self._index), bounds, buffer)
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
            self._keys, self._rows, self._index, self._room = (
                self._keys.copy(),
                self._rows.copy(),
                self._index.copy(),
                None,
            )

    @property
    def nbytes(self) -> int:
        arrays = (*(self._room or (self._keys, self._rows, self._index)), self.buffer_keys, self.buffer_rows)
        waiting = sum(array.nbytes for run in self._waiting for array in run)
        noted = 0 if self._presence is None else self._presence.nbytes
        return sum(array.nbytes for array in arrays) + waiting + noted


def _merged(one: Run, two: Run) -> Run:
    keys, rows = merge_runs(*one[:2], *two[:2])
    return keys, rows, keys[::STRIDE].copy()
