"""Hash index for equality: the thesis's hash-based stream join (section 7.1.5) made for a CPU.

The thesis has two hash functions, four tables and an overflow buffer, searched in parallel. Here the two hash
functions choose two buckets of five slots, each one cache line, so that a probe costs one cache miss, or two
if the first bucket is full. What fits neither, even after moving a neighbour, goes to a small overflow
buffer, which only the probes of two full buckets look at. A slot holds a distinct key, once; its rows are
kept together beside the table, so a key with a million rows takes one slot, one search, and a copy.

The thesis's order window, which says where the oldest row is stored so that it can be taken out, is left out:
a sub-window is dropped whole, and which of its rows a probe may still see is decided by their arrival
numbers, not by the index.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from watersmeet.errors import ConditionError
from watersmeet.index.base import Bounds, Index, Keys, PairBuffer
from watersmeet.kernels import hash as kernels

KEYS_IN_BUCKET = 2.5
LINE_BYTES = 64


class HashIndex(Index):
    """Two-choice buckets of distinct keys, with the rows of each key in chunks."""

    name: ClassVar[str] = "hash"

    def __init__(self, capacity: int) -> None:
        self.buckets = max(2, int(capacity / KEYS_IN_BUCKET) + 1)
        self.slots = _lines(self.buckets)
        self.values = self.slots.view(np.int32)
        self.overflow = np.zeros(16, np.int64)
        self.overflow_values = np.zeros(16, np.int32)
        self.chunks = np.zeros(256, np.int32)
        self.used = np.zeros(2, np.int64)

    def insert(self, keys: Keys, offset: int) -> None:
        # Equal keys are side by side, as in any sorted batch: a slot is looked for once.
        mixed, rows = _mixed(keys.key), keys.rows_from(offset)
        touched = np.empty(kernels.BLOCK, np.int64)
        done = 0
        while done < keys.size:
            table = (self.slots, self.values, self.buckets, self.overflow, self.overflow_values)
            done = kernels.insert(mixed, rows, done, *table, self.chunks, self.used, touched)
            if done < keys.size:
                self._grow()

    def _grow(self) -> None:
        """Double whichever of the overflow buffer and the chunks stopped an insert; both are small at
        first.
        """
        if self.used[kernels.IN_OVERFLOW] == len(self.overflow):
            self.overflow = _doubled(self.overflow)
            self.overflow_values = _doubled(self.overflow_values)
        else:
            self.chunks = _doubled(self.chunks)

    def pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        """Yield the number of candidates in ``buffer``, again and again; ``lo`` must be ``hi`` (or above:
        no match).
        """
        lo, hi, probes = bounds.lo, bounds.hi, bounds.rows
        found = np.empty(len(lo), np.int32)
        table = (self.slots, self.values, self.buckets, self.overflow, self.overflow_values)
        touched = np.empty(kernels.BLOCK, np.int64)
        if not kernels.find(_mixed(lo), lo, hi, *table, self.used, touched, found):
            raise ConditionError(
                "a hash index must be probed with single keys; got a range; use another index"
            )
        chunks = self.chunks
        state = np.array([0, -1, 0], np.int64)
        while state[kernels.PROBE] < len(found):
            count = kernels.collect(found, probes, chunks, state, buffer.probe, buffer.row)
            if count:
                yield count

    def seal(self) -> None:
        """No more rows will come: give back the chunks that are not used."""
        self.chunks = self.chunks[: self.used[kernels.IN_CHUNKS]].copy()

    @property
    def nbytes(self) -> int:
        """Bytes held by buckets, overflow buffer and chunks."""
        arrays = (self.slots, self.overflow, self.overflow_values, self.chunks, self.used)
        return sum(array.nbytes for array in arrays)


def _mixed(keys: np.ndarray) -> np.ndarray:
    """Return the keys mixed, as int64."""
    mixed = np.empty(len(keys), np.uint64)
    kernels.mix(keys.view(np.uint64), mixed)
    return mixed.view(np.int64)


def _lines(count: int) -> np.ndarray:
    """Return zeros for ``count`` buckets, each on a cache line of its own."""
    line = kernels.LINE
    room = np.zeros((count + 1) * line, np.int64)
    skip = -room.ctypes.data % LINE_BYTES // room.itemsize
    return room[skip : skip + count * line]


def _doubled(array: np.ndarray) -> np.ndarray:
    """Return a copy with as much room again."""
    return np.concatenate((array, np.zeros(len(array), array.dtype)))
