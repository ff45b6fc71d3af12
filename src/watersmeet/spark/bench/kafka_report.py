"""The Kafka part of the Spark benchmark: each rate in a process of its own, and what they showed.

What stays true: a rate whose pairs are not those that counting again gives is wrong, and fails the run; where Maven or a package is
missing, that is said, and nothing has failed.
"""

import json as texts
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from watersmeet.bench.targets import rate_text
from watersmeet.errors import DataError, OptionError
from watersmeet.extras import need
from watersmeet.spark.bench.feed import Load
from watersmeet.spark.session.maven import BROKER, KAFKA, fetch

RATES = (10_000, 100_000, 300_000)
TO_END = 900  # seconds that a process has beside its load


@dataclass
class KafkaRun:
    """What came of one rate."""

    load: Load
    found: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def wrong(self) -> str:
        """What was counted otherwise than it should be."""
        if not self.found or self.found["pairs"] == self.found["expected"]:
            return ""
        return f"Kafka at {self.load.rate:,} rows/s: {self.found['pairs']:,} pairs in the table, counted again {self.found['expected']:,}"


def loads(quick: bool, cores: int) -> list[Load]:
    """Each rate for a minute, or for twenty seconds; the first part warms Java up."""
    seconds, warm = (20.0, 10.0) if quick else (60.0, 20.0)
    return [Load(rate, seconds, warm, cores) for rate in RATES]


def missing() -> str:
    """What the Kafka part cannot do without, or nothing."""
    try:
        need("the Kafka part", "confluent_kafka", "bench")
        fetch(KAFKA)
        fetch(BROKER)
    except (OptionError, DataError) as error:
        return str(error)
    return ""


def run_load(load: Load) -> KafkaRun:
    """One rate in a process of its own."""
    command = [sys.executable, "-m", "watersmeet.spark.bench.kafka", texts.dumps(asdict(load))]
    most = 20 * load.seconds + TO_END
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=most, check=False)
    except subprocess.TimeoutExpired:
        return KafkaRun(load, problem=f"not done after {most:.0f} s")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return KafkaRun(load, problem=f"ended with code {done.returncode}: {done.stderr.strip()[-1500:]}")
    found = texts.loads(lines[-1])
    return KafkaRun(load, found, found["failed"])


def print_kafka(runs: list[KafkaRun], console: Console) -> None:
    """For people."""
    table = Table(
        "rows/s offered",
        "appended",
        "query could take",
        "p50",
        "p99",
        "pairs",
        title="From a message's append in Kafka to its pair in the table",
    )
    for run in runs:
        if run.found:
            latency, taken = run.found["latency"], run.found["taken"]
            table.add_row(
                f"{run.load.rate:,}",
                f"{rate_text(run.found['appended'])}/s",
                "" if taken is None else f"{rate_text(taken)}/s",
                *(f"{latency[name]:.2f} s" if latency else "" for name in ("p50", "p99")),
                f"{run.found['pairs']:,}",
            )
    console.print(table)
    for run in runs:
        for text in filter(None, (run.wrong, run.problem)):
            console.print(f"[red]{escape(text)}[/]", highlight=False)


def plain(runs: list[KafkaRun], without: str) -> dict[str, Any]:
    """For JSON."""
    return {"missing": without, "rates": [{**asdict(run), "wrong": run.wrong} for run in runs]}
