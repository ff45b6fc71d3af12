"""Streams of Parquet files, as users have them: a file is a micro-batch, and its rows are a function of their numbers, so that all systems
read the same rows in the same batches."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BASE = 1_767_603_600_000_000  # event time of row 0, in microseconds
Columns = Callable[[int, np.ndarray], dict[str, Any]]  # of a batch and the numbers of its rows


def times(n: np.ndarray, rate: int) -> pa.Array:
    """Event times: ``rate`` rows are a second."""
    return pa.array(BASE + n * 1_000_000 // rate).cast(pa.timestamp("us", tz="UTC"))


def write_files(folder: Path, sizes: tuple[int, ...], columns: Columns) -> None:
    """A file a batch, in order of time."""
    folder.mkdir(parents=True)
    first = 0
    for batch, rows in enumerate(sizes):
        path = folder / f"{batch:05d}.parquet"
        pq.write_table(pa.table(columns(batch, np.arange(first, first + rows))), path)
        os.utime(path, (1_700_000_000 + batch,) * 2)  # Spark takes files by their time
        first += rows


def read_files(spark: Any, folder: Path, schema: str) -> Any:
    """One file a micro-batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
