"""``watersmeet bench users``: the joins that users bring, every case with live progress; tables, targets, JSON and plots.

What stays true: one run measures ours and the peers on the same machine at the same load; the exit is unclean iff one of our own counts
was wrong or one of our own cases failed.
"""

from pathlib import Path

from rich.console import Console

from watersmeet.bench.running import Report, Run, ours_ran, run_case
from watersmeet.bench.users_cases import UsersOutcome, UsersPlan, users_cases
from watersmeet.bench.users_plots import write_users_plots
from watersmeet.bench.users_report import print_users, write_users

REPORT = Report(print_users, write_users, write_users_plots)


def bench_users(
    *,
    quick: bool,
    cores: int,
    json: Path | None = None,
    plots: Path | None = None,
    console: Console | None = None,
    plan: UsersPlan | None = None,
) -> bool:
    """Measure everything; True iff all of our own cases ran and every recount agreed."""
    wanted = plan or UsersPlan.of(quick, cores)
    outcome = UsersOutcome(wanted)
    Run("users", quick, cores, json, plots, console).measure(
        outcome,
        [list(users_cases(wanted))],
        lambda case, shown: run_case(case, wanted, outcome, shown),
        REPORT,
    )
    return ours_ran(outcome)
