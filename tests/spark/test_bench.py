"""The Spark benchmark's bookkeeping: what is run, what must agree, what counts as reached. No session is needed."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from watersmeet.spark.bench import run as bench
from watersmeet.spark.bench.run import (
    SMALL,
    SMALL_BATCH,
    Run,
    Runs,
    Scale,
    disagreements,
    plot,
    settings,
    targets,
    write_json,
)
from watersmeet.spark.bench.systems import SYSTEMS, Setting, seconds_held


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


def made(name: str, seconds: float, batches: int = 4, size: int = 100_000, **changes: Any) -> Run:
    listed = [batch(number, seconds=seconds) for number in range(batches)]
    listed[-1].update(changes)
    return Run(name, size, name, listed, filling=2)


def all_runs(**seconds: float) -> Runs:
    given = {"band": 0.1, "equality": 0.1, "empty": 0.09, "source": 0.05, SMALL: 0.5}
    given |= dict.fromkeys(("spark-hdfs", "spark-rocksdb", "buckets-hdfs", "buckets-rocksdb"), 4.0)
    runs = [
        made(name, spent, size=SMALL_BATCH if name == SMALL else 100_000)
        for name, spent in (given | seconds).items()
    ]
    return {(run.name, run.size): run for run in runs}


def test_every_system_sees_the_same_batches_until_the_windows_are_full_and_after() -> None:
    scale = Scale.of(quick=False)
    found = dict(settings(scale, 2))
    assert set(found) == {*((name, size) for name in SYSTEMS for size in scale.sizes), (SMALL, SMALL_BATCH)}
    for (name, size), setting in found.items():
        assert setting.rows == scale.rows == 1_000_000
        largest = scale.sizes[0] if name == SMALL else size
        assert setting.sizes[0] == largest // 2
        assert setting.filling == 2 * scale.rows // largest
        assert setting.batches > setting.filling
        assert setting.sizes[-1] == size // 2
    assert len(dict(settings(Scale.of(quick=True), 2))) == len(SYSTEMS) + 1
    assert seconds_held(1_000_000) == "10000 ms"


def test_the_windows_count_as_full_once_so_many_rows_have_come() -> None:
    assert Setting("band", 100, (50,), 9, 1, 1).filling == 2
    assert Setting("band", 100, (60, 30, 5), 9, 1, 1).filling == 4
    run = made("band", 1.0, batches=5)
    assert [one["batch"] for one in run.full] == [2, 3, 4]
    assert run.rate == 1000
    assert Run("band", 10, "band").rate is None


def test_another_count_or_checksum_is_a_disagreement_with_its_batch() -> None:
    assert disagreements(all_runs()) == []
    runs = all_runs()
    runs["buckets-hdfs", 100_000] = made("buckets-hdfs", 4.0, count=11)
    assert [line.split(":")[0] for line in disagreements(runs)] == ["batch 3"] * 3
    runs = all_runs()
    runs["spark-rocksdb", 100_000] = made("spark-rocksdb", 4.0, checksum=8)
    assert all("with another checksum" in line for line in disagreements(runs))
    assert len(disagreements(runs)) == 2
    runs["spark-rocksdb", 100_000] = made(
        "spark-rocksdb", 4.0, rows=5, count=0
    )  # another schedule: not comparable
    assert disagreements(runs) == []


def test_targets_compare_figures_of_one_run() -> None:
    scale = Scale.of(quick=True)
    assert [line.reached for line in targets(all_runs(), scale)] == [True] * 6
    slow = targets(all_runs(band=0.3, equality=0.5, **{SMALL: 1.2}), scale)
    assert [line.reached for line in slow] == [False] * 6
    assert slow[0].measured.startswith("13.3x")
    some = {name: run for name, run in all_runs().items() if run.name in ("band", "empty")}
    assert [line.reached for line in targets(some, scale)] == [None, None, None, None, True, None]


def test_a_run_writes_its_figures_and_its_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "run_system", lambda name, size, setting: all_runs()[name, size])
    console = Console(record=True, width=140)
    files = {"json": tmp_path / "figures.json", "plots": tmp_path / "plots"}
    assert bench.bench_spark(quick=True, cores=2, console=console, **files)
    content = json.loads((tmp_path / "figures.json").read_text())
    assert len(content["systems"]) == 9
    assert content["scale"]["rows"] == 100_000
    assert (tmp_path / "plots" / "spark-rate-over-time.png").stat().st_size > 10_000
    assert "Counts and checksums agree" in console.export_text()


def test_a_failure_of_ours_or_a_wrong_count_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(**changed: Run) -> bool:
        runs = all_runs() | {(run.name, run.size): run for run in changed.values()}
        monkeypatch.setattr(bench, "run_system", lambda name, size, setting: runs[name, size])
        return bench.bench_spark(quick=True, cores=2, console=Console(quiet=True))

    assert outcome()
    assert not outcome(band=Run("band", 100_000, "band", problem="broke"))
    assert outcome(source=Run("source", 100_000, "source", problem="broke"))
    assert not outcome(equality=made("equality", 0.1, count=12))


def test_plot_and_json_take_a_run_that_has_nothing(tmp_path: Path) -> None:
    runs = {("band", 100_000): Run("band", 100_000, "band", problem="broke")}
    scale = Scale.of(quick=True)
    assert plot(runs, scale, tmp_path).exists()
    write_json(tmp_path / "x.json", {}, scale, runs, targets(runs, scale), ["broke"])
