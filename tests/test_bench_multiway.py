"""The benchmark of many streams measures what it says: same counts everywhere, honest targets. No clock is asserted on."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from watersmeet.bench import multiway_cases
from watersmeet.bench.measure import Budget, Point, check, isolated, run
from watersmeet.bench.multiway import bench_multiway
from watersmeet.bench.multiway_cases import (
    THIRD_SHARES,
    MultiwayCase,
    MultiwayOutcome,
    MultiwayPlan,
    fill,
    fitting,
)
from watersmeet.bench.multiway_cases import (
    multiway_cases as all_cases,
)
from watersmeet.bench.multiway_peers import Multiway, MultiwayDuckDB, MultiwayPolars, TwoWayChain
from watersmeet.bench.multiway_report import print_multiway, write_multiway
from watersmeet.bench.multiway_targets import multiway_targets
from watersmeet.bench.report import machine
from watersmeet.bench.running import run_case
from watersmeet.workloads.multiway import (
    MultiwayFeed,
    MultiwayWorkload,
    Push,
    chain,
    interleaved,
    mostly_last,
    one_key,
    steps,
)

SHORT = Budget(seconds=0.002, warm_up=0.001, pushes=2)
SMALL = [one_key(2, 0.02, 256), one_key(3, 0.02, 256), chain(4, 0.02, 64), steps(5, 2, 64)]


def small_plan() -> MultiwayPlan:
    return MultiwayPlan(
        quick=True,
        cores=1,
        window=256,
        batches=(16, 64),
        ways=(3,),
        steps=(2, 3),
        steps_window=64,
        probabilities=(1e-3, 1e-2),
        stash_probabilities=(1e-3,),
        budget=SHORT,
        peer_budget=SHORT,
        fill_seconds=60.0,
        push_seconds=60.0,
        pathway_rows=1024,
        wide_window=512,
    )


def named(work: MultiwayWorkload) -> str:
    return work.name


def agree(joiner: Any, work: MultiwayWorkload, batch: int) -> None:
    feed = MultiwayFeed(work)
    for _ in range(3 * work.window // batch):
        push = feed.pushes(batch, 1)[0]
        assert joiner.push(push) == feed.expected(push)


@pytest.mark.parametrize("work", [*SMALL, *(interleaved(work) for work in SMALL[:2])], ids=named)
@pytest.mark.parametrize("result", ["pairs", "count"])
def test_ours_counts_what_the_recount_counts(work: MultiwayWorkload, result: str) -> None:
    agree(Multiway(work, result=result), work, 16)


@pytest.mark.parametrize("work", SMALL, ids=named)
@pytest.mark.parametrize("peer", [MultiwayDuckDB, MultiwayPolars])
def test_the_peers_count_what_the_recount_counts(work: MultiwayWorkload, peer: Any) -> None:
    agree(peer(work), work, 32)


CHAINED = [
    *((work, 16) for work in SMALL),
    (steps(4, 2, 16), 1),
    (one_key(3, 0.05, 64, [1 / 6, 1 / 6, 2 / 3]), 8),
]


@pytest.mark.parametrize(("work", "batch"), CHAINED, ids=lambda value: getattr(value, "name", str(value)))
def test_the_chain_of_two_way_joins_counts_what_the_recount_counts(
    work: MultiwayWorkload, batch: int
) -> None:
    agree(TwoWayChain(work, batch), work, batch)


def test_a_chain_whose_windows_are_not_whole_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="must be whole blocks; got blocks of"):
        TwoWayChain(one_key(3, 0.1, 100), 64)


def test_a_chain_forgets_what_has_left_its_windows() -> None:
    work = one_key(3, 0.05, 64)
    feed, joiner = MultiwayFeed(work), TwoWayChain(work, 16)
    sizes = []
    for _ in range(40):
        joiner.push(feed.pushes(16, 1)[0])
        sizes.append(joiner.state_bytes())
    assert max(sizes[20:]) < 2 * max(sizes[10:20])


def test_a_timed_run_counts_what_it_pushed() -> None:
    work = one_key(3, 0.02, 100, mostly_last(3, 0.8))
    feed, joiner = MultiwayFeed(work), MultiwayPolars(work)
    fill(joiner, feed, 10, 60.0)
    assert min(feed.pushed(stream) for stream in work.streams) >= work.window
    timing = run(joiner, feed, 10, SHORT, work.streams)
    assert timing.rows == len(timing.latencies) * 30
    assert check(joiner, feed, 10, work.streams)


def test_a_wrong_count_is_noticed() -> None:
    class Forgetful(MultiwayPolars):
        def push(self, batches: Push) -> int:
            return 0

    work = steps(3, 2, 100)
    feed = MultiwayFeed(work)
    feed.pushes(100, 1)
    assert not check(Forgetful(work), feed, 50, work.streams)


def test_windows_that_take_too_long_to_fill_are_given_up() -> None:
    work = one_key(3, 0.02, 1000)
    with pytest.raises(TimeoutError, match="filling the windows took more than 0 s"):
        fill(MultiwayPolars(work), MultiwayFeed(work), 10, 0.0)


def test_a_batch_is_as_large_as_its_results_can_be_listed() -> None:
    assert fitting(one_key(3, 1e-6), 4096) == 4096
    assert fitting(steps(10, 2, 1024), 4096) == 128
    assert fitting(one_key(6, 1e-3), 4096) == 1


def test_the_full_run_covers_what_the_issue_lists() -> None:
    titles = [case.title for case in all_cases(MultiwayPlan.of(False, 2))]
    for ways in (3, 6):
        for probability in ("1e-06", "1e-05", "0.0001", "0.001"):
            assert any(t.startswith(f"{ways}-way, one key, match probability {probability}") for t in titles)
        assert any(f"{ways}-way" in title and "origins" in title for title in titles)
        assert f"{ways}-way, one key, match probability 1e-05 · two-way chain" in titles
        for peer in ("DuckDB", "Polars"):
            assert f"{ways}-way, one key, match probability 1e-05, window 16K · {peer}" in titles
    assert "3-way, one key, match probability 1.6e-07, window 1M · Polars" in titles
    for streams in range(2, 11):
        assert (
            sum(title.startswith(f"{streams}-way, one key, match probability 0.00049") for title in titles)
            == 3
        )
    assert sum(", stash " in title for title in titles) == 3 * 2 * len(THIRD_SHARES)
    for design in ("linear_mj", "circular_mj", "parallel_mj", "parallel_mj as printed"):
        assert sum(title.endswith(f" · {design}") for title in titles) == 2
    assert sum(title.endswith(" · stashed_mj") for title in titles) == 1
    assert any("Pathway" in title for title in titles)
    assert MultiwayPlan.of(False, 2).window == 1 << 14


def test_without_a_stash_the_cases_of_it_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiway_cases, "OPTIONS", ())
    outcome, console = MultiwayOutcome(), Console(record=True, width=160)
    stashed = [case for case in all_cases(small_plan()) if ", stash " in case.title]
    for case in stashed:
        run_case(case, small_plan(), outcome, console)
    assert len(outcome.skipped) == len(stashed) == 2 * len(THIRD_SHARES)
    assert not outcome.problems
    assert "left out: StreamJoin has no stash= yet" in console.export_text()


def test_a_failed_case_is_reported_and_the_run_goes_on() -> None:
    def fail(plan: MultiwayPlan, outcome: MultiwayOutcome) -> list[Point]:
        raise ZeroDivisionError("on purpose")

    outcome, console = MultiwayOutcome(), Console(record=True, width=120)
    run_case(MultiwayCase("fails", fail, "peer"), small_plan(), outcome, console)
    wrong = point("ours", 1, one_key(3, 1e-5), verified=False)
    run_case(MultiwayCase("wrong", lambda p, o: [wrong]), small_plan(), outcome, console)
    assert outcome.problems == [
        "peer: fails: ZeroDivisionError: on purpose",
        "ours: wrong: batch 4096: the count differs from the recount",
    ]


def point(joiner: str, rows: int, work: MultiwayWorkload, **changes: Any) -> Point:
    fields = {"group": "probability", "window": work.window, "batch": 4096, "result": "pairs"}
    fields |= {"seconds": 1.0, "pushes": 10, "results": 5, "verified": True, "workload": work.name}
    return Point(joiner=joiner, rows=rows, **{**fields, **changes})  # type: ignore[arg-type]


def measured() -> MultiwayOutcome:
    """An outcome in which every target is reached, just."""
    ten, two = steps(10, 2, 1024), steps(2, 2, 1024)
    third = one_key(3, 1e-5, shares=mostly_last(3, 0.9))
    three, wide = one_key(3, 1e-5), one_key(3, 1e-5 / 64, 1 << 20)
    points = [
        (three, point("ours", 3_000_000, three)),
        *((six, point("ours", rate, six)) for six, rate in _sixes()),
        (third, point("ours, stash None", 1_000_000, third, group="stash")),
        (third, point("ours, stash auto", 1_300_000, third, group="stash")),
        (ten, point("ours", 50_000, ten, group="streams", batch=64)),
        (ten, point("ours, count", 90_000, ten, group="streams", batch=64, result="count")),
        (ten, point("two-way chain", 10_000, ten, group="streams", batch=64)),
        (two, point("ours", 500_000, two, group="streams", batch=64)),
        (three, point("DuckDB", 100_000, three, group="peers")),
        (three, point("Polars", 150_000, three, group="peers")),
        (wide, point("ours", 2_000_000, wide, group="wide")),
        (wide, point("DuckDB", 100_000, wide, group="peers")),
        (wide, point("Polars", 50_000, wide, group="peers")),
        (three, point("Pathway", 50_000, three, group="peers", note="everything kept")),
    ]
    state = [
        {"streams": 2, "joiner": "ours", "bytes": 2_000_000},
        {"streams": 10, "joiner": "ours", "bytes": 12_000_000},
        {"streams": 10, "joiner": "two-way chain", "bytes": 240_000_000},
    ]
    works = {work.name: work for work, _ in points}
    return MultiwayOutcome([one for _, one in points], works, state)


def _sixes() -> list[tuple[MultiwayWorkload, int]]:
    return [
        (one_key(6, 1e-6), 1_000_000),
        (one_key(6, 1e-5), 1_000_000),
        (one_key(6, 1e-4), 100_000),
    ]


def test_targets_are_reached_just() -> None:
    lines = multiway_targets(measured())
    assert [line.reached for line in lines] == [True] * 9 + [None]
    assert lines[-1].name == "two-way joins"


def test_targets_are_missed_just() -> None:
    outcome = measured()
    slower = {"ours": 0.99, "ours, stash auto": 0.99}
    outcome.points = [replace(p, rows=int(p.rows * slower.get(p.joiner, 1.0))) for p in outcome.points]
    outcome.state[1]["bytes"] = 12_100_000
    assert {line.reached for line in multiway_targets(outcome)[:-1]} == {False}


def test_what_was_not_measured_is_not_reached() -> None:
    assert {line.reached for line in multiway_targets(MultiwayOutcome())} == {None}


def test_the_report_and_the_json_hold_everything(tmp_path: Path) -> None:
    console, outcome = Console(record=True, width=200), measured()
    outcome.skipped.append("something: for a reason")
    about = {**machine(2), "seconds": 1.0}
    print_multiway(outcome, about, console)
    text = console.export_text()
    for part in ("By match probability", "Stash off and on", "Streams on one key", "Beside the peers", "Targets",
                 "5.0x", "20.0x", "not measured: something: for a reason", "16 of 16 recounted points agree"):  # fmt: skip
        assert part in text, part
    write_multiway(outcome, about, tmp_path / "sub" / "bench.json")
    content = json.loads((tmp_path / "sub" / "bench.json").read_text())
    assert len(content["points"]) == len(outcome.points)
    assert content["points"][0]["expected_results_a_row"] == pytest.approx(0.16384**2)
    assert content["not_measured"] == outcome.skipped


def test_plots_are_drawn_from_any_outcome(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from watersmeet.bench.multiway_plots import write_multiway_plots

    names = [path.name for path in write_multiway_plots(measured(), tmp_path)]
    wanted = ("probability", "streams", "state", "peers", "stash")
    assert names == [f"multiway-{name}.png" for name in wanted]
    assert write_multiway_plots(MultiwayOutcome(), tmp_path / "none") == []


def test_a_small_run_measures_checks_and_writes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    found = {"rows": 1000, "seconds": 2.0, "ingest_seconds": 1.0, "results": 3, "expected": 3}
    monkeypatch.setattr(multiway_cases, "isolated", lambda *arguments, **options: found)
    console = Console(record=True, width=200)
    files = {"json": tmp_path / "bench.json", "plots": tmp_path / "plots"}
    assert bench_multiway(quick=True, cores=1, console=console, plan=small_plan(), **files), (
        console.export_text()
    )
    content = json.loads(files["json"].read_text())
    assert not content["problems"]
    assert all(one["verified"] for one in content["points"] if one["joiner"] != "parallel_mj as printed")
    (share,) = content["printed_parallel_mj"]
    assert share["expected"] == 0.5
    assert 0.2 < share["found"] < 0.8
    assert {one["group"] for one in content["points"]} >= {
        "probability",
        "chain",
        "flows",
        "origin",
        "streams",
        "peers",
    }
    assert (files["plots"] / "multiway-probability.png").exists()


@pytest.mark.slow
def test_pathway_counts_the_same_results() -> None:
    pytest.importorskip("pathway")
    found = isolated("multiway_pathway", "4096", "1024", "2.0", timeout=120)
    assert found["results"] == found["expected"] > 0
