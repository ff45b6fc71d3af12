"""A core between two batches, as plain values: what its manifest keeps of it, and what it is made again from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from watersmeet.spark.state.runs import Run
from watersmeet.streams.payload import Payload


@dataclass(frozen=True)
class CoreState:
    """All that is known of a core but its rows. Numbers only: everything but ``runs`` goes into JSON as it is."""

    numbers: dict[str, Any]  # the engine's own: arrival numbers, clocks, sub-windows, plan
    totals: list[int]  # rows that have arrived of each stream, on all cores where they are counted so
    habits: list[list[float]]
    late: list[int]  # rows of each stream that this core has refused as late, in all
    runs: list[list[Run]]  # of each stream, where its rows lie; none: nothing has been written yet
    watermark: str | None = None  # for people


@dataclass(frozen=True)
class StoredRows:
    """The rows [first, end) of one stream that a core holds, by its own arrival numbers."""

    first: int
    end: int
    rows: int  # in sub-windows
    payload: Payload
    done: np.ndarray | None  # which of them need no more attention; None: nobody asks
    seen: Callable[[int, int], dict[str, np.ndarray]] | None = (
        None  # by name, what rows [start, stop) had seen of other streams
    )
