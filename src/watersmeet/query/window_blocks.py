"""Windows of event time, final or open, and rows that are met for the first time. State is written down when rows come."""

from collections.abc import Callable, Mapping
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.event_time import Hop, Hopping, Sessions
from watersmeet.aggregate.numbering import numbered
from watersmeet.aggregate.spec import Grouping
from watersmeet.aggregate.told import Changes
from watersmeet.join.matches import Matches
from watersmeet.query.block import Block, Turn
from watersmeet.query.delta import Caused, Delta, Part
from watersmeet.query.instruction import Distinct, Open, Windows
from watersmeet.query.relation import Relation
from watersmeet.streams.clock import BOTTOM, TOP
from watersmeet.streams.payload import Chunks

_GIVEN, _CLOSING = "given", "closing"


class OpenBlock(Block):
    """Windows of event time as an answer. Those that are final are let go with the next rows, after all was told of them."""

    def __init__(self, instruction: Open, below: Block, schema: pa.Schema) -> None:
        super().__init__(instruction, (below,))
        self._windows = Hopping(instruction.grouping, schema, instruction.by, changes=True)
        self._watermark = BOTTOM
        self._journal: Any = None

    def give(self, turn: Turn) -> Delta:
        delta = turn.of(self.inputs[0])
        changes = None
        if delta.count:
            if self._journal is None:
                self._journal = self._windows.mark()
            self._windows.advance(self._watermark)
            self._windows.push(turn.rows(self.inputs[0]))
            found = self._windows.aggregation.changes()
            gone, come = self._windows.with_end(found.gone), self._windows.with_end(found.come)
            changes = Changes(gone, come, found.keys + 1, found.ended, found.begun)
        if delta.watermark is not None:
            self._watermark = delta.watermark
        return Relation(
            late=delta.late,
            answer=self.answer,
            in_sequence=self.answer,
            changes=changes,
            changed=changes is not None,
            taken=delta.count,
        )

    @property
    def held(self) -> int:
        return self._windows.held

    @property
    def nbytes(self) -> int:
        return self._windows.nbytes

    def answer(self) -> pa.RecordBatch:
        """All windows that are open, and those that this push has closed."""
        return self._windows.with_end(self._windows.aggregation.answer())

    def mark(self) -> Any:
        self._journal = None
        return self.rows, self._watermark

    def back_to(self, mark: Any) -> None:
        """As it was at the mark. May be repeated."""
        self.rows, self._watermark = mark
        if self._journal is not None:
            self._windows.back_to(self._journal)

    def snapshot(self) -> dict[str, pa.Table]:
        return {**self._windows.snapshot(), _CLOSING: pa.table({_CLOSING: pa.array([self._watermark])})}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        self._windows.restore(tables)
        self._watermark = tables[_CLOSING].column(0)[0].as_py()
        self._journal = None


class MadeBlock(Block):
    """A source of rows that are made here, numbered as they are given."""

    leaf: str

    def __init__(self, instruction: Windows | Distinct, below: Block) -> None:
        super().__init__(instruction, (below,))
        self.leaf = instruction.leaf
        self.schema = pa.schema(list(instruction.fields))
        self._given = 0

    def _delta(
        self, rows: pa.RecordBatch | None, below: Delta, places: Callable[[], np.ndarray] | None = None
    ) -> Delta:
        """``places``: of the arrivals that have caused the rows; None: no arrival has."""
        matches, chunks, caused = Matches(streams=1), Chunks([], []), tuple[Caused, ...]()
        if rows is not None and rows.num_rows:
            first, self._given = self._given, self._given + rows.num_rows
            matches = Matches([(np.arange(first, self._given),)], streams=1)
            chunks = Chunks([rows], [first])
            caused = () if places is None else (Caused(first, places),)
        part = Part((self.leaf,), (self.schema,), matches, [chunks], caused=caused)
        return Delta((part,), below.late)

    def _saved(self) -> pa.Table:
        return pa.table({_GIVEN: [self._given]})

    def _load(self, tables: Mapping[str, pa.Table]) -> None:
        self._given = tables[_GIVEN].column(0)[0].as_py()


class WindowsBlock(MadeBlock):
    """Windows of event time, each given once the watermark has passed its end; at the end of the streams all."""

    def __init__(self, instruction: Windows, below: Block, schema: pa.Schema) -> None:
        super().__init__(instruction, below)
        by, grouping = instruction.by, instruction.grouping
        self._windows: Hopping | Sessions
        if isinstance(by, Hop):
            self._windows = Hopping(grouping, schema, by)
        else:
            self._windows = Sessions(grouping, schema, by)
        self._passed = BOTTOM  # the watermark by which windows were given
        self._journal: Any = None

    def give(self, turn: Turn) -> Delta:
        delta = turn.of(self.inputs[0])
        watermark = TOP - 1 if turn.ending else delta.watermark
        assert watermark is not None
        if not delta.count and watermark <= self._passed:
            return self._delta(None, delta)
        if self._journal is None:
            self._journal = self._windows.mark()
        if delta.count:
            self._windows.push(turn.rows(self.inputs[0]))
        final = self._windows.advance(watermark)
        self._passed = max(self._passed, watermark)
        return self._delta(final, delta)

    @property
    def held(self) -> int:
        return self._windows.held

    @property
    def nbytes(self) -> int:
        return self._windows.nbytes

    def mark(self) -> Any:
        self._journal = None
        return self.rows, self._given, self._passed

    def back_to(self, mark: Any) -> None:
        """As it was at the mark. May be repeated."""
        self.rows, self._given, self._passed = mark
        if self._journal is not None:
            self._windows.back_to(self._journal)

    def snapshot(self) -> dict[str, pa.Table]:
        return {**self._windows.snapshot(), _GIVEN: self._saved()}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        self._windows.restore(tables)
        self._load(tables)
        self._journal = None


class DistinctBlock(MadeBlock):
    """Rows that are met for the first time."""

    def __init__(self, instruction: Distinct, below: Block, schema: pa.Schema) -> None:
        super().__init__(instruction, below)
        self._met = Aggregation(Grouping(tuple(schema.names), ()), schema, retracts=False, changes=True)
        self._journal: Any = None

    def give(self, turn: Turn) -> Delta:
        delta = turn.of(self.inputs[0])
        if not delta.count:
            return self._delta(None, delta)
        if self._journal is None:
            self._journal = self._met.mark()
        rows = turn.rows(self.inputs[0])
        self._met.add(rows)
        come = self._met.changes().come
        asked = ref(turn)  # else turn and delta held each other, and all rows, until Python looks for rings

        def places() -> np.ndarray:
            now = asked()
            assert now is not None
            return now.caused(self.inputs[0])[_first(come, rows)]

        return self._delta(come, delta, places)

    @property
    def held(self) -> int:
        return self._met.groups

    @property
    def nbytes(self) -> int:
        return self._met.nbytes

    def mark(self) -> Any:
        self._journal = None
        return self.rows, self._given

    def back_to(self, mark: Any) -> None:
        """As it was at the mark. May be repeated."""
        self.rows, self._given = mark
        if self._journal is not None:
            self._met.back_to(self._journal)

    def snapshot(self) -> dict[str, pa.Table]:
        return {**self._met.snapshot(), _GIVEN: self._saved()}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        self._met = self._met.restored(tables)
        self._load(tables)
        self._journal = None


def _first(met: pa.RecordBatch, rows: pa.RecordBatch) -> np.ndarray:
    """Where rows that differ are first found among others."""
    others = pa.RecordBatch.from_arrays(rows.columns, schema=met.schema)
    numbers = numbered(pa.concat_batches([met, others]), met.schema.names)[met.num_rows :]
    first = np.empty(numbers.max() + 1, np.int64)
    first[numbers[::-1]] = np.arange(numbers.size)[::-1]
    return first[: met.num_rows]
