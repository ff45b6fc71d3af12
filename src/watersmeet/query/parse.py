"""The text of a query to its untyped tree. Expressions are read by ``sql/parse.py``; beside that only this module knows sqlglot.

Nothing that was written is passed over: a clause, or a part of one, that is not read is refused by its name, with the place underlined.
What is not supported *yet* stands in one place: ``_CLAUSES`` and ``_EXPRESSIONS``. What groups and sorts is read by ``aggregates.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from sqlglot import Dialect as SqlDialect
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from watersmeet.errors import ConditionError
from watersmeet.query.aggregates import AggregateReader, is_aggregate, window_name
from watersmeet.query.statement import (
    END,
    START,
    Command,
    Derived,
    Joined,
    Ordered,
    Query,
    Select,
    Sorting,
    StreamName,
    UnionAll,
    WindowCall,
)
from watersmeet.query.strays import stray
from watersmeet.sql.names import resolve, unknown
from watersmeet.sql.parse import (
    PREFIX,
    Dialect,
    Translator,
    span_of,
    syntax_error,
    token_error,
    tokens_of,
    words_of,
)
from watersmeet.sql.syntax import Source, Span, Syntax
from watersmeet.sql.words import Word

WINDOWS = {"last_rows": "last_rows(s, 100)", "last_range": "last_range(s, INTERVAL 1 MINUTE)", "unbounded": "unbounded(s)"}  # fmt: skip

_LATER = "do it with the rows that the query gives"
# What a SELECT or UNION may have beside what is read: the words it is written with, and what to write instead.
_CLAUSES: dict[str, tuple[str, str]] = {
    "sort": ("SORT BY", "write ORDER BY"),
    "order": ("ORDER BY", "write it at the end of the query"),
    "limit": ("LIMIT", "write it at the end of the query"),
    "offset": ("OFFSET", f"leave it out, and {_LATER}"),
    "qualify": ("QUALIFY", f"leave it out, and {_LATER}"),
    "windows": ("WINDOW", f"leave it out, and {_LATER}"),
    "using": ("USING", "write ON a.k = b.k"),
    "sample": ("TABLESAMPLE", "write a condition in WHERE"),
    "laterals": ("LATERAL VIEW", "push the rows that it would make"),
    "pivots": ("PIVOT", f"leave it out, and {_LATER}"),
}
_EXPRESSIONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Window: ("a window function", f"select the columns, and {_LATER}"),
    exp.Exists: ("EXISTS", "write LEFT SEMI JOIN, or LEFT ANTI JOIN for NOT EXISTS"),
    exp.Query: ("a subquery in an expression", "join it in FROM; for IN write LEFT SEMI JOIN"),
}
_LOOKED_AT = (
    *_EXPRESSIONS,
    exp.AggFunc,
    exp.CountIf,
    exp.Anonymous,
)  # also aggregates, and calls that may be any
_INSIDE = "write it in SELECT, HAVING or ORDER BY, and not inside of another"

_SELECT_READ = {
    "expressions",
    "from_",
    "joins",
    "where",
    "with_",
    "distinct",
    "group",
    "having",
    "order",
    "limit",
}
_UNION_READ = {"this", "expression", "with_", "distinct", "order", "limit"}  # distinct: False for UNION ALL
_JOINS = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "inner",
    ("LEFT", ""): "left",
    ("RIGHT", ""): "right",
    ("FULL", ""): "full",
    ("", "SEMI"): "left_semi",
    ("LEFT", "SEMI"): "left_semi",
    ("RIGHT", "SEMI"): "right_semi",
    ("", "ANTI"): "left_anti",
    ("LEFT", "ANTI"): "left_anti",
    ("RIGHT", "ANTI"): "right_anti",
}


@dataclass(frozen=True)
class _Named:
    """A query that WITH has named, and the names that it may use: a name means what it meant where it was written."""

    query: exp.Expr
    withs: Mapping[str, _Named]


Withs = Mapping[str, _Named]


def parse_query(text: str, streams: list[str]) -> tuple[Source, Query]:
    """The tree of one query over streams of these names."""
    source = Source(text, "query")
    if not text.strip():
        raise source.error((0, 1), "a query must be SQL text; got an empty text; write SELECT ... FROM ...")
    statement = _statement(source)
    word = stray(words_of(text).after(0))
    if word is not None:
        raise source.error(
            word.span, f"a query must be valid SQL; got an unexpected {word.text!r}; correct the text here"
        )
    with source.of_any_depth():
        return source, _Reader(source, streams).query(statement, {})


def parse_commands(text: str) -> list[Command]:
    """The statements of a text, one after the other, with ``;`` between them."""
    source = Source(text, "statement")
    try:
        words = words_of(text).after(0)
    except TokenError:
        raise token_error(source) from None
    found: list[Command] = []
    start = 0
    for at in [*(at for at, word in enumerate(words) if word.text == ";"), len(words)]:
        if at > start:
            found.append(_command(source, words[start:at]))
        start = at + 1
    if not found:
        raise source.error((0, 1), f"a statement must be {_STATEMENTS}; got an empty text; write one")
    return found


_STATEMENTS = "CREATE QUERY name AS SELECT ..., ALTER QUERY name AS SELECT ... or DROP QUERY name"


def _command(source: Source, words: list[Word]) -> Command:
    upper = [word.text.upper() for word in words]
    verb = upper[0]
    if verb in ("CREATE", "ALTER", "DROP") and upper[1:2] == ["QUERY"] and len(words) > 2:
        name = words[2].text.strip("`")
        if verb == "DROP" and len(words) == 3:
            return Command("drop", name, "")
        warm = upper[3:5] == ["START", "WARM"]
        backfill = warm and upper[5:6] == ["BACKFILL"]
        at = 3 + 2 * warm + backfill
        emit = words[at + 1].text.lower() if upper[at : at + 1] == ["EMIT"] and len(words) > at + 1 else None
        at += 2 * (emit is not None)
        if verb != "DROP" and upper[at : at + 1] == ["AS"] and len(words) > at + 1:
            text = source.text[words[at + 1].start : words[-1].end]
            return Command(verb.lower(), name, text, emit, warm, backfill, words[at + 1].start)
    span = (words[0].start, words[min(len(words), 4) - 1].end)
    raise source.error(span, f"a statement must be {_STATEMENTS}; got {source.part(span)}; write it so")


def _statement(source: Source) -> exp.Expr:
    try:
        with source.of_any_depth():
            # As many characters in front as the translator of expressions counts.
            parser = SqlDialect.get_or_raise(Dialect).parser()
            found = parser.parse(tokens_of(source.text), " " * len(PREFIX) + source.text)
    except ParseError as error:
        raise syntax_error(source, error) from None
    except TokenError:
        raise token_error(source) from None
    except ConditionError:
        raise
    except Exception as error:  # the parser's own slips
        raise source.error(
            (0, len(source.text)), f"a query must be valid SQL; got what cannot be read ({error}); correct it"
        ) from None
    while len(found) > 1 and (found[-1] is None or isinstance(found[-1], exp.Semicolon)):
        found.pop()
    statement = found[0]
    if len(found) > 1 or statement is None or not isinstance(statement, exp.Query):
        raise source.error(
            (0, len(source.text)),
            "a query must be one SELECT; got another statement, or several; statements are for execute()",
        )
    return statement


class _Reader:
    """Turns sqlglot's queries into ours."""

    def __init__(self, source: Source, streams: list[str]) -> None:
        self.source, self.streams = source, streams
        self.translator = Translator(source)
        self.words = self.translator.words.after(0)
        self.aggregates = AggregateReader(self.translator, self._expression)
        self.translator.special[exp.Dot] = self._end
        self._windows: Sequence[exp.Expr] = ()  # of event time, in GROUP BY of the query that is read

    def query(self, node: exp.Expr, withs: Withs) -> Query:
        """A SELECT, several with UNION ALL between them, or either in brackets."""
        if isinstance(node, exp.Subquery):
            self._check_parts(node, {"this", "with_"}, "brackets")
            return self.query(node.this, self._with(node, withs))
        if isinstance(node, exp.Union):
            self._check_parts(node, _UNION_READ, "UNION ALL")
            if node.args.get("distinct"):
                raise self._refusal(
                    "UNION", "write UNION ALL", self._word("UNION", span_of(node.expression)[0])
                )
            withs = self._with(node, withs)
            left, right = (self.query(part, withs) for part in (node.this, node.expression))
            first = left.parts if isinstance(left, UnionAll) and not left.sorting else (left,)
            return UnionAll((*first, right), self._sorting(node, aggregates=False))
        if not isinstance(node, exp.Select):
            name = node.key.upper()
            raise self._refusal(
                name, "write SELECT ... FROM ..., with UNION ALL", self._word(name, sys.maxsize)
            )
        return self._select(node, withs)

    def _select(self, node: exp.Select, withs: Withs) -> Select:
        if not node.expressions:
            raise self.source.error(
                self._word("SELECT", span_of(node)[0]),
                "a query must select columns; got none; write SELECT *",
            )
        self._check_parts(node, _SELECT_READ, "SELECT")
        withs = self._with(node, withs)
        span = span_of(node)
        source = node.args.get("from_")
        if source is None:
            raise self.source.error(span, "a query must have FROM; got none; name a stream in FROM")
        first = self._item(source.this, withs)
        joined = tuple(self._joined(join, withs) for join in node.args.get("joins") or ())
        aliases: set[str] = set()
        for item in (first, *(join.item for join in joined)):
            if item.alias.lower() in aliases:
                raise self.source.error(
                    item.span,
                    f"a name in FROM must stand for one input; got {item.alias!r} twice; write {item.alias} AS another_name",
                )
            aliases.add(item.alias.lower())
        where, having, group = (node.args.get(part) for part in ("where", "having", "group"))
        self._windows = [] if group is None else [one for one in group.expressions if window_name(one)]
        return Select(
            tuple(self._expression(item, item=True, aggregates=True) for item in node.expressions),
            first,
            joined,
            None if where is None else self._expression(where.this),
            span,
            self._distinct(node),
            self._group(group),
            None if having is None else self._expression(having.this, aggregates=True),
            self._sorting(node, aggregates=True),
        )

    # ---- groups and order ---------------------------------------------------------------------------------------

    def _distinct(self, node: exp.Select) -> bool:
        distinct = node.args.get("distinct")
        if distinct is not None:
            self._check_parts(distinct, set(), "DISTINCT")
        return distinct is not None

    def _group(self, group: exp.Group | None) -> tuple[Syntax, ...]:
        if group is None:
            return ()
        if group.args.get("all"):
            raise self._refusal("GROUP BY ALL", "name the columns", self._word("GROUP BY", sys.maxsize))
        self._check_parts(group, {"expressions"}, "GROUP BY")
        found = []
        for node in group.expressions:
            if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
                raise self._refusal(node.key.upper(), "make a query for each", span_of(node))
            name = window_name(node)
            found.append(self._expression(node) if name is None else self.aggregates.window(node, name))
        return tuple(found)

    def _sorting(self, node: exp.Expr, aggregates: bool) -> Sorting:
        order, limit = node.args.get("order"), node.args.get("limit")
        if order is None and limit is None:
            return Sorting()
        there = {"ORDER BY": order, "LIMIT": limit}
        spans = [self._clause(node, words, part) for words, part in there.items() if part is not None]
        span = spans[0][0], spans[-1][1]
        items: tuple[Ordered, ...] = ()
        if order is not None:
            self._check_parts(order, {"expressions"}, "ORDER BY")
            read = partial(self._expression, aggregates=aggregates)
            items = tuple(self.aggregates.ordered(item, read) for item in order.expressions)
        return Sorting(items, None if limit is None else self._limit(limit), span)

    def _limit(self, limit: exp.Expr) -> int | None:
        self._check_parts(limit, {"expression"}, "LIMIT")
        number = limit.args.get("expression")
        if isinstance(number, exp.Var) and number.name.upper() == "ALL":
            return None
        if not isinstance(number, exp.Literal) or number.is_string or not number.this.isdigit():
            span = self._clause(limit, "LIMIT", limit)
            raise self.source.error(
                span, f"LIMIT must be a number of rows; got {self.source.part(span)}; write LIMIT 10"
            )
        return int(number.this)

    def _with(self, node: exp.Expr, withs: Withs) -> Withs:
        """The queries that WITH names from here on."""
        given = node.args.get("with_")
        if given is None:
            return withs
        if given.args.get("recursive"):
            raise self._refusal("WITH RECURSIVE", "write WITH", self._word("RECURSIVE", sys.maxsize))
        found = dict(withs)
        for query in given.expressions:
            self._check_parts(query, {"this", "alias"}, "WITH")
            self._check_parts(query.args["alias"], {"this"}, "a name in WITH")
            found[query.alias] = _Named(query.this, dict(found))
        return found

    # ---- FROM ---------------------------------------------------------------------------------------------------

    def _item(self, node: exp.Expr, withs: Withs) -> StreamName | Derived:
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            self._check_parts(node, {"this", "alias"}, "a subquery in FROM")
            self._check_alias(node)
            return Derived(self.query(node.this, withs), node.alias or "subquery", span_of(node))
        if not isinstance(node, exp.Table):
            got = "a join in brackets" if isinstance(node, exp.Subquery) else node.key.upper()
            raise self._refusal(
                got, "write FROM a JOIN b ON ... JOIN c ON ..., without brackets", span_of(node)
            )
        self._check_alias(node)
        if isinstance(node.this, exp.Func):
            self._check_parts(node, {"this", "alias"}, "a window in FROM")
            return self._windowed(node, withs)
        self._check_parts(node, {"this", "alias"}, "a stream in FROM")
        name, span = node.name, span_of(node)
        if self.source.text[span[0] : span[0] + 1] in ("'", '"'):
            raise self._refusal("a text in FROM", f"write {name}, or `{name}`", span)
        found = resolve(name, list(withs))
        if found is not None:
            return self._named(withs[found], node.alias or name, span)
        return StreamName(self._stream(name, span), node.alias or name, None, span)

    def _named(self, named: _Named, alias: str, span: Span, window: WindowCall | None = None) -> Derived:
        return Derived(self.query(named.query, named.withs), alias, span, window)

    def _check_alias(self, node: exp.Expr) -> None:
        alias = node.args.get("alias")
        if alias is not None:
            self._check_parts(alias, {"this"}, "a name in FROM")

    def _stream(self, name: str, span: Span) -> str:
        found = resolve(name, self.streams)
        if found is None:
            raise self.source.error(span, unknown("stream", name, self.streams))
        return found

    def _windowed(self, node: exp.Table, withs: Withs) -> StreamName | Derived:
        call, span = node.this, span_of(node.this)
        function = (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower()
        if function not in WINDOWS:
            raise self.source.error(
                span,
                f"a function in FROM must be one of {', '.join(WINDOWS)}; got {function}; use one of them",
            )
        arguments = call.expressions
        stream, *rest = arguments or [None]
        if not isinstance(stream, exp.Column) or stream.table or len(rest) != (function != "unbounded"):
            raise self.source.error(
                span,
                f"{function} must be written {WINDOWS[function]}, with a stream; got {self.source.part(span)}; write it so",
            )
        size = self._size(function, rest[0], span) if rest else None
        call, derived = WindowCall(function, size, span), resolve(stream.name, list(withs))
        if derived is not None:
            return self._named(withs[derived], node.alias or stream.name, span, call)
        if resolve(stream.name, self.streams) is None:
            raise self.source.error(
                span_of(stream),
                f"{function} must be of a stream: {unknown('stream', stream.name, self.streams)}",
            )
        name = self._stream(stream.name, span_of(stream))
        return StreamName(name, node.alias or stream.name, call, span)

    def _size(self, function: str, node: exp.Expr, span: Span) -> int | float | timedelta:
        """How many rows, or how much time."""
        read = self.translator.expression(node)
        if function == "last_range" and read.op == "interval" and not read.value[0]:
            return timedelta(microseconds=read.value[1])
        value = read.value[0] if read.op == "literal" else None
        if isinstance(value, int) and not isinstance(value, bool) and (function == "last_range" or value > 0):
            return value
        if function == "last_range" and isinstance(value, float | Decimal):
            return float(value)
        raise self.source.error(
            span,
            f"{function} must have {'a number of rows' if function == 'last_rows' else 'an INTERVAL of days or less'}, as in "
            f"{WINDOWS[function]}; got {self.source.part(span)}; write it so",
        )

    def _joined(self, node: exp.Join, withs: Withs) -> Joined:
        self._check_parts(node, {"this", "side", "kind", "on"}, "JOIN")
        side, kind = (str(node.args.get(part) or "").upper() for part in ("side", "kind"))
        kind = "" if kind == "OUTER" and side else kind
        item = self._item(node.this, withs)
        how = _JOINS.get((side, kind))
        if how is None:
            raise self._refusal(
                f"{side} {kind} JOIN".strip(),
                "write JOIN, or LEFT, RIGHT, FULL, SEMI or ANTI JOIN",
                item.span,
            )
        on = node.args.get("on")
        return Joined(how, item, None if on is None else self._expression(on), item.span)

    # ---- expressions --------------------------------------------------------------------------------------------

    def _expression(self, node: exp.Expr, item: bool = False, aggregates: bool = False) -> Syntax:
        for part in node.walk():
            if not isinstance(part, _LOOKED_AT):
                continue
            for kind, (what, instead) in _EXPRESSIONS.items():
                if isinstance(part, kind):
                    raise self._refusal(what, instead, span_of(part))
            if is_aggregate(part) and not aggregates:
                raise self._refusal("an aggregate here", _INSIDE, span_of(part))
            if isinstance(part, exp.AggFunc) and type(part) not in self.translator.special:
                raise self.aggregates.unknown(part)
            name = window_name(part)
            if name is not None and not (aggregates and self._taken(part)):
                instead = f"write it in GROUP BY, and {name}.start and {name}.end elsewhere"
                raise self._refusal(f"{name}() here", instead, span_of(part))
        return self.translator.item(node) if item else self.translator.expression(node)

    def _taken(self, window: exp.Expr) -> bool:
        """Whether a window is written a second time to take one of its ends: ``window(ts, '1 minute').start``."""
        return isinstance(window.parent, exp.Dot) and window in self._windows

    def _end(self, node: exp.Dot) -> Syntax:
        """An end of the window in GROUP BY, which may be written out again, as Spark has it: the same as ``window.start``."""
        name = window_name(node.this)
        if name is None:
            raise self.translator.refusal(node)
        end, span = node.expression.name, span_of(node)
        if end.lower() not in (START, END):
            raise self.source.error(
                span,
                f"a window must be taken by its ends; got {self.source.part(span)}; write {name}.start, {name}.end",
            )
        return Syntax("column", (), (name, end), span)

    # ---- refusals -----------------------------------------------------------------------------------------------

    def _check_parts(self, node: exp.Expr, read: set[str], what: str) -> None:
        for part, value in node.args.items():
            if not value or part in read:
                continue
            if part in _CLAUSES:
                words, instead = _CLAUSES[part]
                raise self._refusal(words, instead, self._clause(node, words, value))
            if part == "method":  # NATURAL, ASOF
                raise self._refusal(
                    f"{value} JOIN", "write JOIN ... ON ...", self._word(str(value), sys.maxsize)
                )
            name = part.strip("_")
            raise self._refusal(f"{what} with {name!r}", "leave that out", self._clause(node, name, value))

    def _clause(self, node: exp.Expr, words: str, value: Any) -> Span:
        """Where a clause stands: from its first word, behind which the parser has found something, to the end of that."""
        several = value if isinstance(value, list) else [value]
        spans = [span_of(one) for one in several if isinstance(one, exp.Expr)]
        spans = [span for span in spans if span[1] != sys.maxsize]
        if not spans and isinstance(node, exp.Select):  # DISTINCT
            return self._word(words, span_of(node.expressions[0])[0])
        if not spans:
            return self._word(words, sys.maxsize)
        start, end = min(span[0] for span in spans), max(span[1] for span in spans)
        word = self._word(words, start)
        return (start if word == self._whole else word[0]), end

    @property
    def _whole(self) -> Span:
        return 0, len(self.source.text)

    def _word(self, text: str, before: int) -> Span:
        """The last word before a place that begins as a text does (GROUP BY is one word); else the whole text."""
        first = text.split()[0].upper()
        found = [
            word.span for word in self.words if word.text.split()[0].upper() == first and word.start < before
        ]
        return found[-1] if found else self._whole

    def _refusal(self, got: str, instead: str, span: Span) -> ConditionError:
        return self.source.error(
            span, f"a query must be made of what is supported; got {got}, which is not; {instead}"
        )
