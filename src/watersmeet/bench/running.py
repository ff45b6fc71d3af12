"""Running the cases of a benchmark: heading, live progress, what each case gave; then the report, JSON and plots.

What stays true: a case that fails is reported and the run goes on.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from watersmeet.bench.cases import short
from watersmeet.bench.measure import Case, Point
from watersmeet.bench.report import machine
from watersmeet.bench.targets import rate_text
from watersmeet.looks import wide_console


class Titled(Protocol):
    """A case of any benchmark."""

    @property
    def title(self) -> str: ...


class Reported(Protocol):
    """What a run has measured, with what went wrong."""

    problems: list[str]


C = TypeVar("C", bound=Titled)
P = TypeVar("P")
R = TypeVar("R", bound=Reported)


@dataclass(frozen=True)
class Report(Generic[R]):
    """How the outcome of a benchmark is shown, kept and, if it has plots, drawn."""

    show: Callable[[R, dict[str, Any], Console], None]
    write: Callable[[R, dict[str, Any], Path], None]
    draw: Callable[[R, Path], Sequence[Path]] | None = None


@dataclass(frozen=True)
class Run:
    """What a user asks of any benchmark."""

    name: str
    quick: bool
    cores: int
    json: Path | None = None
    plots: Path | None = None
    console: Console | None = None

    def measure(
        self,
        outcome: R,
        stages: Iterable[Sequence[C]],
        run_one: Callable[[C, Console], None],
        report: Report[R],
    ) -> None:
        """Run all cases, which add to ``outcome``. A stage is asked for when those before it have run."""
        console, begin, about = self.console or wide_console(), time.perf_counter(), machine(self.cores)
        console.print(
            f"[bold]watersmeet bench {self.name}[/] {'--quick' if self.quick else ''} on {escape(about['cpu'])}, {self.cores} cores"
        )
        _with_progress(stages, run_one, console)
        about["seconds"] = round(time.perf_counter() - begin, 1)
        report.show(outcome, about, console)
        if self.json is not None:
            report.write(outcome, about, self.json)
            console.print(f"all figures: {self.json}", markup=False, highlight=False, soft_wrap=True)
        if self.plots is not None and report.draw is not None:
            files = ", ".join(str(path) for path in report.draw(outcome, self.plots))
            console.print(f"plots: {files}", markup=False, highlight=False, soft_wrap=True)


def _with_progress(
    stages: Iterable[Sequence[C]], run_one: Callable[[C, Console], None], console: Console
) -> None:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task, total = progress.add_task("", total=None), 0
        for cases in stages:
            total += len(cases)
            progress.update(task, total=total)
            for case in cases:
                progress.update(task, description=case.title[:60])
                run_one(case, progress.console)
                progress.advance(task)


def run_case(case: Case[P, R], plan: P, outcome: R, console: Console) -> None:
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


def ours_ran(outcome: Reported) -> bool:
    """Whether all of our own cases ran and every recount agreed."""
    return not any(problem.startswith("ours") for problem in outcome.problems)


def _shown(point: Point) -> str:
    mark = " WRONG COUNT" if point.verified is False else ""
    return f"[dim]{short(point.batch)}:[/] [bold]{rate_text(point.rate)}[/]/s{mark}"
