"""The Spark benchmark's bookkeeping: what is run, what must agree, what counts as reached. No session is needed."""

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from watersmeet.spark.bench import kafka, many, parquet
from watersmeet.spark.bench import run as bench
from watersmeet.spark.bench.feed import TOPICS, Load, expected, offer, rows_of
from watersmeet.spark.bench.hosted import Load as HostedLoad
from watersmeet.spark.bench.hosted_report import HostedRun
from watersmeet.spark.bench.kafka_report import KafkaRun
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
    return Run(name, listed, filling=2, first=5.0)


def all_runs(**seconds: float) -> Runs:
    given = {
        "band": 0.1,
        "equality": 0.1,
        "empty": 0.09,
        "text": 0.1,
        "source": 0.05,
        "many": 0.1,
        "chain": 0.3,
    }
    theirs = ("spark-hdfs", "spark-rocksdb", "spark-text", "spark-many", "buckets-hdfs", "buckets-rocksdb")
    given |= dict.fromkeys(theirs, 4.0)
    return {name: made(name, spent) for name, spent in (given | seconds).items()}


def test_every_system_sees_the_same_batches_for_as_long_as_it_runs() -> None:
    scale = Scale.of(quick=False)
    found = {setting.system: setting for setting in settings(scale, 2)}
    assert set(found) == set(SYSTEMS)
    for setting in found.values():
        system = SYSTEMS[setting.system]
        base = found["spark-hdfs" if system.streams == 2 else "spark-many"].sizes
        assert setting.rows == scale.rows == 1_000_000
        assert setting.filling == (2 if system.streams == 2 else 4)
        assert setting.sizes[: len(base)] == base
        assert (len(setting.sizes) > len(base)) == system.ours
        assert all(setting.sizes.count(size // system.streams) >= 3 for size in scale.sizes)
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
    assert [line.reached for line in targets(all_runs(), SCALE)] == [True] * 16
    late = all_runs(band=1.2, equality=0.5, text=0.5, many=0.9)
    late["band"].first = 8.5
    slow = targets(late, SCALE)
    assert [line.reached for line in slow] == [False] * 16
    assert slow[0].measured.startswith("3.3x")
    some = {name: run for name, run in all_runs().items() if name in ("band", "empty")}
    assert [line.reached for line in targets(some, SCALE)] == [None] * 13 + [True] * 3


def test_a_run_writes_its_figures_and_its_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "run_system", lambda setting, warm: all_runs()[setting.system])
    monkeypatch.setattr(bench, "missing", lambda: "")
    monkeypatch.setattr(bench, "run_load", of_kafka)
    monkeypatch.setattr(bench, "run_hosted", of_hosted)
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
    assert [rate["load"]["rate"] for rate in content["kafka"]["rates"]] == [10_000, 100_000, 300_000]
    assert "0.90 s" in shown
    assert [(one["load"]["queries"], one["load"]["system"]) for one in content["hosted"]] == [
        (number, system) for number in (1, 10, 100) for system in ("host", "spark")
    ]
    assert "100 hosted queries over as many of Spark's" in shown
    assert "25.0x: 100K/s, 4K/s" in shown
    assert f"{LESS:,} rows a batch" in shown


def test_a_failure_of_ours_or_a_wrong_count_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(**changed: Run) -> bool:
        runs = all_runs() | {run.name: run for run in changed.values()}
        monkeypatch.setattr(bench, "run_system", lambda setting, warm: runs[setting.system])
        return bench.bench_spark(quick=True, cores=2, console=Console(quiet=True), kafka=False, hosted=False)

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
    write_json(tmp_path / "x.json", {}, SCALE, runs, targets(runs, SCALE), ["broke"], {})


def of_kafka(load: Load, pairs: int = 5) -> KafkaRun:
    latency = {"p50": 0.5, "p99": 0.9}
    found = {"appended": 1e4, "taken": None, "pairs": pairs, "expected": 5, "latency": latency, "failed": ""}
    return KafkaRun(load, found)


def of_hosted(load: HostedLoad, **changed: Any) -> HostedRun:
    rate = 1e5 if load.system == "host" else 4e5 / load.queries
    found = {f"q{number}": [5, 7] for number in range(load.queries)}
    said = {"rate": rate, "found": found, "started": load.queries, "done": load.queries, "failed": ""}
    return HostedRun(load, {**said, **changed})


def test_a_hosted_query_that_finds_something_else_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(**changed: Any) -> tuple[bool, str]:
        def run(load: HostedLoad) -> HostedRun:
            return of_hosted(load, **(changed if load.system == "spark" else {}))

        monkeypatch.setattr(bench, "run_hosted", run)
        console = Console(record=True, width=140)
        done = bench.bench_spark(quick=True, cores=2, console=console, systems=(), kafka=False)
        return done, console.export_text()

    assert outcome()[0]
    assert outcome(started=40, done=3, found={"q0": [5, 7]}, rate=None)[0]  # as many as start
    done, shown = outcome(found={"q0": [5, 8]})
    assert not done
    assert "10 hosted queries: q0 found [5, 7] (results, checksum), Spark's own [5, 8]" in shown


def test_pairs_that_are_counted_otherwise_fail_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(pairs: int) -> tuple[bool, str]:
        monkeypatch.setattr(bench, "missing", lambda: "")
        monkeypatch.setattr(bench, "run_load", lambda load: of_kafka(load, pairs))
        console = Console(record=True, width=140)
        done = bench.bench_spark(quick=True, cores=2, console=console, systems=(), hosted=False)
        return done, console.export_text()

    assert outcome(5)[0]
    done, shown = outcome(4)
    assert not done
    assert "Kafka at 10,000 rows/s: 4 pairs in the table, counted again 5" in shown


def test_without_maven_the_kafka_part_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "missing", lambda: "jars must come from Maven; got no mvn")
    console = Console(record=True, width=140)
    assert bench.bench_spark(quick=True, cores=2, console=console, systems=(), hosted=False)
    assert "Kafka is left out: jars must come from Maven; got no mvn" in console.export_text()


def test_what_kafka_must_give_is_counted_as_plain_loops_count() -> None:
    load = Load(rate=600, seconds=4, warm=0, cores=1)
    (t_time, t_key), (q_time, q_key) = (rows_of(load, topic, np.arange(load.rows)) for topic in TOPICS)
    pairs = sum(
        abs(int(t - q)) <= 1_000_000 and abs(int(x - y)) <= 1
        for t, x in zip(t_time, t_key, strict=True)
        for q, y in zip(q_time, q_key, strict=True)
    )
    assert 300 < pairs == expected(load)


def test_a_feed_offers_every_row_once_and_no_faster_than_asked() -> None:
    sent: list[tuple[str, dict[str, int]]] = []
    full = [True]

    class Producer:
        def produce(self, topic: str, message: str) -> None:
            if full and len(sent) == 700:
                full.clear()
                raise BufferError
            sent.append((topic, json.loads(message)))

        def poll(self, seconds: float) -> None: ...
        def flush(self) -> None: ...

    load = Load(rate=10_000, seconds=0.3, warm=0, cores=1)
    assert offer(load, Producer()) >= 0.29
    for topic in TOPICS:
        rows = [row for name, row in sent if name == topic]
        assert [row["n"] for row in rows] == list(range(load.rows))
        times, keys = rows_of(load, topic, np.arange(load.rows))
        assert [row["x"] for row in rows] == keys.tolist()
        assert [row["ts"] for row in rows] == times.tolist()


def test_latency_is_from_append_to_the_log_of_the_batch_that_brought_the_pair(tmp_path: Path) -> None:
    """The second log repeats what the first one says, as Spark's every tenth does."""
    (tmp_path / "_spark_metadata").mkdir()
    names = []
    for batch, appended in enumerate(([100.0, 101.0], [200.0])):
        micros = pa.array([int(1e6 * second) for second in appended]).cast(pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table({"at": micros}), tmp_path / f"{batch}.parquet")
        names.append(json.dumps({"path": f"file://{tmp_path}/{batch}.parquet"}))
        log = tmp_path / "_spark_metadata" / ("0" if batch == 0 else "1.compact")
        log.write_text("\n".join(["v1", *names]))
        os.utime(log, (appended[-1] + 2,) * 2)
    pairs, late = kafka.table(tmp_path, since=101)
    assert pairs == 3
    assert sorted(late.tolist()) == [2.0, 2.0]


def test_keys_of_three_streams_are_as_many_as_rows_in_a_window(tmp_path: Path) -> None:
    many.write(tmp_path, (300, 200), rate=10, held=40)
    for stream in many.STREAMS:
        rows = pa.concat_tables([pq.read_table(path) for path in sorted((tmp_path / stream).iterdir())])
        assert rows["n"].to_pylist() == list(range(500))
        assert set(rows["key"].to_pylist()) == set(range(40))


def test_rows_of_parquet_files_are_the_same_each_time_and_in_order(tmp_path: Path) -> None:
    for name in ("one", "other"):
        parquet.write(tmp_path / name, (30, 20), rate=10)
    for stream in parquet.STREAMS:
        files = sorted((tmp_path / "one" / stream).iterdir(), key=lambda path: path.stat().st_mtime)
        rows = [pq.read_table(path) for path in files]
        assert [len(table) for table in rows] == [30, 20]
        both = pa.concat_tables(rows)
        assert both["n"].to_pylist() == list(range(50))
        assert both["ts"].to_pylist() == sorted(both["ts"].to_pylist())
        again = [pq.read_table(tmp_path / "other" / stream / path.name) for path in files]
        assert rows == again
