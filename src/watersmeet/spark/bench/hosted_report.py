"""The hosted part of the Spark benchmark: each number of queries in a process of its own, ours and Spark's, and what they showed.

What stays true: a query that has found something else in the host than by itself is wrong, and fails the run.
"""

import json as texts
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from watersmeet.bench.targets import Target, rate_text
from watersmeet.spark.bench.hosted import Load

NUMBERS = (1, 10, 100)
FACTOR = 20
TO_END = 240  # seconds that a process has to start and to stop


@dataclass
class HostedRun:
    """What one system did with so many queries."""

    load: Load
    found: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def rate(self) -> float | None:
        """Rows of both streams a second, all queries at once."""
        return self.found.get("rate")


def hosted_loads(quick: bool, cores: int) -> list[Load]:
    """Each number of queries, in a host and by itself."""
    held, size, batches, timeout = (10_000, 2_500, 14, 120.0) if quick else (50_000, 10_000, 20, 600.0)
    return [
        Load(system, queries, held, size, batches, cores, timeout)
        for queries in NUMBERS
        for system in ("host", "spark")
    ]


def run_hosted(load: Load) -> HostedRun:
    """One number of queries in a process of its own."""
    command = [sys.executable, "-m", "watersmeet.spark.bench.hosted", texts.dumps(asdict(load))]
    most = 2 * load.timeout + TO_END
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=most, check=False)
    except subprocess.TimeoutExpired:
        return HostedRun(load, problem=f"not done after {most:.0f} s")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return HostedRun(load, problem=f"ended with code {done.returncode}: {done.stderr.strip()[-1500:]}")
    found = texts.loads(lines[-1])
    return HostedRun(load, found, found["failed"])


def pairs(runs: list[HostedRun]) -> list[tuple[int, HostedRun | None, HostedRun | None]]:
    """By number of queries: ours and Spark's."""
    by = {(run.load.queries, run.load.system): run for run in runs}
    return [(number, by.get((number, "host")), by.get((number, "spark"))) for number in NUMBERS]


def hosted_wrong(runs: list[HostedRun]) -> list[str]:
    """Queries that have found something else in the host than by themselves."""
    found = []
    for number, ours, theirs in pairs(runs):
        if ours is not None and theirs is not None and ours.found and theirs.found:
            for name, what in theirs.found["found"].items():
                mine = ours.found["found"].get(name)
                if mine != what:
                    found.append(
                        f"{number} hosted queries: {name} found {mine} (results, checksum), Spark's own {what}"
                    )
    return found


def hosted_targets(runs: list[HostedRun]) -> list[Target]:
    """What is to be shown: the most queries over as many of Spark's, or as many as start."""
    number, ours, theirs = pairs(runs)[-1]
    title, wanted = f"{number} hosted queries over as many of Spark's, or as many as start", f"≥ {FACTOR}x"
    mine, yours = (None if run is None else run.rate for run in (ours, theirs))
    if mine is None or yours is None:
        return [Target(title, wanted, "", None)]
    return [
        Target(
            title,
            wanted,
            f"{mine / yours:.1f}x: {rate_text(mine)}/s, {rate_text(yours)}/s",
            mine / yours >= FACTOR,
        )
    ]


def print_hosted(runs: list[HostedRun], console: Console) -> None:
    """For people."""
    table = Table(
        "queries", "host", "Spark's own", "started", "done", title="Queries on the same streams: rows/s"
    )
    for number, ours, theirs in pairs(runs):
        rates = [
            "" if run is None or run.rate is None else f"{rate_text(run.rate)}/s" for run in (ours, theirs)
        ]
        seen = ["" if theirs is None else str(theirs.found.get(name, "")) for name in ("started", "done")]
        table.add_row(str(number), *rates, *seen)
    console.print(table)
    for run in runs:
        if run.problem:
            console.print(
                f"[red]{run.load.queries} queries, {run.load.system}: {escape(run.problem)}[/]",
                highlight=False,
            )
    for text in hosted_wrong(runs):
        console.print(f"[red]{escape(text)}[/]", highlight=False)
