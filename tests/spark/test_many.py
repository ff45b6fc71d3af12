"""Joins of many streams against the oracle, without a Spark session: shapes, windows, ways of spreading, restarts, other cores."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from harness import examples
from multiway import Run, ranges, runs, unbounded, windows
from spark.many import Many

SPREADS = ("auto", "hash", "shares", "range", "broadcast")
WINDOWS = {"timed": ranges, "untimed": unbounded, "any": windows}


def with_nulls(run: Run, every: int) -> Run:
    """One row in ``every`` of a stream with a time window has no time: it is late, whenever it comes."""

    def blank(event: Any) -> Any:
        stream, row = event
        timed = run.windows[stream][0] == "range"
        return (stream, {**row, "ts": None}) if timed and every and row["id"] % every == every - 1 else event

    return replace(run, pushes=tuple(tuple(map(blank, push)) for push in run.pushes))


def check(data: st.DataObject, window: str, restarts: bool) -> None:
    run = data.draw(runs(window=WINDOWS[window]))
    order = data.draw(st.sampled_from([None, None, "ts"]))
    run = run if order else with_nulls(run, data.draw(st.sampled_from([0, 0, 2, 5])))
    spread, cores = data.draw(st.sampled_from(SPREADS)), data.draw(st.integers(1, 4))
    tables = [name for name in run.names[1:] if run.windows[name] == ("unbounded",)]
    static = [name for name in tables if data.draw(st.booleans())]
    with tempfile.TemporaryDirectory() as state:
        many = Many(run, Path(state), spread, order, cores, static)
        note(f"{run}\nspread {many.runner.spec.spread}, {cores} cores, order {order}, tables {static}")
        for push in run.pushes:
            many.batch(push, data.draw(st.integers(1, 3)))
            if restarts and data.draw(st.booleans()):
                change = {
                    "cores": data.draw(st.integers(1, 4)),
                    "spread": data.draw(st.sampled_from(SPREADS)),
                }
                note(f"after batch {many.number - 1}: {change}")
                many.restart(**change)


@pytest.mark.parametrize("window", WINDOWS)
@examples(40)
@given(data=st.data())
def test_every_batch_gives_what_the_oracle_says(window: str, data: st.DataObject) -> None:
    check(data, window, restarts=False)


@pytest.mark.parametrize("window", WINDOWS)
@examples(25)
@given(data=st.data())
def test_a_restart_other_cores_or_another_spread_change_nothing(window: str, data: st.DataObject) -> None:
    check(data, window, restarts=True)
