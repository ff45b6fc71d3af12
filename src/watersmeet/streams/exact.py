"""A column in another type, each value the same, or not at all.

Arrow's own safe casts are not enough: they round float64 to float32, read text as numbers, take the time off a timestamp, refuse
2**60 as a double. Types are of one family or they do not convert: a number never comes from a text or a boolean, a moment with a zone never
from one without.
"""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.streams.schema import stored_type

_DAY_MS = 86_400_000
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_INT32, _INT64 = np.iinfo(np.int32), np.iinfo(np.int64)
MISSING = ("NoneType", "NaTType", "NAType", "MaskedConstant")


def exactly(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    """The column as ``target``; None if that would change or lose a value. Nulls are always nulls.

    >>> exactly(pa.array([1.0, 2.0]), pa.int64()).to_pylist()
    [1, 2]
    >>> exactly(pa.array([1.5]), pa.int64()) is None
    True
    """
    try:
        return _exactly(decoded(column), target)
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None


def first_unfit(column: pa.Array, target: pa.DataType) -> int:
    """The first row of a column that does not convert exactly. Halves at a time: a cast a step."""
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        if exactly(column.slice(start, middle - start), target) is None:
            stop = middle
        else:
            start = middle
    return start


def decoded(column: pa.Array) -> pa.Array:
    """The values themselves: without dictionary and run-end encoding."""
    while pt.is_dictionary(column.type) or pt.is_run_end_encoded(column.type):
        try:
            column = (
                column.dictionary_decode() if pt.is_dictionary(column.type) else pc.run_end_decode(column)
            )
        except pa.ArrowNotImplementedError:  # of views, for instance
            return pa.array(column.to_pylist(), stored_type(column.type))
    return column


def _exactly(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    kind = column.type
    if kind.equals(target):
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), target)
    if isinstance(kind, pa.BaseExtensionType):
        return None if isinstance(target, pa.BaseExtensionType) else exactly(column.storage, target)
    if isinstance(target, pa.BaseExtensionType):
        storage = exactly(column, target.storage_type)
        return None if storage is None else pa.ExtensionArray.from_storage(target, storage)
    for fits, convert in _FAMILIES:
        if fits(kind) and fits(target):
            return convert(column, target)
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    sized = pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind)
    return bool(sized or pt.is_binary_view(kind))


def _cast(column: pa.Array, target: pa.DataType) -> pa.Array:
    return column.cast(target, safe=True)


# numbers


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _numbers(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    kind = column.type
    if pt.is_decimal(kind) != pt.is_decimal(target):
        return _by_value(column, target)
    if pt.is_decimal(
        target
    ):  # Arrow narrows before it rescales, so 3.000000000 is no decimal32(4, 0) in one step
        return _cast(_cast(column, pa.decimal256(76, target.scale)), target)
    if pt.is_integer(target):  # checked by Arrow: range and fraction
        return _cast(column, target)
    values = column.fill_null(pa.scalar(0, pa.int8()).cast(kind)).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        floats = values.astype(target.to_pandas_dtype())
    same = _same_integers(values, floats) if pt.is_integer(kind) else (floats == values) | np.isnan(values)
    return pa.array(floats, target, mask=_null_mask(column)) if same.all() else None


def _same_integers(values: np.ndarray, floats: np.ndarray) -> np.ndarray:
    """Which integers their floats stand for. Compared as integers: NumPy would round the integers for the comparison."""
    info = np.iinfo(values.dtype)
    wide = floats.astype(np.float64)
    inside = (wide >= float(info.min)) & (wide < float(int(info.max) + 1))
    return inside & (np.where(inside, wide, 0.0).astype(values.dtype) == values)


def _by_value(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Between decimals and other numbers: Arrow's casts round, and want room for every value of a type."""
    results: list[Any] = []
    for value in column.to_pylist():
        result = None if value is None else _number(value, target)
        if result is None and value is not None:
            return None
        results.append(result)
    return pa.array(results, target)  # refuses numbers that the decimal has no place for


def _number(value: Any, target: pa.DataType) -> Any:
    """A decimal as an integer or float, or one of those as a decimal; None if it is none."""
    if pt.is_decimal(target):
        # Asked of the number itself: Arrow 25 makes 0 of a fraction with hundreds of digits.
        digits = Fraction(value) * Fraction(10) ** target.scale
        return Decimal(value) if digits.denominator == 1 else None
    if pt.is_integer(target):
        return int(value) if value == int(value) else None
    with np.errstate(over="ignore"):
        real = target.to_pandas_dtype()(float(value))
    return real if Decimal(float(real)) == value else None


def _null_mask(column: pa.Array) -> np.ndarray | None:
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None


# moments, times of day, durations: integers that count units


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pt.is_date(kind) or pt.is_timestamp(kind))


def _moments(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Dates and timestamps. Two zones are two ways to write one instant; no zone is something else."""
    zoned = {pt.is_timestamp(kind) and kind.tz is not None for kind in (column.type, target)}
    return _counted(column, target) if len(zoned) == 1 else None


def _counted(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    narrow = column.type.bit_width == 32
    counts = column.view(pa.int32() if narrow else pa.int64()).fill_null(0).to_numpy().astype(np.int64)
    have, want = _unit(column.type), _unit(target)
    if have >= want:
        factor = have // want
        if (np.abs(np.clip(counts, -_INT64.max, None)) > _INT64.max // factor).any():
            return None
        counts = counts * factor
    else:
        factor = want // have
        if (counts % factor != 0).any():
            return None
        counts = counts // factor
    if pt.is_date64(target) and (counts % _DAY_MS != 0).any():
        return None
    if target.bit_width == 32:
        if ((counts < _INT32.min) | (counts > _INT32.max)).any():
            return None
        counts = counts.astype(np.int32)
    return pa.array(counts, mask=_null_mask(column)).view(target)


def _unit(kind: pa.DataType) -> int:
    """Nanoseconds that one step of the stored integer counts."""
    if pt.is_date32(kind):
        return _DAY_MS * 10**6
    return 10**6 if pt.is_date64(kind) else _UNITS[kind.unit]


# nested


def _nested(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    if _keeps_leaves(column.type, target):
        try:
            return _cast(column, target)
        except pa.ArrowNotImplementedError:
            pass  # runs inside: as objects
    return from_objects(column.to_pylist(), target)


def _keeps_leaves(kind: pa.DataType, target: pa.DataType) -> bool:
    """Whether the types differ only in how values are laid out, or where one is still open: then Arrow's cast is exact."""
    if pt.is_null(kind) or kind.equals(target) or (_is_text(kind) and _is_text(target)):
        return True
    if kind.num_fields == 0:
        return stored_type(kind).equals(target)
    # Arrow 25 casts list views to lists without a last offset; lists of a fixed size have values under nulls.
    if (
        not any(fit(kind) and fit(target) for fit in (_is_plain_list, pt.is_struct, pt.is_map))
        or kind.num_fields != target.num_fields
    ):
        return False
    pairs = [(kind.field(i), target.field(i)) for i in range(kind.num_fields)]
    named = not pt.is_struct(kind) or all(mine.name == theirs.name for mine, theirs in pairs)
    return named and all(_keeps_leaves(mine.type, theirs.type) for mine, theirs in pairs)


def _is_plain_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind))


def from_objects(values: list[Any], target: pa.DataType) -> pa.Array | None:
    """Python objects as a column of a type; None if Arrow cannot, or made something else of one of them."""
    try:
        column = pa.array(values, target)
        return column if same_objects(values, column.to_pylist()) else None
    except MemoryError:
        raise
    except Exception:
        return None


def same_objects(given: Any, got: Any) -> bool:
    """Whether ``got``, from Arrow's ``to_pylist``, is what was given. NaN is NaN; a date is not the timestamp of its midnight."""
    if got is None:
        return type(given).__name__ in MISSING
    if isinstance(got, list):
        given = list(given.items() if isinstance(given, dict) else given)
        return len(given) == len(got) and all(map(same_objects, given, got))
    if isinstance(got, tuple):
        return len(given) == len(got) and all(map(same_objects, given, got))
    if isinstance(got, dict):
        return set(given) <= set(got) and all(
            same_objects(given.get(name), value) for name, value in got.items()
        )
    if isinstance(given, bool | np.bool_) != isinstance(got, bool):  # to Python, True is 1
        return False
    return bool(given == got) or bool(given != given and got != got)


_FAMILIES: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, pa.DataType], pa.Array | None]], ...
] = (
    (_is_text, _cast),
    (_is_binary, _cast),
    (_is_number, _numbers),
    (_is_moment, _moments),
    (pt.is_time, _counted),
    (pt.is_duration, _counted),
    (pt.is_nested, _nested),
)
