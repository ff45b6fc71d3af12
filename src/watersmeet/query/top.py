"""What is told of an answer: the block at the top of a query whose rows change.

- ``complete``: all rows, selected, each once if so asked, in order, the first few.
- ``update``, ``changelog`` of groups: the groups that differ, by the account that the block below keeps; a group whose row has changed, but
  not what is selected of it, is not among them.
- ``changelog`` of anything else: the difference to what was told last.

The first time everything is told, as new: what is told in sum is the answer.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.numbering import numbered
from watersmeet.aggregate.told import OPERATION, Changes, same_rows
from watersmeet.query.block import Block, Turn
from watersmeet.query.delta import Delta, Late, Told
from watersmeet.query.group_blocks import GroupsBlock
from watersmeet.query.instruction import ANSWER, Groups, Open, Top, streams_of
from watersmeet.query.relation import Relation, differences
from watersmeet.query.sorting import first_in_order
from watersmeet.sql.evaluate import evaluate
from watersmeet.sql.select import BoundSelect
from watersmeet.sql.tree import Column, columns_of

_TOLD, _BEGUN = "told", "begun"


class TopBlock(Block):
    """Tells an answer."""

    def __init__(self, instruction: Top, below: Block) -> None:
        super().__init__(instruction, (below,))
        self._having, self._distinct = instruction.having, instruction.distinct
        self._order, self._limit, self._emit = instruction.order, instruction.limit, instruction.emit
        schema = pa.schema(list(instruction.input.fields))
        extra = [(one, expr) for one, expr in zip(_extra_names(instruction), instruction.extra, strict=True)]
        items = [*zip(instruction.names, instruction.exprs, strict=True), *extra]
        self._select = BoundSelect(items, {ANSWER: schema})
        self._names = list(instruction.names)
        self.schema = pa.schema([self._select.schema.field(at) for at in range(len(self._names))])
        plain = isinstance(instruction.input, Groups | Open) and not self._distinct and self._limit is None
        self._by_group = self._emit != "complete" and plain
        if self._by_group:
            if isinstance(below, GroupsBlock):
                below.telling = True
            keys = _keys(instruction)
            self._of_keys = [
                all(column.name in keys for column in columns_of(expr)) for expr in instruction.exprs
            ]
        # Then a group whose row has changed has also changed in what is selected of it.
        self._all_shown = self._having is None and set(schema.names) <= {
            expr.name for expr in instruction.exprs if isinstance(expr, Column)
        }
        nothing = pa.RecordBatch.from_pylist([], self.schema)
        self._nothing = self._marked(nothing, nothing)
        self._streams = streams_of(instruction)
        self._begun = False
        self._told: pa.RecordBatch | None = None  # the last answer, where differences are made of it

    def give(self, turn: Turn) -> Delta:
        if self._begun and not turn.ending and not any(map(turn.moves, self._streams)):
            return self._idle()
        relation = turn.of(self.inputs[0])
        assert isinstance(relation, Relation)
        if self._by_group:
            rows = self._by_groups(relation)
        elif self._begun and not relation.changed:
            return self._idle(relation.late)
        else:
            rows = self._whole(relation)
        self._begun = True
        return Told(late=relation.late, rows=rows)

    def _idle(self, late: Late | None = None) -> Delta:
        """What there is to tell if nothing has changed."""
        rows = self._told if self._emit == "complete" else self._nothing
        assert rows is not None
        return Told(late=late or {}, rows=rows)

    # ---- the whole answer ---------------------------------------------------------------------------------------

    def _whole(self, relation: Relation) -> pa.RecordBatch:
        rows = self._sorted(relation).select(self._names)
        if self._emit == "complete":
            self._told = rows
            return rows
        gone, come = (rows[:0], rows) if self._told is None else differences(self._told, rows)
        self._told = rows
        return self._marked(gone, come)

    def _sorted(self, relation: Relation) -> pa.RecordBatch:
        """The rows that are told; equal ones in sequence, which is looked up only if there are some."""
        if self._order and not self._distinct:
            rows = self._selected(self._passed(relation.answer()))
            places, equal = first_in_order(rows, self._order, self._limit)
            if not equal:
                return rows.take(pa.array(places))
        plain = not self._order and not self._distinct and self._limit is None
        rows = self._selected(self._passed(relation.answer() if plain else relation.in_sequence()))
        if self._distinct:
            numbers = numbered(rows, self._names)
            rows = rows.take(pa.array(np.unique(numbers, return_index=True)[1]))
        if self._order:
            rows = rows.take(pa.array(first_in_order(rows, self._order, self._limit)[0]))
        return rows if self._limit is None else rows.slice(0, self._limit)

    def _passed(self, answer: pa.RecordBatch) -> pa.RecordBatch:
        mask = self._passes(answer)
        return answer if mask is None or mask.all() else answer.filter(pa.array(mask))

    def _passes(self, answer: pa.RecordBatch) -> np.ndarray | None:
        """Which rows HAVING lets pass; None: all."""
        if self._having is None:
            return None
        passed = evaluate(self._having, _columns(answer), answer.num_rows)
        mask: np.ndarray = passed.fill_null(False).to_numpy(zero_copy_only=False)
        return mask

    def _selected(self, answer: pa.RecordBatch) -> pa.RecordBatch:
        return self._select.evaluate(_columns(answer), answer.num_rows)

    # ---- groups that differ -------------------------------------------------------------------------------------

    def _by_groups(self, relation: Relation) -> pa.RecordBatch:
        if not self._begun:
            rows = self._selected(self._passed(relation.answer())).select(self._names)
            return self._marked(rows[:0], rows)
        changes = relation.changes
        if changes is None:
            return self._nothing
        gone, come = (self._selected(rows).select(self._names) for rows in (changes.gone, changes.come))
        went, comes, stays = self._which(changes, gone, come)
        if self._emit == "changelog":
            return self._marked(gone.filter(pa.array(went)), come.filter(pa.array(comes)))
        ended = gone.filter(pa.array(went & ~stays))
        columns = [
            column if of_keys else pa.nulls(ended.num_rows, column.type)
            for column, of_keys in zip(ended.columns, self._of_keys, strict=True)
        ]
        ended = pa.RecordBatch.from_arrays(columns, schema=ended.schema)
        return self._marked(ended, come.filter(pa.array(comes)))

    def _which(
        self, changes: Changes, gone: pa.RecordBatch, come: pa.RecordBatch
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which rows are told as gone, which as come; and of which gone ones the group is still told of."""
        if self._all_shown:
            return np.ones(gone.num_rows, np.bool_), np.ones(come.num_rows, np.bool_), ~changes.ended
        went, comes = self._passes(changes.gone), self._passes(changes.come)
        went = np.ones(gone.num_rows, np.bool_) if went is None else went.copy()
        comes = np.ones(come.num_rows, np.bool_) if comes is None else comes.copy()
        left, again = np.flatnonzero(~changes.ended), np.flatnonzero(~changes.begun)
        both = went[left] & comes[again]
        stays = np.zeros(gone.num_rows, np.bool_)
        stays[left[both]] = True
        old, new = gone.take(pa.array(left[both])), come.take(pa.array(again[both]))
        same = same_rows(old, new)
        went[left[both][same]] = comes[again[both][same]] = False
        return went, comes, stays

    def _marked(self, gone: pa.RecordBatch, come: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that go, then rows that come, and a last column that says which."""
        operation = np.repeat(np.array([-1, 1], np.int8), [gone.num_rows, come.num_rows])
        both = pa.concat_batches([gone, come]) if gone.num_rows else come
        return both.append_column(OPERATION, pa.array(operation))

    # ---- state --------------------------------------------------------------------------------------------------

    def mark(self) -> Any:
        return self.rows, self._begun, self._told

    def back_to(self, mark: Any) -> None:
        """As it was at the mark. May be repeated."""
        self.rows, self._begun, self._told = mark

    def snapshot(self) -> dict[str, pa.Table]:
        tables = {_BEGUN: pa.table({_BEGUN: [self._begun]})}
        return tables if self._told is None else {**tables, _TOLD: pa.Table.from_batches([self._told])}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        self._begun, self._told = tables[_BEGUN].column(0)[0].as_py(), None
        if _TOLD in tables:
            batches = tables[_TOLD].combine_chunks().to_batches()
            self._told = batches[0] if batches else pa.RecordBatch.from_pylist([], self.schema)


def _columns(answer: pa.RecordBatch) -> dict[tuple[str, str], pa.Array]:
    return {(ANSWER, name): answer.column(at) for at, name in enumerate(answer.schema.names)}


def _keys(instruction: Top) -> set[str]:
    """The columns of an answer by which its groups are known."""
    match instruction.input:
        case Groups(grouping=grouping):
            return set(grouping.keys)
        case Open(grouping=grouping, by=by):
            return {by.start, by.end, *grouping.keys}
        case _:
            return set()


def _extra_names(instruction: Top) -> list[str]:
    return [f"\0by{number}" for number in range(len(instruction.extra))]
