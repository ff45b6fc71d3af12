"""The benchmark measures what it says: same counts everywhere, honest targets. No clock is asserted on."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from watersmeet.bench import engine as bench
from watersmeet.bench.cases import (
    EngineCase,
    EngineOutcome,
    EnginePlan,
    _engine_case,
    _peer_case,
    cases,
    short,
)
from watersmeet.bench.measure import Budget, Point, check, fill, isolated, percentiles, run, sort_limit
from watersmeet.bench.memory import growth
from watersmeet.bench.peers import DuckDB, Engine, Polars
from watersmeet.bench.report import machine, print_report, write_json
from watersmeet.bench.running import run_case
from watersmeet.bench.targets import rate_text, targets
from watersmeet.workloads.catalog import WORKLOADS, workload
from watersmeet.workloads.feed import Feed, Push

SHORT = Budget(seconds=0.002, warm_up=0.001, pushes=2)
MILLION = 1 << 20


def small_plan() -> EnginePlan:
    return EnginePlan(True, 1, (1 << 12,), (1, 256), (1 << 12,), SHORT, SHORT, 0.002)


def point(joiner: str, rows: int, **changes: object) -> Point:
    fields = {"group": "sweep", "workload": "band-1", "window": MILLION, "batch": 32_768, "result": "pairs"}
    fields |= {"seconds": 1.0, "pushes": 10, "results": 5, "verified": True}
    return Point(joiner=joiner, rows=rows, **{**fields, **changes})  # type: ignore[arg-type]


def measured() -> EngineOutcome:
    """An outcome in which every target is reached, just."""
    outcome = EngineOutcome()
    outcome.points = [
        point("auto", 5_000_000),
        point("auto", 8_000_000, batch=131_072),
        point("DuckDB", 50_000, group="peers"),
        point("Polars", 100_000, group="peers"),
        point("Pathway", 99_000, group="peers", window=200_000),
        point("Pathway, without its ingest", 150_000, group="peers", window=200_000),
        point("bi_sort", 1_000_000, window=8 * MILLION),
        point("scan", 1000, window=8 * MILLION, note="timed with few rows"),
        point("grid", 500_000, group="two-dimensional", workload="splitjoin", window=2 * MILLION),
        point("bi_sort", 2_000_000, group="ranges", result="ranges"),
        point("bi_sort", 1_000_000, group="ranges", result="ranges", workload="band-1000"),
        point(
            "auto", 20_000, group="latency", batch=1, pushes=20_000, latency=percentiles(np.full(9, 50_000))
        ),
    ]
    outcome.limits = {131_072: 40_000_000.0}
    outcome.index_bytes = {"bi_sort": 2.5}
    outcome.latencies = {"auto": np.full(100, 50_000)}
    outcome.memory = [{"index": "bi_sort", "resident": [100] * 20, "state": [10] * 20, "growth": 0.0}]
    outcome.start = {name: {"import": 1.0, "first": {"bi_sort": 2.0}} for name in ("cold", "warm")}
    return outcome


@pytest.mark.parametrize("name", WORKLOADS)
def test_ours_and_the_peers_give_the_same_counts(name: str) -> None:
    window = 1024 if name == "band-1000" else 4096
    feed = Feed(workload(name, window))
    joiners = [Engine(feed.work), DuckDB(feed.work), Polars(feed.work)]
    for batch in (window, 500, 500, 1):
        push = feed.pushes(batch, 1)[0]
        counts = {joiner.name: joiner.push(push) for joiner in joiners}
        assert set(counts.values()) == {feed.expected(push)}, counts


def test_a_peer_that_takes_too_long_is_given_up() -> None:
    feed = Feed(workload("splitjoin", 1 << 18))
    feed.pushes(1 << 18, 1)
    peer = DuckDB(feed.work, give_up=0.2)
    peer.fill({stream: feed.held(stream) for stream in ("r", "s")})
    with pytest.raises(TimeoutError, match=r"more than 0 s; given up"):
        peer.push(feed.pushes(20_000, 1)[0])


@pytest.mark.parametrize("batch", [1, 300])
def test_a_timed_run_counts_what_it_pushed(batch: int) -> None:
    feed = Feed(workload("equality-1", 1000))
    engine = Engine(feed.work)
    fill(engine, feed)
    timing = run(engine, feed, batch, SHORT)
    arrived = sum(stream["arrived"] for stream in engine.join.stats()["streams"].values())
    assert arrived == feed.pushed("r") + feed.pushed("s")
    assert timing.rows == len(timing.latencies) * (1 if batch == 1 else 2 * batch)
    assert check(engine, feed, batch)


def test_a_wrong_count_is_noticed() -> None:
    class Forgetful:
        name = "forgetful"

        def push(self, batches: Push) -> int:
            return 0

    feed = Feed(workload("band-64", 1000))
    feed.pushes(1000, 1)
    assert not check(Forgetful(), feed, 100)


def test_a_case_measures_every_batch_and_checks_each() -> None:
    outcome = EngineOutcome()
    points = _engine_case("sweep", "band-1", 4096, "bi_sort", (1, 256)).measure(small_plan(), outcome)
    assert [p.batch for p in outcome.points] == [1, 256]
    assert points == outcome.points
    assert all(p.verified and p.rate > 0 for p in outcome.points)


def test_a_slow_joiner_probes_one_full_window_and_says_so() -> None:
    outcome = EngineOutcome()
    _engine_case("sweep", "band-1", 4096, "scan", (1, 256)).measure(small_plan(), outcome)
    assert all(p.verified for p in outcome.points)
    assert [p.note for p in outcome.points] == [
        f"timed with {n} rows of s a push against a full r" for n in (1, 256)
    ]


def test_a_peers_case_starts_from_full_windows() -> None:
    outcome = EngineOutcome()
    _peer_case("band-64", 4096, "Polars", (512,)).measure(small_plan(), outcome)
    assert outcome.points[0].verified
    assert outcome.points[0].results / outcome.points[0].rows == pytest.approx(64, rel=0.1)


def test_the_full_run_covers_what_the_issue_lists() -> None:
    titles = [case.title for case in cases(EnginePlan.of(False, 2))]
    for index in ("auto", "bi_sort", "rap_table", "wib_tree", "scan"):
        for window in ("64K", "1M", "8M"):
            assert f"band, selectivity 1 · {index} · window {window}" in titles
            assert f"equality, selectivity 64 · {index} · window {window}" in titles
    for text in (
        "· hash ·",
        "· grid · window 2M",
        "Zipf-skewed band",
        "increasing keys",
        "· DuckDB ·",
        "· Polars ·",
    ):
        assert any(text in title for title in titles), text
    assert EnginePlan.of(False, 2).batches == (1, 1024, 32_768, 131_072)


def test_a_failed_case_is_reported_and_the_run_goes_on() -> None:
    def fail(plan: EnginePlan, outcome: EngineOutcome) -> list[Point]:
        raise ZeroDivisionError("on purpose")

    outcome, console = EngineOutcome(), Console(record=True, width=120)
    run_case(EngineCase("ours fails", fail), small_plan(), outcome, console)
    run_case(
        EngineCase("wrong · bi_sort", lambda p, o: [point("bi_sort", 1, verified=False)]),
        small_plan(),
        outcome,
        console,
    )
    run_case(EngineCase("a text", lambda p, o: "shown"), small_plan(), outcome, console)
    assert outcome.problems[0] == "ours: ours fails: ZeroDivisionError: on purpose"
    assert "differs from the recount" in outcome.problems[1]
    assert "a text: shown" in console.export_text()


def test_targets_are_reached_just() -> None:
    assert [line.reached for line in targets(measured())] == [True] * 10


def test_targets_are_missed_just() -> None:
    outcome = measured()
    slower = {"auto": 0.99, "grid": 0.99}
    outcome.points = [
        replace(p, rows=int(p.rows * slower.get(p.joiner, 1.0)), pushes=int(p.pushes * 0.99))
        for p in outcome.points
    ]
    outcome.points[7] = point("scan", 1001, window=8 * MILLION)
    outcome.points[10] = point("bi_sort", 999_999, group="ranges", result="ranges", workload="band-1000")
    outcome.points[11].latency["p99"] = 1000.0
    outcome.index_bytes["bi_sort"] = 2.51
    outcome.memory[0]["growth"] = 0.03
    reached = {line.name: line.reached for line in targets(outcome)}
    assert reached.pop("band, window 1M, batch 32K, over Pathway") is True
    assert set(reached.values()) == {False}


def test_what_was_not_measured_is_not_reached() -> None:
    assert {line.reached for line in targets(EngineOutcome())} == {None}


def test_the_report_and_the_json_hold_everything(tmp_path: Path) -> None:
    console = Console(record=True, width=160)
    about = {**machine(2), "seconds": 1.0}
    outcome = measured()
    print_report(outcome, about, console)
    text = console.export_text()
    for part in (
        "Every index",
        "Beside the peers",
        "Targets",
        "50x",
        "1,000x",
        "12 of 12 recounted points agree",
    ):
        assert part in text
    write_json(outcome, about, tmp_path / "sub" / "bench.json")
    content = json.loads((tmp_path / "sub" / "bench.json").read_text())
    assert len(content["points"]) == len(outcome.points)
    assert content["machine"]["versions"]["numpy"] == np.__version__
    assert all(line["reached"] for line in content["targets"])


def test_plots_are_drawn_from_any_outcome(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from watersmeet.bench.plots import write_plots

    names = [path.name for path in write_plots(measured(), tmp_path)]
    assert names == [
        "rate-over-batch.png", "rate-over-window.png", "ratio-to-peers.png", "ranges-over-selectivity.png",
        "latency.png", "memory.png",
    ]  # fmt: skip
    assert write_plots(EngineOutcome(), tmp_path / "none") == []


def test_the_sort_limit_is_a_rate() -> None:
    assert sort_limit(Feed(workload("band-1", 1000)), 1024, seconds=0.001) > 0


def test_growth_compares_the_last_tenth_with_the_second() -> None:
    assert growth([50] * 10 + [100] * 90) == 0.0
    assert growth([100] * 90 + [150] * 10) == pytest.approx(0.5)


def test_memory_is_measured_in_a_process_of_its_own() -> None:
    found = isolated("memory", "bi_sort", "1024", "20", timeout=120)
    assert len(found["resident"]) == len(found["state"]) == 20
    assert growth(found["state"]) < 0.02


def test_a_difference_lost_in_noise_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"rows": 1000, "seconds": 2.0, "ingest_seconds": 1.0, "results": 3, "expected": 3}
    monkeypatch.setattr(bench, "isolated", lambda *arguments, **options: found)
    assert [p.rate for p in bench._pathway(small_plan(), EngineOutcome())] == [500.0, 1000.0]
    found["ingest_seconds"] = 1.9
    assert [p.joiner for p in bench._pathway(small_plan(), EngineOutcome())] == ["Pathway"]
    found["seconds"] = -0.1
    with pytest.raises(RuntimeError, match="too much else is running"):
        bench._pathway(small_plan(), EngineOutcome())


def test_a_busy_machine_is_pointed_out() -> None:
    for load, said in ((0.1, False), (3.5, True)):
        console = Console(record=True, width=160)
        print_report(measured(), {"load_before": load, "cores": 2, "seconds": 1.0}, console)
        assert ("The machine was busy" in console.export_text()) is said


@pytest.mark.slow
def test_pathway_counts_the_same_pairs() -> None:
    pytest.importorskip("pathway")
    found = isolated("pathway_peer", "4096", "1024", timeout=120)
    assert found["results"] == found["expected"] > 0


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1"), (1024, "1K"), (32_768, "32K"), (1 << 20, "1M"), (1 << 23, "8M"), (1000, "1,000")],
)
def test_sizes_are_short(number: int, text: str) -> None:
    assert short(number) == text


@pytest.mark.parametrize(
    ("rate", "text"), [(12.34, "12.3"), (1_500, "1.5K"), (7_340_000, "7.34M"), (2e9, "2G")]
)
def test_rates_are_short(rate: float, text: str) -> None:
    assert rate_text(rate) == text


@pytest.mark.parametrize("index", ["auto", "bi_sort", "rap_table", "wib_tree", "hash", "scan"])
def test_single_rows_in_small_windows_are_counted_as_recounted(index: str) -> None:
    feed = Feed(workload("equality-64", 100))
    engine = Engine(feed.work, index)
    for _ in range(150):
        for push in feed.single_rows(2):
            found = engine.push(push)
        assert found == feed.expected(push)
