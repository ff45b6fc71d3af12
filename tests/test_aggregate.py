"""Aggregates against the oracle: all types, in every split, with rows that go again, marks taken back, and saved states."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import aggregate_oracle as oracle
from harness import examples
from watersmeet.aggregate import sums
from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.spec import FUNCTIONS, PICKS, Aggregate, Grouping
from watersmeet.errors import DataError, OptionError, SchemaError, StateError

EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    1e300,
    -1e300,
    1.7976931348623157e308,
    5e-324,
    -2.2250738585072014e-308,
    3e16,
]
REALS = st.sampled_from([*EDGES, math.nan, math.inf, -math.inf]) | st.floats(width=64)
TEXTS = [
    "abcdefgh",
    "abcdefgh\0",
    "abcdefgha",
    "abcdefghb",
    "abcdefg",
    "abcdefg\0",
    "",
]  # alike in their first eight bytes
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))


def whole(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.sampled_from([low, high, 0, 1]) | st.integers(low, high)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    top = 10**precision - 1
    return (st.sampled_from([top, -top, 0, 1, 5]) | st.integers(-top, top)).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
    )


KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), whole(8)),
    "int32": (pa.int32(), whole(32)),
    "int64": (pa.int64(), whole(64)),
    "uint32": (pa.uint32(), whole(32, signed=False)),
    "uint64": (pa.uint64(), whole(64, signed=False)),
    "float32": (pa.float32(), st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan, math.inf])),
    "float64": (pa.float64(), REALS),
    "decimal(5, 2)": (pa.decimal128(5, 2), decimals(5, 2)),
    "decimal(38, 10)": (pa.decimal128(38, 10), decimals(38, 10)),
    "decimal(38, 38)": (pa.decimal128(38, 38), decimals(38, 38)),
    "decimal(60, 7)": (pa.decimal256(60, 7), decimals(60, 7)),
    "decimal64": (pa.decimal64(16, 3), decimals(16, 3)),
    "string": (pa.string(), st.text("aä\0", max_size=10) | st.sampled_from(TEXTS)),
    "large_string": (pa.large_string(), st.text("ab", max_size=10)),
    "binary": (pa.binary(), st.binary(max_size=10)),
    "date": (pa.date32(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "timestamp": (pa.timestamp("us"), MOMENTS),
    "timestamp with zone": (
        pa.timestamp("us", "UTC"),
        MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    ),
    "null": (pa.null(), st.none()),
}
NUMBERS = [name for name in KINDS if name.startswith(("int", "uint", "float", "decimal", "null"))]
TIMES = ["int64", "float64", "timestamp", "date", "decimal(38, 10)"]


def functions(kind: str) -> list[str]:
    ends = [name for name in FUNCTIONS if name not in PICKS]
    return ends if kind in NUMBERS else ["count", "count_distinct", "min", "max"]


@st.composite
def groupings(draw: st.DrawFn) -> tuple[Grouping, pa.Schema, st.SearchStrategy[Any]]:
    """A grouping, the schema of its rows, and rows of few different values, so that groups and values are met again."""
    keys = draw(st.lists(st.sampled_from(list(KINDS)), max_size=2))
    columns = {f"k{i}": kind for i, kind in enumerate(keys)}
    columns |= {
        "x": draw(st.sampled_from(list(KINDS))),
        "y": draw(st.sampled_from(NUMBERS)),
        "t": draw(st.sampled_from(TIMES)),
    }
    asked = [(function, name, None) for name in "xy" for function in functions(columns[name])]
    asked += [(function, name, "t") for function in PICKS for name in "xy"]
    asked += [("count", None, None)]
    chosen = draw(st.lists(st.sampled_from(asked), min_size=1, max_size=6, unique=True))
    aggregates = [Aggregate(function, column, f"a{i}", by) for i, (function, column, by) in enumerate(chosen)]
    schema = pa.schema([(name, KINDS[kind][0]) for name, kind in columns.items()])
    cells = {
        name: st.sampled_from(draw(st.lists(st.none() | KINDS[kind][1], min_size=1, max_size=4)))
        for name, kind in columns.items()
    }
    return (
        Grouping(tuple(f"k{i}" for i in range(len(keys))), tuple(aggregates)),
        schema,
        st.fixed_dictionaries(cells),
    )


def batch(rows: list[oracle.Row], schema: pa.Schema) -> pa.RecordBatch:
    """Rows, not at the start of their buffers."""
    filler = dict.fromkeys(schema.names)
    return pa.RecordBatch.from_pylist([filler, *rows], schema).slice(1)


def expected(rows: list[tuple[int, oracle.Row]], totals: Aggregation) -> dict[tuple[Any, ...], oracle.Row]:
    grouping = totals.grouping
    asks = {one.name: (one.function, one.column, one.by) for one in grouping.aggregates}
    kinds: dict[str, Any] = {}
    for name in asks:
        kind = totals.schema.field(name).type
        kinds[name] = (
            (kind.precision, kind.scale)
            if pa.types.is_decimal(kind)
            else int
            if kind == pa.int64()
            else float
        )
    return oracle.answer(rows, list(grouping.keys), asks, kinds)


def found(answer: pa.RecordBatch, keys: int) -> dict[tuple[Any, ...], oracle.Row]:
    groups = {}
    for row in answer.to_pylist():
        key = tuple(oracle.normal(row.pop(name)) for name in answer.schema.names[:keys])
        assert key not in groups
        groups[key] = row
    return groups


def plain(groups: dict[tuple[Any, ...], oracle.Row]) -> Any:
    """Comparable: NaN equals NaN, -0.0 is 0.0."""
    return {key: {name: oracle.normal(value) for name, value in row.items()} for key, row in groups.items()}


def check(totals: Aggregation, rows: list[tuple[int, oracle.Row]]) -> None:
    answer = totals.answer()
    assert answer.schema.equals(totals.schema)
    assert plain(found(answer, len(totals.grouping.keys))) == plain(expected(rows, totals))


class Run:
    """An aggregation, and the rows that it should hold."""

    def __init__(self, totals: Aggregation, schema: pa.Schema) -> None:
        self.totals, self.schema = totals, schema
        self.rows: list[tuple[int, oracle.Row]] = []

    def add(self, rows: list[oracle.Row]) -> None:
        self.rows = [*self.rows, *enumerate(rows, self.totals.arrived)]
        self.totals.add(batch(rows, self.schema))

    def retract(self, places: list[int]) -> None:
        chosen = {place % len(self.rows) for place in places} if self.rows else set()
        gone = [self.rows[place] for place in chosen]
        self.rows = [row for place, row in enumerate(self.rows) if place not in chosen]
        numbers = np.array([number for number, _ in gone], np.int64)
        self.totals.retract(batch([row for _, row in gone], self.schema), numbers)


@pytest.mark.parametrize("kind", NUMBERS)
@given(data=st.data())
@examples(15)
def test_all_aggregates_of_a_type_are_exact(kind: str, data: st.DataObject) -> None:
    schema = pa.schema([("x", KINDS[kind][0])])
    aggregates = [Aggregate(function, "x", function) for function in functions(kind)]
    totals = Aggregation(Grouping((), tuple(aggregates)), schema)
    run = Run(totals, schema)
    check(totals, [])
    run.add([{"x": x} for x in data.draw(st.lists(st.none() | KINDS[kind][1], max_size=12))])
    check(totals, run.rows)


def test_results_by_hand() -> None:
    """Ties of decimal averages go away from zero; a sum is NULL only as long as it does not fit; NaN and infinities go again."""
    schema = pa.schema([("d", pa.decimal128(5, 0)), ("i", pa.int64()), ("x", pa.float64())])
    asked = (
        Aggregate("avg", "d", "d"),
        Aggregate("sum", "i", "i"),
        Aggregate("sum", "x", "x"),
        Aggregate("var_pop", "x", "v"),
    )
    run = Run(Aggregation(Grouping((), asked), schema), schema)
    empty = {"d": Decimal(0), "i": None, "x": None}
    run.add([{"d": Decimal(-1), "i": 2**63 - 1, "x": math.inf}, {"d": Decimal(0), "i": 1, "x": -math.inf}])
    run.add(
        [{"d": Decimal(0), "i": -1, "x": math.nan}, {"d": Decimal(0), "i": None, "x": 0.1}, *[empty] * 28]
    )
    first = run.totals.answer().to_pylist()[0]
    assert first["d"] == Decimal("-0.0313")  # -1 / 32 is -0.03125
    assert (first["i"], str(first["x"]), str(first["v"])) == (2**63 - 1, "nan", "nan")
    run.retract([2])
    assert run.totals.answer().to_pylist()[0]["i"] is None
    run.retract([1])
    assert run.totals.answer().to_pylist()[0]["x"] == math.inf
    run.retract([0])
    assert run.totals.answer().to_pylist() == [{"d": Decimal(0), "i": None, "x": 0.1, "v": 0.0}]


def test_limbs_are_carried_before_they_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "LIMIT", 10)
    test_rows_come_and_go_in_any_split()


@given(data=st.data(), retracts=st.booleans())
@examples(150)
def test_rows_come_and_go_in_any_split(data: st.DataObject, retracts: bool) -> None:
    grouping, schema, row = data.draw(groupings())
    run = Run(Aggregation(grouping, schema, retracts=retracts), schema)
    for _ in range(data.draw(st.integers(1, 6))):
        run.add(data.draw(st.lists(row, max_size=8)))
        if retracts:
            run.retract(data.draw(st.lists(st.integers(0, 99), max_size=8)))
        if data.draw(st.booleans()):
            check(run.totals, run.rows)
    check(run.totals, run.rows)
    if retracts:
        run.retract(list(range(len(run.rows))))
        check(run.totals, [])
        if grouping.keys:
            assert run.totals.answer().num_rows == 0


@given(data=st.data(), changes=st.booleans())
@examples(100)
def test_calls_are_taken_back(data: st.DataObject, changes: bool) -> None:
    grouping, schema, row = data.draw(groupings())
    run = Run(Aggregation(grouping, schema, changes=changes), schema)
    for _ in range(data.draw(st.integers(1, 4))):
        before, mark = run.rows, run.totals.mark()
        for _ in range(data.draw(st.integers(1, 3))):
            run.add(data.draw(st.lists(row, max_size=6)))
            run.retract(data.draw(st.lists(st.integers(0, 99), max_size=6)))
            if changes and data.draw(st.booleans()):
                run.totals.changes()
        if data.draw(st.booleans()):
            run.totals.back_to(mark)
            run.rows = before
        check(run.totals, run.rows)


@given(data=st.data())
@examples(100)
def test_changes_add_up_to_the_answer(data: st.DataObject) -> None:
    grouping, schema, row = data.draw(groupings())
    run = Run(Aggregation(grouping, schema, changes=True), schema)
    told: dict[tuple[Any, ...], oracle.Row] = {}
    keys = len(grouping.keys)
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.integers(0, 3)) == 0:
            mark = run.totals.mark()
            run.totals.changes()
            run.totals.back_to(mark)
        run.add(data.draw(st.lists(row, max_size=6)))
        run.retract(data.draw(st.lists(st.integers(0, 99), max_size=6)))
        if data.draw(st.integers(0, 3)) == 0:
            continue
        changes = run.totals.changes()
        note(f"{changes}")
        gone, come = plain(found(changes.gone, keys)), plain(found(changes.come, keys))
        for key, old in gone.items():
            assert told.pop(key) == old
            assert come.get(key) != old
        assert not set(told) & set(come)
        told |= come
        assert told == plain(expected(run.rows, run.totals))
        ended = [row for row in changes.update().to_pylist() if row["operation"] < 0]
        assert {tuple(oracle.normal(row[key]) for key in grouping.keys) for row in ended} == set(gone) - set(
            come
        )
        operations = changes.changelog().column("operation").to_pylist()
        assert operations == [-1] * len(gone) + [1] * len(come)


@given(data=st.data(), retracts=st.booleans(), changes=st.booleans())
@examples(100)
def test_a_snapshot_goes_on_as_if_nothing_had_been(
    data: st.DataObject, retracts: bool, changes: bool
) -> None:
    grouping, schema, row = data.draw(groupings())
    fresh = Aggregation(grouping, schema, retracts=retracts, changes=changes)
    run = Run(Aggregation(grouping, schema, retracts=retracts, changes=changes), schema)
    told: dict[tuple[Any, ...], oracle.Row] = {}
    for _ in range(data.draw(st.integers(1, 4))):
        run.add(data.draw(st.lists(row, max_size=6)))
        if retracts:
            run.retract(data.draw(st.lists(st.integers(0, 99), max_size=6)))
        if changes and data.draw(st.booleans()):
            _follow(told, run)
        if data.draw(st.booleans()):
            tables = run.totals.snapshot()
            files = {name: pa.ipc.open_file(_written(table)).read_all() for name, table in tables.items()}
            run.totals = fresh.restored(files)
        check(run.totals, run.rows)
    if changes:
        _follow(told, run)
        assert told == plain(expected(run.rows, run.totals))


def _written(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _follow(told: dict[tuple[Any, ...], oracle.Row], run: Run) -> None:
    """Apply the changes to what was told; nothing comes that was there, and nothing goes that was not."""
    changes, keys = run.totals.changes(), len(run.totals.grouping.keys)
    for key, old in plain(found(changes.gone, keys)).items():
        assert told.pop(key) == old
    come = plain(found(changes.come, keys))
    assert not set(told) & set(come)
    told |= come


def test_a_snapshot_of_something_else_is_refused() -> None:
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    one = Aggregation(Grouping(("k",), (Aggregate("count", None, "n"),)), schema)
    other = Aggregation(Grouping(("k",), (Aggregate("max", "s", "n"),)), schema)
    for tables, message in [(one.snapshot(), "of the same grouping"), ({}, "got nothing")]:
        with pytest.raises(StateError, match=message):
            other.restored(tables)
    tables = other.snapshot()
    del tables["bag 0"]
    with pytest.raises(StateError, match="'bag 0'"):
        other.restored(tables)


@pytest.mark.parametrize("retracts", [True, False])
def test_texts_that_nobody_holds_are_forgotten(retracts: bool) -> None:
    schema = pa.schema([("k", pa.string()), ("x", pa.string()), ("t", pa.int64())])
    asked = (Aggregate("min", "x", "least"), Aggregate("last", "x", "last", "t"))
    run = Run(Aggregation(Grouping(("k",), asked), schema, retracts=retracts), schema)
    for start in range(0, 20_000, 1000):
        run.add(
            [{"k": str(i if retracts else i % 5), "x": str(-i), "t": i} for i in range(start, start + 1000)]
        )
        if retracts and start:
            run.retract(list(range(1000)))
    check(run.totals, run.rows)
    assert all(len(codec) < 10_000 for codec in run.totals._state._codecs.values() if hasattr(codec, "arena"))


def test_values_that_no_longer_count_are_let_go() -> None:
    """The smallest value stays, so that none above it ever comes to the top."""
    schema = pa.schema([("x", pa.int64())])
    run = Run(Aggregation(Grouping((), (Aggregate("min", "x", "least"),)), schema), schema)
    run.add([{"x": -1}])
    for start in range(0, 30_000, 1000):
        run.add([{"x": start + i} for i in range(1000)])
        run.retract(list(range(1, 1001)))
    check(run.totals, run.rows)
    assert run.totals._state.bags[0].table.held_slots < 10_000


@pytest.mark.parametrize("kind", ["int64", "decimal(38, 10)", "string"])
def test_both_ends_of_many_values_that_come_and_go(kind: str) -> None:
    schema = pa.schema([("k", pa.int64()), ("x", KINDS[kind][0])])
    asked = (Aggregate("min", "x", "least"), Aggregate("max", "x", "most"))
    run, rng = Run(Aggregation(Grouping(("k",), asked), schema), schema), np.random.default_rng(3)
    make: dict[str, Any] = {
        "int64": int,
        "decimal(38, 10)": lambda n: Decimal(int(n) << 58).scaleb(
            -10
        ),  # the lower words run through all their range
        "string": lambda n: f"number {n:05}",
    }
    for _ in range(12):
        numbers = rng.integers(-300, 300, 60)
        run.add([{"k": int(n) % 3, "x": make[kind](n)} for n in numbers])
        run.retract(rng.integers(0, 10**6, 55).tolist())
        check(run.totals, run.rows)


def test_a_refused_call_changes_nothing() -> None:
    schema = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
    asked = (Aggregate("sum", "x", "total"), Aggregate("max", "s", "most"))
    run = Run(Aggregation(Grouping(("k",), asked), schema, changes=True), schema)
    run.add([{"k": 1, "x": 0.5, "s": "a"}, {"k": 2, "x": 1.5, "s": "b"}])
    wrong = [
        [{"k": 1, "x": 0.5, "s": "a"}, {"k": 3, "x": 0.5, "s": "a"}],
        [{"k": 1, "x": 0.5, "s": "a"}, {"k": 1, "x": 0.5, "s": "a"}],
        [{"k": 1, "x": 0.5, "s": "b"}],
    ]
    for rows in wrong * 2:
        with pytest.raises(DataError, match="only rows that were added can be retracted"):
            run.totals.retract(batch(rows, schema))
        check(run.totals, run.rows)
        run.totals.mark()
    with pytest.raises(SchemaError, match="column 'x' of type double"):
        run.totals.add(pa.record_batch({"k": [1], "x": [1], "s": ["a"]}))
    mark = run.totals.mark()
    run.totals.commit()
    with pytest.raises(StateError, match="last mark"):
        run.totals.back_to(mark)


def test_what_cannot_be_asked_is_refused() -> None:
    schema = pa.schema([("s", pa.string()), ("l", pa.list_(pa.int64())), ("x", pa.int64())])

    def make(*aggregates: Aggregate, keys: tuple[str, ...] = (), **options: bool) -> Aggregation:
        return Aggregation(Grouping(keys, aggregates), schema, **options)

    with pytest.raises(SchemaError, match="sum must be of integers"):
        make(Aggregate("sum", "s", "a"))
    with pytest.raises(SchemaError, match="column 'l' is list"):
        make(Aggregate("count", None, "n"), keys=("l",))
    with pytest.raises(SchemaError, match="in the schema once; got 'nope'"):
        make(Aggregate("count", "nope", "n"))
    with pytest.raises(SchemaError, match="must go by a time"):
        make(Aggregate("first", "x", "f", "s"))
    with pytest.raises(OptionError, match="unique; got n"):
        make(Aggregate("count", None, "n"), Aggregate("count", "x", "n"))
    with pytest.raises(OptionError, match="must be one of"):
        Aggregate("median", "x", "m")
    with pytest.raises(OptionError, match="must have a column"):
        Aggregate("sum", None, "m")
    with pytest.raises(OptionError, match="by="):
        Aggregate("first", "x", "f")
    with pytest.raises(OptionError, match="neither"):
        Grouping((), ())
    rows = pa.record_batch({"s": ["a"], "l": pa.array([[1]]), "x": [1]})
    running = make(Aggregate("count", "l", "n"), retracts=False)
    running.add(rows)
    assert running.answer().to_pylist() == [{"n": 1}]
    with pytest.raises(OptionError, match="retracts=True"):
        running.retract(rows)
    with pytest.raises(OptionError, match="changes=True"):
        running.changes()
    with pytest.raises(OptionError, match="arrival numbers"):
        make(Aggregate("first", "x", "f", "x")).retract(rows)
