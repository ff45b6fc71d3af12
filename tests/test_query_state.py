"""Aggregates that start warm, are saved and loaded, go on without rows, and read tables: as if they had always been there."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import query_interpreter as dull
import watersmeet as wm
from harness import examples
from query_interpreter import Arrival, Asked
from strategies import in_pushes
from test_query_answers import FIRST, SECOND, arrived, processor, shown
from test_query_groups import SCHEMA, SIZES, answers, arrivals, push, windows


def whole() -> wm.Processor:
    """Streams that keep all their rows."""
    window = wm.Range(10**6, time="ts", lateness=dull.LATENESS)
    return wm.Processor(a=window, b=window, schemas={"a": SCHEMA, "b": SCHEMA})


@examples(60)
@given(answers() | windows(), arrivals(), SIZES, st.integers(0, 3))
def test_a_warm_query_goes_on_as_if_it_had_been_there(
    asked: Asked, rows: list[Arrival], sizes: list[int], begins: int
) -> None:
    """The past is given as the first result, where it is asked for; what comes then is the same as if it had come in one push."""
    note(asked.sql)
    pushes = in_pushes(dull.judged(rows, asked.streams), sizes)
    begins = min(begins, len(pushes))
    qp = whole()
    for events in pushes[:begins]:
        push(qp, events)
    query: Any = qp.create("q", asked.sql, emit=asked.emit, start="warm", backfill=True)
    alone = whole()
    alone.create("q", asked.sql, emit=asked.emit)
    past = [event for events in pushes[:begins] for event in events]
    assert sorted(map(repr, shown(query.backfill))) == sorted(map(repr, shown(push(alone, past)["q"])))
    for events in pushes[begins:]:
        found, wanted = push(qp, events)["q"], push(alone, events)["q"]
        if asked.order or asked.limit is not None:
            assert repr(shown(found)) == repr(shown(wanted))
        assert sorted(map(repr, shown(found))) == sorted(map(repr, shown(wanted)))
    found, wanted = qp.finish()["q"], alone.finish()["q"]
    assert sorted(map(repr, shown(found))) == sorted(map(repr, shown(wanted)))


@examples(40)
@given(windows(), arrivals(), SIZES, st.integers(0, 3), st.lists(st.sampled_from("ab"), max_size=2))
def test_a_warm_query_knows_how_far_clocks_and_rows_that_are_gone_had_come(
    asked: Asked, rows: list[Arrival], sizes: list[int], begins: int, moved: list[str]
) -> None:
    """Who is late, and which windows are final, is as if it had been there; windows that were final are not told again."""
    note(asked.sql)
    window = wm.Range(5, time="ts", lateness=dull.LATENESS)  # few rows stay
    qp = wm.Processor(a=window, b=window, schemas={"a": SCHEMA, "b": SCHEMA})
    qp.create("always", asked.sql, emit="append")
    pushes = in_pushes(rows, sizes)
    for events in pushes[:begins]:
        push(qp, events)
    latest = max((row["ts"] for events in pushes[:begins] for _, row in events), default=0)
    for name in moved:
        qp.advance(**{name: latest + 30})
    begun = qp.create("warm", asked.sql, emit="append", start="warm")
    known = begun.complete_from is not None
    for events in [*pushes[begins:], None]:
        results = qp.finish() if events is None else push(qp, events)
        found, wanted = results["warm"], results["always"]
        late, late_wanted = ({k: repr(v.to_pylist()) for k, v in one.late.items()} for one in (found, wanted))
        assert late == late_wanted  # as texts: NaN is NaN
        if known:
            assert sorted(map(repr, shown(found))) == sorted(map(repr, shown(wanted)))


@examples(25)
@given(st.lists(answers() | windows(), min_size=1, max_size=3), arrivals(), SIZES, st.integers(0, 3))
def test_aggregates_go_on_from_a_saved_state(
    asked: list[Asked], rows: list[Arrival], sizes: list[int], saved: int
) -> None:
    note("\n".join(one.sql for one in asked))
    old = whole()
    for number, one in enumerate(asked):
        old.create(f"q{number}", one.sql, emit=one.emit)
    pushes = in_pushes(rows, sizes)
    for events in pushes[:saved]:
        push(old, events)
    with TemporaryDirectory() as folder:
        old.save(Path(folder) / "state")
        new = wm.Processor.load(Path(folder) / "state")
    for events in [*pushes[saved:], None]:
        wanted, found = (qp.finish() if events is None else push(qp, events) for qp in (old, new))
        for name in wanted:
            assert sorted(map(repr, shown(found[name]))) == sorted(map(repr, shown(wanted[name]))), name


def test_the_clock_of_an_idle_stream_closes_windows_and_empties_sliding_ones() -> None:
    qp = processor()
    qp.create("windows", "SELECT window.start, COUNT(*) AS n FROM t GROUP BY window(ts, 5)")
    qp.create("sliding", "SELECT COUNT(*) AS n FROM last_range(t, 3)")
    qp.create("rows", "SELECT x FROM last_range(t, 3)")
    qp.create("sorted", "SELECT k FROM t ORDER BY ts")
    qp.push(t=arrived(*FIRST))
    results = qp.advance(t=5)
    assert shown(results["windows"]) == []
    assert shown(results["sliding"]) == [(2,)]
    assert shown(results["rows"]) == [(5,), (3,)]
    assert shown(results["sorted"]) == [("b",), ("a",)]
    results = qp.advance(t=20)
    assert shown(results["windows"]) == [(0, 3)]
    assert shown(results["sliding"]) == [(0,)]
    assert shown(results["rows"]) == []
    assert qp.push(t=arrived(*SECOND))["windows"].late["t"].num_rows == 2


def test_aggregates_over_streams_and_tables() -> None:
    names = pa.table({"k": ["a", "b"], "name": ["one", "two"]})
    qp = wm.Processor(
        t=wm.Rows(5), schemas={"t": {"k": pa.string(), "x": pa.int64()}}, tables={"names": names}
    )
    qp.create("q", "SELECT name, SUM(x) AS s FROM t JOIN names ON t.k = names.k GROUP BY name")
    assert shown(qp.push(t={"k": ["a", "b", "c"], "x": [1, 2, 3]})["q"]) == [("one", 1, 1), ("two", 2, 1)]
    assert shown(qp.push(t={"k": ["a"], "x": [5]})["q"]) == [("one", 6, 1)]
    with pytest.raises(wm.OptionError, match="a query must have a stream in each FROM"):
        qp.create("n", "SELECT COUNT(*) AS n FROM names")


def test_a_warm_sliding_window_knows_the_rows_that_are_stored() -> None:
    qp = wm.Processor(t=wm.Rows(5), schemas={"t": {"k": pa.string(), "x": pa.int64()}})
    qp.push(t={"k": ["a", "b", "a"], "x": [1, 2, 3]})
    qp.create("now", "SELECT SUM(x) AS s FROM last_rows(t, 2)")
    warm = qp.create("warm", "SELECT SUM(x) AS s FROM last_rows(t, 2)", start="warm")
    assert warm.state == "running"
    results = qp.push(t={"k": ["c"], "x": [10]})
    assert (shown(results["now"]), shown(results["warm"])) == ([(10,)], [(13,)])
