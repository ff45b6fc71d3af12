"""Whatever has the Arrow PyCapsule interface goes in, and a result goes out to it."""

import datetime as dt
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import SchemaError

ROWS = {"k": [1, 2, 2], "name": ["a", "b", None], "x": [0.5, float("nan"), 2.0]}

SHAPES = {
    "dict of lists": lambda rows: rows,
    "dict of arrays": lambda rows: {**rows, "k": np.array(rows["k"]), "x": np.array(rows["x"])},
    "record batch": pa.record_batch,
    "table of chunks": lambda rows: pa.concat_tables([pa.table(rows).slice(0, 1), pa.table(rows).slice(1)]),
    "row dicts": lambda rows: [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)],
    "reader": lambda rows: pa.RecordBatchReader.from_batches(
        pa.table(rows).schema, pa.table(rows).to_batches(max_chunksize=2)
    ),
    "dict of series": lambda rows: {**rows, "k": pd.Series(rows["k"]), "x": pl.Series(rows["x"])},
    "dict of chunks": lambda rows: {**rows, "k": pa.chunked_array([rows["k"][:1], rows["k"][1:]])},
    "dict of iterables": lambda rows: {**rows, "k": iter(rows["k"]), "name": tuple(rows["name"])},
    "polars": pl.DataFrame,
    "pandas": pd.DataFrame,
    "duckdb": lambda rows: duckdb.from_arrow(pa.table(rows)),
    "text views": lambda rows: pa.table(rows).set_column(1, "name", pa.array(rows["name"], pa.string_view())),
    "binary views": lambda rows: pa.table(rows).set_column(
        1, "name", pa.array([n and n.encode() for n in rows["name"]], pa.binary_view())
    ),
    "dictionary": lambda rows: pa.table(rows).set_column(
        1, "name", pa.array(rows["name"]).dictionary_encode()
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_of_input_joins_the_same(shape: str) -> None:
    join = wm.StreamJoin("r.k = s.k AND r.name <= s.name", r=wm.Rows(10), s=wm.Rows(10), how="left")
    make: Any = SHAPES[shape]
    first = join.push(r=make(ROWS), s=make(ROWS))
    second = join.push(s=make(ROWS))  # the schema is known now
    assert sorted(zip(*first.pairs().values(), strict=True)) == [(0, 0), (1, 1)]
    assert sorted(zip(*second.pairs().values(), strict=True)) == [(0, 3), (1, 4)]
    assert first.to_arrow().num_rows == 2
    rest = join.finish().to_arrow()
    assert rest.column("r_k").to_pylist() == [2]
    assert rest.column("s_k").to_pylist() == [None]


def test_a_result_is_arrow_data_itself() -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(10), s=wm.Rows(10), select="r.k, s.name")
    result = join.push(r=ROWS, s=ROWS)
    assert pl.DataFrame(result).shape == (5, 2)
    assert pa.table(result).num_rows == 5
    assert len(result.to_pandas()) == 5
    assert duckdb.sql("select count(*) from result").fetchall() == [(5,)]


UTC = dt.UTC
NOON = dt.datetime(2024, 1, 1, 12)
MOMENT = pd.Timestamp("2024-01-01 00:00:00.000000001")
# (type of the column, what it cannot hold exactly, row); lists, NumPy, pandas and Arrow alike.
LOSSES: list[tuple[pa.DataType, Any, int]] = [
    (pa.int64(), [1, 1.5], 1),
    (pa.int64(), ["1"], 0),
    (pa.int64(), [1.0, float("nan")], 1),
    (pa.int64(), [True], 0),
    (pa.int64(), [3, 2**63], 1),
    (pa.int64(), [Decimal("1.5")], 0),
    (pa.int64(), np.array([0.0, 11.9]), 1),
    (pa.int64(), pd.Series([1.0, None, 0.5]), 2),
    (pa.int8(), [127, 128], 1),
    (pa.uint8(), [0, -1], 1),
    (pa.bool_(), [1], 0),
    (pa.bool_(), np.array([0, 1]), 0),
    (pa.float32(), [0.5, 0.1], 1),
    (pa.float32(), np.array([0.5, 1e300]), 1),
    (pa.float64(), [1.0, 2**53 + 1], 1),
    (pa.float64(), np.array([2**53 + 1]), 0),
    (pa.float64(), ["0.5"], 0),
    (pa.float64(), pa.array([Decimal("0.1")]), 0),
    (pa.decimal128(5, 1), [Decimal("1.5"), Decimal("1.25")], 1),
    (pa.decimal128(5, 1), [0.1], 0),
    (pa.decimal128(5, 1), [100000], 0),
    (pa.date32(), [dt.date(2024, 1, 1), NOON], 1),
    (pa.date32(), pa.array([NOON]), 0),
    (pa.date32(), pd.Series([None, dt.date(2024, 1, 1), NOON], dtype=object), 2),
    (pa.timestamp("ms"), pa.array([1000, 1500], pa.timestamp("us")), 1),
    (pa.timestamp("us"), [MOMENT], 0),
    (pa.timestamp("us"), [NOON, NOON.replace(tzinfo=UTC)], 1),
    (pa.timestamp("us"), [NOON.replace(tzinfo=UTC)], 0),
    (pa.timestamp("us", "UTC"), [NOON], 0),
    (pa.timestamp("us"), [5], 0),
    (pa.time32("s"), [dt.time(1, 2, 3, 4)], 0),
    (pa.duration("s"), [dt.timedelta(milliseconds=1)], 0),
    (pa.string(), [1], 0),
    (pa.string(), [b"a"], 0),
    (pa.binary(), ["a"], 0),
    (pa.binary(3), [b"abc", b"ab"], 1),
    (pa.list_(pa.int64()), [[1], [2.5]], 1),
    (pa.struct({"a": pa.int64()}), [{"a": 1}, {"a": "1"}], 1),
]


@pytest.mark.parametrize(("kind", "values", "row"), LOSSES, ids=lambda value: str(value)[:40])
def test_a_value_that_would_be_changed_is_refused_by_row(kind: pa.DataType, values: Any, row: int) -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(9), s=wm.Rows(9), schemas={"r": {"k": pa.int64(), "x": kind}})
    data = {"k": list(range(len(values))), "x": values}
    with pytest.raises(SchemaError, match=rf"column 'x' of stream 'r' must .*; got .* in row {row}\b"):
        join.push(r=data)
    assert join.stats()["streams"]["r"]["rows"] == 0


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [1.0, -3.0, None]),
        (pa.int64(), np.array([1, 2], np.uint8)),
        (pa.int32(), [2**31 - 1, -(2**31)]),
        (pa.uint64(), [2**64 - 1]),
        (pa.float64(), [1, 2**53, None]),
        (pa.float64(), np.array([2**60])),
        (pa.float64(), np.array([0.1], np.float32)),
        (pa.float32(), [0.5, float("nan"), float("inf")]),
        (pa.float32(), [np.float32(0.1)]),
        (pa.decimal128(5, 2), [1, Decimal("2.5"), None]),
        (pa.decimal128(38, 0), [10**30]),
        (pa.timestamp("us"), [dt.date(2024, 1, 1)]),
        (pa.timestamp("us"), [NOON, pd.NaT]),
        (pa.timestamp("ns"), [MOMENT]),
        (pa.timestamp("us", "Europe/Berlin"), [NOON.replace(tzinfo=UTC)]),
        (pa.date32(), [dt.datetime(2024, 1, 1)]),
        (pa.string(), np.array(["a", "b"])),
        (pa.large_string(), pd.Categorical(["a", "b", "a"])),
        (pa.binary(3), [b"abc"]),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], None]),
        (pa.list_(pa.int64()), [[1.0], np.array([2]), None]),
        (pa.uuid(), [b"0123456789abcdef"]),
        (pa.duration("ms"), np.array([3], "m8[h]")),
        (pa.date32(), np.array(["2024-02"], "M8[M]")),
        (pa.int64(), np.array([1, 2], ">i8")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_loses_nothing_is_taken(kind: pa.DataType, values: Any) -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(9), s=wm.Rows(9), schemas={"r": {"k": pa.int64(), "x": kind}})
    join.push(r={"k": [1] * len(values), "x": values})
    found = join.push(s={"k": [1]}).to_arrow().column("x")
    assert found.type == kind
    assert len(found) == len(values)
    assert found.null_count == sum(value is None or value is pd.NaT for value in values)


@pytest.mark.parametrize(
    "times", [[11.9], np.array([11.9]), pd.Series([11.9]), pa.array([11.9]), ["11"]], ids=str
)
def test_a_time_is_not_cut_to_a_whole_number(times: Any) -> None:
    window = wm.Range(2, time="ts")
    join = wm.StreamJoin("r.k = s.k", r=window, s=window)
    join.push(r={"k": [1], "ts": [10]}, s={"k": [1], "ts": [10.5]})
    with pytest.raises(SchemaError, match=r"'ts' of stream 'r' must be int64; got .*11.* in row 0"):
        join.push(r={"k": [1], "ts": times})
    assert join.push(r={"k": [1], "ts": [12.0]}, s={"k": [1], "ts": [12]}).count == 3


def test_an_unnamed_pandas_index_is_no_column_and_a_named_one_is() -> None:
    frame = pd.DataFrame({"k": [1, 2, 3]})
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(9), s=wm.Rows(9))
    join.push(r=frame, s=frame[frame.k > 1])
    found = join.push(r=frame[frame.k > 1], s=frame)
    assert found.to_arrow().column_names == ["r_k", "s_k"]
    join.push(r=pa.Table.from_pandas(frame[frame.k > 1]))  # the same, converted by hand
    ticks = pd.DataFrame({"k": [1, 2]}, index=pd.DatetimeIndex(["2024-01-01", "2024-01-02"], name="ts"))
    window = wm.Range("1 d", time="ts")
    join = wm.StreamJoin("r.k = s.k", r=window, s=window)
    assert join.push(r=ticks, s=ticks[ticks.k > 1]).count == 1
    assert join.push(r=ticks.reset_index()).count == 1
    ranged = pd.DataFrame({"k": [1, 2]}, index=pd.RangeIndex(2, name="n"))
    join = wm.StreamJoin("r.k = s.k AND r.n = s.n", r=wm.Rows(9), s=wm.Rows(9))
    assert join.push(r=ranged, s=ranged[ranged.k > 1]).count == 1  # pandas itself drops a range's name
    levels = pd.DataFrame({"x": [5, 6]}, index=pd.MultiIndex.from_tuples([(1, 7), (2, 8)], names=["k", None]))
    assert wm.StreamJoin("r.k = s.k", r=wm.Rows(9), s=wm.Rows(9)).push(r=levels, s=levels).to_arrow().column_names == [
        "r_x", "r_k", "s_x", "s_k",
    ]  # fmt: skip


def refused(data: Any, known: bool = False) -> str:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(9), s=wm.Rows(9))
    if known:
        join.push(r={"k": [1], "x": [1]})
    before = join.stats()["streams"]["r"]["rows"]
    with pytest.raises(SchemaError) as error:
        join.push(r=data)
    assert join.stats()["streams"]["r"]["rows"] == before
    return str(error.value)


ODD: list[tuple[Any, str]] = [
    (pl.LazyFrame({"k": [1], "x": [1]}), "got LazyFrame; call .collect() on it first"),
    ((row for row in [{"k": 1}]), "got generator; push each batch of it on its own"),
    ([pa.record_batch({"k": [1]})], "must hold row dicts, such as [{'k': 1}]; got RecordBatch in place 0"),
    ([{"k": 1, "x": 2}, {"k": 1}], "must all have the keys k, x; got k in row 1; write None"),
    ([(1, 2)], "must hold row dicts, such as [{'k': 1}]; got tuple in place 0"),
    ({"k": 5, "x": [1]}, "column 'k' of stream 'r' must be a list or an array with a value for each row; got 5 (int)"),
    ({"k": "abc", "x": [1]}, "column 'k' of stream 'r' must be a list or an array with a value for each row; got 'abc'"),
    ({"k": {1, 2}, "x": [1]}, "column 'k' of stream 'r' must be a list or an array"),
    ({"k": [1, 2], "x": [1]}, "the same length; got 'k' with 2 and 'x' with 1 values"),
    ({"k": np.ones((2, 2)), "x": [1]}, "must be a sequence that Arrow can read; got a NumPy array of float64 with shape (2, 2)"),
    ({"k": np.array([1j]), "x": [1]}, "got a NumPy array of complex128"),
    ({"k": [1], "x": [1, "a"]}, "column 'x' of stream 'r' must hold values of one type; got 'a' (str) in row 1"),
    ({"k": [1], "x": [object()]}, "column 'x' of stream 'r' must hold values that Arrow has a type for; got <object"),
    ({"k": [1], "x": [2**70]}, "column 'x' of stream 'r' must hold values that Arrow has a type for; got 1180591620717411303424"),
    ({"k": [1], "x": [Decimal("NaN")]}, "must hold values that Arrow has a type for; got Decimal('NaN') (Decimal) in row 0"),
    ([{"k": 1, "x": 2}, {}], "must all have the keys k, x; got none in row 1"),
    ({"k": [1], 7: [1]}, "names of stream 'r' must be texts; got 7 (int)"),
    (pd.DataFrame({"k": [1], 7: [1]}), "names of stream 'r' must be texts; got 7 (int) in a pandas frame"),
    (pd.DataFrame([[1, 2]], columns=["k", "k"]), "must be unique; got 'k' more than once"),
    (pd.DataFrame({"k": [1]}, index=pd.Index([1], name="k")), "must be unique; got 'k' more than once"),
    (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])), "must be texts; got ('a', 'b') (tuple)"),
    (pd.DataFrame({"k": [1, "a"], "x": [1, 2]}), "column 'k' of stream 'r' must hold values of one type; got 'a' (str) in row 1"),
    (pd.Series([1], name="k"), "'r'"),
    (pa.array([1]), "got Int64Array"),
    (None, "a pandas DataFrame, a dict of lists or NumPy arrays, or a list of row dicts; got NoneType"),
    ("k", "got str"),
    ({"k": [1], "x": [1], "__done": [1]}, "must not be '__done'"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), ODD, ids=lambda value: str(value)[:30])
def test_what_cannot_be_read_is_refused_in_clear_words(data: Any, message: str) -> None:
    assert message in refused(data)
    refused(data, known=True)


def test_a_list_without_rows_is_nothing() -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(9), s=wm.Rows(9))
    assert join.push(r=[], s=[{"k": 1, "x": None}]).count == 0
    assert join.push(r=[{"k": 1}, {"k": 2}]).count == 1
    assert join.push(r=[]).count == 0


def test_what_was_pushed_stays_as_it_was_whatever_becomes_of_the_arrays() -> None:
    """NumPy and pandas share memory with Arrow: a feed that fills one buffer again and again must not change stored rows."""
    import pandas as pd

    keys, values = np.empty(4, np.int64), np.empty(4)
    times = np.zeros(4, "datetime64[us]")
    frame = pd.DataFrame({"k": np.arange(4), "v": np.arange(4.0), "t": times})
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(100), s=wm.Rows(100))
    for number in range(3):
        keys[:], values[:] = np.arange(4) + 4 * number, number
        times[:] = np.datetime64(number, "us")
        join.push(r={"k": keys, "v": values, "t": times})
    join.push(r=frame.assign(k=frame["k"] + 12))
    later = frame.assign(k=frame["k"] + 16)
    join.push(r=later)
    later.loc[:, "v"] = -1.0
    keys[:], values[:] = -1, -1
    found = join.push(s={"k": np.arange(20)}).to_arrow().sort_by("s_k")
    assert found.column("r_k").to_pylist() == list(range(20))
    assert found.column("v").to_pylist() == [0.0] * 4 + [1.0] * 4 + [2.0] * 4 + [0.0, 1.0, 2.0, 3.0] * 2


def test_a_poll_without_rows_and_columns_is_nothing() -> None:
    import pandas as pd
    import polars as pl

    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(100), s=wm.Rows(100))
    for nothing in (pd.DataFrame([]), pl.DataFrame([]), pa.table({}), {}, []):
        assert join.push(r=nothing).count == 0
    join.push(r={"k": ["a"]}, s={"k": ["a"]})
    for nothing in (pd.DataFrame([]), pl.DataFrame([]), pa.table({}), {}, []):
        assert join.push(r=nothing).count == 0
    with pytest.raises(
        wm.OptionError, match=r"such as push\(r=batch\) or push\({'r': batch}\); got DataFrame"
    ):
        join.push(pd.DataFrame({"k": ["a"]}))


@pytest.mark.parametrize("unit", ["M8[10s]", "M8[100ms]", "M8[15m]", "M8[2h]", "M8[D]"])
def test_steps_of_several_units_are_the_moments_they_stand_for(unit: str) -> None:
    moments = np.array(["2024-01-01T00:00:30", "2024-01-02T00:00:00", "NaT"], "M8[s]").astype(unit)
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(10), s=wm.Rows(10), select="at")
    join.push(r={"k": [1, 1, 1], "at": moments})
    found = join.push(s={"k": [1]}).to_arrow().column("at").to_pylist()
    wanted = [None if np.isnat(moment) else moment.astype("M8[us]").item() for moment in moments]
    assert found == wanted or found == [moment and moment.date() for moment in wanted]
    with pytest.raises(SchemaError, match="'at' of stream 'r'"):
        join.push(r={"k": [1], "at": np.array([2**62], unit)})


def test_what_has_no_value_says_nothing_of_a_type() -> None:
    import pandas as pd

    for nothing in (
        pd.DataFrame({"k": [1], "c": [np.nan]}),
        pd.DataFrame({"k": [1], "c": pd.Categorical([None])}),
        pd.DataFrame({"k": [], "c": []}),
        {"k": [1], "c": [None]},
        {"k": np.array([]), "c": np.array([])},
    ):
        join = wm.StreamJoin("r.k = s.k", r=wm.Rows(10), s=wm.Rows(10))
        join.push(r=nothing)
        join.push(r={"k": [2], "c": ["a text"]})
        assert join.push(s={"k": [2]}).to_arrow().column("c").to_pylist() == ["a text"]


@pytest.mark.parametrize("column", [[True], [1.5, True], np.array([True])], ids=str)
def test_a_truth_value_is_no_number(column: Any) -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(10), s=wm.Rows(10))
    join.push(r={"k": [1.5]})
    with pytest.raises(SchemaError, match="'k' of stream 'r'"):
        join.push(r={"k": column})


def test_objects_of_polars_are_refused() -> None:
    import polars as pl

    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(10), s=wm.Rows(10))
    with pytest.raises(SchemaError, match=r"'c' of stream 'r'.*polars' Object"):
        join.push(r=pl.DataFrame({"k": [1], "c": pl.Series([{1, 2}], dtype=pl.Object)}))


def test_a_reader_may_ask_the_join_that_it_is_pushed_to() -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(10), s=wm.Rows(10))
    asked = []

    def batches() -> Any:
        asked.append(join.stats()["streams"]["r"]["rows"])
        join.push(s={"k": ["1"]})  # brings a schema while this push is being read
        yield pa.record_batch({"k": ["1"]})

    assert join.push(r=pa.RecordBatchReader.from_batches(pa.schema({"k": pa.string()}), batches())).count == 1
    assert asked == [0]


def test_outer_rows_can_be_read_once_the_other_stream_has_begun() -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(1), s=wm.Rows(1), how="left")
    early = join.push(r={"k": [1, 2, 3]})
    assert early.count == 2
    with pytest.raises(wm.ResultError, match="schema of 's'"):
        early.to_arrow()
    join.push(s={"k": [7], "name": ["x"]})
    assert early.to_arrow().to_pylist() == [{"r_k": k, "s_k": None, "name": None} for k in (1, 2)]
