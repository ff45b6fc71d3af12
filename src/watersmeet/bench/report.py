"""What a run has shown: tables of rates and ratios, the targets, and JSON.

What stays true: every figure in a table is in the JSON, with the machine and the versions it was measured
on.
"""

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from watersmeet.bench.cases import EngineOutcome, short
from watersmeet.bench.measure import Point
from watersmeet.bench.targets import MILLION, Target, find, rate_text, targets

BUSY = 0.3  # load a core, before the run, above which the figures are not to be relied on
PACKAGES = ("watersmeet", "numba", "numpy", "pyarrow", "duckdb", "polars", "pathway")


def machine(cores: int) -> dict[str, Any]:
    """The machine and the versions that the figures belong to."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "cores_used": cores,
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def print_report(outcome: EngineOutcome, about: dict[str, Any], console: Console) -> None:
    """All tables, then the targets and what went wrong."""
    console.print(
        "\nRates are rows a second, both streams together; a push carries a batch of each stream"
        " (batch 1: one row of one stream)."
    )
    for group, title in (
        ("sweep", "Every index"),
        ("two-dimensional", "Two bands"),
        ("ranges", "Results not as pairs"),
    ):
        _print_rates(outcome, group, title, console)
    if outcome.limits:
        limits = ", ".join(
            f"batch {short(batch)} {rate_text(rate)}/s" for batch, rate in outcome.limits.items()
        )
        console.print(f"The limit, NumPy's sort of the same packed batch, one thread: {limits}")
    _print_peers(outcome, console)
    _print_latency(outcome, console)
    _print_start(outcome, console)
    print_targets(targets(outcome), about, "rates and ratios", console)
    print_end(outcome.points, (), outcome.problems, about, console)


def print_end(
    points: Sequence[Point],
    skipped: Iterable[str],
    problems: Iterable[str],
    about: dict[str, Any],
    console: Console,
) -> None:
    """What was left out, what went wrong, and how many points were recounted."""
    for text in skipped:
        console.print(f"not measured: {text}", style="yellow", markup=False, highlight=False)
    for problem in problems:
        console.print(problem, style="red", markup=False, highlight=False)
    marks = [point.verified for point in points if point.verified is not None]
    console.print(
        f"{len(points)} points in {about['seconds']} s, {sum(marks)} of {len(marks)} recounted points agree"
    )


def print_targets(lines: Iterable[Target], about: dict[str, Any], measured: str, console: Console) -> None:
    """What was to be reached, and a warning where ``measured`` cannot be relied on."""
    table = Table("target", "to reach", "measured", "reached", title="Targets")
    for line in lines:
        mark = {True: "[green]yes[/]", False: "[red]no[/]", None: "not measured"}[line.reached]
        table.add_row(line.name, line.target, line.measured, mark)
    console.print(table)
    if about["load_before"] > BUSY * about["cores"]:
        console.print(
            f"[yellow]The machine was busy (load {about['load_before']} on {about['cores']} cores before the run): "
            f"{measured} are not to be relied on.[/]"
        )


def write_json(outcome: EngineOutcome, about: dict[str, Any], path: Path) -> None:
    """Everything measured, as JSON."""
    content = {
        "machine": about,
        "targets": [asdict(line) for line in targets(outcome)],
        "points": [{**asdict(point), "rate": point.rate} for point in outcome.points],
        "sort_limit": outcome.limits,
        "index_bytes_over_16_a_row": outcome.index_bytes,
        "memory": outcome.memory,
        "start": outcome.start,
        "problems": outcome.problems,
    }
    write_figures(content, path)


def write_figures(content: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def _print_rates(outcome: EngineOutcome, group: str, title: str, console: Console) -> None:
    points = [point for point in outcome.points if point.group == group]
    batches = sorted({point.batch for point in points})
    table = Table(
        "workload", "window", "index", "result", *(f"batch {short(b)}" for b in batches), title=title
    )
    rows: dict[tuple[str, int, str, str], dict[int, Point]] = {}
    for point in points:
        rows.setdefault((point.workload, point.window, point.joiner, point.result), {})[point.batch] = point
    for (work, window, joiner, result), found in rows.items():
        cells = [_cell(found.get(batch)) for batch in batches]
        table.add_row(work, short(window), joiner, result, *cells)
    if points:
        console.print(table)
    if any(point.note for point in points):
        console.print(
            "~ timed with fewer rows a push, against one filled window (cost is linear in the probing rows)"
        )


def _cell(point: Point | None) -> str:
    if point is None:
        return ""
    return ("~" if point.note else "") + rate_text(point.rate)


def _print_peers(outcome: EngineOutcome, console: Console) -> None:
    table = Table(
        "workload", "window", "batch", "peer", "peer's rate", "ours (auto)", "ratio", title="Beside the peers"
    )
    for point in outcome.points:
        if point.group != "peers":
            continue
        window = MILLION if point.joiner.startswith("Pathway") else point.window
        wanted = {
            "group": "sweep",
            "workload": point.workload,
            "joiner": "auto",
            "window": window,
            "batch": point.batch,
        }
        ours = find(outcome.points, **wanted)
        ratio = "" if ours is None else f"{ours.rate / point.rate:,.0f}x"
        shown = "" if ours is None else rate_text(ours.rate)
        row = (short(point.window), short(point.batch), point.joiner, rate_text(point.rate), shown, ratio)
        table.add_row(point.workload, *row)
    if table.row_count:
        console.print(table)


def _print_latency(outcome: EngineOutcome, console: Console) -> None:
    table = Table(
        "index", "pushes/s", "p50 µs", "p99 µs", "p99.9 µs", "max µs", title="One row a push, window 1M"
    )
    for point in outcome.points:
        if point.group == "latency":
            parts = (f"{point.latency[name]:.0f}" for name in ("p50", "p99", "p99.9", "max"))
            table.add_row(point.joiner, rate_text(point.pushes / point.seconds), *parts)
    if table.row_count:
        console.print(table)


def _print_start(outcome: EngineOutcome, console: Console) -> None:
    if not outcome.start:
        return
    table = Table(
        "",
        "start and import s",
        *(f"{name} s" for name in outcome.start["cold"]["first"]),
        title="First pushes of an index",
    )
    for name, title in (("cold", "compiling"), ("warm", "from the disk cache")):
        found = outcome.start[name]
        table.add_row(
            title, f"{found['import']:.2f}", *(f"{seconds:.2f}" for seconds in found["first"].values())
        )
    console.print(table)
    ratios = ", ".join(f"{index} {ratio:.2f}x" for index, ratio in outcome.index_bytes.items())
    if ratios:
        console.print(f"Index bytes over keys and arrival numbers (16 bytes a row), window 1M: {ratios}")


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
