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

import pyarrow as pa

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
from watersmeet.query.instruction import Filter, Instruction, Join, Project, Scan, Union
from watersmeet.sql.tree import Call, Column, Expr, Literal, streams_of, substituted

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}
_SCALES = {"s": 0, "ms": 3, "us": 6, "ns": 9}
CODE_BITS = 64  # of what has no fixed width: a text's code
Holds = Mapping[str, int]


def need_of(query: str, plan: Instruction, starts: Mapping[Join, int], holds: Holds) -> Need:
    """What a query needs. ``holds``: rows that windows without a number of their own have at most, by stream."""
    return Need(query, tuple(_Reading(starts, holds).flows(plan)))


class _Reading:
    def __init__(self, starts: Mapping[Join, int], holds: Holds) -> None:
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
