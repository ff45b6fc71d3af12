"""The benchmark of queries measures what it says: recounted answers, honest targets. No clock is asserted on."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import watersmeet as wm
from watersmeet.bench import queries, queries_groups
from watersmeet.bench.measure import Budget, Point, isolated
from watersmeet.bench.queries import bench_queries, queries_cases
from watersmeet.bench.queries_bands import AGGREGATE, JOINERS, LISTING, Aggregate, PolarsSums, recount
from watersmeet.bench.queries_groups import DuckDBAnswers, OurAnswers
from watersmeet.bench.queries_many import MANY, ONE, PolarsRules, Processors, Queries
from watersmeet.bench.queries_plan import GROUPS, QueriesOutcome, QueriesPlan, Told
from watersmeet.bench.queries_plots import write_queries_plots
from watersmeet.bench.queries_report import print_queries, write_queries
from watersmeet.bench.queries_statements import KINDS, Live
from watersmeet.bench.queries_targets import delays, queries_targets
from watersmeet.bench.report import machine
from watersmeet.cli import main
from watersmeet.errors import OptionError
from watersmeet.workloads.catalog import workload
from watersmeet.workloads.feed import Feed, Push
from watersmeet.workloads.queries import Asked, MarketFeed, mixed, rule_market, rules
from watersmeet.workloads.readings import KINDS as WINDOWS
from watersmeet.workloads.readings import Readings, ReadingsFeed
from watersmeet.workloads.users import market

SHORT = Budget(seconds=0.002, warm_up=0.001, pushes=1)
SMALL = market(400, None, 10)
PUSHES = (150, 1, 600, 40, 300)


def small_plan(**changes: Any) -> QueriesPlan:
    plan = QueriesPlan(
        quick=True, cores=1, budget=SHORT, peer_budget=SHORT, queries=(1, 10), window=400, batch=100, processors=4, rules=(10, 20),
        rule_batch=200, rule_processors=5, selectivities=(1, 10), band_window=512, band_batch=64, groups=(20, 100), second=1000,
        group_batch=200, pathway=("tumbling",), pathway_rows=2000, rounds=2, give_up=30.0,
    )  # fmt: skip
    return replace(plan, **changes)


# ---- workloads and joiners -----------------------------------------------------------------------------------------------


def test_queries_are_all_different_and_of_all_kinds() -> None:
    asked = mixed(200, SMALL)
    assert len({one.sql for one in asked}) == len({one.name for one in asked}) == 200
    joins = [one for one in asked if one.rows]
    assert len(joins) == 100
    assert len({(one.rows, one.least) for one in joins}) == 20
    assert all(some in {(one.rows, one.least) for one in joins[:20]} for some in {(400, 9000), (100, 9800)})


@pytest.mark.parametrize("joiner", [Queries, Processors])
def test_every_query_gives_what_the_recount_says(joiner: Any) -> None:
    feed, asked = MarketFeed(SMALL), mixed(12, SMALL)
    one = joiner(asked, SMALL, 1)
    assert all(one.agrees(feed, rows) for rows in PUSHES)


def test_the_recount_equals_the_quadratic_count() -> None:
    feed, asked = MarketFeed(SMALL), Asked("q", "", least=2000, rows=150)
    feed.pushes(300, 1)
    feed.pushes(80, 1)
    found = 0
    t, q = (SMALL.values(name, np.arange(380)) for name in ("t", "q"))
    for side in ("t", "q"):
        seen = range(150, 300) if side == "t" else range(230, 380)
        for k in range(300, 380):
            for other in seen:
                a, b = (k, other) if side == "t" else (other, k)
                inside = q["bid"][b] <= t["price"][a] <= q["ask"][b]
                found += bool(inside and t["sym"][a] == q["sym"][b] and t["size"][a] > 2000)
    assert feed.count(asked, 80) == found > 0
    assert feed.count(asked, 80, since=300) < found


def test_rules_give_what_the_recount_says() -> None:
    work = rule_market(30, 200)
    asked = rules(30, work)
    for one in (Queries(asked, work, 1), Processors(asked[:5], work, 1), PolarsRules(asked, work)):
        feed = MarketFeed(work)
        assert one.agrees(feed, 2000)
        assert sum(feed.counts(asked, 2000).values()) == pytest.approx(200, rel=0.5)


@pytest.mark.parametrize("joiner", [name for name in JOINERS if name != "pyjanitor"])
@pytest.mark.parametrize("selectivity", [1, 64])
def test_counts_and_sums_over_a_band_join_agree(joiner: str, selectivity: int) -> None:
    work = workload(f"band-{selectivity}", 256)
    feed, one = Feed(work), JOINERS[joiner](work, 1)
    assert all(one.agrees(feed, rows) for rows in PUSHES)


def test_pyjanitor_counts_the_same() -> None:
    pytest.importorskip("janitor")
    work = workload("band-64", 256)
    feed, one = Feed(work), JOINERS["pyjanitor"](work, 1)
    assert all(one.agrees(feed, rows) for rows in PUSHES)


def test_the_recounted_sum_equals_the_quadratic_one() -> None:
    work = workload("band-64", 256)
    feed = Feed(work)
    feed.pushes(300, 1)
    s_before = feed.held("s")
    push = feed.pushes(50, 1)[0]
    width, pairs = work.bands[0].width, []
    for r in push["r"].to_pylist():
        pairs += [s["v"] for s in s_before.to_pylist() if abs(r["x"] - s["a"]) <= width]
    for s in push["s"].to_pylist():
        pairs += [s["v"] for r in feed.held("r").to_pylist() if abs(r["x"] - s["a"]) <= width]
    assert recount(feed, push) == (len(pairs), sum(pairs))


@pytest.mark.parametrize("kind", WINDOWS)
def test_answers_are_the_recounted_rows(kind: str) -> None:
    work = Readings(40, 1000, kind)
    for one in (OurAnswers(work, 1), DuckDBAnswers(work, 1, 30.0)):
        feed = ReadingsFeed(work)
        assert all(one.agrees(feed, rows) for rows in (300, 1, 700, 50, 2500, 130))


@pytest.mark.parametrize("kind", WINDOWS)
def test_the_recount_of_windows_equals_plain_python(kind: str) -> None:
    """All rows that came out until now, worked out one reading at a time."""
    work = Readings(5, 1000, kind)
    feed = ReadingsFeed(work)
    found = []
    for rows in (800, 700, 1700):
        feed.pushes(rows, 1)
        found += feed.answer(rows).tolist()
    values = work.values(0, 3200)
    readings = list(zip(values["ts"].tolist(), values["k"].tolist(), values["v"].tolist(), strict=True))
    now = readings[-1][0]
    windows: dict[tuple[int, int], list[int]] = {}
    if kind == "sliding":
        for ts, k, v in readings:
            if ts >= now - 1_000_000:
                windows.setdefault((0, k), []).append(v)
        assert feed.standing().tolist() == [[0, k, len(v), sum(v)] for (_, k), v in sorted(windows.items())]
        return
    if kind == "session":
        open_: dict[int, tuple[int, int]] = {}
        for ts, k, v in readings:
            start = open_[k][0] if k in open_ and ts - open_[k][1] <= work.gap else ts
            open_[k] = start, ts
            windows.setdefault((start, k), []).append(v)
        for k, (start, last) in open_.items():
            if last + work.gap >= now:
                del windows[start, k]
    else:
        slide = 1_000_000 if kind == "tumbling" else 500_000
        for ts, k, v in readings:
            for start in range(ts // slide * slide, ts - 1_000_000, -slide):
                if start + 1_000_000 <= now:
                    windows.setdefault((start, k), []).append(v)
    wanted = [[start, k, len(v), sum(v)] for (start, k), v in sorted(windows.items())]
    assert sorted(found) == wanted


def test_a_second_that_has_no_whole_microseconds_a_row_is_refused() -> None:
    with pytest.raises(OptionError, match="a second must be whole microseconds for each row; got 3 rows"):
        Readings(1, 3)


def test_wrong_answers_are_noticed() -> None:
    class Forgetful(PolarsSums):
        def _sums(self, stream: str, probes: Any, stored: Any) -> tuple[int, int]:
            n, total = super()._sums(stream, probes, stored)
            return n, total - 1

    work = workload("band-64", 256)
    feed, one = Feed(work), Forgetful(work, 1)
    one.push(feed.pushes(300, 1)[0])
    assert not one.agrees(feed, 50)

    class Miscounting(Queries):
        def push(self, batches: Push) -> int:
            found = super().push(batches)
            self.counts["q1"] -= 1
            return found

    assert not Miscounting(mixed(3, SMALL), SMALL, 1).agrees(MarketFeed(SMALL), 100)

    class Stale(OurAnswers):
        def push(self, batches: Push) -> int:
            before = self.answer
            super().push(batches)
            self.answer = before
            return 0

    assert not Stale(Readings(40, 1000, "sliding"), 1).agrees(ReadingsFeed(Readings(40, 1000, "sliding")), 50)


def test_statements_leave_every_count_as_recounted_and_a_wrong_one_is_noticed() -> None:
    live = Live(small_plan())
    for number in range(2):
        for kind in KINDS:
            assert min(live.tell(kind, number)) > 0
            assert live.push() > 0
            assert live.right(), kind.title
    live.queries.counts["q0"] += 1
    assert not live.right()
    assert len({kind.title for kind in KINDS}) == len(KINDS)


def test_a_processor_says_what_it_holds() -> None:
    one, two = (wm.Processor(t=wm.Rows(400), q=wm.Rows(400)) for _ in range(2))
    for asked in mixed(9, SMALL):
        one.create(asked.name, asked.sql)
    for push in MarketFeed(SMALL).pushes(100, 6):
        one.push(push)
        two.push(push)
    shared, alone = (qp.stats()["streams"]["t"] for qp in (one, two))
    assert (shared["rows"], shared["arrived"], shared["joins"]) == (400, 600, 5)
    assert shared["payload_bytes"] == alone["payload_bytes"] > 0
    assert (alone["joins"], alone["index_bytes"]) == (0, 0)
    assert shared["bytes"] == shared["payload_bytes"] + shared["index_bytes"]
    each = []
    for asked in mixed(9, SMALL)[::2]:
        qp = wm.Processor(t=wm.Rows(400), q=wm.Rows(400))
        qp.create(asked.name, asked.sql)
        for push in MarketFeed(SMALL).pushes(100, 6):
            qp.push(push)
        each.append(qp.stats()["streams"]["t"]["index_bytes"])
    assert max(each) < shared["index_bytes"] <= sum(each)


# ---- plan, targets, report -----------------------------------------------------------------------------------------------


def test_the_run_covers_what_the_issue_lists() -> None:
    for quick in (True, False):
        plan = QueriesPlan.of(quick, 2)
        assert plan.queries == plan.selectivities == (1, 10, 100, 1_000)
        assert plan.rules[-1] == 1_000
        assert GROUPS in plan.groups
        cases = [case.title for case in queries_cases(plan)]
        assert len(cases) == len(set(cases))
        for part in ("100 queries · one processor", "100 queries · as many processors", "1,000 rules · one processor",
                     "1,000 rules · as many processors", "1,000 matches a row · ours", "1,000 matches a row · listing the pairs",
                     "1,000 matches a row · Polars", "tumbling, 10,000 groups · DuckDB", "sliding, 10,000 groups · ours",
                     "session, 10,000 groups · ours", "tumbling, 10,000 groups · Pathway", "statements under load", "restart"):  # fmt: skip
            assert any(part in title for title in cases), part


def point(group: str, workload: str, joiner: str, rate: float, **changes: Any) -> Point:
    fields: dict[str, Any] = {
        "window": 100,
        "batch": 10,
        "result": "arrow",
        "pushes": 10,
        "results": 5,
        "verified": True,
    }
    return Point(
        group=group,
        workload=workload,
        joiner=joiner,
        rows=int(rate * 100),
        seconds=100.0,
        **{**fields, **changes},
    )


def measured() -> QueriesOutcome:
    """Every target reached just."""
    outcome = QueriesOutcome(QueriesPlan.of(False, 2))
    outcome.points = [
        point("queries", "queries-1", ONE, 5_000), point("queries", "queries-100", ONE, 1_000),
        point("queries", "queries-100", MANY, 100, note="4 of 100 were run, and counted up"), point("rules", "rules-1000", ONE, 500_000),
        point("bands", "band-1", AGGREGATE, 2_000), point("bands", "band-1000", AGGREGATE, 1_000),
        point("bands", "band-1000", LISTING, 100), point("groups", f"tumbling-{GROUPS}", "ours", 5_000_000),
        point("groups", f"sliding-{GROUPS}", "ours", 2_000_000), point("groups", f"sliding-{GROUPS}", "DuckDB", 1_000_000),
    ]  # fmt: skip
    for count, size in ((1, 1_000_000), (100, 1_050_000)):
        outcome.held.append(
            {"group": "queries", "queries": count, "joiner": ONE, "payload_bytes": size, "index_bytes": 7}
        )
    outcome.plain = [4.9, 5.0, 5.1]
    outcome.told = [
        Told("create a join", (4.9, 4.0, 30.0), (1.0, 2.0, 3.0), (5.0, 5.1, 4.0), True),
        Told("drop a join", (1.0, 1.0, 1.0), (1.0, 2.0, 3.0), (9.0, 8.0, 5.0), True),
    ]
    outcome.restarts = [300.0, 310.0]
    return outcome


def test_targets_are_reached_just() -> None:
    lines = queries_targets(measured())
    assert [line.reached for line in lines] == [True] * 9
    assert lines[0].measured == "10.0x: 1K/s, 100/s"
    assert lines[3].measured == "2.00x: 2K/s, 1K/s"
    assert lines[7].measured == "2 of 2 kinds; 4.9 ms (create a join); the longest of all 30.0 ms"
    assert lines[8].measured == "4.9 ms at most (create a join); a push takes 5.0 ms"


def test_targets_are_missed_just() -> None:
    outcome = measured()
    slower = {(ONE, "queries-100"), (ONE, "rules-1000"), (AGGREGATE, "band-1000"), ("ours", f"tumbling-{GROUPS}"),
              ("ours", f"sliding-{GROUPS}")}  # fmt: skip
    outcome.points = [
        replace(one, seconds=102.0) if (one.joiner, one.workload) in slower else one for one in outcome.points
    ]
    outcome.held[1]["payload_bytes"] += 1_000
    outcome.told[0] = Told("create a join", (5.0, 5.0, 5.0), (1.0, 2.0, 3.0), (5.0, 5.1, 4.0), True)
    outcome.told[1] = Told("drop a join", (1.2, 1.1, 1.0), (1.0, 2.0, 3.0), (9.0, 9.0, 5.0), True)
    lines = queries_targets(outcome)
    assert [line.reached for line in lines] == [False] * 9
    assert lines[7].measured.startswith("1 of 2 kinds")
    assert delays(outcome, outcome.told[1]) == pytest.approx([5.2, 5.1, 1.0])


def test_wrong_counts_reach_nothing() -> None:
    outcome = measured()
    outcome.points = [replace(one, verified=False) for one in outcome.points]
    outcome.told[1] = replace(outcome.told[1], verified=False)
    lines = [line for line in queries_targets(outcome) if "bytes" not in line.name]
    assert not any(line.reached for line in lines)
    assert all("WRONG COUNT" in line.measured for line in lines)


def test_what_was_not_measured_is_not_reached() -> None:
    assert {line.reached for line in queries_targets(QueriesOutcome(QueriesPlan.of(True, 2)))} == {None}


def test_the_report_and_the_json_hold_everything(tmp_path: Path) -> None:
    console, outcome = Console(record=True, width=250), measured()
    outcome.skipped.append("something: for a reason")
    outcome.told[1] = replace(outcome.told[1], verified=False)
    about = {**machine(2), "seconds": 1.0}
    print_queries(outcome, about, console)
    text = console.export_text()
    for part in ("Load before the run", "100 queries", "10.0x", "~100", "4 of 100 were run, and counted up", "1,000 rules",
                 "1,000 matches a row", "tumbling, 10,000 groups", "Bytes stored", "1.05", "create a join", "drop a join WRONG COUNT",
                 "Restart with one more query", "305 ms", "Targets", "not measured: something: for a reason"):  # fmt: skip
        assert part in text, part
    write_queries(outcome, about, tmp_path / "sub" / "bench.json")
    content = json.loads((tmp_path / "sub" / "bench.json").read_text())
    assert len(content["points"]) == len(outcome.points)
    assert content["statements_ms"][0]["median"] == 4.9
    assert content["statements_ms"][0]["worst"] == 30.0
    assert content["restarts_ms"] == [300.0, 310.0]
    assert content["bytes"] == outcome.held
    assert content["machine"]["load_before"] >= 0


def test_plots_are_drawn_from_any_outcome(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = [path.name for path in write_queries_plots(measured(), tmp_path)]
    assert names == [
        f"queries-{name}.png" for name in ("many", "bytes", "rules", "bands", "groups", "statements")
    ]
    assert write_queries_plots(QueriesOutcome(small_plan()), tmp_path / "none") == []


def test_a_small_run_measures_checks_and_writes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(queries_groups, "GROUPS", 100)
    found = {"rows": 1000, "seconds": 2.0, "results": 3, "expected": 3}
    monkeypatch.setattr(queries_groups, "isolated", lambda *arguments, **options: found)
    console = Console(record=True, width=200)
    files = {"json": tmp_path / "bench.json", "plots": tmp_path / "plots"}
    assert bench_queries(quick=True, cores=1, console=console, plan=small_plan(), **files), (
        console.export_text()
    )
    content = json.loads(files["json"].read_text())
    assert not content["problems"]
    assert all(one["verified"] for one in content["points"])
    assert {one["group"] for one in content["points"]} == {"queries", "rules", "bands", "groups"}
    assert {one["joiner"] for one in content["points"]} >= {
        ONE,
        MANY,
        "ours",
        LISTING,
        "DuckDB",
        "Polars",
        "Pathway",
    }
    counted_up = [one for one in content["points"] if one["note"].startswith("4 of 10 were run")]
    assert [one["workload"] for one in counted_up] == ["queries-10"]
    assert [len(one["spent"]) for one in content["statements_ms"]] == [2] * len(KINDS)
    assert len(list(files["plots"].iterdir())) == 6


def test_a_wrong_count_of_ours_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Aggregate, "agrees", lambda self, feed, batch: False)
    monkeypatch.setattr(queries, "many_cases", lambda plan: [])
    monkeypatch.setattr(queries, "group_cases", lambda plan: [])
    monkeypatch.setattr(queries, "statement_cases", lambda plan: [])
    console = Console(record=True, width=200)
    assert not bench_queries(quick=True, cores=1, console=console, plan=small_plan(selectivities=(1,)))
    assert "the count differs from the recount" in console.export_text()


def test_a_wrong_count_after_a_statement_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Live, "right", lambda self: False)
    for name in ("many_cases", "group_cases", "band_cases"):
        monkeypatch.setattr(queries, name, lambda plan: [])
    console = Console(record=True, width=200)
    assert not bench_queries(quick=True, cores=1, console=console, plan=small_plan(rounds=1))
    assert "ours: statements under load: create a join: a count differs" in console.export_text()


@pytest.mark.parametrize("right", [True, False])
def test_the_command_hands_on_what_was_asked_and_fails_where_a_count_was_wrong(
    right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def measure(**options: Any) -> bool:
        asked.update(options)
        return right

    monkeypatch.setattr(queries, "bench_queries", measure)
    given = [
        "--quick",
        "--cores",
        "3",
        "--json",
        f"{tmp_path / 'a.json'}",
        "--plots",
        f"{tmp_path / 'plots'}",
    ]
    monkeypatch.setattr("sys.argv", ["watersmeet", "bench", "queries", *given])
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code or 0) == (0 if right else 1)
    assert asked == {"quick": True, "cores": 3, "json": tmp_path / "a.json", "plots": tmp_path / "plots"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tumbling", "hopping", "session"])
def test_pathway_counts_the_same_windows(kind: str) -> None:
    pytest.importorskip("pathway")
    found = isolated("queries_pathway", kind, "50", "4000", "1000", timeout=120)
    assert found["results"] == found["expected"] > 0
