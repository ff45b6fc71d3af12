"""What a run of the Spark benchmark has shown: where systems disagree, what was reached, the table, the JSON and the plot.

What stays true: a rate is rows of both streams a second of a micro-batch's whole time, over the batches of one size that began with
full windows and after Java had compiled; a target that was not measured is never counted as reached.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, combinations
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from watersmeet.bench.report import print_targets
from watersmeet.bench.targets import Target, rate_text
from watersmeet.spark.bench.schedule import SMALL, Scale
from watersmeet.spark.bench.systems import SYSTEMS

SAME = (
    ("band", "buckets-hdfs", "buckets-rocksdb"),
    ("equality", "spark-hdfs", "spark-rocksdb"),
    ("text", "spark-text"),
    ("many", "chain", "spark-many"),
)
TEXT_RATE, FIRST, FEW_SECONDS = 400_000, 8.0, 0.15


@dataclass
class Run:
    """What one system did."""

    name: str
    batches: list[dict[str, Any]] = field(default_factory=list)
    filling: int = 0  # batches until the windows are full
    warm: float = 0
    problem: str = ""
    first: float | None = None  # seconds from the start to the end of the first batch

    @property
    def title(self) -> str:
        return SYSTEMS[self.name].title

    def counted(self, size: int) -> list[dict[str, Any]]:
        """The batches of a size that began with full windows, and not before Java had compiled."""
        begins = accumulate((batch["seconds"] for batch in self.batches), initial=0.0)
        placed = list(zip(begins, self.batches, strict=False))[max(1, self.filling) :]
        streams = SYSTEMS[self.name].streams  # that share the rows of a batch evenly
        return [
            batch for begin, batch in placed if begin >= self.warm and 0 <= size - batch["rows"] < streams
        ]

    def rate(self, size: int) -> float | None:
        """Rows of both streams a second, in batches of a size."""
        seconds = sum(batch["seconds"] for batch in self.counted(size))
        return sum(batch["rows"] for batch in self.counted(size)) / seconds if seconds else None


Runs = dict[str, Run]


def disagreements(runs: Runs) -> list[str]:
    """Pairs of systems that compute the same thing and found something else, with the first batch that shows it."""
    found = []
    for group in SAME:
        there = [runs[name] for name in group if name in runs and runs[name].batches]
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
            ("band", "buckets", 30, "band over bucket-and-explode"),
            ("equality", "spark", 10, "equality over Spark's own join"),
        ):
            for store, shown in (("hdfs", "HDFS store"), ("rocksdb", "RocksDB")):
                line = _over(runs.get(ours), runs.get(f"{theirs}-{store}"), size, factor)
                found.append(Target(f"{title} ({shown}), {size:,} rows a batch", *line))
    for ours, theirs, factor, title in (
        ("text", "spark-text", 10, "text and price band over Spark's own join"),
        ("many", "spark-many", 5, "three streams on one key over a chain of Spark's own joins"),
    ):
        for size in scale.sizes:
            line = _over(runs.get(ours), runs.get(theirs), size, factor)
            found.append(Target(f"{title}, {size:,} rows a batch", *line))
    size = scale.sizes[0]
    found.append(Target(f"text and price band, {size:,} rows a batch", *_rate(runs.get("text"), size)))
    share = _share(runs.get("band"), runs.get("empty"), size)
    found.append(Target(f"band over the empty join, {size:,} rows a batch", *share))
    found.append(Target(f"a batch of {SMALL:,} rows, windows full", *_small(runs.get("band"))))
    found.append(Target("from the start of a query to the end of its first batch", *_first(runs.get("band"))))
    return found


def _rate(run: Run | None, size: int) -> tuple[str, str, bool | None]:
    rate, wanted = None if run is None else run.rate(size), f"≥ {rate_text(TEXT_RATE)}/s"
    return (wanted, "", None) if rate is None else (wanted, f"{rate_text(rate)}/s", rate >= TEXT_RATE)


def _first(run: Run | None) -> tuple[str, str, bool | None]:
    if run is None or run.first is None:
        return f"< {FIRST:.0f} s", "", None
    return f"< {FIRST:.0f} s", f"{run.first:.1f} s", run.first < FIRST


def _over(ours: Run | None, theirs: Run | None, size: int, factor: int) -> tuple[str, str, bool | None]:
    mine, yours = (None if run is None else run.rate(size) for run in (ours, theirs))
    if mine is None or yours is None:
        return f"≥ {factor}x", "", None
    ratio = mine / yours
    return f"≥ {factor}x", f"{ratio:.1f}x: {rate_text(mine)}/s, {rate_text(yours)}/s", ratio >= factor


def _share(ours: Run | None, empty: Run | None, size: int) -> tuple[str, str, bool | None]:
    mine, most = (None if run is None else run.rate(size) for run in (ours, empty))
    if mine is None or most is None:
        return "≥ 80%", "", None
    return "≥ 80%", f"{mine / most:.0%}: {rate_text(mine)}/s of {rate_text(most)}/s", mine / most >= 0.8


def _small(run: Run | None) -> tuple[str, str, bool | None]:
    times = [] if run is None else sorted(batch["seconds"] for batch in run.counted(SMALL))
    if not times:
        return f"≤ {FEW_SECONDS} s", "", None
    shown = f"median {median(times):.2f} s, worst of {len(times)} {times[-1]:.2f} s"
    return f"≤ {FEW_SECONDS} s", shown, median(times) <= FEW_SECONDS


def print_run(
    runs: Runs,
    scale: Scale,
    reached: list[Target],
    problems: list[str],
    about: dict[str, Any],
    console: Console,
) -> None:
    """Everything, for people."""
    table = Table(
        "system",
        "rows a batch",
        "rows/s",
        "seconds a batch",
        "results a batch",
        "batches",
        title="Full windows",
    )
    for run in runs.values():
        for size in (*scale.sizes, SMALL):
            counted, rate = run.counted(size), run.rate(size)
            if rate is not None:
                seconds, counts = ([batch[what] for batch in counted] for what in ("seconds", "count"))
                results = f"{median(counts):,.0f}" if None not in counts else ""
                line = (f"{size:,}", rate_text(rate), f"{median(seconds):.2f}", results, str(len(counted)))
                table.add_row(run.title, *line)
    console.print(table)
    print_targets(reached, about, "rates", console)
    for problem in problems:
        console.print(f"[red]{escape(problem)}[/]", highlight=False)
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
    kafka: dict[str, Any],
    hosted: Sequence[Any] = (),
) -> None:
    """Everything measured, as JSON."""
    content = {
        "machine": about,
        "scale": asdict(scale),
        "targets": [asdict(line) for line in reached],
        "systems": [
            {
                **asdict(run),
                "title": run.title,
                "rates": {size: run.rate(size) for size in (*scale.sizes, SMALL)},
            }
            for run in runs.values()
        ],
        "kafka": kafka,
        "hosted": [asdict(run) for run in hosted],
        "problems": problems,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def plot(runs: Runs, scale: Scale, folder: Path) -> Path:
    """Rows a second of every batch over time, as the windows fill."""
    from watersmeet.looks import pyplot

    plt = pyplot()
    figure, axes = plt.subplots(figsize=(10, 6), layout="constrained")
    for run in runs.values():
        _draw(axes, run, scale)
    for size, marker in _markers(scale).items():
        axes.plot([], [], marker, color="#777777", label=f"{size:,} rows a batch")
    axes.set(
        title=f"Joins on local Spark, {scale.rows:,} rows a side",
        xlabel="seconds since the end of the first batch (thin lines: the windows are full)",
        ylabel="rows a second, both streams",
    )
    if any(len(run.batches) > 1 for run in runs.values()):
        axes.set(xscale="log", yscale="log")
    axes.legend(fontsize=7, ncols=2)
    axes.grid(True, alpha=0.25)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spark-rate-over-time.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _markers(scale: Scale) -> dict[int, str]:
    return dict(zip((*scale.sizes, SMALL), ("o", "^", "."), strict=True))


def _draw(axes: Any, run: Run, scale: Scale) -> None:
    if len(run.batches) < 2:
        return
    after = run.batches[1:]  # the first one starts Spark up
    ends = list(accumulate(batch["seconds"] for batch in after))
    rates = [batch["rows"] / batch["seconds"] for batch in after]
    style = "-" if SYSTEMS[run.name].ours else "--"
    (line,) = axes.plot(ends, rates, style, linewidth=1, label=run.title)
    for size, marker in _markers(scale).items():
        at = [place for place, batch in enumerate(after) if batch["rows"] == size]
        axes.plot([ends[i] for i in at], [rates[i] for i in at], marker, markersize=5, color=line.get_color())
    if 1 <= run.filling - 1 < len(ends):
        axes.axvline(ends[run.filling - 2], color=line.get_color(), alpha=0.25, linewidth=1)
