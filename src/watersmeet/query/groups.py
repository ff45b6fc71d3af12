"""What stands over groups, bound: the select list, HAVING and ORDER BY of a query with aggregates, to expressions over an answer's columns.

An expression that is a group's key, or an aggregate, becomes a column of the answer; whatever else names a column of a row is refused. Two
aggregates of the same are one, whatever they are called: an answer's columns are named by number, so that equal queries have equal plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.results import NUMBERS, result_type
from watersmeet.aggregate.spec import Aggregate, Grouping
from watersmeet.codes.text import is_bytes
from watersmeet.errors import ConditionError, SchemaError
from watersmeet.query.statement import AGGREGATE, START, AggregateCall, has_aggregate
from watersmeet.sql import types
from watersmeet.sql.bind import Binder
from watersmeet.sql.names import resolve
from watersmeet.sql.syntax import Syntax
from watersmeet.sql.tree import Call, Column, Expr, Literal

_FIRST = Literal(pa.int64(), 0)  # what rows go by that go by their arrival


@dataclass
class Asks:
    """What a query wants of its rows: expressions over a row, each a column of what is aggregated, and aggregates of these columns."""

    columns: dict[Expr, str] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    aggregates: dict[tuple[str, str | None, str | None], Aggregate] = field(default_factory=dict)

    def column(self, expr: Expr) -> str:
        """The column for an expression over a row."""
        return self.columns.setdefault(expr, f"c{len(self.columns)}")

    def key(self, expr: Expr) -> str:
        """A group's column."""
        name = self.column(expr)
        if name not in self.keys:
            self.keys.append(name)
        return name

    def aggregate(self, function: str, column: str | None, by: str | None) -> Aggregate:
        """An aggregate of columns, once."""
        made = Aggregate(function, column, f"n{len(self.aggregates)}", by)
        return self.aggregates.setdefault((function, column, by), made)

    @property
    def grouping(self) -> Grouping:
        return Grouping(tuple(self.keys), tuple(self.aggregates.values()))


class GroupBinder(Binder):
    """Binds what stands over groups.

    ``rows`` binds what stands inside of aggregates; ``kind``: the type as which an expression over a row is stored; ``time``: what FIRST
    and LAST go by; ``given``: names that stand for a column of the answer, as (first part, second part).
    """

    def __init__(
        self,
        rows: Binder,
        leaf: str,
        kind: Callable[[Expr], pa.DataType],
        time: Expr | None,
        given: Mapping[tuple[str | None, str], Column],
    ) -> None:
        super().__init__(rows.source, {})
        self.rows, self.asks = rows, Asks()
        self._leaf, self._kind, self._time, self._given = leaf, kind, time, given
        self.aliases: Mapping[str, Syntax] = {}
        self.alias_first = False
        self.rules |= {AGGREGATE: self._aggregate, "column": self._column}

    def bind(self, node: Syntax) -> Expr:
        """The typed tree of a node over the answer."""
        key = self._key(node)
        return super().bind(node) if key is None else key

    def _key(self, node: Syntax) -> Expr | None:
        if has_aggregate(node) or (self.alias_first and self._alias(node) is not None):
            return None
        try:
            expr = self.rows.bind(node)
        except ConditionError:
            return None
        name = self.asks.columns.get(expr)
        return self._answer(name, expr) if name in self.asks.keys else None

    def _answer(self, name: str, expr: Expr) -> Column:
        return Column(types.logical(self._kind(expr)), self._leaf, name)

    def _alias(self, node: Syntax) -> Syntax | None:
        if node.op != "column" or node.value[0] is not None:
            return None
        found = resolve(node.value[1], list(self.aliases))
        return None if found is None else self.aliases[found]

    def _column(self, node: Syntax) -> Expr:
        first, second = node.value
        given = self._given.get((first and first.lower(), second.lower()))
        if given is not None:
            return given
        alias = self._alias(node)
        if alias is not None:
            inner, self.aliases = self.aliases, {}  # a name inside of what it stands for means a column
            try:
                return self.bind(alias)
            finally:
                self.aliases = inner
        if (second.lower(), START) in self._given:
            raise self.source.error(
                node.span,
                f"a window must be taken by its ends; got {second}; write {second}.start, {second}.end",
            )
        self.rows.bind(node)  # a name that is not there is refused as such
        name = self.source.part(node.span)
        raise self.source.error(
            node.span,
            f"a column over groups must be in GROUP BY, or inside an aggregate; got {name!r}; add it to GROUP BY, or write MAX({name}) or "
            f"FIRST({name})",
        )

    # ---- aggregates ---------------------------------------------------------------------------------------------

    def _aggregate(self, node: Syntax) -> Expr:
        call: AggregateCall = node.value
        args = list(node.args)
        of = self.rows.bind(args.pop(0)) if call.of else None
        by = self.rows.bind(args.pop(0)) if call.by else None
        where = self.rows.boolean(args.pop(0)) if call.where else None
        if call.function in ("first", "last"):
            assert of is not None
            by = by or self._time or _FIRST
            if call.skips_null:
                by = _if(Call(types.BOOL, "not", (Call(types.BOOL, "is_null", (of,)),)), by)
            by = by if where is None else _if(where, by)
        elif where is not None:
            of = _if(where, of or Literal(types.INT, 1))
        made = self.asks.aggregate(
            call.function,
            None if of is None else self.asks.column(of),
            None if by is None else self.asks.column(by),
        )
        kind = None if of is None else self._kind(of)
        try:
            result = result_type(made, kind)
            pairs = ((made.column, of), (made.by, by))
            schema = {name: self._kind(expr) for name, expr in pairs if name is not None and expr is not None}
            Aggregation(Grouping((), (made,)), pa.schema(schema))
        except SchemaError:
            orders = call.by and by is not None and is_bytes(self._kind(by))
            what = "numbers" if made.function in NUMBERS else "numbers, texts, booleans, dates or times"
            what, got = (
                ("a number or a time to go by", self._kind(by)) if orders and by is not None else (what, kind)
            )
            raise self.source.error(
                node.span, f"{self.source.part(node.span)} must be of {what}; got {got}; CAST it"
            ) from None
        return Column(types.logical(result), self._leaf, made.name)


def bound_over_groups(binder: GroupBinder, items: Sequence[Syntax]) -> list[tuple[str, Expr]]:
    """The select list: a plain column has its own name, another item without AS is called by its text."""
    found: list[tuple[str, Expr]] = []
    for item in items:
        if item.op == "star":
            raise binder.source.error(
                item.span, "a query of groups must name what it selects; got *; list the columns of GROUP BY"
            )
        node = item.args[0] if item.op == "alias" else item
        name = item.value if item.op == "alias" else binder.source.part(node.span)
        if item.op == "column":
            name = item.value[1]
        found.append((name, binder.bind(node)))
    names = [name for name, _ in found]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise binder.source.error(
                items[at].span,
                f"a select list must give each column its own name; got {name!r} twice; use AS",
            )
    return found


def _if(test: Expr, value: Expr) -> Expr:
    return Call(value.type, "case", (test, value, Literal(value.type, None)))
