"""One system on one workload in a process and a session of its own; the last line of output is JSON.

What stays true: every system reads the same rows in the same micro-batches, from the same source, and hands its results to
the same sink, which only counts them and adds up a checksum of their row numbers. A system does not know what the others
have found.
"""

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

from watersmeet.spark.bench import many, parquet
from watersmeet.spark.session.local import session
from watersmeet.spark.sources import register_sources
from watersmeet.streams.window import Range
from watersmeet.workloads.catalog import Workload, workload

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHECKSUM = (
    "bit_xor(xxhash64({}))"  # of the multiset of results, as long as none comes twice; the count sees those
)


@dataclass(frozen=True)
class Setting:
    """What to run: ``rows`` of a stream are held once its window is full; ``sizes`` are rows a stream, batch by batch."""

    system: str
    rows: int
    sizes: tuple[int, ...]
    cores: int
    timeout: float
    memory: str = "6g"

    @property
    def filling(self) -> int:
        """Batches until the windows are full."""
        return next(n for n, rows in enumerate(accumulate(self.sizes), 1) if rows >= self.rows)


@dataclass(frozen=True)
class System:
    """A way to join: its title, the workload it takes, or the module that writes and reads its Parquet files, and how."""

    title: str
    workload: str | ModuleType
    join: Callable[..., Any]  # of the streams, and what is held: a Workload, or a duration
    store: str = ""
    ours: bool = False

    @property
    def streams(self) -> int:
        """How many it joins."""
        return 2 if isinstance(self.workload, str) else len(self.workload.STREAMS)


SECOND_ROWS = 100_000  # event time: rows of a stream a second


def seconds_held(rows: int) -> str:
    """The window that holds ``rows`` rows of a stream, as a duration."""
    return f"{rows * 1000 // SECOND_ROWS} ms"


def by_watersmeet(r: Any, s: Any, work: Workload) -> Any:
    """Ours."""
    from watersmeet.spark import stream_join

    window = Range(seconds_held(work.window), time="ts")
    return stream_join(
        work.condition, r=r, s=s, windows={"r": window, "s": window}, select="r.n AS rn, s.n AS sn"
    )


def by_empty_join(r: Any, s: Any, work: Workload) -> Any:
    """Ours, but the join receives its rows and does nothing with them."""
    from watersmeet.spark.user.join import assemble

    spec = by_watersmeet(r, s, work)._watersmeet.spec
    return assemble(replace(spec, stores=False), [r, s])


def _watermarked(r: Any, s: Any) -> tuple[Any, Any]:
    left = r.selectExpr("ts AS rt", "n AS rn", "x").withWatermark("rt", "0 seconds")
    return left, s.selectExpr("ts AS st", "n AS sn", "a").withWatermark("st", "0 seconds")


def _within(work: Workload) -> str:
    apart = f"INTERVAL {seconds_held(work.window).replace(' ms', '')} MILLISECONDS"
    return f"rt BETWEEN st - {apart} AND st + {apart}"


def by_spark(r: Any, s: Any, work: Workload) -> Any:
    """Spark's own join: an equality and a time bound."""
    from pyspark.sql.functions import expr

    left, right = _watermarked(r, s)
    return left.join(right, expr(f"x = a AND {_within(work)}"))


def by_buckets(r: Any, s: Any, work: Workload) -> Any:
    """What people do today: a bucket of the key on one side, all buckets that a band touches on the other, then a filter."""
    from pyspark.sql.functions import expr

    left, right = _watermarked(r, s)
    width = work.bands[0].width
    left = left.withColumn("rb", expr(f"x DIV {2 * width}"))
    # DIV rounds towards zero: what lies below 0 falls into bucket 0, where keys from 0 on are.
    buckets = f"explode(sequence((a - {width}) DIV {2 * width}, (a + {width}) DIV {2 * width}))"
    right = right.withColumn("sb", expr(buckets))
    return left.join(right, expr(f"rb = sb AND x BETWEEN a - {width} AND a + {width} AND {_within(work)}"))


def nothing(r: Any, s: Any, work: Workload) -> Any:
    """No join: how fast the rows come."""
    both = r.selectExpr("n AS rn", "x AS sn").unionAll(s.selectExpr("n AS rn", "a AS sn"))
    return both.where("rn < 0")


SYSTEMS: dict[str, System] = {
    "band": System("Watersmeet, band", "band-1", by_watersmeet, ours=True),
    "equality": System("Watersmeet, equality", "equality-1", by_watersmeet, ours=True),
    "empty": System("Watersmeet, empty join", "band-1", by_empty_join, ours=True),
    "text": System("Watersmeet, text and price band from Parquet", parquet, parquet.by_watersmeet, ours=True),
    "many": System("Watersmeet, three streams on one key", many, many.by_watersmeet, ours=True),
    "chain": System("Watersmeet, three streams as a chain of two joins", many, many.by_chain, ours=True),
    "source": System("no join, source to sink", "band-1", nothing, ours=True),
    "spark-hdfs": System("Spark's own join, equality, HDFS store", "equality-1", by_spark),
    "spark-rocksdb": System("Spark's own join, equality, RocksDB", "equality-1", by_spark, ROCKSDB),
    "spark-text": System("Spark's own join, text and price band from Parquet", parquet, parquet.by_spark),
    "spark-many": System("Spark's own joins, three streams as a chain of two", many, many.by_spark),
    "buckets-hdfs": System("bucket and explode, band, HDFS store", "band-1", by_buckets),
    "buckets-rocksdb": System("bucket and explode, band, RocksDB", "band-1", by_buckets, ROCKSDB),
}


def run(setting: Setting) -> dict[str, Any]:
    """Join until all micro-batches are done or the time is over; every batch with its figures."""
    system = SYSTEMS[setting.system]
    with tempfile.TemporaryDirectory(prefix="watersmeet-bench-") as folder:
        conf = {
            "spark.driver.memory": setting.memory,
            "spark.sql.streaming.numRecentProgressUpdates": "10000",
        }
        if system.store:
            conf["spark.sql.streaming.stateStore.providerClass"] = system.store
        spark = session(
            f"bench {setting.system}", setting.cores, checkpoint=Path(folder) / "checkpoints", **conf
        )
        joined = _joined(spark, setting, system, Path(folder))
        try:
            batches, failed, first = _measure(joined, setting)
        finally:
            spark.stop()
    return {
        "setting": asdict(setting),
        "batches": batches,
        "failed": failed,
        "filling": setting.filling,
        "first": first,
    }


def _joined(spark: Any, setting: Setting, system: System, folder: Path) -> Any:
    work = system.workload
    if not isinstance(work, str):
        work.write(folder / "rows", setting.sizes, SECOND_ROWS, setting.rows)
        streams = [work.read(spark, folder / "rows", name) for name in work.STREAMS]
        return system.join(*streams, seconds_held(setting.rows))
    register_sources(spark)
    r, s = (_stream(spark, setting, work, name) for name in ("r", "s"))
    return system.join(r, s, workload(work, setting.rows))


def _stream(spark: Any, setting: Setting, name: str, stream: str) -> Any:
    sizes = ",".join(map(str, setting.sizes))
    reader = spark.readStream.format("watersmeet_workload").option("workload", name).option("stream", stream)
    reader = reader.option("window", setting.rows).option("rate", SECOND_ROWS).option("rowsPerBatch", sizes)
    return reader.option("numPartitions", max(1, setting.cores // 2)).load()


def _measure(joined: Any, setting: Setting) -> tuple[list[dict[str, Any]], str, float | None]:
    """Every batch, what went wrong, and the seconds from the start to the end of the first batch."""
    from pyspark.sql.functions import expr

    checksum = CHECKSUM.format(", ".join(joined.columns))
    counted = joined.observe("found", expr("count(*)").alias("count"), expr(checksum).alias("checksum"))
    begin, first = time.monotonic(), None
    query = counted.writeStream.format("noop").start()
    end = begin + setting.timeout
    wanted, failed = len(setting.sizes), ""
    while query.isActive and time.monotonic() < end:
        last = query.lastProgress  # all of them, that often, would cost the batches time
        if first is None and last is not None and last.numInputRows:
            first = round(time.monotonic() - begin, 2)
        if last is not None and last.batchId >= wanted - 1 and len(_with_rows(query)) >= wanted:
            break
        time.sleep(0.2)
    done = _with_rows(query)
    if query.exception() is not None:
        failed = str(query.exception())[:2000]
    # A slow batch is not waited for: the process ends with it.
    stopper = threading.Thread(target=query.stop, daemon=True)
    stopper.start()
    stopper.join(20)
    return [_batch(progress) for progress in done[:wanted]], failed, first


def _with_rows(query: Any) -> list[Any]:
    """The batches that had any: Spark adds empty ones when a watermark has moved."""
    return [progress for progress in query.recentProgress if progress.numInputRows]


def _batch(progress: Any) -> dict[str, Any]:
    found = progress.observedMetrics.get("found")
    return {
        "batch": progress.batchId,
        "rows": progress.numInputRows,
        "seconds": progress.durationMs["triggerExecution"] / 1000,
        "steps": dict(progress.durationMs),
        "count": None if found is None else found["count"],
        "checksum": None if found is None else found["checksum"],
        "state_rows": sum(operator.numRowsTotal for operator in progress.stateOperators),
    }


def main() -> None:
    """``python -m watersmeet.spark.bench.systems '{"system": ...}'``."""
    given = json.loads(sys.argv[1])
    setting = Setting(**{**given, "sizes": tuple(given["sizes"])})
    print(json.dumps(run(setting)))


if __name__ == "__main__":
    main()
