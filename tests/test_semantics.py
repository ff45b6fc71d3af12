"""Small joins worked out by hand, each put to the oracle and to the engine: neither vouches for itself."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import watersmeet as wm
from conditions import EQUAL, comparison
from harness import drive, expected, late_ids
from oracle import Event, Pair, Window
from strategies import Run

SAME = comparison("=", "k", "k", EQUAL)
Answer = tuple[list[list[Pair]], list[dict[str, list[int]]]]


def by_oracle(run: Run) -> Answer:
    outcome = expected(run)
    return outcome.pairs, [late_ids(events) for events in outcome.late]


@pytest.fixture(params=[by_oracle, drive], ids=["oracle", "engine"])
def answer(request: pytest.FixtureRequest) -> Callable[[Run], Answer]:
    return request.param  # type: ignore[no-any-return]


def rows(*texts: str) -> list[Event]:
    """Events from ``"r 5"``: stream and time. Every row has key 1, so that windows alone decide."""
    seen = {"r": -1, "s": -1}
    found = []
    for text in texts:
        stream, time, *key = text.split()
        seen[stream] += 1
        row = {"id": seen[stream], "ts": int(time), "k": int(key[0]) if key else 1}
        found.append((stream, row))
    return found


def one_push_each(r: Window, s: Window, *texts: str, how: str = "inner") -> Run:
    return Run(SAME, r, s, tuple((event,) for event in rows(*texts)), how=how)


def test_a_count_window_holds_the_last_n_rows(answer: Callable[[Run], Answer]) -> None:
    run = one_push_each(("rows", 2), ("rows", 1), "r 0", "r 0", "r 0", "s 0", "s 0", "r 0")
    assert answer(run)[0] == [[], [], [], [(1, 0), (2, 0)], [(1, 1), (2, 1)], [(3, 1)], []]


def test_a_time_window_includes_both_its_edges(answer: Callable[[Run], Answer]) -> None:
    run = one_push_each(("range", 2, "ts", 0), ("range", 3, "ts", 0), "s 10", "r 12", "r 13", "r 14", "s 16")
    # r.ts - 3 <= s.ts <= r.ts + 2
    assert answer(run)[0] == [[], [(0, 0)], [(1, 0)], [], [(2, 1)], []]


def test_time_windows_join_rows_out_of_order(answer: Callable[[Run], Answer]) -> None:
    run = one_push_each(("range", 2, "ts", 9), ("range", 2, "ts", 9), "r 10", "s 10", "r 7", "s 8", "r 11")
    assert answer(run)[0] == [[], [(0, 0)], [], [(0, 1), (1, 1)], [(2, 0)], []]


def test_a_row_below_the_watermark_is_late_and_gets_no_number(answer: Callable[[Run], Answer]) -> None:
    run = one_push_each(
        ("range", 5, "ts", 1),
        ("range", 5, "ts", 0),
        "r 10",
        "s 8",
        "r 7",
        "r 8",
        "s 20",
        "r 8",
        "s 9",
        "s 8",
        "r 9",
    )
    pairs, late = answer(run)
    # watermark: none, then min(10 - 1, 8) = 8: r at 7 is late; s at 20 lifts it to 9: both rows at 8 are late
    assert late == [{}, {}, {"r": [1]}, {}, {}, {"r": [3]}, {}, {"s": [3]}, {}]
    assert pairs == [[], [(0, 0)], [], [(1, 0)], [], [], [(0, 2), (1, 2)], [], [(2, 0), (2, 2)], []]


def test_no_row_is_late_before_every_timed_stream_was_seen(answer: Callable[[Run], Answer]) -> None:
    run = one_push_each(("range", 5, "ts", 0), ("range", 5, "ts", 0), "r 100", "r 1", "s 3", "r 2", "s 2")
    assert answer(run)[1] == [{}, {}, {}, {"r": [2]}, {"s": [1]}]


def test_lateness_is_decided_row_by_row_within_a_push(answer: Callable[[Run], Answer]) -> None:
    events = rows("r 1", "s 1", "r 9", "s 9", "r 8", "r 9")
    run = Run(SAME, ("range", 0, "ts", 0), ("range", 0, "ts", 0), (tuple(events),))
    assert answer(run) == ([[(0, 0), (1, 1), (2, 1)], []], [{"r": [2]}])


def test_an_outer_row_leaves_with_its_count_window(answer: Callable[[Run], Answer]) -> None:
    run = one_push_each(("rows", 1), ("rows", 9), "r 0", "r 0 2", "s 0 2", "r 0", "r 0", how="left")
    assert answer(run)[0] == [[], [(0, -1)], [(1, 0)], [], [(2, -1)], [(3, -1)]]


def test_an_outer_row_leaves_when_the_watermark_has_passed_it(answer: Callable[[Run], Answer]) -> None:
    window = ("range", 2, "ts", 0)
    run = one_push_each(window, window, "r 0", "s 0 2", "r 2", "s 2 2", "r 9", "s 3 2", how="full")
    # the watermark is 0, 0, 2, 2, 3: above 0 + 2 only at the end
    assert answer(run)[0] == [[], [], [], [], [], [(-1, 0), (0, -1)], [(-1, 1), (-1, 2), (1, -1), (2, -1)]]


def test_unbounded_outer_rows_wait_for_the_end(answer: Callable[[Run], Answer]) -> None:
    run = one_push_each(("unbounded",), ("unbounded",), "r 0", "s 0 2", "s 0", "r 0 3", how="full")
    assert answer(run)[0] == [[], [], [(0, 1)], [], [(-1, 0), (1, -1)]]


def test_a_semi_join_names_a_row_once_and_an_anti_join_the_rest(answer: Callable[[Run], Answer]) -> None:
    texts = ("r 0", "s 0", "s 0", "r 0 2", "r 0")
    windows = (("rows", 9), ("rows", 9))
    assert answer(one_push_each(*windows, *texts, how="semi"))[0] == [[], [(0, -1)], [], [], [(2, -1)], []]
    assert answer(one_push_each(*windows, *texts, how="anti"))[0] == [[], [], [], [], [], [(1, -1)]]
    assert answer(one_push_each(*windows, *texts, how="right_semi"))[0] == [
        [],
        [(-1, 0)],
        [(-1, 1)],
        [],
        [],
        [],
    ]
    assert answer(one_push_each(*windows, *texts, how="right_anti"))[0] == [[], [], [], [], [], []]


def test_opposite_an_untimed_stream_a_time_window_follows_its_own_clock(
    answer: Callable[[Run], Answer],
) -> None:
    run = one_push_each(
        ("rows", 1), ("range", 2, "ts", 5), "s 0", "r 0", "s 2", "r 0", "s 3", "r 0", how="right"
    )
    assert answer(run)[0] == [[], [(0, 0)], [(0, 1)], [(1, 0), (1, 1)], [(1, 2)], [(2, 1), (2, 2)], []]
    late = one_push_each(("rows", 9), ("range", 2, "ts", 5), "s 9 2", "s 4 2", "s 3", "s 12 2", how="right")
    assert answer(late) == ([[], [(-1, 1)], [], [(-1, 0)], [(-1, 2)]], [{}, {}, {"s": [2]}, {}])


# The engine's own surface.
def join(**options: Any) -> wm.StreamJoin:
    return wm.StreamJoin("r.k = s.k", **{"r": wm.Rows(100), "s": wm.Rows(100), **options})


R = {"k": [1, 2, 3], "x": [10, 20, 30]}
S = {"k": [3, 1, 1], "y": [0.5, 1.5, 2.5]}


@pytest.mark.parametrize(
    "given",
    [
        pa.table,
        pa.RecordBatch.from_pydict,
        pd.DataFrame,
        pl.DataFrame,
        lambda data: {name: np.array(values) for name, values in data.items()},
        lambda data: duckdb.from_arrow(pa.table(data)),
    ],
    ids=["table", "batch", "pandas", "polars", "numpy", "duckdb"],
)
def test_batches_of_any_kind_are_taken(given: Callable[[Any], Any]) -> None:
    result = join().push(r=given(R), s=given(S))
    assert result.count == 3
    assert sorted(zip(*result.pairs().values(), strict=True)) == [(0, 1), (0, 2), (2, 0)]


def test_a_result_is_arrow_to_everyone() -> None:
    result = join(select="r.x, s.y * 2 AS twice").push(r=R, s=S)
    wanted = [(10, 3.0), (10, 5.0), (30, 1.0)]
    assert sorted(pl.DataFrame(result).rows()) == wanted
    assert pa.table(result).column_names == ["x", "twice"]


def test_names_that_both_streams_have_carry_the_stream() -> None:
    assert join().push(r=R, s=S).to_arrow().column_names == ["r_k", "x", "s_k", "y"]


def test_windows_can_be_given_by_name() -> None:
    both = {"how": wm.Rows(5), "cores": wm.Rows(5)}
    clash = wm.StreamJoin("how.k = cores.k", windows=both)
    assert clash.push(how=R, cores=S).count == 3
    assert set(clash.push(cores=S).pairs()) == {"how", "cores"}


def test_without_order_rows_come_in_keyword_order() -> None:
    assert join(r=wm.Rows(1), s=wm.Rows(1)).push(r={"k": [1, 2]}, s={"k": [1, 2]}).count == 1
    assert join(r=wm.Rows(1), s=wm.Rows(1)).push(s={"k": [1, 2]}, r={"k": [2, 2]}).count == 2
    turns = join(r=wm.Rows(1), s=wm.Rows(1))
    assert turns.push(r={"k": [1, 2]}, s={"k": [1, 2]}, order=["r", "s", "r", "s"]).count == 2


def test_durations_are_text_timedelta_or_number() -> None:
    start = datetime(2024, 1, 1)
    moments = [start, start + timedelta(seconds=10)]
    for length in ("10 s", timedelta(seconds=10), "10000 ms"):
        window = wm.Range(length, time="ts")
        timed = wm.StreamJoin("r.k = s.k", r=window, s=window)
        assert timed.push(r={"k": [1], "ts": moments[:1]}, s={"k": [1], "ts": moments[1:]}).count == 1
    short = wm.Range("9.9 s", time="ts")
    timed = wm.StreamJoin("r.k = s.k", r=short, s=short)
    assert timed.push(r={"k": [1], "ts": moments[:1]}, s={"k": [1], "ts": moments[1:]}).count == 0


def test_an_empty_push_gives_an_empty_result_with_the_right_columns() -> None:
    streams = join(schemas={"r": pa.schema({"k": pa.int64()}), "s": pa.schema({"k": pa.int64()})})
    result = streams.push()
    assert (result.count, result.to_arrow().column_names) == (0, ["r_k", "s_k"])


@pytest.mark.parametrize("index", ["scan", "hash", "bi_sort", "rap_table", "wib_tree"])
def test_a_forced_index_is_the_one_that_runs(index: str) -> None:
    forced = join(index=index)
    forced.push(r=R, s=S)
    assert index in forced.explain()


def test_ranges_are_one_record_per_probe_and_run() -> None:
    streams = join(index="bi_sort", result="ranges", r=wm.Rows(1000), s=wm.Rows(1000))
    same = {"k": np.zeros(500, np.int64)}
    result = streams.push(r=same, s=same)
    assert result.count == 250_000
    assert sum(len(records["probe"]) for records in result.ranges()) < 5000
