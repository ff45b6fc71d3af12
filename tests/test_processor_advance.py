"""``Processor.advance``: to every query it is as if a row with that time had come that matches nothing."""

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, window
from strategies import column, in_pushes
from test_processor_interruptions import interrupted, started
from test_processor_properties import push
from test_processor_state import again
from test_processor_warm import late, numbers, passing
from test_shared_streams import SCHEMAS, UNIT, push_alone, rows

_ranges = st.builds(lambda t, late: ("range", t, "ts", late), st.integers(0, 15), st.integers(0, 8))


@examples(10)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 20), min_size=1, max_size=4),
    st.tuples(_ranges, st.one_of(_ranges, st.just(("rows", 4)))),
    st.sampled_from(["inner", "left", "full"]),
    st.lists(st.tuples(st.booleans(), st.integers(0, 90)), max_size=8),
    st.integers(0, 6),
)
def test_queries_give_what_a_stream_join_that_is_advanced_gives(
    seed: int, sizes: list[int], specs: Any, how: str, moves: list[tuple[bool, int]], cut: int
) -> None:
    """Also one that is saved and loaded on the way, and, of its late rows, one that starts warm afterwards."""
    windows = {name: window(spec, UNIT) for name, spec in zip("ab", specs, strict=True)}
    schemas = {name: SCHEMAS[name] for name in "ab"}
    condition = "a.k = b.k AND a.x <= b.x"
    qp = wm.Processor(windows=windows, schemas=schemas)
    kind = "" if how == "inner" else how.upper()
    sql = f"SELECT a.id, b.id AS other FROM a {kind} JOIN b ON {condition}"
    qp.create("q", sql)
    alone = wm.StreamJoin(condition, windows=windows, how=how, schemas=schemas)
    pushes = in_pushes([event for event in passing(rows(80, seed), 1) if event[0] in "ab"], sizes)
    for number, events in enumerate(pushes):
        results = push(qp, events)
        result, wanted = results["q"], push_alone(alone, events)
        if number > cut:
            assert late(results["warm"]) == late(result)
        assert result.count == wanted.count
        assert late(result) == late(wanted)
        if number == cut:
            qp = again(qp)
            qp.create("warm", sql, start="warm")
        if number < len(moves) and (moves[number][0] or specs[1][0] == "range"):
            stream, time = "a" if moves[number][0] else "b", moves[number][1]
            value = column([{"ts": time}], SCHEMAS[stream].field("ts"), UNIT)[0]
            found, lone = qp.advance({stream: value})["q"], alone.advance({stream: value})
            assert found.count == lone.count
    assert qp.finish()["q"].count == alone.finish().count


def trades_and_quotes(**options: Any) -> wm.Processor:
    stamp = pa.timestamp("us", options.pop("tz", None))
    schema = {"k": pa.int64(), "ts": stamp}
    qp = wm.Processor(
        t=wm.Range("1 s", time="ts"), q=wm.Range("10 s", time="ts", lateness="2 s"), r=wm.Rows(3),
        schemas={"t": schema, "q": schema}, **options,
    )  # fmt: skip
    qp.create("left", "SELECT t.k, q.ts AS at FROM t LEFT JOIN q ON t.k = q.k")
    return qp


def test_a_left_join_gives_its_rows_although_the_other_stream_has_not_begun() -> None:
    qp = trades_and_quotes()
    noon = datetime(2024, 5, 1, 12)
    assert qp.push(t={"k": [1, 2], "ts": [noon, noon.replace(second=5)]})["left"].count == 0
    results = qp.advance(q="2024-05-01 12:00:30")
    assert results["left"].to_arrow().column("k").to_pylist() == [1]
    late_row = qp.push(q={"k": [1], "ts": [noon]})["left"]
    assert late_row.late["q"].num_rows == 1
    assert qp.advance(q="2024-05-01 12:00:00")["left"].count == 0


def test_a_warm_query_knows_how_far_clocks_were_moved() -> None:
    qp = trades_and_quotes()
    noon = datetime(2024, 5, 1, 12)
    qp.push(t={"k": [1], "ts": [noon.replace(second=40)]})
    qp.advance(q=noon.replace(second=32))
    warm = qp.create("warm", "SELECT t.k, q.ts AS at FROM t LEFT JOIN q ON t.k = q.k", start="warm")
    results = qp.push(q={"k": [1, 1], "ts": [noon.replace(second=29), noon.replace(second=40)]})
    assert [results[name].late["q"].num_rows for name in ("left", "warm")] == [1, 1]
    assert numbers(results["left"]) == numbers(results["warm"]) == [(0, 1)]
    assert warm.complete_from == {"t": 0, "q": 0}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda qp: qp.advance(x=1), "advance() takes the streams 't', 'q' and 'r'; got 'x'"),
        (lambda qp: qp.advance(r=1), "got stream 'r', whose window is Rows(n=3)"),
        (lambda qp: qp.advance(5), "advance() takes times by stream, such as advance(t=time); got int"),
        (
            lambda qp: qp.advance(q="noon"),
            "must be a time that column 'ts' can hold, timestamp[us]; got 'noon'",
        ),
        (lambda qp: qp.advance(q=None), "must be a time that column 'ts' can hold, timestamp[us]; got None"),
        (
            lambda qp: wm.Processor(t=wm.Range(1)).advance(t=1),
            "advance() needs the schema of stream 't', which is not known yet",
        ),
    ],
)
def test_what_is_refused(call: Any, said: str) -> None:
    with pytest.raises(wm.WatersmeetError) as caught:
        call(trades_and_quotes())
    assert said in str(caught.value)


def test_an_interrupted_advance_is_undone() -> None:
    interrupted(started, lambda qp: qp.advance(a=20, b=23), 15)
