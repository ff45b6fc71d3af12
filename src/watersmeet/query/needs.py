"""What a plan needs of a fabric: its instructions as operators that a fabric knows. A new kind of instruction is one case here.

Conditions of an inner join that are about one stream become selections before it, so that they can stand near the entry: a row that fails
them is in no result, and windows are counted in arrival numbers, which rows carry with them. A conjunction is one selection after
another, in the order of their texts, so that queries can have the first ones in common. UNION ALL needs nothing: the rows of all its
parts are results.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from watersmeet.errors import FabricError, listed
from watersmeet.fabric.operator import (
    CONDITIONS,
    Attribute,
    Code,
    Constant,
    Flow,
    Need,
    Operator,
    Output,
    Stream,
    Term,
    Token,
)
from watersmeet.query.instruction import (
    ANSWER,
    Filter,
    Groups,
    Instruction,
    Join,
    JoinOf,
    Keep,
    Order,
    Project,
    Release,
    Scan,
    Top,
    Union,
)
from watersmeet.sql import types
from watersmeet.sql.tree import Call, Column, Expr, Literal, streams_of, substituted
from watersmeet.streams.window import Window

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}
_SCALES = {"s": 0, "ms": 3, "us": 6, "ns": 9}
CODE_BITS = 64  # of what has no fixed width: a text's code
Holds = Mapping[str, int]


def need_of(query: str, plan: Instruction, starts: Mapping[Any, Any], holds: Holds) -> Need:
    """What a query needs. ``holds``: rows that windows without a number of their own have at most, by stream."""
    return Need(query, tuple(_Reading(starts, holds).flows(plan)))


class _Reading:
    def __init__(self, starts: Mapping[Any, Any], holds: Holds) -> None:
        self.starts, self.holds = starts, holds

    def flows(self, plan: Instruction) -> list[Flow]:
        """The flows whose rows a plan gives."""
        match plan:
            case Scan():
                return [Stream(plan.stream)]
            case Join():
                return [self._join(plan)]
            case Filter():
                return [_selected(flow, _parts(plan.predicate)) for flow in self.flows(plan.input)]
            case Project():
                outputs = tuple(
                    Output(name, code_of(expr)) for name, expr in zip(plan.names, plan.exprs, strict=True)
                )
                return [Operator("projection", (flow,), outputs=outputs) for flow in self.flows(plan.input)]
            case Union():
                return [flow for one in plan.inputs for flow in self.flows(one)]
            case Groups():
                return [self._groups(plan)]
            case Top() if not plan.distinct:
                return [self._top(plan)]
            case Release() if plan.turn == "end":
                return [self._ordered(*self._columns(plan.input), plan.order, plan.limit, plan)]
            case JoinOf():
                raise FabricError(
                    f"a join on a fabric must be of streams, or of selections from them; got a join of {listed(plan.leaves)}, where some "
                    "are queries themselves; run it in a processor without a fabric"
                )
            case _:
                raise _refused(plan)

    def _columns(self, rows: Project | Union) -> tuple[tuple[Flow, ...], Mapping[str, Expr]]:
        """Where rows come from, and what their columns are there: who reads them computes them."""
        if isinstance(rows, Project):
            return tuple(self.flows(rows.input)), dict(zip(rows.names, rows.exprs, strict=True))
        first = rows.inputs[0]
        named = {
            name: Column(expr.type, "", name) for name, expr in zip(first.names, first.exprs, strict=True)
        }
        return tuple(self.flows(rows)), named

    def _rows_of(self, window: Window, stream: str | None) -> int | None:
        return self.holds.get(stream or "") if window.rows is None else window.rows

    def _groups(self, plan: Groups) -> Operator:
        inputs, columns = self._columns(plan.input)
        outputs = [Output(name, code_of(columns[name]), "key") for name in plan.grouping.keys]
        for one in plan.grouping.aggregates:
            read = [columns[name] for name in (one.column, one.by) if name is not None]
            outputs.append(
                Output(one.name, tuple(token for expr in read for token in code_of(expr)), one.function)
            )
        windows = () if plan.sliding is None else (self._rows_of(plan.sliding.window, plan.sliding.stream),)
        start = self.starts.get(plan, 0)
        return Operator("aggregation", inputs, outputs=tuple(outputs), windows=windows, start=start)

    def _top(self, plan: Top) -> Flow:
        """An answer: of groups or of rows, which of it, in which order, and what of it."""
        below = plan.input
        if isinstance(below, Groups):
            inputs: tuple[Flow, ...] = (self._groups(below),)
            columns: Mapping[str, Expr] = {
                name: Column(types.logical(kind), "", name) for name, kind in below.fields
            }
        elif isinstance(below, Keep) and below.sliding is None:
            inputs, columns = self._columns(below.input)
        else:
            raise _refused(below)
        answer = {(ANSWER, name): expr for name, expr in columns.items()}
        if plan.having is not None:
            inputs = tuple(_selected(flow, _parts(substituted(plan.having, answer))) for flow in inputs)
        shown = {name: substituted(expr, answer) for name, expr in zip(plan.names, plan.exprs, strict=True)}
        extra = {f"\0by{number}": substituted(expr, answer) for number, expr in enumerate(plan.extra)}
        if plan.order or plan.limit is not None:
            inputs = (self._ordered(inputs, {**shown, **extra}, plan.order, plan.limit, plan),)
        elif isinstance(below, Keep) or len(inputs) > 1:
            raise _refused(below)
        return Operator(
            "projection", inputs, outputs=tuple(Output(name, code_of(expr)) for name, expr in shown.items())
        )

    def _ordered(
        self,
        inputs: tuple[Flow, ...],
        columns: Mapping[str, Expr],
        order: tuple[Order, ...],
        limit: int | None,
        plan: Instruction,
    ) -> Operator:
        outputs = tuple(Output(one.column, code_of(columns[one.column]), _direction(one)) for one in order)
        start = self.starts.get(plan, 0)
        return Operator("order_by", inputs, outputs=outputs, windows=(limit,), start=start)

    def _join(self, join: Join) -> Operator:
        own: dict[str, list[Expr]] = {leaf: [] for leaf in join.leaves}
        rest: list[Expr] = []
        for part in _parts(join.condition):
            leaves = streams_of(part)
            before = join.how == "inner" and len(leaves) == 1
            (own[next(iter(leaves))] if before else rest).append(part)
        terms = [term for part in rest if (term := term_of(part)) is not None]
        code = tuple(code_of(part) for part in rest if term_of(part) is None)
        inputs = tuple(
            _selected(Stream(stream), [_renamed(part, leaf, stream) for part in own[leaf]])
            for leaf, stream in zip(join.leaves, join.streams, strict=True)
        )
        windows = tuple(
            self.holds.get(stream) if window.rows is None else window.rows
            for stream, window in zip(join.streams, join.windows, strict=True)
        )
        return Operator(
            "join", inputs, tuple(terms), code, (), windows, join.leaves, join.how, self.starts.get(join, 0)
        )


def _refused(plan: Instruction) -> FabricError:
    return FabricError(
        "a query on a fabric must be made of selections, projections, joins, aggregates of all rows, and orders of an answer; got "
        f"{plan}; run it in a processor without a fabric"
    )


def _direction(order: Order) -> str:
    """Without more: NULLs first where values ascend, last where they descend, as in Spark."""
    text = "descending" if order.descending else "ascending"
    if order.nulls_first == order.descending:
        text += "_nulls_first" if order.nulls_first else "_nulls_last"
    return text


def _parts(expr: Expr) -> list[Expr]:
    """The conjuncts of a condition, without what is always true."""
    if isinstance(expr, Call) and expr.op == "and":
        return [part for arg in expr.args for part in _parts(arg)]
    return [] if isinstance(expr, Literal) and expr.value is True else [expr]


def _renamed(expr: Expr, leaf: str, stream: str) -> Expr:
    """The same about the stream itself: a stream that is read twice is selected from once."""
    columns = {(leaf, one.name): one for one in _columns(expr)} if leaf != stream else {}
    return substituted(expr, {key: Column(one.type, stream, one.name) for key, one in columns.items()})


def _columns(expr: Expr) -> list[Column]:
    if isinstance(expr, Call):
        return [column for arg in expr.args for column in _columns(arg)]
    return [expr] if isinstance(expr, Column) else []


def _selected(flow: Flow, parts: list[Expr]) -> Flow:
    for part in sorted(dict.fromkeys(parts), key=str):
        term = term_of(part)
        if term is not None:
            flow = Operator("selection", (flow,), terms=(term,))
        else:
            flow = Operator("selection", (flow,), code=(code_of(part),))
    return flow


# ---- expressions --------------------------------------------------------------------------------------------------


def term_of(expr: Expr) -> Term | None:
    """The comparison as blocks know it; None: only an expression says it."""
    if not isinstance(expr, Call) or expr.op not in CONDITIONS:
        return None
    left, right = expr.args
    if isinstance(left, Column):
        return _term(left, expr.op, right)
    return _term(right, _FLIPPED[expr.op], left) if isinstance(right, Column) else None


def _term(left: Column, condition: str, right: Expr) -> Term | None:
    if isinstance(right, Literal):
        return Term(attribute_of(left), condition, None, constant_of(right))
    if isinstance(right, Column):
        return Term(attribute_of(left), condition, attribute_of(right))
    if isinstance(right, Call) and right.op in ("+", "-") and isinstance(right.args[0], Column):
        base, offset = right.args[0], right.args[1]
        if isinstance(offset, Literal) and isinstance(offset.value, int | float | Decimal | timedelta):
            value = -offset.value if right.op == "-" else offset.value
            return Term(
                attribute_of(left), condition, attribute_of(base), constant_of(Literal(offset.type, value))
            )
    return None


def attribute_of(column: Column) -> Attribute:
    """A column, with its width: of what has no fixed one, the width of its code."""
    try:
        bits = column.type.bit_width
    except ValueError:
        bits = CODE_BITS
    return Attribute(column.stream, column.name.replace("\0", ""), bits or 1)


def code_of(expr: Expr) -> Code:
    """Any expression in postfix order."""
    if isinstance(expr, Column):
        return (Token(attribute=attribute_of(expr)),)
    if isinstance(expr, Literal):
        return (Token(constant=constant_of(expr)),)
    assert isinstance(expr, Call)
    steps = [token for arg in expr.args for token in code_of(arg)]
    name = ":".join(
        [expr.op, *([str(expr.type)] if expr.op == "cast" else []), *([expr.option] if expr.option else [])]
    )
    return (*steps, Token(call=name, arity=len(expr.args)))


def constant_of(literal: Literal) -> Constant:
    """A constant as bits."""
    value, text = literal.value, str(literal)
    if value is None:
        return Constant("null", b"", text=text)
    if isinstance(value, bool):
        return Constant("bool", bytes([value]), text=text)
    if isinstance(value, Decimal):
        scale = (
            max(0, literal.type.scale)
            if pa.types.is_decimal(literal.type)
            else max(0, -int(value.as_tuple().exponent))
        )
        return Constant("decimal", _signed(int(value.scaleb(scale))), scale, text)
    if isinstance(value, float):
        return Constant("float", struct.pack("<d", value), text=text)
    if isinstance(value, int):
        return Constant("int", _signed(value), text=text)
    if isinstance(value, str):
        return Constant("text", value.encode(), text=text)
    if isinstance(value, bytes):
        return Constant("binary", value, text=text)
    if isinstance(value, datetime | timedelta):
        kind = "timestamp" if isinstance(value, datetime) else "duration"
        return Constant(kind, _signed(literal.scalar.value), _SCALES[literal.type.unit], text)
    assert isinstance(value, date)
    return Constant("date", _signed(literal.scalar.value), text=text)


def _signed(value: int) -> bytes:
    size = 8
    while not -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
        size += 8
    return value.to_bytes(size, "little", signed=True)
