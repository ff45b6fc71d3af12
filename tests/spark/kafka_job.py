"""A band join of two topics, run by ``test_kafka_faults`` until a file says stop; at its end it says what was late and what failed."""

import json
import sys
import time
from pathlib import Path

import watersmeet as wm
from watersmeet.spark import kafka_jars, session, stream_join

COLUMNS = "id LONG, ts TIMESTAMP, x LONG"


def main(servers: str, folder: str, mode: str) -> None:
    spark = session("kafka faults", 2, jars=kafka_jars(), **{"spark.driver.memory": "700m"})
    spark.sparkContext.setLogLevel("OFF")
    streams = {}
    for name in ("trades", "quotes"):
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        rows = source.option("subscribe", name).option("startingOffsets", "earliest").load()
        parsed = f"from_json(CAST(value AS STRING), '{COLUMNS}', map('mode', '{mode}')) AS row"
        streams[name[0]] = rows.selectExpr(parsed).select("row.*")
    window = wm.Range("2 s", time="ts", lateness="1 h")  # nothing is late that has a time
    joined = stream_join(
        "t.x BETWEEN q.x - 1 AND q.x + 1",
        **streams,
        windows={"t": window, "q": window},
        select="t.id AS t, q.id AS q",
        state=f"{folder}/state",
    )
    writer = joined.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(processingTime="200 milliseconds").start(f"{folder}/out")
    while query.isActive and not Path(folder, "stop").exists():
        time.sleep(0.2)
    failed = query.exception()
    query.stop()
    found = [progress.observedMetrics.get("watersmeet.t-q") for progress in query.recentProgress]
    late = sum(row.late_t + row.late_q for row in found if row is not None and row.late_t is not None)
    print(json.dumps({"late": late, "failed": None if failed is None else str(failed)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
