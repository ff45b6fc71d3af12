"""The manager's mirror of the main arrays (panjoin.txt III.D): it makes pairs of records of ranges.

What stays true: after the batches that ``closed`` told of, its arrays are those of the hardware, row by row; a record speaks of the
arrays as they were before its own batch. The filter of the oldest and the newest sub-windows is applied here, by arrival numbers.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from watersmeet.errors import DataError
from watersmeet.hardware.joins.driving import SIDES, Keys, Passage

Row = tuple[int, int, int]  # key, number, seen


def mirrored_pairs(design: Any, passage: Passage, keys: Keys) -> list[tuple[int, ...]]:
    """The pairs behind ``results`` that are ranges; ``results`` themselves if they are pairs."""
    results = passage.given["results"]
    if not design.sizes.ranges:
        return [(one["left"], one["right"]) for one in results]
    if len(passage.given["closed"]) >= 1 << 16:
        raise DataError("a run with ranges must have fewer than 65536 batches; make batches longer")
    mirror = Mirror(design.sizes.units, design.sizes.sub_window, design.sizes.windows)
    return list(mirror.pairs(_stamped(passage.order, keys), passage.given["closed"], results))


def _stamped(order: Sequence[tuple[str, int]], keys: Keys) -> list[list[Row]]:
    rows: list[list[Row]] = [[], []]
    for side, number in order:
        at = SIDES.index(side)
        rows[at].append((keys[side][number], number, len(rows[1 - at])))
    return rows


class Mirror:
    """The sub-windows of both streams."""

    def __init__(self, units: tuple[int, int], capacity: int, windows: tuple[int, int]) -> None:
        self.capacity, self.windows = capacity, windows
        self.units: list[list[list[Row]]] = [[[] for _ in range(count)] for count in units]
        self.newest = [0, 0]

    def pairs(
        self,
        rows: Sequence[Sequence[Row]],
        closed: Iterable[Mapping[str, int]],
        records: Iterable[Mapping[str, int]],
    ) -> Iterable[tuple[int, int]]:
        """Arrival numbers, left and right, of all results."""
        of_batch = defaultdict(list)
        for record in records:
            of_batch[record["batch"]].append(record)
        gone = [0, 0]
        for number, batch in enumerate(closed):
            side, first = batch["side"], gone[batch["side"]]
            for record in of_batch[number]:
                probe = rows[side][record["number"]]
                stored = self.units[1 - side][record["unit"]]
                for row in stored[record["start"] : record["end"]]:
                    left, right = (row, probe) if side else (probe, row)
                    if self.sees(left, right):
                        yield left[1], right[1]
            gone[side] = first + batch["count"]
            self.merge(side, rows[side][first : gone[side]])

    def sees(self, left: Row, right: Row) -> bool:
        """Whether the later of the two sees the earlier one."""
        if right[1] < left[2]:
            return left[2] - right[1] <= self.windows[1]
        return right[2] - left[1] <= self.windows[0]

    def merge(self, side: int, rows: Sequence[Row]) -> None:
        """A batch into the newest sub-window, or into the oldest, emptied, if that is full."""
        units = self.units[side]
        if len(units[self.newest[side]]) == self.capacity:
            self.newest[side] = (self.newest[side] + 1) % len(units)
            units[self.newest[side]].clear()
        # Of equal keys the older row is first, as the merger leaves them.
        units[self.newest[side]].extend(rows)
        units[self.newest[side]].sort(key=lambda row: row[:2])
