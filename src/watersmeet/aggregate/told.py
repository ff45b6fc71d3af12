"""What was told of each group, so that only differences need be told.

What stays true: ``at`` of a slot is the place of its row among all that was told, plus one; 0: nothing was told. Rows that are no
longer true are let go once they are more than the others.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.aggregate.table import Table
from watersmeet.kernels.groups import first_met

SLACK = 1 << 10
SPARSE = 64  # slots a group that was touched, above which sorting these is less work than looking through all
OPERATION = "operation"


@dataclass(frozen=True)
class Changes:
    """The net difference between two answers: rows that are no longer true, and rows that are now."""

    gone: pa.RecordBatch
    come: pa.RecordBatch
    keys: int  # the first so many columns are the groups'
    ended: np.ndarray  # mask over ``gone``: the group is not there any more
    begun: np.ndarray  # mask over ``come``: the group was not there before; the others are those of ``gone`` that are left, in their order

    def changelog(self) -> pa.Table:
        """All rows, with a last column ``operation``: those with -1 first, then those with 1."""
        return pa.concat_tables([_marked(self.gone, -1), _marked(self.come, 1)])

    def update(self) -> pa.Table:
        """The groups that differ: as they are now with 1; groups that are not there any more first, with -1 and nothing but their key."""
        ended = self.gone.filter(pa.array(self.ended))
        columns = [
            column if i < self.keys else pa.nulls(ended.num_rows, column.type)
            for i, column in enumerate(ended)
        ]
        return pa.concat_tables(
            [_marked(pa.record_batch(columns, schema=ended.schema), -1), _marked(self.come, 1)]
        )


class Log:
    """Rows one after the other, in few batches: short ones are put together, so that a row is copied O(log n) times."""

    def __init__(self, batches: tuple[pa.RecordBatch, ...]) -> None:
        self.batches = batches
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def followed_by(self, rows: pa.RecordBatch) -> "Log":
        if not rows.num_rows:
            return self
        kept, size = len(self.batches), rows.num_rows
        while kept and self.batches[kept - 1].num_rows <= 2 * size:
            kept -= 1
            size += self.batches[kept].num_rows
        return Log((*self.batches[:kept], pa.concat_batches([*self.batches[kept:], rows])))

    def take(self, places: np.ndarray, schema: pa.Schema) -> pa.RecordBatch:
        """The rows at some places, in the order of those."""
        # Lengths at least double from batch to batch: their number fits a byte, by which NumPy sorts in no time.
        own = (np.searchsorted(self._starts, places, "right") - 1).astype(np.uint8)
        counts = np.bincount(own, minlength=len(self.batches))
        some = np.flatnonzero(counts)
        if some.size < 2:
            if not some.size:
                return pa.RecordBatch.from_pylist([], schema)
            return self.batches[some[0]].take(pa.array(places - self._starts[some[0]]))
        order = np.argsort(own, kind="stable")
        ends = np.cumsum(counts)
        parts = [
            self.batches[k].take(pa.array(places[order[ends[k] - counts[k] : ends[k]]] - self._starts[k]))
            for k in some
        ]
        back = np.empty(order.size, np.int64)
        back[order] = np.arange(order.size)
        return pa.concat_batches(parts).take(pa.array(back))


Mark = tuple[list[np.ndarray], int, Log]


class Told:
    """Of all groups."""

    def __init__(self, groups: Table, schema: pa.Schema) -> None:
        self._groups, self._schema = groups, schema
        self._log = Log(())
        self._at, self._met = groups.column(), groups.column()
        self._touched: list[np.ndarray] = []
        self._turn = 1

    def touch(self, slots: np.ndarray) -> None:
        """Groups may have changed; they have been saved."""
        fresh, capacity = np.empty(slots.size, np.int64), self._groups.slots.capacity
        fresh = fresh[: first_met(slots, capacity, self._met.data, self._turn, fresh)]
        if fresh.size:
            self._touched = [*self._touched, fresh]

    def touched(self) -> np.ndarray:
        """Groups that may differ from what was told, each once."""
        found = np.concatenate([np.empty(0, np.int64), *self._touched])
        capacity = self._groups.slots.capacity
        if capacity > SPARSE * found.size:
            found = np.unique(found)
        else:  # 10,000 of 16,384: 20 µs in place of 700
            flags = np.zeros(capacity, np.bool_)
            flags[found] = True
            found = np.flatnonzero(flags)
        return found[self._groups.alive.data[found] != 0]  # some may have been let go, and given again

    def tell(self, slots: np.ndarray, there: np.ndarray, rows: pa.RecordBatch, keys: int) -> Changes:
        """``slots`` are all that were touched, ``rows`` those of them that are ``there``. What differs is told from now on."""
        self._groups.slots.save(slots)
        place = self._at.data[slots] - 1
        known = place >= 0
        old = self._log.take(place[known], self._schema)
        differs = np.ones(slots.size, np.bool_)
        differs[known & there] = ~same_rows(_where(old, there[known]), _where(rows, known[there]))
        gone, come = _where(old, differs[known]), _where(rows, differs[there])
        self._at.data[slots[known & ~there]] = 0
        told = slots[there & differs]
        self._at.data[told] = np.arange(told.size) + len(self._log) + 1
        self._log = self._log.followed_by(come)
        self._touched, self._turn = [], self._turn + 1
        if len(self._log) > SLACK + 2 * self._groups.held_slots:
            self._compact()
        return Changes(gone, come, keys, ~there[known & differs], ~known[there & differs])

    def skip(self) -> None:
        """Nothing is told of what was touched so far."""
        self._touched, self._turn = [], self._turn + 1

    def _compact(self) -> None:
        """Let go of rows that are no longer true."""
        held = np.flatnonzero(self._at.data)
        self._groups.slots.save(held)
        self._log = Log((self._log.take(self._at.data[held] - 1, self._schema),))
        self._at.data[held] = np.arange(held.size) + 1

    def saved(self, slots: np.ndarray) -> tuple[pa.Table, np.ndarray, np.ndarray]:
        """Of groups: the rows that were told, whether there is one, and whether it may be no longer true."""
        known = self._at.data[slots] > 0
        rows = self._log.take(self._at.data[slots[known]] - 1, self._schema)
        return pa.Table.from_batches([rows]), known, self._met.data[slots] == self._turn

    def load(self, rows: pa.Table, known: np.ndarray, touched: np.ndarray) -> None:
        """The same, of the first groups."""
        self._log, self._touched = Log(tuple(rows.combine_chunks().to_batches())), []
        self._met.data[:] = 0
        self._at.data[: known.size] = np.where(known, np.cumsum(known), 0)
        self.touch(np.flatnonzero(touched))

    def mark(self) -> Mark:
        return self._touched, self._turn, self._log

    def back_to(self, mark: Mark) -> None:
        """The groups' table has gone back before."""
        self._touched, self._turn, self._log = mark


def _where(rows: pa.RecordBatch, mask: np.ndarray) -> pa.RecordBatch:
    return rows if mask.all() else rows.filter(pa.array(mask))


def _marked(rows: pa.RecordBatch, operation: int) -> pa.Table:
    table = pa.Table.from_batches([rows])
    return table.append_column(OPERATION, pa.array(np.full(rows.num_rows, operation, np.int8)))


def same_rows(old: pa.RecordBatch, new: pa.RecordBatch) -> np.ndarray:
    """Which rows are the same in all columns. NULL is NULL, and NaN is NaN."""
    same = np.ones(new.num_rows, np.bool_)
    for left, right in zip(old.columns, new.columns, strict=True):
        if pt.is_null(left.type):
            continue
        if pt.is_floating(left.type):  # by their bits
            bits = pa.int64() if left.type == pa.float64() else pa.int32()
            left, right = left.view(bits), right.view(bits)
        equal = pc.equal(left, right)
        if left.null_count or right.null_count:
            none = pc.and_(pc.is_null(left), pc.is_null(right))
            equal = pc.or_(pc.fill_null(equal, False), none)
        same &= equal.to_numpy(zero_copy_only=False)
    return same
