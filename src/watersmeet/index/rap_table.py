"""RaP-Table: a sub-window cut into P ranges of keys, meant to hold equally many rows (PanJoin, III.B).

The ranges come from the sub-window before it: its three histograms (count, least and greatest key of each
partition) say how the keys were spread, and ``adjust`` moves the splitters to where they would have balanced
it. A table without a predecessor that knows something learns from its own rows instead: whenever it has grown
eightfold it takes their quantiles and starts again, which in all costs about one sort of its rows at most.
``initial="even"`` gives the paper's start, splitters spread evenly over the 32-bit integers.

Keys that keep growing end up in the last partition: then a WiB+-Tree is the right index.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from watersmeet.index.base import Bounds, Index, Keys, PairBuffer, ascending
from watersmeet.index.llat import Llat
from watersmeet.kernels import rap_table as kernels

# Tried 8 to 64 at 128K rows, batches of 32K: inserts gain and probes lose with size; 8 and 16 probe alike.
ROWS_IN_PARTITION = 16
SIGMA = 1.25
LEARN_AGAIN = 8


class RapTable(Index):
    """Range partitions over an LLAT; splitters adjusted from one sub-window to the next."""

    name: ClassVar[str] = "rap_table"

    def __init__(
        self,
        capacity: int,
        predecessor: "RapTable | None" = None,
        *,
        partitions: int | None = None,
        initial: Literal["learn", "even"] = "learn",
    ) -> None:
        self.capacity = max(capacity, 1)
        self.partitions = partitions or -(-self.capacity // ROWS_IN_PARTITION)
        self.count = 0
        self.splitters = np.full(self.partitions - 1, kernels.GREATEST, np.int64)
        # 0: learn at the next insert; infinite: the splitters stay.
        self._learn_at: float = float("inf")
        if predecessor is not None and predecessor.count >= predecessor.partitions:
            kernels.adjust(predecessor.counts, predecessor.least, predecessor.greatest, self.splitters)
        elif initial == "even":
            info = np.iinfo(np.int32)
            self.splitters[:] = np.linspace(info.min, info.max, self.partitions + 1)[1:-1]
        else:
            self._learn_at = 0
        self._clear()

    def _clear(self) -> None:
        """Start with empty partitions, under the splitters there are."""
        width = int(self.capacity / self.partitions * SIGMA) + 1
        self.llat = Llat(2 * self.partitions, width, self.partitions)
        self.counts = np.zeros(self.partitions, np.int64)
        self.least = np.zeros(self.partitions, np.int64)
        self.greatest = np.zeros(self.partitions, np.int64)

    def insert(self, keys: Keys, offset: int) -> None:
        key, rows = keys.key, keys.rows_from(offset)
        if self.count + key.size >= max(self._learn_at, 1):
            key, rows = self._learn(key, rows)
        t = self.llat
        histograms = (self.counts, self.least, self.greatest)
        places = (t.keys, t.rows, t.start, t.used, t.link, t.last, t.fresh)
        kernels.insert(key, rows, self.splitters, *histograms, t.width, *places)
        self.count += key.size

    def _learn(self, keys: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take new splitters from all rows, old and new; empty the table and return what must now go into
        it.
        """
        if self.count:
            old_keys, old_rows, _, _ = self.llat.gathered(self.count)
            keys, rows = np.concatenate((old_keys, keys)), np.concatenate((old_rows, rows))
            order = np.argsort(keys, kind="stable")
            keys, rows = keys[order], rows[order]
            self.count = 0
            self._clear()
        kernels.quantiles(keys, self.splitters)
        self._learn_at = len(keys) * LEARN_AGAIN
        return keys, rows

    def pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        lo, hi, probes = bounds.lo, ascending(bounds.hi), bounds.rows
        low, up = np.empty(len(lo), np.int32), np.empty(len(lo), np.int32)
        kernels.find_targets(lo, hi, self.splitters, low, up)
        yield from self.llat.pairs(low, up, lo, hi, probes, buffer)

    def seal(self) -> None:
        """No more rows will come: give back the room that is not used."""
        self.llat.seal(self.count)

    def successor(self, capacity: int) -> "RapTable":
        return RapTable(capacity, self)

    @property
    def nbytes(self) -> int:
        """Bytes held by partitions, splitters and histograms."""
        tables = (self.splitters, self.counts, self.least, self.greatest)
        return self.llat.nbytes + sum(table.nbytes for table in tables)
