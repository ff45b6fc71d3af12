"""``watersmeet demo``: a join that Spark refuses, run on local Spark over two live streams, checked and drawn.

What stays true: every figure shown is measured in this run. The check makes the rows of both streams anew, decides with
NumPy alone which of them were late and which pairs match, and compares every pair with what the query has written; a
difference ends the demo with failure. It ends by itself.
"""

import json
import shutil
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from watersmeet.errors import OptionError
from watersmeet.spark.session.local import UNIX_SOCKETS, session
from watersmeet.spark.sources import register_sources
from watersmeet.spark.sources.options import Options
from watersmeet.spark.sources.rows import WORKLOAD_STREAMS, workload_rows
from watersmeet.spark.user.join import stream_join
from watersmeet.streams.window import Range
from watersmeet.workloads.catalog import workload

CONDITION = workload("splitjoin", 1).condition
BAND = 10
NAME = "demo"
SELECT = "r.n AS r, s.n AS s, r.x, r.y, s.a, s.b"
RATE = 20_000  # rows a second of each stream
WINDOW_SECONDS, LATENESS_SECONDS = 5.0, 1.0
DISORDER_MS, STRAGGLERS, STRAGGLING_SECONDS = 300, 0.0005, 4.0
WARM_UP_ROWS = 20_000


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


def run_spark_demo(
    seconds: float = 30.0, picture: Path | None = None, cores: int = 2, console: Console | None = None
) -> bool:
    """Stream for about ``seconds``; True iff every pair agreed."""
    console = console or Console()
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-demo-"))
    try:
        return _demo(seconds, picture, cores, console, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _demo(seconds: float, picture: Path | None, cores: int, console: Console, folder: Path) -> bool:
    with console.status("starting Spark ..."):
        spark = session(
            "watersmeet demo",
            cores,
            checkpoint=folder / "checkpoints",
            **{"spark.sql.streaming.numRecentProgressUpdates": 1000, UNIX_SOCKETS: False},
        )
        register_sources(spark)
    console.print("[bold]Watersmeet[/] on Spark: two live streams, joined where both coordinates are near:")
    console.print(f"  {CONDITION}", highlight=False)
    try:
        with console.status("asking Spark to do it alone ..."):
            refusal = _refusal(spark, folder)
        console.print(f"Spark alone: [red]{escape(refusal)}[/]", highlight=False, soft_wrap=True)
        with console.status(
            "a first small join (on a new machine it compiles the kernels: up to a minute) ..."
        ):
            _run(spark, folder / "warm-up", WARM_UP_ROWS, live=False).awaitTermination()
        story = _stream(spark, folder / "live", seconds, console)
        if not console.is_terminal:
            console.line()  # Live ends its last line on a terminal only
        found = spark.read.parquet(str(folder / "live" / "out")).toArrow()
    finally:
        spark.stop()
    with console.status("recomputing everything with NumPy ..."):
        agrees, checked = check(found, story.batches, int(RATE * seconds))
    _print_end(story, found, agrees, checked, console)
    if picture is not None:
        _draw(story, found, picture)
        console.print(f"picture: {picture}", markup=False, highlight=False)
    return agrees


def _options(rows: int, live: bool = True) -> dict[str, Any]:
    return {
        **({} if live else {"rowsPerBatch": WARM_UP_ROWS // 4}),
        "rate": RATE,
        "limit": rows,
        "disorder": f"{DISORDER_MS} ms",
        "lateness": f"{STRAGGLING_SECONDS} s",
        "stragglers": STRAGGLERS,
    }


def _streams(spark: Any, options: dict[str, Any]) -> dict[str, Any]:
    frames = {}
    for name in WORKLOAD_STREAMS:
        reader = spark.readStream.format("watersmeet_workload").option("stream", name)
        frames[name] = reader.options(**options).load()
    return frames


def _refusal(spark: Any, folder: Path) -> str:
    """What Spark says to the same join."""
    frames = _streams(spark, _options(1))
    timed = [frames[name].withWatermark("ts", "1 second").alias(name) for name in WORKLOAD_STREAMS]
    from pyspark.sql.functions import expr

    near = f"{CONDITION} AND s.ts BETWEEN r.ts - INTERVAL 5 SECONDS AND r.ts + INTERVAL 5 SECONDS"
    writer = timed[0].join(timed[1], expr(near)).writeStream.format("noop")
    spark.sparkContext.setLogLevel("OFF")
    try:
        query = writer.option("checkpointLocation", str(folder / "refused")).start()
        query.awaitTermination(60)  # Spark finds out as it plans the first batch
        query.stop()
    except Exception as error:
        return _first_reason(str(error))
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    raise OptionError(
        "Spark must refuse a stream-stream join without an equality; got none refused: has Spark learnt it?"
    )


def _first_reason(message: str) -> str:
    """Spark's own sentence, without what it was wrapped in."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    said = [line for line in lines if "without equality" in line]
    sentence = (said or lines)[0]
    return sentence[max(0, sentence.find("Stream-stream join")) :].rstrip(";")


def _run(spark: Any, folder: Path, rows: int, live: bool) -> Any:
    window = Range(f"{WINDOW_SECONDS} s", time="ts", lateness=f"{LATENESS_SECONDS} s")
    # Spark looks for Python data sources in a worker of its own, and lets go of it after a minute; over a Unix socket that ends with a
    # traceback (see worker.py), in a process that never runs our code. So here rows travel over TCP, and nobody need advise against it.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Spark must talk to its Python workers over Unix sockets")
        joined = stream_join(
            CONDITION,
            **_streams(spark, _options(rows, live)),
            windows=dict.fromkeys(WORKLOAD_STREAMS, window),
            select=SELECT,
            state=str(folder / "state"),
            name=NAME,
        )
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.trigger(processingTime="1 second") if live else writer.trigger(availableNow=True)
    return writer.start(str(folder / "out"))


def _stream(spark: Any, folder: Path, seconds: float, console: Console) -> Story:
    story, rows = Story(seconds), int(RATE * seconds)
    query = _run(spark, folder, rows, live=True)
    deadline = time.monotonic() + 10 * seconds + 120
    try:
        with Live(_table(story), console=console, refresh_per_second=4) as view:
            while time.monotonic() < deadline and query.isActive:
                story.take(query.recentProgress)
                view.update(_table(story))
                if story.batches and all(end == rows for _, end in story.batches[-1]["spans"]):
                    return story
                time.sleep(0.25)
        raise query.exception() or OptionError(
            f"the demo must be done within {10 * seconds + 120:.0f} s; got a slower machine"
        )
    finally:
        query.stop()


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


# ---- the check ---------------------------------------------------------------------------------------------------


def check(found: pa.Table, batches: list[dict[str, Any]], rows: int) -> tuple[bool, str]:
    """Are the pairs in ``found`` exactly those of the first ``rows`` rows? And a sentence that says what was compared."""
    streams = [made(name, rows) for name in WORKLOAD_STREAMS]
    late = late_rows([stream["ts"] for stream in streams], [batch["spans"] for batch in batches])
    r, s = (
        {name: values[~mask] for name, values in stream.items()}
        for stream, mask in zip(streams, late, strict=True)
    )
    expected = pairs(r, s)
    pair = (found.column("r").to_numpy() << 32) | found.column("s").to_numpy()
    agrees = bool(np.array_equal(np.sort(pair), expected))
    return (
        agrees,
        f"all {expected.size:,} pairs of {2 * rows:,} rows, {sum(mask.sum() for mask in late):,} of them late",
    )


def made(stream: str, rows: int) -> dict[str, np.ndarray]:
    """The rows that the source gives, from the same numbers."""
    options = Options(
        stream=stream,
        rate=RATE,
        disorder=DISORDER_MS * 1000,
        lateness=int(STRAGGLING_SECONDS * 1e6),
        stragglers=STRAGGLERS,
    )
    table = pa.Table.from_batches(workload_rows(options).take(0, rows))
    table = table.set_column(0, "ts", table.column("ts").cast(pa.int64()))
    return {name: table.column(name).to_numpy() for name in table.schema.names if name not in ("z", "c", "d")}


def late_rows(times: list[np.ndarray], batches: list[list[tuple[int, int]]]) -> list[np.ndarray]:
    """Which rows are below the watermark of the micro-batches before theirs."""
    floor = np.iinfo(np.int64).min // 2
    newest, late = [floor, floor], [np.zeros(column.size, bool) for column in times]
    for spans in batches:
        watermark = min(newest) - int(LATENESS_SECONDS * 1e6)
        for k, (start, end) in enumerate(spans):
            late[k][start:end] = times[k][start:end] < watermark
            newest[k] = max(newest[k], int(times[k][start:end].max(initial=floor)))
    return late


def pairs(r: dict[str, np.ndarray], s: dict[str, np.ndarray]) -> np.ndarray:
    """All pairs near in both coordinates and in time, as ``r << 32 | s``, ascending: cell by cell of a grid over the plane."""
    across = 100_000  # more cells than a row of the plane has
    cell = (s["a"].astype(np.int64) // BAND) * across + (s["b"] // BAND).astype(np.int64)
    order = np.argsort(cell, kind="stable")
    cell = cell[order]
    found = []
    for dx in (-1, 0, 1):
        for dy in (-1, 0, 1):
            wanted = (r["x"].astype(np.int64) // BAND + dx) * across + (r["y"] // BAND).astype(np.int64) + dy
            low, high = (np.searchsorted(cell, wanted, side) for side in ("left", "right"))
            probe = np.repeat(np.arange(wanted.size), high - low)
            within = np.arange(probe.size) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
            stored = order[np.repeat(low, high - low) + within]
            found.append(_near(r, s, probe, stored))
    return np.sort(np.concatenate(found))


def _near(
    r: dict[str, np.ndarray], s: dict[str, np.ndarray], probe: np.ndarray, stored: np.ndarray
) -> np.ndarray:
    x, y, a, b = r["x"][probe], r["y"][probe], s["a"][stored], s["b"][stored]
    width = np.float32(BAND)  # the sum is taken in the columns' own type, as the text s.b - 10 says
    apart = np.abs(r["ts"][probe] - s["ts"][stored])
    holds = (
        (x >= a - BAND)
        & (x <= a + BAND)
        & (y >= b - width)
        & (y <= b + width)
        & (apart <= WINDOW_SECONDS * 1e6)
    )
    return (r["n"][probe[holds]] << 32) | s["n"][stored[holds]]


# ---- what is shown -----------------------------------------------------------------------------------------------


def _table(story: Story) -> Table:
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


def _print_end(story: Story, found: pa.Table, agrees: bool, checked: str, console: Console) -> None:
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


def _draw(story: Story, found: pa.Table, path: Path) -> None:
    from watersmeet.looks import draw_plane, pyplot

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
