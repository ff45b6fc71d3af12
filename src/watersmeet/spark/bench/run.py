"""The run of ``watersmeet bench spark``: every system, one after the other, each in a process of its own; then the report.

The run fails where systems that compute the same thing have not found the same in every batch that both have done.
"""

import json as texts
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from watersmeet.bench.report import machine
from watersmeet.bench.targets import rate_text
from watersmeet.looks import wide_console
from watersmeet.spark.bench.hosted_report import (
    HostedRun,
    hosted_loads,
    hosted_targets,
    hosted_wrong,
    print_hosted,
    run_hosted,
)
from watersmeet.spark.bench.kafka_report import KafkaRun, loads, missing, plain, print_kafka, run_load
from watersmeet.spark.bench.report import Run, Runs, disagreements, plot, print_run, targets, write_json
from watersmeet.spark.bench.schedule import SMALL, Scale, settings
from watersmeet.spark.bench.systems import SYSTEMS, Setting

TO_END = 240  # seconds that a process has to start and to stop


def bench_spark(
    *,
    quick: bool,
    cores: int,
    json: Path | None = None,
    plots: Path | None = None,
    console: Console | None = None,
    systems: tuple[str, ...] = tuple(SYSTEMS),
    kafka: bool = True,
    hosted: bool = True,
) -> bool:
    """Measure everything; True iff all of ours ran and every count agreed."""
    console = console or wide_console()
    scale, begin = Scale.of(quick), time.perf_counter()
    about = machine(cores)
    shown = f"{scale.rows:,} rows a side in the windows"
    console.print(
        f"[bold]watersmeet bench spark[/] {'--quick' if quick else ''} on {about['cpu']}, {cores} cores: {shown}"
    )
    runs: Runs = {}
    for setting in settings(scale, cores, systems):
        name = setting.system
        with console.status(f"{SYSTEMS[name].title} ..."):
            runs[name] = run_system(setting, scale.warm)
        console.print(_line(runs[name], scale), highlight=False, soft_wrap=True)
    queries = _hosted(quick, cores, console) if hosted else []
    without, from_kafka = _kafka(quick, cores, console) if kafka else ("not asked for", [])
    about["seconds"] = round(time.perf_counter() - begin, 1)
    wrong = [*disagreements(runs), *hosted_wrong(queries)]
    problems = [*wrong, *(f"{run.title}: {run.problem}" for run in runs.values() if run.problem)]
    reached = [*targets(runs, scale), *(hosted_targets(queries) if hosted else [])]
    print_run(runs, scale, reached, problems, about, console)
    if queries:
        print_hosted(queries, console)
    if from_kafka:
        print_kafka(from_kafka, console)
    if json is not None:
        write_json(json, about, scale, runs, reached, problems, plain(from_kafka, without), queries)
        console.print(f"all figures: {json}", markup=False)
    if plots is not None:
        console.print(f"plot: {plot(runs, scale, plots)}", markup=False)
    broken = any(run.problem for run in runs.values() if SYSTEMS[run.name].ours)
    broken = broken or any(run.problem for run in queries if run.load.system == "host")
    return not wrong and not broken and not any(run.wrong or run.problem for run in from_kafka)


def _hosted(quick: bool, cores: int, console: Console) -> list[HostedRun]:
    found = []
    for load in hosted_loads(quick, cores):
        with console.status(f"{load.queries} queries, {load.system} ..."):
            found.append(run_hosted(load))
    return found


def _kafka(quick: bool, cores: int, console: Console) -> tuple[str, list[KafkaRun]]:
    """What is missing, and every rate if nothing is."""
    without = missing()
    if without:
        console.print(f"Kafka is left out: {escape(without)}", highlight=False, soft_wrap=True)
        return without, []
    found = []
    for load in loads(quick, cores):
        with console.status(f"Kafka, {load.rate:,} rows/s ..."):
            found.append(run_load(load))
    return "", found


def run_system(setting: Setting, warm: float) -> Run:
    """One system in a process of its own."""
    name, most = setting.system, setting.timeout + TO_END
    command = [sys.executable, "-m", "watersmeet.spark.bench.systems", texts.dumps(asdict(setting))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=most, check=False)
    except subprocess.TimeoutExpired:
        return Run(name, problem=f"not done after {most:.0f} s")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return Run(name, problem=f"ended with code {done.returncode}: {done.stderr.strip()[-1500:]}")
    found = texts.loads(lines[-1])
    run = Run(name, found["batches"], found["filling"], warm, found["failed"], found["first"])
    if not run.problem and len(run.batches) < len(setting.sizes):
        run.problem = f"only {len(run.batches)} of {len(setting.sizes)} batches in {setting.timeout:.0f} s"
    return run


def _line(run: Run, scale: Scale) -> str:
    rates = [(size, run.rate(size)) for size in (*scale.sizes, SMALL)]
    shown = [
        f"[bold]{rate_text(rate)}[/]/s at {size:,} rows a batch" for size, rate in rates if rate is not None
    ]
    trouble = [f"[red]{escape(run.problem)}[/]"] if run.problem else []
    return f"{run.title}: {'; '.join([*shown, *trouble])} ({len(run.batches)} batches)"
