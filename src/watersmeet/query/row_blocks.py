"""Blocks that keep rows: as an answer of rows, or until it is their turn to be given. What they keep are immutable batches."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.sliding import KEY
from watersmeet.aggregate.values import codec
from watersmeet.query.block import Block, Turn
from watersmeet.query.delta import Delta, Told
from watersmeet.query.group_blocks import Passing
from watersmeet.query.instruction import Keep, Release
from watersmeet.query.relation import Relation
from watersmeet.query.sorting import in_order

_ROWS, _SEEN, _LEFT = "rows", "seen", "left"


class KeepBlock(Block):
    """Rows as an answer, in the order of their arrival."""

    def __init__(
        self, instruction: Keep, below: Block, schema: pa.Schema, of: pa.Schema | None, clocked: bool
    ) -> None:
        """``of``: the schema of the stream that a sliding window is of, or None; ``clocked``: by that one's own time."""
        super().__init__(instruction, (below,))
        self._order, self._limit = instruction.order, instruction.limit
        sliding = instruction.sliding
        self._passing = None if sliding is None else Passing(sliding, schema if of is None else of, clocked)
        self._kept = pa.RecordBatch.from_pylist([], schema)
        self._keys = np.empty(0, np.int64)

    def give(self, turn: Turn) -> Delta:
        below = self.inputs[0]
        delta = turn.of(below)
        rows = turn.rows(below) if delta.count else None
        changed = self._take(turn, rows)
        kept = self._kept
        return Relation(
            late=delta.late,
            answer=lambda: kept,
            in_sequence=lambda: kept,
            changed=changed,
            taken=delta.count,
        )

    @property
    def held(self) -> int:
        return self._kept.num_rows

    @property
    def nbytes(self) -> int:
        return self._kept.nbytes

    def _take(self, turn: Turn, rows: pa.RecordBatch | None) -> bool:
        """Let rows come and go. Returns whether any did."""
        come = None if self._passing is None else self._passing.come(turn, self.inputs[0], rows)
        if come is None and (rows is None or self._passing is not None):
            return False
        kept = self._kept if rows is None else pa.concat_batches([self._kept, rows])
        if come is not None:
            keys = np.concatenate([self._keys, come.keys])
            stay = keys >= come.bound
            if not stay.all():
                kept, keys = kept.filter(pa.array(stay)), keys[stay]
            self._keys = keys
        elif self._limit is not None and kept.num_rows > self._limit:
            kept = kept.take(pa.array(np.sort(in_order(kept, self._order)[: self._limit])))
        self._kept = kept
        return True

    def mark(self) -> Any:
        return self.rows, self._kept, self._keys, None if self._passing is None else self._passing.mark()

    def back_to(self, mark: Any) -> None:
        """As it was at the mark. May be repeated."""
        self.rows, self._kept, self._keys, passing = mark
        if self._passing is not None:
            self._passing.back_to(passing)

    def snapshot(self) -> dict[str, pa.Table]:
        rows = pa.Table.from_batches([self._kept])
        if self._passing is None:
            return {_ROWS: rows}
        return {_ROWS: rows.append_column(KEY, pa.array(self._keys)), _SEEN: self._passing.snapshot()}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        rows = tables[_ROWS]
        if self._passing is not None:
            self._keys, rows = rows.column(KEY).to_numpy(), rows.drop_columns([KEY])
            self._passing.restore(tables[_SEEN])
        self._kept = _one(rows, self._kept.schema)


class ReleaseBlock(Block):
    """Rows that come out in an order, each when it is its turn; perhaps only the first few."""

    def __init__(self, instruction: Release, below: Block, schema: pa.Schema) -> None:
        super().__init__(instruction, (below,))
        self._order, self._turn, self._extra = instruction.order, instruction.turn, instruction.extra
        self._waiting = pa.RecordBatch.from_pylist([], schema)
        self._times = np.empty(0, np.int64)
        self._left = instruction.limit
        self._codec = None
        if self._turn == "passed":
            self._codec = codec(schema.field(self._order[0].column).type, self._order[0].column, "ORDER BY")

    def give(self, turn: Turn) -> Delta:
        below = self.inputs[0]
        delta = turn.of(below)
        rows = turn.rows(below) if delta.count else self._waiting.slice(0, 0)
        if self._turn != "now":
            rows = self._released(rows, delta.watermark, turn.ending)
        given = rows.take(pa.array(in_order(rows, self._order))) if self._order else rows
        if self._left is not None:
            given = given.slice(0, self._left)
            self._left -= given.num_rows
        return Told(late=delta.late, rows=given.select(given.schema.names[: len(given.schema) - self._extra]))

    @property
    def held(self) -> int:
        return self._waiting.num_rows

    @property
    def nbytes(self) -> int:
        return self._waiting.nbytes

    def _released(self, rows: pa.RecordBatch, watermark: int | None, ending: bool) -> pa.RecordBatch:
        """The rows whose turn has come; the others wait. A row as old as the watermark may have others beside it that come later."""
        waiting, times = self._waiting, self._times
        if rows.num_rows:
            waiting, times = pa.concat_batches([waiting, rows]), np.concatenate([times, self._read(rows)])
        over = np.full(waiting.num_rows, ending) if ending or watermark is None else times < watermark
        if self._codec is None:
            over[:] = ending
        if over.any():
            found, waiting, times = (
                waiting.filter(pa.array(over)),
                waiting.filter(pa.array(~over)),
                times[~over],
            )
        else:
            found = waiting.slice(0, 0)
        self._waiting, self._times = waiting, times
        return found

    def _read(self, rows: pa.RecordBatch) -> np.ndarray:
        """The times of rows, or nothing where they wait for the end."""
        if self._codec is None:
            return np.zeros(rows.num_rows, np.int64)
        return self._codec.encode(rows.column(self._order[0].column))[:, 0]

    def mark(self) -> Any:
        return self.rows, self._waiting, self._times, self._left

    def back_to(self, mark: Any) -> None:
        """As it was at the mark. May be repeated."""
        self.rows, self._waiting, self._times, self._left = mark

    def snapshot(self) -> dict[str, pa.Table]:
        left = pa.table({_LEFT: pa.array([self._left], pa.int64())})
        return {_ROWS: pa.Table.from_batches([self._waiting]), _LEFT: left}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        self._waiting = _one(tables[_ROWS], self._waiting.schema)
        self._left = tables[_LEFT].column(0)[0].as_py()
        self._times = self._read(self._waiting)


def _one(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema)
