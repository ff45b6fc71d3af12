"""A query host on a multi-process Spark, started again and again by ``test_host_faults``: until it is told to stop; then all that is
there."""

import sys
import time
from pathlib import Path

from spark.hosted import SPARK_COLUMNS, STREAMS, WINDOWS
from watersmeet.spark import QueryHost, session

SETTINGS = {
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


def main(folder: str, cores: int) -> None:
    spark = session("host faults", **SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    streams = {
        stream: spark.readStream.schema(SPARK_COLUMNS)
        .option("maxFilesPerTrigger", 1)
        .option("pathGlobFilter", "*.parquet")
        .parquet(f"{folder}/{stream}")
        for stream in STREAMS
    }
    host = QueryHost(
        streams, WINDOWS, f"{folder}/control", state=f"{folder}/state", cores=cores, most_cores=3
    )
    query = host.start(f"{folder}/out", checkpoint=f"{folder}/checkpoint")
    while query.isActive and not Path(folder, "stop").exists():
        time.sleep(0.2)
    query.processAllAvailable()
    query.stop()
    Path(folder, "done").touch()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
