"""The tree of a query and the streams' schemas to instructions: names are resolved, types checked, derived streams inlined.

A query is a list of *branches*, the parts of its UNION ALL: a stream or one join of streams, a predicate, named expressions. A query over
a query gives the same again: its expressions over the inner one's columns become expressions over streams. So selections cost nothing,
however they are nested, and equal queries that are written differently often have equal instructions. Windows of event time and DISTINCT
are sources too, as their rows only come; so are joins of whatever is no stream (``derived.py``), over leaves that are made for them. What
changes (other aggregates) or has an order stands at the top only: see ``answer.py``.

What may go into a join's condition is decided by its type. Inner: everything, WHERE too. Else WHERE, and what filters a
derived stream whose rows come out without a partner too, is a predicate on the result; a row that is not there passes the latter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from watersmeet.errors import ConditionError, OptionError, listed
from watersmeet.join.outer import How, join_type
from watersmeet.query.derived import Input, join_of, said_window
from watersmeet.query.grouped import distinct_branch, distinct_select, grouped_select, windows_branch
from watersmeet.query.instruction import PRESENT, Distinct, Join, JoinOf, Scan, Sliding, Windows
from watersmeet.query.scope import Branch, Scope
from watersmeet.query.setting import Setting
from watersmeet.query.statement import Derived, Query, Select, StreamName, UnionAll, WindowCall
from watersmeet.sql import types
from watersmeet.sql.bind import Binder
from watersmeet.sql.select import bound_items
from watersmeet.sql.syntax import Source, Span
from watersmeet.sql.tree import Call, Column, Expr, Literal, conjunction, substituted
from watersmeet.streams.window import MOST_STREAMS, Passing, Range, Rows, Unbounded, Window, in_words

_TRUE = Literal(types.BOOL, True)


class Binding:
    """Binds one query."""

    def __init__(self, source: Source, setting: Setting) -> None:
        self.source, self.setting = source, setting
        self.used: set[str] = set()  # names in windows= that were asked for
        self.leaves = {stream: stream for stream in setting.windows}  # which stream each leaf is
        self._made: dict[str, pa.Schema] = {}  # of leaves that are no streams

    def branches(self, query: Query) -> list[Branch]:
        """A query as a source for others: its rows must only come."""
        if query.sorting:
            raise self.source.error(
                query.sorting.span,
                f"a query inside of another must have no order; got {self.source.part(query.sorting.span)}; write it at the end of the "
                "outer one",
            )
        if isinstance(query, UnionAll):
            return self.united(query)
        scope = self.scope(query)
        if query.grouped or query.distinct:
            self.refuse_tables(scope.branches)
        if query.grouped:
            grouped = grouped_select(query, scope, self.leaf("groups"), self.setting.times)
            if grouped.window is None:
                raise self.source.error(
                    query.span,
                    "a query inside of another must give rows that stay; got an aggregate whose rows change; write GROUP BY window(ts, "
                    "...), or make it a query of its own",
                )
            found = windows_branch(grouped, self.setting)
        elif query.distinct:
            self.refuse_windows(scope.branches)
            found = distinct_branch(
                distinct_select(query, self.items(query, scope), scope, self.leaf("rows"))
            )
        else:
            return scope.chosen(self.items(query, scope))
        if query.grouped and query.distinct:
            raise self.source.error(
                query.span,
                "a query inside of another must have DISTINCT or GROUP BY; got both; leave DISTINCT out",
            )
        self.made(found)
        return [found]

    def items(self, query: Select, scope: Scope) -> list[tuple[str, Expr]]:
        """The select list of a query without groups."""
        return bound_items(scope.binder, query.items, list(scope.aliases))

    def made(self, branch: Branch) -> None:
        """A source has a leaf of its own."""
        assert isinstance(branch.source, Windows | Distinct)
        self._made[branch.source.leaf] = pa.schema(list(branch.source.fields))

    def scope(self, query: Select) -> Scope:
        """What a query's expressions stand over."""
        return self._join(query) if query.joined else self._over(query)

    # ---- one input ----------------------------------------------------------------------------------------------

    def _over(self, query: Select) -> Scope:
        """A selection: every branch of what it selects from, with its own predicate over those."""
        item = query.first
        below = self._below(item)
        schema = self.schema(below[0].columns)
        binder = Binder(self.source, {item.alias: schema})
        where = [] if query.where is None else [binder.boolean(query.where)]
        found, columns = [], []
        for branch in below:
            mine = {(item.alias, name): expr for name, expr in branch.columns}
            parts = [*_parts(branch.predicate), *(substituted(part, mine) for part in where)]
            names = (item.alias,) if isinstance(item, StreamName) else branch.names
            found.append(replace(branch, names=names, predicate=conjunction(parts), columns=()))
            columns.append(mine)
        return Scope(tuple(found), tuple(columns), binder, (item.alias,))

    def _below(self, item: StreamName | Derived) -> list[Branch]:
        if isinstance(item, Derived):
            return self.branches(item.query)
        return [self._stream(item)]

    def _stream(self, item: StreamName) -> Branch:
        schema = self.setting.schemas[item.name]
        columns = tuple(
            (name, Column(types.logical(schema.field(name).type), item.name, name)) for name in schema.names
        )
        return Branch(Scan(item.name), (item.alias,), None, columns, item.window)

    def schema(self, columns: Sequence[tuple[str, Expr]]) -> pa.Schema:
        """Of the columns that a branch gives: a plain column has its stored type."""
        return pa.schema([(name, self._type(expr)) for name, expr in columns])

    def _type(self, expr: Expr) -> pa.DataType:
        if not isinstance(expr, Column) or expr.name == PRESENT:
            return expr.type
        if expr.stream in self._made:
            return self._made[expr.stream].field(expr.name).type
        return self.setting.schemas[self.leaves[expr.stream]].field(expr.name).type

    # ---- several inputs -----------------------------------------------------------------------------------------

    def _join(self, query: Select) -> Scope:
        how = self._how(query)
        inputs = self._inputs(query.inputs)
        schemas = {one.alias: self.schema(list(one.columns.items())) for one in inputs}
        plain = {(one.alias, name): expr for one in inputs for name, expr in one.columns.items()}
        shown = [inputs[how.one_sided]] if how.one_sided is not None else inputs
        binder = Binder(self.source, {one.alias: schemas[one.alias] for one in shown})
        where = [] if query.where is None else [binder.boolean(query.where)]
        on: list[Expr] = []
        for k, joined in enumerate(query.joined, start=1):  # a condition may name the inputs so far
            scope = {one.alias: schemas[one.alias] for one in inputs[: k + 1]}
            if joined.on is not None:
                on.append(substituted(Binder(self.source, scope).boolean(joined.on), plain))
        on += [part for one in inputs for part in _parts(one.predicate)]
        columns: dict[tuple[str, str], Expr] = plain
        predicate = None
        if how.name == "inner":
            on += [substituted(part, plain) for part in where]
        else:
            columns = {
                (one.alias, name): _if_present(one.leaf, expr) if how.may_miss(k) else expr
                for k, one in enumerate(inputs)
                for name, expr in one.columns.items()
            }
            kept = [
                _absent_or(one)
                for k, one in enumerate(inputs)
                if k in how.unmatched and one.predicate is not None
            ]
            predicate = conjunction([*kept, *(substituted(part, columns) for part in where)])
        condition = conjunction([part for part in on if part != _TRUE]) or _TRUE
        branch = Branch(
            self._source(inputs, how, condition), tuple(one.alias for one in inputs), predicate, ()
        )
        return Scope((branch,), (columns,), binder, tuple(one.alias for one in shown))

    def _source(self, inputs: Sequence[Input], how: How, condition: Expr) -> Join | JoinOf:
        """The join itself: one of streams alone reads their stored rows."""
        streams = tuple([one.stream for one in inputs if one.stream is not None])
        if len(streams) == len(inputs):
            leaves = tuple(one.leaf for one in inputs)
            return Join(streams, leaves, self._windows(inputs), how.name, condition)
        whole = [
            one if one.stream is None else replace(one, branches=(self._whole(one.stream),)) for one in inputs
        ]
        schemas = [self.schema(one.branches[0].columns) for one in whole]
        return join_of(whole, how, condition, schemas, self.source, self.setting)

    def _whole(self, stream: str) -> Branch:
        """All rows of a stream, with all columns."""
        return self._stream(StreamName(stream, stream, None, (0, 0)))

    def _windows(self, inputs: Sequence[Input]) -> tuple[Window, ...]:
        """Rows of the only stream beside tables need not be remembered: whoever they could meet is there."""
        passing = len([one for one in inputs if not one.is_table(self.setting)]) == 1
        found = []
        for one in inputs:
            assert one.window is not None
            found.append(Passing() if passing and not one.is_table(self.setting) else one.window)
        return tuple(found)

    def _how(self, query: Select) -> How:
        if len(query.inputs) > MOST_STREAMS:
            raise self.source.error(
                query.inputs[-1].span,
                f"a join must have at most {MOST_STREAMS} streams; got {len(query.inputs)}; use fewer",
            )
        outer = [joined for joined in query.joined if joined.how != "inner"]
        if outer and len(query.joined) > 1:
            kind = outer[0].how.replace("_", " ").upper()
            raise self.source.error(
                outer[0].span,
                f"a {kind} JOIN must be of two inputs; got {len(query.inputs)}; write WITH d AS (SELECT ... JOIN ...), and join d with "
                "the next one",
            )
        return join_type(outer[0].how if outer else "inner")

    def _inputs(self, items: Sequence[StreamName | Derived]) -> list[Input]:
        inputs: list[Input] = []
        for item in items:
            below = self._below(item)
            said = item.window if isinstance(item, Derived) else None
            if isinstance(item, Derived) and (
                len(below) > 1 or not isinstance(below[0].source, Scan) or said is not None
            ):
                inputs.append(self._derived(item, said, below))
                continue
            (branch,) = below
            stream = branch.source.leaves[0]
            leaf = self._leaf(stream, [one.leaf for one in inputs])
            renamed: dict[tuple[str, str], Expr] = {
                (stream, field.name): Column(types.logical(field.type), leaf, field.name)
                for field in self.setting.schemas[stream]
            }
            inputs.append(
                Input(
                    item,
                    stream,
                    leaf,
                    None if branch.predicate is None else substituted(branch.predicate, renamed),
                    {name: substituted(expr, renamed) for name, expr in branch.columns},
                    self._window(item, stream, branch.window),
                )
            )
        return inputs

    def _derived(self, item: Derived, said: WindowCall | None, below: Sequence[Branch]) -> Input:
        """What is joined as rows that are made here."""
        self.refuse_tables(below)
        self.refuse_windows(below)
        if item.alias in self.setting.own:
            self.used.add(item.alias)
        window = said_window(item, said, below, self.source, self.setting)
        leaf, schema = self.leaf("rows"), self.schema(below[0].columns)
        self._made[leaf] = schema
        columns: dict[str, Expr] = {
            field.name: Column(types.logical(field.type), leaf, field.name) for field in schema
        }
        return Input(item, None, leaf, None, columns, window, tuple(below))

    def leaf(self, name: str) -> str:
        """A name for rows that are made here."""
        number, leaf = 1, name
        while leaf in self.leaves:
            number += 1
            leaf = f"{name}#{number}"
        self.leaves[leaf] = leaf
        return leaf

    def _leaf(self, stream: str, taken: Sequence[str]) -> str:
        """A stream's own name, or another where the join has it already."""
        leaf, number = stream, 1
        while leaf in taken or self.leaves.get(leaf, stream) != stream:
            number += 1
            leaf = f"{stream}#{number}"
        self.leaves[leaf] = stream
        return leaf

    def _window(self, item: StreamName | Derived, stream: str, said: WindowCall | None) -> Window:
        """The window that the text gives, or windows=, or else the stream's own."""
        own = self.setting.own
        name = item.alias if item.alias in own else stream if stream in own else None
        if name is not None:
            self.used.add(name)
            if stream in self.setting.tables:
                raise OptionError(
                    f"windows= must name streams; got {name!r}, a table, which stays as it is; leave it out"
                )
            if said is not None:
                raise self.source.error(
                    said.span,
                    f"a window must be given once; got {said.function} and windows={{{name!r}: ...}}; leave one out",
                )
            return own[name]
        default = self.setting.windows[stream]
        if said is not None and stream in self.setting.tables and said.function != "unbounded":
            raise self.source.error(
                said.span,
                f"a window must be of a stream; got {said.function} around the table {stream!r}, which stays as it is",
            )
        if said is None:
            return default
        if said.function == "last_rows":
            assert isinstance(said.size, int)
            return Rows(said.size)
        if said.function == "unbounded":
            return Unbounded()
        assert said.size is not None
        if not isinstance(default, Range):
            raise self.source.error(
                said.span,
                f"last_range must be of a stream whose own window is a Range, which says where its times are; got {stream!r} with "
                f"{default}; give the query windows={{{item.alias!r}: Range(..., time=...)}}",
            )
        size = in_words(said.size) if isinstance(said.size, timedelta) else said.size
        return replace(default, duration=size)

    def sliding(self, query: Select, scope: Scope) -> tuple[Sliding | None, Expr | None]:
        """The window in which a query sees the rows of its one input; None: it sees all. And their time, for a window of time over rows."""
        item, said = query.first, [branch.window for branch in scope.branches if branch.window is not None]
        if query.joined:
            return None, None
        if isinstance(item, Derived) and item.window is not None:
            if said:
                raise self.source.error(
                    said[0].span,
                    "a window must be of rows that only come; got one inside of another; leave one out",
                )
            return self._of_rows(item, item.window, scope)
        named = isinstance(item, StreamName) and not self.setting.own.keys().isdisjoint(
            (item.alias, item.name)
        )
        if not said and not named:
            return None, None
        if len(scope.branches) > 1:
            raise self._one_window(said[0])
        stream = scope.branches[0].source.leaves[0]
        window = self._window(item, stream, said[0] if said else None)
        return None if isinstance(window, Unbounded) else Sliding(window, stream), None

    def _of_rows(self, item: Derived, said: WindowCall, scope: Scope) -> tuple[Sliding | None, Expr | None]:
        """A window over the rows of a query."""
        if said.function == "unbounded":
            return None, None
        if said.function == "last_rows":
            assert isinstance(said.size, int)
            return Sliding(Rows(said.size), None), None
        time, streams = scope.time(self.setting.times), {branch.source.leaves[0] for branch in scope.branches}
        if time is None or len(streams) > 1:
            raise self.source.error(
                said.span,
                "last_range of a query must have one stream under it, with a Range as its own window, and that one's time column among its "
                f"columns; got {item.alias!r} without; select the time column, or write last_rows",
            )
        return Sliding(self._window(item, streams.pop(), said), None), time

    def refuse_tables(self, branches: Sequence[Branch]) -> None:
        """Rows must come from somewhere."""
        for branch in branches:
            streams = [self.leaves[leaf] for leaf in branch.source.leaves]
            if all(stream in self.setting.tables for stream in streams):
                raise OptionError(
                    f"a query must have a stream in each FROM, whose rows come; got {listed([repr(one) for one in streams])} alone: tables "
                    "that stay as they are; join them with a stream, or read them where they are from"
                )

    def refuse_windows(self, branches: Sequence[Branch]) -> None:
        """Where every row comes out once, windows mean nothing."""
        for branch in branches:
            if branch.window is not None:
                raise self.source.error(
                    branch.window.span,
                    f"a window must be of a stream that is joined, or of an answer that changes; got {branch.window.function} around one "
                    "that is not; leave it out: every row comes out once, as it arrives",
                )

    def _one_window(self, said: WindowCall) -> ConditionError:
        return self.source.error(
            said.span,
            f"a window must be of all rows; got {said.function} of a part of a UNION ALL; write WITH d AS (SELECT ... UNION ALL ...) "
            "SELECT ... FROM last_rows(d, 100)",
        )

    def check_windows(self) -> None:
        for name in self.setting.own:
            if name not in self.used:
                raise OptionError(
                    f"windows= must name streams that the query joins, as FROM names them; got {name!r}; leave it out, or correct the name"
                )

    # ---- UNION ALL ----------------------------------------------------------------------------------------------

    def united(self, query: UnionAll) -> list[Branch]:
        """The branches of all parts, with the first one's names and columns of common types."""
        parts = [self.branches(part) for part in query.parts]
        first = parts[0][0].columns
        for part, written in zip(parts, query.parts, strict=True):
            if len(part[0].columns) != len(first):
                raise self.source.error(
                    _span(written),
                    f"the parts of a UNION ALL must have as many columns as each other; got {len(first)} and "
                    f"{len(part[0].columns)}; add NULL AS name where one is missing",
                )
        branches = [branch for part in parts for branch in part]
        unified = [
            self._unified([branch.columns[at][1] for branch in branches], name, query)
            for at, (name, _) in enumerate(first)
        ]
        names = [name for name, _ in first]
        return [
            replace(branch, columns=tuple(zip(names, (exprs[at] for exprs in unified), strict=True)))
            for at, branch in enumerate(branches)
        ]

    def _unified(self, exprs: list[Expr], name: str, query: UnionAll) -> list[Expr]:
        if len({self._type(expr) for expr in exprs}) == 1:
            return exprs
        both: pa.DataType | None = exprs[0].type
        for expr in exprs[1:]:
            found = types.common(both, expr.type)
            if found is None:
                raise self.source.error(
                    _span(query.parts[-1]),
                    f"the parts of a UNION ALL must have columns of types that go together; got {types.name(both)} and "
                    f"{types.name(expr.type)} for {name!r}; CAST one",
                )
            both = found
        return [
            Literal(both, None) if expr == Literal(pa.null(), None) else Call(both, "coalesce", (expr,))
            for expr in exprs
        ]


def _parts(predicate: Expr | None) -> list[Expr]:
    return [] if predicate is None else [predicate]


def _span(query: Query) -> Span:
    return query.span if isinstance(query, Select) else _span(query.parts[0])


def _present(leaf: str) -> Expr:
    return Column(types.BOOL, leaf, PRESENT)


def _if_present(leaf: str, expr: Expr) -> Expr:
    """A column of a row that may not be there: then it is NULL, whatever is computed of NULLs."""
    if isinstance(expr, Column):
        return expr
    return Call(expr.type, "case", (_present(leaf), expr, Literal(expr.type, None)))


def _absent_or(one: Input) -> Expr:
    """What an input lets pass, if its row is there."""
    assert one.predicate is not None
    return Call(types.BOOL, "or", (Call(types.BOOL, "not", (_present(one.leaf),)), one.predicate))
