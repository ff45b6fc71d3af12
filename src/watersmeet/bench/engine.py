"""``watersmeet bench engine``: every case with live progress, then tables, targets, JSON and plots.

What stays true: one run measures ours, the peers and the limit on the same machine at the same load; a case
that fails is reported and the run goes on; the exit is unclean iff one of our own counts was wrong or one
of our own cases failed.
"""

import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from watersmeet.bench.cases import PEERS, Case, Outcome, Plan, cases, short
from watersmeet.bench.measure import Point, isolated
from watersmeet.bench.memory import growth
from watersmeet.bench.report import machine, print_report, write_json
from watersmeet.bench.targets import rate_text
from watersmeet.looks import wide_console

INDEXES = ("bi_sort", "rap_table", "wib_tree", "hash", "grid", "scan", "auto")


def bench_engine(
    *,
    quick: bool,
    cores: int,
    json: Path | None = None,
    plots: Path | None = None,
    console: Console | None = None,
) -> bool:
    """Measure everything; True iff all of our own cases ran and every recount agreed."""
    console = console or wide_console()
    plan, outcome, begin = Plan.of(quick, cores), Outcome(), time.perf_counter()
    about = machine(cores)
    console.print(
        f"[bold]watersmeet bench engine[/] {'--quick' if quick else ''} on {escape(about['cpu'])}, {cores} cores"
    )
    work = [*_others(plan), *cases(plan)]
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(work))
        for case in work:
            progress.update(task, description=case.title[:60])
            _run_case(case, plan, outcome, progress.console)
            progress.advance(task)
    about["seconds"] = round(time.perf_counter() - begin, 1)
    print_report(outcome, about, console)
    if json is not None:
        write_json(outcome, about, json)
        console.print(f"all figures: {json}", markup=False, highlight=False, soft_wrap=True)
    if plots is not None:
        from watersmeet.bench.plots import write_plots

        files = ", ".join(str(path) for path in write_plots(outcome, plots))
        console.print(f"plots: {files}", markup=False, highlight=False, soft_wrap=True)
    return not any(problem.startswith("ours") for problem in outcome.problems)


def _run_case(case: Case, plan: Plan, outcome: Outcome, console: Console) -> None:
    whose = "peer" if any(peer in case.title for peer in (*PEERS, "Pathway")) else "ours"
    try:
        found = case.measure(plan, outcome)
    except Exception as error:  # a failed case must not lose the others' results
        outcome.problems.append(f"{whose}: {case.title}: {type(error).__name__}: {error}")
        console.print(
            f"{case.title}: {type(error).__name__}: {error}", style="red", markup=False, highlight=False
        )
        return
    if isinstance(found, str):
        console.print(f"{case.title}: {found}", markup=False, highlight=False)
        return
    wrong = [point for point in found if point.verified is False]
    for point in wrong:
        outcome.problems.append(
            f"{whose}: {case.title}: batch {point.batch}: the count differs from the recount"
        )
    shown = "  ".join(_shown(point) for point in found)
    console.print(f"{case.title}: {shown}", highlight=False, soft_wrap=True, style="red" if wrong else None)


def _shown(point: Point) -> str:
    mark = " WRONG COUNT" if point.verified is False else ""
    return f"[dim]{short(point.batch)}:[/] [bold]{rate_text(point.rate)}[/]/s{mark}"


def _others(plan: Plan) -> list[Case]:
    return [
        Case("first call: compilation, then from the cache", _start),
        Case("memory over 100 window lengths", _memory),
        Case("band, selectivity 1 · Pathway interval_join", _pathway),
    ]


def _start(plan: Plan, outcome: Outcome) -> str:
    indexes = ("bi_sort",) if plan.quick else INDEXES
    with tempfile.TemporaryDirectory() as cache:
        for name in ("cold", "warm"):
            arguments = repr(time.time()), *indexes
            outcome.start[name] = isolated(
                "cold_start", *arguments, timeout=600, environment={"NUMBA_CACHE_DIR": cache}
            )
    return ", ".join(f"{name} {sum(found['first'].values()):.1f} s" for name, found in outcome.start.items())


def _memory(plan: Plan, outcome: Outcome) -> str:
    for index in ("bi_sort",) if plan.quick else ("bi_sort", "rap_table", "wib_tree", "auto"):
        found = isolated("memory", index, str(1 << 15), "100", timeout=300)
        found["growth"] = max(growth(found["resident"]), growth(found["state"]))
        outcome.memory.append(found)
    return ", ".join(f"{run['index']} {run['growth']:+.2%}" for run in outcome.memory)


def _pathway(plan: Plan, outcome: Outcome) -> list[Point]:
    rows, batch = (65_536, 16_384) if plan.quick else (262_144, 32_768)
    found = isolated("pathway_peer", str(rows), str(batch), timeout=300)
    total, alone = found["seconds"], found["seconds"] - found["ingest_seconds"]
    if total <= 0:
        raise RuntimeError(
            "the larger run was not the slower one: too much else is running to measure Pathway"
        )
    timed = {"Pathway": total}
    if alone > 0.1 * total:  # below that the difference of two runs says nothing
        timed["Pathway, without its ingest"] = alone
    points = [
        Point(
            group="peers",
            workload="band-1",
            joiner=name,
            window=rows,
            batch=32_768,
            result="pairs",
            rows=found["rows"],
            seconds=seconds,
            pushes=found["rows"] // batch,
            results=found["results"],
            verified=found["results"] == found["expected"],
            note=f"everything kept, {rows:,} rows a side in steps of {batch:,}; results are those of the check",
        )
        for name, seconds in timed.items()
    ]
    outcome.points.extend(points)
    return points
