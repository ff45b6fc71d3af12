"""A conversion keeps every value or is refused, and is refused only where a value has no place in the type: judged by exact arithmetic."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import examples
from watersmeet.streams.exact import exactly, first_unfit

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9
INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [
    pa.decimal32(4, 0),
    pa.decimal32(5, 2),
    pa.decimal64(12, 0),
    pa.decimal128(20, 3),
    pa.decimal128(38, 10),
    pa.decimal256(60, 5),
]
MOMENTS = [pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in UNITS)]
ZONED = [pa.timestamp("s", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns", "+02:00")]
TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
DURATIONS = [pa.duration(unit) for unit in UNITS]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)]
KINDS = [
    *INTS,
    *FLOATS,
    *DECIMALS,
    *MOMENTS,
    *ZONED,
    *TIMES,
    *DURATIONS,
    *TEXTS,
    *BINARIES,
    pa.bool_(),
    pa.null(),
]

_edges = [
    0,
    1,
    -1,
    7,
    127,
    128,
    255,
    256,
    2**24 + 1,
    2**31,
    2**53,
    2**53 + 1,
    2**60,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64 - 1,
]
_floats = [
    0.0,
    -0.0,
    0.1,
    0.5,
    1.0,
    1.5,
    -2.0,
    65504.0,
    65536.0,
    1e18,
    2.0**63,
    -(2.0**63),
    1e300,
    math.inf,
    -math.inf,
    math.nan,
]
_seconds = [0, 1, -1, 86_400, 86_401, -86_400, 10**9, 9_223_372_036, 9_223_372_037, 10**14]


def ends(kind: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """What a column of the kind may hold; moments, times and durations as the integers that count their units."""
    if pt.is_integer(kind):
        low, high = ends(kind)
        return st.sampled_from([v for v in _edges if low <= v <= high]) | st.integers(low, high)
    if pt.is_floating(kind):
        real = np.dtype(kind.to_pandas_dtype()).type
        with np.errstate(over="ignore"):
            return st.sampled_from([real(value) for value in _floats]) | st.floats(width=kind.bit_width)
    if pt.is_decimal(kind):
        most = 10**kind.precision - 1
        units = st.sampled_from([0, 1, 10, 100, -250, 3 * 10**kind.scale, most, -most]) | st.integers(
            -most, most
        )
        return units.map(
            lambda n: Decimal(n).scaleb(-kind.scale) if abs(n) < 10**28 else Decimal(f"{n}e-{kind.scale}")
        )
    if pt.is_date32(kind):
        return st.sampled_from([0, 1, -1, 19_000, 106_751, 106_752, 2**31 - 1])
    if pt.is_time(kind):
        return st.sampled_from([0, 1, 59, 86_399, 1000]).map(
            lambda n: n * (10**9 // UNITS[kind.unit] if n == 59 else 1)
        )
    if pt.is_temporal(kind):
        per = 10**9 // (10**6 if pt.is_date64(kind) else UNITS[kind.unit])
        whole = st.sampled_from([n * per for n in _seconds if abs(n * per) < 2**63])
        return (
            whole
            | whole.map(lambda n: max(min(n + 1, 2**63 - 1), -(2**63)))
            | st.sampled_from([2**63 - 1, -(2**63)])
        )
    if pt.is_boolean(kind):
        return st.booleans()
    if pt.is_null(kind):
        return st.none()
    text = st.sampled_from(["", "a", "1", "abc", "äö"])
    return (
        text
        if kind in TEXTS
        else st.sampled_from([b"abc", b"xyz"])
        if kind == pa.binary(3)
        else text.map(str.encode)
    )


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pt.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(values, kind)


def meaning(value: Any, kind: pa.DataType) -> Any:
    """What a value says, whatever its type."""
    if value is None:
        return None
    if pt.is_date32(kind):
        return "moment", value * DAY
    if pt.is_temporal(kind):
        step = 10**6 if pt.is_date64(kind) else UNITS[kind.unit]
        if pt.is_timestamp(kind) or pt.is_date64(kind):
            return "instant" if pt.is_timestamp(kind) and kind.tz else "moment", value * step
        return "time" if pt.is_time(kind) else "duration", value * step
    if pt.is_floating(kind):
        return (
            ("number", str(float(value))) if not math.isfinite(value) else ("number", Fraction(float(value)))
        )
    if pt.is_integer(kind) or pt.is_decimal(kind):
        return "number", Fraction(value)
    return type(value).__name__, value


def stored(array: pa.Array) -> list[Any]:
    """The meanings of a column's values, read from its memory where Arrow would convert."""
    kind = array.type
    if pt.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return [meaning(value, kind) for value in array.to_pylist()]


def has_place(said: Any, kind: pa.DataType) -> bool:
    """Whether some value of the kind says exactly this."""
    if said is None:
        return True
    family, value = said
    if family == "number":
        return number_has_place(value, kind)
    if family in ("moment", "instant", "time", "duration"):
        fits = {
            "moment": kind in MOMENTS, "instant": kind in ZONED, "time": kind in TIMES, "duration": kind in DURATIONS,
        }[family]  # fmt: skip
        if not fits:
            return False
        step = DAY if pt.is_date(kind) else UNITS[kind.unit]
        count = value // (10**6 if pt.is_date64(kind) else step)
        limit = 31 if kind.bit_width == 32 else 63
        return value % step == 0 and -(2**limit) <= count < 2**limit
    if family == "bytes":
        return kind in BINARIES and (kind != pa.binary(3) or len(value) == 3)
    return kind in (TEXTS if family == "str" else [pa.bool_()])


def number_has_place(value: Any, kind: pa.DataType) -> bool:
    if isinstance(value, str):
        return bool(pt.is_floating(kind))
    if pt.is_integer(kind):
        return value.denominator == 1 and ends(kind)[0] <= value <= ends(kind)[1]
    if pt.is_decimal(kind):
        units = value * 10**kind.scale
        return units.denominator == 1 and abs(units) < 10**kind.precision
    if pt.is_floating(kind):
        try:
            with np.errstate(over="ignore"):
                near = float(kind.to_pandas_dtype()(value.numerator / value.denominator))
        except OverflowError:
            return False
        return math.isfinite(near) and Fraction(near) == value
    return False


ENCODINGS = {
    "plain": lambda array: array,
    "dictionary": lambda array: array.dictionary_encode(),
    "runs": pc.run_end_encode,
    "slice": lambda array: pa.concat_arrays([array, array]).slice(len(array)),
}


@examples(400)
@given(st.data(), st.sampled_from(KINDS), st.sampled_from(KINDS), st.sampled_from(list(ENCODINGS)))
def test_every_value_is_kept_or_the_first_that_cannot_be_is_named(
    data: st.DataObject, kind: pa.DataType, target: pa.DataType, encoding: str
) -> None:
    values = data.draw(st.lists(st.none() | values_of(kind), max_size=5))
    array = column(kind, values)
    try:
        given_array = ENCODINGS[encoding](array)
    except pa.ArrowNotImplementedError:
        given_array = array  # Arrow cannot encode this type so
    said = stored(array)
    found = exactly(given_array, target)
    lost = [row for row, one in enumerate(said) if not has_place(one, target)]
    if kind == target:
        lost = []
    if found is None:
        assert lost, f"{values} could be {target}"
        assert first_unfit(given_array, target) == lost[0]
    else:
        assert not lost, f"{values[lost[0]]!r} has no place in {target}"
        assert found.type == target
        found.validate(full=not pt.is_date64(target))
        assert stored(found) == said


FAMILIES = [[*INTS, *FLOATS, *DECIMALS], [*MOMENTS, *ZONED], TIMES, DURATIONS, TEXTS, BINARIES]


@examples(400)
@given(st.data(), st.sampled_from(FAMILIES).flatmap(lambda family: st.tuples(*[st.sampled_from(family)] * 2)))
def test_within_a_family(data: st.DataObject, kinds: tuple[pa.DataType, pa.DataType]) -> None:
    test_every_value_is_kept_or_the_first_that_cannot_be_is_named.hypothesis.inner_test(data, *kinds, "plain")


@pytest.mark.parametrize(
    ("given_type", "target", "values"),
    [
        (pa.list_(pa.int64()), pa.large_list(pa.int64()), [[1], None, [], [2, None]]),
        (pa.list_(pa.string_view()), pa.list_(pa.large_string()), [["a"], None, [None, "b"]]),
        (pa.list_view(pa.int32()), pa.list_(pa.int64()), [[1, 2], None, []]),
        (pa.list_(pa.int64(), 2), pa.list_(pa.int64()), [[1, 2], None]),
        (pa.struct({"a": pa.int32(), "b": pa.string()}), pa.struct({"a": pa.int64(), "b": pa.large_string()}), [{"a": 1, "b": "x"}, None]),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.large_string(), pa.int64()), [[("a", 1), ("b", None)], None, []]),
        (pa.list_(pa.null()), pa.list_(pa.decimal128(5, 1)), [[None], [], None]),
        (pa.struct({"a": pa.null()}), pa.struct({"a": pa.list_(pa.int64())}), [{"a": None}, None]),
    ],
)  # fmt: skip
def test_nested_columns_convert_leaf_by_leaf(
    given_type: pa.DataType, target: pa.DataType, values: list[Any]
) -> None:
    for array in (pa.array(values, given_type), pa.array([*values, *values], given_type).slice(len(values))):
        found = exactly(array, target)
        assert found is not None
        found.validate(full=True)
        assert found.type == target
        assert found.to_pylist() == values


@pytest.mark.parametrize(
    ("values", "target"),
    [
        ([[1], [1.5]], pa.list_(pa.int64())),
        ([[1], ["1"]], pa.list_(pa.int64())),
        ([{"a": 1}, {"a": 2**53 + 1}], pa.struct({"a": pa.float64()})),
        ([{"a": 1}, {"a": 1, "b": 2}], pa.struct({"a": pa.int64()})),
        ([[1, 2], [3]], pa.list_(pa.int64(), 2)),
    ],
)
def test_a_loss_inside_is_found(values: list[Any], target: pa.DataType) -> None:
    array = pa.concat_arrays([pa.array(values[:1]), pa.array(values[:1])])
    other = pa.array(values[1:])
    assert exactly(array, target) is not None
    assert exactly(other, target) is None


@pytest.mark.parametrize("value", [7.69103042620218e-102, 5e-324, -1e-60])
def test_a_double_that_is_nearly_nothing_is_no_decimal(value: float) -> None:
    """Arrow makes 0 of a decimal with hundreds of digits behind the point, without a word."""
    assert exactly(pa.array([1.5, value]), pa.decimal128(20, 3)) is None
    assert first_unfit(pa.array([1.5, value]), pa.decimal128(20, 3)) == 1
