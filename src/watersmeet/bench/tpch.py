"""``watersmeet bench tpch``: Q1 and Q3 over live rows in four orders of arrival, beside DuckDB's one-shot query.

What stays true: one run measures ours and DuckDB in turns, and the best of each counts; an answer that differs from DuckDB's is a
problem, reaches no target and makes the exit unclean.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from watersmeet.bench.measure import Case, Point
from watersmeet.bench.report import print_end, print_targets, write_figures
from watersmeet.bench.running import Report, Run, ours_ran, run_case
from watersmeet.bench.targets import Target, find, rate_text
from watersmeet.bench.tpch_data import ORDERS, Tables, cache_folder, pushes, tables
from watersmeet.bench.tpch_queries import QUERIES, OneShot, same, streamed

MOST = {"Q1": 2.0, "Q3": 4.0}  # times DuckDB's time


@dataclass(frozen=True)
class TpchPlan:
    """What is measured: ``rounds`` runs of each, after one that is not timed."""

    sf: float
    cores: int
    rounds: int
    data: Path
    batch: int = 1 << 16


@dataclass
class TpchOutcome:
    """Everything measured so far."""

    plan: TpchPlan
    points: list[Point] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


TpchCase = Case[TpchPlan, TpchOutcome]


def bench_tpch(
    *,
    sf: float,
    quick: bool,
    cores: int,
    data: Path | None = None,
    json: Path | None = None,
    console: Console | None = None,
) -> bool:
    """Measure everything; True iff all of our cases ran and every answer was DuckDB's."""
    plan = TpchPlan(sf, cores, 1 if quick else 3, data or cache_folder())
    found = tables(sf, plan.data)
    outcome, peer = TpchOutcome(plan), OneShot(found, cores)
    Run("tpch", quick, cores, json, None, console).measure(
        outcome,
        [list(tpch_cases(found, peer))],
        lambda case, shown: run_case(case, plan, outcome, shown),
        Report(print_tpch, write_tpch),
    )
    peer.close()
    return ours_ran(outcome)


def tpch_cases(found: Tables, peer: OneShot) -> Iterator[TpchCase]:
    """Each query in each order."""
    for name in QUERIES:
        for order in ORDERS:
            yield _case(name, order, found, peer)


def _case(name: str, order: str, found: Tables, peer: OneShot) -> TpchCase:
    def measure(plan: TpchPlan, outcome: TpchOutcome) -> list[Point]:
        dealt = list(pushes(found, order, plan.batch))
        streamed(name, found, dealt, plan.cores)  # compiles
        peer.answer(name)
        ours: list[tuple[pa.Table, float]] = []
        theirs: list[tuple[pa.Table, float]] = []
        for _ in range(plan.rounds):
            ours.append(streamed(name, found, dealt, plan.cores))
            theirs.append(peer.answer(name))
        right = all(same(answer, theirs[0][0]) for answer, _ in ours)
        rows = sum(len(table) for table in found.values())
        points = [
            _point(name, order, "ours", plan, rows, len(dealt), ours, right),
            _point(name, order, "DuckDB", plan, rows, 1, theirs, None),
        ]
        outcome.points += points
        return points

    return Case(f"{name}, {order}", measure)


def _point(
    name: str,
    order: str,
    joiner: str,
    plan: TpchPlan,
    rows: int,
    pushed: int,
    runs: list[tuple[pa.Table, float]],
    right: bool | None,
) -> Point:
    return Point(
        group=name,
        workload=order,
        joiner=joiner,
        window=rows,
        batch=plan.batch if joiner == "ours" else rows,
        result="complete",
        rows=rows,
        seconds=min(seconds for _, seconds in runs),
        pushes=pushed,
        results=len(runs[0][0]),
        verified=right,
    )


def print_tpch(outcome: TpchOutcome, about: dict[str, Any], console: Console) -> None:
    """Times and ratios, then the targets."""
    plan = outcome.plan
    console.print(
        f"\nSeconds to the final answer at scale factor {plan.sf:g}: {plan.batch:,} rows of all streams a push, each of which gives the"
        " answer so far; DuckDB has all rows in its own tables before its clock starts."
    )
    table = Table("query", "order of arrival", "ours, s", "DuckDB, s", "ratio", "our rows/s", title="TPC-H")
    for name, order, ours, peer in _pairs(outcome):
        cells = f"{ours.seconds:.3f}", f"{peer.seconds:.3f}", f"{ours.seconds / peer.seconds:.1f}x"
        table.add_row(name, order, *cells, rate_text(ours.rate) + ("" if ours.verified else " WRONG ANSWER"))
    console.print(table)
    print_targets(tpch_targets(outcome), about, "times and ratios", console)
    print_end(outcome.points, (), outcome.problems, about, console)


def write_tpch(outcome: TpchOutcome, about: dict[str, Any], path: Path) -> None:
    """Everything measured, as JSON."""
    content = {
        "machine": about,
        "sf": outcome.plan.sf,
        "rounds": outcome.plan.rounds,
        "targets": [asdict(line) for line in tpch_targets(outcome)],
        "points": [{**asdict(point), "rate": point.rate} for point in outcome.points],
        "problems": outcome.problems,
    }
    write_figures(content, path)


def tpch_targets(outcome: TpchOutcome) -> list[Target]:
    """A line a query: the worst order decides, and all must have been measured."""
    return [_target(outcome, name, most) for name, most in MOST.items()]


def _target(outcome: TpchOutcome, name: str, most: float) -> Target:
    title, to_reach = f"{name}, any order of arrival, over DuckDB's one-shot query", f"≤ {most:g}x"
    pairs = [(order, ours, peer) for query, order, ours, peer in _pairs(outcome) if query == name]
    if len(pairs) < len(ORDERS):
        return Target(title, to_reach, "", None)
    ratios = {order: ours.seconds / peer.seconds for order, ours, peer in pairs}
    worst = max(ratios, key=lambda order: ratios[order])
    right = all(ours.verified for _, ours, _ in pairs)
    text = f"{min(ratios.values()):.1f}x to {ratios[worst]:.1f}x ({worst})" + (
        "" if right else ", WRONG ANSWER"
    )
    return Target(title, to_reach, text, right and ratios[worst] <= most)


def _pairs(outcome: TpchOutcome) -> Iterator[tuple[str, str, Point, Point]]:
    for name in QUERIES:
        for order in ORDERS:
            ours, peer = (
                find(outcome.points, group=name, workload=order, joiner=joiner)
                for joiner in ("ours", "DuckDB")
            )
            if ours is not None and peer is not None:
                yield name, order, ours, peer
