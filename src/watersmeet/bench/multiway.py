"""``watersmeet bench multiway``: joins of many streams, every case with live progress; tables, targets, JSON and plots.

What stays true: one run measures ours, the chain of two-way joins and the peers on the same machine at the same load; a case that
fails is reported and the run goes on; the exit is unclean iff one of our own counts was wrong or one of our own cases failed.
"""

import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from watersmeet.bench.cases import short
from watersmeet.bench.measure import Point
from watersmeet.bench.multiway_cases import MultiwayCase, MultiwayOutcome, MultiwayPlan, multiway_cases
from watersmeet.bench.multiway_report import print_multiway, write_multiway
from watersmeet.bench.report import machine
from watersmeet.bench.targets import rate_text
from watersmeet.looks import wide_console


def bench_multiway(
    *,
    quick: bool,
    cores: int,
    json: Path | None = None,
    plots: Path | None = None,
    console: Console | None = None,
    plan: MultiwayPlan | None = None,
) -> bool:
    """Measure everything; True iff all of our own cases ran and every recount agreed."""
    console = console or wide_console()
    plan = plan or MultiwayPlan.of(quick, cores)
    outcome, begin, about = MultiwayOutcome(), time.perf_counter(), machine(cores)
    console.print(
        f"[bold]watersmeet bench multiway[/] {'--quick' if quick else ''} on {escape(about['cpu'])}, {cores} cores"
    )
    cases = list(multiway_cases(plan))
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(cases))
        for case in cases:
            progress.update(task, description=case.title[:60])
            run_case(case, plan, outcome, progress.console)
            progress.advance(task)
    about["seconds"] = round(time.perf_counter() - begin, 1)
    print_multiway(outcome, about, console)
    if json is not None:
        write_multiway(outcome, about, json)
        console.print(f"all figures: {json}", markup=False, highlight=False, soft_wrap=True)
    if plots is not None:
        from watersmeet.bench.multiway_plots import write_multiway_plots

        files = ", ".join(str(path) for path in write_multiway_plots(outcome, plots))
        console.print(f"plots: {files}", markup=False, highlight=False, soft_wrap=True)
    return not any(problem.startswith("ours") for problem in outcome.problems)


def run_case(case: MultiwayCase, plan: MultiwayPlan, outcome: MultiwayOutcome, console: Console) -> None:
    """Measure one case and show what it gave."""
    try:
        found = case.measure(plan, outcome)
    except Exception as error:  # a failed case must not lose the others' results
        outcome.problems.append(f"{case.whose}: {case.title}: {type(error).__name__}: {error}")
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
            f"{case.whose}: {case.title}: batch {point.batch}: the count differs from the recount"
        )
    shown = "  ".join(_shown(point) for point in found)
    console.print(f"{case.title}: {shown}", highlight=False, soft_wrap=True, style="red" if wrong else None)


def _shown(point: Point) -> str:
    mark = " WRONG COUNT" if point.verified is False else ""
    return f"[dim]{short(point.batch)}:[/] [bold]{rate_text(point.rate)}[/]/s{mark}"
