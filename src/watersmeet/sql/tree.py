"""The typed tree: three kinds of node, immutable and comparable, each with the Arrow type of its value.

Equal trees mean equal values, so that two bounds on the same expression are seen to share their base.
``str(tree)`` is SQL text again, with no more brackets than it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

_PRECEDENCE = {"or": 1, "and": 2, "not": 3, "is_null": 4, "like": 4, "ilike": 4, "in": 4}
_PRECEDENCE |= dict.fromkeys(("=", "<=>", "<>", "<", "<=", ">", ">="), 4)
_PRECEDENCE |= {"+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "div": 6, "negative": 7}
_TIGHTEST = 8
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SQL_TYPES = {
    pa.large_string(): "STRING",
    pa.large_binary(): "BINARY",
    pa.date32(): "DATE",
    pa.bool_(): "BOOLEAN",
}
_SQL_TYPES |= {pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT"}
_SQL_TYPES |= {pa.float32(): "FLOAT", pa.float64(): "DOUBLE"}


@dataclass(frozen=True)
class Expr:
    """A value of a known type, computed from the rows of the streams."""

    type: pa.DataType


@dataclass(frozen=True)
class Column(Expr):
    """A column of a stream; ``type`` is its type in expressions (see `types.logical`)."""

    stream: str
    name: str

    def __str__(self) -> str:
        return f"{quoted(self.stream)}.{quoted(self.name)}"


@dataclass(frozen=True)
class Literal(Expr):
    """A constant; None is NULL."""

    value: Any

    @cached_property
    def scalar(self) -> pa.Scalar:
        """The constant as Arrow has it, made once: a filter may run on every single row."""
        return pa.scalar(self.value, self.type)

    def __str__(self) -> str:
        return _literal_sql(self.value, self.type)


@dataclass(frozen=True)
class Call(Expr):
    """An operator or function over arguments; ``option`` is what is no argument (the escape mark of LIKE)."""

    op: str
    args: tuple[Expr, ...]
    option: str | None = None

    def __str__(self) -> str:
        return _call_sql(self)


def walk(expr: Expr) -> Iterator[Expr]:
    """The node and all nodes under it, from the left."""
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from walk(arg)


def columns_of(expr: Expr) -> list[Column]:
    """The columns that an expression reads, each once, in the order of the text."""
    return list(dict.fromkeys(node for node in walk(expr) if isinstance(node, Column)))


def streams_of(expr: Expr) -> frozenset[str]:
    """The streams that an expression reads."""
    return frozenset(node.stream for node in walk(expr) if isinstance(node, Column))


def substituted(expr: Expr, columns: Mapping[tuple[str, str], Expr]) -> Expr:
    """The expression with the columns (stream, name) replaced; those that are not named stay."""
    if isinstance(expr, Column):
        return columns.get((expr.stream, expr.name), expr)
    if isinstance(expr, Call):
        return replace(expr, args=tuple(substituted(arg, columns) for arg in expr.args))
    return expr


def shared(exprs: Iterable[Expr]) -> tuple[Expr, ...]:
    """The same expressions, in which equal parts are one object."""
    known: dict[Any, Expr] = {}

    def one(expr: Expr) -> Expr:
        if not isinstance(expr, Call):
            return known.setdefault(expr, expr)
        args = tuple(map(one, expr.args))
        key = expr.op, expr.type, expr.option, *map(id, args)  # not the tree's own hash: that is of all below
        return known.setdefault(key, replace(expr, args=args))

    return tuple(map(one, exprs))


def conjunction(parts: list[Expr]) -> Expr | None:
    """All parts joined with one AND, however many; None for no parts."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return Call(pa.bool_(), "and", tuple(parts))


def conjuncts(expr: Expr) -> list[Expr]:
    """What must all be true for the expression to be true."""
    if isinstance(expr, Call) and expr.op == "and":
        return [part for arg in expr.args for part in conjuncts(arg)]
    return [expr]


def negation_pushed(expr: Expr, *, negate: bool = False) -> Expr:
    """NOT moved inwards to where it flips a comparison: right because the order is total, NaN included."""
    if isinstance(expr, Call) and expr.op == "not":
        return negation_pushed(expr.args[0], negate=not negate)
    if isinstance(expr, Call) and expr.op in ("and", "or"):
        op = {"and": "or", "or": "and"}[expr.op] if negate else expr.op
        return Call(expr.type, op, tuple(negation_pushed(arg, negate=negate) for arg in expr.args))
    if not negate:
        return expr
    if isinstance(expr, Call) and expr.op in _NEGATED:
        return Call(expr.type, _NEGATED[expr.op], expr.args)
    return Call(pa.bool_(), "not", (expr,))


def quoted(name: str) -> str:
    """A name as SQL writes it: with backticks if it needs them."""
    plain = name.isidentifier() and name.isascii()
    return name if plain else "`" + name.replace("`", "``") + "`"


def _literal_sql(value: Any, type_: pa.DataType) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, timedelta):
        return _interval_sql(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return repr(value) if value == value and abs(value) != float("inf") else f"CAST('{value}' AS DOUBLE)"
    if pt.is_duration(type_):
        return f"INTERVAL '{value}' {type_.unit}"
    return str(value)


def _interval_sql(value: timedelta) -> str:
    micros = value // timedelta(microseconds=1)
    for size, unit in (
        (86_400_000_000, "DAY"),
        (3_600_000_000, "HOUR"),
        (60_000_000, "MINUTE"),
        (1_000_000, "SECOND"),
    ):
        if micros % size == 0:
            return f"INTERVAL '{micros // size}' {unit}"
    return f"INTERVAL '{micros}' MICROSECOND"


def _call_sql(call: Call) -> str:
    op, args = call.op, call.args
    level = _PRECEDENCE.get(op, _TIGHTEST)
    if op == "cast":
        return f"CAST({args[0]} AS {_type_sql(call.type)})"
    if op == "add_months" and pt.is_timestamp(call.type):  # the function would make a date of it
        return f"{_inner(args[0], _PRECEDENCE['+'])} + INTERVAL '{args[1]}' MONTH"
    if op == "case":
        return _case_sql(args)
    if op in ("not", "negative"):
        return f"{'NOT ' if op == 'not' else '-'}{_inner(args[0], level)}"
    if op == "is_null":
        return f"{_inner(args[0], level + 1)} IS NULL"
    if op == "in":
        return f"{_inner(args[0], level + 1)} IN ({', '.join(str(arg) for arg in args[1:])})"
    if op in ("and", "or"):
        return f" {op.upper()} ".join(_inner(arg, level + (at > 0)) for at, arg in enumerate(args))
    if level < _TIGHTEST:
        escape = "" if call.option in (None, "\\") else f" ESCAPE '{call.option}'"
        return f"{_inner(args[0], level)} {op.upper()} {_inner(args[1], level + 1)}{escape}"
    return f"{op.upper()}({', '.join(str(arg) for arg in args)})"


def _type_sql(type_: pa.DataType) -> str:
    if pt.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return _SQL_TYPES.get(type_, str(type_).upper())


def _case_sql(args: tuple[Expr, ...]) -> str:
    branches = " ".join(f"WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2))
    return f"CASE {branches} ELSE {args[-1]} END"


def _inner(expr: Expr, level: int) -> str:
    loose = isinstance(expr, Call) and _PRECEDENCE.get(expr.op, _TIGHTEST) < level
    return f"({expr})" if loose else str(expr)
