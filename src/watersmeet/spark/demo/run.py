"""``watersmeet demo``: a join that Spark refuses, run on local Spark over two live streams, checked and drawn.

What stays true: every figure shown is measured in this run. The check makes the rows of both streams anew, decides with
NumPy alone which of them were late and which pairs match, and compares every pair with what the query has written; a
difference ends the demo with failure. It ends by itself.
"""

import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from watersmeet.errors import OptionError
from watersmeet.spark.demo.check import check
from watersmeet.spark.demo.setting import (
    CONDITION,
    DISORDER_MS,
    LATENESS_SECONDS,
    NAME,
    RATE,
    SELECT,
    STRAGGLERS,
    STRAGGLING_SECONDS,
    WARM_UP_ROWS,
    WINDOW_SECONDS,
)
from watersmeet.spark.demo.show import Story, draw, print_end, progress_table
from watersmeet.spark.session.local import UNIX_SOCKETS, session
from watersmeet.spark.sources import register_sources
from watersmeet.spark.sources.rows import WORKLOAD_STREAMS
from watersmeet.spark.user.join import stream_join
from watersmeet.streams.window import Range


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
    conf: dict[str, Any] = {"spark.sql.streaming.numRecentProgressUpdates": 1000, UNIX_SOCKETS: False}
    with console.status("starting Spark ..."):
        spark = session("watersmeet demo", cores, checkpoint=folder / "checkpoints", **conf)
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
    print_end(story, found, agrees, checked, console)
    if picture is not None:
        draw(story, found, picture)
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
        with Live(progress_table(story), console=console, refresh_per_second=4) as view:
            while time.monotonic() < deadline and query.isActive:
                story.take(query.recentProgress)
                view.update(progress_table(story))
                if story.batches and all(end == rows for _, end in story.batches[-1]["spans"]):
                    return story
                time.sleep(0.25)
        raise query.exception() or OptionError(
            f"the demo must be done within {10 * seconds + 120:.0f} s; got a slower machine"
        )
    finally:
        query.stop()
