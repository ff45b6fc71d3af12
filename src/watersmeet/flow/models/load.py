"""A push, cut into loads: what travels through a flow. Keys, codes and bounds are computed once for the whole push."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.flow.order import Order
from watersmeet.index.base import Bounds, Keys
from watersmeet.join.chain import Block, Check, Probe
from watersmeet.join.plan import Plan
from watersmeet.join.prepare import SLICE, Columns, cut_block
from watersmeet.streams.arrival import Validity
from watersmeet.streams.window import Window

_ONE_ROW = np.zeros(1, np.int32)


@dataclass(slots=True)
class Encounter(Probe):
    """A probe for flows in which rows meet in any order: it carries its own times, for the stored rows to look at."""

    times: np.ndarray | None = None


@dataclass(slots=True)
class Part:
    """Consecutive rows of one stream: as they are stored, and as they probe."""

    side: int
    block: Block
    probe: Encounter
    sequence: (
        int | np.ndarray
    )  # places of the rows among those of both streams; a number: of the first, and the others follow

    @property
    def first(self) -> int:
        return self.block.first

    @property
    def end(self) -> int:
        return self.block.first + self.block.count

    def places(self, probes: np.ndarray) -> np.ndarray:
        """The places of these rows (arrival numbers) in the sequence."""
        if isinstance(self.sequence, int):
            return probes + (self.sequence - self.block.first)
        return self.sequence[probes - self.block.first]


@dataclass(slots=True)
class Load:
    """Rows that travel together: of one stream, or, if the streams are interleaved, of both: then all are stored before any probes."""

    number: int
    parts: tuple[Part, ...]
    sequence: int  # place of the first row
    rows: int
    turns: tuple[int, int]  # how many loads with rows of each stream there were before
    gone: tuple[int, int]  # by stream: rows with a time code below this can never match again
    order: Order | None = None
    entered: float = 0.0


class Bounded:
    """The columns of one stream's share of a push, with the ends of what its rows look for in the other stream."""

    def __init__(self, plan: Plan, stream: str, side: int, columns: Columns, validity: Validity) -> None:
        self.side, self.columns, self.validity = side, columns, validity
        self.checks: list[Check] = [
            band.bounds(stream, codes) for band, codes in zip(plan.checks, columns.codes, strict=True)
        ]
        self._driver = plan.driver
        self._ends = plan.driver.ends(stream, columns.driving)

    def part(self, start: int, stop: int, sequence: int | np.ndarray) -> Part:
        """The rows [start, stop)."""
        checks: list[Check | None] = [
            [(lo[start:stop], hi[start:stop]) for lo, hi in check] for check in self.checks
        ]
        if stop - start == 1:
            block = self._one(start)
        else:
            block = cut_block(self.columns, start, stop)
        bounds = self._bounds(block.keys, start, stop)
        probe = Encounter(block.first, bounds, checks, self.validity.part(start, stop), times=block.times)
        return Part(self.side, block, probe, sequence)

    def _bounds(self, keys: Keys, start: int, stop: int) -> list[Bounds]:
        rows = keys.rows
        if not rows.size:
            return []
        found = []
        for ends in self._ends:
            mine = [array[start:stop] for array in ends]
            if stop - start > 1:
                mine = [array[rows] for array in mine]
            bounds = self._driver.bounds(mine, rows)
            if bounds.rows.size:
                found.append(bounds)
        return found

    def _one(self, i: int) -> Block:
        """A row by itself: nothing to sort."""
        columns, one = self.columns, slice(i, i + 1)
        codes = [array[one] for array in columns.codes]
        times = None if columns.times is None else columns.times[one]
        rows = _ONE_ROW
        if columns.usable is not None and not columns.usable[i]:
            one, rows = slice(0, 0), rows[:0]
        key, *beside = [array[one] for array in columns.driving]
        return Block(columns.first + i, 1, Keys(key, rows, tuple(beside)), codes, times)


class Cutter:
    """Cuts pushes into loads of ``granularity`` rows, and counts them."""

    def __init__(self, granularity: int, windows: Sequence[Window] = ()) -> None:
        self.granularity = granularity
        # All rows of an interleaved load meet before their ranges are looked at: one much longer than the windows meets in vain.
        counted = [2 * window.rows for window in windows if window.rows is not None]
        self.interleaving = min(granularity, max(SLICE, *counted)) if counted else granularity
        self.number = self.sequence = 0
        self.turns = [0, 0]

    def in_turn(
        self, sequence: int, shares: Sequence[Bounded], gone: tuple[int, int], order: Order | None
    ) -> Iterator[Load]:
        """All rows of the first share, then all of the second. ``sequence``: place of the first row among those of both streams."""
        self.sequence = sequence
        for share in shares:
            count = share.columns.count
            for start in range(0, count, self.granularity):
                stop = min(start + self.granularity, count)
                part = share.part(start, stop, self.sequence)
                yield self._load((part,), stop - start, gone, order)

    def interleaved(
        self,
        sequence: int,
        shares: Sequence[Bounded],
        streams: np.ndarray,
        gone: tuple[int, int],
        order: Order | None,
    ) -> Iterator[Load]:
        """In the order of ``streams``: the stream of each row."""
        self.sequence = sequence
        by_side = {share.side: share for share in shares}
        taken = [0, 0]
        for start in range(0, streams.size, self.interleaving):
            sides = streams[start : start + self.interleaving]
            parts = []
            for side, share in by_side.items():
                places = np.flatnonzero(sides == side)
                if places.size:
                    begin = taken[side]
                    taken[side] += places.size
                    parts.append(share.part(begin, taken[side], places + self.sequence))
            yield self._load(tuple(parts), sides.size, gone, order)

    def _load(self, parts: tuple[Part, ...], rows: int, gone: tuple[int, int], order: Order | None) -> Load:
        load = Load(self.number, parts, self.sequence, rows, (self.turns[0], self.turns[1]), gone, order)
        self.number += 1
        self.sequence += rows
        for part in parts:
            self.turns[part.side] += 1
        return load
