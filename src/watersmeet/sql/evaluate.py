"""Typed tree to Arrow values: SQL's meaning on columns, with NULL, NaN and overflow as Spark SQL has them.

Never raises for a value: what has no result is NULL (a division by zero, a cast that fails), what is too
large for int64 saturates. A constant stays an Arrow scalar until something needs a column. AND and OR are
Kleene's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.sql import arithmetic, casts, moments, texts, types
from watersmeet.sql.tree import Call, Column, Expr, Literal
from watersmeet.sql.types import Value
from watersmeet.sql.whole import Wholes, is_whole

Columns = Mapping[tuple[str, str], pa.Array]
Function = Callable[[Call, list[Value]], Value]


def evaluate(expr: Expr, columns: Columns, length: int) -> pa.Array:
    """The value for each of ``length`` rows; ``columns`` maps (stream, column) to aligned arrays.

    >>> evaluate(Literal(pa.int64(), 7), {}, 2).to_pylist()
    [7, 7]
    """
    return Evaluation(columns, length).of(expr)


class Evaluation:
    """Expressions over the same rows, which share what they can."""

    def __init__(self, columns: Columns, length: int) -> None:
        self._columns, self._length = columns, length
        self._wholes = Wholes()

    def of(self, expr: Expr) -> pa.Array:
        """The value for each row."""
        value = self._value(expr)
        if isinstance(value, pa.Scalar):
            return pa.repeat(value, self._length) if value.is_valid else pa.nulls(self._length, expr.type)
        return value

    def _value(self, expr: Expr) -> Value:
        if isinstance(expr, Call):
            found = self._wholes.array(expr, self._value) if is_whole(expr) else None
            return _FUNCTIONS[expr.op](expr, list(map(self._value, expr.args))) if found is None else found
        if isinstance(expr, Column):
            return plain(self._columns[expr.stream, expr.name], expr.type)
        assert isinstance(expr, Literal)
        return expr.scalar


def plain(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """A stored column as one array of its type in expressions (see `types.logical`)."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.type == type_:
        return column
    if isinstance(column, pa.ExtensionArray):
        return plain(column.storage, type_)
    if pt.is_dictionary(column.type):
        return plain(column.dictionary_decode(), type_)
    if pt.is_run_end_encoded(column.type):
        return plain(pc.run_end_decode(column), type_)
    if pt.is_binary_view(column.type) or pt.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    if pt.is_decimal(column.type) and pt.is_floating(type_):  # of more digits than there are
        return casts.convert(column, type_)
    return column.cast(type_)


# comparison


def compare(op: str, left: Value, right: Value) -> Value:
    """A comparison in the common type; NaN equals NaN and is larger than everything else; -0.0 equals 0.0."""
    both = left.type if left.type == right.type else types.common(left.type, right.type)
    if both is None or pt.is_null(both):
        return _null_like(left, right, types.BOOL)
    left, right = casts.convert(left, both), casts.convert(right, both)
    if op in (">", ">="):
        op, left, right = ("<" if op == ">" else "<="), right, left
    found = _COMPARE[op](left, right)
    if not pt.is_floating(both):
        return found
    return _with_nan(op, found, _nan(left), _nan(right))


def _with_nan(op: str, found: Value, left: Value | None, right: Value | None) -> Value:
    """Corrects IEEE's comparison, to which NaN is unordered; ``left`` and ``right`` say where NaN is."""
    if right is None:  # NaN on the left alone is neither less nor equal, as IEEE has it
        return found
    if op == "<=":
        return pc.or_(found, right)
    if left is None:
        return pc.or_(found, right) if op == "<" else found
    if op == "<":
        return pc.or_(found, pc.and_not(right, left))
    both = pc.and_(left, right)
    return pc.or_(found, both) if op == "=" else pc.and_not(found, both)


def _nan(value: Value) -> Value | None:
    """Where a value is NaN; None for a constant that is not."""
    if isinstance(value, pa.Scalar) and value.is_valid and value.as_py() == value.as_py():
        return None
    return pc.is_nan(value)


_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
}


def _null_like(left: Value, right: Value, type_: pa.DataType) -> Value:
    for value in (left, right):
        if isinstance(value, pa.Array):
            return pa.nulls(len(value), type_)
    return pa.scalar(None, type_)


def _comparison(call: Call, args: list[Value]) -> Value:
    return compare(call.op, *args)


def _same(call: Call, args: list[Value]) -> Value:
    """``<=>``: two NULLs are the same; never NULL itself."""
    left, right = args
    equal = pc.coalesce(compare("=", left, right), pa.scalar(False))
    return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))


def _in(call: Call, args: list[Value]) -> Value:
    subject, *items = args
    both = call.args[0].type
    for item in items:
        both = types.common(both, item.type)
    if pt.is_null(both):
        return _null_like(subject, items[0], types.BOOL)
    subject = casts.convert(subject, both)
    values = [casts.convert(item, both) for item in items if item.is_valid]
    if pt.is_floating(both):
        subject, values = _same_bits(subject), [_same_bits(value) for value in values]
    found = pc.is_in(subject, value_set=pa.array([value.as_py() for value in values], both))
    known = pc.is_valid(subject)
    if len(values) < len(items):  # a NULL in the list: what is not found is unknown
        known = pc.and_(known, found)
    return pc.if_else(known, found, pa.scalar(None, types.BOOL))


def _same_bits(floats: Value) -> Value:
    """Equal floats with equal bits, which is_in compares: -0.0 becomes 0.0, and every NaN the same one."""
    plain = pc.add(floats, pa.scalar(0.0, floats.type))
    return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan"), floats.type), plain)


# choice


def _coalesce(call: Call, args: list[Value]) -> Value:
    return pc.coalesce(*(casts.convert(arg, call.type) for arg in args))


def _case(call: Call, args: list[Value]) -> Value:
    values = [casts.convert(arg, call.type) for arg in (*args[1:-1:2], args[-1])]
    result = values[-1]
    for test, value in zip(reversed(args[:-1:2]), reversed(values[:-1]), strict=True):
        result = pc.if_else(pc.coalesce(test, pa.scalar(False)), value, result)
    return result


def _extreme(call: Call, args: list[Value]) -> Value:
    """LEAST and GREATEST: NULLs are passed over, NaN is the largest."""
    order = "<=" if call.op == "least" else ">="
    best = casts.convert(args[0], call.type)
    for arg in args[1:]:
        other = casts.convert(arg, call.type)
        keep = pc.or_(pc.coalesce(compare(order, best, other), pa.scalar(False)), pc.is_null(other))
        best = pc.if_else(keep, best, other)
    return best


def _function(function: Callable[..., Value]) -> Function:
    return lambda call, args: function(*args)


_FUNCTIONS: dict[str, Function] = {
    "and": lambda call, args: reduce(pc.and_kleene, args),
    "or": lambda call, args: reduce(pc.or_kleene, args),
    "not": _function(pc.invert),
    "is_null": _function(pc.is_null),
    "<=>": _same,
    "in": _in,
    "coalesce": _coalesce,
    "case": _case,
    "least": _extreme,
    "greatest": _extreme,
    "cast": lambda call, args: casts.cast(args[0], call.type),
    "+": lambda call, args: arithmetic.add(args[0], args[1], call.type),
    "-": lambda call, args: arithmetic.subtract(args[0], args[1], call.type),
    "*": lambda call, args: arithmetic.multiply(args[0], args[1], call.type),
    "/": lambda call, args: arithmetic.divide(args[0], args[1], call.type),
    "div": lambda call, args: arithmetic.whole_divide(args[0], args[1]),
    "%": lambda call, args: arithmetic.remainder(args[0], args[1], call.type),
    "negative": lambda call, args: arithmetic.negative(args[0], call.type),
    "abs": lambda call, args: arithmetic.absolute(args[0], call.type),
    "sqrt": _function(arithmetic.square_root),
    "power": _function(arithmetic.power),
    "floor": lambda call, args: arithmetic.rounded(args[0], call.type, pc.floor),
    "ceil": lambda call, args: arithmetic.rounded(args[0], call.type, pc.ceil),
    "upper": _function(texts.upper),
    "lower": _function(texts.lower),
    "length": lambda call, args: pc.cast(pc.utf8_length(args[0]), call.type),
    "concat": _function(texts.concat),
    "substring": _function(texts.substring),
    "like": lambda call, args: texts.like(args[0], args[1], call.option or "\\", ignore_case=False),
    "ilike": lambda call, args: texts.like(args[0], args[1], call.option or "\\", ignore_case=True),
    "datediff": _function(moments.days_between),
    "add_months": lambda call, args: moments.add_months(args[0], args[1], call.type),
    "year": lambda call, args: moments.date_part(args[0], "Y"),
    "month": lambda call, args: moments.date_part(args[0], "M"),
    "day": lambda call, args: moments.date_part(args[0], "D"),
}
_FUNCTIONS |= dict.fromkeys((*_COMPARE, ">", ">="), _comparison)
