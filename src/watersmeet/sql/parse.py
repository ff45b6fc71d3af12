"""SQL expressions as text to an untyped tree. Only this module and ``query/parse.py``, which reads whole queries, import sqlglot.

What comes out is plain: sugar is gone (NOT LIKE, DATE_SUB, IFNULL, IS NOT NULL ...), literals are Python
values with an Arrow type, and every node keeps its place in the text. What is refused here (bad syntax,
subqueries, aggregates, functions that we do not have) is refused with that place underlined. Nothing that
was written is passed over: a part of a node that no translation reads is refused by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from watersmeet.errors import ConditionError
from watersmeet.sql import literal, types
from watersmeet.sql.syntax import Source, Span, Syntax
from watersmeet.sql.words import Word, Words


class Dialect(Spark):
    """Spark's SQL. A quote is also written by doubling it, which sqlglot's Spark takes for two texts side by side; GROUP BY may begin with
    window(...), which sqlglot takes for the clause WINDOW.
    """

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012

    class Parser(SparkParser):
        QUERY_MODIFIER_TOKENS = SparkParser.QUERY_MODIFIER_TOKENS - {TokenType.WINDOW}


PREFIX = "SELECT "  # parsed as a select list, so that a stream may be called `set`, `use`, `merge`...

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.Nullif: "nullif",
    exp.Pow: "power",
    exp.AddMonths: "add_months",
}
_CHAINS: dict[type[exp.Expr], str] = {exp.And: "and", exp.Or: "or", exp.DPipe: "concat"}
_UNARY: dict[type[exp.Expr], str] = {
    exp.Not: "not",
    exp.Abs: "abs",
    exp.Upper: "upper",
    exp.Lower: "lower",
    exp.Length: "length",
    exp.Sqrt: "sqrt",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_PREDICATES = (exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.Escape, exp.Not)
_LISTS: dict[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Least: "least",
    exp.Greatest: "greatest",
    exp.Concat: "concat",
}
FUNCTIONS = (
    "ABS, LEAST, GREATEST, COALESCE, NULLIF, CASE, IF, LIKE, ILIKE, UPPER, LOWER, SUBSTRING, LENGTH, CONCAT, "
    "CAST, SQRT, POWER, FLOOR, CEIL, DATE_ADD, DATE_SUB, DATEDIFF, ADD_MONTHS, YEAR, MONTH, DAY, INTERVAL"
)


# The parts of a node that its translation reads. Marks are the parser's own notes on the dialect: they say nothing that
# was written.
_THIS, _BOTH = frozenset({"this"}), frozenset({"this", "expression"})
_READ: dict[type[exp.Expr], frozenset[str]] = {
    **dict.fromkeys((*_BINARY, *_CHAINS), _BOTH),
    **dict.fromkeys(_UNARY, _THIS),
    **dict.fromkeys(_LISTS, frozenset({"this", "expressions"})),
    exp.Concat: frozenset({"expressions"}),
    **dict.fromkeys((exp.Floor, exp.Ceil), frozenset({"this", "decimals", "to"})),
    **dict.fromkeys((exp.Paren, exp.Neg, exp.Boolean, exp.HexString, exp.TsOrDsToDate), _THIS),
    **dict.fromkeys((exp.Is, exp.NullSafeNEQ, exp.Escape), _BOTH),
    **dict.fromkeys((exp.Like, exp.ILike), _BOTH | {"negate"}),
    **dict.fromkeys((exp.Cast, exp.TryCast), frozenset({"this", "to"})),
    **dict.fromkeys((exp.TsOrDsAdd, exp.DateDiff), _BOTH | {"unit"}),
    exp.Null: frozenset(),
    exp.Star: frozenset({"except_"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Column: frozenset({"this", "table", "db"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Interval: frozenset({"this", "unit"}),
    exp.DataType: frozenset({"this", "expressions", "nested"}),
    exp.Between: frozenset({"this", "low", "high", "symmetric"}),
    exp.In: frozenset({"this", "expressions", "query", "unnest", "field"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.Substring: frozenset({"this", "start", "length"}),
}
_MARKS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Div: frozenset({"typed", "safe"}),
    exp.DPipe: frozenset({"safe"}),
    exp.Concat: frozenset({"safe", "coalesce"}),
    exp.Least: frozenset({"ignore_nulls"}),
    exp.Greatest: frozenset({"ignore_nulls"}),
    exp.TryCast: frozenset({"safe"}),
    exp.TsOrDsToDate: frozenset({"safe"}),
}
# How many arguments a function may have at most: of those that the parser builds by hand it drops what is too many.
# FLOOR and CEIL are checked where they are translated.
_MOST_ARGUMENTS = {
    **dict.fromkeys(("AND", "OR"), 1),  # the parser takes AND(a, b) for a function
    **dict.fromkeys(
        ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY"), 1
    ),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TO_DATE", "TO_TIMESTAMP"), 1),
    **dict.fromkeys(("MOD", "DIV", "DATE_ADD", "DATE_SUB", "DATEADD"), 2),
    **dict.fromkeys(("DATEDIFF", "DATE_DIFF", "LIKE", "ILIKE"), 3),
}
# Names that only the parser knows: SQL has no such functions.
_PARSERS_OWN = (
    "DATE_TO_DATE_STR",
    "TIME_TO_TIME_STR",
    "TIMESTAMPADD",
    "TS_OR_DS_ADD",
    "TS_OR_DS_TO_DATE",
    "TS_OR_DS_TO_DATE_STR",
)


def parse_condition(text: str) -> Syntax:
    """The tree of one SQL expression."""
    source = Source(text, "condition")
    items = _select(source)
    if len(items) > 1:
        start = span_of(items[1])[0]
        raise source.error(
            (start, len(text)), "a condition must be one expression; got several; join them with AND"
        )
    with source.of_any_depth():
        return Translator(source).expression(items[0])


def parse_select(text: str) -> tuple[Syntax, ...]:
    """The trees of a select list: ``star``, ``alias`` or any expression."""
    source = Source(text, "select list")
    items, translator = _select(source), Translator(source)
    with source.of_any_depth():
        return tuple(translator.item(item) for item in items)


def one_line(text: str) -> str:
    r"""The same text on one line, without comments; what stands inside of quotes stays as it is.

    >>> one_line("r.x  = s.x\n AND r.note <> 'a  b'")
    "r.x = s.x AND r.note <> 'a  b'"
    """
    found, end = "", 0
    for word in words_of(text).after(0):
        found += (" " if found and word.start > end else "") + text[word.start : word.end]
        end = word.end
    return found


def _select(source: Source) -> list[exp.Expr]:
    if not source.text.strip():
        raise _empty(source)
    statements = _statements(source)
    statement = statements[0]
    if len(statements) > 1 or not isinstance(statement, exp.Select):
        raise source.error(
            (0, len(source.text)),
            f"a {source.kind} must be one piece of SQL; got several; remove ';' and set operations",
        )
    if not statement.expressions:
        raise _empty(source)
    for name in _clauses(statement):
        raise source.error(
            (0, len(source.text)),
            f"a {source.kind} must be only expressions; got {name.strip('_').upper()}; leave it out",
        )
    _check_lists(source)
    return list(statement.expressions)


def _check_lists(source: Source) -> None:
    """The parser passes over a comma, or an AS, beside which nothing stands."""
    words = words_of(source.text).after(0)
    texts = ["", *(word.text.upper() for word in words), ""]
    for before, word, after in zip(texts, words, texts[2:], strict=False):
        ends = after in ("", ",", ")", ";")
        comma = word.text == "," and (ends or before in ("", "(", ","))
        if comma or (word.text.upper() == "AS" and before != "." and ends):
            raise source.error(
                word.span,
                f"a {source.kind} must be valid SQL; got nothing beside {word.text!r}; correct the text here",
            )


def _statements(source: Source) -> list[exp.Expr | None]:
    """What the parser makes of the text behind SELECT; a ';' at the end, and comments after it, are no statement."""
    try:
        with source.of_any_depth():
            found = sqlglot.parse(PREFIX + source.text, read=Dialect)
    except ParseError as error:
        raise _whole_query(source) or syntax_error(source, error) from None
    except TokenError:
        raise token_error(source) from None
    except ConditionError:
        raise
    except Exception as error:  # the parser's own slips: whatever it trips over is no SQL of ours
        raise source.error(
            (0, len(source.text)),
            f"a {source.kind} must be valid SQL; got what cannot be read ({error}); correct it",
        ) from None
    while len(found) > 1 and (found[-1] is None or isinstance(found[-1], exp.Semicolon)):
        found.pop()
    query = _whole_query(source) if len(found) > 1 or _clauses(found[0]) else None
    if query is not None:
        raise query
    return found


def _empty(source: Source) -> ConditionError:
    return source.error((0, 1), f"a {source.kind} must be SQL text; got an empty text; write an expression")


def _clauses(statement: exp.Expr | None) -> list[str]:
    """What a statement has beside its select list."""
    if not isinstance(statement, exp.Select):
        return ["a statement"]
    return [name for name, value in statement.args.items() if value and name != "expressions"]


def _whole_query(source: Source) -> ConditionError | None:
    """What to say of a text that is a query, or the end of one from FROM, JOIN or ON on; None if it is none."""
    words = words_of(source.text).after(0)
    texts = [word.text.upper() for word in words]
    begins = texts[0] if texts and texts[0] in ("SELECT", "WITH", "FROM", "JOIN", "ON", "WHERE") else None
    if begins is None and "JOIN" not in texts:
        return None
    part = "what stands after ON" if source.kind == "condition" else "what stands between SELECT and FROM"
    place, got = (words[0].start, len(source.text)), "a whole query"
    if begins in ("ON", "WHERE") and "JOIN" not in texts:
        place, got = words[0].span, f"{begins} in front of it"
        part += " or WHERE" if begins == "WHERE" and source.kind == "condition" else ""
    return source.error(
        place, f"a {source.kind} must be an expression over the streams; got {got}; give only {part}"
    )


@lru_cache(maxsize=16)  # a query's words are asked for several times
def words_of(text: str) -> Words:
    """The words of a text, quotes and all: ``'('`` opens nothing. ``5L`` is one, though three tokens in the same place."""
    words: list[Word] = []
    for token in tokens_of(text):
        start, end = token.start - len(PREFIX), token.end + 1 - len(PREFIX)
        if not words or start >= words[-1].end:
            words.append(Word(text[start:end], start, end))
    return Words(words)


@lru_cache(maxsize=16)  # read once for the words, once for the tree
def tokens_of(text: str) -> list[Token]:
    """sqlglot's tokens of a text with as many blanks in front as ``PREFIX`` has characters: where the translator counts from."""
    return sqlglot.tokenize(" " * len(PREFIX) + text, read=Dialect)


def syntax_error(source: Source, error: ParseError) -> ConditionError:
    """What to say of a text that the parser has refused; it was given as many characters as ``PREFIX`` has in front."""
    first = error.errors[0]
    lines = source.text.split("\n")
    row = min(first["line"], len(lines)) - 1
    word = first["highlight"] or ""
    end = first["col"] - (len(PREFIX) if row == 0 else 0)
    end += sum(len(line) + 1 for line in lines[:row])
    place = (end - len(word), end)
    description = first["description"] or ""
    if word.upper() in ("SELECT", "WITH", "VALUES"):
        return source.error(place, _no_subquery(source.kind))
    if description.startswith("Required keyword"):
        got = f"an operand or argument missing near {word!r}"
    elif description.startswith("Expecting"):
        got = f"{description[len('Expecting ') :]!r} missing after {word!r}"
    else:
        got = f"an unexpected {word!r}"
    return source.error(place, f"a {source.kind} must be valid SQL; got {got}; correct the text here")


def token_error(source: Source) -> ConditionError:
    """What to say of a text whose words do not end."""
    quotes = [source.text.rfind(mark) for mark in ("'", '"', "`", "/*")]
    start = max(max(quotes), 0)
    return source.error(
        (start, len(source.text)),
        f"a {source.kind} must be valid SQL; got a quote or comment that is never closed; close it",
    )


def _no_subquery(kind: str) -> str:
    return f"a {kind} must be an expression over the streams; got a subquery; join its result as a stream"


def span_of(node: exp.Expr) -> Span:
    """The smallest range of text that holds all tokens of a node."""
    start, end, left = sys.maxsize, -1, [node]
    while left:  # every node is asked for its span: sqlglot's own walk takes three times as long
        part = left.pop()
        place = part._meta
        if place and "start" in place:
            start, end = min(start, place["start"]), max(end, place["end"])
        for value in part.args.values():
            if isinstance(value, exp.Expr):
                left.append(value)
            elif isinstance(value, list):
                left += [one for one in value if isinstance(one, exp.Expr)]
    if end < 0:
        return (0, sys.maxsize)  # the parser lost the place (intervals): the whole line is underlined
    return start - len(PREFIX), end + 1 - len(PREFIX)


def _own_span(node: exp.Expr) -> Span | None:
    """Where the token stands that made a node: the name of a function."""
    place = node._meta or {}
    return (place["start"] - len(PREFIX), place["end"] + 1 - len(PREFIX)) if "start" in place else None


class Translator:
    """Turns sqlglot nodes into ours, one method a kind of node. Their places count from behind ``PREFIX``."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.words = words_of(source.text)
        self._check_calls()
        self.special: dict[type[exp.Expr], Callable[[Any], Syntax]] = {
            exp.Paren: lambda node: self.expression(node.this),
            exp.Column: self._column,
            exp.Literal: lambda node: self._literal(node, node.this),
            exp.Neg: self._negative,
            exp.Boolean: lambda node: self._constant(node, bool(node.this), pa.bool_()),
            exp.Null: lambda node: self._constant(node, None, pa.null()),
            exp.HexString: self._hex,
            exp.Interval: self._interval,
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            exp.Between: self._between,
            exp.In: self._in,
            exp.Is: self._is,
            exp.NullSafeNEQ: lambda node: self._negate(
                node, self._make(node, "<=>", node.this, node.expression)
            ),
            exp.Like: lambda node: self._like(node, "like", "\\"),
            exp.ILike: lambda node: self._like(node, "ilike", "\\"),
            exp.Escape: self._escape,
            exp.Case: self._case,
            exp.If: self._if,
            exp.Substring: self._substring,
            exp.TsOrDsAdd: self._date_add,
            exp.TsOrDsToDate: lambda node: self._make(node, "to_date", node.this),
            exp.DateDiff: self._date_diff,
        }

    def item(self, node: exp.Expr) -> Syntax:
        """One item of a select list."""
        if isinstance(node, exp.Star):
            return self._star(node, None, _own_span(node) or span_of(node))
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            self._check_parts(node)
            start, end = span_of(node.args["table"])[0], (_own_span(node.this) or span_of(node))[1]
            return self._star(node.this, node.table, (start, end))
        if isinstance(node, exp.Alias):
            self._check_parts(node)
            return Syntax("alias", (self.expression(node.this),), node.alias, span_of(node))
        return self.expression(node)

    def expression(self, node: exp.Expr | None) -> Syntax:
        """Any expression inside a condition or an item."""
        if node is None:
            raise self.source.error(
                (0, len(self.source.text)),
                f"a {self.source.kind} must be valid SQL; got a function with an argument missing; add it",
            )
        kind = type(node)
        if kind in _READ:
            self._check_parts(node)
        if kind in self.special:
            return self.special[kind](node)
        if kind in _CHAINS:
            return self._chain(node)
        if kind in _BINARY:
            self._check_brackets(node)
            return self._make(node, _BINARY[kind], node.this, node.expression)
        if kind in _UNARY:
            if node.args.get("decimals") is not None or node.args.get("to") is not None:
                raise self.source.error(
                    span_of(node),
                    f"{self._written(node)[0]} must have one argument; got more; multiply before and divide after it",
                )
            return self._make(node, _UNARY[kind], node.this)
        if kind in _LISTS:
            first = [node.this] if node.args.get("this") is not None else []
            return self._make(node, _LISTS[kind], *first, *node.expressions)
        raise self.refusal(node)

    def _chain(self, node: exp.Expr) -> Syntax:
        """All of ``a AND b AND (c AND d)`` as one node: machines write thousands of them, too deep for a recursion."""
        kind, parts, left = type(node), list[exp.Expr | None](), [node]
        while left:
            part: exp.Expr | None = left.pop()
            inner = part
            while isinstance(inner, exp.Paren):
                self._check_parts(inner)
                inner = inner.this
            if type(inner) is kind:
                self._check_parts(inner)
                left += [inner.expression, inner.this]
            else:
                parts.append(part)
        return self._make(node, _CHAINS[kind], *parts)

    def _star(self, star: exp.Star, stream: str | None, span: Span) -> Syntax:
        """``*`` and ``r.*``, perhaps with EXCEPT (a, b) behind it; the columns left out are its arguments."""
        behind = self.words.after(span[1])
        word = behind[0].text.upper() if behind else ""
        if word not in ("", ",", ";", "EXCEPT", "FROM"):
            raise self._no_modifier(behind[0])
        for name in self._unread(star):
            raise self._no_modifier(next(w for w in behind if w.text.upper() == name.strip("_").upper()))
        if word != "EXCEPT":
            return Syntax("star", (), stream, span)
        out = star.args.get("except_") or []
        if not out or behind[1].text != "(" or not all(type(column) is exp.Column for column in out):
            raise self.source.error(
                behind[0].span,
                "EXCEPT must have a list of columns in brackets; got something else; write * EXCEPT (a, b)",
            )
        return Syntax("star", tuple(self.expression(column) for column in out), stream, span)

    def _no_modifier(self, word: Word) -> ConditionError:
        return self.source.error(
            word.span,
            f"a star must stand alone or with EXCEPT (a, b); got {word.text.upper()}; "
            "list the columns one by one",
        )

    def _unread(self, node: exp.Expr) -> list[str]:
        """The parts of a node that are set, but that its translation does not look at."""
        known = _READ[type(node)] | _MARKS.get(type(node), frozenset())
        return [name for name, value in node.args.items() if value and name not in known]

    def _check_parts(self, node: exp.Expr) -> None:
        for part in self._unread(node):
            name, span = self._written(node)
            value = node.args[part]
            if isinstance(value, exp.Expr) and span_of(value)[1] != sys.maxsize:
                span = span_of(value)
            raise self.source.error(
                span,
                f"{name} must be written in its plain form; got it with {part.strip('_')!r}; leave that out",
            )

    def _check_calls(self) -> None:
        for word, count in self.words.calls():
            name = word.text.upper()
            if name in _MOST_ARGUMENTS and count > _MOST_ARGUMENTS[name]:
                raise self.source.error(
                    word.span,
                    f"{name} must have no more arguments than {_MOST_ARGUMENTS[name]}; got {count}; leave out the rest",
                )
            if name in _PARSERS_OWN:
                raise self._no_function(word.text, word.span)

    def _written(self, node: exp.Expr) -> tuple[str, Span]:
        """What the user wrote for a function or operator, and where."""
        span = _own_span(node)
        if span is None:
            word = self._word(node)
            if word is None:
                return (node.sql_name() if isinstance(node, exp.Func) else node.key.upper()), span_of(node)
            span = word.span
        return self.source.text[span[0] : span[1]], span

    def _word(self, node: exp.Expr) -> Word | None:
        """The operator between two operands, or the name in front of the bracket around the first argument."""
        start, end = span_of(node)
        if isinstance(node, exp.Binary):
            behind = self.words.after(span_of(node.this)[1])
            return next((word for word in behind if word.text.upper() not in (")", "NOT")), None)
        if end != sys.maxsize:
            return self.words.opened_by(start)
        names = node.sql_names() if isinstance(node, exp.Func) else ()
        return next((word for word in self.words.after(0) if word.text.upper() in names), None)

    def _check_brackets(self, node: exp.Expr) -> None:
        """Spark reads ``a = b IN (c)`` as ``(a = b) IN (c)``, the parser as ``a = (b IN (c))``: neither is taken."""
        if not isinstance(node, _COMPARISONS):
            return
        if isinstance(node.expression, (*_COMPARISONS, *_PREDICATES)) or isinstance(node.this, _PREDICATES):
            raise self.source.error(
                span_of(node),
                "a comparison of comparisons must have brackets; got none; write (a = b) < c or a = (b < c)",
            )

    def refusal(self, node: exp.Expr) -> ConditionError:
        """What to say of a node that is not translated."""
        kind, span = self.source.kind, span_of(node)
        if isinstance(node, (exp.Query, exp.Exists, exp.All, exp.Any, exp.SubqueryPredicate)):
            return self.source.error(span, _no_subquery(kind))
        if isinstance(node, (exp.AggFunc, exp.Window)):
            return self.source.error(
                span,
                f"a {kind} must be about one row of each stream; got an aggregate; aggregate the result",
            )
        if isinstance(node, exp.Alias):
            place = span_of(node.args["alias"])
            return self.source.error(
                place, f"a {kind} must be valid SQL; got an unexpected {node.alias!r}; correct it"
            )
        if isinstance(node, exp.Func):
            return self._no_function(*self._written(node))
        got = " ".join(node.sql(dialect=Dialect).split())
        return self.source.error(
            span, f"a {kind} must be an expression over columns; got {got}; rewrite this part"
        )

    def _no_function(self, name: str, place: Span) -> ConditionError:
        return self.source.error(
            place, f"a function must be one of {FUNCTIONS}; got {name}; use those, or add a column"
        )

    def _make(self, node: exp.Expr, op: str, *args: exp.Expr | None) -> Syntax:
        return Syntax(op, tuple(self.expression(arg) for arg in args), None, span_of(node))

    def _negate(self, node: exp.Expr, inner: Syntax) -> Syntax:
        return Syntax("not", (inner,), None, span_of(node))

    def _constant(self, node: exp.Expr, value: object, type_: pa.DataType) -> Syntax:
        return Syntax("literal", (), (value, type_), span_of(node))

    def _column(self, node: exp.Column) -> Syntax:
        if node.args.get("db") is not None or isinstance(node.this, exp.Star):
            raise self.source.error(
                span_of(node),
                f"a column must be written stream.column; got {node.sql(dialect=Dialect)}; shorten it",
            )
        return Syntax("column", (), (node.table or None, node.name), span_of(node))

    def _negative(self, node: exp.Neg) -> Syntax:
        """A minus in front of a number belongs to it, so that the least BIGINT is one."""
        number = node.this
        if isinstance(number, exp.Literal) and not number.is_string:
            return self._literal(number, f"-{number.this}")
        return self._make(node, "negative", number)

    def _literal(self, node: exp.Literal, text: str) -> Syntax:
        if node.is_string:
            return self._constant(node, text, pa.large_string())
        try:
            read = literal.number(text)
        except (ValueError, ArithmeticError):
            raise self.source.error(
                span_of(node), f"a number must be like 1, 0.5 or 1e-3; got {node.this}; correct it"
            ) from None
        if read is None:
            raise self.source.error(
                span_of(node),
                f"a number must have at most 76 digits; got {len(node.this)}; use an exponent (1e80)",
            )
        return self._constant(node, *read)

    def _hex(self, node: exp.HexString) -> Syntax:
        digits = "0" * (len(node.this) % 2) + node.this  # as Spark does
        return self._constant(node, bytes.fromhex(digits), pa.large_binary())

    def _interval(self, node: exp.Interval) -> Syntax:
        unit = node.args.get("unit")
        name = unit.name if unit is not None else None
        if isinstance(unit, exp.IntervalSpan):
            name = f"{unit.this.name} TO {unit.expression.name}"
        if not isinstance(node.this, exp.Literal):
            one = None if name is None else literal.parse_interval("1", name)
            if one is None or one[0]:
                raise self.source.error(
                    span_of(node),
                    "an INTERVAL of months or years must be a constant; got an expression; use ADD_MONTHS",
                )
            return Syntax(
                "*",
                (self.expression(node.this), Syntax("interval", (), one, span_of(node))),
                None,
                span_of(node),
            )
        value = literal.parse_interval(node.this.this, name)
        if value is None:
            raise self.source.error(
                span_of(node),
                f"an INTERVAL must be like INTERVAL '10' SECOND or INTERVAL '1 hour 30 minutes'; got "
                f"{node.sql(dialect=Dialect)}; give a number and a unit",
            )
        return Syntax("interval", (), value, span_of(node))

    def _cast(self, node: exp.Cast | exp.TryCast) -> Syntax:
        to = node.to
        name = to.this.name if hasattr(to.this, "name") else str(to.this)
        inner = node.this
        sizes = [int(size.this.this) for size in to.expressions] if name == "DECIMAL" else []
        type_ = types.named(name, sizes) if len(to.expressions) == len(sizes) <= 2 else None
        if type_ is None:
            written, span = self._written_type(node, name)
            raise self.source.error(
                span, f"a cast must be to one of {types.CAST_TARGETS}; got {written}; use one"
            )
        self._check_parts(to)
        if type(node) is exp.Cast and isinstance(inner, exp.Literal) and inner.is_string:
            return self._typed_literal(node, inner.this, type_)
        if pa.types.is_integer(type_) and self._suffixed(
            inner
        ):  # 5L is a number of its own, not 5 turned into one
            return self._constant(node, int(inner.this), type_)
        return Syntax("cast", (self.expression(inner),), type_, span_of(node))

    def _written_type(self, node: exp.Cast | exp.TryCast, name: str) -> tuple[str, Span]:
        """The type of a cast as the user wrote it: a function's name, or what stands behind AS or ``::``."""
        span = _own_span(node)
        inner_end = span_of(node.this)[1]
        # The casts inside of it that end in the same word have their own AS before this one's.
        inside = sum(
            span_of(part.this)[1] == inner_end and not self._suffixed(part.this)
            for part in node.this.find_all(exp.TryCast)
            if type(part) is exp.TryCast
        )
        behind = self.words.after(inner_end)
        marks = [at for at, word in enumerate(behind) if word.text.upper() in ("AS", "::")]
        if (
            span is None
            and type(node) is exp.TryCast
            and inside < len(marks)
            and marks[inside] + 1 < len(behind)
        ):
            mark, first = behind[marks[inside]], behind[marks[inside] + 1]
            span = first.span if mark.text == "::" else (first.start, self.words.bracket_end(first.start))
        return (name, span_of(node)) if span is None else (self.source.part(span), span)

    def _suffixed(self, node: exp.Expr) -> bool:
        """Whether a number is written with letters behind it, as in 5L. Of ``.5`` the parser has lost the place: it has none."""
        if not isinstance(node, exp.Literal) or node.is_string:
            return False
        start, end = span_of(node)
        written = self.source.text[start:end]
        return written.startswith(node.this) and written[len(node.this) :].isalpha()

    def _typed_literal(self, node: exp.Expr, text: str, type_: pa.DataType) -> Syntax:
        """``DATE '2024-01-31'`` and ``TIMESTAMP '...'``: what cannot be read is an error, not NULL."""
        if pa.types.is_date(type_):
            value: Any = literal.parse_date(text)
        elif pa.types.is_timestamp(type_):
            value = literal.parse_timestamp(text)
            if value is not None and value.tzinfo is not None:
                type_ = pa.timestamp("us", "UTC")
        else:
            return Syntax("cast", (self._constant(node, text, pa.large_string()),), type_, span_of(node))
        if value is None:
            raise self.source.error(
                span_of(node),
                f"a moment must be like '2024-01-31' or '2024-01-31 12:30:00'; got {text!r}; correct it",
            )
        return self._constant(node, value, type_)

    def _between(self, node: exp.Between) -> Syntax:
        value, low, high = (self.expression(node.args[name]) for name in ("this", "low", "high"))
        span = span_of(node)
        inside = Syntax(
            "and",
            (Syntax(">=", (value, low), None, span), Syntax("<=", (value, high), None, span)),
            None,
            span,
        )
        if not node.args.get("symmetric"):
            return inside
        swapped = Syntax(
            "and",
            (Syntax(">=", (value, high), None, span), Syntax("<=", (value, low), None, span)),
            None,
            span,
        )
        return Syntax("or", (inside, swapped), None, span)

    def _in(self, node: exp.In) -> Syntax:
        if node.args.get("query") is not None or node.args.get("unnest") is not None:
            raise self.source.error(span_of(node), _no_subquery(self.source.kind))
        if not node.expressions:
            raise self.source.error(span_of(node), "IN must have a list of values; got none; write IN (1, 2)")
        return self._make(node, "in", node.this, *node.expressions)

    def _is(self, node: exp.Is) -> Syntax:
        what = node.expression
        if isinstance(what, exp.Null):
            return self._make(node, "is_null", node.this)
        if isinstance(what, exp.Boolean):
            return self._make(node, "<=>", node.this, what)
        raise self.refusal(node)

    def _like(self, node: exp.Like | exp.ILike, op: str, escape: str) -> Syntax:
        args = (self.expression(node.this), self.expression(node.expression))
        made = Syntax(op, args, escape, span_of(node))
        return self._negate(node, made) if node.args.get("negate") else made

    def _escape(self, node: exp.Escape) -> Syntax:
        mark, inner = node.expression, node.this
        if not (isinstance(mark, exp.Literal) and mark.is_string and len(mark.this) == 1):
            raise self.source.error(
                span_of(mark), "ESCAPE must be one character; got something else; write ESCAPE '/'"
            )
        if isinstance(inner, exp.Not):
            return self._negate(node, self._like(inner.this, "like", mark.this))
        return self._like(inner, "ilike" if isinstance(inner, exp.ILike) else "like", mark.this)

    def _case(self, node: exp.Case) -> Syntax:
        subject = node.args.get("this")
        parts: list[Syntax] = []
        for branch in node.args["ifs"]:
            self._check_parts(branch)
            test = self.expression(branch.this)
            if subject is not None:
                test = Syntax("=", (self.expression(subject), test), None, test.span)
            parts += [test, self.expression(branch.args["true"])]
        default = node.args.get("default")
        parts.append(self._constant(node, None, pa.null()) if default is None else self.expression(default))
        return Syntax("case", tuple(parts), None, span_of(node))

    def _if(self, node: exp.If) -> Syntax:
        other = node.args.get("false")
        default = self._constant(node, None, pa.null()) if other is None else self.expression(other)
        return Syntax(
            "case",
            (self.expression(node.this), self.expression(node.args["true"]), default),
            None,
            span_of(node),
        )

    def _substring(self, node: exp.Substring) -> Syntax:
        rest = [] if node.args.get("length") is None else [node.args["length"]]
        return self._make(node, "substring", node.this, node.args.get("start"), *rest)

    def _date_add(self, node: exp.TsOrDsAdd) -> Syntax:
        """DATE_ADD, and DATE_SUB, which sqlglot writes as DATE_ADD of the amount times -1."""
        unit, amount, op = node.args.get("unit"), node.expression, "date_add"
        if unit is not None and unit.name.upper() != "DAY":
            raise self.source.error(
                span_of(node), f"DATE_ADD must add days; got {unit.name}; add an INTERVAL instead"
            )
        if isinstance(amount, exp.Mul) and isinstance(amount.expression, exp.Neg):
            amount, op = amount.this, "date_sub"
        return self._make(node, op, node.this, amount)

    def _date_diff(self, node: exp.DateDiff) -> Syntax:
        unit = node.args.get("unit")
        if unit is not None and unit.name.upper() not in ("DAY", "DAYS"):
            raise self.source.error(
                span_of(node), f"DATEDIFF must count days; got {unit.name}; subtract timestamps instead"
            )
        return self._make(node, "datediff", node.this, node.expression)
