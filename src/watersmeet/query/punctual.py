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
from watersmeet.query.delta import Delta
from watersmeet.query.instruction import Clock, Punctual
from watersmeet.streams.clock import BOTTOM, TOP, TimeAxis

_AHEAD = "ahead"


@dataclass(frozen=True)
class Ticked(Delta):
    """How a push has moved a clock: by stream, which of its rows are late."""

    judged: Mapping[str, np.ndarray] = field(default_factory=dict)


class ClockBlock(Block):
    """The watermark of some streams. ``_ahead``: of each, the largest time less its lateness, and what it is held back by."""

    def __init__(
        self, instruction: Clock, schemas: Sequence[pa.Schema], own: Sequence[bool], by_push: bool = False
    ) -> None:
        """``own``: by stream, whether it goes by its own window's time; ``by_push``: the watermark moves once after each push."""
        super().__init__(instruction, ())
        self.streams, self._own, self._by_push = instruction.streams, own, by_push
        self._judged = {
            tick.stream: k for k, tick in reversed(list(enumerate(instruction.ticks))) if tick.judged
        }
        # Axes know streams by their names: one that is there twice, perhaps by two columns, has two.
        names = [
            name if k == self.streams.index(name) else f"{name}#{k}" for k, name in enumerate(self.streams)
        ]
        self._axis = TimeAxis(names, [tick.window for tick in instruction.ticks], schemas)
        self._held = [
            [self._axis.lateness[k], *(self._axis.length(tick.stream, "window", one) for one in tick.held)]
            for k, tick in enumerate(instruction.ticks)
        ]
        self._ahead = np.full(len(self.streams), BOTTOM)

    def give(self, turn: Turn) -> Delta:
        there = [
            (k, found) for k, name in enumerate(self.streams) if (found := self._come(turn, k)) is not None
        ]
        judged = {}
        if there:
            streams = [k for k, _ in there]
            moved = [self._moved(k, codes) for k, (codes, _, _) in there]
            pushes = (
                [np.concatenate(turn.pushes(self.streams[k])) for k in streams] if self._by_push else None
            )
            places = _packed([own for _, (_, own, _) in there], pushes)
            before, after = self._before(streams, moved, places)
            if pushes is not None:
                before = before[_starts(pushes, places)]
            for (k, (codes, _, rows)), at in zip(there, places, strict=True):
                if self._judged.get(self.streams[k]) == k:
                    judged[self.streams[k]] = (codes < before[at])[:rows]
            self._ahead = after
        watermark = TOP if turn.ending else int(self._ahead.min())
        return Ticked((), watermark=watermark, judged=judged)

    def _moved(self, k: int, codes: np.ndarray) -> np.ndarray:
        for length in self._held[k]:
            codes = self._axis.shift(codes, -length)
        return codes

    def _come(self, turn: Turn, k: int) -> tuple[np.ndarray, np.ndarray, int] | None:
        """The times of a stream's rows, then those that it came to without a row; where they stand; how many are rows. None: nothing
        has come. A time stands before the row at its place."""
        name = self.streams[k]
        found, ticks = turn.arrived(name), turn.ticks(name) if self._own[k] else None
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

    @property
    def watermark(self) -> str | None:
        code = int(self._ahead.min())
        return None if code in (BOTTOM, TOP) else self._axis.text(code)

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
    """The rows of a source without those that are late, and the watermark after them."""

    def __init__(self, instruction: Punctual, below: Block, clock: Block) -> None:
        super().__init__(instruction, (below, clock))
        self.stream, self._late = instruction.stream, 0

    @property
    def late(self) -> Mapping[str, int]:
        return {} if self.stream is None else {self.stream: self._late}

    def mark(self) -> Any:
        return self.rows, self._late

    def back_to(self, mark: Any) -> None:
        self.rows, self._late = mark

    def give(self, turn: Turn) -> Delta:
        below, clock = self.inputs
        delta, ticked = turn.of(below), turn.of(clock)
        assert isinstance(ticked, Ticked)
        found = None if self.stream is None else turn.arrived(self.stream)
        if self.stream is None or found is None or not ticked.judged[self.stream].any():
            return Delta(delta.parts, delta.late, ticked.watermark)
        (batch, first), judged, (part,) = found, ticked.judged[self.stream], delta.parts
        late = {self.stream: batch.filter(pa.array(judged))}
        self._late += late[self.stream].num_rows
        numbers = (
            part.matches.columns()
        )  # the stream's are of this push: who is judged is remembered by nobody
        stays = ~judged[numbers[part.streams.index(self.stream)] - first]
        part = part.with_matches(Matches.of(tuple([column[stays] for column in numbers])))
        return Delta((part,), {**delta.late, **late}, ticked.watermark)
