"""A stream grows columns while it runs: older rows have NULL, queries keep the columns that they know."""

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from test_processor_interruptions import SQL, listed, push, started
from test_processor_interruptions import interrupted as interrupted_anywhere
from test_processor_state import again

VENUE = {"venue": pa.string()}


def processor() -> wm.Processor:
    return wm.Processor(
        t=wm.Rows(10), u=wm.Rows(10), schemas={"t": {"k": pa.int64()}, "u": {"k": pa.int64()}}
    )


def rows(result: wm.Result) -> list[dict[str, Any]]:
    return result.to_arrow().to_pylist()  # type: ignore[no-any-return]


def test_older_rows_have_null_and_queries_keep_their_columns() -> None:
    qp = processor()
    qp.create("star", "SELECT * FROM t")
    qp.create("pairs", "SELECT * FROM t JOIN u ON t.k = u.k")
    before = qp.push(t={"k": [1]})
    qp.alter_stream("t", add=VENUE)
    qp.create("more", "SELECT * FROM t")
    qp.create("warm", "SELECT t.*, u.k AS other FROM t JOIN u ON t.k = u.k", start="warm")
    results = qp.push(t={"k": [2], "venue": ["X"]}, u={"k": [1, 2]})
    assert rows(before["star"]) == [{"k": 1}]
    assert rows(results["star"]) == [{"k": 2}]
    assert rows(results["more"]) == [{"k": 2, "venue": "X"}]
    assert rows(results["pairs"]) == [{"t_k": 1, "u_k": 1}, {"t_k": 2, "u_k": 2}]
    assert rows(results["warm"]) == [{"k": 1, "venue": None, "other": 1}, {"k": 2, "venue": "X", "other": 2}]
    qp.queries()["star"].alter("SELECT * FROM t WHERE venue IS NULL")
    assert rows(qp.push(t={"k": [3]})["star"]) == [{"k": 3, "venue": None}]


def test_batches_may_leave_added_columns_out_and_no_others() -> None:
    qp = processor()
    qp.alter_stream("t", add={"venue": pa.string(), "n": pa.int8()})
    qp.create("all", "SELECT k, venue, n FROM t")
    given = [
        {"k": [1]},
        {"k": [2], "n": [2]},
        pa.table({"k": [3]}),
        [{"k": 4, "venue": "Y"}],
        {"k": [5], "venue": ["Z"], "n": [1]},
    ]
    found = [row for data in given for row in rows(qp.push(t=data)["all"])]
    assert [row["k"] for row in found] == [1, 2, 3, 4, 5]
    assert [row["venue"] for row in found] == [None, None, None, "Y", "Z"]
    assert [row["n"] for row in found] == [None, 2, None, None, 1]
    for wrong in ({"n": [1]}, {"k": [1], "x": [1]}, pa.table({"venue": ["A"]})):
        with pytest.raises(wm.SchemaError, match="batches of stream 't' must have the columns k, venue, n"):
            qp.push(t=wrong)


def test_they_stay_in_a_saved_state() -> None:
    qp = processor()
    qp.create("star", "SELECT * FROM t")
    qp.push(t={"k": [1]})
    qp.alter_stream("t", add=pa.schema(VENUE))
    loaded = again(qp)
    results = loaded.push(t={"k": [2]})
    assert rows(results["star"]) == [{"k": 2}]
    backfill = loaded.create("all", "SELECT * FROM t", start="warm", backfill=True).backfill
    assert backfill is not None
    assert rows(backfill) == [{"k": 1, "venue": None}, {"k": 2, "venue": None}]


def test_a_query_that_waits_sees_the_columns_that_are_there_when_it_begins() -> None:
    qp = wm.Processor(t=wm.Rows(10), u=wm.Rows(10))
    qp.create("q", "SELECT t.* FROM t JOIN u ON t.k = u.k")
    qp.push(t={"k": [1]})
    qp.alter_stream("t", add=VENUE)
    qp.push(u={"k": [1]})
    assert rows(qp.push(t={"k": [1], "venue": ["X"]})["q"]) == [{"k": 1, "venue": "X"}]


def test_an_interrupted_alter_is_undone() -> None:
    def altered(qp: wm.Processor) -> dict[str, wm.Result]:
        qp.alter_stream("a", add={"venue": pa.string()})
        return {}

    interrupted_anywhere(started, altered, 10)
    assert listed(push(started(), 4)).keys() == SQL.keys()


@pytest.mark.parametrize(
    ("stream", "add", "said"),
    [
        ("x", VENUE, "alter_stream() takes one of the streams 't' and 'u'; got 'x'"),
        ("t", {"k": pa.int8()}, "new columns of stream 't' must have new names; got 'k', which is there"),
        ("t", {}, "add= must be new columns with their Arrow types, such as {'venue': pa.string()}; got {}"),
        ("t", ["venue"], "add= must be new columns with their Arrow types"),
        ("t", {"venue": "no type"}, "the columns of stream 't' must have Arrow types"),
    ],
)
def test_what_is_refused(stream: str, add: Any, said: str) -> None:
    qp = processor()
    before = qp._running.feed.known
    with pytest.raises(wm.WatersmeetError) as caught:
        qp.alter_stream(stream, add=add)
    assert said in str(caught.value)
    assert qp._running.feed.known is before


def test_a_stream_whose_schema_is_not_known_cannot_grow() -> None:
    with pytest.raises(
        wm.StateError, match=r"alter_stream\(\) needs the schema of stream 't', which is not known yet"
    ):
        wm.Processor(t=wm.Rows(1)).alter_stream("t", add=VENUE)
