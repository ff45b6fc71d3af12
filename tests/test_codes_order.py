"""Codes are in SQL order: NaN equals itself and is largest, -0.0 = 0.0, text goes by its UTF-8 bytes."""

import itertools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.codes import NULL_CODE, Interval, common_domain, mix
from watersmeet.errors import WatersmeetError

# Many types, each simple: a third of the profile's examples for each of them.
FEWER = settings(max_examples=max(4, settings().max_examples // 3))
UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, 1e16, 2.0**53, 5e-324, -5e-324, 1e-45, 3.4e38, 1e308, -1e308]
FLOATS += [math.inf, -math.inf, math.nan]


def integers(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.sampled_from([low, low + 1, 0, 1, high - 1, high]) | st.integers(low, high)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    unscaled = st.sampled_from([-most, -1, 0, 1, most]) | st.integers(-most, most) | st.integers(-99, 99)
    return unscaled.map(lambda n: Decimal((n < 0, tuple(int(d) for d in str(abs(n))), -scale)))


def strategy(type: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of an Arrow type, as plain Python (temporal types: as numbers of their unit)."""
    if pa.types.is_integer(type):
        return integers(type.bit_width, pa.types.is_signed_integer(type))
    if pa.types.is_floating(type):
        return st.sampled_from(FLOATS) | st.floats(width=type.bit_width)
    if pa.types.is_boolean(type):
        return st.booleans()
    if pa.types.is_decimal(type):
        return decimals(type.precision, type.scale)
    if pa.types.is_time(type):
        return st.integers(0, 86_400 * 10**9 // UNIT[type.unit] - 1)
    if pa.types.is_date64(type):
        return st.integers(-(10**6), 10**6).map(lambda days: days * 86_400_000)
    if pa.types.is_temporal(type):
        return integers(type.bit_width)
    text = st.text(st.sampled_from("aAzé\0~😀\U0001f600ÿ"), max_size=12)
    return text if "string" in str(type) else text.map(lambda value: value.encode()[:9])


def array(values: list[Any], type: pa.DataType) -> pa.Array:
    """An Arrow array, with a slot before and one after sliced away."""
    if pa.types.is_float32(type) or pa.types.is_float16(type):
        with np.errstate(over="ignore"):
            values = [None if v is None else type.to_pandas_dtype()(v) for v in values]
    elif pa.types.is_temporal(type):
        return pa.array([None, *values, None], pa.int32() if type.bit_width == 32 else pa.int64()).view(type)[
            1:-1
        ]
    return pa.array([None, *values, None], type)[1:-1]


def sql_key(value: Any, type: pa.DataType) -> Any:
    """Something whose Python order is the SQL order of the values."""
    if pa.types.is_floating(type):
        with np.errstate(over="ignore"):
            value = float(type.to_pandas_dtype()(value))
        return (1, 0) if math.isnan(value) else (0, value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Decimal):
        return Fraction(value)
    if pa.types.is_date(type):
        return value * (86_400 * 10**9 if type.bit_width == 32 else 10**6)
    return value * UNIT[type.unit] if pa.types.is_temporal(type) else value


INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]
EXACT = [(type, pa.int64()) for type in INTS] + [(pa.uint32(), pa.int8()), (pa.int16(), pa.uint16())]
EXACT += [(pa.uint64(), right) for right in (pa.uint64(), pa.uint32(), pa.uint8())]
EXACT += [(pa.bool_(), pa.bool_()), (pa.float64(), pa.float64()), (pa.float32(), pa.float32())]
EXACT += [
    (pa.float64(), pa.float32()),
    (pa.float16(), pa.float32()),
    (pa.float64(), pa.int64()),
    (pa.float32(), pa.int64()),
]
EXACT += [(pa.decimal128(18, 4), pa.decimal128(10, 2)), (pa.decimal64(9, 3), pa.decimal32(7, 0))]
EXACT += [
    (pa.decimal256(12, 2), pa.decimal128(5, -2)),
    (pa.decimal128(8, 3), pa.int32()),
    (pa.decimal128(6, 6), pa.uint8()),
]
EXACT += [(pa.date32(), pa.date32()), (pa.date32(), pa.date64()), (pa.date32(), pa.timestamp("ms"))]
EXACT += [(pa.timestamp(u), pa.timestamp(u)) for u in UNIT] + [(pa.duration(u), pa.duration(u)) for u in UNIT]
EXACT += [(pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("us", "UTC")), (pa.time32("s"), pa.time64("ns"))]
EXACT += [(pa.time32("ms"), pa.time64("us"))]
LOOSE = [(pa.uint64(), pa.int64()), (pa.uint64(), pa.int8()), (pa.timestamp("s"), pa.timestamp("ns"))]
LOOSE += [
    (pa.date32(), pa.timestamp("us")),
    (pa.date64(), pa.timestamp("ns")),
    (pa.duration("ms"), pa.duration("us")),
]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view()]
LOOSE += [(pa.string(), text) for text in TEXTS] + [(pa.binary(), binary) for binary in BINARIES]


def both_columns(left: pa.DataType, right: pa.DataType, data: st.DataObject) -> tuple[np.ndarray, list[Any]]:
    """Codes of drawn columns of both types, and the keys that say how SQL orders the values."""
    domain = common_domain(left, right, ordered=True)
    assert domain is not None
    assert domain.ordered
    codes, keys = [], []
    for type in (left, right):
        values = data.draw(st.lists(strategy(type), min_size=1, max_size=6))
        found, valid = domain.codes(array(values, type))
        assert valid is None
        assert found.dtype == np.int64
        assert found.flags.c_contiguous
        assert found.flags.writeable  # or Numba would compile every kernel twice
        codes.append(found)
        compared = left if pa.types.is_floating(left) and pa.types.is_integer(type) else type
        keys += [sql_key(value, compared) for value in values]
    return np.concatenate(codes), keys


@pytest.mark.parametrize(("left", "right"), EXACT, ids=str)
@FEWER
@given(data=st.data())
def test_codes_compare_as_the_values_do(left: pa.DataType, right: pa.DataType, data: st.DataObject) -> None:
    domain = common_domain(left, right, ordered=True)
    assert domain is not None
    assert domain.exact
    codes, keys = both_columns(left, right, data)
    for (a, x), (b, y) in itertools.combinations(zip(codes, keys, strict=True), 2):
        assert (a < b, a == b) == (_below(x, y), x == y)
    values = domain.values(np.sort(codes))
    assert np.isfinite(values).all()
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize(("left", "right"), LOOSE, ids=str)
@FEWER
@given(data=st.data())
def test_loose_codes_never_contradict_the_order(
    left: pa.DataType, right: pa.DataType, data: st.DataObject
) -> None:
    domain = common_domain(left, right, ordered=True)
    assert domain is not None
    assert not domain.exact
    codes, keys = both_columns(left, right, data)
    for (a, x), (b, y) in itertools.combinations(zip(codes, keys, strict=True), 2):
        assert not _below(x, y) or a <= b
        assert x != y or a == b
    assert (np.diff(domain.values(np.sort(codes))) >= 0).all()


def _below(x: Any, y: Any) -> bool:
    return bool(x < y)


@given(st.lists(decimals(38, 10), min_size=2, max_size=8))
def test_wide_decimals_are_near_their_double(values: list[Decimal]) -> None:
    domain = common_domain(pa.decimal128(38, 10), pa.int64(), ordered=True)
    assert domain is not None
    assert not domain.exact
    codes, _ = domain.codes(pa.array(values, pa.decimal128(38, 10)))
    doubles = common_domain(pa.float64(), pa.float64(), ordered=True)
    assert doubles is not None
    expected, _ = doubles.codes(pa.array([float(value) for value in values]))
    assert np.abs(codes - expected).max() <= 4


@pytest.mark.parametrize("type", TEXTS + BINARIES + [pa.binary(3)], ids=str)
@FEWER
@given(data=st.data())
def test_equal_bytes_have_equal_hashes_in_every_layout(type: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(strategy(type), max_size=8))
    if pa.types.is_fixed_size_binary(type):
        values = [value.ljust(3, b"x")[:3] for value in values]
    domain = common_domain(type, type, ordered=False)
    assert domain is not None
    assert not domain.ordered
    codes, _ = domain.codes(array(values, type))
    base = pa.string() if type in TEXTS else pa.binary()
    again, _ = domain.codes(pa.array(values, base))
    encoded, _ = domain.codes(pa.array(values, base).dictionary_encode())
    assert codes.tolist() == again.tolist() == encoded.tolist()
    assert len(set(codes.tolist())) == len(set(values))


def test_hashes_of_many_texts_are_spread() -> None:
    domain = common_domain(pa.string(), pa.string(), ordered=False)
    assert domain is not None
    codes, _ = domain.codes(pa.array([f"key {i}" for i in range(50_000)]))
    assert np.unique(codes).size == codes.size
    assert np.bincount(codes & 255, minlength=256).max() < 300  # 195 each if all were even
    assert np.bincount((codes >> 56) + 128, minlength=256).max() < 300


def test_mix_tells_columns_and_their_order_apart() -> None:
    a, b = (grid.ravel() for grid in np.meshgrid(np.arange(300), np.arange(300)))
    mixed = mix([a, b])
    assert mixed.dtype == np.int64
    assert np.unique(mixed).size == a.size
    assert np.count_nonzero(mixed == mix([b, a])) == 300  # only where both are the same
    assert mix([a[:5], b[:5]]).tolist() == mixed[:5].tolist()


@pytest.mark.parametrize(
    "type",
    [pa.int64(), pa.int16(), pa.float64(), pa.bool_(), pa.decimal128(14, 2), pa.date32(), pa.string()],
    ids=str,
)
def test_nulls_are_masked_or_get_one_code(type: pa.DataType) -> None:
    domain = common_domain(type, type, ordered=True)
    assert domain is not None
    column = pa.array([1, None, 0, None], pa.int32())
    column = column.cast(pa.string()) if type == pa.string() else column.cast(type)
    for layout in (column, column.slice(1), column.dictionary_encode(), column.dictionary_encode("encode")):
        codes, valid = domain.codes(layout)
        assert valid is not None
        assert valid.tolist() == layout.is_valid().to_pylist() or pa.types.is_dictionary(layout.type)
        assert valid.tolist() == [value is not None for value in layout.to_pylist()]
        filled, none = domain.codes(layout, null_code=True)
        assert none is None
        assert (filled[~valid] == NULL_CODE).all()
        assert (filled[valid] == codes[valid]).all()
        lo, hi = domain.bounds(filled, Interval(0, 0), "left")
        assert (lo == filled).all()
        assert (hi == filled).all()


def test_null_columns_and_empty_columns_have_codes() -> None:
    for type in (
        pa.int64(),
        pa.uint64(),
        pa.float32(),
        pa.decimal128(5, 1),
        pa.decimal128(30, 1),
        pa.string(),
        pa.date32(),
    ):
        domain = common_domain(pa.null(), type, ordered=True)
        assert domain is not None
        codes, valid = domain.codes(pa.nulls(3))
        assert codes.size == 3
        assert valid is not None
        assert not valid.any()
        empty, valid = domain.codes(pa.array([], type))
        assert (empty.size, empty.dtype, valid) == (0, np.int64, None)
        assert domain.codes(pa.array([], type).dictionary_encode())[0].size == 0
    assert common_domain(pa.null(), pa.null(), ordered=True) is not None


def test_int64_codes_are_the_columns_own_memory() -> None:
    domain = common_domain(pa.int64(), pa.int64(), ordered=True)
    assert domain is not None
    for column in (pa.array(range(9)), pa.py_buffer(np.arange(9).tobytes())):
        if isinstance(column, pa.Buffer):  # memory that Arrow calls immutable
            column = pa.Array.from_buffers(pa.int64(), 9, [None, column])
        codes, _ = domain.codes(column.slice(2))
        assert codes.__array_interface__["data"][0] == column.buffers()[1].address + 16
        assert codes.tolist() == list(range(2, 9))
        assert codes.flags.writeable


def test_run_end_encoded_columns_are_read() -> None:
    column = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([7, None]))
    domain = common_domain(column.type, pa.int64(), ordered=True)
    assert domain is not None
    codes, valid = domain.codes(column)
    assert valid is not None
    assert valid.tolist() == [True, True, False]
    assert codes[:2].tolist() == [7, 7]


@pytest.mark.parametrize(
    ("left", "right", "name"),
    [
        (pa.int64(), pa.float64(), "float64"),
        (pa.int64(), pa.float32(), "float32"),
        (pa.decimal128(5, 2), pa.float32(), "float64"),
        (pa.int32(), pa.decimal128(5, 2), "decimal(2)"),
        (pa.int64(), pa.decimal128(5, 2), "wide decimal(2)"),
        (pa.uint64(), pa.uint64(), "uint"),
        (pa.date32(), pa.timestamp("s"), "timestamp[s]"),
        (pa.timestamp("s", "UTC"), pa.timestamp("us", "Asia/Tokyo"), "timestamp[us]"),
        (pa.dictionary(pa.int8(), pa.string()), pa.string_view(), "text prefix"),
        (pa.int64(), pa.string(), None),
        (pa.bool_(), pa.int8(), None),
        (pa.string(), pa.binary(), None),
        (pa.timestamp("s", "UTC"), pa.timestamp("s"), None),
        (pa.date32(), pa.timestamp("s", "UTC"), None),
        (pa.date32(), pa.int32(), None),
        (pa.time32("s"), pa.duration("s"), None),
        (pa.list_(pa.int8()), pa.list_(pa.int8()), None),
        (pa.month_day_nano_interval(), pa.month_day_nano_interval(), None),
    ],
    ids=str,
)  # fmt: skip
def test_common_domains_follow_spark(left: pa.DataType, right: pa.DataType, name: str | None) -> None:
    for types in ((left, right), (right, left)):
        domain = common_domain(*types, ordered=True)
        assert (domain and domain.name) == name


MISUSES: list[Callable[[], object]] = [
    lambda: Interval(math.inf, None),
    lambda: Interval(0, 0, form="add"),  # type: ignore[arg-type]
    lambda: common_domain(pa.int64(), pa.int64(), ordered=True).codes(pa.array(["a"])),  # type: ignore[union-attr]
    lambda: common_domain(pa.float64(), pa.float64(), ordered=True).codes(pa.array(["a"])),  # type: ignore[union-attr]
    lambda: common_domain(pa.string(), pa.string(), ordered=True).codes(pa.array([1])),  # type: ignore[union-attr]
    lambda: common_domain(pa.string(), pa.string(), ordered=True).bounder(Interval(1, 1), "left"),  # type: ignore[union-attr]
    lambda: common_domain(pa.string(), pa.string(), ordered=False).bounder(Interval(0), "left"),  # type: ignore[union-attr]
    lambda: common_domain(pa.float32(), pa.float32(), ordered=True).bounder(Interval(1e300), "left"),  # type: ignore[union-attr]
]


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_says_what_must_be(misuse: Callable[[], object]) -> None:
    with pytest.raises(WatersmeetError, match=r"must be|must have"):
        misuse()


def test_a_decimal_of_18_digits_is_exact() -> None:
    domain = common_domain(pa.decimal128(18, 0), pa.decimal128(18, 0), ordered=True)
    assert domain is not None
    with localcontext() as context:
        context.prec = 40
        values = [Decimal(10**18 - 1), Decimal(-(10**18) + 1)]
        assert domain.codes(pa.array(values, pa.decimal128(18, 0)))[0].tolist() == [10**18 - 1, -(10**18) + 1]
