"""The run of ``watersmeet bench spark``: every system, one after the other, then the table, the targets, JSON and the plot.

What stays true: a rate is rows of both streams a second of a micro-batch's whole time, over the batches after the windows
were full; systems that compute the same thing must have the same count and checksum in every batch that both have done,
or the run fails; a target that was not measured is never counted as reached.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import accumulate, combinations
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from watersmeet.bench.report import machine, print_targets, wide_console
from watersmeet.bench.targets import Target, rate_text
from watersmeet.spark.bench.systems import SYSTEMS, Setting

SAME = (
    ("band", "buckets-hdfs", "buckets-rocksdb", "small"),
    ("equality", "spark-hdfs", "spark-rocksdb"),
)
SMALL = "small"  # the band, in large batches until the windows are full, then in small ones
SMALL_BATCH = 10_000  # rows of both streams
ORDER = (
    "band",
    "equality",
    "empty",
    "source",
    "spark-hdfs",
    "spark-rocksdb",
    "buckets-hdfs",
    "buckets-rocksdb",
)


@dataclass(frozen=True)
class Scale:
    """How large and how long: rows a side in the windows, rows of both streams a batch, batches after they are full.

    Two sizes of batch, as they change who is ahead and by how much: Spark's join looks through all of its state once a batch.
    """

    rows: int
    sizes: tuple[int, ...]  # the largest first
    ours: int
    theirs: int
    small: int
    timeout: float

    @classmethod
    def of(cls, quick: bool) -> "Scale":
        """The full run holds a million rows a side; the quick one a tenth of that."""
        if quick:
            return cls(rows=100_000, sizes=(100_000,), ours=8, theirs=3, small=20, timeout=180)
        return cls(rows=1_000_000, sizes=(1_000_000, 200_000), ours=10, theirs=2, small=40, timeout=1200)


@dataclass
class Run:
    """What one system did, with ``size`` rows a batch."""

    name: str
    size: int
    title: str
    batches: list[dict[str, Any]] = field(default_factory=list)
    filling: int = 0
    problem: str = ""

    @property
    def full(self) -> list[dict[str, Any]]:
        """The batches after the windows were full; the first of a process compiles, and is not among them."""
        return self.batches[max(1, self.filling) :]

    @property
    def rate(self) -> float | None:
        """Rows of both streams a second, with full windows."""
        seconds = sum(batch["seconds"] for batch in self.full)
        return sum(batch["rows"] for batch in self.full) / seconds if seconds else None


def bench_spark(
    *,
    quick: bool,
    cores: int,
    json: Path | None = None,
    plots: Path | None = None,
    console: Console | None = None,
    systems: tuple[str, ...] = ORDER,
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
    for (name, size), setting in settings(scale, cores, systems):
        with console.status(f"{name}, {size:,} rows a batch ..."):
            runs[name, size] = run_system(name, size, setting)
        console.print(_line(runs[name, size]), highlight=False, soft_wrap=True)
    about["seconds"] = round(time.perf_counter() - begin, 1)
    problems = [
        *disagreements(runs),
        *(f"{run.title}: {run.problem}" for run in runs.values() if run.problem),
    ]
    reached = targets(runs, scale)
    _print(runs, reached, problems, about, console)
    if json is not None:
        write_json(json, about, scale, runs, reached, problems)
        console.print(f"all figures: {json}")
    if plots is not None:
        console.print(f"plot: {plot(runs, scale, plots)}")
    return not disagreements(runs) and not any(run.problem for run in runs.values() if _ours(run.name))


Runs = dict[tuple[str, int], Run]  # by system and rows a batch


def settings(
    scale: Scale, cores: int, systems: tuple[str, ...] = ORDER
) -> Iterator[tuple[tuple[str, int], Setting]]:
    """What is run, in order."""
    for size in scale.sizes:
        half = size // 2
        filling = -(-scale.rows // half)
        for name in systems:
            more = scale.ours if name in ("band", "equality", "empty", "source") else scale.theirs
            yield (name, size), Setting(name, scale.rows, (half,), filling + more, cores, scale.timeout)
    if "band" in systems:
        half = scale.sizes[0] // 2
        filling = -(-scale.rows // half)
        sizes = (*[half] * filling, SMALL_BATCH // 2)
        setting = Setting("band", scale.rows, sizes, filling + scale.small, cores, scale.timeout)
        yield (SMALL, SMALL_BATCH), setting


def run_system(name: str, size: int, setting: Setting) -> Run:
    """One system in a process of its own."""
    title = SYSTEMS[setting.system].title
    command = [sys.executable, "-m", "watersmeet.spark.bench.systems", json.dumps(asdict(setting))]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=setting.timeout + 240,
            check=False,
            env={**os.environ},
        )
    except subprocess.TimeoutExpired:
        return Run(name, size, title, problem=f"not done after {setting.timeout + 240:.0f} s")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return Run(
            name, size, title, problem=f"ended with code {done.returncode}: {done.stderr.strip()[-1500:]}"
        )
    found = json.loads(lines[-1])
    run = Run(name, size, title, found["batches"], found["filling"], found["failed"])
    if not run.problem and run.rate is None:
        run.problem = f"only {len(run.batches)} batches in {setting.timeout:.0f} s: the windows were not full"
    return run


def disagreements(runs: Runs) -> list[str]:
    """Pairs of systems that compute the same thing and found something else, with the first batch that shows it."""
    found = []
    for group in SAME:
        there = [run for run in runs.values() if run.name in group and run.batches]
        for one, other in combinations(there, 2):
            for mine, yours in zip(one.batches, other.batches, strict=False):
                if mine["rows"] != yours["rows"]:
                    break  # another schedule from here on
                if (mine["count"], mine["checksum"]) != (yours["count"], yours["checksum"]):
                    found.append(
                        f"batch {mine['batch']}: {one.title} found {mine['count']:,} results, {other.title} {yours['count']:,}"
                        + (", with another checksum" if mine["count"] == yours["count"] else "")
                    )
                    break
    return found


def targets(runs: Runs, scale: Scale) -> list[Target]:
    """What the benchmark is to show, in order."""
    found = []
    for size in scale.sizes:
        for ours, theirs, factor, title in (
            ("band", "buckets", 20, "band over bucket-and-explode"),
            ("equality", "spark", 10, "equality over Spark's own join"),
        ):
            for store, shown in (("hdfs", "HDFS store"), ("rocksdb", "RocksDB")):
                line = _over(runs.get((ours, size)), runs.get((f"{theirs}-{store}", size)), factor)
                found.append(Target(f"{title} ({shown}), {size:,} rows a batch", *line))
    size = scale.sizes[0]
    share = _share(runs.get(("band", size)), runs.get(("empty", size)))
    found.append(Target(f"band over the empty join, {size:,} rows a batch", *share))
    small = _small(runs.get((SMALL, SMALL_BATCH)))
    return [*found, Target(f"a batch of {SMALL_BATCH:,} rows, windows full", *small)]


def _over(ours: Run | None, theirs: Run | None, factor: int) -> tuple[str, str, bool | None]:
    if ours is None or theirs is None or ours.rate is None or theirs.rate is None:
        return f"≥ {factor}x", "", None
    ratio = ours.rate / theirs.rate
    return (
        f"≥ {factor}x",
        f"{ratio:.1f}x: {rate_text(ours.rate)}/s, {rate_text(theirs.rate)}/s",
        ratio >= factor,
    )


def _share(ours: Run | None, empty: Run | None) -> tuple[str, str, bool | None]:
    if ours is None or empty is None or ours.rate is None or empty.rate is None:
        return "≥ 75%", "", None
    share = ours.rate / empty.rate
    return "≥ 75%", f"{share:.0%}: {rate_text(ours.rate)}/s of {rate_text(empty.rate)}/s", share >= 0.75


def _small(run: Run | None) -> tuple[str, str, bool | None]:
    if run is None or not run.full:
        return "< 1 s", "", None
    times = sorted(batch["seconds"] for batch in run.full)
    worst = times[int(0.95 * (len(times) - 1))]
    return (
        "< 1 s",
        f"median {median(times):.2f} s, 95% below {worst:.2f} s, worst {times[-1]:.2f} s",
        worst < 1,
    )


def _ours(name: str) -> bool:
    return name == SMALL or SYSTEMS[name].ours


def _line(run: Run) -> str:
    if run.problem:
        return f"[red]{run.title}, {run.size:,} rows a batch: {run.problem}[/]"
    rate = "" if run.rate is None else f"[bold]{rate_text(run.rate)}[/]/s with full windows"
    return f"{run.title}, {run.size:,} rows a batch: {rate} ({len(run.batches)} batches)"


def _print(
    runs: Runs, reached: list[Target], problems: list[str], about: dict[str, Any], console: Console
) -> None:
    table = Table(
        "system",
        "rows a batch",
        "rows/s, windows full",
        "seconds a batch",
        "results a batch",
        "batches",
        title="Rates",
    )
    for run in runs.values():
        rate = "" if run.rate is None else rate_text(run.rate)
        seconds = f"{median(batch['seconds'] for batch in run.full):.2f}" if run.full else ""
        counts = [batch["count"] for batch in run.full if batch["count"] is not None]
        table.add_row(
            run.title,
            f"{run.size:,}",
            rate,
            seconds,
            f"{median(counts):,.0f}" if counts else "",
            str(len(run.batches)),
        )
    console.print(table)
    print_targets(reached, about, "rates", console)
    for problem in problems:
        console.print(f"[red]{problem}[/]", highlight=False)
    if not disagreements(runs):
        console.print(
            "Counts and checksums agree between all systems that compute the same thing, batch by batch."
        )
    console.print(f"{len(runs)} systems in {about['seconds']} s")


def write_json(
    path: Path,
    about: dict[str, Any],
    scale: Scale,
    runs: Runs,
    reached: list[Target],
    problems: list[str],
) -> None:
    """Everything measured, as JSON."""
    content = {
        "machine": about,
        "scale": asdict(scale),
        "targets": [asdict(line) for line in reached],
        "systems": [{**asdict(run), "rate": run.rate} for run in runs.values()],
        "problems": problems,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def plot(runs: Runs, scale: Scale, folder: Path) -> Path:
    """Rows a second of every batch over time, as the windows fill; a panel for each size of batch."""
    from watersmeet.bench.plots import pyplot

    plt = pyplot()
    sizes = scale.sizes
    figure, grid = plt.subplots(
        1, len(sizes), figsize=(7.5 * len(sizes), 5), squeeze=False, sharey=True, layout="constrained"
    )
    for axes, size in zip(grid[0], sizes, strict=True):
        shown = [run for run in runs.values() if run.size == size or (run.name == SMALL and size == sizes[0])]
        _draw(axes, shown)
        axes.set(
            title=f"Joins on local Spark, {scale.rows:,} rows a side, {size:,} rows a batch",
            xlabel="seconds since the end of the first batch (thin lines: the windows are full)",
            ylabel="rows a second, both streams",
            xscale="log",
            yscale="log",
        )
        axes.grid(True, alpha=0.25)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spark-rate-over-time.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _draw(axes: Any, runs: list[Run]) -> None:
    for run in runs:
        if len(run.batches) < 2:
            continue
        after = run.batches[1:]  # the first one starts Spark up
        ends = list(accumulate(batch["seconds"] for batch in after))
        rates = [batch["rows"] / batch["seconds"] for batch in after]
        title = f"{run.title}, then {SMALL_BATCH:,} rows a batch" if run.name == SMALL else run.title
        (line,) = axes.plot(ends, rates, "o-" if _ours(run.name) else "s--", markersize=4, label=title)
        if 1 <= run.filling - 1 < len(ends):
            axes.axvline(ends[run.filling - 2], color=line.get_color(), alpha=0.25, linewidth=1)
    if axes.lines:
        axes.legend(fontsize=7)
