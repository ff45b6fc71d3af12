"""What a run of ``bench flows`` has shown: a table a figure, the papers' own numbers, the targets, and JSON.

What stays true: every figure in a table is in the JSON, with the machine and the versions it was measured on.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from watersmeet.bench.cases import short
from watersmeet.bench.flow_cases import GROUPS, FlowOutcome
from watersmeet.bench.flow_latency import STAGES
from watersmeet.bench.flow_model import processing, visiting
from watersmeet.bench.flow_targets import flow_targets
from watersmeet.bench.report import print_targets, write_figures
from watersmeet.bench.targets import rate_text
from watersmeet.flow.runners.simulate import Costs

# What the papers' texts say; their machines had 32 cores.
PAPER = {
    "time": "paper: SplitJoin, 28 cores, 15 min (about 2^21 rows a side): 4,400 tuples/s, up to 60% above low-latency handshake join;"
    " visiting 8.1 ms, low-latency handshake join 26.8 ms",
    "count": "paper: SplitJoin, 28 cores, 2^21 rows a side: 5,200 tuples/s; visiting 2.5x below time windows, 8.3x below low-latency"
    " handshake join",
    "stages": "paper: gathering with punctuations has the highest latency of the three stages; distribution falls with more cores",
    "selectivity": "paper: robust to selectivity at 28 x 2^15 rows",
    "precision": "paper: from one punctuation a sub-window of 2^15 to one in 2^11 comparisons no effect; below 2^10 it costs throughput",
    "sustained": "paper: rates grow with the square root of the cores; CellJoin 3,000 (5 min) and 1,500 tuples/s (10 min) a stream;"
    " merge join on 16 cores 4,000 (10 min)",
}


def print_flows(outcome: FlowOutcome, about: dict[str, Any], console: Console) -> None:
    """All tables, then the targets and what went wrong."""
    console.print("\nRates are rows a second, both streams together. Latencies are means, in milliseconds.")
    for group in ("time", "count", "stages", "selectivity", "precision", "granularity", "single", "real"):
        _print_points(outcome, group, console)
    _print_sustained(outcome, console)
    _print_pairs(outcome, console)
    _print_simulation(outcome, console)
    print_targets(flow_targets(outcome), about, "rates and latencies", console)
    for problem in outcome.problems:
        console.print(problem, style="red", highlight=False, markup=False)
    console.print(f"{len(outcome.found)} points in {about['seconds']} s")


def write_flows(outcome: FlowOutcome, about: dict[str, Any], path: Path) -> None:
    """Everything measured, as JSON."""
    content = {
        "machine": about,
        "targets": [asdict(line) for line in flow_targets(outcome)],
        "costs": outcome.costs,
        "simulated_rate": outcome.rate,
        "paper": PAPER,
        "found": outcome.found,
        "model": model_lines(outcome),
        "problems": outcome.problems,
    }
    write_figures(content, path)


def model_lines(outcome: FlowOutcome) -> list[dict[str, Any]]:
    """The equations at every simulated point."""
    if not outcome.costs:
        return []
    costs = {flow: Costs(**found) for flow, found in outcome.costs.items()}
    lines = []
    for run in outcome.of("simulation"):
        flow, cores, held = run["flow"], run["cores"], run["setting"]["held"]
        found = {
            "visiting": visiting(flow, cores, held, run["rate"], costs[flow]),
            "processing": processing(flow, cores, held, costs[flow]),
        }
        lines.append({"flow": flow, "cores": cores, **found})
    return lines


def _print_points(outcome: FlowOutcome, group: str, console: Console) -> None:
    found = outcome.of(group)
    if not found:
        return
    stages = any(point.get("loaded") for point in found)
    heads = ["flow", "cores", "window", "workload", "index", "granularity", "order", "rows/s"]
    heads += [f"{name}" for name in STAGES] * stages + ["visiting, alone"] * stages
    table = Table(*heads, title=GROUPS[group])
    for point in found:
        setting = point["setting"]
        order = setting["order"] + ("" if setting["precision"] is None else f" {setting['precision']:,}")
        kind = "time" if setting["timed"] else "rows"
        cells = [
            setting["flow"], str(setting["cores"]), f"{short(setting['window'])} {kind}", setting["workload"], setting["index"],
            str(setting["granularity"] or "default"), order, rate_text(point["rate"]),
        ]  # fmt: skip
        if stages:
            cells += [milliseconds(point.get("loaded", {}).get(name)) for name in STAGES]
            cells.append(milliseconds(point.get("alone", {}).get("visiting")))
        table.add_row(*cells)
    console.print(table)
    if group in PAPER:
        console.print(f"[dim]{PAPER[group]}[/]", highlight=False)


def _print_sustained(outcome: FlowOutcome, console: Console) -> None:
    found = outcome.of("sustained")
    if not found:
        return
    table = Table("flow", "cores", "window", "rows/s a stream", "rows in a window", title=GROUPS["sustained"])
    for run in found:
        setting = run["setting"]
        cells = (f"{run['minutes']} min", rate_text(run["per_stream"]), f"{run['window']:,}")
        table.add_row(setting["flow"], str(setting["cores"]), *cells)
    console.print(table)
    console.print(f"[dim]{PAPER['sustained']}[/]", highlight=False)


def _print_pairs(outcome: FlowOutcome, console: Console) -> None:
    for group in ("speed-up", "order"):
        found = outcome.of(group)
        if not found:
            continue
        table = Table("flow", "index", "window", "first", "second", "ratio", title=GROUPS[group])
        for run in found:
            setting, (one, two) = run["settings"][0], run["rates"]
            rates = (rate_text(one), rate_text(two), f"{two / one:.2f}x")
            table.add_row(setting["flow"], setting["index"], short(setting["window"]), *rates)
        console.print(table)


def _print_simulation(outcome: FlowOutcome, console: Console) -> None:
    found = outcome.of("simulation")
    if not found:
        return
    table = Table(
        "flow", "cores", "visiting", "by the model", "processing", "by the model", title=GROUPS["simulation"]
    )
    for run, line in zip(found, model_lines(outcome), strict=True):
        cells = [
            run["latency"].get("visiting"),
            line["visiting"],
            run["latency"].get("processing"),
            line["processing"],
        ]
        table.add_row(
            run["flow"], str(run["cores"]), *("" if cell is None else f"{cell * 1e3:.3g}" for cell in cells)
        )
    console.print(table)
    console.print(
        f"[dim]{found[0]['setting']['held']} rows of a stream in a core; {outcome.rate:,.0f} rows/s come to every flow[/]",
        highlight=False,
    )
    _print_costs(outcome, console)


def _print_costs(outcome: FlowOutcome, console: Console) -> None:
    names = list(next(iter(outcome.costs.values())))
    table = Table("flow", *names, title="Measured costs, microseconds")
    for flow, costs in outcome.costs.items():
        table.add_row(flow, *(f"{costs[name] * 1e6:.3g}" for name in names))
    console.print(table)


def milliseconds(stage: dict[str, float] | None) -> str:
    """The mean of a stage."""
    return "" if stage is None else f"{stage['mean'] * 1e3:.3g}"
