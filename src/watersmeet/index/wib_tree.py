"""WiB+-Tree: a B+-tree with wide unsorted leaves, for keys whose range no one knows beforehand (PanJoin,
section III.C).

Leaves are partitions of an LLAT whose PtrG starts at the first entry. A leaf is sorted only when it is split;
nodes are narrow, sorted, without duplicates, and stay in the cache.

How much room is enough, for N rows and leaves of W (at least 4): a cut leaves a quarter of W or more in both
halves. A key that gets a leaf for itself has W / 2 rows or more by then, and is cut off once: with the two
small leaves beside it that makes at most 3 leaves for W / 2 rows. Opening a new last leaf leaves a full one
behind. So there are at most 6 N/W + 2 leaves, plus N/W linked entries behind full ones. Sorted and random
keys need between 1 and 2 N/W entries, so the tree starts with those, and doubles when they run out; the bound
says that it does so twice at most. Nodes are at least half full, but for the root.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from watersmeet.index.base import Bounds, Index, Keys, PairBuffer, ascending
from watersmeet.index.llat import Llat
from watersmeet.kernels import wib_tree as kernels

# Tried 16, 32, 48, 64, 128 at 128K rows: inserts are best from 32 to 64, probes at 16 and 32.
LEAF = 32
FANOUT = 64


class WibTree(Index):
    """A tree of ranges over an LLAT, split as rows come; needs no predecessor and does not mind increasing
    keys.
    """

    name: ClassVar[str] = "wib_tree"

    def __init__(self, capacity: int, *, leaf: int = LEAF, fanout: int = FANOUT) -> None:
        self.count = 0
        self.llat = Llat(2 * capacity // leaf + 4, leaf, 1)
        self.single = np.zeros(self.llat.entries, np.uint8)
        nodes = self.llat.entries * 2 // fanout + 8
        self.cut = np.empty(nodes * fanout, np.int64)
        self.child = np.empty(nodes * fanout, np.int32)
        self.size = np.zeros(nodes, np.int32)
        self.meta = np.array([0, 1, 1, fanout], np.int64)
        self.child[0] = 0
        self.size[0] = 1

    def insert(self, keys: Keys, offset: int) -> None:
        key, rows = keys.key, keys.rows_from(offset)
        done = 0
        path = _path()
        while done < key.size:
            t = self.llat
            nodes = (self.meta, self.cut, self.child, self.size)
            places = (t.keys, t.rows, t.start, t.used, t.link, t.last, t.fresh)
            done = kernels.insert(key, rows, done, *nodes, *path, self.single, t.after, t.width, *places)
            if done < key.size:
                self._grow()
        self.count += key.size

    def _grow(self) -> None:
        """Double entries and nodes."""
        self.llat.grow(2 * self.llat.entries)
        for name in ("single", "cut", "child", "size"):
            old = getattr(self, name)
            new = np.zeros(2 * len(old), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        lo, hi, probes = bounds.lo, ascending(bounds.hi), bounds.rows
        low, up = np.empty(len(lo), np.int32), np.empty(len(lo), np.int32)
        kernels.find_targets(lo, hi, self.meta, self.cut, self.child, self.size, *_path(), low, up)
        yield from self.llat.pairs(low, up, lo, hi, probes, buffer)

    def seal(self) -> None:
        """No more rows will come: give back the room that is not used."""
        self.llat.seal(self.count)

    @property
    def nbytes(self) -> int:
        """Bytes held by leaves and nodes."""
        return self.llat.nbytes + sum(
            a.nbytes for a in (self.single, self.cut, self.child, self.size, self.meta)
        )


def _path() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Room for one path, made anew for each call: several threads may probe at once."""
    length = kernels.LONGEST_PATH
    return np.empty(length, np.int32), np.empty(length, np.int32), np.empty(length, np.int64)
