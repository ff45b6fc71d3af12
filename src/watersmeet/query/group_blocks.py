"""Aggregates over all rows so far, or in a sliding window.

Their state is written down for going back only when rows come: a push that brings a block none costs it nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.sliding import Expiry
from watersmeet.aggregate.sliding import Sliding as SlidingRows
from watersmeet.query.block import Block, JoinBlock, Turn
from watersmeet.query.delta import Delta
from watersmeet.query.from_ranges import Found, FromRanges
from watersmeet.query.instruction import Groups, Sliding
from watersmeet.query.relation import Relation
from watersmeet.streams.clock import BOTTOM

_SEEN = "seen"


@dataclass(frozen=True)
class Come:
    """Rows that come into a sliding window: their keys, and the bound below which keys are over."""

    keys: np.ndarray
    bound: int


class Passing:
    """Which rows of a push are how far from leaving a sliding window."""

    def __init__(self, sliding: Sliding, schema: pa.Schema, clocked: bool) -> None:
        """``clocked``: whether it goes by the stream's own time."""
        self._stream, self._expiry = sliding.stream, Expiry(sliding.window, schema)
        self._clocked = clocked

    def come(self, turn: Turn, block: Block, rows: pa.RecordBatch | None) -> Come | None:
        """Of the rows that ``block`` gives; None: nothing comes and goes."""
        expiry = self._expiry
        if self._stream is None:
            if rows is None:
                return None
            keys = expiry.keys(rows)
            return Come(keys, expiry.come(keys))
        ticks = turn.ticks(self._stream) if self._clocked else None
        found = turn.arrived(self._stream)
        if ticks is None and found is None:
            return None
        keys, bound = np.empty(0, np.int64), BOTTOM
        if found is not None:
            batch, first = found
            keys = expiry.keys(batch)
            bound = expiry.come(keys)
            (part,) = turn.of(block).parts
            keys = keys[part.matches.columns()[0] - first]
        if ticks is not None:  # whether before or after the rows: what is over in the end is the same
            bound = expiry.advance(ticks[0])
        return Come(keys, bound)

    def mark(self) -> Any:
        return self._expiry.mark()

    def back_to(self, mark: Any) -> None:
        self._expiry.back_to(mark)

    def snapshot(self) -> pa.Table:
        seen, clock = self._expiry.mark()
        return pa.table({"seen": [seen], "clock": [clock]})

    def restore(self, table: pa.Table) -> None:
        (row,) = table.to_pylist()
        self._expiry.back_to((row["seen"], row["clock"]))


class GroupsBlock(Block):
    """An answer of groups. ``telling``: somebody wants to know what changes."""

    def __init__(
        self,
        instruction: Groups,
        below: Block,
        schema: pa.Schema,
        of: pa.Schema | None,
        clocked: bool,
        from_ranges: FromRanges | None = None,
    ) -> None:
        """``schema``: of the rows; ``of``: of the stream that a sliding window is of, or None; ``clocked``: by that one's own time;
        ``from_ranges``: how ranges of a join are folded, where its pairs need not be listed."""
        super().__init__(instruction, (below,))
        self.from_ranges = from_ranges
        sliding = instruction.sliding
        self._state = Aggregation(instruction.grouping, schema, retracts=sliding is not None, changes=True)
        self._sliding = None if sliding is None else SlidingRows(self._state)
        self._passing = None if sliding is None else Passing(sliding, schema if of is None else of, clocked)
        self.telling = False
        self._current = False  # whether what was told is what was so after the last push
        self._journal: Any = None
        self._answer: pa.RecordBatch | None = None  # until rows come

    def give(self, turn: Turn) -> Delta:
        below = self.inputs[0]
        delta = turn.of(below)
        found = None if self.from_ranges is None else self.from_ranges.folded(turn, delta)
        if found is not None:
            changed = self._fold(found)
        else:
            changed = self._take(turn, turn.rows(below) if delta.count else None)
        changes = None
        if self.telling and (changed or not self._current):
            self._write_down()
            changes = self._aggregation.changes(skipped=not self._current)
            self._current = True
        elif changed:
            self._aggregation.skip_changes()
            self._current = False
        return Relation(
            late=delta.late,
            answer=self.answer,
            in_sequence=self.in_sequence,
            changes=changes,
            changed=changed,
            taken=delta.count,
        )

    @property
    def held(self) -> int:
        return self._aggregation.groups

    @property
    def nbytes(self) -> int:
        return self._aggregation.nbytes

    @property
    def ranges_read(self) -> bool:
        """Whether pairs of a join are not listed for this block."""
        joins = [join for below in self.inputs for join in below.inputs if isinstance(join, JoinBlock)]
        return self.from_ranges is not None and all(join.in_ranges for join in joins)

    @property
    def _aggregation(self) -> Aggregation:
        return self._state if self._sliding is None else self._sliding.aggregation

    def _take(self, turn: Turn, rows: pa.RecordBatch | None) -> bool:
        """Let rows come and go. Returns whether any did."""
        if self._passing is None or self._sliding is None:
            if rows is None:
                return False
            self._write_down()
            self._state.add(rows)
        else:
            come = self._passing.come(turn, self.inputs[0], rows)
            if come is None:
                return False
            self._write_down()
            batch = turn.rows(self.inputs[0]) if rows is None else rows
            self._sliding.push(batch, come.keys, come.bound)
        self._answer = None
        return True

    def _fold(self, found: Found) -> bool:
        """Let rows come, most of them folded."""
        self._write_down()
        self._state.add_folded(*found)
        self._answer = None
        return True

    def answer(self) -> pa.RecordBatch:
        """All groups, in the order of their first rows."""
        if self._answer is None:
            self._answer = self._aggregation.answer()
        return self._answer

    def in_sequence(self) -> pa.RecordBatch:
        """The same, by the first of the rows that are there. In a sliding window that is looked up: a group may go, and come again."""
        answer = self.answer()
        if self._sliding is None or not self._aggregation.grouping.keys:
            return answer
        return answer.take(pa.array(np.argsort(self._sliding.first_rows(answer))))

    def _write_down(self) -> None:
        if self._journal is None:
            self._journal = (self._sliding or self._state).mark()

    def mark(self) -> Any:
        self._journal = None
        passing = None if self._passing is None else self._passing.mark()
        return self.rows, passing, self._answer, self._current

    def back_to(self, mark: Any) -> None:
        """As it was at the mark. May be repeated."""
        self.rows, passing, self._answer, self._current = mark
        if self._passing is not None:
            self._passing.back_to(passing)
        if self._journal is not None:
            (self._sliding or self._state).back_to(self._journal)

    def snapshot(self) -> dict[str, pa.Table]:
        if self._sliding is None or self._passing is None:
            return self._state.snapshot()
        return {**self._sliding.snapshot(), _SEEN: self._passing.snapshot()}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        if self._sliding is None or self._passing is None:
            self._state = self._state.restored(tables)
        else:
            self._sliding = self._sliding.restored(tables)
            self._passing.restore(tables[_SEEN])
        self._answer, self._journal, self._current = None, None, False
