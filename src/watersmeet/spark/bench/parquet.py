"""What users bring: trades and quotes in Parquet files, joined on a text, a band of prices and a bound in time.

What stays true: a file is a micro-batch, and rows are a function of their number, so all systems read the same rows in the same batches.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SYMBOLS = 500
CENTS = 10_000  # prices lie between 100 and 200
BAND = 0.05
SCHEMA = "n long, ts timestamp, sym string, price double"
BASE = 1_767_603_600_000_000  # event time of row 0, in microseconds
STREAMS = ("r", "s")


def write(folder: Path, sizes: tuple[int, ...], rate: int) -> None:
    """A file a stream and batch, in order of time; ``rate`` rows of a stream are a second of event time."""
    symbols = pa.array([f"SYM{number:04d}" for number in range(SYMBOLS)])
    for number, stream in enumerate(STREAMS):
        (folder / stream).mkdir(parents=True)
        first = 0
        for batch, rows in enumerate(sizes):
            random = np.random.default_rng([number, batch])
            n = np.arange(first, first + rows)
            columns = {
                "n": n,
                "ts": pa.array(BASE + n * 1_000_000 // rate).cast(pa.timestamp("us", tz="UTC")),
                "sym": symbols.take(pa.array(random.integers(0, SYMBOLS, rows))),
                "price": 100 + random.integers(0, CENTS, rows) / 100,
            }
            path = folder / stream / f"{batch:05d}.parquet"
            pq.write_table(pa.table(columns), path)
            os.utime(path, (1_700_000_000 + batch,) * 2)  # Spark takes files by their time
            first += rows


def read(spark: Any, folder: Path, stream: str) -> Any:
    """One file a micro-batch."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / stream))


def by_watersmeet(r: Any, s: Any, held: str) -> Any:
    """Ours."""
    from watersmeet.spark import stream_join
    from watersmeet.streams.window import Range

    window = Range(held, time="ts")
    condition = f"r.sym = s.sym AND r.price BETWEEN s.price - {BAND} AND s.price + {BAND}"
    return stream_join(condition, r=r, s=s, windows={"r": window, "s": window}, select="r.n AS rn, s.n AS sn")


def by_spark(r: Any, s: Any, held: str) -> Any:
    """Spark's own join of the same condition."""
    from pyspark.sql.functions import expr

    left = r.selectExpr("ts AS rt", "n AS rn", "sym AS rsym", "price AS rp").withWatermark("rt", "0 seconds")
    right = s.selectExpr("ts AS st", "n AS sn", "sym AS ssym", "price AS sp").withWatermark("st", "0 seconds")
    apart = f"INTERVAL {held.replace(' ms', '')} MILLISECONDS"
    band = f"rp BETWEEN sp - {BAND} AND sp + {BAND}"
    return left.join(
        right, expr(f"rsym = ssym AND {band} AND rt BETWEEN st - {apart} AND st + {apart}")
    ).select("rn", "sn")
