"""Linked list adaptive table (LLAT): partitions of unknown sizes in memory of a known size (PanJoin, section
III.B.2).

Every partition starts with one entry of ``width`` slots and goes on in further entries, linked as it needs
them. Entries are taken in order and never given back, so finding one is a counter (PtrG, here ``fresh``). The
paper's *Tail* pointer, for expiring rows one by one, is left out: a sub-window is dropped whole.

With P partitions, N rows and width > N / P, 2P entries are enough: an entry is linked only behind a full one,
and P full entries would hold more than N rows, so fewer than P entries are ever linked.

``seal`` moves the rows of all partitions together in key order: it needs 12 bytes a row from then on, instead
of 30, and no partition is in pieces. A sealed table is probed by the same kernels.
"""

from collections.abc import Iterator

import numpy as np

from watersmeet.index.base import PairBuffer
from watersmeet.kernels import llat as kernels


class Llat:
    """Storage of rows by partition; who belongs where is decided by the index that owns the table."""

    __slots__ = ("after", "fresh", "keys", "last", "link", "rows", "start", "used", "width")

    def __init__(self, entries: int, width: int, partitions: int) -> None:
        self.width = width
        self.keys = np.empty(entries * width, np.int64)
        self.rows = np.empty(entries * width, np.int32)
        self.start = np.arange(entries, dtype=np.int64) * width
        self.used = np.zeros(entries, np.int32)
        self.link = np.full(entries, -1, np.int32)
        self.last = np.arange(entries, dtype=np.int32)
        self.after = np.full(entries, -1, np.int32)
        self.after[: partitions - 1] = np.arange(1, partitions, dtype=np.int32)
        self.fresh = np.array([partitions], np.int64)

    @property
    def entries(self) -> int:
        """How many entries there are, used or not."""
        return len(self.used)

    def grow(self, entries: int) -> None:
        """Make room for more entries; those there are keep their numbers and their rows."""
        wider = Llat(entries, self.width, 1)
        wider.fresh = self.fresh
        for name in ("keys", "rows", "used", "link", "last", "after"):
            old = getattr(self, name)
            getattr(wider, name)[: len(old)] = old
        for name in self.__slots__:
            setattr(self, name, getattr(wider, name))

    def gathered(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return keys and rows of all ``count`` rows, partition after partition in key order; starts and
        sizes.
        """
        keys, rows = np.empty(count, np.int64), np.empty(count, np.int32)
        start, used = np.zeros(self.entries, np.int64), np.zeros(self.entries, np.int32)
        kernels.gather(
            0, self.after, self.keys, self.rows, self.start, self.used, self.link, keys, rows, start, used
        )
        return keys, rows, start, used

    def seal(self, count: int) -> None:
        """Move the ``count`` rows together. New arrays: a probe that is under way goes on with the old
        ones.
        """
        self.keys, self.rows, self.start, self.used = self.gathered(count)
        self.link = np.full(self.entries, -1, np.int32)

    def pairs(
        self,
        low: np.ndarray,
        up: np.ndarray,
        lo: np.ndarray,
        hi: np.ndarray,
        probes: np.ndarray,
        buffer: PairBuffer,
    ) -> Iterator[int]:
        """Yield candidates as ``Index.pairs`` does, for probes whose bounds fall in partitions ``low`` and
        ``up``.
        """
        state = np.zeros(kernels.STATE_SIZE, np.int64)
        state[kernels.ENTRY] = -1
        parts = (self.after, self.keys, self.rows, self.start, self.used, self.link)
        while state[kernels.PHASE] < kernels.DONE:
            found = kernels.collect(low, up, lo, hi, probes, *parts, state, buffer.probe, buffer.row)
            if found:
                yield found

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        return sum(getattr(self, name).nbytes for name in self.__slots__ if name != "width")
