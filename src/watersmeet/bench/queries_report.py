"""What a run of ``bench queries`` has shown: a table a part of the issue, the targets, and JSON.

What stays true: every figure in a table is in the JSON, with the machine and the versions it was measured on.
"""

from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from watersmeet.bench.measure import Point
from watersmeet.bench.queries_bands import AGGREGATE
from watersmeet.bench.queries_groups import OURS
from watersmeet.bench.queries_many import MANY, ONE
from watersmeet.bench.queries_plan import QueriesOutcome
from watersmeet.bench.queries_targets import delays, queries_targets
from watersmeet.bench.report import print_end, print_targets, write_figures
from watersmeet.bench.targets import rate_text

FIRST = {"queries": ONE, "rules": ONE, "bands": AGGREGATE, "groups": OURS}  # what the others stand beside


def print_queries(outcome: QueriesOutcome, about: dict[str, Any], console: Console) -> None:
    """All tables, then the targets, what was left out and what went wrong."""
    plan = outcome.plan
    console.print(
        "\nRates are rows a second, of all streams together, whatever the number of queries; every result is gathered as Arrow data."
        f" Load before the run: {about['load_before']} on {about['cores']} cores."
    )
    each = "of each stream a push"
    shown = {
        "queries": ("Queries over the same two streams", f"{plan.window:,} rows a window, {plan.batch:,} {each}"),
        "rules": ("Rules on one stream", f"{plan.rule_batch:,} rows a push"),
        "bands": ("Count and sum over a band join", f"{plan.band_window:,} rows a window, {plan.band_batch:,} {each}"),
        "groups": ("Aggregates in windows", f"{plan.second:,} rows a window, {plan.group_batch:,} a push"),
    }  # fmt: skip
    for group, (title, sizes) in shown.items():
        _print_rates(outcome, group, f"{title}: {sizes}", console)
    _print_held(outcome, console)
    _print_told(outcome, console)
    print_targets(queries_targets(outcome), about, "rates and times", console)
    print_end(outcome.points, outcome.skipped, outcome.problems, about, console)


def write_queries(outcome: QueriesOutcome, about: dict[str, Any], path: Path) -> None:
    """Everything measured, as JSON."""
    told = [
        {**asdict(one), "median": median(one.spent), "worst": max(one.spent), "delays": delays(outcome, one)}
        for one in outcome.told
    ]
    content = {
        "machine": about,
        "targets": [asdict(line) for line in queries_targets(outcome)],
        "points": [{**asdict(point), "rate": point.rate} for point in outcome.points],
        "bytes": outcome.held,
        "statements_ms": told,
        "pushes_without_statement_ms": outcome.plain,
        "restarts_ms": outcome.restarts,
        "not_measured": outcome.skipped,
        "problems": outcome.problems,
    }
    write_figures(content, path)


def _print_rates(outcome: QueriesOutcome, group: str, title: str, console: Console) -> None:
    """A row a workload, a column a joiner, and how many times faster ours is."""
    points = [point for point in outcome.points if point.group == group]
    joiners = list(dict.fromkeys([FIRST[group], *(point.joiner for point in points)]))
    others = joiners[1:]
    table = Table("", *joiners, *(f"over {joiner}" for joiner in others), title=title)
    for name in dict.fromkeys(point.workload for point in points):
        found = {point.joiner: point for point in points if point.workload == name}
        ours = found.get(FIRST[group])
        rates = [_cell(found.get(joiner)) for joiner in joiners]
        table.add_row(_shown(name), *rates, *(_ratio(ours, found.get(joiner)) for joiner in others))
    if points:
        console.print(table)
    for note in dict.fromkeys(f"{p.joiner}: {p.note}" for p in points if p.note):
        console.print(f"~ {note}", markup=False, highlight=False)


UNITS = {"queries": "queries", "rules": "rules", "band": "matches a row"}


def _shown(workload: str) -> str:
    kind, number = workload.rsplit("-", 1)
    return f"{int(number):,} {UNITS[kind]}" if kind in UNITS else f"{kind}, {int(number):,} groups"


def _cell(point: Point | None) -> str:
    if point is None:
        return ""
    wrong = " WRONG COUNT" if point.verified is False else ""
    return ("~" if point.note else "") + rate_text(point.rate) + wrong


def _ratio(ours: Point | None, other: Point | None) -> str:
    return "" if ours is None or other is None else f"{ours.rate / other.rate:,.1f}x"


def _print_held(outcome: QueriesOutcome, console: Console) -> None:
    table = Table(
        "queries", "one processor, rows MB", "indexes MB", "as many, rows MB", "indexes MB", title="Bytes stored"
    )  # fmt: skip
    held = {(run["queries"], run["joiner"]): run for run in outcome.held if run["group"] == "queries"}
    for count in dict.fromkeys(queries for queries, _ in held):
        cells = []
        for joiner in (ONE, MANY):
            run = held.get((count, joiner))
            parts = ("payload_bytes", "index_bytes")
            cells += ["", ""] if run is None else [f"{run[part] / 1e6:,.2f}" for part in parts]
        table.add_row(f"{count:,}", *cells)
    if held:
        console.print(table)


def _print_told(outcome: QueriesOutcome, console: Console) -> None:
    if not outcome.told:
        return
    table = Table(
        "statement", "median ms", "worst ms", "of CPU, median ms", "next push, median ms", "worst ms", "delay, median ms",
        title="Statements under load",
    )  # fmt: skip
    for told in outcome.told:
        figures = (
            median(told.spent), max(told.spent), median(told.worked), median(told.next_push), max(told.next_push),
            median(delays(outcome, told)),
        )  # fmt: skip
        wrong = "" if told.verified else " WRONG COUNT"
        table.add_row(told.kind + wrong, *(f"{figure:.1f}" for figure in figures))
    console.print(table)
    plain = outcome.plain
    console.print(
        f"A push that no statement came before: median {median(plain):.1f} ms, worst {max(plain):.1f} ms."
        + (
            f" Restart with one more query, windows filled by one push: median {median(outcome.restarts):,.0f} ms,"
            " without the start of Python."
            if outcome.restarts
            else ""
        ),
        highlight=False,
    )
