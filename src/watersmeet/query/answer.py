"""A whole query to its plan: what its results are (``emit``), in which order, and how many.

Rows that only come are told once (``append``). An answer that changes (running and sliding aggregates, rows in a window, the first few
in an order) is a block of its own, ``Groups`` or ``Keep``, and a ``Top`` over it tells it: whole (``complete``), as the groups that differ
(``update``), or as rows that go and come (``changelog``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet.aggregate.event_time import Hop
from watersmeet.aggregate.values import KEYS, is_key
from watersmeet.errors import OptionError
from watersmeet.query.bind import Binding
from watersmeet.query.event_time import NoTimeError, by_clock
from watersmeet.query.grouped import (
    Grouped,
    distinct_branch,
    distinct_select,
    grouped_select,
    place,
    windows_branch,
)
from watersmeet.query.instruction import (
    ANSWER,
    Fields,
    Groups,
    Keep,
    Open,
    Order,
    Project,
    Release,
    Sliding,
    Top,
    Union,
    Windows,
)
from watersmeet.query.scope import Branch, Scope, rows_of
from watersmeet.query.setting import Setting
from watersmeet.query.statement import END, START, Query, Select, Sorting, UnionAll
from watersmeet.sql import types
from watersmeet.sql.bind import Binder
from watersmeet.sql.names import resolve
from watersmeet.sql.syntax import Source, Syntax
from watersmeet.sql.tree import Column, Expr, Literal, substituted

EMITS = ("append", "update", "complete", "changelog")
OPERATION = "operation"
Items = Sequence[tuple[str, Expr]]


@dataclass(frozen=True)
class Bound:
    """A query that can run: its plan, and the name of each of the plan's leaves in the text."""

    plan: Project | Union | Top | Release
    names: tuple[str, ...]


def check_emit(emit: str | None) -> None:
    """Refuse what is no way to give results."""
    if emit is not None and emit not in EMITS:
        raise OptionError(f"emit= must be one of {', '.join(map(repr, EMITS))}; got {emit!r}")


def bind_query(source: Source, query: Query, setting: Setting) -> Bound:
    """The plan of a query; what does not fit the schemas is refused, with its place."""
    binding = Binding(source, setting)
    with source.of_any_depth():
        bound = _Answering(binding, setting.emit).bound(query)
    binding.check_windows()
    return replace(bound, names=_apart(bound.names))


class _Answering:
    def __init__(self, binding: Binding, emit: str | None) -> None:
        self.binding, self.source, self.emit = binding, binding.source, emit

    def bound(self, query: Query) -> Bound:
        if isinstance(query, UnionAll):
            branches = self.binding.united(query)
            self.binding.refuse_tables(branches)
            self.binding.refuse_windows(branches)
            return self._rows(query.sorting, branches, self._output_scope(branches), None)
        scope = self.binding.scope(query)
        self.binding.refuse_tables(scope.branches)
        if query.grouped:
            return self._groups(query, scope)
        if query.distinct:
            return self._distinct(query, scope)
        return self._selection(query, scope)

    # ---- rows ---------------------------------------------------------------------------------------------------

    def _output_scope(self, branches: Sequence[Branch]) -> Scope:
        """What ORDER BY of a UNION ALL stands over: the columns that it gives."""
        schema = self.binding.schema(branches[0].columns)
        columns = tuple({(ANSWER, name): expr for name, expr in branch.columns} for branch in branches)
        return Scope(tuple(branches), columns, Binder(self.source, {ANSWER: schema}), (ANSWER,))

    def _selection(self, query: Select, scope: Scope) -> Bound:
        items = self.binding.items(query, scope)
        sliding, time = self.binding.sliding(query, scope)
        if sliding is not None and self.emit == "append":
            self.binding.refuse_windows(scope.branches)
        if sliding is None:
            return self._rows(query.sorting, scope.chosen(items), scope, items)
        order, extra = self._order(query.sorting, scope, items)
        emit = self.emit or "complete"
        return self._kept(emit, query.sorting, scope, items, order, extra, sliding, time)

    def _rows(self, sorting: Sorting, branches: Sequence[Branch], scope: Scope, items: Items | None) -> Bound:
        """Rows that only come. ``items``: the select list over the scope; None: the scope's own columns."""
        if items is None:
            schema = scope.binder.names.schemas[ANSWER]
            items = [
                (name, Column(types.logical(schema.field(name).type), ANSWER, name)) for name in schema.names
            ]
        names = tuple(name for branch in branches for name in branch.names)
        order, extra = self._order(sorting, scope, items)
        timed = self._timed(sorting, scope, items)
        emit = self.emit or (
            "append" if not sorting.items or (timed is not None and sorting.limit is None) else "complete"
        )
        if emit == "update":
            raise OptionError(
                "emit='update' must be of groups, which change; got a query whose rows only come; use emit='append'"
            )
        if not sorting:
            if emit == "append":
                return Bound(rows_of(branches), names)
            if emit == "changelog":
                _check_names(items)
                told = (OPERATION, Literal(pa.int8(), 1))
                return Bound(rows_of([replace(b, columns=(*b.columns, told)) for b in branches]), names)
        if emit == "append":
            columns = scope.chosen([*items, *_named(extra)])
            if timed is not None:
                columns = by_clock(columns, timed, self.binding.setting)
            plan = rows_of(columns)
            turn = "passed" if timed is not None else "end" if order else "now"
            return Bound(Release(plan, order, turn, sorting.limit, len(extra)), names)
        return self._kept(emit, sorting, scope, items, order, extra, None, None)

    def _timed(self, sorting: Sorting, scope: Scope, items: Items) -> list[Expr] | None:
        """The event times that rows are sorted by first, one a branch: their turn comes as the watermark moves on. None: there are none."""
        if not sorting.items or sorting.items[0].descending:
            return None
        by = self._by(sorting.items[0].by, scope.binder, items)
        times = [substituted(by, columns) for columns in scope.columns]
        try:
            by_clock(scope.branches, times, self.binding.setting)
        except NoTimeError:
            return None
        return times

    def _kept(
        self,
        emit: str,
        sorting: Sorting,
        scope: Scope,
        items: Items,
        order: tuple[Order, ...],
        extra: Sequence[Expr],
        sliding: Sliding | None,
        time: Expr | None,
    ) -> Bound:
        """Rows as an answer: all of them, those in a window, or the first few."""
        if emit == "update":
            raise OptionError(
                "emit='update' must be of groups; got a query of rows; use emit='complete' or emit='changelog'"
            )
        self._check_order(emit, sorting)
        wrong = [f"{name!r}, {scope.stored(expr)}" for name, expr in items if not is_key(scope.stored(expr))]
        if emit == "changelog" and wrong:
            raise OptionError(
                f"emit='changelog' must be of columns that can be compared: {KEYS}; got {wrong[0]}; leave it out, or use emit='complete'"
            )
        columns = [*items, *_named(extra)]
        if time is not None and sliding is not None:
            columns.append((_TIME, time))
            sliding = sliding.by(_TIME)
        fields: Fields = tuple((name, scope.stored(expr)) for name, expr in columns)
        limit = sorting.limit if sliding is None else None
        keep = Keep(
            rows_of(scope.chosen(columns)), sliding, order if limit is not None else (), limit, fields
        )
        shown = [Column(types.logical(kind), ANSWER, name) for name, kind in fields]
        _check_names(items, emit)
        top = Top(
            keep,
            None,
            tuple(name for name, _ in items),
            tuple(shown[: len(items)]),
            tuple(shown[len(items) : len(items) + len(extra)]),
            False,
            order,
            sorting.limit,
            emit,
        )
        return Bound(top, tuple(name for branch in scope.branches for name in branch.names))

    def _order(self, sorting: Sorting, scope: Scope, items: Items) -> tuple[tuple[Order, ...], list[Expr]]:
        bound = [self._by(item.by, scope.binder, items) for item in sorting.items]
        for item, expr in zip(sorting.items, bound, strict=True):
            if not is_key(scope.stored(expr)):
                raise self.source.error(
                    item.by.span,
                    f"ORDER BY must be by {KEYS}; got {scope.stored(expr)}; CAST it, or leave it out",
                )
        return _columns(sorting, bound, items)

    def _by(self, node: Syntax, binder: Binder, items: Items) -> Expr:
        """What ORDER BY says: a place in the select list, a name of an item, or an expression over the rows."""
        at = place(node)
        if at is not None:
            if not 1 <= at <= len(items):
                raise self.source.error(
                    node.span,
                    f"a place in the select list must be from 1 to {len(items)}; got {at}; correct it, or name the column",
                )
            return items[at - 1][1]
        if node.op == "column" and node.value[0] is None:
            name = resolve(node.value[1], [name for name, _ in items])
            if name is not None:
                return dict(items)[name]
        return binder.bind(node)

    # ---- groups -------------------------------------------------------------------------------------------------

    def _distinct(self, query: Select, scope: Scope) -> Bound:
        items = self.binding.items(query, scope)
        sliding, time = self.binding.sliding(query, scope)
        order, extra = self._order(query.sorting, scope, items)
        if extra:
            raise self.source.error(
                query.sorting.span,
                "ORDER BY of SELECT DISTINCT must be by what is selected; got something else; select it too",
            )
        plain = sliding is None and not query.sorting
        if plain and self.emit in (None, "append"):
            grouped = distinct_select(query, items, scope, self.binding.leaf("rows"))
            return Bound(rows_of([distinct_branch(grouped)]), (scope.aliases[0],))
        grouped = distinct_select(query, items, scope, ANSWER)
        emit = self.emit or ("complete" if query.sorting else "update")
        return self._answer(grouped, sliding, time, order, extra, emit)

    def _groups(self, query: Select, scope: Scope) -> Bound:
        windowed = any(node.op in ("window", "session_window") for node in query.group)
        final = windowed and self.emit in (None, "append")
        leaf = self.binding.leaf("groups") if final else ANSWER
        grouped = grouped_select(query, scope, leaf, self.binding.setting.times)
        order, extra = _columns(query.sorting, grouped.order, grouped.items)
        if windowed:
            return self._final(grouped, order, extra)
        if query.distinct and extra:
            raise self.source.error(
                query.sorting.span,
                "ORDER BY of SELECT DISTINCT must be by what is selected; got something else; select it too",
            )
        sliding, time = self.binding.sliding(query, scope)
        whole = bool(query.sorting) or query.distinct or not grouped.asks.keys
        emit = self.emit or ("complete" if whole else "update")
        return self._answer(grouped, sliding, time, order, extra, emit)

    def _answer(
        self,
        grouped: Grouped,
        sliding: Sliding | None,
        time: Expr | None,
        order: tuple[Order, ...],
        extra: Sequence[Expr],
        emit: str,
    ) -> Bound:
        query = grouped.query
        if emit == "append":
            raise OptionError(
                "emit='append' must be of rows that stay; got an answer that changes; use emit='update', 'complete' or 'changelog', or "
                "GROUP BY window(ts, ...)"
            )
        both = query.grouped and query.distinct
        if emit == "update" and (query.sorting or both):
            got = "DISTINCT" if both else self.source.part(query.sorting.span)
            raise OptionError(
                f"emit='update' must be of groups, one by one; got {got}; leave it out, or use emit='complete' or 'changelog'"
            )
        self._check_order(emit, query.sorting)
        if time is not None and sliding is not None:
            sliding = sliding.by(grouped.asks.column(time))
        groups = Groups(grouped.rows, grouped.asks.grouping, sliding, grouped.fields())
        _check_names(grouped.items, emit)
        top = Top(
            groups,
            grouped.having,
            tuple(name for name, _ in grouped.items),
            tuple(expr for _, expr in grouped.items),
            tuple(extra),
            both,
            order,
            query.sorting.limit,
            emit,
        )
        return Bound(top, tuple(name for branch in grouped.scope.branches for name in branch.names))

    def _final(self, grouped: Grouped, order: tuple[Order, ...], extra: Sequence[Expr]) -> Bound:
        """Windows of event time: each row once, when it is final."""
        query = grouped.query
        if query.distinct:
            raise self.source.error(
                query.span, "windows of event time must go without DISTINCT; got both; leave DISTINCT out"
            )
        branch = windows_branch(grouped, self.binding.setting)
        if self.emit not in (None, "append"):
            return self._open(branch, grouped, self.emit)
        names = branch.names
        if not query.sorting:
            return Bound(rows_of([branch]), names)
        made = branch.source
        assert isinstance(made, Windows)
        columns = replace(branch, columns=(*branch.columns, *_named(extra)))
        by = grouped.order[0] if order else None
        # Of windows that are as long as each other those that begin earlier are final earlier; of sessions those that end earlier.
        ends = (START, END) if isinstance(made.by, Hop) else (END,)
        in_turn = not order or (isinstance(by, Column) and by.name in ends and not order[0].descending)
        turn = "now" if in_turn else "end"
        return Bound(Release(rows_of([columns]), order, turn, query.sorting.limit, len(extra)), names)

    def _open(self, branch: Branch, grouped: Grouped, emit: str) -> Bound:
        """Windows of event time before they are final: the groups that differ."""
        made = branch.source
        assert isinstance(made, Windows)
        if emit == "complete" or not isinstance(made.by, Hop):
            got = "sessions" if emit != "complete" else "windows of event time, of which there are ever more"
            raise OptionError(
                f"emit={emit!r} must be of an answer that stays small and keeps its groups; got {got}; use emit='append'"
            )
        if grouped.query.sorting:
            raise OptionError(
                f"emit={emit!r} of windows of event time must go without an order; got {self.source.part(grouped.query.sorting.span)}; "
                "leave it out, or use emit='append'"
            )
        _check_names(grouped.items, emit)
        names, exprs = zip(*grouped.items, strict=True)
        answer = Open(made.input, made.grouping, made.by, made.fields)
        top = Top(answer, grouped.having, names, exprs, (), False, (), None, emit)
        return Bound(top, tuple(name for one in grouped.scope.branches for name in one.names))

    def _check_order(self, emit: str, sorting: Sorting) -> None:
        if emit == "changelog" and sorting.items and sorting.limit is None:
            raise OptionError(
                f"emit='changelog' must go without an order; got {self.source.part(sorting.span)}; leave it out, add LIMIT, or use "
                "emit='complete'"
            )


_TIME = "\0time"


def _named(extra: Sequence[Expr]) -> list[tuple[str, Expr]]:
    return [(f"\0by{number}", expr) for number, expr in enumerate(extra)]


def _columns(sorting: Sorting, bound: Sequence[Expr], items: Items) -> tuple[tuple[Order, ...], list[Expr]]:
    """ORDER BY as columns of the result, and those that it needs beside them."""
    names = {expr: name for name, expr in reversed(items)}
    extra: list[Expr] = []
    found = []
    for item, expr in zip(sorting.items, bound, strict=True):
        if expr not in names:
            names[expr] = _named([*extra, expr])[-1][0]
            extra.append(expr)
        found.append(Order(names[expr], item.descending, item.nulls_first))
    return tuple(found), extra


def _check_names(items: Items, emit: str = "changelog") -> None:
    if emit != "complete" and any(name.lower() == OPERATION for name, _ in items):
        raise OptionError(
            f"emit={emit!r} adds a column {OPERATION!r}; got one of that name in the select list; write AS another_name"
        )


def _apart(names: Sequence[str]) -> tuple[str, ...]:
    """Names made different: the parts of a UNION ALL may use the same ones."""
    found: list[str] = []
    for name in names:
        number, other = 1, name
        while other in found:
            number += 1
            other = f"{name}_{number}"
        found.append(other)
    return tuple(found)
