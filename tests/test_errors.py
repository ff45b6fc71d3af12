"""What is refused, in which words, and that a refused push leaves the join as if it had not been made."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import drive, examples, make, pairs, push
from strategies import HOWS, Run, batch, runs
from watersmeet.errors import (
    ConditionError,
    DataError,
    OptionError,
    ResultError,
    SchemaError,
    StateError,
    WatersmeetError,
)

ROWS = {"r": wm.Rows(10), "s": wm.Rows(10)}
R = {"k": [1, 2], "x": [1, 2]}
S = {"k": [1, 2], "y": [1, 2]}


def joined(condition: str = "r.k = s.k", **options: Any) -> wm.StreamJoin:
    return wm.StreamJoin(condition, **{**ROWS, **options})


def test_there_is_one_root_of_all_errors() -> None:
    kinds = [ConditionError, DataError, OptionError, ResultError, SchemaError, StateError]
    assert all(issubclass(kind, WatersmeetError) for kind in kinds)
    assert wm.WatersmeetError is WatersmeetError


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: wm.Rows(0), "at least 1; got 0"),
        (lambda: wm.Rows(-5), "at least 1; got -5"),
        (lambda: wm.Rows(2.5), "whole number.*got 2.5"),  # type: ignore[arg-type]
        (lambda: wm.Rows(True), "whole number.*got True"),
        (lambda: wm.Rows("10"), "whole number.*got '10'$"),  # type: ignore[arg-type]
        (lambda: wm.Rows("10 s"), r"got '10 s'; for a time say Range\('10 s', time="),  # type: ignore[arg-type]
        (lambda: wm.Range("ten seconds"), "number and a unit.*got 'ten seconds'.*use one of"),
        (lambda: wm.Range("10 parsecs"), "number and a unit.*got '10 parsecs'"),
        (lambda: wm.Range("10"), "number and a unit.*got '10'"),
        (lambda: wm.Range(-1), "not negative; got -1"),
        (lambda: wm.Range(float("nan")), "finite and not negative; got nan"),
        (lambda: wm.Range(timedelta(seconds=-1)), "not negative"),
        (lambda: wm.Range(None), "must be a text like"),  # type: ignore[arg-type]
        (lambda: wm.Range(5, time=""), "must name the time column"),
        (lambda: wm.Range(5, time="ts", lateness="-1 s"), "got '-1 s'"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused_when_it_is_made(
    wrong: Callable[[], Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        wrong()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "sideways"}, "how.*inner.*got 'sideways'"),
        ({"index": "btree"}, "index.*bi_sort.*got 'btree'"),
        ({"cores": 0}, "cores.*got 0"),
        ({"result": "rows"}, "result.*pairs.*got 'rows'"),
        ({"subwindow": 0}, "subwindow.*got 0"),
        ({"r": 10}, "r.*Rows.*got 10"),
        ({f"s{i}": wm.Rows(1) for i in range(31)}, "must have two to 32 streams.*got 33: r, s, s0"),
        ({"windows": {"r": wm.Rows(1), "s": wm.Rows(1)}}, "windows"),
        ({"windows": [wm.Rows(1), wm.Rows(1)]}, "windows= must be a dict from stream to window"),
        ({"howw": "left"}, r"StreamJoin has no option 'howw'; did you mean 'how'\?"),
        ({"r": 5, "s": 5, "cors": 2}, r"no option 'cors'; did you mean 'cores'\?"),
        ({"speed": "fast"}, "no option 'speed'; its options are windows, how, select"),
        ({"r": 1000}, r"stream 'r'.*got 1000; for its last 1,000 rows say r=Rows\(1000\)"),
        ({"s": "10 s"}, r"stream 's'.*got '10 s'.*say s=Range\('10 s', time=\.\.\.\)"),
        ({"s": None}, r"got None; for all its rows say s=Unbounded\(\)"),
        ({"r": wm.Rows}, r"must be Rows\(n\).*got the class Rows"),
        ({"windows": {"r": 5, "s": wm.Rows(1)}, "r": wm.Rows(1)}, "by windows= or by.*got both"),
    ],
    ids=str,
)
def test_a_wrong_option_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=f"(?s){message}"):
        joined(**options)


@pytest.mark.parametrize(
    ("index", "condition"),
    [
        ("hash", "r.k < s.k"),
        ("grid", "r.k = s.k"),
        ("bi_sort", "r.k * s.k > 3"),
        ("rap_table", "(r.k + s.k) % 2 = 1"),
    ],
)
def test_an_index_that_cannot_serve_the_condition_is_refused(index: str, condition: str) -> None:
    with pytest.raises(OptionError, match=f"index='{index}'.*needs"):
        joined(condition, index=index).push(r=R, s=S)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("r.k = t.k", "t"),
        ("r.k = s.nothing", "nothing"),
        ("k = 1 AND r.x = s.y", "k"),  # both streams have k
        ("r.k = ", r"\^"),
        ("r.k = s.k AND (", r"\^"),
        ("r.k = 'a'", "(?i)bigint|int64|compare"),
        ("SUM(r.k) = s.k", "(?i)aggregate"),
        ("r.k IN (SELECT 1)", "(?i)subquer"),
        ("", "(?i)condition|empty"),
    ],
)
def test_a_bad_condition_shows_its_place(condition: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        joined(condition).push(r=R, s=S)


def timed(**options: Any) -> wm.StreamJoin:
    window = wm.Range(5, time="ts", lateness=1)
    return wm.StreamJoin("r.k = s.k", **{"r": window, "s": window, **options})


T = {"k": [1, 2, 3], "ts": [1, 2, 3]}
PARTLY = pa.table({"k": [1, 2, 3], "ts": pa.array([1, None, 3], pa.int64())})
SECONDS = pa.array([datetime(2024, 1, 1)] * 3, pa.timestamp("us"))


@pytest.mark.parametrize(
    ("fails", "kind", "message"),
    [
        (lambda: timed().push(r=T, s=PARTLY), DataError, "'ts'.*'s'.*null.*row 1"),
        (lambda: timed().push(r={**T, "ts": [0.5, np.nan, 1]}, s=T), DataError, "'ts'.*'r'.*row 1"),
        (lambda: timed().push(r={"k": [1]}, s=T), SchemaError, "ts"),
        (lambda: timed().push(r={**T, "ts": ["a", "b", "c"]}, s=T), (SchemaError, OptionError), "ts|time"),
        (
            lambda: timed().push(r={**T, "ts": SECONDS}, s={**T, "ts": SECONDS}),
            OptionError,
            "'10 s' or a timedelta",
        ),
        (lambda: timed(r=wm.Range("5 s", time="ts")).push(r=T, s=T), OptionError, "must be a number"),
        (lambda: timed().push(r={**T, "ts": SECONDS}, s=T), (SchemaError, OptionError), "time|ts"),
        (lambda: joined().push(q=R), OptionError, "'q'|q"),
        (lambda: joined().push(r=5), SchemaError, "'r'.*int"),
        (lambda: joined().push(r={"k": [1, 2], "x": [1]}), SchemaError, "'r'"),
        (lambda: joined().push(r=pa.table([[1], [2]], names=["k", "k"])), SchemaError, "unique.*k"),
        (lambda: joined().push(r=R, s=S, order=["r", "s", "r"]), OptionError, "order=.*4.*got 3"),
        (lambda: joined().push(r=R, s=S, order=["r", "s", "r", "r"]), OptionError, "order=.*got 3 and 1"),
        (lambda: joined().push(r=R, s=S, order=["r", "s", "r", "q"]), OptionError, "order=.*'q' at place 3"),
        (lambda: joined().push(r=R, s=S, order="when"), (SchemaError, OptionError), "when"),
        (lambda: joined(select="r.nothing").push(r=R, s=S), ConditionError, "nothing"),
        (
            lambda: joined(select="r.*,"),
            ConditionError,
            "select list must be valid SQL; got nothing beside ','",
        ),
        (lambda: joined(select="r.* , AS x"), ConditionError, "must be valid SQL"),
    ],
)
def test_a_push_that_cannot_be_used_is_refused_in_clear_words(
    fails: Callable[[], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=f"(?s){message}"):
        fails()


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"k": [1]}, "missing: x"),
        ({"k": [1], "x": [1], "z": [1]}, "unexpected: z"),
        ({"k": ["a"], "x": [1]}, "'k'.*'r'.*int64"),
        ({"k": [1.5], "x": [1]}, "'k'.*'r'.*int64"),
    ],
)
def test_the_first_batch_fixes_the_schema(second: dict[str, Any], message: str) -> None:
    join = joined()
    join.push(r=R, s=S)
    with pytest.raises(SchemaError, match=message):
        join.push(r={name: pa.array(values) for name, values in second.items()})
    assert join.push(r={"x": [1], "k": [1]}).count == 1  # columns in another order are the same columns


def test_a_finished_join_takes_no_more_rows() -> None:
    join = joined()
    join.push(r=R, s=S)
    join.finish()
    with pytest.raises(StateError, match="finish"):
        join.push(r=R)


def test_pairs_that_were_never_made_are_not_made_up() -> None:
    result = joined(result="count").push(r=R, s=S)
    assert result.count == 2
    with pytest.raises(ResultError, match="result="):
        result.pairs()
    with pytest.raises(ResultError, match="result="):
        result.to_arrow()


def bad_pushes(run: Run) -> list[dict[str, Any]]:
    """Pushes of which one part is in order and another is not."""
    schemas = {side: run.schema(side) for side in "rs"}
    row = {side: {**dict.fromkeys(schemas[side].names), "id": 10**6, "ts": 100} for side in "rs"}
    good = {side: batch([row[side]] * 3, run, side) for side in "rs"}
    no_time = good["s"].set_column(1, "ts", pa.nulls(3, run.time[1]))
    pushes: list[dict[str, Any]] = [
        {"r": good["r"], "s": good["s"], "order": ["r"] * 6},
        {"r": good["r"], "nobody": good["s"]},
        {"s": good["s"], "r": "no batch"},
    ]
    if run.declared:  # else it may be the first batch of s, and fix the schema
        pushes.append({"r": good["r"], "s": good["s"].drop_columns(["ts"])})
    if run.s[0] == "range":
        pushes.append({"r": good["r"], "s": no_time})
    return pushes


@examples(40)
@given(st.sampled_from(HOWS).flatmap(lambda how: runs(how=how)), st.integers(0, 10))
def test_a_refused_push_is_as_if_it_had_not_been_made(run: Run, after: int) -> None:
    base = drive(replace(run))
    join = make(run)
    found = []
    for number, events in enumerate(run.pushes):
        found.append(pairs(push(join, run, events)))
        if number == after % max(len(run.pushes), 1):
            before = join.stats()
            for bad in bad_pushes(run):
                with pytest.raises(WatersmeetError):
                    join.push(**bad)
            assert {side: rows["rows"] for side, rows in join.stats()["streams"].items()} == {
                side: rows["rows"] for side, rows in before["streams"].items()
            }
    assert [*found, pairs(join.finish())] == base[0]


def test_a_refused_first_batch_leaves_its_schema_open_and_the_other_stream_as_it_was() -> None:
    window = wm.Range(10, time="ts")
    join = wm.StreamJoin("r.k = s.k", r=window, s=window, select="r.k, r.name, s.ts AS at")
    join.push(r={"k": [1, 2], "name": ["a", "b"], "ts": [1, 2]})
    with pytest.raises(DataError, match=r"'ts' of stream 's'.*row 1"):
        join.push(s={"k": [1, 2], "ts": [1, None]})
    with pytest.raises(OptionError, match="order="):
        join.push(s={"k": [1, 2], "ts": [1.0, 2.0]}, order=["s"])
    result = join.push(s={"k": [2], "other": ["x"], "ts": [3]})  # another schema than the refused ones
    assert result.to_arrow().to_pylist() == [{"k": 2, "name": "b", "at": 3}]


def test_a_stream_may_be_called_like_an_option() -> None:
    join = wm.StreamJoin("order.k = item.k", windows={"order": wm.Rows(5), "item": wm.Rows(5)})
    assert join.push({"order": {"k": [1]}, "item": {"k": [1]}}).count == 1
    assert join.push({"item": {"k": [1]}}, order=["item"]).count == 1


@pytest.mark.parametrize("bound", [True, False])
def test_a_push_that_fails_half_way_is_undone(bound: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong while rows are being stored (no memory, an interrupt): the join goes on as if it had not been pushed."""
    window = wm.Range(100, time="ts")
    schemas = {"s": {"k": pa.int64(), "ts": pa.int64()}} if bound else None
    join = wm.StreamJoin("r.k = s.k", r=window, s=window, how="left", schemas=schemas)
    join.push(r={"k": [1, 2], "ts": [1, 2]})
    with monkeypatch.context() as patch:
        patch.setattr(
            type(join._engine.planning),
            "first_due",
            lambda *_: (_ for _ in ()).throw(MemoryError("none left")),
        )
        with pytest.raises(MemoryError):
            join.push(r={"k": [1, 3], "ts": [50, 4]})
    assert join.stats()["streams"]["r"]["rows"] == 2
    result = join.push(r={"k": [5], "ts": [5]}, s={"k": [1, 3, 5], "ts": [5, 5, 5]})
    assert sorted(zip(*result.pairs().values(), strict=True)) == [(0, 0), (2, 2)]
    assert sorted(join.finish().pairs()["r"]) == [1]
