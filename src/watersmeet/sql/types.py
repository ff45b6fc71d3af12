"""Which types meet, and in which type: Spark SQL's rules over Arrow types.

The types that expressions carry are few: every Arrow text type is ``large_string`` here, every binary
``large_binary``, every decimal 128 or 256 bits with a scale of at least 0, every date ``date32``, and a dictionary is what it
encodes (`logical`). Integers calculate in int64, saturating; anything with a double in double. Decimals that Spark
can hold have the precision and scale that Spark gives them, rounded to 38 digits where it rounds; wider ones, which
only Arrow has, are exact as long as 76 digits are enough.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.sql.literal import decimal_type

Value: TypeAlias = "pa.Array | pa.Scalar"
"""What evaluation passes around: a column, or a constant."""

TEXT, BINARY, BOOL, INT, DOUBLE = pa.large_string(), pa.large_binary(), pa.bool_(), pa.int64(), pa.float64()
_NAMED: dict[str, pa.DataType] = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TEXT": pa.large_string(),
    "VARCHAR": pa.large_string(),
    "CHAR": pa.large_string(),
    "BINARY": pa.large_binary(),
    "VARBINARY": pa.large_binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
    "TIMESTAMPLTZ": pa.timestamp("us", "UTC"),
}
CAST_TARGETS = (
    "TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL (up to 76 digits), BOOLEAN, STRING, BINARY, "
    "DATE, TIMESTAMP, TIMESTAMP_LTZ"
)
_UNITS = ("s", "ms", "us", "ns")
WIDEST = 76
_SPARK_WIDEST = 38
_LEAST_SCALE = 6  # digits after the point that Spark keeps when it rounds to 38


def logical(stored: pa.DataType) -> pa.DataType:
    """The type that a stored column has in expressions."""
    if pt.is_dictionary(stored) or pt.is_run_end_encoded(stored):
        return logical(stored.value_type)
    if isinstance(stored, pa.BaseExtensionType):
        return logical(stored.storage_type)
    if pt.is_string(stored) or pt.is_large_string(stored) or pt.is_string_view(stored):
        return TEXT
    if is_binary(stored):
        return BINARY
    if pt.is_date(stored):
        return pa.date32()
    if pt.is_float16(stored):
        return pa.float32()
    if pt.is_decimal(stored):
        return _plain_decimal(stored.precision, stored.scale)
    return stored


def _plain_decimal(precision: int, scale: int) -> pa.DataType:
    """Arrow cannot calculate with a negative scale: zeros are digits here, and a number of more than 76 a double."""
    if scale < 0:
        return decimal_type(precision - scale, 0) if precision - scale <= WIDEST else DOUBLE
    return decimal_type(precision, scale)


def named(sql: str, sizes: list[int]) -> pa.DataType | None:
    """The type that a cast names, for instance DECIMAL with sizes [10, 2]."""
    if sql != "DECIMAL":
        return _NAMED.get(sql)
    precision, scale = [*sizes, *(10, 0)[len(sizes) :]][:2]
    return decimal_type(precision, scale) if 1 <= precision <= WIDEST and 0 <= scale <= precision else None


def is_binary(type_: pa.DataType) -> bool:
    """Any of Arrow's binary types."""
    kinds = (pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary)
    return any(kind(type_) for kind in kinds)


def is_numeric(type_: pa.DataType) -> bool:
    """Integers, floats and decimals."""
    return bool(pt.is_integer(type_) or pt.is_floating(type_) or pt.is_decimal(type_))


def zero(type_: pa.DataType) -> pa.Scalar:
    """0 of a numeric type, also of one without digits before the point."""
    return pa.scalar(Decimal(0) if pt.is_decimal(type_) else 0, type_)


def is_scalar(type_: pa.DataType) -> bool:
    """A type with equality and order: everything that is not nested."""
    return not pt.is_nested(type_) and not pt.is_interval(type_)


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether CAST exists: to and from text, among numbers and booleans, among dates and timestamps."""
    if pt.is_null(source) or TEXT in (source, target):
        return is_scalar(source) and not (pt.is_duration(source) or pt.is_duration(target))
    families = ((is_numeric, pt.is_boolean), (pt.is_date, pt.is_timestamp))
    return any(all(any(kind(t) for kind in family) for t in (source, target)) for family in families)


def name(type_: pa.DataType) -> str:
    """How an error message calls a type."""
    return {TEXT: "string", BINARY: "binary", pa.date32(): "date"}.get(type_, str(type_))


def common(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which two values are compared, or chosen between; None if they cannot be."""
    if left == right or pt.is_null(right):
        return left
    if pt.is_null(left):
        return right
    if is_numeric(left) and is_numeric(right):
        return _common_number(left, right)
    if pt.is_date(left) and pt.is_timestamp(right):
        return None if right.tz else right
    if pt.is_timestamp(left) and pt.is_date(right):
        return common(right, left)
    if pt.is_timestamp(left) and pt.is_timestamp(right) and (left.tz is None) == (right.tz is None):
        return pa.timestamp(finer(left.unit, right.unit), None if left.tz is None else "UTC")
    if pt.is_duration(left) and pt.is_duration(right):
        return pa.duration(finer(left.unit, right.unit))
    if pt.is_time(left) and pt.is_time(right):
        return pa.time64("ns") if "ns" in (left.unit, right.unit) else pa.time64("us")
    return None


def finer(left: str, right: str) -> str:
    """The finer of two time units."""
    return max(left, right, key=_UNITS.index)


def factor(coarse: str, fine: str) -> int:
    """How many fine units one coarse unit has."""
    return int(1000 ** (_UNITS.index(fine) - _UNITS.index(coarse)))


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pt.is_floating(left) or pt.is_floating(right):
        floats = [t for t in (left, right) if pt.is_floating(t)]
        narrow = all(pt.is_float32(t) for t in floats) and not (pt.is_decimal(left) or pt.is_decimal(right))
        return pa.float32() if narrow else DOUBLE
    if pt.is_signed_integer(left) and pt.is_signed_integer(right):
        return max(left, right, key=lambda type_: type_.bit_width)
    if pt.is_integer(left) and pt.is_integer(right):
        return pa.decimal128(20, 0) if pt.is_uint64(left) or pt.is_uint64(right) else INT
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + scale <= _SPARK_WIDEST:
        return decimal_type(whole + scale, scale)
    if _in_spark(left, right):
        return decimal_type(_SPARK_WIDEST, _SPARK_WIDEST - whole)
    return decimal_type(whole + scale, scale) if whole + scale <= WIDEST else DOUBLE


def _in_spark(*decimals: pa.DataType) -> bool:
    """Whether Spark has these types too, so that its rules for more than 38 digits hold."""
    return all(type_.precision <= _SPARK_WIDEST for type_ in decimals)


def loses_digits(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a number turned into this decimal may be rounded. NULL has no digits."""
    exact = pt.is_decimal(target) and not (pt.is_floating(source) or pt.is_null(source))
    return bool(exact) and as_decimal(source).scale > target.scale


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """The decimal that holds every value of an integer type; a decimal itself."""
    if pt.is_decimal(type_):
        return type_
    return pa.decimal128({8: 3, 16: 5, 32: 10, 64: 20}[type_.bit_width], 0)


def arithmetic(op: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of ``left op right`` for + - * / % div, over numbers and moments; None: no such thing."""
    if pt.is_null(left) or pt.is_null(right):
        other = right if pt.is_null(left) else left
        if pt.is_null(other):
            return arithmetic(op, DOUBLE, DOUBLE)
        moved = (op in "+-" and pt.is_temporal(other)) or (op == "*" and pt.is_duration(other))
        return arithmetic(op, other, other) or (other if moved else None)
    if is_numeric(left) and is_numeric(right):
        return _number_arithmetic(op, left, right)
    if op == "+":
        return _moved(left, right) or _moved(right, left)
    if op == "-":
        return _moved(left, right) or _difference(left, right)
    if op == "*" and pt.is_duration(left) and pt.is_integer(right):
        return left
    if op == "*" and pt.is_duration(right) and pt.is_integer(left):
        return right
    return None


def _number_arithmetic(op: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if op == "div":
        return INT
    both = _common_number(left, right)
    if pt.is_floating(both) or (op == "/" and not (pt.is_decimal(left) or pt.is_decimal(right))):
        return DOUBLE if op == "/" else both
    if pt.is_integer(both):
        return INT
    return _decimal_arithmetic(op, as_decimal(left), as_decimal(right))


def _decimal_arithmetic(op: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    precision, scale = exact_digits(op, left, right)
    if precision <= _SPARK_WIDEST:
        return decimal_type(precision, scale)
    if _in_spark(left, right):
        kept = max(_SPARK_WIDEST - (precision - scale), min(scale, _LEAST_SCALE))
        return decimal_type(_SPARK_WIDEST, kept)
    return decimal_type(precision, scale) if precision <= WIDEST and op != "/" else DOUBLE


def exact_digits(op: str, left: pa.DataType, right: pa.DataType) -> tuple[int, int]:
    """Precision and scale of a decimal result before they are cut to what there is; of a quotient, what Spark keeps."""
    left, right = as_decimal(left), as_decimal(right)
    wholes = left.precision - left.scale, right.precision - right.scale
    finer = max(left.scale, right.scale)
    if op == "*":
        return left.precision + right.precision + 1, left.scale + right.scale
    if op == "/":
        scale = max(_LEAST_SCALE, left.scale + right.precision + 1)
        return wholes[0] + right.scale + scale, scale
    if op == "%":
        return max(min(wholes) + finer, 1), finer
    return max(wholes) + finer + 1, finer


def rounds(call_type: pa.DataType, op: str, left: pa.DataType, right: pa.DataType) -> bool:
    """Whether a decimal sum, difference or product may be rounded, or be NULL for want of digits."""
    return bool(pt.is_decimal(call_type)) and exact_digits(op, left, right) != (
        call_type.precision,
        call_type.scale,
    )


def _moved(moment: pa.DataType, by: pa.DataType) -> pa.DataType | None:
    """A date, timestamp or duration moved by days or by a duration."""
    if pt.is_date(moment) and pt.is_integer(by):
        return moment
    if pt.is_date(moment) and pt.is_duration(by):
        return pa.timestamp(finer("us", by.unit))
    if pt.is_timestamp(moment) and pt.is_duration(by):
        return pa.timestamp(finer(moment.unit, by.unit), moment.tz)
    if pt.is_duration(moment) and pt.is_duration(by):
        return pa.duration(finer(moment.unit, by.unit))
    return None


def _difference(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pt.is_date(left) and pt.is_date(right):
        return pa.duration("s")
    both = common(left, right)
    return pa.duration(both.unit) if both is not None and pt.is_timestamp(both) else None
