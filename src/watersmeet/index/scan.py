"""The nested loop: every probe is compared with every stored key. The baseline, and what any condition can fall back on."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from watersmeet.index.base import Bounds, Index, Keys, PairBuffer
from watersmeet.kernels.probe import list_pairs


class Scan(Index):
    """Keys in the order of insertion; O(1) to insert, O(n) to probe."""

    name: ClassVar[str] = "scan"

    def __init__(self, capacity: int) -> None:
        self.keys = np.empty(capacity, np.int64)
        self.rows = np.empty(capacity, np.int32)
        self.start = self.used = 0  # keys[start:used] are looked at

    def insert(self, keys: Keys, offset: int) -> None:
        end = self.used + keys.size
        self.keys[self.used : end] = keys.key
        self.rows[self.used : end] = keys.rows_from(offset)
        self.used = end

    def pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        lo, hi, probes = bounds.lo, bounds.hi, bounds.rows
        state = np.array((self.start, 0, 0))
        while state[0] < self.used:
            yield list_pairs(self.keys, self.rows, self.used, lo, hi, probes, state, buffer.probe, buffer.row)

    def slide(self, capacity: int, rows: int) -> None:
        """Leave out what is before ``start``, where the rows below offset ``rows`` are; offsets move down by as much."""
        keys, offsets = np.empty(capacity, np.int64), np.empty(capacity, np.int32)
        left = self.used - self.start
        keys[:left] = self.keys[self.start : self.used]
        offsets[:left] = self.rows[self.start : self.used] - np.int32(rows)
        self.keys, self.rows, self.start, self.used = keys, offsets, 0, left

    def seal(self) -> None:
        self.keys, self.rows = self.keys[: self.used].copy(), self.rows[: self.used].copy()

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.rows.nbytes
