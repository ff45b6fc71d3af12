"""The benchmark of the joins that users bring measures what it says: same counts everywhere, honest targets. No clock is asserted on."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from watersmeet.bench import engine, flows, multiway, users, users_cases
from watersmeet.bench.measure import Budget, Point, check, isolated
from watersmeet.bench.report import machine
from watersmeet.bench.users import bench_users
from watersmeet.bench.users_cases import COMPARED, UsersOutcome, UsersPlan, compared, fill, workloads
from watersmeet.bench.users_cases import users_cases as all_cases
from watersmeet.bench.users_peers import Ours, UserDuckDB, UserPolars
from watersmeet.bench.users_report import print_users, write_users
from watersmeet.bench.users_targets import users_targets
from watersmeet.cli import main
from watersmeet.errors import OptionError
from watersmeet.workloads.scatter import uuids
from watersmeet.workloads.users import (
    UserWorkload,
    arithmetic,
    clicks,
    disordered,
    flights,
    integer_keys,
    market,
    sensors,
)
from watersmeet.workloads.users_feed import Push, UserFeed, partners

SHORT = Budget(seconds=0.002, warm_up=0.001, pushes=2)
ORDERED = [
    market(500, 10, symbols=5),
    market(500, None, symbols=5),
    integer_keys(market(500, 10, symbols=5)),
    clicks(500),
    integer_keys(clicks(500)),
    sensors(500),
    flights(500, 10, airports=4),
    arithmetic(250),
]
SMALL = [*ORDERED, disordered(market(500, 10, symbols=5), 7)]
PUSHES = [200] * 8 + [1] * 5 + [700, 30, 1, 200]  # of more rows than a window, too


def named(work: UserWorkload) -> str:
    return work.name


def agree(joiner: Any, work: UserWorkload) -> None:
    feed = UserFeed(work)
    for rows in PUSHES:
        push = feed.pushes(rows, 1)[0]
        assert joiner.push(push) == feed.expected(push)


@pytest.mark.parametrize("work", SMALL, ids=named)
def test_ours_counts_what_the_recount_counts(work: UserWorkload) -> None:
    agree(Ours(work), work)


@pytest.mark.parametrize("work", ORDERED, ids=named)
@pytest.mark.parametrize("peer", [UserDuckDB, UserPolars])
def test_the_peers_count_what_the_recount_counts(work: UserWorkload, peer: Any) -> None:
    agree(peer(work), work)


def test_a_peer_that_joins_in_pieces_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.bench.users_peers.MOST_CANDIDATES", 1000)
    agree(UserPolars(ORDERED[0]), ORDERED[0])


def test_peers_want_rows_in_order() -> None:
    for peer in (UserDuckDB, UserPolars):
        with pytest.raises(ValueError, match="must be in order of time; got market data"):
            peer(SMALL[-1])


@pytest.mark.parametrize("work", SMALL, ids=named)
def test_the_recount_equals_the_quadratic_count(work: UserWorkload, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.workloads.users_feed.LOT", 100)  # many lots of candidates
    left, right = work.streams
    rows = {name: work.values(name, np.arange(100, 400)) for name in work.streams}
    holds = work.holds(
        {name: column[:, None] for name, column in rows[left].items()},
        {name: column[None, :] for name, column in rows[right].items()},
    )
    assert holds.any()
    assert partners(work, left, rows[left], rows[right]).tolist() == holds.sum(axis=1).tolist()
    assert partners(work, right, rows[right], rows[left]).tolist() == holds.sum(axis=0).tolist()


def test_partners_lie_within_the_window() -> None:
    work = market(100, 10, symbols=1)
    trade, quotes = work.values("t", np.arange(500, 501)), work.values("q", np.arange(1000))
    quotes["bid"], quotes["ask"] = np.full(1000, 0.0), np.full(1000, 1e6)
    everywhere = replace(work, near=None)
    assert partners(everywhere, "t", trade, quotes).tolist() == [
        201
    ]  # 100 before, 100 after, and its own time


@pytest.mark.parametrize("work", SMALL, ids=named)
def test_results_a_row_are_as_stated(work: UserWorkload) -> None:
    feed = UserFeed(work)
    feed.pushes(2 * work.window, 1)
    rows = 20 * work.window
    found = sum(feed.expected(feed.pushes(work.window // 4, 1)[0]) for _ in range(4 * rows // work.window))
    assert found / (2 * rows) == pytest.approx(work.selectivity, rel=0.15)


@pytest.mark.parametrize("work", SMALL, ids=named)
def test_a_row_is_a_function_of_its_number(work: UserWorkload) -> None:
    feed, start = UserFeed(work), 0
    for push in (*feed.pushes(7, 3), *feed.pushes(50, 2)):
        size = len(next(iter(push.values())))
        for name, batch in push.items():
            assert batch.equals(work.rows(name, 0, 300).slice(start, size))
        start += size
    assert feed.pushed == start == 121


def test_texts_are_what_they_are_called() -> None:
    ids = uuids(np.arange(5000)).to_pylist()
    assert len(set(ids)) == 5000
    assert all(
        len(text) == 36 and [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12] for text in ids
    )
    symbols = market().rows("t", 0, 50_000).column("sym")
    assert pa.types.is_string(symbols.type)
    assert len(symbols.unique()) == 2000
    assert pa.types.is_integer(integer_keys(market()).rows("t", 0, 1).column("sym").type)
    prices = market().rows("q", 0, 1000)
    for name in ("bid", "ask"):
        assert all(price == round(price, 2) for price in prices.column(name).to_pylist())


def test_flights_and_weather_have_nulls() -> None:
    for stream, names in (("f", ("airport", "most_wind")), ("w", ("airport", "wind"))):
        rows = flights().rows(stream, 0, 5000)
        assert all(20 < rows.column(name).null_count < 500 for name in names)


def test_rows_that_are_slightly_out_of_order_are_not_late() -> None:
    work = disordered(market(500, 10, symbols=5), 20)
    joiner, feed = Ours(work), UserFeed(work)
    times: list[int] = []
    for push in feed.pushes(100, 20):
        joiner.push(push)
        times += push["t"].column("ts").cast(pa.int64()).to_pylist()
    assert times != sorted(times)
    assert all(stream["late"] == 0 for stream in joiner.join.stats()["streams"].values())


def test_a_window_whose_rows_are_no_whole_microseconds_apart_is_refused() -> None:
    with pytest.raises(
        OptionError, match="10 s must be whole microseconds for each of the window's rows; got 3"
    ):
        market(3)


def test_a_wrong_count_is_noticed() -> None:
    class Forgetful(UserPolars):
        def push(self, batches: Push) -> int:
            return super().push(batches) - 1

    work = ORDERED[0]
    feed, joiner = UserFeed(work), Forgetful(work)
    fill(joiner, feed, 60.0)
    assert not check(joiner, feed, 50, tuple(work.streams))
    assert check(Ours(work), UserFeed(work), 50, tuple(work.streams))


def test_filling_fills_or_gives_up() -> None:
    joiner, feed = Ours(ORDERED[0]), UserFeed(ORDERED[0])
    fill(joiner, feed, 60.0)
    held = [stream["rows"] for stream in joiner.join.stats()["streams"].values()]
    assert min(held) >= ORDERED[0].window
    with pytest.raises(TimeoutError, match="filling the windows took more than 0 s; given up"):
        fill(Ours(ORDERED[0]), UserFeed(ORDERED[0]), 0.0)


def small_plan() -> UsersPlan:
    return UsersPlan(
        quick=True, cores=1, pushes=(1, 16, 50_000), peer_pushes=(16,), many=1000, some=1000, few=1000, compared=1000,
        budget=SHORT, peer_budget=SHORT, fill_seconds=60.0, push_seconds=60.0, give_up=30.0, pathway=("clicks",),
        pathway_rows=1000,
    )  # fmt: skip


def test_the_full_run_covers_what_the_issue_lists() -> None:
    plan = UsersPlan.of(False, 2)
    assert plan.pushes == plan.peer_pushes == (1, 100, 1_000, 10_000, 100_000)
    titles = [case.title for case in all_cases(plan)]
    for text in ("market data, 10 s, 1,000,000 rows held", "market data, 1 s, 100,000 rows held",
                 "market data, count windows, 10,000 rows held", "clicks and impressions, left join", "sensors, two float bands",
                 "flights and weather, with NULLs", "residual of arithmetic, 1,000 rows held"):  # fmt: skip
        for joiner in ("ours", "DuckDB", "Polars"):
            assert any(title.startswith(text) and title.endswith(f"· {joiner}") for title in titles), text
    assert sum(title.endswith("· Pathway") for title in titles) == 4
    assert sum("· beside" in title for title in titles) == 6
    assert len(titles) == len(set(titles))


def measured() -> UsersOutcome:
    """Every target reached just, by a full run's points."""
    outcome = UsersOutcome(UsersPlan.of(False, 2))
    large, _, small, _, _, _, last = workloads(outcome.plan)
    found = [
        point(large, "ours", COMPARED, 3_000_000),
        point(large, "DuckDB", COMPARED, 150_000),
        point(small, "ours", 1, 20_000, pushes=10_000),
        point(small, "ours", 100, 600_000),
        point(last, "ours", 1000, 480_000, pushes=240),
        point(market(20_000), "Pathway", 5_000, 50_000, note="everything kept"),
    ]
    for group, share in (("text keys", 70), ("time windows", 80), ("much lateness", 50)):
        for work, other in compared(outcome.plan)[group]:
            found.append(point(work, "ours", COMPARED, share, group=group, note=f"beside {other.title}"))
            found.append(point(other, "ours", COMPARED, 100, group=group, note=f"beside {work.title}"))
    outcome.points = found
    outcome.works = {work.name: work for work in (*workloads(outcome.plan), market(20_000))}
    outcome.works |= {
        one.name: one for pairs in compared(outcome.plan).values() for pair in pairs for one in pair
    }
    return outcome


def point(work: UserWorkload, joiner: str, batch: int, rows: int, **changes: Any) -> Point:
    fields = {"group": "users", "window": work.window, "result": "arrow", "seconds": 1.0, "pushes": 10}
    fields |= {"results": 5, "verified": True, "workload": work.name}
    return Point(joiner=joiner, batch=batch, rows=rows, **{**fields, **changes})  # type: ignore[arg-type]


def test_targets_are_reached_just() -> None:
    lines = users_targets(measured())
    assert [line.reached for line in lines] == [True] * 7 + [None] * 2
    assert lines[1].measured.startswith("20.0x")


def test_targets_are_missed_just() -> None:
    outcome, slower = measured(), []
    for one in outcome.points:
        first = one.joiner == "ours" and (one.group == "users" or one.rows < 100)
        slower.append(replace(one, seconds=1.02) if first else one)
    outcome.points = slower
    assert [line.reached for line in users_targets(outcome)] == [False] * 7 + [None] * 2


def test_a_wrong_count_reaches_nothing() -> None:
    outcome = measured()
    outcome.points = [replace(one, verified=False) for one in outcome.points]
    lines = users_targets(outcome)[:-1]
    assert not any(line.reached for line in lines)
    assert all("WRONG COUNT" in line.measured for line in lines)


def test_what_is_to_be_faster_than_before_has_no_verdict_from_one_run() -> None:
    outcome = measured()
    outcome.points = [replace(one, seconds=1e-6) for one in outcome.points]
    line = users_targets(outcome)[7]
    assert line.name.startswith("residual of arithmetic")
    assert line.reached is None
    assert "before: this command with the earlier engine" in line.measured


def test_one_of_several_pairs_that_misses_decides() -> None:
    outcome = measured()
    last = max(k for k, one in enumerate(outcome.points) if one.group == "time windows" and one.rows == 80)
    outcome.points[last] = replace(outcome.points[last], rows=79)
    assert [line.reached for line in users_targets(outcome)][4:6] == [True, False]


def test_what_was_not_measured_is_not_reached() -> None:
    assert {line.reached for line in users_targets(UsersOutcome(UsersPlan.of(True, 2)))} == {None}


def test_the_report_and_the_json_hold_everything(tmp_path: Path) -> None:
    console, outcome = Console(record=True, width=250), measured()
    outcome.skipped.append("something: for a reason")
    about = {**machine(2), "seconds": 1.0}
    print_users(outcome, about, console)
    text = console.export_text()
    for part in ("Rows a second", "Beside the peers", "20.0x", "60.0x", "Measured in turns", "70%", "80%", "Targets",
                 "Pathway: everything kept", "not measured: something: for a reason", "18 of 18 recounted points agree"):  # fmt: skip
        assert part in text, part
    write_users(outcome, about, tmp_path / "sub" / "bench.json")
    content = json.loads((tmp_path / "sub" / "bench.json").read_text())
    assert len(content["points"]) == len(outcome.points)
    assert content["points"][0]["expected_results_a_row"] == pytest.approx(1.75)
    assert content["points"][2]["pushes_a_second"] == 10_000
    assert content["not_measured"] == outcome.skipped


def test_plots_are_drawn_from_any_outcome(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from watersmeet.bench.users_plots import write_users_plots

    names = [path.name for path in write_users_plots(measured(), tmp_path)]
    wanted = ("market-10s-1000000", "market-rows-10000", "arithmetic-1000", "shares")
    assert names == [f"users-{name}.png" for name in wanted]
    assert write_users_plots(UsersOutcome(small_plan()), tmp_path / "none") == []


def test_a_small_run_measures_checks_and_writes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    found = {"rows": 1000, "seconds": 2.0, "results": 3, "expected": 3}
    monkeypatch.setattr(users_cases, "isolated", lambda *arguments, **options: found)
    console = Console(record=True, width=200)
    files = {"json": tmp_path / "bench.json", "plots": tmp_path / "plots"}
    assert bench_users(quick=True, cores=1, console=console, plan=small_plan(), **files), (
        console.export_text()
    )
    content = json.loads(files["json"].read_text())
    assert not content["problems"]
    assert all(one["verified"] for one in content["points"])
    assert {one["group"] for one in content["points"]} == {
        "users",
        "text keys",
        "time windows",
        "much lateness",
    }
    assert {one["joiner"] for one in content["points"]} == {"ours", "DuckDB", "Polars", "Pathway"}
    assert all(one["batch"] <= one["window"] for one in content["points"])
    assert max(one["batch"] for one in content["points"]) == 250
    assert (files["plots"] / "users-shares.png").exists()


def test_a_large_push_that_would_take_too_long_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users_cases, "COMPARED", 16)
    plan = replace(small_plan(), pushes=(1, 16, 64), push_seconds=0.0)
    outcome = UsersOutcome(plan)
    points = next(all_cases(plan)).measure(plan, outcome)
    assert isinstance(points, list)
    assert [one.batch for one in points] == [1, 16]
    assert outcome.skipped == [
        "market data, 10 s, 1,000 rows held, ours: a push of 64 rows would take too long"
    ]


def test_a_slow_peer_is_not_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: UserDuckDB, stream: str, probes: pa.Table, stored: pa.Table) -> int:
        raise TimeoutError("DuckDB: one batch took more than 0 s; given up")

    monkeypatch.setattr(UserDuckDB, "_join", fail)
    monkeypatch.setattr(users_cases, "workloads", lambda plan: ORDERED[:1])
    monkeypatch.setattr(users_cases, "compared", lambda plan: {})
    console = Console(record=True, width=200)
    assert bench_users(quick=True, cores=1, console=console, plan=replace(small_plan(), pathway=()))
    assert "DuckDB: one batch took more than 0 s; given up" in console.export_text()


@pytest.mark.parametrize("module", [engine, users, flows, multiway])
@pytest.mark.parametrize("right", [True, False])
def test_a_command_hands_on_what_was_asked_and_fails_where_a_count_was_wrong(
    module: Any, right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, asked = module.__name__.rsplit(".", 1)[1], {}

    def measure(**options: Any) -> bool:
        asked.update(options)
        return right

    monkeypatch.setattr(module, f"bench_{name}", measure)
    monkeypatch.setattr(
        "sys.argv",
        ["watersmeet", "bench", name, "--quick", "--cores", "3", "--json", f"{tmp_path / 'a.json'}"],
    )
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code or 0) == (0 if right else 1)
    assert asked == {"quick": True, "cores": 3, "json": tmp_path / "a.json", "plots": None}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows"), [("market", 8000), ("clicks", 2000), ("sensors", 800), ("flights", 2000)]
)
def test_pathway_counts_the_same_results(name: str, rows: int) -> None:
    pytest.importorskip("pathway")
    found = isolated("users_pathway", name, str(rows), str(rows // 4), timeout=120)
    assert found["results"] == found["expected"] > 0
