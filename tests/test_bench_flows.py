"""The benchmark of flows measures what it says, on every flow, and its targets are honest. No clock is asserted on."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from watersmeet.bench import flow_case, flows
from watersmeet.bench.flow_calibrate import calibrate
from watersmeet.bench.flow_case import point, sustained, versus
from watersmeet.bench.flow_cases import (
    GROUPS,
    FlowCase,
    FlowOutcome,
    FlowPlan,
    calibration,
    flow_cases,
    simulations,
)
from watersmeet.bench.flow_engine import FlowSetting, OurFlow
from watersmeet.bench.flow_latency import STAGES
from watersmeet.bench.flow_plots import write_flow_plots
from watersmeet.bench.flow_report import model_lines, print_flows, write_flows
from watersmeet.bench.flow_simulation import SIMULATED
from watersmeet.bench.flow_targets import flow_targets
from watersmeet.bench.measure import Budget, check
from watersmeet.bench.report import machine
from watersmeet.cli import app
from watersmeet.flow.catalog import FLOWS

SHORT = Budget(seconds=0.02, warm_up=0.005, pushes=2)
COSTS = {
    "link": 1e-5,
    "message": 1e-7,
    "feed": 1e-6,
    "gather": 1e-6,
    "control": 3e-6,
    "probe": 3e-5,
    "compare": 1e-9,
}


def setting(flow: str, **changes: Any) -> FlowSetting:
    cores = 1 if flow == "three_step" else 2
    return FlowSetting(
        **{"flow": flow, "cores": cores, "window": 2048, "workload": "band-64", "batch": 64, **changes}
    )


def a_point(flow: str, cores: int, rate: float, group: str, **changes: Any) -> dict[str, Any]:
    stage = {"mean": 1e-3, "p99": 2e-3}
    return {
        "group": group,
        "setting": vars(FlowSetting(flow, cores, granularity=1, **changes)),
        "rate": rate,
        "verified": True,
        "loaded": dict.fromkeys(STAGES, stage),
        "alone": dict.fromkeys(STAGES, stage),
    }


def measured() -> FlowOutcome:
    """An outcome in which every target is reached, just."""
    outcome = FlowOutcome(costs=dict.fromkeys(SIMULATED, COSTS), rate=10_000.0)
    found = outcome.found
    for flow in FLOWS:
        for group in ("time", "count", "stages", "real"):
            found.append(a_point(flow, 2, 10_000.0, group, timed=group == "time", order="outer"))
    found.append(a_point("split_join", 2, 9_000.0, "stages", timed=True))
    found.append(a_point("split_join", 2, 9_000.0, "selectivity", workload="band-64"))
    found.append(a_point("split_join", 2, 9_000.0, "precision", order="inner", precision=16))
    found.append(a_point("split_join", 2, 9_500.0, "precision", order="none"))
    found.append(a_point("split_join", 2, 9_000.0, "granularity"))
    found.append(a_point("split_join", 2, 19_000.0, "single", workload="band-1"))
    found.append(
        {
            "group": "sustained",
            "setting": vars(setting("handshake")),
            "minutes": 10,
            "per_stream": 700.0,
            "window": 9,
        }
    )
    for index, window, factor in (("scan", 1 << 17, 1.6), ("bi_sort", 1 << 23, 1.4)):
        both = [vars(FlowSetting("split_join", k, window=window, index=index)) for k in (1, 2)]
        found.append({"group": "speed-up", "settings": both, "rates": [1000.0, factor * 1000.0]})
        both = [vars(FlowSetting("split_join", 2, index=index, order=order)) for order in ("none", "outer")]
        found.append({"group": "order", "settings": both, "rates": [1000.0, 850.0]})
    for cores in (2, 8, 16):
        for flow, base in (("split_join", 1e-4), ("low_latency_handshake", 2e-4), ("handshake", 3e-4)):
            run = {
                "flow": flow,
                "cores": cores,
                "rate": 1e4,
                "latency": {"visiting": base},
                "setting": {"held": 64},
            }
            found.append({"group": "simulation", **run})
    return outcome


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("flow", FLOWS)
def test_windows_are_full_without_having_been_scanned_full(flow: str, timed: bool) -> None:
    engine = OurFlow(setting(flow, timed=timed, window=2051))
    rows = [stream["rows"] for stream in engine.join.stats()["streams"].values()]
    assert rows == [2051, 2051]
    if engine.exact:
        assert check(engine, engine.feed, 64)
    else:
        assert engine.push(engine.feed.pushes(64, 1)[0]) > 0
    engine.close()


@pytest.mark.parametrize("flow", FLOWS)
def test_a_point_has_a_rate_and_all_latencies(flow: str) -> None:
    found = point(setting(flow, granularity=1), SHORT)
    assert found["rate"] > 0
    assert found["results"] > 0
    assert found["verified"] is (True if FLOWS[flow].prompt else None)
    json.dumps(found)
    wanted = set(STAGES) if FLOWS[flow].prompt else {"visiting"}
    for how in ("alone", "loaded"):
        assert set(found[how]) == wanted
        assert all(stage["mean"] >= 0 and np.isfinite(stage["p99"]) for stage in found[how].values())
    if FLOWS[flow].prompt:
        stages = found["loaded"]
        assert sum(stages[name]["mean"] for name in STAGES[:3]) == pytest.approx(stages["end to end"]["mean"])


def test_strict_order_has_stages_too() -> None:
    found = point(setting("split_join", granularity=1, order="outer", precision=1), SHORT)
    assert set(found["loaded"]) == set(STAGES)


def test_joins_side_by_side() -> None:
    found = versus([setting("split_join", cores=k, granularity=32) for k in (1, 2)], SHORT)
    assert found["verified"] == [True, True]
    assert len(found["rates"]) == 2
    assert min(found["rates"]) > 0


def test_a_rate_that_is_kept_up_with(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed, slope = 1e-4, 1e-9
    sizes = []

    def exact(setting: FlowSetting, budget: Budget, latencies: bool) -> dict[str, float]:
        sizes.append(setting.window)
        return {"rate": 1 / (fixed + slope * setting.window)}

    monkeypatch.setattr(flow_case, "point", exact)
    found = sustained(setting("split_join"), 10, SHORT)
    rate = found["per_stream"]
    assert 2 * rate * (fixed + slope * rate * 600) == pytest.approx(1.0)
    assert sizes[-1] == found["window"] == int(rate * 600)


def test_costs_are_measured() -> None:
    for costs in calibrate(SIMULATED, steps=40, many=16_384).values():
        assert all(cost >= 0 for cost in vars(costs).values())
        assert costs.compare > 0


@pytest.mark.parametrize("quick", [True, False])
def test_cases_cover_every_flow_core_and_figure(quick: bool) -> None:
    plan = FlowPlan.of(quick, 2)
    outcome = FlowOutcome(costs=dict.fromkeys(SIMULATED, COSTS), rate=1.0)
    cases = [calibration(), *flow_cases(plan), *simulations(plan, outcome)]
    assert {case.group for case in cases} == set(GROUPS)
    json.dumps([case.wanted for case in cases])
    for group in ("time", "count"):
        settings = [case.wanted["setting"] for case in cases if case.group == group]
        assert {s["flow"] for s in settings} == set(FLOWS)
        assert max(s["window"] for s in settings) == 1 << 17
        assert all(s["granularity"] == 1 and s["timed"] == (group == "time") for s in settings)
    both = {
        (s["flow"], s["cores"]) for case in cases if case.group == "count" for s in [case.wanted["setting"]]
    }
    assert both == {(flow, k) for flow in FLOWS for k in plan.cores_of(flow)}
    cores = {
        s["cores"] for case in cases if case.wanted["kind"] == "simulate" for s in case.wanted["settings"]
    }
    assert cores == set(plan.simulated)
    assert quick or cores == {1 << i for i in range(1, 10)}


def test_targets_are_reached_just() -> None:
    lines = flow_targets(measured())
    assert [line.reached for line in lines] == [True] * 6
    assert "split_join 1.60x" in lines[3].measured
    assert lines[5].measured == "two-dimensional band 10,000/s (2 cores); one band 19,000/s (2 cores)"


def test_targets_are_missed() -> None:
    outcome = measured()
    for found in outcome.found:
        if found["group"] in ("speed-up", "order"):
            found["rates"][1] *= 0.99
        if found["group"] == "count":
            found["rate"] = 9_999.0
        if found["group"] == "simulation" and found["flow"] == "handshake" and found["cores"] == 16:
            found["latency"]["visiting"] = 1e-4
    assert [line.reached for line in flow_targets(outcome)] == [False] * 6


def test_what_was_not_measured_is_not_reached() -> None:
    assert [line.reached for line in flow_targets(FlowOutcome())] == [None] * 6
    outcome = FlowOutcome()
    both = [vars(FlowSetting("split_join", k, window=1 << 20, index="bi_sort")) for k in (1, 2)]
    outcome.found.append({"group": "speed-up", "settings": both, "rates": [1.0, 2.0]})
    line = flow_targets(outcome)[4]
    assert line.reached is None
    assert "at a smaller window: split_join 2.00x" in line.measured


def test_report_json_and_plots(tmp_path: Path) -> None:
    outcome, about = measured(), {**machine(2), "seconds": 1.0, "load_before": 9.0}
    outcome.problems.append("a case [went] wrong")
    console = Console(record=True, width=200)
    print_flows(outcome, about, console)
    text = console.export_text()
    for shown in (
        *GROUPS.values(),
        "8.1 ms",
        "4,400 tuples/s",
        "The machine was busy",
        "a case [went] wrong",
    ):
        assert shown in text
    write_flows(outcome, about, tmp_path / "flows.json")
    content = json.loads((tmp_path / "flows.json").read_text())
    assert len(content["found"]) == len(outcome.found)
    assert len(content["model"]) == len(model_lines(outcome)) == 9
    written = write_flow_plots(outcome, tmp_path / "plots")
    assert len(written) == 10
    assert all(path.stat().st_size > 1000 for path in written)
    assert write_flow_plots(FlowOutcome(), tmp_path / "none") == []


def test_a_run_goes_on_after_a_failed_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def one_fails(module: str, wanted: str, timeout: float) -> dict[str, Any]:
        case = json.loads(wanted)
        if case["kind"] == "calibrate":
            return {"costs": dict.fromkeys(SIMULATED, COSTS), "rate": 1e4}
        if case["kind"] == "simulate":
            return {"runs": [found for found in measured().of("simulation") if found["flow"] == "handshake"]}
        if case["kind"] == "sustained":
            raise RuntimeError("no such thing")
        if case["kind"] == "versus":
            return {"settings": case["settings"], "rates": [1.0, 2.0], "verified": [True, None]}
        return {**a_point("split_join", 2, 1.0, ""), "setting": case["setting"]}

    monkeypatch.setattr(flows, "isolated", one_fails)
    console = Console(record=True, width=200)
    assert not flows.bench_flows(quick=True, cores=2, json=tmp_path / "flows.json", console=console)
    text = console.export_text()
    assert "RuntimeError: no such thing" in text
    assert "Targets" in text
    assert json.loads((tmp_path / "flows.json").read_text())["costs"]["handshake"] == COSTS


def test_a_wrong_count_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**a_point("split_join", 2, 1.0, ""), "verified": False}
    monkeypatch.setattr(flows, "isolated", lambda module, wanted, timeout: wrong)
    outcome = FlowOutcome()
    flows.run_case(FlowCase("count", "this one", {}), outcome, Console(record=True))
    assert outcome.problems == ["this one: the count differs from the recount"]


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def measure(**options: Any) -> bool:
        given.update(options)
        return False

    monkeypatch.setattr(flows, "bench_flows", measure)
    done = CliRunner().invoke(app, ["bench", "flows", "--quick", "--cores", "3", "--json", "x.json"])
    assert done.exit_code == 1
    assert given == {"quick": True, "cores": 3, "json": Path("x.json"), "plots": None}
