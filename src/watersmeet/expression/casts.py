"""Conversions: `convert` between types that compare, `cast` as the user asks for (NULL where it fails).

Widening never raises and never wraps: a timestamp too far away for a finer unit saturates, an integer
becomes the nearest float.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.codes.column import validity
from watersmeet.codes.rounding import decimal_to_float32, decimal_to_float64
from watersmeet.expression import types
from watersmeet.expression.literal import parse_date, parse_timestamp
from watersmeet.expression.types import Value

_INT64 = np.iinfo(np.int64)
_INTEGER = re.compile(r"[+-]?\d+(\.\d*)?$")


def convert(value: Value, type_: pa.DataType) -> Value:
    """A value in a type that holds it, by the rules of `types.common`."""
    stored = value.type
    if stored == type_:
        return value
    if pt.is_null(stored):
        return pa.scalar(None, type_) if isinstance(value, pa.Scalar) else pa.nulls(len(value), type_)
    if pt.is_temporal(type_) and hasattr(type_, "unit"):
        return _convert_unit(value, type_)
    if pt.is_floating(type_):
        return _to_float(value, type_)
    if pt.is_decimal(type_) and pt.is_integer(stored):
        return pc.cast(pc.cast(value, types.as_decimal(stored)), type_)
    return pc.cast(value, type_)


def _to_float(value: Value, type_: pa.DataType) -> Value:
    """The nearest float of any number; Arrow's own cast of decimals is not (see `codes.rounding`)."""
    if not pt.is_decimal(value.type):
        return pc.cast(value, type_, safe=False)
    if isinstance(value, pa.Scalar):
        return _to_float(pa.repeat(value, 1), type_)[0] if value.is_valid else pa.scalar(None, type_)
    floats = decimal_to_float32(value) if pt.is_float32(type_) else decimal_to_float64(value)
    mask = validity(value)
    return pa.array(floats, type_, mask=None if mask is None else ~mask)


def ticks(value: Value) -> Value:
    """A date, timestamp, time or duration as the int64 (or int32) number that stores it."""
    small = pt.is_date32(value.type) or pt.is_time32(value.type)
    number = pc.cast(value, pa.int32()) if small else pc.cast(value, pa.int64())
    return pc.cast(number, pa.int64())


def _convert_unit(value: Value, type_: pa.DataType) -> Value:
    stored = value.type
    if pt.is_date32(stored):
        per_day = 86_400 * types.factor("s", type_.unit)
        return pc.cast(saturating(ticks(value), pa.scalar(per_day, pa.int64()), "multiply"), type_)
    if stored.unit != type_.unit:
        scale = pa.scalar(types.factor(stored.unit, type_.unit), pa.int64())
        return pc.cast(saturating(ticks(value), scale, "multiply"), type_)
    return pc.cast(value, type_)


def saturating(left: Value, right: Value, operation: str) -> Value:
    """int64 ``add``, ``subtract`` or ``multiply`` that stops at the ends of int64 instead of wrapping."""
    try:
        return getattr(pc, f"{operation}_checked")(left, right)
    except pa.ArrowInvalid:
        return _saturated(left, right, operation)


def _saturated(left: Value, right: Value, operation: str) -> Value:
    """The slow way round, with Python's integers; only for the rare column that overflows."""
    scalar = isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)
    length = 1 if scalar else len(left if isinstance(left, pa.Array) else right)
    parts = [pa.repeat(part, length) if isinstance(part, pa.Scalar) else part for part in (left, right)]
    valid = pc.and_(pc.is_valid(parts[0]), pc.is_valid(parts[1])).to_numpy(zero_copy_only=False)
    first, second = (part.fill_null(0).to_numpy(zero_copy_only=False).astype(object) for part in parts)
    exact = getattr(np, operation)(first, second)
    result = pa.array(np.clip(exact, _INT64.min, _INT64.max).astype(np.int64), mask=~valid)
    return result[0] if scalar else result


# casts that the user writes


def cast(value: Value, type_: pa.DataType) -> Value:
    """``CAST(value AS type)``: NULL where the value has no counterpart."""
    if isinstance(value, pa.Scalar):
        return cast(pa.repeat(value, 1), type_)[0] if value.is_valid else pa.scalar(None, type_)
    if pt.is_null(value.type) or value.null_count == len(value):
        return pa.nulls(len(value), type_)
    if value.type == types.TEXT:
        return _from_text(value, type_)
    if type_ == types.TEXT:
        return _to_text(value)
    if pt.is_integer(type_) and types.is_numeric(value.type):
        return _to_integer(value, type_)
    if pt.is_decimal(type_) and types.is_numeric(value.type):
        return _each(value, type_, lambda item: _decimal(str(item), type_))
    if pt.is_date(type_) and pt.is_timestamp(value.type):
        return pc.cast(pc.floor_temporal(value, unit="day"), type_, safe=False)
    if pt.is_timestamp(type_) and (pt.is_date(value.type) or pt.is_timestamp(value.type)):
        return _to_timestamp(value, type_)
    if pt.is_floating(type_) and types.is_numeric(value.type):
        return _to_float(value, type_)
    if pt.is_boolean(type_) and types.is_numeric(value.type):
        return pc.not_equal(value, types.zero(value.type))
    if pt.is_boolean(value.type) and types.is_numeric(type_):
        return cast(pc.cast(value, pa.int8()), type_)
    try:
        return pc.cast(value, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _each(value, type_, lambda item: pa.scalar(item, value.type).cast(type_).as_py())


def _to_timestamp(value: pa.Array, type_: pa.DataType) -> pa.Array:
    """Between dates, timestamps with a zone and without: wall clocks without a zone are taken as UTC."""
    if pt.is_date(value.type):
        return pc.cast(_convert_unit(value, pa.timestamp(type_.unit)), type_)
    scale = types.factor("s", type_.unit) / types.factor("s", value.type.unit)
    number = ticks(value)
    if scale >= 1:
        number = saturating(number, pa.scalar(int(scale), pa.int64()), "multiply")
    else:
        number = pa.array(
            number.fill_null(0).to_numpy() // int(1 / scale), mask=number.is_null().to_numpy(False)
        )
    return pc.cast(number, type_)


def _to_integer(value: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cut towards zero; NULL for what does not fit, and for NaN."""
    if pt.is_decimal(value.type):
        return _each(value, type_, int)
    if pt.is_floating(value.type):
        value = pc.trunc(pc.cast(value, pa.float64()))
    info = np.iinfo(type_.to_pandas_dtype())
    if pt.is_floating(value.type):  # float(info.max) may round up to the first value outside
        inside = pc.and_(pc.greater_equal(value, float(info.min)), pc.less(value, float(info.max + 1)))
    else:
        wide = pc.cast(value, pa.decimal128(20, 0))
        bounds = [pa.scalar(Decimal(int(end)), pa.decimal128(20, 0)) for end in (info.min, info.max)]
        inside = pc.and_(pc.greater_equal(wide, bounds[0]), pc.less_equal(wide, bounds[1]))
    return pc.cast(pc.if_else(inside, value, pa.scalar(None, value.type)), type_)


def _to_text(value: pa.Array) -> pa.Array:
    if pt.is_floating(value.type):
        return _each(value, types.TEXT, _float_text)
    if types.is_binary(value.type):
        return _each(value, types.TEXT, lambda item: item.decode())
    if pt.is_timestamp(value.type):
        return _each(
            pc.cast(value, pa.timestamp("us", value.type.tz), safe=False), types.TEXT, _timestamp_text
        )
    try:
        return pc.cast(value, types.TEXT)
    except pa.ArrowNotImplementedError:
        return _each(value, types.TEXT, str)


def _float_text(item: float) -> str:
    if item != item or abs(item) == float("inf"):
        return "NaN" if item != item else ("Infinity" if item > 0 else "-Infinity")
    return repr(item)


def _timestamp_text(item: Any) -> str:
    text = item.isoformat(sep=" ")
    head, point, fraction = text.partition(".")
    return head + (point + fraction.rstrip("0") if fraction.rstrip("0") and "+" not in fraction else "")


def _from_text(value: pa.Array, type_: pa.DataType) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(value)
    if pt.is_date(type_):
        return _each(trimmed, type_, parse_date)
    if pt.is_timestamp(type_):
        return _each(trimmed, type_, lambda text: _stamp(text, type_))
    if pt.is_boolean(type_):
        return _each(trimmed, type_, lambda text: _BOOLEANS.get(text.lower()))
    if pt.is_integer(type_):
        info = np.iinfo(type_.to_pandas_dtype())
        return _each(trimmed, type_, lambda text: _whole(text, int(info.min), int(info.max)))
    if pt.is_floating(type_):
        return pc.cast(
            _each(trimmed, pa.float64(), lambda text: float(text.replace("_", "?"))), type_, safe=False
        )
    if pt.is_decimal(type_):
        return _each(trimmed, type_, lambda text: _decimal(text, type_))
    return pc.cast(value, type_)


_BOOLEANS = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(
    ("f", "false", "n", "no", "0"), False
)


def _stamp(text: str, type_: pa.DataType) -> Any:
    moment = parse_timestamp(text)
    if moment is None or (moment.tzinfo is None) == (type_.tz is None):
        return moment
    return (
        moment.replace(tzinfo=None)
        if type_.tz is None
        else pa.scalar(moment, pa.timestamp("us", "UTC")).as_py()
    )


def _whole(text: str, low: int, high: int) -> int | None:
    number = int(text.partition(".")[0] or "0") if _INTEGER.match(text) else None
    return number if number is not None and low <= number <= high else None


def _decimal(text: str, type_: pa.DataType) -> Decimal | None:
    """Rounded to the type's scale, halves away from zero; None if it has too many digits then."""
    with localcontext() as context:
        context.prec, context.rounding = 400, ROUND_HALF_UP
        rounded = Decimal(text.replace("_", "?")).quantize(Decimal(1).scaleb(-type_.scale))
    return rounded if len(rounded.as_tuple().digits) <= type_.precision else None


def _each(value: pa.Array, type_: pa.DataType, function: Callable[[Any], Any]) -> pa.Array:
    """Value by value, for what Arrow has no kernel for; NULL where the function or Arrow cannot."""
    results: list[Any] = []
    for item in value.to_pylist():
        try:
            result = None if item is None else function(item)
            results.append(None if result is None else pa.scalar(result, type_).as_py())
        except (ValueError, TypeError, OverflowError, InvalidOperation, pa.ArrowException):
            results.append(None)
    return pa.array(results, type_)
