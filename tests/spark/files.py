"""Streams of small files for tests on Spark: a file a micro-batch, and the rows that went in."""

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.timestamp("us", tz="UTC")), ("x", pa.int64()), ("k", pa.string())]
)
SPARK_SCHEMA = "id long, ts timestamp, x long, k string"
SECOND = 1_000_000


class Files:
    """A folder for each of two streams, or more."""

    def __init__(self, folder: Path, seed: int = 0, sides: str = "rs") -> None:
        self.folder, self.random, self.sides = folder, random.Random(seed), sides
        self.batches: list[list[tuple[str, dict[str, Any]]]] = []
        self.ids = dict.fromkeys(sides, 0)
        for side in sides:
            (folder / side).mkdir(parents=True)

    def add(self, rows: int, sides: str = "") -> None:
        """One more micro-batch; time moves on by about five seconds, with some rows far behind."""
        number, events, sides = len(self.batches), [], sides or self.sides
        for side in sides:
            events += [(side, self._row(side, number)) for _ in range(rows)]
        for side in sides:
            self._write(side, number, [row for stream, row in events if stream == side])
        self.batches.append(events)

    def _row(self, side: str, number: int) -> dict[str, Any]:
        pick = self.random.randrange
        behind = pick(20) if pick(8) == 0 else pick(4)
        row = {
            "id": self.ids[side],
            "ts": max(0, 5 * number + 4 - behind),
            "x": pick(30),
            "k": "abc"[pick(3)],
        }
        self.ids[side] += 1
        return row

    def _write(self, side: str, number: int, rows: list[dict[str, Any]]) -> None:
        stored = [{**row, "ts": row["ts"] * SECOND} for row in rows]
        table = pa.table(
            {
                name: pa.array([row[name] for row in stored], SCHEMA.field(name).type)
                if name != "ts"
                else pa.array([row["ts"] for row in stored], pa.int64()).cast(SCHEMA.field("ts").type)
                for name in SCHEMA.names
            }
        )
        path = self.folder / side / f"{number:05d}.parquet"
        pq.write_table(table, path.with_suffix(".tmp"))
        os.utime(path.with_suffix(".tmp"), (1_700_000_000 + number, 1_700_000_000 + number))
        os.rename(path.with_suffix(".tmp"), path)

    def stream(self, spark: Any, side: str) -> Any:
        reader = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.option("pathGlobFilter", "*.parquet").parquet(str(self.folder / side))

    def table(self, spark: Any, side: str) -> Any:
        return (
            spark.read.schema(SPARK_SCHEMA)
            .option("pathGlobFilter", "*.parquet")
            .parquet(str(self.folder / side))
        )
