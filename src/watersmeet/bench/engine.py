"""``watersmeet bench engine``: every case with live progress, then tables, targets, JSON and plots.

What stays true: one run measures ours, the peers and the limit on the same machine at the same load; the exit
is unclean iff one of our own counts was wrong or one of our own cases failed.
"""

import tempfile
import time
from pathlib import Path

from rich.console import Console

from watersmeet.bench.cases import EngineCase, EngineOutcome, EnginePlan, cases
from watersmeet.bench.measure import Case, Point, isolated
from watersmeet.bench.memory import growth
from watersmeet.bench.plots import write_plots
from watersmeet.bench.report import print_report, write_json
from watersmeet.bench.running import Report, Run, ours_ran, run_case

REPORT = Report(print_report, write_json, write_plots)
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
    plan, outcome = EnginePlan.of(quick, cores), EngineOutcome()
    Run("engine", quick, cores, json, plots, console).measure(
        outcome,
        [[*OTHERS, *cases(plan)]],
        lambda case, shown: run_case(case, plan, outcome, shown),
        REPORT,
    )
    return ours_ran(outcome)


def _start(plan: EnginePlan, outcome: EngineOutcome) -> str:
    indexes = ("bi_sort",) if plan.quick else INDEXES
    with tempfile.TemporaryDirectory() as cache:
        for name in ("cold", "warm"):
            arguments = repr(time.time()), *indexes
            outcome.start[name] = isolated(
                "cold_start", *arguments, timeout=600, environment={"NUMBA_CACHE_DIR": cache}
            )
    return ", ".join(f"{name} {sum(found['first'].values()):.1f} s" for name, found in outcome.start.items())


def _memory(plan: EnginePlan, outcome: EngineOutcome) -> str:
    for index in ("bi_sort",) if plan.quick else ("bi_sort", "rap_table", "wib_tree", "auto"):
        found = isolated("memory", index, str(1 << 15), "100", timeout=300)
        found["growth"] = max(growth(found["resident"]), growth(found["state"]))
        outcome.memory.append(found)
    return ", ".join(f"{run['index']} {run['growth']:+.2%}" for run in outcome.memory)


def _pathway(plan: EnginePlan, outcome: EngineOutcome) -> list[Point]:
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


OTHERS: tuple[EngineCase, ...] = (
    Case("first call: compilation, then from the cache", _start),
    Case("memory over 100 window lengths", _memory),
    Case("band, selectivity 1 · Pathway interval_join", _pathway, "peer"),
)
