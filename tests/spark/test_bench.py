"""The Spark benchmark's bookkeeping: what is run, what must agree, what counts as reached. No session is needed."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from watersmeet.spark.bench import run as bench
from watersmeet.spark.bench.report import Run, Runs, disagreements, plot, print_run, targets, write_json
from watersmeet.spark.bench.schedule import SMALL, Scale, settings
from watersmeet.spark.bench.systems import SYSTEMS, Setting, seconds_held

SCALE = Scale.of(quick=True)
LARGE, LESS = SCALE.sizes


def batch(
    number: int, rows: int = 1000, seconds: float = 1.0, count: int = 10, checksum: int = 7
) -> dict[str, Any]:
    return {
        "batch": number,
        "rows": rows,
        "seconds": seconds,
        "count": count,
        "checksum": checksum,
        "state_rows": 0,
    }


def made(name: str, seconds: float, **changes: Any) -> Run:
    """A run whose batches of every size take that long, the last one changed."""
    listed = [batch(number, rows, seconds) for number, rows in enumerate(SCALE.batches(name))]
    listed[-1].update(changes)
    return Run(name, listed, filling=2)


def all_runs(**seconds: float) -> Runs:
    given = {"band": 0.1, "equality": 0.1, "empty": 0.09, "source": 0.05}
    given |= dict.fromkeys(("spark-hdfs", "spark-rocksdb", "buckets-hdfs", "buckets-rocksdb"), 4.0)
    return {name: made(name, spent) for name, spent in (given | seconds).items()}


def test_every_system_sees_the_same_batches_for_as_long_as_it_runs() -> None:
    scale = Scale.of(quick=False)
    found = {setting.system: setting for setting in settings(scale, 2)}
    assert set(found) == set(SYSTEMS)
    theirs = len(found["spark-hdfs"].sizes)
    assert all(len(setting.sizes) > theirs for setting in found.values() if SYSTEMS[setting.system].ours)
    for setting in found.values():
        assert setting.rows == scale.rows == 1_000_000
        assert setting.filling == 2
        assert setting.sizes[:theirs] == found["spark-hdfs"].sizes
        assert all(setting.sizes.count(size // 2) >= 3 for size in scale.sizes)
    assert found["band"].sizes[-1] == SMALL // 2
    assert seconds_held(1_000_000) == "10000 ms"


def test_the_windows_count_as_full_once_so_many_rows_have_come() -> None:
    assert Setting("band", 100, (50, 50, 50), 1, 1).filling == 2
    assert Setting("band", 100, (60, 30, 5, 5, 5), 1, 1).filling == 4


def test_a_rate_counts_batches_of_a_size_once_windows_are_full_and_java_is_warm() -> None:
    listed = [batch(number, 1000, 2.0) for number in range(6)] + [batch(6, 50, 0.5)]
    run = Run("band", listed, filling=2)
    assert [one["batch"] for one in run.counted(1000)] == [2, 3, 4, 5]
    assert run.rate(1000) == 500
    assert run.rate(50) == 100
    run.warm = 7
    assert [one["batch"] for one in run.counted(1000)] == [4, 5]
    assert Run("band").rate(1000) is None


def test_another_count_or_checksum_is_a_disagreement_with_its_batch() -> None:
    assert disagreements(all_runs()) == []
    last = len(SCALE.batches("buckets-hdfs")) - 1
    runs = all_runs() | {"buckets-hdfs": made("buckets-hdfs", 4.0, count=11)}
    assert [line.split(":")[0] for line in disagreements(runs)] == [f"batch {last}"] * 2
    runs = all_runs() | {"spark-rocksdb": made("spark-rocksdb", 4.0, checksum=8)}
    assert all("with another checksum" in line for line in disagreements(runs))
    assert len(disagreements(runs)) == 2
    other = made("spark-rocksdb", 4.0, rows=5, count=0)  # another schedule: not comparable
    assert disagreements(all_runs() | {"spark-rocksdb": other}) == []


def test_targets_compare_figures_of_one_run() -> None:
    assert [line.reached for line in targets(all_runs(), SCALE)] == [True] * 10
    slow = targets(all_runs(band=1.2, equality=0.5), SCALE)
    assert [line.reached for line in slow] == [False] * 10
    assert slow[0].measured.startswith("3.3x")
    some = {name: run for name, run in all_runs().items() if name in ("band", "empty")}
    assert [line.reached for line in targets(some, SCALE)] == [None] * 8 + [True, True]


def test_a_run_writes_its_figures_and_its_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "run_system", lambda setting, warm: all_runs()[setting.system])
    console = Console(record=True, width=140)
    files = {"json": tmp_path / "figures.json", "plots": tmp_path / "plots"}
    assert bench.bench_spark(quick=True, cores=2, console=console, **files)
    content = json.loads((tmp_path / "figures.json").read_text())
    assert [system["name"] for system in content["systems"]] == list(SYSTEMS)
    assert content["systems"][0]["rates"][str(LARGE)] == pytest.approx(LARGE / 0.1)
    assert content["scale"]["rows"] == 100_000
    assert (tmp_path / "plots" / "spark-rate-over-time.png").stat().st_size > 10_000
    shown = console.export_text()
    assert "Counts and checksums agree" in shown
    assert f"{LESS:,} rows a batch" in shown


def test_a_failure_of_ours_or_a_wrong_count_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(**changed: Run) -> bool:
        runs = all_runs() | {run.name: run for run in changed.values()}
        monkeypatch.setattr(bench, "run_system", lambda setting, warm: runs[setting.system])
        return bench.bench_spark(quick=True, cores=2, console=Console(quiet=True))

    assert outcome()
    assert not outcome(band=Run("band", problem="broke"))
    assert outcome(theirs=Run("spark-rocksdb", problem="broke"))
    early = made("equality", 0.1)
    early.batches[3]["count"] = 12
    assert not outcome(equality=early)


def test_brackets_in_a_problem_are_shown() -> None:
    """As in pip install 'watersmeet[spark]', or a type like timestamp[us]."""
    problem = "got timestamp[us]; do: pip install 'watersmeet[spark]'"
    run = Run("band", [], problem=problem)
    out = io.StringIO()
    console = Console(width=200, file=out)
    console.print(bench._line(run, SCALE))
    print_run({"band": run}, SCALE, [], [problem], {"seconds": 1, "load_before": 0, "cores": 1}, console)
    assert out.getvalue().count(problem) == 2


def test_plot_and_json_take_a_run_that_has_nothing(tmp_path: Path) -> None:
    runs = {"band": Run("band", problem="broke")}
    assert plot(runs, SCALE, tmp_path).exists()
    write_json(tmp_path / "x.json", {}, SCALE, runs, targets(runs, SCALE), ["broke"])
