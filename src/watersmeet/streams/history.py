"""In what order the rows of several streams have come, for as long as any of them are stored: the one sequence.

A *step* is some rows of one stream that came one after the other. A step is stored whole, or not at all any more: streams drop whole
batches. Of rows that are not stored only their number and their largest time count, for what came after them, so steps between two
stored ones that are not stored become one a stream: the history is never much longer than what is stored.

A stream's largest time so far is its clock, whoever judges its rows: late rows are older than it.

Where watermarks move once after each push, it counts with which push rows have come: then a step has the number of its push. Of what is
not stored, that of a push of which a step beside it is stored stays apart; the others are put together.

A *moment* is a place in the sequence that somebody will come back to. It is a step like others, one row of a stream of its own, so that it
keeps its place however much is put together before and after it, for as long as it is kept.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.streams.clock import BOTTOM, TimeAxis
from watersmeet.streams.window import Window

Axes = Mapping[int, TimeAxis]  # of the streams that have times, each alone on its axis
LEAST = 1024  # steps: fewer are not looked through for what is over


@dataclass(frozen=True)
class Steps:
    """Steps in the order of arrival."""

    streams: np.ndarray
    rows: np.ndarray
    pushes: (
        np.ndarray
    )  # the number of the push, or of the call, that brought it; all 0, where that does not count
    latest: Mapping[int, pa.Array]  # by stream with times: the largest time of each of its steps

    @property
    def count(self) -> int:
        return int(self.streams.size)

    def stored(self, firsts: Mapping[int, int]) -> np.ndarray:
        """How many rows of each step are from ``firsts`` on, of the streams that are in it."""
        stored = np.zeros(self.count, np.int64)
        for k, first in firsts.items():
            mine = self.streams == k
            ends = np.cumsum(self.rows[mine])
            stored[mine] = np.maximum(ends - np.maximum(ends - self.rows[mine], first), 0)
        return stored

    def counts(self, streams: int) -> np.ndarray:
        """How many rows of each of so many streams they are."""
        found: np.ndarray = np.bincount(self.streams, self.rows, streams)[:streams].astype(np.int64)
        return found

    def split(self, at: int) -> "tuple[Steps, Steps]":
        """The steps before a place, and those from it on."""
        parts: list[dict[int, pa.Array]] = [{}, {}]
        for k, latest in self.latest.items():
            mine = int(np.count_nonzero(self.streams[:at] == k))
            parts[0][k], parts[1][k] = latest.slice(0, mine), latest.slice(mine)
        return (
            Steps(self.streams[:at], self.rows[:at], self.pushes[:at], parts[0]),
            Steps(self.streams[at:], self.rows[at:], self.pushes[at:], parts[1]),
        )

    def over(self, firsts: Sequence[int]) -> np.ndarray:
        """Which steps are not stored; ``firsts``: by stream, the number of the first row that is."""
        over = self.rows == 0
        for k in np.unique(self.streams).tolist():
            mine = self.streams == k
            over[mine] |= np.cumsum(self.rows[mine]) <= firsts[k]
        return over


@dataclass(frozen=True)
class Span:
    """The rows of one stream in one push."""

    end: int  # number after the last
    newest: int  # code of the largest time


class History:
    """Steps since the streams began. Lists only grow, or are replaced: a mark is references and lengths."""

    def __init__(self, streams: int, by_push: bool = False) -> None:
        """``by_push``: whether it counts with which push rows have come."""
        self._by_push, self._pushes = by_push, 0
        self._moments_of = (
            streams  # the number of the stream whose rows are moments: it comes after all others
        )
        self.moments = 0  # how many have been noted
        self._parts: list[Steps] = []
        self._count, self._due = 0, LEAST
        self._spans: dict[int, list[Span]] = {}
        self.clocks: dict[int, tuple[int, pa.Array]] = {}  # by stream with times: code and value

    # ---- what comes ---------------------------------------------------------------------------------------------

    def append(
        self,
        sizes: Sequence[int],
        times: Mapping[int, tuple[np.ndarray, pa.Array]],
        order: np.ndarray | None,
        turns: Sequence[int],
        ends: Sequence[int],
    ) -> None:
        """A push has come. ``times``: by stream, codes and values; ``ends``: by stream, the number after its last row."""
        if order is None:
            streams = np.array([k for k in turns if sizes[k]], np.int64)
            rows = np.array([sizes[k] for k in streams.tolist()], np.int64)
        else:
            cuts = np.flatnonzero(np.diff(order)) + 1
            starts = np.concatenate(([0], cuts)) if order.size else cuts
            streams = order[starts].astype(np.int64)
            rows = np.diff(np.concatenate((starts, [order.size])))
        if not streams.size:
            return
        latest, clocks = {}, dict(self.clocks)
        for k, (codes, values) in times.items():
            if not sizes[k]:
                continue
            places = _largest(codes, rows[streams == k])
            latest[k] = values.take(pa.array(places)) if places.size < codes.size else values
            newest = places[codes[places].argmax()]
            code = int(codes[newest])
            if k not in clocks or code > clocks[k][0]:
                clocks[k] = code, values.slice(int(newest), 1)
            self._spans.setdefault(k, []).append(Span(ends[k], code))
        self._add(streams, rows, latest)
        self.clocks = clocks

    def advance(self, k: int, code: int, value: pa.Array, rows: int = 0) -> None:
        """A stream has come to a time without a row; or by so many rows that are not stored."""
        self._add(np.array([k]), np.array([rows]), {k: value})
        if k not in self.clocks or code > self.clocks[k][0]:
            self.clocks = {**self.clocks, k: (code, value)}

    def miss(self, k: int, rows: int) -> None:
        """So many rows of a stream without times have come that are not stored."""
        self._add(np.array([k]), np.array([rows]), {})

    # ---- moments ------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The number of the moment that ``note`` makes, if it is called before anything comes."""
        return self.moments - self._at_moment

    @property
    def _at_moment(self) -> bool:
        """Whether nothing has come since the last moment. Steps that were put together are in no order among each other."""
        last = self._parts[-1] if self._parts else None
        return last is not None and last.count == 1 and int(last.streams[0]) == self._moments_of

    def note(self) -> None:
        """Keep the place that the sequence has come to."""
        if not self._at_moment:
            self._add(np.array([self._moments_of]), np.ones(1, np.int64), {})
            self.moments += 1

    def at(self, moment: int) -> tuple[Steps, Steps]:
        """The steps before a moment that is kept, and those since."""
        steps = self.steps()
        places = np.flatnonzero(steps.streams == self._moments_of)
        place = places[np.searchsorted(np.cumsum(steps.rows[places]), moment + 1)]
        return steps.split(int(place))

    def _add(self, streams: np.ndarray, rows: np.ndarray, latest: Mapping[int, pa.Array]) -> None:
        self._pushes += self._by_push
        self._parts.append(Steps(streams, rows, np.full(streams.size, self._pushes), latest))
        self._count += streams.size

    # ---- what is kept -------------------------------------------------------------------------------------------

    def kept_from(self, k: int, window: Window, axis: TimeAxis | None, end: int, first: int) -> int:
        """The first row that a stream's own window holds, of those from ``first`` on; ``end``: so many have come.

        A time window goes by the stream's own clock, and holds what a row that is as late as it may be could see.
        """
        if not window.timed:
            return max(0, int(window.lowest(end)))
        if axis is None or k not in self.clocks:
            return 0
        now = axis.shift(np.array([self.clocks[k][0]]), -axis.lateness[0])
        lowest = axis.earliest(0, int(now[0]))
        spans = self._spans.get(k, [])
        at = bisect_right(spans, first, key=lambda span: span.end)
        kept = first
        while at < len(spans) and spans[at].newest < lowest:
            kept = spans[at].end
            at += 1
        return kept

    @property
    def long(self) -> bool:
        """Whether it is worth to look for what is not stored any more."""
        return self._count >= self._due

    def compact(self, firsts: Sequence[int], moment: int, axes: Axes) -> None:
        """Put together what is not stored any more. ``moment``: the first that is kept."""
        parts = [_compacted(self.steps(), [*firsts, moment], axes)]
        spans = {k: [span for span in some if span.end > firsts[k]] for k, some in self._spans.items()}
        count = parts[0].count
        self._parts, self._spans, self._count, self._due = parts, spans, count, max(LEAST, 2 * count)

    def steps(self) -> Steps:
        """All of them."""
        parts = self._parts
        if len(parts) == 1:
            return parts[0]
        none = np.empty(0, np.int64)
        timed = {k for part in parts for k in part.latest}
        return Steps(
            np.concatenate([none, *(part.streams for part in parts)]),
            np.concatenate([none, *(part.rows for part in parts)]),
            np.concatenate([none, *(part.pushes for part in parts)]),
            {k: pa.concat_arrays([part.latest[k] for part in parts if k in part.latest]) for k in timed},
        )

    # ---- all or nothing -----------------------------------------------------------------------------------------

    def mark(self) -> Any:
        """How it stands."""
        spans = {k: (some, len(some)) for k, some in self._spans.items()}
        numbers = self._count, self._due, self._pushes, self.moments
        return self._parts, len(self._parts), numbers, spans, self.clocks

    def back_to(self, mark: Any) -> None:
        """As it was at the mark. May be repeated."""
        parts, length, (self._count, self._due, self._pushes, self.moments), spans, self.clocks = mark
        self._parts = parts[:length]
        self._spans = {k: some[:many] for k, (some, many) in spans.items()}

    # ---- the saved state ----------------------------------------------------------------------------------------

    def restore(self, steps: Steps, firsts: Sequence[int], axes: Axes) -> None:
        """Go on from saved steps."""
        self._parts, self._count = [steps] if steps.count else [], steps.count
        self._pushes = int(steps.pushes.max(initial=0))
        self.moments = int(steps.rows[steps.streams == self._moments_of].sum())
        for k, latest in steps.latest.items():
            codes = axes[k].column_codes(0, latest)
            newest = int(codes.argmax())
            self.clocks[k] = int(codes[newest]), latest.slice(newest, 1)
            ends = np.cumsum(steps.rows[steps.streams == k])
            some = [Span(*one) for one in zip(ends.tolist(), codes.tolist(), strict=True)]
            self._spans[k] = [span for span in some if span.end > firsts[k]]


def _largest(codes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Of each run of so many codes, the place of the first that is largest."""
    if lengths.size == 1:
        return np.array([codes.argmax()])
    starts = np.cumsum(lengths) - lengths
    tops = np.maximum.reduceat(codes, starts)
    places = np.flatnonzero(codes == np.repeat(tops, lengths))
    runs = np.searchsorted(starts, places, "right")
    found: np.ndarray = places[np.unique(runs, return_index=True)[1]]
    return found


def _compacted(steps: Steps, firsts: Sequence[int], axes: Axes) -> Steps:
    """Between two stored steps, one a stream of all that are not; those apart that came with the push of one of the two."""
    over = steps.over(firsts)
    width = int(steps.streams.max(initial=0)) + 2
    stored = np.cumsum(~over)
    beside = np.concatenate(([-1], steps.pushes[~over], [-1]))
    before, after = steps.pushes == beside[stored], steps.pushes == beside[stored + 1]
    # Stored steps in their places; after each, by stream, what is over.
    part = 3 * stored + np.where(over, np.where(before, 0, np.where(after, 2, 1)), 0)
    place = part * width + np.where(over, steps.streams + 1, 0)
    places, first, which = np.unique(place, return_index=True, return_inverse=True)
    streams = steps.streams[first]
    rows = np.bincount(which, steps.rows, places.size).astype(np.int64)
    pushes = np.zeros(places.size, np.int64)
    np.maximum.at(pushes, which, steps.pushes)
    latest = {}
    for k, values in steps.latest.items():
        codes, mine = axes[k].column_codes(0, values), which[steps.streams == k]
        order = np.lexsort((codes, mine))
        last = np.flatnonzero(np.diff(mine[order], append=-1))
        latest[k] = values.take(pa.array(order[last]))
    return Steps(streams, rows, pushes, latest)


def newest_over(steps: Steps, over: np.ndarray, k: int, axis: TimeAxis, place: int) -> int:
    """The code, on another axis, of the largest time of a stream's rows that are not stored."""
    mine = steps.latest[k].filter(pa.array(over[steps.streams == k]))
    return int(axis.column_codes(place, mine).max(initial=BOTTOM))
