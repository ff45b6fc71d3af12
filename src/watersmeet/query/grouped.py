"""A query of groups, bound: what it wants of the rows, and what it makes of the answer. Columns of either are named by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.event_time import FARTHEST, Hop, Hopping, Session, Sessions
from watersmeet.aggregate.values import KEYS
from watersmeet.codes.integer import NANOSECONDS
from watersmeet.errors import ConditionError, SchemaError
from watersmeet.query.event_time import NoTimeError, by_clock
from watersmeet.query.groups import Asks, GroupBinder, bound_over_groups
from watersmeet.query.instruction import Distinct, Fields, Rows, Windows
from watersmeet.query.scope import Branch, Scope, rows_of
from watersmeet.query.setting import Setting
from watersmeet.query.statement import END, SESSION, START, WINDOW, Select, has_aggregate
from watersmeet.sql import types
from watersmeet.sql.names import resolve
from watersmeet.sql.syntax import Source, Syntax
from watersmeet.sql.tree import Column, Expr


@dataclass(frozen=True)
class Grouped:
    """What a query asks of its rows, and its select list, HAVING and ORDER BY over the answer, whose columns are of ``leaf``."""

    query: Select
    scope: Scope
    asks: Asks
    leaf: str
    items: Sequence[tuple[str, Expr]]
    having: Expr | None
    order: Sequence[Expr]
    window: Syntax | None  # of event time

    @property
    def source(self) -> Source:
        return self.scope.binder.source

    @property
    def schema(self) -> pa.Schema:
        """Of the rows that are aggregated."""
        return pa.schema([(name, self.scope.stored(expr)) for expr, name in self.asks.columns.items()])

    @property
    def branches(self) -> list[Branch]:
        """The rows that are aggregated."""
        return self.scope.chosen([(name, expr) for expr, name in self.asks.columns.items()])

    @property
    def rows(self) -> Rows:
        return rows_of(self.branches)

    def fields(self) -> Fields:
        """Of the answer, without windows of event time."""
        try:
            return tuple((f.name, f.type) for f in Aggregation(self.asks.grouping, self.schema).schema)
        except SchemaError as error:
            raise self.refused(error) from None

    def refused(self, error: SchemaError) -> ConditionError:
        """What is wrong with a key's type; aggregates have been checked before."""
        kinds = ", ".join(str(self.schema.field(key).type) for key in self.asks.keys)
        return self.source.error(
            self.query.span,
            f"groups must be by {KEYS}; got {kinds}; CAST it",
        )


def grouped_select(query: Select, scope: Scope, leaf: str, times: Mapping[str, str]) -> Grouped:
    """A query of groups; ``leaf``: whose columns the answer's are; ``times``: the streams' time columns."""
    source = scope.binder.source
    windows = [node for node in query.group if node.op in (WINDOW, SESSION)]
    if len(windows) > 1:
        raise source.error(
            windows[1].span,
            f"a query must have one window of event time; got {source.part(windows[1].span)} too; make two queries",
        )
    window = windows[0] if windows else None
    given: dict[tuple[str | None, str], Column] = {}
    if window is not None:
        kind = _ends_type(scope.stored(scope.binder.bind(window.args[0])))
        given = {(window.op, end): Column(types.logical(kind), leaf, end) for end in (START, END)}
    binder = GroupBinder(scope.binder, leaf, scope.stored, scope.time(times), given)
    aliases = {item.value: item.args[0] for item in query.items if item.op == "alias"}
    for node in query.group:
        if node is not window:
            binder.asks.key(_key(node, query, binder, aliases))
    items = bound_over_groups(binder, query.items)
    binder.aliases = aliases
    having = None if query.having is None else binder.boolean(query.having)
    binder.alias_first = True
    order = [_ordered(item.by, binder, items, query) for item in query.sorting.items]
    asks = binder.asks
    if not asks.keys and not asks.aggregates:
        asks.aggregate("count", None, None)
    return Grouped(query, scope, asks, leaf, items, having, order, window)


def _ends_type(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pt.is_integer(kind) else kind


def _key(node: Syntax, query: Select, binder: GroupBinder, aliases: Mapping[str, Syntax]) -> Expr:
    """An item of GROUP BY: an expression, the place of an item, or an item's name where no column is called so."""
    source = binder.source
    if place(node) is not None:
        node = _item(node, query, binder)
    elif node.op == "column" and node.value[0] is None:
        alias = resolve(node.value[1], list(aliases))
        known = [resolve(node.value[1], schema.names) for schema in binder.rows.names.schemas.values()]
        if alias is not None and not any(known):
            node = aliases[alias]
    if has_aggregate(node):
        raise source.error(
            node.span,
            f"GROUP BY must be of rows; got the aggregate {source.part(node.span)}; group by columns",
        )
    return binder.rows.bind(node)


def place(node: Syntax) -> int | None:
    """A number that stands for a place in the select list."""
    number = node.value[0] if node.op == "literal" else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _item(node: Syntax, query: Select, binder: GroupBinder) -> Syntax:
    items, at = query.items, node.value[0]
    if not 1 <= at <= len(items) or any(item.op == "star" for item in items[:at]):
        raise binder.source.error(
            node.span,
            f"a place in the select list must be from 1 to {len(items)}; got {at}; correct it, or name the column",
        )
    item = items[at - 1]
    return item.args[0] if item.op == "alias" else item


def _ordered(node: Syntax, binder: GroupBinder, items: Sequence[tuple[str, Expr]], query: Select) -> Expr:
    if place(node) is not None:
        _item(node, query, binder)
        return items[node.value[0] - 1][1]
    return binder.bind(node)


# ---- windows of event time --------------------------------------------------------------------------------------


def windows_branch(grouped: Grouped, setting: Setting) -> Branch:
    """The final rows of a query in windows of event time."""
    source, node = grouped.source, grouped.window
    assert node is not None
    time = grouped.scope.binder.bind(node.args[0])
    column = grouped.asks.column(time)
    branches = grouped.branches
    if any(branch.window is not None for branch in branches):
        raise source.error(
            node.span, f"a query must have one window; got {node.op} and one in FROM; leave one out"
        )
    try:
        branches = by_clock(branches, [dict(branch.columns)[column] for branch in branches], setting)
    except NoTimeError as error:
        got, reason = source.part(node.args[0].span), str(error)
        raise source.error(
            node.args[0].span,
            f"{node.op} must be over a time that has a watermark; got {got}, {reason}"
            if reason
            else f"{node.op} must be over the time column of a stream whose own window is a Range, which says how late rows may be; got "
            f"{got}; name that column, or give the stream a Range",
        ) from None
    by = _by(node, column, grouped.scope.stored(time), source)
    grouping, schema = grouped.asks.grouping, grouped.schema
    try:
        if isinstance(by, Hop):
            hopping = Hopping(grouping, schema, by)
            answer = hopping.with_end(hopping.aggregation.answer()).schema
        else:
            answer = Sessions(grouping, schema, by).schema
    except SchemaError as error:
        raise grouped.refused(error) from None
    fields = tuple((field.name, field.type) for field in answer)
    made = Windows(rows_of(branches), grouping, by, grouped.leaf, fields)
    return Branch(made, (grouped.scope.aliases[0],), grouped.having, tuple(grouped.items))


def _by(node: Syntax, column: str, kind: pa.DataType, source: Source) -> Hop | Session:
    if not (pt.is_timestamp(kind) or pt.is_integer(kind)) or pt.is_uint64(kind):
        raise source.error(
            node.args[0].span,
            f"{node.op} must be over timestamps or integers; got {kind}; CAST it before it is pushed",
        )
    lengths = [_units(length, kind) for length in node.value]
    if None in lengths or not all(0 < length < FARTHEST for length in lengths if length is not None):
        unit = f"whole {kind.unit}" if pt.is_timestamp(kind) else "whole numbers, as its times are"
        raise source.error(
            node.span,
            f"the lengths of {node.op} must be positive, in {unit}; got {source.part(node.span)}; correct them",
        )
    size, slide = lengths[0], lengths[-1]
    assert size is not None
    assert slide is not None
    if node.op == SESSION:
        return Session(column, size, START, END)
    if slide > size:
        raise source.error(
            node.span,
            f"a window must be as long as its slide, or longer; got {source.part(node.span)}; correct it",
        )
    return Hop(column, size, slide, START, END)


def _units(length: timedelta | int, kind: pa.DataType) -> int | None:
    """A length in units of a time column; None: it has no such length."""
    if pt.is_integer(kind) or isinstance(length, int):
        return length if pt.is_integer(kind) and isinstance(length, int) else None
    nanos = (length // timedelta(microseconds=1)) * 1000
    return None if nanos % NANOSECONDS[kind.unit] else nanos // NANOSECONDS[kind.unit]


# ---- DISTINCT ---------------------------------------------------------------------------------------------------


def distinct_select(query: Select, items: Sequence[tuple[str, Expr]], scope: Scope, leaf: str) -> Grouped:
    """A query whose groups are its rows: all of its select list are keys."""
    asks = Asks()
    for _, expr in items:
        asks.key(expr)
    columns = [
        (name, Column(types.logical(scope.stored(expr)), leaf, asks.columns[expr])) for name, expr in items
    ]
    return Grouped(query, scope, asks, leaf, columns, None, (), None)


def distinct_branch(grouped: Grouped) -> Branch:
    """Each row of a select list once."""
    made = Distinct(grouped.rows, grouped.leaf, grouped.fields())
    return Branch(made, (grouped.scope.aliases[0],), None, tuple(grouped.items))
