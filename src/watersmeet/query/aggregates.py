"""Aggregates, GROUP BY, ORDER BY and LIMIT as they are written, to the untyped tree. Beside ``parse.py`` only this module of queries knows
sqlglot.

An aggregate becomes a node ``AGGREGATE``. FILTER (WHERE ...), DISTINCT and IGNORE NULLS are read; other parts of one are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from sqlglot import exp

from watersmeet.errors import ConditionError
from watersmeet.query.statement import AGGREGATE, SESSION, WINDOW, AggregateCall, Ordered
from watersmeet.sql import literal
from watersmeet.sql.parse import Translator, span_of
from watersmeet.sql.syntax import Span, Syntax

NAMES = "COUNT, COUNT_IF, SUM, AVG, MIN, MAX, VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP, FIRST, LAST, MIN_BY, MAX_BY"
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.First: "first",
    exp.FirstValue: "first",
    exp.Last: "last",
    exp.LastValue: "last",
}
_BY: dict[type[exp.Expr], str] = {
    exp.ArgMin: "first",
    exp.ArgMax: "last",
}  # the value where another is smallest, or largest
_PLAIN = {"mean": "avg", "std": "stddev_samp", "var": "var_samp"}  # names that the parser does not know
_WHAT = {"big_int"}  # the parser's own note
WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)
_WINDOWS = {
    WINDOW: "window(ts, '10 seconds') or window(ts, '10 seconds', '5 seconds')",
    SESSION: "session_window(ts, '5 minutes')",
}


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate, whether we have it or not."""
    return isinstance(node, exp.AggFunc | exp.CountIf) or _plain(node) is not None


def _plain(node: exp.Expr) -> str | None:
    return _PLAIN.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None


def window_name(node: exp.Expr) -> str | None:
    """``window`` or ``session_window``, if a node is a call of one."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else None
    return name if name in _WINDOWS else None


class AggregateReader:
    """Teaches a translator aggregates. ``argument`` reads what stands inside of one, where there must be none."""

    def __init__(self, translator: Translator, argument: Callable[[exp.Expr], Syntax]) -> None:
        self.source, self._argument, self._words = translator.source, argument, translator.words
        plain = translator.special.get(exp.Anonymous)
        for kind in (*_FUNCTIONS, *_BY, exp.CountIf, *WRAPPERS):
            translator.special[kind] = self._aggregate

        def anonymous(node: exp.Anonymous) -> Syntax:
            if _plain(node) is not None:
                return self._aggregate(node)
            if plain is not None:
                return plain(node)
            raise translator.refusal(node)

        translator.special[exp.Anonymous] = anonymous

    def _aggregate(self, node: exp.Expr) -> Syntax:
        where, skips = None, False
        inner, span = node, self._span(node)
        while isinstance(inner, WRAPPERS):
            if isinstance(inner, exp.Filter):
                where = inner.expression.this
            skips = skips or isinstance(inner, exp.IgnoreNulls)
            inner = inner.this
        function, of, by = self._call(inner, span)
        if skips and function not in ("first", "last"):
            raise self._error(
                span, "IGNORE NULLS must be of FIRST or LAST", "leave it out: others pass over NULL"
            )
        args = [self._argument(one) for one in (of, by, where) if one is not None]
        if isinstance(inner, exp.CountIf):
            one = Syntax("literal", (), literal.number("1"), span)
            args[0] = Syntax(
                "case", (args[0], one, Syntax("literal", (), (None, one.value[1]), span)), None, span
            )
        if (
            function == "count"
            and of is not None
            and args[0].op == "literal"
            and args[0].value[0] is not None
        ):
            of, args = None, args[1:]  # COUNT(1) is COUNT(*)
        call = AggregateCall(function, of is not None, by is not None, where is not None, skips)
        return Syntax(AGGREGATE, tuple(args), call, span)

    def _span(self, node: exp.Expr) -> Span:
        """From the function's name on, of which the parser may have lost the place."""
        start, end = span_of(node)
        word = self._words.opened_by(start)
        names = not self.source.text[start:end].partition("(")[2]
        return (word.start, end) if names and word is not None else (start, end)

    def _call(self, node: exp.Expr, span: Span) -> tuple[str, exp.Expr | None, exp.Expr | None]:
        """The function, what it is of (None: all rows), what it goes by."""
        plain = _plain(node)
        if plain is not None:
            if len(node.expressions) != 1:
                raise self._error(span, "an aggregate must have one argument", "leave out the others")
            return plain, node.expressions[0], None
        if type(node) in _BY:
            if set(_given(node)) != {"this", "expression"}:
                raise self._error(span, "MIN_BY and MAX_BY must have two arguments", "write MIN_BY(x, ts)")
            return _BY[type(node)], node.this, node.expression
        function = "count" if isinstance(node, exp.CountIf) else _FUNCTIONS.get(type(node))
        if function is None:
            raise self.unknown(node)
        if set(_given(node)) - {"this"}:
            raise self._error(span, "an aggregate must have one argument", "write an aggregate for each")
        of = node.this
        if isinstance(of, exp.Star):
            if function != "count" or _given(of):
                raise self._error(span, "only COUNT is of *", "name a column")
            return function, None, None
        if isinstance(of, exp.Distinct):
            if function not in ("count", "min", "max") or len(of.expressions) != 1 or of.args.get("on"):
                raise self._error(
                    span,
                    "DISTINCT must be in COUNT, MIN or MAX, of one expression",
                    "select DISTINCT columns, and push them into a stream of their own",
                )
            return ("count_distinct" if function == "count" else function), of.expressions[0], None
        return function, of, None

    def unknown(self, node: exp.Expr) -> ConditionError:
        """What to say of an aggregate that we do not have."""
        span = span_of(node)
        written, bracket, _ = self.source.part(span).partition("(")
        name = (
            written.strip().upper() if bracket else node.sql("spark").partition("(")[0]
        )  # its place is lost
        approximate = " (what is here is exact)" if "APPROX" in name else ""
        return self._error(
            span,
            f"an aggregate must be one of {NAMES}{approximate}",
            "use one of them",
            name,
        )

    def _error(self, span: Span, must: str, instead: str, got: str | None = None) -> ConditionError:
        return self.source.error(span, f"{must}; got {got or self.source.part(span)}; {instead}")

    # ---- windows of event time ----------------------------------------------------------------------------------

    def window(self, node: exp.Anonymous, name: str) -> Syntax:
        """``window(ts, size, slide)`` or ``session_window(ts, gap)`` in GROUP BY; its value is the lengths."""
        column, *rest = node.expressions or [None]
        span = span_of(node)
        lengths = tuple(self._length(one) for one in rest)
        if (
            not isinstance(column, exp.Column | exp.Greatest)
            or None in lengths
            or not 1 <= len(rest) <= (2 if name == WINDOW else 1)
        ):
            raise self._error(span, f"{name} must be written {_WINDOWS[name]}", "write it so")
        return Syntax(name, (self._argument(column),), lengths, span)

    def _length(self, node: exp.Expr) -> timedelta | int | None:
        """A length of time, or a number for whole numbers as times; None: neither."""
        if isinstance(node, exp.Literal) and node.is_string:
            found: Any = literal.parse_interval(node.this, None)
        else:
            read = self._argument(node)
            value = read.value[0] if read.op == "literal" else None
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            found = read.value if read.op == "interval" else None
        return None if found is None or found[0] else timedelta(microseconds=found[1])

    # ---- ORDER BY -----------------------------------------------------------------------------------------------

    def ordered(self, node: exp.Expr, read: Callable[[exp.Expr], Syntax]) -> Ordered:
        """An item of ORDER BY. The parser says where NULLs go: first, or last with DESC, unless the text does."""
        if not isinstance(node, exp.Ordered) or isinstance(node.this, exp.Var):
            raise self._error(span_of(node), "ORDER BY must have expressions", "name the columns")
        if set(_given(node)) - {"this", "desc", "nulls_first"}:
            raise self._error(
                span_of(node), "ORDER BY must be plain", "leave out what stands behind the expression"
            )
        return Ordered(read(node.this), bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def _given(node: exp.Expr) -> list[str]:
    """The parts of a node that are set."""
    return [name for name, value in node.args.items() if value and name not in _WHAT]
