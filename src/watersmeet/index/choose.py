"""Which index a new sub-window gets: the paper's strategy (panjoin.txt V.A.4), checked against a cost model measured on this engine.

The paper: BI-Sort where batches or selectivity are large; else RaP-Table where values do not keep increasing; else WiB+-Tree. Measured
here (``watersmeet bench engine``: nanoseconds a row, stored and probed, window 1M), BI-Sort is ahead from batches of about a thousand
rows on, by three to four times at 32K; below that what a call from Python costs evens them out. For an equality the hash index is
ahead where batches are small beside the sub-window. The constants in ``cost`` are fitted to those figures. They are ratios between
kernels of one machine: another machine shifts them together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from watersmeet.index.base import Index
from watersmeet.index.bi_sort import BUFFERED, BISort
from watersmeet.index.dense import Dense
from watersmeet.index.grid import Grid
from watersmeet.index.hash import HashIndex
from watersmeet.index.rap_table import RapTable
from watersmeet.index.scan import Scan
from watersmeet.index.wib_tree import WibTree

# Rows of the first sub-window of dense keys, of large batches: nothing is merged into it, so a probe should meet few.
LARGE = 1 << 20


@dataclass(slots=True)
class Habits:
    """What a stream has been like lately; moving averages over batches."""

    batch: float = 0.0  # rows of this stream a batch
    probes: float = 0.0  # rows of the other stream a batch
    matches: float = 1.0  # matches per probe and sub-window
    increasing: float = 0.0  # share of batches whose smallest key was above all before

    def learn(self, what: str, value: float) -> None:
        old = getattr(self, what)
        if old != value:
            new = value if old == 0.0 else 0.8 * old + 0.2 * value
            # So near that nobody could tell: then there is nothing to learn until something changes.
            setattr(self, what, value if abs(new - value) < 1e-3 * value else new)


def cost(kind: str, habits: Habits, size: int) -> float:
    """Nanoseconds to store a row, and to probe once, in a sub-window of ``size`` rows of this kind."""
    batch, matches = max(habits.batch, 1.0), habits.matches
    if (
        habits.batch and batch <= 16
    ):  # the short way: a call from Python costs more than anything below, and only BI-Sort has it
        return 0.0 if kind == "bi_sort" else 1.0
    gap = max(size / max(habits.probes, 1.0), 1.0)
    far = min(gap, 64.0)  # neighbouring probes share cache lines until they are this far apart
    if kind == "bi_sort":
        return 45 + 350_000 / batch + 1.5 * size / max(batch, BUFFERED) + 2 * far + 1.5 * matches
    if kind == "rap_table":
        skew = (
            1.0 + habits.increasing * size / 1024
        )  # all rows of the sub-window end up in the last partitions
        return 165 + 700_000 / batch + 8 * far * skew + 3 * matches
    if kind == "wib_tree":
        return 200 + 700_000 / batch + 10 * far + 3 * matches
    if kind == "hash":
        # Beyond a million rows the table is far larger than what caches and their page tables reach. TPC-H's Q3, SF 1, batches of 64K rows,
        # CPU time: 0.93 s by date and 0.79 mixed without sub-windows of 2M rows that are hashed, 1.32 and 0.87 with them.
        return 180 + 60 * max(0.0, log2(max(size, 1) / 2**20)) + 650_000 / batch + 0.5 * far + 2 * matches
    raise ValueError(kind)


def choose(kinds: tuple[str, ...], habits: Habits, size: int) -> str:
    """The cheapest of the kinds that may serve."""
    return kinds[0] if len(kinds) == 1 else min(kinds, key=lambda kind: cost(kind, habits, size))


def subwindow_size(
    window: int | None, stored: int, habits: Habits, kinds: Sequence[tuple[str, ...]] = ()
) -> int:
    """How many rows a new sub-window is made for. ``kinds``: what may serve as each of its indexes, where that is known.

    Each sub-window costs a probe about ``p`` ns, and merging into a large one ``m`` ns a row stored: the sum (W/N) p + N m / 2B is
    least at N = sqrt(2 W B p / m). p / m is about 15, and much more for tiny batches, where a call from Python is shared by few rows. At
    most half a window, so that no more than 1.5 windows of rows are held. Nothing is merged into a hash index, so it is made as large as
    that, 46 bytes a row of the window in place of 13. Measured, an equality, windows of 2^20 rows, CPU time a row: 1024 rows a push 0.73 us
    for 1.58, 4096 rows 0.42 for 0.50; three streams, 1024 rows a push, 2.5 ms a push for 3.5.
    """
    rows = window if window is not None else max(stored, 65_536)
    half = max(16, rows // 2 if window is not None else max(rows // 2, 65_536))
    if kinds and all(choose(one, habits, half) == HashIndex.name for one in kinds):
        return half
    if kinds and all(one == (Dense.name,) for one in kinds):
        return max(rows, 2 * stored, min(LARGE, int(32 * habits.batch)))
    batch = max(habits.batch, 1.0)
    best = (2 * rows * max(batch, BUFFERED) * (15 + 2000 / batch)) ** 0.5
    return int(max(16, min(max(best, 1024), half)))


INDEXES: dict[str, type[Index]] = {
    kind.name: kind for kind in (Scan, HashIndex, RapTable, WibTree, BISort, Grid, Dense)
}


def make_index(kind: str, capacity: int, predecessor: Index | None) -> Index:
    """An empty index of this kind for at most ``capacity`` rows. ``predecessor``: of the sub-window before, if there is one."""
    if predecessor is not None and predecessor.name == kind:
        return predecessor.successor(capacity)
    return INDEXES[kind](capacity)
