"""Arithmetic as SQL has it: int64 saturates, decimals have Spark's digits, a division by zero is NULL.

An operand that is NULL without a type does not come here: binding makes a typed NULL of the whole operation.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.sql import types
from watersmeet.sql.casts import cast, convert, fitted, saturating, ticks
from watersmeet.sql.types import Value

_MIN = -(2**63)


def add(left: Value, right: Value, type_: pa.DataType) -> Value:
    """left + right, in ``type_``."""
    return _sum(left, right, type_, "add")


def subtract(left: Value, right: Value, type_: pa.DataType) -> Value:
    """left - right, in ``type_``."""
    return _sum(left, right, type_, "subtract")


def _sum(left: Value, right: Value, type_: pa.DataType, operation: str) -> Value:
    if pt.is_date(type_):
        return _moved_days(left, right, operation)
    if pt.is_temporal(type_):
        if pt.is_date(left.type) and pt.is_date(right.type):
            days = saturating(ticks(left), ticks(right), operation)
            return pc.cast(saturating(days, pa.scalar(86_400, pa.int64()), "multiply"), type_)
        first, second = (ticks(convert(side, _in_unit(side.type, type_.unit))) for side in (left, right))
        return pc.cast(saturating(first, second, operation), type_)
    return _numbers(left, right, type_, operation)


def _in_unit(type_: pa.DataType, unit: str) -> pa.DataType:
    if pt.is_duration(type_):
        return pa.duration(unit)
    return pa.timestamp(unit, type_.tz if pt.is_timestamp(type_) else None)


def _moved_days(left: Value, right: Value, operation: str) -> Value:
    days = saturating(_days(left), _days(right), operation)
    low, high = (pa.scalar(end, pa.int64()) for end in (-(2**31), 2**31 - 1))
    days = pc.min_element_wise(pc.max_element_wise(days, low, skip_nulls=False), high, skip_nulls=False)
    return pc.cast(pc.cast(days, pa.int32()), pa.date32())


def _days(side: Value) -> Value:
    if pt.is_date(side.type):
        return ticks(side)
    return integers(side)


def integers(value: Value) -> Value:
    """Any integer as int64; uint64 stops at the largest int64."""
    if not pt.is_uint64(value.type):
        return convert(value, pa.int64())
    top = pa.scalar(2**63 - 1, pa.uint64())
    return pc.cast(pc.min_element_wise(value, top, skip_nulls=False), pa.int64())


def multiply(left: Value, right: Value, type_: pa.DataType) -> Value:
    """left * right, in ``type_``; one of them may be a duration."""
    if pt.is_duration(type_):
        first, second = (
            ticks(side) if pt.is_duration(side.type) else integers(side) for side in (left, right)
        )
        return pc.cast(saturating(first, second, "multiply"), type_)
    return _numbers(left, right, type_, "multiply")


def _numbers(left: Value, right: Value, type_: pa.DataType, operation: str) -> Value:
    if pt.is_integer(type_):
        return saturating(convert(left, type_), convert(right, type_), operation)
    if pt.is_decimal(type_):
        if not _exact(left.type, right.type, type_, operation):
            short = _short_product(left, right, type_) if operation == "multiply" else None
            return _by_value(left, right, type_, _OPERATIONS[operation]) if short is None else short
        first, second = (_wide(side, type_) for side in (left, right))
        return pc.cast(getattr(pc, operation)(first, second), type_)
    return getattr(pc, operation)(convert(left, type_), convert(right, type_))


def _exact(left: pa.DataType, right: pa.DataType, type_: pa.DataType, operation: str) -> bool:
    """Whether the type holds all digits of the result."""
    return not types.rounds(type_, "*" if operation == "multiply" else "+", left, right)


def _short_product(left: Value, right: Value, type_: pa.DataType) -> Value | None:
    """The product, if the values have so few digits, whatever their types allow, that all of its digits fit; else None."""
    first, second = (convert(side, types.as_decimal(side.type)) for side in (left, right))
    if any(pt.is_decimal256(each) for each in (first.type, second.type, type_)):
        return None
    digits = _most_digits(first), _most_digits(second)
    if type_.scale != first.type.scale + second.type.scale or sum(digits) + 1 > type_.precision:
        return None
    narrow = [
        pc.cast(side, pa.decimal128(most, side.type.scale))
        for side, most in zip((first, second), digits, strict=True)
    ]
    return pc.cast(pc.multiply(*narrow), type_)


def _most_digits(value: Value) -> int:
    """How many digits the longest of the decimals has, and at least those behind the point."""
    ends = pc.min_max(value).as_py().values()
    return max(value.type.scale, 1, *(len(end.as_tuple().digits) for end in ends if end is not None))


def _wide(side: Value, type_: pa.DataType) -> Value:
    """A decimal of the size class (128 or 256 bits) in which the result is computed."""
    narrow = types.as_decimal(side.type)
    if pt.is_decimal256(type_):
        narrow = pa.decimal256(narrow.precision, narrow.scale)
    return convert(side, narrow)


def divide(left: Value, right: Value, type_: pa.DataType) -> Value:
    """left / right in double or as a decimal; NULL for a zero divisor."""
    if pt.is_decimal(type_):
        return _by_value(left, right, type_, _nonzero(lambda a, b: _DIVISION.divide(a, b)))
    first, second = (convert(side, types.DOUBLE) for side in (left, right))
    return pc.divide(first, _not_zero(second))


def _not_zero(value: Value) -> Value:
    return pc.if_else(pc.equal(value, types.zero(value.type)), pa.scalar(None, value.type), value)


def whole_divide(left: Value, right: Value) -> Value:
    """left DIV right: the quotient cut towards zero, as int64; NULL for a zero divisor."""
    if (
        not (pt.is_integer(left.type) and pt.is_integer(right.type))
        or pt.is_uint64(left.type)
        or pt.is_uint64(right.type)
    ):
        if pt.is_floating(left.type) or pt.is_floating(right.type):
            return cast(divide(left, right, types.DOUBLE), pa.int64())
        digits = _quotient_digits(left.type, right.type)
        return cast(_by_value(left, right, pa.decimal256(digits, 0), _nonzero(_quotient)), pa.int64())
    first, second = convert(left, pa.int64()), _not_zero(convert(right, pa.int64()))
    lowest = pc.and_(pc.equal(first, pa.scalar(_MIN)), pc.equal(second, pa.scalar(-1)))
    safe = pc.if_else(
        pc.coalesce(lowest, pa.scalar(False)), pa.scalar(-(2**63) + 1), first
    )  # MIN / -1 saturates to MAX
    return pc.divide(safe, second)


def remainder(left: Value, right: Value, type_: pa.DataType) -> Value:
    """left % right with the sign of left; NULL for a zero divisor."""
    if pt.is_decimal(type_):
        return _by_value(left, right, type_, _nonzero(lambda a, b: a - _quotient(a, b) * b))
    first, second = convert(left, type_), _not_zero(convert(right, type_))
    length = next((len(side) for side in (first, second) if isinstance(side, pa.Array)), 1)
    columns = [pa.repeat(side, length) if isinstance(side, pa.Scalar) else side for side in (first, second)]
    valid = pc.and_(columns[0].is_valid(), columns[1].is_valid()).to_numpy(zero_copy_only=False)
    a, b = (column.fill_null(pa.scalar(1, type_)).to_numpy(zero_copy_only=False) for column in columns)
    with np.errstate(invalid="ignore"):
        result = pa.array(np.fmod(a, b), type_, mask=~valid)
    return result if isinstance(left, pa.Array) or isinstance(right, pa.Array) else result[0]


def _quotient(a: Decimal, b: Decimal) -> Decimal:
    return (a / b).to_integral_value(ROUND_DOWN)


def _quotient_digits(left: pa.DataType, right: pa.DataType) -> int:
    """How many digits a whole quotient may have; a longer one is NULL, as in Spark."""
    first, second = types.as_decimal(left), types.as_decimal(right)
    spark = first.precision <= _PRODUCT.prec and second.precision <= _PRODUCT.prec
    return max(min(first.precision - first.scale + second.scale, _PRODUCT.prec if spark else types.WIDEST), 1)


def _nonzero(function: Callable[[Decimal, Decimal], Decimal]) -> Callable[[Decimal, Decimal], Decimal | None]:
    return lambda a, b: function(a, b) if b else None


# Spark rounds a product to 38 digits before it is rounded to its scale, and a quotient to 77.
_PRODUCT, _DIVISION = Context(38, ROUND_HALF_UP), Context(77, ROUND_HALF_UP)
_OPERATIONS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": _PRODUCT.multiply,
}


def _by_value(
    left: Value, right: Value, type_: pa.DataType, function: Callable[[Decimal, Decimal], Decimal | None]
) -> Value:
    """Decimals one by one, for what Arrow has no kernel for; rounded to the type, NULL where it has too few digits."""
    length = next((len(side) for side in (left, right) if isinstance(side, pa.Array)), 1)
    columns = [pa.repeat(side, length) if isinstance(side, pa.Scalar) else side for side in (left, right)]
    with localcontext() as context:
        context.prec = 200
        pairs = zip(*(column.to_pylist() for column in columns), strict=True)
        results = [
            None if a is None or b is None else fitted(function(Decimal(a), Decimal(b)), type_)
            for a, b in pairs
        ]
    result = pa.array(results, type_)
    return result if isinstance(left, pa.Array) or isinstance(right, pa.Array) else result[0]


def negative(value: Value, type_: pa.DataType) -> Value:
    """-value; the least int64 becomes the largest."""
    if pt.is_floating(type_) or pt.is_decimal(type_):
        return pc.negate(_wide(value, type_) if pt.is_decimal(type_) else value)
    number = ticks(value) if pt.is_duration(type_) else convert(value, pa.int64())
    return pc.cast(saturating(pa.scalar(0, pa.int64()), number, "subtract"), type_)


def absolute(value: Value, type_: pa.DataType) -> Value:
    """ABS(value); of the least int64 it is the largest."""
    if not (pt.is_duration(type_) or type_ == pa.int64()):
        return pc.abs(value) if not pt.is_uint64(type_) else value
    number = ticks(value) if pt.is_duration(type_) else convert(value, pa.int64())
    return pc.cast(pc.max_element_wise(number, negative(number, pa.int64()), skip_nulls=False), type_)


def square_root(value: Value) -> Value:
    """NaN for a negative number."""
    return pc.sqrt(convert(value, types.DOUBLE))


def power(base: Value, exponent: Value) -> Value:
    """base to the power of exponent, in double; as in Java, and not as in C, 1 to the power of NaN or infinity is NaN.

    A square is base * base, as in Java.
    """
    first, second = (convert(side, types.DOUBLE) for side in (base, exponent))
    if isinstance(second, pa.Scalar) and second.as_py() == 2.0:
        return pc.multiply(first, first)
    endless = pc.and_(pc.equal(pc.abs(first), 1.0), pc.invert(pc.is_finite(second)))
    return pc.if_else(endless, pa.scalar(float("nan")), pc.power(first, second))


def rounded(value: Value, type_: pa.DataType, function: Callable[[Value], Value]) -> Value:
    """FLOOR and CEIL: BIGINT, or a decimal without a scale of a decimal."""
    if pt.is_integer(value.type) or value.type == type_:
        return convert(value, type_)
    if pt.is_decimal(type_) and value.type.precision == types.WIDEST:
        mode = ROUND_FLOOR if function is pc.floor else ROUND_CEILING
        return _by_value(value, value, type_, lambda a, _: a.to_integral_value(mode))
    if pt.is_decimal(type_):  # one digit more, for what is rounded away from zero
        wide = pa.decimal256(value.type.precision + 1, value.type.scale)
        return pc.cast(function(pc.cast(value, wide)), type_)
    return cast(function(value), type_)
