"""The types of aggregates: Spark's.

COUNT is BIGINT. SUM of integers is BIGINT, of DECIMAL(p, s) DECIMAL(p + 10, s), of floats DOUBLE. AVG of DECIMAL(p, s) is
DECIMAL(p + 4, s + 4), rounded half away from zero; of other numbers DOUBLE. Precision and scale stop at 38. Variances are DOUBLE. The
others have their column's type.

Where we differ: a BIGINT sum that does not fit is NULL, as Spark's ``try_sum`` has it, and as decimal sums have it everywhere (Spark's
own SUM wraps or, with ANSI on, fails); it is there again once the rows are retracted that made it too large. AVG, variances and sums of
floats are rounded once, not after each row. Spark has no unsigned 64-bit numbers, which are DECIMAL(20, 0) here, nor decimals of more
than 38 digits, which stop at 76.
"""

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregate.spec import Aggregate
from watersmeet.errors import SchemaError

NUMBERS = ("sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop")


def result_type(aggregate: Aggregate, kind: pa.DataType | None) -> pa.DataType:
    """The type of an aggregate over a column of this type; None: it has no column."""
    if aggregate.function in ("count", "count_distinct") or kind is None:
        return pa.int64()
    if aggregate.function not in NUMBERS:
        return kind
    if not is_summable(kind):
        raise SchemaError(
            f"{aggregate.function} must be of integers, floats of 32 or 64 bits, or decimals of a scale of at least 0; column "
            f"{aggregate.column!r} is {kind}; cast it"
        )
    digits = _digits(kind)
    if aggregate.function == "sum" and digits is not None:
        return _decimal(digits[0] + 10, digits[1], digits[0])
    if aggregate.function == "avg" and digits is not None:
        return _decimal(digits[0] + 4, digits[1] + 4, digits[0])
    return pa.int64() if aggregate.function == "sum" and pt.is_integer(kind) else pa.float64()


def is_summable(kind: pa.DataType) -> bool:
    """Whether numbers of this type, or NULL without a type, can be added up."""
    if pt.is_decimal(kind):
        return bool(kind.scale >= 0)
    return bool(pt.is_null(kind) or pt.is_integer(kind) or pt.is_float32(kind) or pt.is_float64(kind))


def _digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Precision and scale of what is a decimal, here."""
    if pt.is_uint64(kind):
        return 20, 0
    return (kind.precision, kind.scale) if pt.is_decimal(kind) else None


def _decimal(precision: int, scale: int, given: int) -> pa.DataType:
    most = 38 if given <= 38 else 76
    make = pa.decimal128 if most == 38 else pa.decimal256
    return make(min(precision, most), min(scale, most))
