"""Three streams on one key, from Parquet files: one operator of ours, a chain of two of ours, a chain of two of Spark's own joins.

What stays true: a combination counts iff every two of its rows are within the windows of each other, in all three. Times are exact
multiples of row numbers, so a chain can say of its second join what the windows leave open: two of the three pairs.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.spark.bench.files import read_files, times, write_files

STREAMS = ("r", "s", "t")
SCHEMA = "n long, ts timestamp, key long"


def write(folder: Path, sizes: tuple[int, ...], rate: int, held: int) -> None:
    """Keys are as many as rows in a window: a row finds about two partners in each other stream."""
    for number, stream in enumerate(STREAMS):

        def columns(batch: int, n: np.ndarray, number: int = number) -> dict[str, Any]:
            random = np.random.default_rng([7, number, batch])
            return {"n": n, "ts": times(n, rate), "key": pa.array(random.integers(0, held, n.size))}

        write_files(folder / stream, sizes, columns)


def read(spark: Any, folder: Path, stream: str) -> Any:
    """One file a micro-batch."""
    return read_files(spark, folder / stream, SCHEMA)


def by_watersmeet(r: Any, s: Any, t: Any, held: str) -> Any:
    """One operator."""
    from watersmeet.spark import stream_join
    from watersmeet.streams.window import Range

    return stream_join(
        "r.key = s.key AND s.key = t.key",
        r=r,
        s=s,
        t=t,
        windows=dict.fromkeys(STREAMS, Range(held, time="ts")),
        select="r.n AS rn, s.n AS sn, t.n AS tn",
    )


def by_chain(r: Any, s: Any, t: Any, held: str) -> Any:
    """Two operators of ours, one after the other."""
    from watersmeet.spark import stream_join
    from watersmeet.streams.window import Range

    window = Range(held, time="ts")
    both = stream_join(
        "r.key = s.key",
        r=r,
        s=s,
        windows={"r": window, "s": window},
        select="r.n AS rn, s.n AS sn, r.ts AS rt, s.ts AS st, r.key AS key",
    )
    return stream_join(
        f"a.key = t.key AND {within('a.st', 't.ts', held)}",
        a=both,
        t=t,
        windows={"a": Range(held, time="rt"), "t": window},
        select="a.rn, a.sn, t.n AS tn",
    )


def by_spark(r: Any, s: Any, t: Any, held: str) -> Any:
    """Two of Spark's own joins, one after the other."""
    from pyspark.sql.functions import expr

    left = r.selectExpr("ts AS rt", "n AS rn", "key AS rk").withWatermark("rt", "0 seconds")
    right = s.selectExpr("ts AS st", "n AS sn", "key AS sk").withWatermark("st", "0 seconds")
    third = t.selectExpr("ts AS tt", "n AS tn", "key AS tk").withWatermark("tt", "0 seconds")
    both = left.join(right, expr(f"rk = sk AND {within('rt', 'st', held)}"))
    # A stream may have one column with a watermark: the other time goes on as a number.
    both = both.selectExpr("rt", "rn", "rk", "sn", "unix_micros(st) AS st")
    apart = 1000 * int(held.replace(" ms", ""))
    bounds = (
        f"{within('rt', 'tt', held)} AND st BETWEEN unix_micros(tt) - {apart} AND unix_micros(tt) + {apart}"
    )
    return both.join(third, expr(f"rk = tk AND {bounds}")).select("rn", "sn", "tn")


def within(one: str, other: str, held: str) -> str:
    """Two times that are not further apart than a window."""
    apart = f"INTERVAL {held.replace(' ms', '')} MILLISECONDS"
    return f"{one} BETWEEN {other} - {apart} AND {other} + {apart}"
