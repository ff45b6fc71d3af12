"""A join on a multi-process Spark, started again and again by ``test_faults``: files in, files out, then done."""

import sys
from pathlib import Path

import watersmeet as wm
from watersmeet.spark import session, stream_join

SCHEMA = "id long, ts timestamp, x long, k string"


def main(folder: str, spread: str, cores: int, per_trigger: int) -> None:
    settings = {
        "spark.master": "local-cluster[2,1,900]",
        "spark.executor.memory": "700m",
        "spark.driver.memory": "700m",
        "spark.sql.shuffle.partitions": "2",
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.minTaskRuntime": "10ms",
        "spark.task.maxFailures": "20",
        "spark.stage.maxConsecutiveAttempts": "20",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.sql.streaming.minBatchesToRetain": "5",
    }
    spark = session("faults", **settings)
    spark.sparkContext.setLogLevel("OFF")
    sides = "rst" if spread in ("one-key", "grid") else "rs"
    streams = {
        side: spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", per_trigger)
        .option("pathGlobFilter", "*.parquet")
        .parquet(f"{folder}/{side}")
        for side in sides
    }
    condition = {
        "hash": "r.k = s.k AND r.x < s.x + 2",
        "range": "r.x BETWEEN s.x - 1 AND s.x + 1",
        "one-key": "r.k = s.k AND s.k = t.k AND r.x < t.x - 20",
        "grid": "r.k = s.k AND s.x = t.x",
    }[spread]
    window = wm.Range("6 s", time="ts", lateness="8 s")
    joined = stream_join(
        condition,
        **streams,
        windows=dict.fromkeys(sides, window),
        how="full" if len(sides) == 2 else "inner",
        select=", ".join(f"{side}.id AS {side}id" for side in sides),
        state=f"{folder}/state",
        cores=cores,
    )
    writer = joined.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.option("path", f"{folder}/out").trigger(availableNow=True).start()
    query.awaitTermination()
    Path(folder, "done").touch()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
