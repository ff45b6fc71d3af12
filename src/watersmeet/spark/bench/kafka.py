"""From Kafka to a table at a given rate: how long from a message's append until its pair is in the table.

What stays true: the broker stamps a message as it appends it, and a pair carries the later stamp of its two; the table's own log says
which batch committed it, and that file's time when. Only pairs of messages that came after the warm-up count for latency; all pairs are
counted again.
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from watersmeet.spark.bench.broker import Broker
from watersmeet.spark.bench.feed import COLUMNS, TOPICS, WIDTH, Load, expected
from watersmeet.spark.session.local import session
from watersmeet.spark.session.maven import kafka_jars
from watersmeet.streams.window import Range

PATIENCE = 240  # seconds to catch up


def measure(load: Load) -> dict[str, Any]:
    """One rate, with a broker, a session and a producer of its own."""
    with tempfile.TemporaryDirectory(prefix="watersmeet-kafka-") as made:
        folder = Path(made)
        jars = kafka_jars()
        with Broker(folder / "broker", memory="1g") as broker:
            broker.create(*TOPICS, config={"message.timestamp.type": "LogAppendTime"})
            spark = session("bench kafka", load.cores, checkpoint=folder / "checkpoints", jars=jars)
            try:
                return _run(spark, broker, load, folder)
            finally:
                spark.stop()


def joined(spark: Any, servers: str) -> Any:
    """The query: two topics of JSON, a band, and for each pair when the later of its messages was appended."""
    from watersmeet.spark import stream_join

    streams = {}
    for topic in TOPICS:
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        source = source.option("subscribe", topic).option("startingOffsets", "earliest").load()
        parsed = source.selectExpr(f"from_json(CAST(value AS STRING), '{COLUMNS}') AS row", "timestamp AS at")
        streams[topic[0]] = parsed.selectExpr("row.n", "timestamp_micros(row.ts) AS ts", "row.x", "at")
    window = Range("1 s", time="ts", lateness="10 s")
    return stream_join(
        f"t.x BETWEEN q.x - {WIDTH} AND q.x + {WIDTH}",
        **streams,
        windows={"t": window, "q": window},
        select="t.n AS t, q.n AS q, GREATEST(t.at, q.at) AS at",
    )


def _run(spark: Any, broker: Broker, load: Load, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "watersmeet.spark.bench.feed", broker.servers, json.dumps(asdict(load))]
    writer = joined(spark, broker.servers).writeStream.format("parquet")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/out")
    feed = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        begin = time.time()
        out, _ = feed.communicate("go\n", timeout=20 * load.seconds + PATIENCE)
        took = json.loads(out.splitlines()[-1])["took"]
        wanted, end = expected(load), time.monotonic() + PATIENCE
        while query.isActive and time.monotonic() < end and _results(query) < wanted:
            time.sleep(0.2)
        failed = query.exception()
        rates = _rates(query, load)
        query.stop()
    finally:
        feed.kill()
        feed.wait()
    pairs, late = table(folder / "out", begin + load.warm)
    return {
        "load": asdict(load),
        "appended": 2 * load.rows / took,  # rows a second that the broker really got
        "taken": rates,
        "pairs": pairs,
        "expected": wanted,
        "latency": {f"p{q}": float(np.percentile(late, q)) for q in (50, 99)} if len(late) else {},
        "failed": "" if failed is None else str(failed)[:2000],
    }


def _results(query: Any) -> int:
    figures = [progress.observedMetrics.get("watersmeet.t-q") for progress in query.recentProgress]
    return sum(row.results or 0 for row in figures if row is not None)


def _rates(query: Any, load: Load) -> float | None:
    """Rows a second of the time that batches took: what the query could sustain; without its first two batches."""
    done = [progress for progress in query.recentProgress if progress.numInputRows][2:]
    seconds = sum(progress.durationMs["triggerExecution"] for progress in done) / 1000
    return sum(progress.numInputRows for progress in done) / seconds if seconds else None


def table(folder: Path, since: float) -> tuple[int, np.ndarray]:
    """(pairs in the table, latencies in seconds of those whose messages came from ``since`` on).

    The log has a file a batch, every tenth of them with all that came before: what is new in a file was committed with it.
    """
    logs = sorted(
        (path for path in (folder / "_spark_metadata").iterdir() if not path.name.startswith(".")),
        key=lambda path: int(path.name.split(".")[0]),
    )
    seen: set[str] = set()
    found, pairs = [np.zeros(0)], 0
    for log in logs:
        committed = log.stat().st_mtime
        listed = {json.loads(line)["path"] for line in log.read_text().splitlines()[1:]}
        for name in sorted(listed - seen):
            rows = pq.read_table(name.removeprefix("file://"), columns=["at"], partitioning=None)
            pairs += rows.num_rows
            appended = rows["at"].to_numpy().astype("datetime64[us]").astype(np.int64) / 1e6
            found.append(committed - appended[appended >= since])
        seen |= listed
    return pairs, np.concatenate(found)


def main() -> None:
    """``python -m watersmeet.spark.bench.kafka '{"rate": ...}'``."""
    print(json.dumps(measure(Load(**json.loads(sys.argv[1])))))


if __name__ == "__main__":
    main()
