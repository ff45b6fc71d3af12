"""Index for equalities whose keys are dense, as numbers of customers and orders are: a table with a place for every key.

No order is needed: rows are stored and probes answered as they come, where a sorted run costs a sort of both, a merge and a search. Nothing
is merged, so a sub-window may be as large as one likes, and a probe meets few of them. What decides is memory: the table has at most
``SPAN`` places for each row that is stored. Until there are so many rows for the keys that have come, and for good once keys have come that
lie too far away, rows are in sorted runs (``bi_sort.py``). Batches wait until somebody looks: those that nobody probes for cost nothing.
"""

from collections.abc import Iterator
from threading import Lock
from typing import ClassVar, NamedTuple

import numpy as np

from watersmeet.errors import ConditionError
from watersmeet.index.base import Bounds, Index, Keys, PairBuffer
from watersmeet.index.bi_sort import BISort
from watersmeet.kernels.dense import in_key_order, known, known_pairs, move, put
from watersmeet.kernels.sort import extent

# Places a row, of 4 bytes each; a sorted run has 12 to 24 bytes a row, a hash index 46. Of the numbers of TPC-H's orders up to the middle
# of the years one in eight is there.
SPAN = 16
FLOOR = 1 << 14  # places that are never too many
GROWTH = 3  # times as many places as are needed are made beside them
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


class Table(NamedTuple):
    """A place for every key from ``low`` on."""

    low: int
    heads: np.ndarray
    bits: np.ndarray
    following: np.ndarray  # by row

    @staticmethod
    def empty(low: int, high: int, following: np.ndarray) -> "Table":
        places = high - low + 1
        # Zeros that are not touched take no memory.
        return Table(low, np.zeros(places, np.int32), np.zeros(places // 64 + 1, np.uint64), following)

    @property
    def high(self) -> int:
        return self.low + self.heads.size - 1

    def moved(self, low: int, high: int) -> "Table":
        """The same rows with places from ``low`` to ``high``: no row is left out."""
        fresh = Table.empty(low, high, self.following)
        first, stop = max(low, self.low), min(high, self.high) + 1
        move(self.heads[first - self.low : stop - self.low], first - low, fresh.heads, fresh.bits)
        return fresh


class Dense(Index):
    """One sub-window, by key. Insert and probe O(1) a row."""

    name: ClassVar[str] = "dense"

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        # What is in the table, or in sorted runs: one of the two is there. Replaced together, so that who looks sees every row once.
        self._held: Table | BISort = BISort(capacity)
        self._waiting: list[tuple[Keys, int]] = []  # batches that came since
        self._entering = Lock()
        self._extent: tuple[int, int] | None = None  # smallest and largest key
        self._count = 0  # rows that have a key
        self._rows = 0  # the last of them, and one
        self._tables = True  # whether there may be a table

    def insert(self, keys: Keys, offset: int) -> None:
        self._waiting.append((keys, offset))

    def any_order(self) -> bool:
        return isinstance(self._now(), Table)

    def _now(self) -> Table | BISort:
        """With all batches that wait. Several threads may find at once that it is to be done."""
        if not self._waiting:
            return self._held
        with self._entering:
            waiting = self._waiting
            if waiting:
                self._enter(waiting)
                self._waiting = []
            return self._held

    def _enter(self, waiting: list[tuple[Keys, int]]) -> None:
        ends = [extent(keys.key) for keys, _ in waiting] + ([] if self._extent is None else [self._extent])
        low, high = int(min(low for low, _ in ends)), int(max(high for _, high in ends))
        self._extent = low, high
        if self._tables:
            self._make_room(low, high, sum(keys.size for keys, _ in waiting))
        for keys, offset in waiting:
            self._count += keys.size
            if isinstance(self._held, Table):
                self._put(self._held, keys.key, keys.rows, offset)
            else:
                self._held.insert(keys.in_order(), offset)

    def _put(self, table: Table, keys: np.ndarray, rows: np.ndarray, offset: int) -> None:
        last = put(keys, rows, offset, table.low, table.heads, table.bits, table.following)
        self._rows = max(self._rows, last + 1)

    def _make_room(self, low: int, high: int, coming: int) -> None:
        """A table with a place for all keys in [low, high], if it may be so large."""
        held, most, places = self._held, SPAN * (self._count + coming) + FLOOR, high - low + 1
        if isinstance(held, Table) and held.low <= low and high <= held.high:
            return
        if places > most:
            if isinstance(held, Table):
                self._give_up(held)
            return
        room = min(GROWTH * places, most - places)  # for keys that follow
        if isinstance(held, Table) and low < held.low:
            low = max(low - room, LEAST)
        else:
            high = min(high + room, GREATEST)
        if isinstance(held, Table):
            self._held = held.moved(low, high)
            return
        fresh = Table.empty(low, high, np.empty(self._capacity, np.int32))
        held.flush()
        self._put(fresh, held.keys, held.rows, 0)
        self._held = fresh

    def _give_up(self, table: Table) -> None:
        """Sorted runs in place of the table."""
        keys, rows = np.empty(self._count, np.int64), np.empty(self._count, np.int32)
        in_key_order(table.low, table.heads, table.following, keys, rows)
        self._held, self._tables = BISort(self._capacity), False
        self._held.adopt(keys, rows)

    def near(self, bounds: Bounds) -> Bounds | None:
        held = self._now()
        return held.near(bounds) if isinstance(held, BISort) else bounds

    def pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        held = self._now()
        if isinstance(held, BISort):
            yield from held.pairs(bounds, buffer)
            return
        low, heads, bits, following = held
        lo, hi, size = bounds.lo, bounds.hi, bounds.lo.size
        keys, probes = np.empty(size, np.int64), np.empty(size, np.int32)
        n = known(lo, hi, bounds.rows, low, heads.size, bits, keys, probes)
        if n < 0:
            raise ConditionError("an index of dense keys must be probed with single keys; got a range")
        keys, probes, state = keys[:n], probes[:n], np.zeros(2, np.int64)
        while state[0] < n:
            yield known_pairs(keys, probes, low, heads, following, state, buffer.probe, buffer.row)

    def expect(self, probes: float) -> None:
        if isinstance(held := self._now(), BISort):
            held.expect(probes)

    def seal(self) -> None:
        held = self._held
        if self._waiting:  # nobody has looked, and perhaps nobody will
            return
        if isinstance(held, BISort):
            held.seal()
        else:
            self._held = held._replace(following=held.following[: self._rows].copy())

    @property
    def nbytes(self) -> int:
        held = self._held
        waiting = sum(keys.key.nbytes + keys.rows.nbytes for keys, _ in self._waiting)
        if isinstance(held, BISort):
            return waiting + held.nbytes
        return waiting + held.heads.nbytes + held.bits.nbytes + held.following.itemsize * self._rows
