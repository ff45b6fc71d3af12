"""Many queries on the same two streams, in a process of its own: one host that has them all, or as many queries of Spark's; the last line
of output is JSON.

What stays true: all queries of both kinds read the same files, one a micro-batch, and what a query has found in all of them is counted
and summed, so that the two can be compared query by query.
"""

import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from watersmeet.spark.bench import parquet
from watersmeet.spark.bench.many import within
from watersmeet.spark.session.local import session
from watersmeet.streams.window import Range

RATE = 100_000  # event time: rows of a stream a second
PRIME = 2_147_483_647
CHECKSUM = f"sum(pmod(rn * 48271 + sn * 16807, {PRIME}))"
Found = dict[str, list[int]]  # by query: results, checksum


@dataclass(frozen=True)
class Load:
    """``queries`` at once; ``held`` rows of a stream in its window, ``size`` rows of a stream a batch."""

    system: str  # "host" or "spark"
    queries: int
    held: int
    size: int
    batches: int
    cores: int
    timeout: float
    memory: str = "6g"

    @property
    def window(self) -> str:
        """What holds so many rows."""
        return f"{self.held * 1000 // RATE} ms"

    @property
    def filling(self) -> int:
        """Batches until the windows are full, and Java has compiled the most."""
        return -(-self.held // self.size) + 1


def condition(number: int) -> str:
    """Query ``number``: a text, a band, and trades in a range of prices that few others have."""
    low = 100 + number % 100
    band = f"r.price BETWEEN s.price - {parquet.BAND} AND s.price + {parquet.BAND}"
    return f"r.sym = s.sym AND {band} AND r.price BETWEEN {low} AND {low + 1}"


def run(load: Load) -> dict[str, Any]:
    """The rate, and what was found."""
    with tempfile.TemporaryDirectory(prefix="watersmeet-bench-") as name:
        folder = Path(name)
        conf = {"spark.driver.memory": load.memory, "spark.sql.streaming.numRecentProgressUpdates": "1000"}
        spark = session(f"bench hosted {load.system}", load.cores, checkpoint=folder / "checkpoints", **conf)
        parquet.write(folder / "made", (load.size,) * load.batches, RATE)
        for stream in parquet.STREAMS:
            (folder / stream).mkdir()
        try:
            return {
                "load": asdict(load),
                **({"host": _host, "spark": _spark}[load.system](spark, load, folder)),
            }
        finally:
            spark.stop()


def _let_in(folder: Path) -> None:
    """The files, in order."""
    for stream in parquet.STREAMS:
        for path in sorted((folder / "made" / stream).iterdir()):
            os.rename(path, folder / stream / path.name)


def _host(spark: Any, load: Load, folder: Path) -> dict[str, Any]:
    from watersmeet.spark import QueryHost

    window, streams = Range(load.window, time="ts"), {}
    for stream in parquet.STREAMS:
        streams[stream] = parquet.read(spark, folder, stream)
    host = QueryHost(streams, dict.fromkeys(streams, window), str(folder / "control"), cores=load.cores)
    query = host.start(str(folder / "out"), checkpoint=str(folder / "checkpoint"))
    for number in range(load.queries):
        text = f"SELECT r.n AS rn, s.n AS sn FROM r JOIN s ON {condition(number)}"
        host.control.create(f"q{number}", text, timeout=None)
    end = time.monotonic() + load.timeout
    while time.monotonic() < end and query.isActive:
        states = [one.state for one in host.queries().values()]
        if states.count("running") == load.queries:
            break
        time.sleep(0.2)
    _let_in(folder)
    query.processAllAvailable()
    full = [one for one in query.recentProgress if one.numInputRows >= 2 * load.size][load.filling :]
    seconds = sum(one.durationMs["triggerExecution"] for one in full) / 1000
    found = {name: _counted(host, name) for name in host.queries()}
    query.stop()
    rate = 2 * load.size * len(full) / seconds if seconds else None
    return {"rate": rate, "found": found, "started": load.queries, "done": load.queries, "failed": ""}


def _counted(host: Any, name: str) -> list[int]:
    """Without a Spark job a query."""
    found, checksum = 0, 0
    for path in host.files(name):
        table = pq.read_table(path)
        rn, sn = (table.column(column).to_numpy().astype(np.int64) for column in ("rn", "sn"))
        found += table.num_rows
        checksum += int(((rn * 48271 + sn * 16807) % PRIME).sum())
    return [found, checksum]


def _spark(spark: Any, load: Load, folder: Path) -> dict[str, Any]:
    """As many queries as start; the rate is that of batches done by all of them, from when each has done its first."""
    _let_in(folder)
    queries, failed = {}, ""
    for number in range(load.queries):
        try:
            queries[f"q{number}"] = _own_join(spark, load, folder, number)
        except Exception as error:  # of Spark's: as many as start
            failed = str(error)[:500]
            break
    end, begin, before = time.monotonic() + load.timeout, None, 0
    while time.monotonic() < end:
        done = [len(_with_rows(query)) for query in queries.values()]
        if begin is None and min(done) >= 1:
            begin, before = time.monotonic(), sum(done)
        if min(done) >= load.batches or not all(query.isActive for query in queries.values()):
            break
        time.sleep(0.5)
    spent = None if begin is None else time.monotonic() - begin
    done = [len(_with_rows(query)) for query in queries.values()]
    errors = [str(query.exception())[:500] for query in queries.values() if query.exception() is not None]
    rows = 2 * load.size * (sum(done) - before) / len(queries)
    whole = {name: query for name, query in queries.items() if len(_with_rows(query)) >= load.batches}
    return {
        "rate": rows / spent if spent else None,
        "found": {name: _told(query) for name, query in whole.items()},
        "started": len(queries),
        "done": len(whole),
        "failed": "; ".join(filter(None, [failed, *errors[:1]])),
    }


def _own_join(spark: Any, load: Load, folder: Path, number: int) -> Any:
    from pyspark.sql.functions import expr

    r, s = (parquet.read(spark, folder, stream) for stream in parquet.STREAMS)
    left = r.withWatermark("ts", "0 seconds").alias("r")
    right = s.withWatermark("ts", "0 seconds").alias("s")
    joined = left.join(right, expr(f"{condition(number)} AND {within('r.ts', 's.ts', load.window)}"))
    counted = joined.selectExpr("r.n AS rn", "s.n AS sn").observe(
        "found", expr("count(*)").alias("count"), expr(CHECKSUM).alias("checksum")
    )
    return counted.writeStream.format("noop").start()


def _with_rows(query: Any) -> list[Any]:
    return [progress for progress in query.recentProgress if progress.numInputRows]


def _told(query: Any) -> list[int]:
    seen = [progress.observedMetrics["found"] for progress in _with_rows(query)]
    return [sum(one["count"] for one in seen), sum(one["checksum"] or 0 for one in seen)]


def main() -> None:
    """``python -m watersmeet.spark.bench.hosted '{"system": ...}'``."""
    print(json.dumps(run(Load(**json.loads(sys.argv[1])))))
    sys.stdout.flush()
    os._exit(0)  # queries of Spark's that are at a long batch are not waited for


if __name__ == "__main__":
    main()
