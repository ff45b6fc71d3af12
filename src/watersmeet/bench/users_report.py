"""What a run of ``bench users`` has shown: rates over the rows a push, ratios to the peers, the targets, and JSON.

What stays true: every figure in a table is in the JSON, with the machine and the versions it was measured on.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from watersmeet.bench.measure import Point
from watersmeet.bench.report import print_end, print_targets, write_figures
from watersmeet.bench.targets import find, rate_text
from watersmeet.bench.users_cases import COMPARED, UsersOutcome, compared
from watersmeet.bench.users_targets import pair_points, users_targets


def print_users(outcome: UsersOutcome, about: dict[str, Any], console: Console) -> None:
    """All tables, then the targets, what was left out and what went wrong."""
    console.print(
        "\nRates are rows a second, both streams together; a push carries so many rows of each stream,"
        " and its results are gathered as Arrow data."
    )
    _print_rates(outcome, console)
    _print_ratios(outcome, console)
    _print_pairs(outcome, console)
    print_targets(users_targets(outcome), about, "rates and ratios", console)
    print_end(outcome.points, outcome.skipped, outcome.problems, about, console)


def write_users(outcome: UsersOutcome, about: dict[str, Any], path: Path) -> None:
    """Everything measured, as JSON."""
    content = {
        "machine": about,
        "targets": [asdict(line) for line in users_targets(outcome)],
        "points": [_figures(outcome, point) for point in outcome.points],
        "not_measured": outcome.skipped,
        "problems": outcome.problems,
    }
    write_figures(content, path)


def _figures(outcome: UsersOutcome, point: Point) -> dict[str, Any]:
    work = outcome.works[point.workload]
    of_work = {
        "title": work.title,
        "condition": work.condition,
        "how": work.how,
        "window_seconds": work.seconds,
        "expected_results_a_row": work.selectivity,
    }
    return {**asdict(point), "rate": point.rate, "pushes_a_second": point.pushes / point.seconds, **of_work}


def _print_rates(outcome: UsersOutcome, console: Console) -> None:
    points = [point for point in outcome.points if point.group == "users" and point.joiner != "Pathway"]
    pushes = sorted({point.batch for point in points})
    table = Table(
        "workload", "results a row", "", *(f"{rows:,} a push" for rows in pushes), title="Rows a second"
    )
    rows: dict[tuple[str, str], dict[int, Point]] = {}
    for point in points:
        rows.setdefault((point.workload, point.joiner), {})[point.batch] = point
    for (name, joiner), found in rows.items():
        work = outcome.works[name]
        cells = [_cell(found.get(batch)) for batch in pushes]
        shown = (work.title, f"{work.selectivity:.3g}") if joiner == "ours" else ("", "")
        table.add_row(*shown, joiner, *cells)
    if points:
        console.print(table)


def _cell(point: Point | None) -> str:
    if point is None:
        return ""
    return rate_text(point.rate) + ("" if point.verified else " WRONG COUNT")


def _print_ratios(outcome: UsersOutcome, console: Console) -> None:
    """How many times faster ours is. Pathway has smaller windows, and stands beside the first workload of its kind."""
    table = Table("workload", "rows a push", "peer", "peer's rate", "ours", "ratio", title="Beside the peers")
    for point in outcome.points:
        if point.group == "users" and point.joiner != "ours":
            ours = beside(outcome, point)
            shown = ("", "") if ours is None else (rate_text(ours.rate), f"{ours.rate / point.rate:,.1f}x")
            title = outcome.works[point.workload].title
            table.add_row(title, f"{point.batch:,}", point.joiner, rate_text(point.rate), *shown)
    if table.row_count:
        console.print(table)
    for note in dict.fromkeys(p.note for p in outcome.points if p.joiner == "Pathway"):
        console.print(f"Pathway: {note}; ours is the one with a larger window", markup=False, highlight=False)


def beside(outcome: UsersOutcome, peer: Point) -> Point | None:
    """The point of ours that a peer's stands beside."""
    if peer.joiner != "Pathway":
        return find(outcome.points, group="users", joiner="ours", workload=peer.workload, batch=peer.batch)
    kind = outcome.works[peer.workload].kind
    ours = [p for p in outcome.points if p.group == "users" and p.joiner == "ours" and p.batch == COMPARED]
    return next((point for point in ours if outcome.works[point.workload].kind == kind), None)


def _print_pairs(outcome: UsersOutcome, console: Console) -> None:
    table = Table("", "beside", "its rate", "the other's", "share", title="Measured in turns")
    for group, pairs in compared(outcome.plan).items():
        for work, other in pairs:
            points = pair_points(outcome, group, work, other)
            if points is not None:
                rates = [point.rate for point in points]
                table.add_row(
                    work.title, other.title, *(_cell(p) for p in points), f"{rates[0] / rates[1]:.0%}"
                )
    if table.row_count:
        console.print(table)
