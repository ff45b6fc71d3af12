"""Windows of time that hold far less than lateness keeps: their band drives, and the pairs stay those of a scan."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from harness import driver_of
from watersmeet.join.drivers import Cells, Composite, OneKey
from watersmeet.join.orders import Orders

US = pa.timestamp("us")
TIMES: dict[str, tuple[Any, Any, pa.DataType, pa.DataType]] = {
    "timestamps": ("2 s", "60 s", US, US),
    "two units": ("2 s", "1 min", US, pa.timestamp("ms")),
    "zones": ("1500 ms", "60 s", pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin")),
    "whole numbers": (2_000_000, 60_000_000, pa.int64(), pa.int64()),
    "floats": (2e6, 6e7, pa.float64(), pa.float64()),
    "decimals": (2_000_000, 60_000_000, pa.decimal128(16, 2), pa.decimal128(16, 2)),
    "durations": ("2 s", "60 s", pa.duration("us"), pa.duration("ms")),
}
CONDITIONS: dict[str, tuple[str, type]] = {
    "an equality": ("t.k = q.k", Composite),
    "a text": ("t.sym = q.sym", Composite),
    "two equalities": ("t.k = q.k AND t.sym = q.sym", Composite),
    "a band": ("ABS(t.x - q.x) <= 300", Cells),
    "an inequality": ("t.x < q.x", OneKey),
    "arithmetic": ("t.x * 3 > q.x + t.k * 400", OneKey),
    "nothing": ("TRUE", OneKey),
    "an equality and a wide band": ("t.k = q.k AND ABS(t.x - q.x) <= 900", Composite),
}


def rows(random: np.random.Generator, start: int, count: int, kind: pa.DataType) -> pa.RecordBatch:
    """Ten rows a second; times are up to a minute out of order, some more."""
    behind = random.integers(0, 60_000_000, count) * (random.random(count) < 0.5)
    micros = (start + np.arange(count)) * 100_000 - behind - 20_000_000 * (random.random(count) < 0.05)
    if pa.types.is_decimal(kind):
        times = pa.array([Decimal(int(value)) for value in micros], kind)
    elif pa.types.is_floating(kind) or pa.types.is_integer(kind):
        times = pa.array(micros).cast(kind)
    elif pa.types.is_timestamp(kind):
        times = pa.array(micros, US).cast(pa.timestamp(kind.unit), safe=False)
        times = times.view(kind)
    else:
        times = pa.array(micros, pa.duration("us")).cast(kind, safe=False)
    k = random.integers(0, 4, count)
    return pa.record_batch(
        {
            "ts": times,
            "k": pa.array(k, mask=random.random(count) < 0.05),
            "sym": [f"S{i}" for i in k],
            "x": random.integers(0, 1000, count),
        }
    )


def joins(text: str, times: str, **options: Any) -> tuple[wm.StreamJoin, wm.StreamJoin]:
    duration, lateness, *_ = TIMES[times]
    windows = {
        "t": wm.Range(duration, lateness=lateness),
        "q": wm.Range(duration, lateness=lateness),
    }
    return wm.StreamJoin(text, windows=windows, **options), wm.StreamJoin(
        text, windows=windows, index="scan", **options
    )


def sorted_pairs(result: wm.Result) -> list[tuple[Any, ...]]:
    return sorted(zip(*(ids.tolist() for ids in result.pairs().values()), strict=True))


def late_rows(result: wm.Result) -> dict[str, int]:
    return {name: rows.num_rows for name, rows in result.late.items()}


OPTIONS: list[dict[str, Any]] = [{"cores": 2}, {"how": "full"}, {"result": "count"}]


@pytest.mark.parametrize(
    ("times", "options"),
    [*((times, {}) for times in TIMES), *(("timestamps", options) for options in OPTIONS)],
    ids=str,
)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_pairs_are_those_of_a_scan(condition: str, times: str, options: dict[str, Any]) -> None:
    text, kind = CONDITIONS[condition]
    random, found, late = np.random.default_rng(1), 0, 0
    one, scan = joins(text, times, **options)
    with one, scan:
        for start in range(0, 2400, 200):
            count = 200 if start % 400 else int(random.integers(1, 60))
            given = {name: rows(random, start, count, TIMES[times]["tq".index(name) + 2]) for name in "tq"}
            got, wanted = one.push(given), scan.push(given)
            assert got.count == wanted.count
            assert late_rows(got) == late_rows(wanted)
            late += sum(late_rows(got).values())
            found += got.count
            if options.get("result") != "count":
                assert sorted_pairs(got) == sorted_pairs(wanted)
        assert type(driver_of(one)) is kind
        assert any(band.text.endswith("(the windows)") for band in driver_of(one).bands)
    assert found > 100
    assert late


MANY = {
    "a chain": "a.k = b.k AND b.x BETWEEN c.x - 300 AND c.x + 300",
    "one key": "a.k = b.k AND b.k = c.k",
    "a text and a residual": "a.sym = b.sym AND a.x + b.x > c.x * 2",
    "nothing": "TRUE",
}


@pytest.mark.parametrize(
    "options", [{}, {"stash": "auto"}, {"stash": 500}, {"result": "count"}, {"cores": 2}], ids=str
)
@pytest.mark.parametrize("text", MANY.values(), ids=MANY)
def test_so_are_those_of_many_streams_one_of_them_in_a_window_of_rows(
    text: str, options: dict[str, Any]
) -> None:
    random, found = np.random.default_rng(1), 0
    timed = {
        "a": wm.Range("2 s", lateness="60 s"),
        "b": wm.Range("1 s", lateness="30 s"),
        "c": wm.Range("1 s"),
    }
    windows = timed if text != MANY["a chain"] else {**timed, "d": wm.Rows(3)}
    one = wm.StreamJoin(text, windows=windows, **options)
    scan = wm.StreamJoin(text, windows=windows, index="scan", **{**options, "stash": None})
    with one, scan:
        for start in range(0, 1600, 100):
            counts = {
                name: 10 if name == "d" else 100 if start % 300 else int(random.integers(1, 60))
                for name in windows
            }
            given = {name: rows(random, start, count, US) for name, count in counts.items()}
            got, wanted = one.push(given), scan.push(given)
            assert got.count == wanted.count
            assert late_rows(got) == late_rows(wanted)
            found += got.count
            if options.get("result") != "count":
                assert sorted_pairs(got) == sorted_pairs(wanted)
        plan = one._engine.planning.plan
        assert isinstance(plan, Orders)
        drivers = [link for steps in plan.steps for step in steps for link in step.drivers]
        assert any(link.band.text.endswith("(the windows)") for link in drivers)
        assert not any(
            link.text.endswith("(the windows)")
            for steps in plan.steps
            for step in steps
            for link in step.checks
        )
        assert plan.finds_few == ("d" not in windows)
    assert found > 100


def test_the_plan_says_so_and_what_is_stored_lies_in_few_sub_windows() -> None:
    join, _ = joins("t.k = q.k", "timestamps")
    random = np.random.default_rng(1)
    for start in range(0, 6000, 100):
        join.push({name: rows(random, start, 100, US) for name in "tq"})
    told = join.explain()
    assert (
        "t.k = q.k AND t.ts between q.ts - INTERVAL '2' SECOND and q.ts + INTERVAL '2' SECOND (the windows)"
        in told
    )
    assert "check      t.ts" not in told
    assert join.stats()["streams"]["t"]["subwindows"] <= 4


@pytest.mark.parametrize(("duration", "lateness"), [("2 s", 0), ("2 s", "1 s"), ("60 s", "30 s")])
def test_windows_that_hold_most_of_what_is_stored_do_not_drive(duration: str, lateness: Any) -> None:
    join = wm.StreamJoin("t.k = q.k", t=wm.Range(duration, lateness=lateness), q=wm.Range(duration))
    random = np.random.default_rng(1)
    for start in range(0, 2000, 200):
        join.push({name: rows(random, start, 200, US) for name in "tq"})
    assert "(the windows)" not in join.explain()


@pytest.mark.parametrize("index", ["hash", "scan", "bi_sort", "rap_table", "wib_tree"])
def test_an_index_that_is_asked_for_serves(index: str) -> None:
    duration, lateness, *_ = TIMES["timestamps"]
    windows = {name: wm.Range(duration, lateness=lateness) for name in "tq"}
    random = np.random.default_rng(1)
    with (
        wm.StreamJoin("t.k = q.k", windows=windows, index=index) as one,
        joins("t.k = q.k", "timestamps")[1] as scan,
    ):
        for start in range(0, 2000, 200):
            given = {name: rows(random, start, 200, US) for name in "tq"}
            assert sorted_pairs(one.push(given)) == sorted_pairs(scan.push(given))


def test_a_saved_join_goes_on_with_it(tmp_path: Any) -> None:
    join, scan = joins("t.k = q.k", "timestamps")
    random = np.random.default_rng(1)
    for start in range(0, 2000, 200):
        given = {name: rows(random, start, 200, US) for name in "tq"}
        join.push(given)
        scan.push(given)
    join.save(tmp_path / "state")
    again = wm.StreamJoin.load(tmp_path / "state")
    assert "(the windows)" in again.explain()
    for start in range(2000, 3000, 200):
        given = {name: rows(random, start, 200, US) for name in "tq"}
        assert sorted_pairs(again.push(given)) == sorted_pairs(scan.push(given))


@pytest.mark.parametrize("unit", ["s", "us"])
def test_windows_without_end_are_windows(unit: str) -> None:
    """Longer than any span of time that SQL has, and so is their lateness."""
    windows = {name: wm.Range("999999999 w", lateness="9999999999 w") for name in "tq"}
    random = np.random.default_rng(1)
    with (
        wm.StreamJoin("t.k = q.k", windows=windows) as one,
        wm.StreamJoin("t.k = q.k", windows=windows, index="scan") as scan,
    ):
        given = {name: rows(random, 0, 200, pa.timestamp(unit)) for name in "tq"}
        assert sorted_pairs(one.push(given)) == sorted_pairs(scan.push(given)) != []
        assert "6,999,999,993 days (the windows)" in one.explain()
