"""``watersmeet bench multiway``: joins of many streams, every case with live progress; tables, targets, JSON and plots.

What stays true: one run measures ours, the chain of two-way joins and the peers on the same machine at the same load; the exit is
unclean iff one of our own counts was wrong or one of our own cases failed.
"""

from pathlib import Path

from rich.console import Console

from watersmeet.bench.multiway_cases import MultiwayOutcome, MultiwayPlan, multiway_cases
from watersmeet.bench.multiway_plots import write_multiway_plots
from watersmeet.bench.multiway_report import print_multiway, write_multiway
from watersmeet.bench.running import Report, Run, ours_ran, run_case

REPORT = Report(print_multiway, write_multiway, write_multiway_plots)


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
    wanted, outcome = plan or MultiwayPlan.of(quick, cores), MultiwayOutcome()
    Run("multiway", quick, cores, json, plots, console).measure(
        outcome,
        [list(multiway_cases(wanted))],
        lambda case, shown: run_case(case, wanted, outcome, shown),
        REPORT,
    )
    return ours_ran(outcome)
