"""``watersmeet bench flows``: the papers' figures with every flow, simulated cores beside real ones; tables, targets, JSON and plots.

What stays true: each case runs in a process of its own; one that fails is reported and the run goes on; the exit is unclean iff one
failed or a recount did not agree.
"""

import json as json_text
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from watersmeet.bench.flow_cases import FlowCase, FlowOutcome, FlowPlan, calibration, flow_cases, simulations
from watersmeet.bench.flow_plots import write_flow_plots
from watersmeet.bench.flow_report import print_flows, write_flows
from watersmeet.bench.measure import isolated
from watersmeet.bench.running import Report, Run
from watersmeet.bench.targets import rate_text

REPORT = Report(print_flows, write_flows, write_flow_plots)


def bench_flows(
    *,
    quick: bool,
    cores: int,
    json: Path | None = None,
    plots: Path | None = None,
    console: Console | None = None,
    plan: FlowPlan | None = None,
) -> bool:
    """Measure everything; True iff all cases ran and every recount agreed."""
    wanted, outcome = plan or FlowPlan.of(quick, cores), FlowOutcome()

    def stages() -> Iterator[list[FlowCase]]:
        yield [calibration()]  # simulations start from what it gives
        yield [*flow_cases(wanted), *simulations(wanted, outcome)]

    Run("flows", quick, cores, json, plots, console).measure(
        outcome, stages(), lambda case, shown: run_case(case, outcome, shown), REPORT
    )
    return not outcome.problems


def run_case(case: FlowCase, outcome: FlowOutcome, console: Console) -> None:
    """Measure one case and add what it gave."""
    try:
        found = isolated("flow_case", json_text.dumps(case.wanted), timeout=case.timeout)
    except Exception as error:  # a failed case must not lose the others' results
        outcome.problems.append(f"{case.title}: {type(error).__name__}: {error}")
        console.print(f"{case.title}: {type(error).__name__}", style="red", markup=False, highlight=False)
        return
    if "costs" in found:
        outcome.costs, outcome.rate = found["costs"], found["rate"]
    else:
        outcome.found += [{**run, "group": case.group} for run in found.get("runs", [found])]
    marks = found.get("verified")
    if False in (marks if isinstance(marks, list) else [marks]):
        outcome.problems.append(f"{case.title}: the count differs from the recount")
    console.print(f"{case.title}: {_shown(found)}", highlight=False, soft_wrap=True)


def _shown(found: dict[str, Any]) -> str:
    if "costs" in found:
        probes = (f"{flow} {costs['probe'] * 1e6:.3g}" for flow, costs in found["costs"].items())
        return f"µs a row without comparisons: {', '.join(probes)}"
    if "runs" in found:
        visits = ((run["cores"], run["latency"].get("visiting", float("nan"))) for run in found["runs"])
        return "  ".join(f"[dim]{cores}:[/] {visit * 1e3:.3g} ms" for cores, visit in visits)
    if "per_stream" in found:
        return f"[bold]{rate_text(found['per_stream'])}[/]/s a stream, windows of {found['window']:,} rows"
    if "rates" in found:
        return " and ".join(f"[bold]{rate_text(rate)}[/]/s" for rate in found["rates"])
    visiting = found.get("loaded", {}).get("visiting") or found.get("alone", {}).get("visiting")
    text = "" if visiting is None else f", visiting {visiting['mean'] * 1e3:.3g} ms"
    return (
        f"[bold]{rate_text(found['rate'])}[/]/s{text}{' WRONG COUNT' if found['verified'] is False else ''}"
    )
