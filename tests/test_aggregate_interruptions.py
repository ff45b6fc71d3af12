"""An exception at any step of an aggregation's calls leaves it as it was: the call can be repeated, and all that follows is right."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import aggregate_oracle as oracle
from interruptions import every_step
from test_aggregate import Run, check, found, plain
from watersmeet.aggregate import bag
from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.event_time import Hop, Hopping, Session, Sessions
from watersmeet.aggregate.sliding import Sliding
from watersmeet.aggregate.spec import Aggregate, Grouping

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("x", pa.float64()),
        ("d", pa.decimal128(38, 2)),
        ("s", pa.string()),
        ("t", pa.int64()),
    ]
)
GROUPING = Grouping(
    ("k",),
    (
        Aggregate("var_samp", "x", "spread"),
        Aggregate("sum", "d", "money"),
        Aggregate("min", "s", "least"),
        Aggregate("max", "s", "most"),
        Aggregate("last", "s", "last", "t"),
    ),
)


def rows(start: int, stop: int) -> list[oracle.Row]:
    """So many that tables and dictionaries grow on the way."""
    return [
        {"k": f"k{i % 70}", "x": 2.0 ** (i % 40 * 9), "d": i, "s": f"text {i * 37 % 101}", "t": i * 13 % 50}
        for i in range(start, stop)
    ]


def batch(rows: list[oracle.Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def make() -> Run:
    run = Run(Aggregation(GROUPING, SCHEMA, changes=True), SCHEMA)
    run.add(rows(0, 60))
    run.totals.changes()
    run.add(rows(60, 65))
    return run


def standing(run: Run) -> Any:
    return plain(found(run.totals.answer(), 1)), run.totals.arrived


def add(run: Run) -> None:
    run.totals.add(batch(rows(65, 150)))


def check_added(run: Run, given: None) -> None:
    run.rows = list(enumerate(rows(0, 150)))
    check(run.totals, run.rows)
    run.retract(list(range(0, 150, 2)))
    check(run.totals, run.rows)


def retract(run: Run) -> None:
    run.totals.retract(batch(rows(3, 63)), np.arange(3, 63))


def check_retracted(run: Run, given: None) -> None:
    run.rows = [pair for pair in run.rows if not 3 <= pair[0] < 63]
    check(run.totals, run.rows)
    run.add(rows(0, 30))
    check(run.totals, run.rows)


def changes(run: Run) -> Any:
    return run.totals.changes()


def check_changes(run: Run, given: Any) -> None:
    assert given.come.num_rows == 5
    assert given.gone.num_rows == 0
    assert run.totals.changes().changelog().num_rows == 0


@pytest.mark.parametrize(
    ("operation", "verdict"), [(add, check_added), (retract, check_retracted), (changes, check_changes)]
)
def test_a_call_is_whole_or_not_at_all(operation: Any, verdict: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag, "SLACK", 20)  # so that there is something to tidy up
    assert every_step(make, operation, verdict, at_most=70, standing=standing) > 70


def test_a_slide_is_whole_or_not_at_all() -> None:
    def make_window() -> Sliding:
        sliding = Sliding(Aggregation(GROUPING, SCHEMA))
        sliding.push(batch(rows(0, 40)), np.arange(40), 0)
        return sliding

    def slide(sliding: Sliding) -> None:
        sliding.push(batch(rows(40, 80)), np.arange(40, 80), 30)

    def verdict(sliding: Sliding, given: None) -> None:
        check(sliding.aggregation, list(enumerate(rows(0, 80)))[30:])
        sliding.push(batch([]), np.arange(0), 60)
        check(sliding.aggregation, list(enumerate(rows(0, 80)))[60:])

    def stands(sliding: Sliding) -> Any:
        return plain(found(sliding.aggregation.answer(), 1)), len(sliding)

    every_step(make_window, slide, verdict, at_most=40, standing=stands)


@pytest.mark.parametrize("kind", ["hopping", "sessions"])
def test_a_window_is_closed_or_not(kind: str) -> None:
    def make_window() -> Any:
        windows = (
            Hopping(GROUPING, SCHEMA, Hop("t", 10, 5))
            if kind == "hopping"
            else Sessions(GROUPING, SCHEMA, Session("t", 3))
        )
        windows.push(batch(rows(0, 60)))
        return windows

    def operation(windows: Any) -> Any:
        return windows.advance(25)

    def verdict(windows: Any, given: pa.RecordBatch) -> None:
        last = windows.advance(1000)
        whole = make_window().advance(1000)
        assert given.num_rows > 0
        assert sorted(map(str, [*given.to_pylist(), *last.to_pylist()])) == sorted(
            map(str, whole.to_pylist())
        )

    def stands(windows: Any) -> Any:
        tables = windows.snapshot()
        return {name: table.num_rows for name, table in tables.items()}, tables["watermark"].to_pylist()

    every_step(make_window, operation, verdict, at_most=40, standing=stands)
