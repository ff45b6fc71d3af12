"""Comparisons between two streams as intervals: what an index can answer.

An atom (see `intervals`) is found only where its intervals mean exactly what the text computes, rounding and
saturation included (`Interval.form`), or, with ``slack``, a little more; everything else stays an expression.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.codes import Domain, Interval, common_domain
from watersmeet.codes.text import is_bytes
from watersmeet.sql import types
from watersmeet.sql.intervals import Atom, intersected, united
from watersmeet.sql.tree import Call, Column, Expr, Literal, streams_of

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EXACT_DOUBLE = 2**52  # integers up to here, and sums of two of them, are doubles
_LARGEST = 2**63 - 1
_MANY_DAYS = 10**8
SLACK = 8  # codes; more than an integer's rounding to double can move a bound


def atom_of(expr: Expr, left: str, right: str) -> Atom | None:
    """The atom that means the same as the expression, if there is one.

    An equality on its own compares whole expressions, so that they can be hashed; inside AND and OR it is a
    band like others, so that it can be combined with them. Texts that differ have other codes, whatever their order.
    """
    if (
        isinstance(expr, Call)
        and expr.op in ("=", "<>")
        and all(len(streams_of(arg)) == 1 for arg in expr.args)
    ):
        sides = _ordered(expr.args, left)
        if expr.op == "=" or all(is_bytes(side.type) for side in sides):
            return _plain(expr.op, *sides, ordered=False)
    return _atom(expr, left, right)


def _ordered(args: tuple[Expr, ...], left: str) -> tuple[Expr, ...]:
    return args if streams_of(args[0]) == {left} else args[::-1]


def _atom(expr: Expr, left: str, right: str) -> Atom | None:
    if not isinstance(expr, Call):
        return None
    if expr.op in ("and", "or"):
        both = intersected if expr.op == "and" else united
        found = _atom(expr.args[0], left, right)
        for arg in expr.args[1:]:
            other = None if found is None else _atom(arg, left, right)
            if found is None or other is None or found.key != other.key:
                return None
            found = both(found, other)
        return found
    sides = [streams_of(arg) for arg in expr.args]
    apart = sides in ([{left}, {right}], [{right}, {left}])
    if expr.op == "<=>" and apart:
        return _null_safe(*_ordered(expr.args, left))
    if expr.op not in _FLIPPED:
        return None
    if apart:
        return _sides(expr.op if sides[0] == {left} else _FLIPPED[expr.op], *_ordered(expr.args, left))
    if isinstance(expr.args[1], Literal):
        return _difference(expr.op, expr.args[0], expr.args[1], left)
    if isinstance(expr.args[0], Literal):
        return _difference(_FLIPPED[expr.op], expr.args[1], expr.args[0], left)
    return None


# left op right, each of one stream


def _null_safe(left: Expr, right: Expr) -> Atom | None:
    domain = common_domain(left.type, right.type, ordered=False)
    return None if domain is None else Atom(left, right, domain, (Interval(0, 0),), null_safe=True)


def _sides(op: str, left: Expr, right: Expr) -> Atom | None:
    for computed, other, form, sign in ((right, left, "add_right", 1), (left, right, "add_left", -1)):
        peeled = _peeled(computed, other.type)
        if peeled is not None:
            base, offset, slack = peeled
            bases = (left, base) if form == "add_right" else (base, right)
            domain = _offset_domain(computed, base, other)
            if domain is not None:
                return Atom(*bases, domain, _intervals(op, _signed(offset, sign), form), slack=slack)
    return _plain(op, left, right, ordered=True)


def _plain(op: str, left: Expr, right: Expr, *, ordered: bool) -> Atom | None:
    domain = common_domain(left.type, right.type, ordered=ordered)
    return None if domain is None else Atom(left, right, domain, _intervals(op, 0, "add_right"))


def _signed(offset: Any, sign: int) -> Any:
    return offset if sign > 0 else -offset


def _intervals(op: str, offset: Any, form: Any) -> tuple[Interval, ...]:
    if op == "=":
        return (Interval(offset, offset, form=form),)
    if op == "<>":
        return (
            Interval(None, offset, high_open=True, form=form),
            Interval(offset, None, low_open=True, form=form),
        )
    if op in ("<", "<="):
        return (Interval(None, offset, high_open=op == "<", form=form),)
    return (Interval(offset, None, low_open=op == ">", form=form),)


def _peeled(expr: Expr, other: pa.DataType) -> tuple[Expr, Any, int] | None:
    """(base, offset, slack) if the expression is base + offset, also when compared with the other type."""
    split = _split(expr)
    if split is None:
        return None
    base, constant = split
    both = types.common(expr.type, other)
    if pt.is_integer(expr.type) and both is not None and pt.is_integer(both) and abs(constant) < _LARGEST:
        return (*_whole_offset(base, int(constant)), 0)
    if pt.is_integer(expr.type) and both == types.DOUBLE and abs(constant) < _EXACT_DOUBLE:
        return base, float(constant), 0 if _narrow(base.type) else SLACK
    if pt.is_decimal(expr.type) and both is not None and pt.is_decimal(both):
        return _decimal_offset(base, constant)
    if pt.is_floating(expr.type) and both == expr.type:
        offset = float(_single(constant)) if pt.is_float32(expr.type) else float(constant)
        return (base, offset, 0) if np.isfinite(offset) else None
    if pt.is_date(expr.type) and abs(constant) < _MANY_DAYS:
        return base, timedelta(days=int(constant)), 0
    if (pt.is_timestamp(expr.type) or pt.is_duration(expr.type)) and isinstance(constant, timedelta):
        return base, constant, 0
    return None


def _split(expr: Expr) -> tuple[Expr, Any] | None:
    """x + c, c + x and x - c as (x, c); the base keeps the kind (number, moment) of the whole."""
    if not isinstance(expr, Call) or expr.op not in ("+", "-"):
        return None
    first, second = expr.args
    if expr.op == "+" and isinstance(first, Literal):
        first, second = second, first
    if not isinstance(second, Literal) or second.value is None or isinstance(first, Literal):
        return None
    if types.rounds(expr.type, expr.op, first.type, second.type):
        return None
    moved = pt.is_temporal(first.type) == pt.is_temporal(expr.type) and not (
        pt.is_timestamp(expr.type) and not pt.is_timestamp(first.type)
    )
    if not moved or (pt.is_duration(first.type) != pt.is_duration(expr.type)):
        return None
    return first, second.value if expr.op == "+" else -second.value


def _whole_offset(base: Expr, offset: int) -> tuple[Expr, int]:
    """Constants of one sign add up: saturating twice is saturating once."""
    while True:
        split = _split(base) if pt.is_integer(base.type) else None
        if split is None or (split[1] >= 0) != (offset >= 0) or abs(offset + split[1]) >= _LARGEST:
            return base, offset
        base, offset = split[0], offset + split[1]


def _decimal_offset(base: Expr, constant: Any) -> tuple[Expr, Any, int] | None:
    """A decimal sum is exact; beside int64 a whole offset would be taken for int64's saturating sum."""
    if not pt.is_decimal(base.type) and not pt.is_integer(base.type):
        return None
    exact = Fraction(constant)
    whole = exact.denominator == 1
    if whole and pt.is_integer(base.type) and not (_narrow(base.type) or pt.is_uint64(base.type)):
        return None
    return base, int(exact) if whole else exact, 0


def _narrow(type_: pa.DataType) -> bool:
    """Integers whose sums stay far from the ends of int64, and inside the exact integers of a double."""
    return bool(pt.is_integer(type_)) and type_.bit_width < 64


def _offset_domain(computed: Expr, base: Expr, other: Expr) -> Domain | None:
    """Numbers that calculate exactly compare as their base types, anything else as the sum's own type."""
    both = types.common(computed.type, other.type)
    exact = both is not None and (pt.is_integer(both) or pt.is_decimal(both))
    return common_domain(base.type if exact else computed.type, other.type, ordered=True)


# left - right op constant, ABS(left - right) op constant, left + right op constant


def _difference(op: str, expr: Expr, constant: Literal, left: str) -> Atom | None:
    absolute = isinstance(expr, Call) and expr.op == "abs"
    inner = expr.args[0] if isinstance(expr, Call) and absolute else expr
    if not isinstance(inner, Call) or inner.op not in ("-", "datediff", "+"):
        return None
    if types.rounds(inner.type, inner.op, inner.args[0].type, inner.args[1].type):
        return None
    first, second = _ordered(inner.args, left)
    bound = _difference_offset(inner, constant)
    if bound is None or {len(streams_of(first)), len(streams_of(second))} != {1}:
        return None
    slack, nan = 0, op in (">", ">=", "<>")
    if inner.op == "+":
        if not types.is_numeric(inner.type):
            return None
        second, slack = _negated(second)
    elif first is not inner.args[0] and not absolute:
        op, bound = _FLIPPED[op], (-bound[1], -bound[0])
    domain = common_domain(first.type, second.type, ordered=True)
    intervals = _absolute_intervals(op, bound) if absolute else _rounded_intervals(op, bound)
    if domain is None or intervals is None or not _computes_in(inner.type, domain):
        return None
    return Atom(first, second, domain, intervals, slack=slack, nan=nan)


def _negated(expr: Expr) -> tuple[Expr, int]:
    """left + right is left - (-right); but the negation of the least int64 saturates, one code too small."""
    if pt.is_uint64(expr.type):
        return Call(pa.decimal128(20, 0), "negative", (expr,)), 0
    whole = pt.is_integer(expr.type)
    negative = Call(types.INT if whole else expr.type, "negative", (expr,))
    return negative, 1 if whole and not _narrow(expr.type) else 0


def _computes_in(type_: pa.DataType, domain: Domain) -> bool:
    """Whether the text rounds the difference as the domain would."""
    if not (pt.is_floating(type_) and domain.name.startswith("float")):
        return True
    return domain.name == _float_name(type_)


def _float_name(type_: pa.DataType) -> str:
    return "float32" if pt.is_float32(type_) else "float64"


def _difference_offset(inner: Call, constant: Literal) -> tuple[Any, Any] | None:
    """The constant as values of the difference's type: the nearest from below and from above."""
    value = constant.value
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return None
    if pt.is_date(inner.args[0].type) and inner.op == "datediff":
        return _datediff_offset(value)
    if isinstance(value, timedelta):
        return value, value
    if not types.is_numeric(constant.type):
        return None
    if pt.is_float32(inner.type) and not pt.is_integer(constant.type):
        return _nearest_float32(float(value))
    if pt.is_floating(inner.type):
        number = float(_single(value)) if pt.is_float32(inner.type) else float(value)
        return (number, number) if np.isfinite(number) else None
    if isinstance(value, float) and (abs(value) >= _EXACT_DOUBLE or pt.is_decimal(inner.type)):
        return None  # compared as doubles, to which a decimal is rounded: 0.10 equals the double 0.1, which is larger
    if abs(value) >= _LARGEST:  # where the difference saturates, and with it its absolute value
        return None
    exact = Fraction(value) if isinstance(value, float | Decimal) else value
    return exact, exact


def _datediff_offset(value: Any) -> tuple[Any, Any] | None:
    if not isinstance(value, int) or abs(value) >= _MANY_DAYS:
        return None
    days = timedelta(days=value)
    return days, days


def _single(value: Any) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(value)


def _nearest_float32(value: float) -> tuple[float, float] | None:
    near = _single(value)
    if not np.isfinite(near):
        return None
    below = near if float(near) <= value else np.nextafter(near, np.float32(-np.inf))
    above = near if float(near) >= value else np.nextafter(near, np.float32(np.inf))
    finite = np.isfinite(below) and np.isfinite(above)
    return (float(below), float(above)) if finite else None


def _rounded_intervals(op: str, bound: tuple[Any, Any]) -> tuple[Interval, ...] | None:
    """Intervals for a constant that may lie between two values of the type: then no comparison is strict."""
    below, above = bound
    if below == above:
        return _intervals(op, below, "difference")
    if op in ("=", "<>"):
        return None
    return (
        _intervals("<=", below, "difference") if op in ("<", "<=") else _intervals(">=", above, "difference")
    )


def _absolute_intervals(op: str, bound: tuple[Any, Any]) -> tuple[Interval, ...] | None:
    """ABS(difference) op c; for a negative c nothing or everything, which the residual can say."""
    zero = timedelta(0) if isinstance(bound[0], timedelta) else 0
    positive = _rounded_intervals(op, bound)
    if positive is None or bound[0] < zero:
        return None
    mirror = tuple(_mirrored(interval) for interval in positive)
    if op in ("<", "<="):
        return tuple(
            replace(one, low=two.low, low_open=two.low_open)
            for one, two in zip(positive, mirror, strict=True)
        )
    if op == "<>":
        inside = Interval(-bound[0], bound[0], low_open=True, high_open=True, form="difference")
        outside = (mirror[1], positive[1])
        return (outside[0], inside, outside[1]) if bound[0] != zero else outside
    return (*mirror, *positive) if not (op in ("=", ">=") and bound[0] == zero) else None


def _mirrored(interval: Interval) -> Interval:
    low = None if interval.high is None else -interval.high
    high = None if interval.low is None else -interval.low
    return replace(interval, low=low, high=high, low_open=interval.high_open, high_open=interval.low_open)


def plain_column(expr: Expr) -> str | None:
    """The column's name, if the expression is nothing but a column."""
    return expr.name if isinstance(expr, Column) else None
