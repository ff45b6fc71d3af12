"""What the demo has seen of its query, and how it is shown: a table while it runs, a summary, a picture."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from watersmeet.looks import draw_plane, pyplot
from watersmeet.spark.demo.setting import NAME


@dataclass
class Story:
    """What has been seen of the query."""

    seconds: float
    batches: list[dict[str, Any]] = field(default_factory=list)  # one a micro-batch, in order

    def take(self, progresses: list[Any]) -> None:
        """Note the micro-batches that are new."""
        done = [progress for progress in progresses if progress.numInputRows]
        for progress in done[len(self.batches) :]:
            self.batches.append(_noted(progress))

    @property
    def rows(self) -> int:
        """Rows of both streams so far."""
        return self.total("rows")

    def total(self, figure: str) -> int:
        """A figure, added up over the micro-batches."""
        return sum(batch[figure] for batch in self.batches)


def _noted(progress: Any) -> dict[str, Any]:
    figures = progress.observedMetrics[f"watersmeet.{NAME}"].asDict()
    starts, ends = (
        [json.loads(text or '{"row": 0}')["row"] for text in texts] for texts in _offsets(progress)
    )
    return {
        "at": time.monotonic(),
        "rows": progress.numInputRows,
        "seconds": progress.durationMs["triggerExecution"] / 1000,
        "spans": list(zip(starts, ends, strict=True)),  # rows of r and of s: first, and one after the last
        "results": figures["results"],
        "late": figures["late_r"] + figures["late_s"],
        "held": figures["state_rows"],
        "bytes": figures["state_bytes"],
        "steps": dict(progress.durationMs),
        "watermark": figures["watermark"],
    }


def _offsets(progress: Any) -> tuple[list[str], list[str]]:
    return [source.startOffset for source in progress.sources], [
        source.endOffset for source in progress.sources
    ]


def progress_table(story: Story) -> Table:
    """The one line that is shown while it runs."""
    names = ("rows", "rows/s", "a batch", "rows held", "state", "watermark", "late", "results")
    table = Table(*names, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    if story.batches:
        last = story.batches[-5:]
        now, seconds = last[-1], sum(batch["seconds"] for batch in last)
        table.add_row(
            f"{story.rows:,}",
            f"{sum(batch['rows'] for batch in last) / seconds:,.0f}",
            f"{seconds / len(last):.2f} s",
            f"{now['held']:,}",
            f"{now['bytes'] / 1e6:.1f} MB",
            str(now["watermark"] or "")[11:19],  # "2026-01-05 09:10:07.5"
            f"{story.total('late'):,}",
            f"{story.total('results'):,}",
        )
    return table


def print_end(story: Story, found: pa.Table, agrees: bool, checked: str, console: Console) -> None:
    """Some results, what it took, and whether the check agrees."""
    rows = Table(*found.schema.names, title="Some results")
    step = max(1, found.num_rows // 5)
    for number in range(0, found.num_rows, step)[:5]:
        rows.add_row(*(_cell(found.column(name)[number].as_py()) for name in found.schema.names))
    console.print(rows)
    busy = sum(batch["seconds"] for batch in story.batches)
    console.print(
        f"{len(story.batches)} micro-batches, {story.rows:,} rows, {story.total('results'):,} results; "
        f"Spark was busy for {busy:.0f} of {story.seconds:.0f} s.",
        highlight=False,
        soft_wrap=True,
    )
    mark = "[green]agrees[/]" if agrees else "[bold red]DIFFERS[/]"
    console.print(f"{checked}, recomputed with NumPy: {mark}", highlight=False, soft_wrap=True)


def _cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def draw(story: Story, found: pa.Table, path: Path) -> None:
    """The pairs in the plane, the rate of each micro-batch, state and results over time."""
    plt = pyplot()
    figure, (plane, rates, held) = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    draw_plane(plane, found, 150, "All pairs in one corner of the plane")
    begin = story.batches[0]["at"]
    at = [batch["at"] - begin for batch in story.batches]
    rates.plot(
        at, [batch["rows"] / batch["seconds"] for batch in story.batches], "o-", color="#1b7fbd", markersize=3
    )
    rates.set(
        title="Rate of every micro-batch",
        xlabel="seconds",
        ylabel="rows a second of its time",
        ylim=(0, None),
    )
    held.plot(
        at, [batch["held"] for batch in story.batches], "o-", color="#3c9a4e", markersize=3, label="rows held"
    )
    held.plot(
        at,
        np.cumsum([batch["results"] for batch in story.batches]),
        "o-",
        color="#c23b54",
        markersize=3,
        label="results so far",
    )
    held.set(title="State and results", xlabel="seconds", ylabel="rows", ylim=(0, None))
    held.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
