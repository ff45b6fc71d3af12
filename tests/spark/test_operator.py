"""The operator against the oracle, without a Spark session: windows, join types, ways of spreading, restarts, other cores."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, script, window
from spark.batch_oracle import BatchOracle, arranged
from spark.runner import Runner
from strategies import HOWS, Run, batch, runs
from watersmeet.errors import ConditionError, DataError, OptionError
from watersmeet.join.outer import join_type
from watersmeet.spark.shuffle.spread import choose_spread
from watersmeet.spark.spec import Binding, JoinSpec
from watersmeet.sql.condition import Condition


def spec_of(
    run: Run, spread: str, cores: int, order: str | None, state: str, select: str, **options: Any
) -> JoinSpec:
    schemas = {side: run.schema(side) for side in "rs"}
    windows = (window(run.r, run.unit), window(run.s, run.unit))
    bound = Condition(run.condition.text).bind(schemas)
    try:
        chosen = choose_spread(spread, bound, windows, order, join_type(run.how).name)
    except OptionError:
        chosen = choose_spread("auto", bound, windows, order, join_type(run.how).name)
    return JoinSpec(
        run.condition.text,
        ("r", "s"),
        windows,
        (schemas["r"], schemas["s"]),
        how=run.how,
        select=select,
        order=order,
        spread=chosen,
        cores=cores,
        state=state,
        **{"instance": "one", "late": "late", "retain": 3, **options},
    )


def parts(rows: list[Any], run: Run, side: str, count: int) -> list[pa.RecordBatch]:
    """A stream's rows of a batch in ``count`` map partitions."""
    size = len(rows)
    return [batch(rows[size * i // count : size * (i + 1) // count], run, side) for i in range(count)]


def select_of(how: str) -> str:
    if how in ("semi", "anti", "left_semi", "left_anti"):
        return "r.id AS rid, NULL AS sid"
    if how in ("right_semi", "right_anti"):
        return "NULL AS rid, s.id AS sid"
    return "r.id AS rid, s.id AS sid"


def check(
    run: Run, spread: str, cores: int, order: str | None, partitions: int, restarts: list[dict[str, Any]]
) -> None:
    oracle = BatchOracle(run.condition.predicate, run.r, run.s, run.how)
    with tempfile.TemporaryDirectory() as state:
        runner = Runner(spec_of(run, spread, cores, order, state, select_of(run.how)))
        runner.spec = replace(runner.spec, instance=state)
        note(
            f"{script(run)}\nspread {runner.spec.spread}, {cores} cores, order {order}, {partitions} partitions, {restarts}"
        )
        for number, push in enumerate(run.pushes):
            rows = {side: [row for stream, row in push if stream == side] for side in "rs"}
            timed = [event for event in push if event[1]["ts"] is not None]
            pairs, late = oracle.batch(arranged(timed, order is not None))
            late += [event for event in push if event[1]["ts"] is None]
            found = runner.batch(number, [parts(rows[side], run, side, partitions) for side in "rs"])
            got = sorted(((row["rid"], row["sid"]) for row in found if row["late"] is None), key=repr)
            assert got == oracle.ids(pairs), f"batch {number}"
            refused = sorted(row["late"] for row in found if row["late"] is not None)
            assert refused == sorted(stream for stream, _ in late), f"late rows of batch {number}"
            if restarts:
                change = restarts[number % len(restarts)]
                if change is not None:
                    runner.restart(**change)


def with_nulls(run: Run, every: int) -> Run:
    """One row in ``every`` of a stream with a time window has no time: it is late, whenever it comes."""

    def blank(event: Any) -> Any:
        stream, row = event
        timed = (run.r if stream == "r" else run.s)[0] == "range"
        return (stream, {**row, "ts": None}) if timed and every and row["id"] % every == every - 1 else event

    return replace(run, pushes=tuple(tuple(map(blank, push)) for push in run.pushes))


@st.composite
def cases(draw: st.DrawFn, how: str) -> tuple[Run, str, int, str | None, int]:
    run = draw(runs(how=how))
    return (
        with_nulls(run, draw(st.sampled_from([0, 1, 2, 5]))),
        draw(st.sampled_from(["auto", "hash", "range", "broadcast"])),
        draw(st.integers(1, 4)),
        draw(st.sampled_from([None, None, "ts"])),
        draw(st.integers(1, 3)),
    )


@pytest.mark.parametrize("how", sorted(set(HOWS) - {"semi", "anti"}))
@examples(30)
@given(data=st.data())
def test_every_batch_gives_what_the_oracle_says(how: str, data: st.DataObject) -> None:
    check(*data.draw(cases(how)), restarts=[])


@pytest.mark.parametrize("how", ["inner", "full", "left_semi", "right_anti"])
@examples(20)
@given(data=st.data())
def test_a_restart_or_other_cores_change_nothing(how: str, data: st.DataObject) -> None:
    change = st.one_of(st.none(), st.just({}), st.builds(lambda n: {"cores": n}, st.integers(1, 4)))
    check(*data.draw(cases(how)), restarts=data.draw(st.lists(change, min_size=1, max_size=3)))


@pytest.mark.parametrize("kind", [pa.float64(), pa.timestamp("us", "UTC")])
def test_a_row_without_a_time_is_late_and_moves_no_clock(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([("id", pa.int64()), ("ts", kind), ("x", pa.int64())])
    length = 5 if kind == pa.float64() else "5 us"
    window = wm.Range(length, time="ts", lateness=length)
    spec = JoinSpec(
        "r.x = s.x", ("r", "s"), (window, window), (schema, schema), select="r.id AS rid, s.id AS sid", late="late", cores=2,
        state=str(tmp_path), instance=str(tmp_path),
    )  # fmt: skip
    runner = Runner(spec)

    def rows(ids: list[int], times: list[Any]) -> list[pa.RecordBatch]:
        columns = [pa.array(ids), pa.array(times, pa.float64()), pa.array([0] * len(ids))]
        columns[1] = columns[1] if kind == pa.float64() else columns[1].cast(pa.int64()).cast(kind)
        return [pa.RecordBatch.from_arrays(columns, schema=schema)]

    nan = float("nan") if kind == pa.float64() else None
    found = runner.batch(
        0, [rows([0, 1], [None, nan]), rows([0], [None])]
    )  # nobody has a time: nothing begins
    assert sorted((row["late"], row["rid"], row["sid"]) for row in found) == [
        ("r", 0, None),
        ("r", 1, None),
        ("s", None, 0),
    ]
    assert (runner.figures[0]["late_r"], runner.figures[0]["late_s"]) == (2, 1)
    assert "watermark" not in runner.figures[0]
    found = runner.batch(1, [rows([2, 3], [100, nan]), rows([1], [103])])
    assert sorted(((row["late"], row["rid"], row["sid"]) for row in found), key=repr) == [
        ("r", 3, None),
        (None, 2, 1),
    ]
    assert runner.figures[1]["watermark"] == 2 * 95  # of two cores, added up


def test_a_batch_dataframe_with_a_null_time_is_refused_or_hands_it_out(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("x", pa.int64())])
    window = wm.Range(5, time="ts")
    spec = JoinSpec(
        "r.x = s.x", ("r", "s"), (window, window), (schema, schema), "left", "r.id AS rid, s.id AS sid", streaming=False,
    )  # fmt: skip
    sides = [
        [
            pa.RecordBatch.from_pylist(
                [{"id": i, "ts": ts, "x": 0} for i, ts in enumerate(times)], schema=schema
            )
        ]
        for times in ([1, None, 2], [3])
    ]
    with pytest.raises(DataError) as told:
        Runner(spec).batch(None, sides)
    assert str(told.value) == (
        "the time column 'ts' of 'r' must hold a time in every row of a batch DataFrame; got NULL (or NaN) in 1 of 3 rows; do: "
        "r=r.where('ts IS NOT NULL'), or late='refused', which hands such rows out"
    )
    found = Runner(replace(spec, late="late")).batch(None, sides)
    assert sorted(((row["rid"], row["sid"], row["late"]) for row in found), key=repr) == [
        (0, 0, None),
        (1, None, "r"),
        (2, 0, None),
    ]


def test_a_void_column_is_bound_as_it_is_and_keeps_no_other_column() -> None:
    """The engine waits for the type of such a column, and keeps what it may need then; a DataFrame's schema stays."""
    schemas = (
        pa.schema({"k": pa.int64(), "x": pa.int64(), "v": pa.null()}),
        pa.schema({"k": pa.int64(), "x": pa.int64()}),
    )
    spec = JoinSpec("r.k = s.k", ("r", "s"), (wm.Rows(5), wm.Rows(5)), schemas, select="r.k, s.x")
    assert Binding(spec).columns == (["k"], ["k", "x"])
    with pytest.raises(ConditionError):
        Binding(replace(spec, condition="r.v + INTERVAL 1 DAY > s.k"))


def test_a_null_in_the_column_to_merge_by_is_refused_with_what_to_do(tmp_path: Path) -> None:
    schema = pa.schema({"k": pa.int64(), "at": pa.int64()})
    spec = JoinSpec(
        "r.k = s.k", ("r", "s"), (wm.Rows(5), wm.Rows(5)), (schema, schema), order="at", spread="counted",
        state=str(tmp_path), instance="order",
    )  # fmt: skip
    rows = [pa.RecordBatch.from_pydict({"k": [1, 2], "at": [1, at]}, schema=schema) for at in (2, None)]
    with pytest.raises(
        DataError, match=r"order='at' must not be null; got null in stream 's'; do: s=s.where"
    ):
        Runner(spec).batch(0, [[rows[0]], [rows[1]]])
