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
OPERATION = "operation"


@dataclass(frozen=True)
class Changes:
    """The net difference between two answers: rows that are no longer true, and rows that are now."""

    gone: pa.RecordBatch
    come: pa.RecordBatch
    keys: int  # the first so many columns are the groups'
    ended: np.ndarray  # mask over ``gone``: the group is not there any more

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


Mark = tuple[list[np.ndarray], int, pa.Table]


class Told:
    """Of all groups."""

    def __init__(self, groups: Table, schema: pa.Schema) -> None:
        self._groups, self._rows = groups, schema.empty_table()
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
        found = np.unique(np.concatenate([np.empty(0, np.int64), *self._touched]))
        return found[self._groups.alive.data[found] != 0]  # some may have been let go, and given again

    def tell(self, slots: np.ndarray, there: np.ndarray, rows: pa.RecordBatch, keys: int) -> Changes:
        """``slots`` are all that were touched, ``rows`` those of them that are ``there``. What differs is told from now on."""
        self._groups.slots.save(slots)
        place = self._at.data[slots] - 1
        known = place >= 0
        old = self._rows.take(place[known]).combine_chunks()
        both = known & there
        differs = np.ones(slots.size, np.bool_)
        differs[both] = ~_same(old.filter(pa.array(there[known])), rows.filter(pa.array(known[there])))
        gone = _one_batch(old.filter(pa.array(differs[known])))
        come = rows.filter(pa.array(differs[there]))
        self._at.data[slots[known & ~there]] = 0
        told = slots[there & differs]
        self._at.data[told] = np.arange(told.size) + self._rows.num_rows + 1
        self._rows = pa.concat_tables([self._rows, pa.Table.from_batches([come])])
        self._touched, self._turn = [], self._turn + 1
        self._compact()
        return Changes(gone, come, keys, ~there[known & differs])

    def _compact(self) -> None:
        held = np.flatnonzero(self._at.data)
        if self._rows.num_rows > SLACK + 2 * held.size:
            self._groups.slots.save(held)
            self._rows = self._rows.take(self._at.data[held] - 1).combine_chunks()
            self._at.data[held] = np.arange(held.size) + 1

    def saved(self, slots: np.ndarray) -> tuple[pa.Table, np.ndarray, np.ndarray]:
        """Of groups: the rows that were told, whether there is one, and whether it may be no longer true."""
        known = self._at.data[slots] > 0
        return self._rows.take(self._at.data[slots[known]] - 1), known, self._met.data[slots] == self._turn

    def load(self, rows: pa.Table, known: np.ndarray, touched: np.ndarray) -> None:
        """The same, of the first groups."""
        self._rows, self._touched = rows, []
        self._met.data[:] = 0
        self._at.data[: known.size] = np.where(known, np.cumsum(known), 0)
        self.touch(np.flatnonzero(touched))

    def mark(self) -> Mark:
        return self._touched, self._turn, self._rows

    def back_to(self, mark: Mark) -> None:
        """The groups' table has gone back before."""
        self._touched, self._turn, self._rows = mark


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    return pa.record_batch([column.combine_chunks() for column in table.columns], schema=table.schema)


def _marked(rows: pa.RecordBatch, operation: int) -> pa.Table:
    table = pa.Table.from_batches([rows])
    return table.append_column(OPERATION, pa.array(np.full(rows.num_rows, operation, np.int8)))


def _same(old: pa.Table, new: pa.RecordBatch) -> np.ndarray:
    """Which rows are the same in all columns. NULL is NULL, and NaN is NaN."""
    same = np.ones(new.num_rows, np.bool_)
    for left, right in zip(old.columns, new.columns, strict=True):
        left = left.combine_chunks()
        if pt.is_null(left.type):
            continue
        if pt.is_floating(left.type):  # by their bits
            bits = pa.int64() if left.type == pa.float64() else pa.int32()
            left, right = left.view(bits), right.view(bits)
        equal = pc.fill_null(pc.equal(left, right), False)
        none = pc.and_(pc.is_null(left), pc.is_null(right))
        same &= pc.or_(equal, none).to_numpy(zero_copy_only=False)
    return same
