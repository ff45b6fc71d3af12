"""One column of what was pushed as an Arrow array: lists, NumPy arrays, series of pandas and polars, Arrow arrays.

The array may have another type than the column; it has the same values, or the column is refused by row and value.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import SchemaError
from watersmeet.streams.exact import MISSING, exactly, first_unfit, from_objects, same_objects

# Python objects that Arrow makes values of a type without changing them, or refuses: no need to infer a type and convert.
_PLAIN = (
    (pa.int64(), {int}), (pa.float64(), {float, int}), (pa.string(), {str}), (pa.large_string(), {str}), (pa.bool_(), {bool}),
)  # fmt: skip
# What a list may need where inference fails or cuts: integers beyond int64, nanoseconds.
_WIDER = (pa.uint64(), pa.timestamp("ns"), pa.duration("ns"))
_COARSE = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}  # NumPy's units that Arrow does not have


def plain_objects(kind: pa.DataType) -> set[type] | None:
    """The Python types whose objects are values of an Arrow type as they are, None among them."""
    return next(({*objects, type(None)} for known, objects in _PLAIN if known.equals(kind)), None)


def to_array(values: Any, kind: pa.DataType | None, what: str) -> pa.Array:
    """A column as an array of its own type, or of ``kind`` where only that can hold it. ``what``: the column, for messages."""
    if isinstance(values, pa.Array):
        return values
    try:
        array = _imported(values)
    except MemoryError:
        raise
    except Exception as error:
        raise SchemaError(
            f"{what} must be a sequence that Arrow can read; got {_described(values)}: {error}"
        ) from error
    if array is not None:
        return array
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping | AbstractSet) or not isinstance(
        values, Iterable
    ):
        raise SchemaError(
            f"{what} must be a list or an array with a value for each row; got {_described(values)}; write [value] for one row, or "
            "push rows as a list of dicts"
        )
    return _from_list(_objects(values), kind, what)


def fitted(values: Any, array: pa.Array, kind: pa.DataType, what: str) -> pa.Array:
    """The array as ``kind``, exactly. ``values``: what it was read from; a list may fit where its array does not (maps, say)."""
    found = exactly(array, kind)
    if found is None and isinstance(values, list | tuple):
        found = from_objects(list(values), kind)
    if found is not None:
        return found
    row = first_unfit(array, kind)
    raise SchemaError(
        f"{what} must be {kind}; got {_shown(array[row])} in row {row} ({array.type}), which is no {kind} without a change; cast it, or "
        "give the stream another type by schemas="
    )


def _imported(values: Any) -> pa.Array | None:
    """What has a type of its own; None: a sequence of objects.

    NumPy and pandas may change what they hold, and Arrow would share it: rows that were pushed must stay as they are, so numbers are
    copied. Arrow data, and what polars and duckdb have, never changes.
    """
    if isinstance(values, np.ndarray):
        if values.dtype == object and values.ndim == 1:
            return None
        if not values.size and values.dtype == float:  # what NumPy makes of an empty list
            return pa.nulls(0)
        known = _known_to_arrow(values)
        return pa.array(known.copy() if known.dtype.kind in "iufmM" else known)
    if isinstance(values, pa.ChunkedArray):
        return _one_array(values)
    if type(values).__module__.startswith("pandas."):
        return _from_pandas(values)
    if hasattr(values, "__arrow_c_array__"):
        return pa.array(values)
    if hasattr(values, "__arrow_c_stream__"):
        return _one_array(pa.chunked_array(values))
    return None


def _from_pandas(values: Any) -> pa.Array | None:
    """pandas' own conversion: its missing values are nulls. Without any value, doubles and categories say nothing of the type."""
    if str(getattr(values, "dtype", "")) == "object":
        return _inferred(values)[0]
    array = pa.array(values.copy())
    array = _one_array(array) if isinstance(array, pa.ChunkedArray) else array
    vague = pt.is_floating(array.type) or pt.is_dictionary(array.type)
    return pa.nulls(len(array)) if vague and array.null_count == len(array) else array


def _one_array(chunks: pa.ChunkedArray) -> pa.Array:
    return chunks.combine_chunks()


def _known_to_arrow(values: np.ndarray) -> np.ndarray:
    """The same values in an order of bytes and a unit of time that Arrow has."""
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if values.dtype.kind in "mM":
        kind = values.dtype.kind
        unit, step = np.datetime_data(values.dtype)  # a step of 10 s is a unit of its own to NumPy
        fine = "s" if kind == "m" and unit in "DW" else _COARSE.get(unit, unit)
        days = (
            values.view(np.int64)[~np.isnat(values)] if kind == "M" and fine == "D" and unit == "D" else None
        )
        if days is not None and days.size and (int(days.min()) < -(2**31) or int(days.max()) >= 2**31):
            raise OverflowError("a date is beyond the range of date32")
        if fine != unit or step != 1:
            known = values.astype(f"{kind}8[{fine}]")
            if not np.array_equal(known.astype(values.dtype), values, equal_nan=True):
                raise OverflowError(f"a value of {values.dtype} is beyond the range of {known.dtype}")
            return known
    return values


def _objects(values: Iterable[Any]) -> list[Any]:
    """The values as a list, in which what pandas and NumPy call missing is None. NaN is missing only to pandas."""
    framed = type(values).__module__.startswith("pandas.")
    listed = values if isinstance(values, list) else list(values)
    missing = [
        type(value).__name__ in MISSING or (framed and isinstance(value, float) and value != value)
        for value in listed
    ]
    return (
        [None if gone else value for gone, value in zip(missing, listed, strict=True)]
        if any(missing)
        else listed
    )


def _from_list(values: list[Any], kind: pa.DataType | None, what: str) -> pa.Array:
    array, error = _inferred(values)
    if array is not None:
        return array
    for wider in (kind, *_WIDER):
        found = None if wider is None else from_objects(values, wider)
        if found is not None:
            return found
    row = _first(lambda stop: _inferred(values[:stop])[0] is None, len(values))
    known = _inferred(values[row : row + 1])[0] is not None
    raise SchemaError(
        f"{what} must hold values {'of one type' if known else 'that Arrow has a type for'}; got {_shown(values[row])} "
        f"({type(values[row]).__name__}) in row {row}: {error}"
    )


def _inferred(values: Any) -> tuple[pa.Array | None, object]:
    """The array that Arrow makes of Python objects, if it has the same values; else why not."""
    try:
        array = pa.array(values)
        kind = array.type
        # Only here does inference change objects: it mixes zones with none, dates with times, text with binary, truth
        # values with numbers, and cuts nanoseconds.
        risky = pt.is_temporal(kind) or pt.is_nested(kind) or pt.is_binary(kind)
        risky = risky or (not pt.is_boolean(kind) and bool in set(map(type, values)))
        if risky and not same_objects(_objects(values), array.to_pylist()):
            return None, f"{kind} would change it"
    except MemoryError:
        raise
    except Exception as error:
        return None, error
    return array, None


def _first(fails: Callable[[int], bool], length: int) -> int:
    """The row that makes a prefix fail: prefixes that hold it do, shorter ones do not."""
    start, stop = 0, length
    while stop - start > 1:
        middle = (start + stop) // 2
        if fails(middle):
            stop = middle
        else:
            start = middle
    return start


def _described(values: Any) -> str:
    if isinstance(values, np.ndarray):
        return f"a NumPy array of {values.dtype} with shape {values.shape}"
    kind = type(values).__name__
    return f"{_shown(values)} ({kind})"


def _shown(value: Any) -> str:
    if isinstance(value, pa.Scalar):
        try:
            value = value.as_py()
        except ValueError:  # nanoseconds, and no pandas to hold them
            return str(value)
        except OverflowError:  # beyond the years that Python has
            return str(value.value)
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
