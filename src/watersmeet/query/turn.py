"""One push, or the end of the streams, on its way through the blocks: each is asked once, and so are its rows.

A block that fails has failed for all that read from it: it is not asked again, as its state may have changed.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import pyarrow as pa

from watersmeet.join.engine import JoinEngine
from watersmeet.join.matches import NOBODY
from watersmeet.join.outcome import Outcome
from watersmeet.query.block import Block
from watersmeet.query.delta import NOT_NOW, Delta, Part
from watersmeet.query.rules import Found, Place


@dataclass(frozen=True)
class GraphTurn:
    """A turn of all blocks. ``order``: the stream of each row, by its number among ``names``; None: one stream after the other."""

    schemas: Mapping[str, pa.Schema]
    batches: Mapping[str, pa.RecordBatch]
    firsts: Mapping[str, int]  # arrival number of each batch's first row
    outcomes: Mapping[JoinEngine, Outcome]
    names: Sequence[str] = ()
    order: np.ndarray | None = None
    ending: bool = False
    # Times to which streams have come without a row; and, of each, the place among the rows of the one that came next.
    clocks: Mapping[str, pa.Array] = field(default_factory=dict)
    clock_places: Mapping[str, np.ndarray] = field(default_factory=dict)
    # The number of the push that has brought each row, by place, and by stream of those that have brought the times; None: it is this one.
    push_of: np.ndarray | None = None
    clock_pushes: Mapping[str, np.ndarray] = field(default_factory=dict)
    counts: bool = True  # whether blocks count what they give; of the past they do not
    uncounted: Collection[Block] = ()  # those that do not
    # Filters that are evaluated together: the set of each, and its number in it. Of the past none are: it is of one query.
    rules: Mapping[Block, Place] = field(default_factory=dict)
    _given: dict[Block, Delta] = field(default_factory=dict)
    _below: list[float] = field(
        default_factory=lambda: [0.0]
    )  # seconds that blocks have taken which others wait for
    _rows: dict[Block, pa.RecordBatch] = field(default_factory=dict)
    _sequences: dict[Block, tuple[np.ndarray, np.ndarray | None]] = field(default_factory=dict)
    _failed: dict[Block, Exception] = field(default_factory=dict)

    def schema(self, stream: str) -> pa.Schema:
        return self.schemas[stream]

    def arrived(self, stream: str) -> tuple[pa.RecordBatch, int] | None:
        batch = self.batches.get(stream)
        return None if batch is None else (batch, self.firsts[stream])

    def moves(self, stream: str) -> bool:
        return stream in self.batches or stream in self.clocks

    def places(self, stream: str) -> np.ndarray:
        if self.order is not None:
            return np.flatnonzero(self.order == self.names.index(stream))
        before = 0
        for name, batch in self.batches.items():
            if name == stream:
                return np.arange(before, before + batch.num_rows)
            before += batch.num_rows
        return np.empty(0, np.int64)

    def pushes(self, stream: str) -> tuple[np.ndarray, np.ndarray]:
        rows, times = self.places(stream), self.clocks.get(stream, ())
        mine = np.zeros(rows.size, np.int64) if self.push_of is None else self.push_of[rows]
        return mine, self.clock_pushes.get(stream, np.zeros(len(times), np.int64))

    def ticks(self, stream: str) -> tuple[pa.Array, np.ndarray] | None:
        times = self.clocks.get(stream)
        return (
            None if times is None else (times, self.clock_places.get(stream, np.zeros(len(times), np.int64)))
        )

    @property
    def asked(self) -> Set[Block]:
        """The blocks that have given something."""
        return self._given.keys()

    def joined(self, engine: JoinEngine) -> Outcome:
        return self.outcomes[engine]

    def of(self, block: Block) -> Delta:
        if block in self._failed:
            raise self._failed[block]
        if block not in self._given:
            below, begin = self._below, perf_counter()
            outside, below[0] = below[0], 0.0
            try:
                delta = block.give(self)
            except Exception as error:
                self._failed[block] = error
                raise
            finally:
                spent = perf_counter() - begin
                block.seconds += spent - below[0]
                below[0] = outside + spent
            if self.counts and block not in self.uncounted:
                block.rows += delta.count
            self._given[block] = delta
        return self._given[block]

    def found(self, block: Block) -> Delta | None:
        place = self.rules.get(block)
        if place is None:
            return None
        together, number = place
        found = self.of(together)
        assert isinstance(found, Found)
        return found.of(number)

    def rows(self, block: Block) -> pa.RecordBatch:
        if block not in self._rows:
            delta = self.of(block)
            batches = delta.gathered()
            if _in_sequence(delta):
                self._rows[block] = batches[0]
            else:
                _, order = self._sequence(block)
                self._rows[block] = pa.concat_batches(batches).take(pa.array(order))
        return self._rows[block]

    def caused(self, block: Block) -> np.ndarray:
        return self._sequence(block)[0]

    def _sequence(self, block: Block) -> tuple[np.ndarray, np.ndarray | None]:
        """The places of a block's rows, in sequence, and the order of the rows in that; None: as they are."""
        if block not in self._sequences:
            self._sequences[block] = self._sorted(self.of(block))
        return self._sequences[block]

    def _sorted(self, delta: Delta) -> tuple[np.ndarray, np.ndarray | None]:
        """By the arrival that has caused a row; of one arrival by part, pairs before rows without a partner, then by arrival numbers."""
        if _in_sequence(delta):
            (part,) = delta.parts
            return self._caused(part, part.matches.columns()), None
        width = max(len(part.leaves) for part in delta.parts)
        keys: list[list[np.ndarray]] = []
        for at, part in enumerate(delta.parts):
            numbers = part.matches.columns()
            size = numbers[0].size
            alone = np.logical_or.reduce([own == NOBODY for own in numbers])
            padding = [np.zeros(size, np.int64)] * (width - len(numbers))
            keys.append([self._caused(part, numbers), np.full(size, at), alone, *numbers, *padding])
        columns = [np.concatenate(column) for column in zip(*keys, strict=True)]
        order = np.lexsort(columns[::-1])
        return columns[0][order], order

    def _caused(self, part: Part, numbers: Sequence[np.ndarray]) -> np.ndarray:
        """The place of the last row of each result to arrive."""
        latest = np.full(numbers[0].size, NOT_NOW)
        for stream, own in zip(part.streams, numbers, strict=False):
            if stream in self.firsts:
                first, places = self.firsts[stream], self.places(stream)
                fresh = own >= first
                latest[fresh] = np.maximum(latest[fresh], places[own[fresh] - first])
        for made, own in zip(part.caused, numbers, strict=False):
            if made is not None:
                fresh = own >= made.first
                latest[fresh] = np.maximum(latest[fresh], made.places[own[fresh] - made.first])
        return latest


def _in_sequence(delta: Delta) -> bool:
    """Whether rows are in the order of the arrivals that have caused them: those of one stream, or of one block that made them."""
    return len(delta.parts) == 1 and len(delta.parts[0].leaves) == 1
