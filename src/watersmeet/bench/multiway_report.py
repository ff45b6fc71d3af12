"""What a run of ``bench multiway`` has shown: a table a figure, the targets, and JSON.

What stays true: every figure in a table is in the JSON, with the machine and the versions it was measured on.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from watersmeet.bench.cases import short
from watersmeet.bench.measure import Point
from watersmeet.bench.multiway_cases import MATCHES, MultiwayOutcome
from watersmeet.bench.multiway_targets import multiway_targets
from watersmeet.bench.report import print_end, print_targets, write_figures
from watersmeet.bench.targets import find, rate_text

GROUPS = {
    "probability": "By match probability, origins even",
    "chain": "A key of their own between neighbours",
    "origin": "By origin",
    "stash": "Stash off and on",
}


def print_multiway(outcome: MultiwayOutcome, about: dict[str, Any], console: Console) -> None:
    """All tables, then the targets, what was left out and what went wrong."""
    console.print(
        "\nRates are rows a second, all streams together; a push carries a batch of each stream (rows a stream, on average)."
    )
    for group, title in GROUPS.items():
        _print_rates(outcome, group, title, console)
    _print_rates(outcome, "flows", "The thesis's designs as flows", console)
    for share in outcome.printed:
        console.print(
            f"Parallel-MJ as printed, {share['streams']} streams on {share['cores']} cores: finds {share['found']:.1%} of the results "
            f"(1/P^(N-2) is {share['expected']:.1%}); the other flows find all",
            markup=False,
            highlight=False,
        )
    _print_streams(outcome, console)
    _print_peers(outcome, console)
    print_targets(multiway_targets(outcome), about, "rates and ratios", console)
    print_end(outcome.points, outcome.skipped, outcome.problems, about, console)


def write_multiway(outcome: MultiwayOutcome, about: dict[str, Any], path: Path) -> None:
    """Everything measured, as JSON."""
    content = {
        "machine": about,
        "targets": [asdict(line) for line in multiway_targets(outcome)],
        "points": [_figures(outcome, point) for point in outcome.points],
        "state": outcome.state,
        "printed_parallel_mj": outcome.printed,
        "not_measured": outcome.skipped,
        "problems": outcome.problems,
    }
    write_figures(content, path)


def _figures(outcome: MultiwayOutcome, point: Point) -> dict[str, Any]:
    work = outcome.works[point.workload]
    of_work = {
        "title": work.title,
        "condition": work.condition,
        "streams": len(work.streams),
        "match_probability": work.probability,
        "shares": list(work.shares.values()),
        "expected_results_a_row": work.selectivity,
    }
    return {**asdict(point), "rate": point.rate, **of_work}


def _print_rates(outcome: MultiwayOutcome, group: str, title: str, console: Console) -> None:
    points = [point for point in outcome.points if point.group == group]
    batches = sorted({point.batch for point in points})
    table = Table(
        "workload", "results a row", "", *(f"batch {short(batch)}" for batch in batches), title=title
    )
    rows: dict[tuple[str, str], dict[int, Point]] = {}
    for point in points:
        rows.setdefault((point.workload, point.joiner), {})[point.batch] = point
    for (name, joiner), found in rows.items():
        work = outcome.works[name]
        cells = [rate_text(found[batch].rate) if batch in found else "" for batch in batches]
        table.add_row(work.title, f"{work.selectivity:.3g}", joiner, *cells)
    if points:
        console.print(table)


def _print_streams(outcome: MultiwayOutcome, console: Console) -> None:
    points = [point for point in outcome.points if point.group == "streams"]
    table = Table(
        "streams", "batch", "ours", "ours, count", "two-way chain", "ratio", "ours MB", "chain MB",
        title=f"Streams on one key, {MATCHES} matches a step",
    )  # fmt: skip
    held = {(run["streams"], run["joiner"]): f"{run['bytes'] / 1e6:.2f}" for run in outcome.state}
    for name in dict.fromkeys(point.workload for point in points):
        mine, streams = [p for p in points if p.workload == name], len(outcome.works[name].streams)
        ours, counted, chained = (
            find(mine, joiner=joiner) for joiner in ("ours", "ours, count", "two-way chain")
        )
        ratio = f"{ours.rate / chained.rate:.1f}x" if ours is not None and chained is not None else ""
        rates = ("" if point is None else rate_text(point.rate) for point in (ours, counted, chained))
        sizes = (held.get((streams, joiner), "") for joiner in ("ours", "two-way chain"))
        table.add_row(str(streams), short(mine[0].batch), *rates, ratio, *sizes)
    if points:
        console.print(table)


def _print_peers(outcome: MultiwayOutcome, console: Console) -> None:
    table = Table(
        "workload", "window", "batch", "peer", "peer's rate", "ours", "ratio", title="Beside the peers"
    )
    for point in outcome.points:
        if point.group != "peers":
            continue
        mine = [p for p in outcome.points if p.group in ("probability", "wide")]
        ours = find(mine, workload=point.workload, joiner="ours", batch=point.batch)
        ratio = "" if ours is None else f"{ours.rate / point.rate:,.1f}x"
        shown = "" if ours is None else rate_text(ours.rate)
        title = outcome.works[point.workload].title
        sizes = short(point.window), short(point.batch)
        table.add_row(title, *sizes, point.joiner, rate_text(point.rate), shown, ratio)
    if table.row_count:
        console.print(table)
    for note in dict.fromkeys(p.note for p in outcome.points if p.note):
        console.print(f"Pathway: {note}", markup=False, highlight=False)
