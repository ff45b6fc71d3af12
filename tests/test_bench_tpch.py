"""The benchmark of TPC-H's queries measures what it says: DuckDB's answers, honest targets. No clock is asserted on."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from watersmeet.bench import tpch
from watersmeet.bench.measure import Point
from watersmeet.bench.report import machine
from watersmeet.bench.tpch import TpchOutcome, TpchPlan, bench_tpch, print_tpch, tpch_targets
from watersmeet.bench.tpch_data import ORDERS, generator
from watersmeet.cli import main

needs_generator = pytest.mark.skipif(generator() is None, reason="tpchgen-cli is not installed")


def measured(q1: float = 2.0, q3: float = 4.0) -> TpchOutcome:
    """DuckDB takes a second, ours so many."""
    outcome = TpchOutcome(TpchPlan(1.0, 2, 3, Path("unused")))
    for name, seconds in (("Q1", q1), ("Q3", q3)):
        for order in ORDERS:
            for joiner, taken in (("ours", seconds), ("DuckDB", 1.0)):
                point = Point(name, order, joiner, 1000, 100, "complete", 1000, taken, 10, 4, True)
                outcome.points.append(point)
    return outcome


def test_targets_are_reached_and_missed_just() -> None:
    assert [line.reached for line in tpch_targets(measured())] == [True, True]
    assert [line.reached for line in tpch_targets(measured(2.01, 4.01))] == [False, False]
    assert tpch_targets(measured())[1].measured == "4.0x to 4.0x (mixed evenly)"


def test_the_slowest_order_decides() -> None:
    outcome = measured(1.0, 1.0)
    outcome.points = [
        replace(point, seconds=9.0) if (point.workload, point.joiner) == ("by date", "ours") else point
        for point in outcome.points
    ]
    lines = tpch_targets(outcome)
    assert [line.reached for line in lines] == [False, False]
    assert lines[0].measured == "1.0x to 9.0x (by date)"


def test_a_wrong_answer_and_an_order_that_is_missing_reach_nothing() -> None:
    outcome = measured()
    outcome.points[0] = replace(outcome.points[0], verified=False)
    del outcome.points[-1]
    lines = tpch_targets(outcome)
    assert [line.reached for line in lines] == [False, None]
    assert lines[0].measured.endswith("WRONG ANSWER")
    console = Console(record=True, width=200)
    print_tpch(outcome, {**machine(2), "seconds": 1.0}, console)
    text = console.export_text()
    for part in ("Seconds to the final answer at scale factor 1", "WRONG ANSWER", "2.0x", "4.0x", "Targets"):
        assert part in text, part


@needs_generator
def test_a_small_run_measures_checks_and_writes_everything(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    console, file = Console(record=True, width=200), tmp_path / "bench.json"
    assert bench_tpch(sf=0.001, quick=True, cores=1, data=tmp_path, json=file, console=console), (
        console.export_text()
    )
    content = json.loads(file.read_text())
    assert content["sf"] == 0.001
    assert not content["problems"]
    assert len(content["points"]) == 2 * 2 * len(ORDERS)
    assert all(point["verified"] for point in content["points"] if point["joiner"] == "ours")
    assert all(line["reached"] is not None for line in content["targets"])


@needs_generator
def test_a_wrong_answer_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(tpch, "same", lambda ours, theirs: False)
    monkeypatch.setattr(tpch, "ORDERS", {"mixed evenly": ORDERS["mixed evenly"]})
    console = Console(record=True, width=200)
    assert not bench_tpch(sf=0.001, quick=True, cores=1, data=tmp_path, console=console)
    assert "ours: Q1, mixed evenly" in console.export_text()


@pytest.mark.parametrize("right", [True, False])
def test_the_command_hands_on_what_was_asked_and_fails_where_an_answer_was_wrong(
    right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def measure(**options: Any) -> bool:
        asked.update(options)
        return right

    monkeypatch.setattr(tpch, "bench_tpch", measure)
    given = [
        "--sf",
        "0.1",
        "--quick",
        "--cores",
        "3",
        "--json",
        f"{tmp_path / 'a.json'}",
        "--data",
        f"{tmp_path}",
    ]
    monkeypatch.setattr("sys.argv", ["watersmeet", "bench", "tpch", *given])
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code or 0) == (0 if right else 1)
    assert asked == {"sf": 0.1, "quick": True, "cores": 3, "json": tmp_path / "a.json", "data": tmp_path}
