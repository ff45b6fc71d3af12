"""What users bring: trades and quotes in Parquet files, joined on a text, a band of prices and a bound in time."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.spark.bench.files import read_files, times, write_files

SYMBOLS = 500
CENTS = 10_000  # prices lie between 100 and 200
BAND = 0.05
SCHEMA = "n long, ts timestamp, sym string, price double"
STREAMS = ("r", "s")


def write(folder: Path, sizes: tuple[int, ...], rate: int, held: int = 0) -> None:
    """A file a stream and batch; ``rate`` rows of a stream are a second of event time."""
    symbols = pa.array([f"SYM{number:04d}" for number in range(SYMBOLS)])
    for number, stream in enumerate(STREAMS):

        def columns(batch: int, n: np.ndarray, number: int = number) -> dict[str, Any]:
            random = np.random.default_rng([number, batch])
            return {
                "n": n,
                "ts": times(n, rate),
                "sym": symbols.take(pa.array(random.integers(0, SYMBOLS, n.size))),
                "price": 100 + random.integers(0, CENTS, n.size) / 100,
            }

        write_files(folder / stream, sizes, columns)


def read(spark: Any, folder: Path, stream: str) -> Any:
    """One file a micro-batch."""
    return read_files(spark, folder / stream, SCHEMA)


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
