"""A column whose type is not known yet: all-null and empty batches, the value that brings the type, and what is refused."""

import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, make, pairs
from interruptions import every_step
from strategies import HOWS, Run, batch, runs
from watersmeet.errors import ConditionError, DataError, OptionError, SchemaError, WatersmeetError

FLOWS = ("three_step", "split_join", "pan_join", "low_latency_handshake", "handshake")
WINDOWS = {"r": wm.Rows(100), "s": wm.Rows(100)}

UNTYPED: dict[str, Any] = {
    "list of None": {"k": [1, 2], "x": [None, None]},
    "null array": pa.table({"k": [1, 2], "x": pa.nulls(2)}),
    "pandas objects": pd.DataFrame({"k": [1, 2], "x": pd.Series([None, None], dtype=object)}),
    "polars null": pl.DataFrame({"k": [1, 2], "x": [None, None]}),
    "row dicts": [{"k": 1, "x": None}, {"k": 2, "x": None}],
}
EMPTY: dict[str, Any] = {
    "empty lists": {"k": [], "x": []},
    "pandas": pd.DataFrame({"k": [], "x": []}, dtype=object),
    "polars": pl.DataFrame({"k": [], "x": []}),
}


@pytest.mark.parametrize("first", UNTYPED)
def test_a_column_without_values_gets_its_type_from_the_first_value(first: str) -> None:
    join = wm.StreamJoin("r.k = s.k AND (r.x IS NULL OR r.x < s.y)", **WINDOWS)
    before = join.push(r=UNTYPED[first], s={"k": [1, 2], "y": [2.5, 0.5]})
    assert before.count == 2  # at once: x is NULL
    after = join.push(r={"k": [1, 2], "x": [1, 2]})
    assert sorted(zip(*after.pairs().values(), strict=True)) == [(2, 0)]
    assert after.to_arrow().schema.field("x").type == pa.int64()
    assert before.to_arrow().column("x").to_pylist() == [None, None]  # what was handed out still works
    with pytest.raises(SchemaError, match=r"'x' of stream 'r' must be int64; got 'a' in row 0"):
        join.push(r={"k": [1], "x": ["a"]})


@pytest.mark.parametrize("first", EMPTY)
def test_an_empty_first_batch_fixes_no_type(first: str) -> None:
    join = wm.StreamJoin("r.k = s.k", **WINDOWS)
    assert join.push(r=EMPTY[first], s=EMPTY[first]).count == 0
    assert join.push(r={"k": ["a"], "x": [1]}, s={"k": ["a", None], "x": [b"1", b"2"]}).count == 1


def test_an_empty_time_column_waits_for_its_type() -> None:
    window = wm.Range("10 s", time="ts")
    join = wm.StreamJoin("r.k = s.k", r=window, s=window, how="left")
    join.push(r={"k": [], "ts": []}, s={"k": [], "ts": []})
    with pytest.raises(
        DataError, match="'ts' of stream 'r' must hold a time in every row; got null in row 0"
    ):
        join.push(r={"k": [1], "ts": [None]})
    at = np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:30"], "M8[s]")
    join.push(r={"k": [1, 2], "ts": at})
    found = join.push(s={"k": [1, 2], "ts": at.astype("M8[ns]")})
    assert sorted(zip(*found.pairs().values(), strict=True)) == [(0, 0), (1, 1)]


def test_clocks_survive_a_finer_time_that_comes_late() -> None:
    """s has rows and a clock in seconds; r, whose columns were open, counts in nanoseconds. The axis changes for both."""
    window = wm.Range("10 s", time="ts", lateness="5 s")
    join = wm.StreamJoin("r.k = s.k", r=window, s=window)
    at = [np.array([second], "M8[s]") for second in (100, 95, 80)]
    join.push(r={"k": [], "ts": []}, s={"k": [1], "ts": at[0], "x": [None]})
    join.push(r={"k": [1], "ts": at[0].astype("M8[ns]")}, s={"k": [1], "ts": at[1], "x": ["now typed"]})
    assert join.push(s={"k": [1], "ts": at[2], "x": ["late"]}).late["s"].num_rows == 1
    assert join.push(r={"k": [1], "ts": at[1].astype("M8[ns]")}).count == 2


def untyped(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with every column that has no value as Arrow's null type."""
    columns = [pa.nulls(len(c)) if c.null_count == len(c) else c for c in rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def nothing_yet(run: Run, pushes: int) -> Run:
    """The run with no value in any column of the condition in its first pushes."""
    events = [
        tuple(
            (side, {name: value if name in ("id", "ts") else None for name, value in row.items()})
            for side, row in push
        )
        if number < pushes
        else push
        for number, push in enumerate(run.pushes)
    ]
    return replace(run, pushes=tuple(events))


def drive(
    join: wm.StreamJoin,
    run: Run,
    change: Callable[[pa.RecordBatch], pa.RecordBatch],
    between: Callable[[wm.StreamJoin], wm.StreamJoin] = lambda join: join,
) -> list[Any]:
    """Pairs of every push and of the end."""
    found = []
    for events in run.pushes:
        rows = {side: [row for stream, row in events if stream == side] for side in "rs"}
        batches = {side: change(batch(rows[side], run, side)) for side in "rs"}
        found.append(pairs(join.push(batches, order=[side for side, _ in events])))
        join = between(join)
    return [*found, pairs(join.finish())]


def saved_and_loaded(join: wm.StreamJoin) -> wm.StreamJoin:
    with tempfile.TemporaryDirectory() as folder:
        join.save(folder)
        return wm.StreamJoin.load(folder)


some_runs = st.sampled_from(HOWS).flatmap(lambda how: runs(how=how, max_rows=25))


@examples(60)
@given(some_runs, st.integers(1, 3), st.sampled_from([lambda join: join, saved_and_loaded]))
def test_types_that_come_late_change_no_result(run: Run, pushes: int, between: Any) -> None:
    run = nothing_yet(replace(run, declared=True), pushes)
    expected = drive(make(run), run, lambda rows: rows)
    assert drive(make(replace(run, declared=False)), run, untyped, between) == expected


@examples(15)
@given(some_runs, st.integers(1, 3), st.sampled_from(FLOWS))
def test_nor_with_a_flow(run: Run, pushes: int, flow: str) -> None:
    run = nothing_yet(replace(run, declared=True, index="scan", cores=2), pushes)
    options = {"flow": flow, "cores": 1 if flow == "three_step" else 2}
    expected = drive(make(run, **options), run, lambda rows: rows)
    assert drive(make(replace(run, declared=False), **options), run, untyped) == expected


@pytest.mark.parametrize("flow", [None, *FLOWS])
def test_a_refused_push_brings_no_type(flow: str | None) -> None:
    join = wm.StreamJoin("r.k = s.k AND r.x <= s.y", **WINDOWS, how="left", flow=flow)
    join.push(r={"k": [1, 2], "x": [None, None]}, s={"k": [1, 2], "y": [None, 5]})
    for bad, kind in (
        ({"r": {"k": [1], "x": ["text beside a number"]}}, ConditionError),
        ({"r": {"k": [1], "x": [7]}, "s": {"k": [1], "y": ["a"]}}, SchemaError),
        ({"r": {"k": [1], "x": [7]}, "order": ["r", "r"]}, OptionError),
    ):
        with pytest.raises(kind):
            join.push(**bad)
    assert join.stats()["streams"]["r"]["rows"] == 2
    found = join.push(r={"k": [2], "x": [4.5]})  # the refused pushes would have made it an integer
    assert list(zip(*found.pairs().values(), strict=True)) == [(2, 1)]
    left = join.finish()
    assert sorted(left.pairs()["r"]) == [0, 1]


def test_types_come_while_rows_are_collected_and_taken() -> None:
    """Rows that wait in a collector get the type too, and a consumer may be at work."""
    pushes: list[dict[str, Any]] = [
        {"r": {"k": [1, 2], "x": [None, None]}},
        {"s": {"k": [1, 2], "x": [None, None]}},
        {"r": {"k": [1], "x": [None]}},
        {"r": {"k": [2], "x": ["a"]}},
        {"s": {"k": [2], "x": [None]}},
        {"s": {"k": [2], "x": [5]}},
    ]
    expected = wm.StreamJoin("r.k = s.k", r=wm.Unbounded(), s=wm.Unbounded())
    wanted = sorted(pair for push in pushes for pair in pairs(expected.push(**push)))
    for streaming in (False, True):
        join = wm.StreamJoin(
            "r.k = s.k", r=wm.Unbounded(), s=wm.Unbounded(), flow="pan_join", cores=2, collect="1 h"
        )
        found: list[Any] = []
        if streaming:
            consumer = threading.Thread(target=_take, args=(join.results(), found))
            consumer.start()
        for push in pushes:
            found += pairs(join.push(**push))
        found += pairs(join.finish())
        if streaming:
            consumer.join(60)
        assert sorted(found) == wanted


def _take(blocks: Any, found: list[Any]) -> None:
    for block in blocks:
        found += pairs(block)


OPEN_CONDITIONS = [
    "r.x BETWEEN s.y - INTERVAL 2 DAYS AND s.y",
    "ABS(r.x - s.y) <= INTERVAL 5 SECONDS",
    "ABS(r.x - s.y) <= 3",
    "r.x + 1 = s.y",
    "-r.x < s.y * 2",
    "r.x / s.y > 1",
    "r.x % 3 = s.y % 3",
    "r.x DIV 2 = s.y",
    "UPPER(r.x) = s.y",
    "r.x || s.y = 'ab'",
    "SUBSTRING(r.x, 1, 2) = s.y",
    "r.x LIKE s.y",
    "LENGTH(r.x) = s.y",
    "COALESCE(r.x, s.y) = s.y",
    "COALESCE(r.x, '2024-01-01') <= s.y",
    "LEAST(r.x, s.y) > 0",
    "GREATEST(r.x, s.y, 1) = 1",
    "NULLIF(r.x, s.y) IS NULL",
    "UPPER(NULLIF(r.x, s.y)) IS NULL",
    "CASE WHEN r.x THEN 1 ELSE 2 END = s.y",
    "CASE WHEN r.x > 1 THEN s.y END IS NULL",
    "r.x IN (1, 2, 3) OR s.y IS NULL",
    "r.x IN (s.y, 3)",
    "r.x <=> s.y",
    "r.x AND NOT s.y",
    "CAST(r.x AS INT) = CAST(s.y AS DOUBLE)",
    "YEAR(r.x) = s.y",
    "DATEDIFF(r.x, s.y) < 3",
    "DATE_ADD(r.x, 3) = s.y",
    "ADD_MONTHS(r.x, 1) > s.y",
    "r.x + INTERVAL 1 MONTH > s.y",
    "FLOOR(r.x) = CEIL(s.y)",
    "SQRT(r.x) < POWER(s.y, 2)",
]
KINDS = {
    "int": [1, 2, None], "double": [0.5, 2.0, None], "text": ["a", "2024-01-01", None], "bool": [True, False, None],
    "date": pa.array([1, 20_000, None], pa.int32()).cast(pa.date32()), "ts": pa.array([0, 1, None], pa.timestamp("us")),
    "decimal": pa.array([1, 2, None], pa.decimal128(12, 2)), "zoned": pa.array([0, 1, None], pa.timestamp("ms", "UTC")),
    "open": [None, None, None],
}  # fmt: skip


@pytest.mark.parametrize(
    "condition",
    [*OPEN_CONDITIONS[:2], *(pytest.param(text, marks=pytest.mark.slow) for text in OPEN_CONDITIONS[2:])],
)
def test_an_open_column_is_null_in_every_condition(condition: str) -> None:
    """With each type of the other column: the pairs are those of a typed column of nulls, for any type that can be."""
    for kind, values in KINDS.items():
        for side in ("r", "s"):
            data = {"r": {"x": values}, "s": {"y": values}}
            data[side] = {name: [None] * 3 for name in data[side]}
            counts = set()
            for null in (None, *(pa.array(v).type for v in KINDS.values())):
                name = "x" if side == "r" else "y"
                schemas = None if null is None else {side: {name: null}}
                try:
                    join = wm.StreamJoin(condition, r=wm.Rows(9), s=wm.Rows(9), schemas=schemas, how="full")
                    counts.add((join.push(**data).count, join.finish().count))
                except WatersmeetError:
                    if null is None:  # then it must fail with every type
                        counts.add("refused")
            assert len(counts) == 1, (condition, kind, side, counts)


def _interrupt(flow: str | None, at_most: int | None) -> int:
    """A push that brings types of both streams, interrupted at its steps: the join stands as before, and goes on."""

    def make_join() -> wm.StreamJoin:
        join = wm.StreamJoin(
            "r.k = s.k AND (r.x IS NULL OR r.x <= s.y)",
            **WINDOWS,
            how="left",
            flow=flow,
            cores=1 + bool(flow),
        )
        join.push(r={"k": [1, 2, 3], "x": [None] * 3}, s={"k": [1], "y": [None]})
        return join

    def operation(join: wm.StreamJoin) -> wm.Result:
        return join.push(r={"k": [2, 3], "x": [4.5, 6.5]}, s={"k": [2, 3], "y": [5, 6]})

    def check(join: wm.StreamJoin, given: wm.Result) -> None:
        assert pairs(given) == [(1, 1), (2, 2), (3, 1)]
        assert given.to_arrow().schema.field("x").type == pa.float64()
        assert pairs(join.push(s={"k": [3], "y": [7]})) == [(2, 3), (4, 3)]
        assert sorted(join.finish().pairs()["r"]) == []

    # The interpreter closes a generator by itself when it goes away, and ignores what is raised there.
    return every_step(
        make_join, operation, check, at_most=at_most, skip=lambda place: "<genexpr>" in place.callee
    )


@pytest.mark.parametrize("flow", [None, "split_join"])
def test_an_interrupted_push_brings_no_type(flow: str | None) -> None:
    _interrupt(flow, 25)


@pytest.mark.slow
@pytest.mark.parametrize("flow", [None, *FLOWS[1:3]])
def test_a_push_interrupted_at_any_step_brings_no_type(flow: str | None) -> None:
    _interrupt(flow, None)
