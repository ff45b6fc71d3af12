"""The demo's own check: all pairs once more, from the numbers of the rows alone, with NumPy.

The rows of both streams are made anew. Which of them were late follows from which rows each micro-batch brought.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.spark.demo.setting import (
    BAND,
    DISORDER_MS,
    LATENESS_SECONDS,
    RATE,
    STRAGGLERS,
    STRAGGLING_SECONDS,
    WINDOW_SECONDS,
)
from watersmeet.spark.sources.options import Options
from watersmeet.spark.sources.rows import WORKLOAD_STREAMS, workload_rows


def check(found: pa.Table, batches: list[dict[str, Any]], rows: int) -> tuple[bool, str]:
    """Are the pairs in ``found`` exactly those of the first ``rows`` rows? And a sentence that says what was compared."""
    streams = [made(name, rows) for name in WORKLOAD_STREAMS]
    late = late_rows([stream["ts"] for stream in streams], [batch["spans"] for batch in batches])
    r, s = (
        {name: values[~mask] for name, values in stream.items()}
        for stream, mask in zip(streams, late, strict=True)
    )
    expected = pairs(r, s)
    pair = (found.column("r").to_numpy() << 32) | found.column("s").to_numpy()
    agrees = bool(np.array_equal(np.sort(pair), expected))
    return (
        agrees,
        f"all {expected.size:,} pairs of {2 * rows:,} rows, {sum(mask.sum() for mask in late):,} of them late",
    )


def made(stream: str, rows: int) -> dict[str, np.ndarray]:
    """The rows that the source gives, from the same numbers."""
    options = Options(
        stream=stream,
        rate=RATE,
        disorder=DISORDER_MS * 1000,
        lateness=int(STRAGGLING_SECONDS * 1e6),
        stragglers=STRAGGLERS,
    )
    table = pa.Table.from_batches(workload_rows(options).take(0, rows))
    table = table.set_column(0, "ts", table.column("ts").cast(pa.int64()))
    return {name: table.column(name).to_numpy() for name in table.schema.names if name not in ("z", "c", "d")}


def late_rows(times: list[np.ndarray], batches: list[list[tuple[int, int]]]) -> list[np.ndarray]:
    """Which rows are below the watermark of the micro-batches before theirs."""
    floor = np.iinfo(np.int64).min // 2
    newest, late = [floor, floor], [np.zeros(column.size, bool) for column in times]
    for spans in batches:
        watermark = min(newest) - int(LATENESS_SECONDS * 1e6)
        for k, (start, end) in enumerate(spans):
            late[k][start:end] = times[k][start:end] < watermark
            newest[k] = max(newest[k], int(times[k][start:end].max(initial=floor)))
    return late


def pairs(r: dict[str, np.ndarray], s: dict[str, np.ndarray]) -> np.ndarray:
    """All pairs near in both coordinates and in time, as ``r << 32 | s``, ascending: cell by cell of a grid over the plane."""
    across = 100_000  # more cells than a row of the plane has
    cell = (s["a"].astype(np.int64) // BAND) * across + (s["b"] // BAND).astype(np.int64)
    order = np.argsort(cell, kind="stable")
    cell = cell[order]
    found = []
    for dx in (-1, 0, 1):
        for dy in (-1, 0, 1):
            wanted = (r["x"].astype(np.int64) // BAND + dx) * across + (r["y"] // BAND).astype(np.int64) + dy
            low, high = (np.searchsorted(cell, wanted, side) for side in ("left", "right"))
            probe = np.repeat(np.arange(wanted.size), high - low)
            within = np.arange(probe.size) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
            stored = order[np.repeat(low, high - low) + within]
            found.append(_near(r, s, probe, stored))
    return np.sort(np.concatenate(found))


def _near(
    r: dict[str, np.ndarray], s: dict[str, np.ndarray], probe: np.ndarray, stored: np.ndarray
) -> np.ndarray:
    x, y, a, b = r["x"][probe], r["y"][probe], s["a"][stored], s["b"][stored]
    width = np.float32(BAND)  # the sum is taken in the columns' own type, as the text s.b - 10 says
    apart = np.abs(r["ts"][probe] - s["ts"][stored])
    holds = (
        (x >= a - BAND)
        & (x <= a + BAND)
        & (y >= b - width)
        & (y <= b + width)
        & (apart <= WINDOW_SECONDS * 1e6)
    )
    return (r["n"][probe[holds]] << 32) | s["n"][stored[holds]]
