"""Event time: the watermark of streams, and who is late by it. A row is late if the watermark had passed it when it came.

The watermark is the smallest over the streams of (largest time so far, less the lateness), and moves with every row: so who is late
depends on the sequence of arrival alone. Or it moves once after each push: then on that, and on the pushes. It starts with the query:
none is late before all of the streams have been seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.join.matches import Matches
from watersmeet.query.block import Block, Turn
from watersmeet.query.delta import Delta, Part
from watersmeet.query.instruction import Clock, Punctual
from watersmeet.streams.clock import BOTTOM, TOP, TimeAxis
from watersmeet.streams.payload import Chunks

_AHEAD = "ahead"


@dataclass(frozen=True)
class Ticked(Delta):
    """How a push has moved a clock: by stream, which of its rows are late."""

    judged: Mapping[str, np.ndarray] = field(default_factory=dict)


class ClockBlock(Block):
    """The watermark of some streams. ``_ahead``: of each, the largest time less its lateness."""

    def __init__(self, instruction: Clock, schemas: Sequence[pa.Schema], by_push: bool = False) -> None:
        """``by_push``: the watermark moves once after each push."""
        super().__init__(instruction, ())
        self.streams, self._by_push = instruction.streams, by_push
        self._axis = TimeAxis(self.streams, instruction.windows, schemas)
        self._ahead = np.full(len(self.streams), BOTTOM)

    def give(self, turn: Turn) -> Delta:
        there = [
            (k, found) for k, name in enumerate(self.streams) if (found := self._come(turn, k)) is not None
        ]
        judged = {}
        if there:
            streams = [k for k, _ in there]
            moved = [self._axis.shift(codes, -self._axis.lateness[k]) for k, (codes, _, _) in there]
            pushes = (
                [np.concatenate(turn.pushes(self.streams[k])) for k in streams] if self._by_push else None
            )
            places = _packed([own for _, (_, own, _) in there], pushes)
            before, after = self._before(streams, moved, places)
            if pushes is not None:
                before = before[_starts(pushes, places)]
            for (k, (codes, _, rows)), at in zip(there, places, strict=True):
                judged[self.streams[k]] = (codes < before[at])[:rows]
            self._ahead = after
        watermark = TOP if turn.ending else int(self._ahead.min())
        return Ticked((), watermark=watermark, judged=judged)

    def _come(self, turn: Turn, k: int) -> tuple[np.ndarray, np.ndarray, int] | None:
        """The times of a stream's rows, then those that it came to without a row; where they stand; how many are rows. None: nothing
        has come. A time stands before the row at its place."""
        name = self.streams[k]
        found, ticks = turn.arrived(name), turn.ticks(name)
        if found is None and ticks is None:
            return None
        codes, places, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        if found is not None:
            codes, places, rows = (
                [self._axis.codes(k, found[0])],
                [2 * turn.places(name) + 1],
                found[0].num_rows,
            )
        if ticks is not None:
            codes.append(self._axis.column_codes(k, ticks[0]))
            places.append(2 * ticks[1])
        return np.concatenate(codes), np.concatenate(places), rows

    def _before(
        self, streams: Sequence[int], moved: Sequence[np.ndarray], places: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The watermark that each row meets, in the order of arrival; and of each stream how far it is after them."""
        rows = sum(map(len, moved))
        least, after = np.full(rows, TOP), self._ahead.copy()
        for k in range(len(self.streams)):
            ahead = np.full(rows + 1, BOTTOM)
            ahead[0] = self._ahead[k]
            if k in streams:
                mine = streams.index(k)
                ahead[places[mine] + 1] = moved[mine]
            ahead = np.maximum.accumulate(ahead)
            least, after[k] = np.minimum(least, ahead[:-1]), ahead[-1]
        return least, after

    def mark(self) -> Any:
        return self.rows, self._ahead

    def back_to(self, mark: Any) -> None:
        """As it was at the mark. May be repeated."""
        self.rows, self._ahead = mark

    def snapshot(self) -> dict[str, pa.Table]:
        return {_AHEAD: pa.table({_AHEAD: pa.array(self._ahead)})}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        self._ahead = tables[_AHEAD].column(0).to_numpy().copy()


def _packed(places: Sequence[np.ndarray], pushes: Sequence[np.ndarray] | None) -> list[np.ndarray]:
    """Places among the rows of some streams alone: others may arrive between them. At one place by push, where that counts."""
    together = np.concatenate(places)
    if pushes is None:
        order = np.argsort(together, kind="stable")
    else:
        order = np.lexsort((np.concatenate(pushes), together))
    packed = np.empty(order.size, np.int64)
    packed[order] = np.arange(order.size)
    return np.split(packed, np.cumsum([len(own) for own in places])[:-1])


def _starts(pushes: Sequence[np.ndarray], places: Sequence[np.ndarray]) -> np.ndarray:
    """Of each row, in the order of arrival, the place of the first of its push."""
    numbers = np.empty(sum(map(len, places)), np.int64)
    numbers[np.concatenate(places)] = np.concatenate(pushes)
    first = np.diff(numbers, prepend=-1) != 0
    return np.flatnonzero(first)[np.cumsum(first) - 1]


class PunctualBlock(Block):
    """A stream's rows that are not late, and the watermark after them."""

    def __init__(self, instruction: Punctual, clock: Block) -> None:
        super().__init__(instruction, (clock,))
        self.stream = instruction.stream

    def give(self, turn: Turn) -> Delta:
        ticked, found = turn.of(self.inputs[0]), turn.arrived(self.stream)
        assert isinstance(ticked, Ticked)
        late: dict[str, pa.RecordBatch] = {}
        matches, chunks = Matches(streams=1), Chunks([], [])
        if found is not None:
            batch, first = found
            judged, numbers = ticked.judged[self.stream], np.arange(first, first + batch.num_rows)
            if judged.any():
                late[self.stream] = batch.filter(pa.array(judged))
                numbers = numbers[~judged]
            matches, chunks = Matches([(numbers,)], streams=1), Chunks([batch], [first])
        part = Part((self.stream,), (turn.schema(self.stream),), matches, [chunks], streams=(self.stream,))
        return Delta((part,), late, ticked.watermark)
