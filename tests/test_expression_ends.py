"""Every operator and function, with NULL in each place and on the ends of every type: only values come out, or our own error."""

# ruff: noqa: SIM905  (words are easier to read as words)

import datetime as dt
from decimal import Decimal, localcontext
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from watersmeet.errors import ConditionError
from watersmeet.sql import evaluate, moments
from watersmeet.sql.bind import Binder
from watersmeet.sql.parse import parse_condition
from watersmeet.sql.syntax import Source, Syntax

NAN, INF = float("nan"), float("inf")
ROWS = 8

CASTS = """TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL(1,0) DECIMAL(38,0) DECIMAL(38,38) DECIMAL(76,30) BOOLEAN STRING BINARY
DATE TIMESTAMP TIMESTAMP_LTZ"""
OF_ONE = [f"CAST({{a}} AS {name})" for name in CASTS.split()] + [
    "-{a}", "ABS({a})", "SQRT({a})", "FLOOR({a})", "CEIL({a})", "UPPER({a})", "LOWER({a})", "LENGTH({a})", "YEAR({a})", "MONTH({a})",
    "DAY({a})", "TO_DATE({a})", "NOT {a}", "{a} IS NULL", "{a} + INTERVAL 1 MONTH", "{a} - INTERVAL 1000000000 MONTH",
    "{a} - INTERVAL 1 HOUR", "{a} + INTERVAL 1 DAY", "{a} - INTERVAL 1000000 DAYS", "{a} + INTERVAL 1 MICROSECOND", "{a} * 2",
    "{a} + 1", "{a} - 1.5", "1.5 * {a}", "{a} / 0", "{a} % 0", "{a} DIV 0", "{a} DIV -1", "{a} > 2.5", "{a} = 1e300",
    "{a} = 99999999999999999999999999999999999999", "{a} > '2024-01-01'", "{a} < DATE '2024-01-01'",
    "{a} < TIMESTAMP '2024-01-01 00:00:00'", "{a} < INTERVAL 1 DAY", "{a} IN (1, 2.5, NULL)", "ADD_MONTHS({a}, 9223372036854775807)",
    "DATE_ADD({a}, 2147483647)", "SUBSTRING({a}, 9223372036854775807)", "SUBSTRING({a}, -9223372036854775807)",
    "SUBSTRING({a}, 1, 9223372036854775807)",
]  # fmt: skip
OF_TWO = [f"{{a}} {op} {{b}}" for op in "+ - * / % DIV = <=> <> < <= > >= AND OR || LIKE ILIKE".split()] + [
    "COALESCE({a}, {b})", "LEAST({a}, {b})", "GREATEST({a}, {b})", "NULLIF({a}, {b})", "CASE WHEN {a} = {b} THEN {a} ELSE {b} END",
    "CASE WHEN {a} THEN {b} END", "{a} IN ({b}, 1)", "POWER({a}, {b})", "DATE_ADD({a}, {b})", "DATE_SUB({a}, {b})", "DATEDIFF({a}, {b})",
    "ADD_MONTHS({a}, {b})", "SUBSTRING({a}, {b})", "SUBSTRING('abc', {a}, {b})", "{a} BETWEEN {b} AND {b}", "IF({a}, {b}, {b})",
    "{a} - {b} < INTERVAL 1 DAY", "CONCAT({a}, {b})", "ABS({a} - {b}) <= 1.5",
]  # fmt: skip


def counts(bits: int, *, signed: bool = True) -> list[int | None]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [low, low + 1, 0, 1, high - 1, high, None, high // 2]


def decimals(precision: int, scale: int) -> pa.Array:
    with localcontext() as context:
        context.prec = 100
        most, least = (Decimal(number).scaleb(-scale) for number in (10**precision - 1, 1))
        values = [most, -most, least, -least, 5 * least, -5 * least, Decimal(0), None]
    return pa.array(
        values, pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    )


def stored(values: list[Any], type_: pa.DataType, as_: pa.DataType) -> pa.Array:
    return pa.array(values, type_).cast(as_)


ENDS: dict[str, pa.Array] = {
    "i64": pa.array(counts(64), pa.int64()),
    "i8": pa.array(counts(8), pa.int8()),
    "u64": pa.array(counts(64, signed=False), pa.uint64()),
    "f32": pa.array([-INF, -3.4028234663852886e38, -0.0, 1e-45, 3.4028234663852886e38, INF, None, NAN], pa.float32()),
    "f64": pa.array([-INF, -1.7976931348623157e308, -0.0, 5e-324, 1.7976931348623157e308, INF, None, NAN]),
    "m38_10": decimals(38, 10),
    "m76_76": decimals(76, 76),
    "m5_neg3": decimals(5, -3),
    "date": stored(counts(32), pa.int32(), pa.date32()),
    "us": stored(counts(64), pa.int64(), pa.timestamp("us")),
    "zone": stored(counts(64), pa.int64(), pa.timestamp("ns", "UTC")),
    "span": stored(counts(64), pa.int64(), pa.duration("s")),
    "text": pa.array(["", "\x00", "9" * 400, "-1e999", None, "\U0010ffff", "9999-12-31 23:59:59.9+18:00", "-5877641-06-23"]),
    "bytes": pa.array([b"", b"\xff", b"\x00", b"1", None, b"a", b"b", b"c"]),
    "truth": pa.array([True, False, None, True, False, None, True, True]),
}  # fmt: skip
MORE: dict[str, pa.Array] = {
    "i16": pa.array(counts(16), pa.int16()),
    "i32": pa.array(counts(32), pa.int32()),
    "u8": pa.array(counts(8, signed=False), pa.uint8()),
    "u32": pa.array(counts(32, signed=False), pa.uint32()),
    **{f"m{p}_{s}": decimals(p, s) for p, s in ((1, 0), (1, 1), (18, 9), (38, 0), (38, 38), (76, 0), (50, 20))},
    "huge": pa.Array.from_buffers(pa.decimal128(38, -50), ROWS, decimals(38, 0).buffers()),
    **{unit: stored(counts(64), pa.int64(), pa.timestamp(unit)) for unit in ("s", "ms", "ns")},
    **{f"span_{unit}": stored(counts(64), pa.int64(), pa.duration(unit)) for unit in ("ms", "us", "ns")},
    "time32": stored([0, 86_399, None, 1, 2, 3, 4, 5], pa.int32(), pa.time32("s")),
    "time64": stored([0, 86_399_999_999_999, None, 1, 2, 3, 4, 5], pa.int64(), pa.time64("ns")),
    "patterns": pa.array(["%", "\\", "_", "NaN", None, "ß", "0001-01-01 00:00:00", "1e-400"]),
}  # fmt: skip


def value(text: str, columns: dict[str, pa.Array]) -> pa.Array | None:
    """The value of an expression; None if it is refused."""
    schemas = {"r": pa.schema({name: column.type for name, column in columns.items()})}
    try:
        tree = Binder(Source(text, "condition"), schemas).bind(parse_condition(text))
    except ConditionError:
        return None
    result = evaluate(tree, {("r", name): column for name, column in columns.items()}, ROWS)
    result.validate(full=True)
    assert (result.type, len(result)) == (tree.type, ROWS)
    return result


def sweep(shapes: list[str], columns: dict[str, pa.Array], names: list[str]) -> int:
    """How many of the texts have a value."""
    found = 0
    for shape in shapes:
        for a, b in product(names, names if "{b}" in shape else [""]):
            text = shape.format(a=a, b=b)
            try:
                found += value(text, columns) is not None
            except Exception as error:
                raise AssertionError(f"{text}: {error!r}") from error
    return found


def test_every_function_of_the_ends_of_a_type_has_a_value() -> None:
    assert sweep(OF_ONE, ENDS | MORE, [*ENDS, *MORE]) > 800


def test_every_operation_on_the_ends_of_two_types_has_a_value() -> None:
    few = ["i64", "u64", "f32", "m38_10", "m5_neg3", "date", "us", "span", "text"]
    assert sweep(OF_TWO, ENDS, few) > 500


@pytest.mark.slow
def test_nor_do_any_two_types_raise() -> None:
    assert sweep(OF_TWO, ENDS | MORE, [*ENDS, *MORE]) > 10_000


def test_no_operation_is_left_out() -> None:
    def operations(node: Syntax) -> set[str]:
        return {node.op}.union(*(operations(arg) for arg in node.args))

    texts = [shape.format(a="r.x", b="r.y") for shape in (*OF_ONE, *OF_TWO)]
    assert set(Binder(Source("", "condition"), {}).rules) == set().union(
        *(operations(parse_condition(text)) for text in texts)
    )


def test_months_stop_at_the_ends_of_dates_and_timestamps() -> None:
    date = {"d": ENDS["date"]}
    days = [-(2**31), -(2**31) + 1, 0, 1, 2**31 - 2, 2**31 - 1, None, 2**30 - 1]
    for text in ("ADD_MONTHS(d, 0)", "d + INTERVAL 0 MONTH"):
        assert value(text, date).cast(pa.int32()).to_pylist() == days
    forth, back = (value(f"ADD_MONTHS(d, {by})", date).cast(pa.int32()).to_pylist() for by in (4800, -4800))
    assert forth == [None if day is None else min(day + 146_097, 2**31 - 1) for day in days]
    assert back == [None if day is None else max(day - 146_097, -(2**31)) for day in days]
    for unit, size in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        for by in (0, 4800, -4800, 48 * 10**6, 2**62, -(2**62)):
            column = stored(counts(64), pa.int64(), pa.timestamp(unit))
            moved = moments.add_months(column, pa.scalar(by), column.type).cast(pa.int64()).to_pylist()
            by_ticks = by // 4800 * 146_097 * 86_400 * size
            exact = [None if count is None else count + by_ticks for count in counts(64)]
            assert moved == [
                None if count is None else min(max(count, -(2**63)), 2**63 - 1) for count in exact
            ]


def test_many_months_are_no_fewer() -> None:
    far = value("ADD_MONTHS(d, 48000000)", {"d": pa.array([0] * ROWS, pa.int32()).cast(pa.date32())})
    assert far.cast(pa.int32()).to_pylist() == [1_460_970_000] * ROWS
    by = pa.array(counts(64, signed=False), pa.uint64())
    found = value("ADD_MONTHS(d, u)", {"d": pa.array([0] * ROWS, pa.int32()).cast(pa.date32()), "u": by})
    last = 2**31 - 1
    assert found.cast(pa.int32()).to_pylist() == [0, 31, 0, 31, last, last, None, last]


def test_whole_numbers_are_their_own_floor_and_ceiling() -> None:
    for name in ("i64", "i8", "u64", "m5_neg3"):
        for function in ("FLOOR", "CEIL"):
            assert value(f"{function}({name})", ENDS).to_pylist() == ENDS[name].to_pylist()
    assert value("FLOOR(m76_76)", ENDS).to_pylist() == [0, -1, 0, -1, 0, -1, 0, None]
    assert value("CEIL(m76_76)", ENDS).to_pylist() == [1, 0, 1, 0, 1, 0, 0, None]


def test_a_decimal_with_a_negative_scale_is_a_number_like_others() -> None:
    most = 99_999_000
    assert value("m5_neg3 + 1", ENDS).to_pylist()[:4] == [most + 1, 1 - most, 1001, -999]
    assert value("m5_neg3 > 1000.5", ENDS).to_pylist()[:4] == [True, False, False, False]
    assert value("huge > 1e80", MORE).to_pylist()[:3] == [True, False, False]


# NULL


NULLS = {f"{name}_null": pa.nulls(ROWS, column.type) for name, column in ENDS.items()}
UNTYPED = ["open", "NULL"]


def comparable(found: pa.Array | None) -> list[Any]:
    """Values whatever their type: a date is its midnight, a float near enough to a decimal is it."""
    assert found is not None
    if pa.types.is_date(found.type):
        found = found.cast(pa.int32()).cast(pa.int64())
        return [None if days is None else days * 86_400_000_000 for days in found.to_pylist()]
    if pa.types.is_timestamp(found.type):
        return found.cast(pa.timestamp("us", found.type.tz)).cast(pa.int64()).to_pylist()
    if pa.types.is_duration(found.type):
        return found.cast(pa.int64()).to_pylist()
    return ["NaN" if item != item else float(item) if isinstance(item, Decimal) else item for item in found.to_pylist()]  # fmt: skip


SMALL: dict[str, pa.Array] = {
    "i": pa.array([1, 2, None, 4, 5, 6, 7, 8], pa.int32()),
    "f": pa.array([0.5, 2.0, None, 1.5, NAN, -1.0, 0.0, 8.0]),
    "m": pa.array([1, 2, None, 4, 5, 6, 7, 8], pa.decimal128(10, 2)),
    "d": pa.array([dt.date(2024, 1, 31)] * 7 + [None], pa.date32()),
    "t": pa.array([dt.datetime(2024, 1, 31, 12)] * 7 + [None], pa.timestamp("us")),
    "l": pa.array([dt.timedelta(hours=1)] * 7 + [None], pa.duration("us")),
    "n": pa.array(["a", "2024-01-31", None, "1", "", "x", "y", "z"]),
    "b": pa.array([True, False, None, True, False, None, True, True]),
}


@pytest.mark.parametrize("shape", [*OF_ONE, *OF_TWO])
def test_null_without_a_type_gives_what_null_of_any_type_gives(shape: str) -> None:
    columns = SMALL | NULLS | {"open": pa.nulls(ROWS)}
    fillings: list[dict[str, str]] = [{"a": "{x}", "b": other} for other in SMALL]
    if "{b}" in shape:
        fillings += [{"a": other, "b": "{x}"} for other in SMALL] + [{"a": "{x}", "b": "{x}"}]
    else:
        fillings = fillings[:1]
    for filling in fillings:
        text = shape.format(**filling)
        typed = [value(text.format(x=name), columns) for name in NULLS]
        expected = [comparable(found) for found in typed if found is not None]
        for null in UNTYPED:
            found = value(text.format(x=null), columns)
            if found is not None:
                assert all(other == comparable(found) for other in expected), (text, null)
            elif (
                expected
            ):  # refused as NULL though a type would do: then only for what does not tell the type
                assert any(word in shape for word in ("INTERVAL", "'2024", "DATE '", "STAMP '")), (text, null)
