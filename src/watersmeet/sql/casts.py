"""Conversions: `convert` between types that compare, `cast` as the user asks for (NULL where it fails).

Widening never raises and never wraps: a timestamp too far away for a finer unit saturates, an integer
becomes the nearest float.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.codes.column import validity
from watersmeet.codes.rounding import decimal_to_float32, decimal_to_float64, nearest_float32
from watersmeet.sql import types
from watersmeet.sql.literal import parse_days, parse_timestamp
from watersmeet.sql.types import Value

_INT64 = np.iinfo(np.int64)
_INTEGER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*)")  # also "." alone, which Spark takes for 0
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[dDfF]?")
_SPECIAL = {f"{sign}{word}": float(f"{sign}inf") for sign in ("", "+", "-") for word in ("inf", "infinity")}
_SPECIAL["nan"] = float("nan")
_SIGNED_NAN = ("+NaN", "-NaN")  # Java's own reader takes a sign, and just these letters
_BLANKS = "".join(map(chr, range(33))) + "\x7f"


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
    if pt.is_decimal(type_):
        return _to_decimal(value, type_)
    return pc.cast(value, type_)


def _to_decimal(value: Value, type_: pa.DataType) -> Value:
    """Rounded to the type's scale, halves away from zero; NULL if it has too many digits then."""
    if isinstance(value, pa.Scalar):
        return _to_decimal(pa.repeat(value, 1), type_)[0] if value.is_valid else pa.scalar(None, type_)
    if not pt.is_floating(value.type):
        exact = types.as_decimal(value.type)
        if exact.scale <= type_.scale and exact.precision - exact.scale <= type_.precision - type_.scale:
            return pc.cast(pc.cast(value, exact), type_)
    return _each(value, type_, lambda item: _decimal(str(item), type_))


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
        return _to_decimal(value, type_)
    if pt.is_date(type_) and pt.is_timestamp(value.type):
        per_day = 86_400 * types.factor("s", value.type.unit)
        return pc.cast(_by_number(value, lambda count: (count // per_day).astype(np.int32)), type_)
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


def _by_number(value: pa.Array, function: Callable[[np.ndarray], np.ndarray]) -> pa.Array:
    """A function of the numbers that store moments, or of floats, on all of them at once."""
    numbers = ticks(value) if pt.is_temporal(value.type) else value
    valid = value.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(function(numbers.fill_null(0).to_numpy(zero_copy_only=False)), mask=~valid)


def _to_integer(value: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cut towards zero, as Java does it: NaN is 0; a float beyond INT or BIGINT becomes the end of it; other
    numbers, and what is then still too large for a smaller type, keep their lowest bits.
    """
    if pt.is_unsigned_integer(type_):
        return _if_it_fits(value, type_)
    if pt.is_floating(value.type):
        ends = np.iinfo(np.int64 if type_ == pa.int64() else np.int32)
        return pc.cast(_by_number(value, lambda numbers: _clipped(numbers, ends)), type_, safe=False)
    if pt.is_decimal(value.type):
        value = _each(value, pa.int64(), lambda item: _lowest_bits(int(item)))
    return pc.cast(value, type_, safe=False)


def _clipped(numbers: np.ndarray, ends: np.iinfo[Any]) -> np.ndarray:
    double = np.trunc(np.nan_to_num(numbers.astype(np.float64), posinf=np.inf, neginf=-np.inf))
    low, high = double <= float(ends.min), double >= float(ends.max)
    whole = np.where(low | high, 0, double).astype(np.int64)
    clipped: np.ndarray = np.where(low, ends.min, np.where(high, ends.max, whole))
    return clipped


def _lowest_bits(number: int) -> int:
    """What is left of a whole number in 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


def _if_it_fits(value: pa.Array, type_: pa.DataType) -> pa.Array:
    """To unsigned types, which Spark has not: NULL for what does not fit."""
    ends = np.iinfo(type_.to_pandas_dtype())
    return _each(value, type_, lambda item: whole if ends.min <= (whole := int(item)) <= ends.max else None)


def _to_text(value: pa.Array) -> pa.Array:
    if pt.is_floating(value.type):
        number = np.float32 if pt.is_float32(value.type) else float
        return _each(value, types.TEXT, lambda item: float_text(number(item)))
    if types.is_binary(value.type):
        return _each(value, types.TEXT, lambda item: item.decode())
    if pt.is_date(value.type):
        return _each(ticks(value), types.TEXT, lambda days: _year_signed(np.datetime64(days, "D")))
    if pt.is_timestamp(value.type):
        micros = cast(value, pa.timestamp("us", value.type.tz))
        return _each(ticks(micros), types.TEXT, lambda count: _timestamp_text(np.datetime64(count, "us")))
    try:
        return pc.cast(value, types.TEXT)
    except pa.ArrowNotImplementedError:
        return _each(value, types.TEXT, str)


def float_text(item: float | np.float32) -> str:
    """A float as Java writes it: the shortest digits that read back, with an exponent below 0.001 and from 10**7 on."""
    size = abs(float(item))
    if not np.isfinite(item):
        return "NaN" if item != item else ("Infinity" if item > 0 else "-Infinity")
    if item == 0 or 1e-3 <= size < 1e7:
        return np.format_float_positional(item, unique=True, trim="0")
    digits = np.format_float_scientific(item, unique=True, trim="0", exp_digits=1, min_digits=1)
    return digits.replace("e+", "E").replace("e", "E")


def _year_signed(moment: np.datetime64) -> str:
    """Years beyond 9999 have a sign."""
    text = str(moment)
    return text if text.startswith("-") or text.index("-") == 4 else f"+{text}"


def _timestamp_text(moment: np.datetime64) -> str:
    head, _, fraction = _year_signed(moment).replace("T", " ").partition(".")
    return f"{head}.{fraction.rstrip('0')}" if fraction.rstrip("0") else head


def _from_text(value: pa.Array, type_: pa.DataType) -> pa.Array:
    trimmed = pc.utf8_trim(value, characters=_BLANKS)
    if pt.is_date(type_):
        return pc.cast(_each(trimmed, pa.int32(), parse_days), type_)
    if pt.is_timestamp(type_):
        return _each(trimmed, type_, lambda text: _stamp(text, type_))
    if pt.is_boolean(type_):
        return _each(trimmed, type_, lambda text: _BOOLEANS.get(text.lower()))
    if pt.is_integer(type_):
        info = np.iinfo(type_.to_pandas_dtype())
        return _each(trimmed, type_, lambda text: _whole(text, int(info.min), int(info.max)))
    if pt.is_floating(type_):
        read = _single if pt.is_float32(type_) else parse_double
        return _each(trimmed, type_, read)
    if pt.is_decimal(type_):
        return _each(trimmed, type_, lambda text: _decimal(text, type_) if _NUMBER.fullmatch(text) else None)
    return pc.cast(value, type_)


def parse_double(text: str) -> float | None:
    """A double as Java reads it."""
    special = _SPECIAL["nan"] if text in _SIGNED_NAN else _SPECIAL.get(text.lower())
    if special is not None:
        return special
    if _NUMBER.fullmatch(text.rstrip("dDfF")) and len(text) - len(text.rstrip("dDfF")) <= 1:
        return float(text.rstrip("dDfF"))
    return float.fromhex(text.rstrip("dDfF")) if _HEX.fullmatch(text) else None


def _single(text: str) -> float | None:
    """The float32 nearest to the text: not to the double nearest to it."""
    double = parse_double(text)
    if double is None or not np.isfinite(double) or _HEX.fullmatch(text):
        return double
    exact = Decimal(text.rstrip("dDfF"))
    if abs(exact.adjusted()) > 400:  # far outside of float32; a fraction of it would be long
        return double
    return float(nearest_float32(Fraction(exact)))


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
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.partition(".")[0]
    number = int(digits) if digits not in ("", "+", "-") else 0
    return number if low <= number <= high else None


def _decimal(text: str, type_: pa.DataType) -> Decimal | None:
    exact = Decimal(text)
    if exact.is_finite() and exact and exact.adjusted() > type_.precision - type_.scale:
        return None
    with localcontext() as context:
        context.prec = 1000
        return fitted(exact, type_)


def fitted(number: Decimal | None, type_: pa.DataType) -> Decimal | None:
    """Rounded to the type's scale, halves away from zero; None if it has too many digits then."""
    if number is None:
        return None
    rounded = number.quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP)
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
