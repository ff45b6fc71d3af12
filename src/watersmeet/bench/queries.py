"""``watersmeet bench queries``: many queries, rules, aggregates over joins and in windows, statements under load.

What stays true: one run measures ours and the peers on the same machine at the same load; the exit is unclean iff one of our own counts
was wrong or one of our own cases failed.
"""

from pathlib import Path

from rich.console import Console

from watersmeet.bench.queries_bands import band_cases
from watersmeet.bench.queries_groups import group_cases
from watersmeet.bench.queries_many import many_cases
from watersmeet.bench.queries_plan import QueriesCase, QueriesOutcome, QueriesPlan
from watersmeet.bench.queries_plots import write_queries_plots
from watersmeet.bench.queries_report import print_queries, write_queries
from watersmeet.bench.queries_statements import statement_cases
from watersmeet.bench.running import Report, Run, ours_ran, run_case

REPORT = Report(print_queries, write_queries, write_queries_plots)


def queries_cases(plan: QueriesPlan) -> list[QueriesCase]:
    """All cases, in the issue's order."""
    return [*many_cases(plan), *band_cases(plan), *group_cases(plan), *statement_cases(plan)]


def bench_queries(
    *,
    quick: bool,
    cores: int,
    json: Path | None = None,
    plots: Path | None = None,
    console: Console | None = None,
    plan: QueriesPlan | None = None,
) -> bool:
    """Measure everything; True iff all of our own cases ran and every recount agreed."""
    wanted = plan or QueriesPlan.of(quick, cores)
    outcome = QueriesOutcome(wanted)
    Run("queries", quick, cores, json, plots, console).measure(
        outcome,
        [queries_cases(wanted)],
        lambda case, shown: run_case(case, wanted, outcome, shown),
        REPORT,
    )
    return ours_ran(outcome)
