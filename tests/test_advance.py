"""``advance``: the clock of an idle stream moves as if a row with that time had come that matches nothing."""

from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, late, late_ids, make, pairs, push, same_pairs, script
from oracle import Oracle
from strategies import HOWS, Run, column, runs

ranges = st.builds(lambda t, late: ("range", t, "ts", late), st.integers(0, 8), st.integers(0, 6))
moves = st.lists(st.one_of(st.none(), st.tuples(st.sampled_from("rs"), st.integers(0, 60))), max_size=12)


def a_time(run: Run, stream: str, time: int) -> Any:
    field = run.schema(stream).field("ts")
    return column([{"ts": time}], field, run.unit)[0]


@examples(80)
@given(
    st.sampled_from(HOWS).flatmap(lambda how: runs(how=how, window=st.one_of(ranges, ranges, st.just(("rows", 3))))),
    moves,
)  # fmt: skip
def test_results_are_those_of_the_oracle_whose_clock_is_moved(
    run: Run, between: list[tuple[str, int] | None]
) -> None:
    run = Run(**{**{name: getattr(run, name) for name in run.__dataclass_fields__}, "declared": True})
    oracle, join = Oracle(run.condition.predicate, run.r, run.s, run.how), make(run)
    for number, events in enumerate(run.pushes):
        steps = [oracle.arrive(stream, row) for stream, row in events]
        result = push(join, run, events)
        same_pairs(pairs(result), [pair for step in steps for pair in step.pairs], f"push {number}", run)
        refused = [event for event, step in zip(events, steps, strict=True) if step.late]
        assert late(result) == late_ids(refused), script(run)
        move = between[number] if number < len(between) else None
        if move is not None and oracle.timed(move[0]):
            found = join.advance({move[0]: a_time(run, *move)})
            same_pairs(pairs(found), oracle.advance(*move).pairs, f"advance {move} after push {number}", run)
    same_pairs(pairs(join.finish()), oracle.finish().pairs, "finish", run)


STAMP = pa.timestamp("us")
SCHEMAS = {"t": {"k": pa.int64(), "ts": STAMP}, "q": {"k": pa.int64(), "ts": STAMP}}


def trades_and_quotes(**options: Any) -> wm.StreamJoin:
    windows = {"t": wm.Range("1 s", time="ts"), "q": wm.Range("10 s", time="ts", lateness="2 s")}
    return wm.StreamJoin("t.k = q.k", windows=windows, how="left", select="t.k, q.ts AS at", **options)


def test_a_left_join_gives_its_rows_although_the_other_stream_has_not_begun() -> None:
    join = trades_and_quotes(schemas=SCHEMAS)
    noon = datetime(2024, 5, 1, 12)
    assert join.push(t={"k": [1, 2], "ts": [noon, noon.replace(second=5)]}).count == 0
    assert join.advance(q="2024-05-01 12:00:03").count == 0  # with 2 s of lateness: 12:00:01 may still come
    moved = join.advance(q="2024-05-01 12:00:03.000001")
    assert moved.to_arrow().to_pylist() == [{"k": 1, "at": None}]
    assert join.push(q={"k": [2], "ts": [noon]}).late["q"].num_rows == 1
    assert join.advance(q=noon).count == 0  # a clock never goes back
    assert join.advance(t=noon.replace(second=9), q=noon.replace(second=9)).to_arrow().num_rows == 1
    assert join.stats()["streams"]["q"]["arrived"] == 0


def of_a_join(**windows: wm.Range) -> tuple[Any, Callable[[Any], wm.Result]]:
    join = wm.StreamJoin("t.k = q.k", windows=windows, schemas=SCHEMAS)
    return join, lambda result: result


def of_a_processor(**windows: wm.Range) -> tuple[Any, Callable[[Any], wm.Result]]:
    qp = wm.Processor(windows=windows, schemas=SCHEMAS)
    qp.create("pairs", "SELECT t.k FROM t JOIN q ON t.k = q.k")
    return qp, lambda results: results["pairs"]


@pytest.mark.parametrize("make", [of_a_join, of_a_processor])
@pytest.mark.parametrize(
    ("latest", "given", "meant"),
    [
        ("2024-05-01 12:00:00", "12:00:05", "2024-05-01 12:00:05"),
        ("2024-05-01 12:00:00", "12:00:05.25", "2024-05-01 12:00:05.25"),
        ("2024-05-01 12:00:00", time(12, 0, 5), "2024-05-01 12:00:05"),
        ("2024-05-01 12:00:00", "13:00", "2024-05-01 13:00:00"),
        ("2024-05-01 23:59:58", "00:00:05", "2024-05-02 00:00:05"),  # over midnight
        ("2024-05-01 00:00:01", "23:59:58", "2024-04-30 23:59:58"),  # it comes after what it tells
        ("2024-02-29 06:00:00", "18:00:00.000001", "2024-02-28 18:00:00.000001"),  # half a day at most
    ],
)
def test_a_time_of_day_alone_is_the_nearest_to_the_latest_time(
    make: Callable[..., Any], latest: str, given: Any, meant: str
) -> None:
    join, result = make(t=wm.Range("1 s", time="ts"), q=wm.Range("10 s", time="ts"))
    at = datetime.fromisoformat(meant)
    join.push(t={"k": [1], "ts": [datetime.fromisoformat(latest)]})
    join.advance(q=given)
    join.advance(t="2025-01-01")  # so that q alone holds the watermark back
    rows = {"k": [2, 3], "ts": [at, at - timedelta(microseconds=1)]}
    assert result(join.push(t=rows)).late["t"].column("k").to_pylist() == [3]


@pytest.mark.parametrize("make", [of_a_join, of_a_processor])
def test_a_time_of_day_wants_a_date_before_all_rows(make: Callable[..., Any]) -> None:
    join, _ = make(t=wm.Range("1 s", time="ts"), q=wm.Range("10 s", time="ts"))
    message = r"advance\(q=...\) must have a date as long as no stream has come to a time; got '12:00:05'; give the date too"
    with pytest.raises(wm.OptionError, match=message):
        join.advance(q="12:00:05")


@pytest.mark.parametrize(
    ("options", "times", "kind", "message"),
    [
        ({}, {"q": "2024-05-01"}, wm.StateError, "schemas of both streams; that of 't' and 'q' is not known"),
        ({"schemas": SCHEMAS}, {"q": "soon"}, wm.OptionError, r"'ts' can hold, timestamp\[us\]; got 'soon'$"),
        (
            {"schemas": SCHEMAS},
            {"q": None},
            wm.OptionError,
            r"a time that column 'ts' can hold, timestamp\[us\]; got None",
        ),
        ({"schemas": SCHEMAS}, {"q": 5}, wm.OptionError, "got 5$"),
        ({"schemas": SCHEMAS}, {"x": "2024-05-01"}, wm.OptionError, "streams 't' and 'q'.*got 'x'"),
    ],
)
def test_a_time_that_cannot_be_used_is_refused(
    options: dict[str, Any], times: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        trades_and_quotes(**options).advance(times)


def test_only_a_stream_with_a_time_window_has_a_clock() -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(5), s=wm.Range(5, time="ts"))
    with pytest.raises(wm.OptionError, match=r"Range window; got stream 'r', whose window is Rows\(n=5\)"):
        join.advance(r=5)


def test_a_finished_join_moves_no_clock() -> None:
    join = trades_and_quotes(schemas=SCHEMAS)
    join.finish()
    with pytest.raises(wm.StateError, match=r"got advance\(\) after finish\(\)"):
        join.advance(q="2024-05-01")


@pytest.mark.parametrize("how", ["left_anti", "right_semi", "right_anti"])
def test_a_one_sided_join_gives_rows_before_the_other_stream_has_begun(how: str) -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(1), s=wm.Rows(1), how=how, select="name")
    kept = "r" if how.startswith("left") else "s"
    result = join.push({kept: {"k": [1, 2], "name": ["a", "b"]}})
    assert result.to_arrow().to_pylist() == ([{"name": "a"}] if how.endswith("anti") else [])
    assert result.to_arrow().schema.names == ["name"]
