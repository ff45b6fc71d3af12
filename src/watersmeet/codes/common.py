"""Which domain two column types are compared in, following Spark SQL's common types."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pyarrow as pa

from watersmeet.codes import encode
from watersmeet.codes.column import plain_type
from watersmeet.codes.domain import Domain
from watersmeet.codes.floating import FloatDomain, WideDecimalDomain
from watersmeet.codes.integer import NANOSECONDS, Arithmetic, IntegerDomain
from watersmeet.codes.text import BytesDomain, is_binary, is_text
from watersmeet.kernels.code import INT_MAX, INT_MIN

test = pa.types
EXACT_DIGITS = 18  # any number of so many digits fits int64
UNITS = {nanoseconds: unit for unit, nanoseconds in NANOSECONDS.items()}


def common_domain(left: pa.DataType, right: pa.DataType, *, ordered: bool) -> Domain | None:
    """The domain in which values of the two types are compared; None if they are not comparable.

    ``ordered=False`` is for equality only, where text and binary get hashes.

    >>> common_domain(pa.int32(), pa.int64(), ordered=True)
    <Domain int>
    """
    left, right = plain_type(left), plain_type(right)
    left, right = (right if test.is_null(left) else left), (left if test.is_null(right) else right)
    if is_text(left) and is_text(right):
        return BytesDomain("text", ordered=ordered)
    if is_binary(left) and is_binary(right):
        return BytesDomain("binary", ordered=ordered)
    for fits, domain in FAMILIES:
        if fits(left) and fits(right):
            return domain(left, right)
    return None


def _bools(left: pa.DataType, right: pa.DataType) -> Domain:
    return IntegerDomain("bool", encode.integer, arithmetic=Arithmetic.EXTEND, narrow=True)


def _integers(left: pa.DataType, right: pa.DataType) -> Domain:
    wide = [type for type in (left, right) if type == pa.uint64()]
    if not wide:
        narrow = pa.int64() not in (left, right)
        return IntegerDomain("int", encode.integer, arithmetic=Arithmetic.SATURATE, narrow=narrow)
    if test.is_unsigned_integer(left) and test.is_unsigned_integer(right):
        return IntegerDomain("uint", encode.unsigned, arithmetic=Arithmetic.EXTEND, zero=-(2**63))
    return IntegerDomain("int and uint", encode.integer, arithmetic=Arithmetic.LOOSE)


def _decimals(left: pa.DataType, right: pa.DataType) -> Domain:
    (digits, scale), (more_digits, finer) = sorted(
        (_precision(left), _precision(right)), key=lambda pair: pair[1]
    )
    whole = max(digits - scale, more_digits - finer, 0)
    if whole + finer > EXACT_DIGITS:
        return WideDecimalDomain(f"wide decimal({finer})")
    make = partial(encode.decimal, scale=finer)
    step = Fraction(10) ** -finer
    return IntegerDomain(f"decimal({finer})", make, arithmetic=Arithmetic.EXTEND, narrow=True, step=step)


def _precision(type: pa.DataType) -> tuple[int, int]:
    """Digits in all and after the point, of a decimal or an integer type."""
    if test.is_decimal(type):
        return type.precision, type.scale
    return {8: 3, 16: 5, 32: 10, 64: 20}[type.bit_width], 0


def _numbers(left: pa.DataType, right: pa.DataType) -> Domain:
    if test.is_decimal(left) or test.is_decimal(right) or pa.float64() in (left, right):
        return FloatDomain("float64")
    return FloatDomain("float32", single=True)


def _moments(left: pa.DataType, right: pa.DataType) -> Domain | None:
    """Dates and timestamps. A date is the midnight it begins with; zoned times do not compare with it."""
    if test.is_date(left) and test.is_date(right):
        return _temporal("date", left, right)
    zoned = {test.is_timestamp(type) and type.tz is not None for type in (left, right)}
    return _temporal("timestamp", left, right) if len(zoned) == 1 else None


def _temporal(name: str, left: pa.DataType, right: pa.DataType) -> Domain:
    """In the finer unit of the two. What the other side cannot say in it stops at the ends of int64."""
    finest = min(encode.unit_nanoseconds(left), encode.unit_nanoseconds(right))
    unit = UNITS[finest]
    loose = not all(_fits(type, finest) for type in (left, right))
    return IntegerDomain(
        name if unit == "day" else f"{name}[{unit}]",
        partial(encode.temporal, nanoseconds=finest),
        arithmetic=Arithmetic.LOOSE if loose else Arithmetic.SATURATE,
        narrow=name == "time",
        ends=(-(2**31), 2**31 - 1) if name == "date" else (INT_MIN, INT_MAX),
        unit=unit,
    )


def _fits(type: pa.DataType, nanoseconds: int) -> bool:
    if test.is_time(type) or encode.unit_nanoseconds(type) == nanoseconds:
        return True
    return test.is_date(type) and encode.unit_nanoseconds(type) // nanoseconds * 2**31 < 2**63


def _is_exact_number(type: pa.DataType) -> bool:
    return bool(test.is_integer(type) or test.is_decimal(type))


def _is_number(type: pa.DataType) -> bool:
    return bool(_is_exact_number(type) or test.is_floating(type))


def _is_moment(type: pa.DataType) -> bool:
    return bool(test.is_date(type) or test.is_timestamp(type))


# The first family that both types belong to decides.
FAMILIES: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, pa.DataType], Domain | None]], ...
] = (
    (test.is_boolean, _bools),
    (test.is_integer, _integers),
    (_is_exact_number, _decimals),
    (_is_number, _numbers),
    (_is_moment, _moments),
    (test.is_duration, partial(_temporal, "duration")),
    (test.is_time, partial(_temporal, "time")),
    (test.is_null, _integers),
)
