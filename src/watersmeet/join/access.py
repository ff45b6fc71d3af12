"""How the rows of a join are kept and found: for how many rows a sub-window is made, which indexes it gets, how it is probed.

Made anew with the plan: ``PairAccess`` for two streams, ``StepAccess`` for more. Read by many threads, changed by none.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.index.base import Index, PairBuffer
from watersmeet.index.choose import Habits, choose, make_index, subwindow_size
from watersmeet.join.chain import Block, Part, Probe, SubWindow, least
from watersmeet.join.coding import Coding
from watersmeet.join.learning import Edge, Seen
from watersmeet.join.matches import Matches
from watersmeet.join.orders import Orders
from watersmeet.join.outer import How
from watersmeet.join.plan import Plan
from watersmeet.join.pool import Task
from watersmeet.join.prepare import make_probe, prepare_block, prepare_for_steps
from watersmeet.join.probing import PairResidual, find_pairs, find_ranges
from watersmeet.join.stash import Stash
from watersmeet.join.steps import Walk
from watersmeet.streams.arrival import Sees
from watersmeet.streams.payload import Payload
from watersmeet.streams.window import Window

FEW = (
    0.5  # matches a probe and sub-window: where either will do, pairs are cheaper than ranges that hold fewer
)
PARALLEL = 2048  # rows from which on threads are worth waking

Segments = Sequence[Sequence[SubWindow]]  # by stream


@dataclass(frozen=True, slots=True)
class Sizing:
    """How many rows a new sub-window is made for."""

    windows: Sequence[Window]
    habits: Sequence[Habits]
    fixed: int | None  # if the user says so
    cores: int = 1  # that share a window

    def rows(
        self,
        stream: int,
        stored: int,
        kinds: Sequence[tuple[str, ...]] = (),
        expected: int | None = None,
    ) -> int:
        """``stored``: how many rows of the stream there are by now; ``kinds``: of index that may serve, if that is known, at each place.

        ``expected``: how many rows a window of time will have, if that is known.
        """
        if self.fixed is not None:
            return self.fixed
        window = self.windows[stream].rows or expected
        share = None if window is None else max(1, window // self.cores)
        return subwindow_size(share, stored, self.habits[stream], kinds)


class Access(Protocol):
    """What a join core asks."""

    def checked(self, k: int) -> int:
        """How many columns of codes a sub-window of stream k keeps."""

    def block(
        self,
        k: int,
        batch: pa.RecordBatch,
        first: int,
        times: np.ndarray | None,
        coding: Coding | None = None,
    ) -> Block:
        """Rows of stream k, ready to be stored and to probe. ``coding``: other joins read them too."""

    def places(self, k: int) -> range:
        """Of the indexes that a sub-window of stream k has."""

    def kinds(self, k: int) -> Sequence[tuple[str, ...]]:
        """Of index that may serve at each of them."""

    def identities(self, k: int) -> Sequence[Hashable]:
        """Of the same, in order: joins with an equal one can use the same index."""

    def index(self, k: int, place: int, capacity: int, predecessor: Index | None) -> Index:
        """The index at this place, for a sub-window of stream k of so many rows, after another."""

    def probes(self, k: int, part: Part, segments: Segments, cores: int, matches: Matches) -> list[Task]:
        """The tasks that look for partners of stream k's rows."""

    def rounds(self) -> Sequence[Sequence[int]]:
        """Streams whose rows may look for partners at the same time, all rows being stored."""

    def after(self, oldest: Sequence[int]) -> None:
        """Tasks have run. ``oldest``: by stream, the arrival number of the oldest row that is stored."""

    def forget(self, counts: np.ndarray) -> None:
        """A push was taken back; so many rows of each stream have come."""

    def seen(self) -> list[Seen]:
        """What steps have made of partial results since this was last asked."""


@dataclass(frozen=True, slots=True)
class PairAccess:
    """Two streams: the rows of one probe the sub-windows of the other."""

    plan: Plan
    streams: Sequence[str]
    habits: Sequence[Habits]
    ranges: bool  # results as ranges over sorted runs, or as their total length
    mode: str  # "pairs"; "ranges"; "count"; "mixed": ranges where rows are in runs, else pairs
    residual: PairResidual | None

    def checked(self, k: int) -> int:
        return self.plan.width(self.streams[k])

    def block(
        self,
        k: int,
        batch: pa.RecordBatch,
        first: int,
        times: np.ndarray | None,
        coding: Coding | None = None,
    ) -> Block:
        return prepare_block(self.plan, self.streams[k], batch, first, times, coding)

    def kind(self, stream: int, capacity: int) -> str:
        """The kind of index for a sub-window of so many rows."""
        return choose(self.plan.kinds, self.habits[stream], capacity)

    def places(self, k: int) -> range:
        return range(1)

    def kinds(self, k: int) -> Sequence[tuple[str, ...]]:
        return (self.plan.kinds,)

    def identities(self, k: int) -> Sequence[Hashable]:
        return (self.plan.identity_of(self.streams[k]),)

    def index(self, k: int, place: int, capacity: int, predecessor: Index | None) -> Index:
        return make_index(self.kind(k, capacity), capacity, predecessor)

    def probes(self, k: int, part: Part, segments: Segments, cores: int, matches: Matches) -> list[Task]:
        block, sees = part
        validity = sees[1 - k]
        assert validity is not None
        probe = make_probe(self.plan, self.streams[k], block, validity)
        shares = probe.split(cores if probe.rows >= PARALLEL else 1)
        subwindows = [sub for sub in segments[1 - k] if sub.overlaps(validity)]
        if self.ranges and subwindows and isinstance(validity.arrival_lo, int):
            # Filtering its pairs one by one would cost more than taking the expired rows out of the oldest run.
            pairs = probe.rows * self.habits[1 - k].matches
            subwindows[0].trim(validity.arrival_lo, 0.0 if pairs > subwindows[0].count / 4 else 0.5)
        met = [  # mixed: a run that is parted is parted once
            (sub, share)
            for sub in subwindows
            for share in (shares if self.mode != "mixed" or sub.inside(validity) else [probe])
        ]
        if met and len(shares) > 1:
            # Who first looks into the newest sub-window merges what waits there, and all others who look wait for that. So one begins
            # with it, and the others come to it last.
            met.insert(0, met.pop(next(i for i, (sub, _) in enumerate(met) if sub is subwindows[-1])))
        return [partial(self.find, sub, share, k, matches) for sub, share in met]

    def rounds(self) -> Sequence[Sequence[int]]:
        return ((0, 1),)

    def after(self, oldest: Sequence[int]) -> None:
        return

    def forget(self, counts: np.ndarray) -> None:
        return

    def seen(self) -> list[Seen]:
        return []

    def find(self, sub: SubWindow, probe: Probe, stream: int, out: Matches, buffer: PairBuffer) -> None:
        """All results of a stream's probe in one sub-window, in the form that was asked for."""
        if self.ranges and (self.mode != "mixed" or self.habits[1 - stream].matches >= FEW):
            find_ranges(sub, probe, stream, self.mode, buffer, out)
        else:
            find_pairs(sub, probe, stream, self.residual, buffer, out)


@dataclass(frozen=True, slots=True)
class StepAccess:
    """Many streams: arriving rows probe the others one after the other."""

    plan: Orders
    habits: Sequence[Habits]
    walks: Sequence[Walk]  # by arriving stream
    fanouts: Mapping[Edge, float]  # as measured
    stash: Stash | None = None
    by_stash: Walk | None = None  # the hot stream's way through it

    def checked(self, k: int) -> int:
        return len(self.plan.columns[k])

    def block(
        self,
        k: int,
        batch: pa.RecordBatch,
        first: int,
        times: np.ndarray | None,
        coding: Coding | None = None,
    ) -> Block:
        return prepare_for_steps(self.plan, k, batch, first, times, coding)

    def places(self, k: int) -> range:
        return range(len(self.plan.arrangements[k]))

    def kinds(self, k: int) -> Sequence[tuple[str, ...]]:
        return [one.kinds for one in self.plan.arrangements[k]]

    def identities(self, k: int) -> Sequence[Hashable]:
        return self.plan.identities_of(k)

    def index(self, k: int, place: int, capacity: int, predecessor: Index | None) -> Index:
        kinds = self.plan.arrangements[k][place].kinds
        return make_index(choose(kinds, self.habits[k], capacity), capacity, predecessor)

    def probes(self, k: int, part: Part, segments: Segments, cores: int, matches: Matches) -> list[Task]:
        block, sees = part
        assert block.usable is not None
        rows, walk = block.usable.size, self.walks[k]
        parts = cores if rows >= PARALLEL else 1
        cuts = [slice(rows * i // parts, rows * (i + 1) // parts) for i in range(parts)]
        probes = float(rows)
        for step, fanout in zip(self.plan.steps[k], self.plan.fanouts[k], strict=True):
            for segment in segments[step.stream][-1:]:  # the others are sealed
                segment.indexes[step.by].expect(probes)
            probes *= self.fanouts.get(step.edge, fanout)
        walks = [(walk, sees)]
        if self.stash is not None and self.by_stash is not None and k == self.stash.plan.hot:
            self.stash.expect(float(rows))
            lost = not_in(self.stash, sees)
            walks = [(self.by_stash, sees)] if lost is None else [(self.by_stash, sees), (walk, lost)]
        return [
            partial(way.start, block, seen, cut, segments, matches) for way, seen in walks for cut in cuts
        ]

    def rounds(self) -> Sequence[Sequence[int]]:
        streams = range(len(self.walks))
        if self.stash is None:
            return (streams,)
        pair = self.stash.plan.pair
        return pair, [k for k in streams if k not in pair]

    def after(self, oldest: Sequence[int]) -> None:
        if self.stash is None:
            return
        first, second = self.stash.plan.pair
        for k in (first, second):
            found = self.walks[k].pairs
            if found:
                columns = [np.concatenate(parts) for parts in zip(*found, strict=True)]
                found.clear()
                self.stash.add(columns, (oldest[first], oldest[second]))

    def forget(self, counts: np.ndarray) -> None:
        if self.stash is not None:
            for walk in self.walks:
                if walk.pairs is not None:
                    walk.pairs.clear()
            self.stash.forget(int(counts[self.stash.plan.pair[0]]))

    def seen(self) -> list[Seen]:
        found: list[Seen] = []
        for k, walk in enumerate(self.walks):
            steps = self.plan.steps[k]
            made, walk.seen[:] = walk.seen[:], []
            for place, rows, more in made:
                found.append((steps[place].edge, rows, more))
        if (
            self.by_stash is not None
        ):  # not learnt: other steps behind it would make it another stash, an empty one
            self.by_stash.seen.clear()
        return found


def indexes(access: Access, k: int, capacity: int, previous: SubWindow | None) -> list[Index]:
    """All that a sub-window of stream k has, after another sub-window."""
    places = access.places(k)
    before = [None for _ in places] if previous is None else previous.indexes
    return [access.index(k, place, capacity, before[place]) for place in places]


def not_in(stash: Stash, sees: Sees) -> Sees | None:
    """What hot rows must look for in the plain way, if anything: rows of the first stream for which the stash is not complete."""
    first = stash.plan.pair[0]
    seen = sees[first]
    assert seen is not None
    if stash.complete_from <= least(seen.arrival_lo):
        return None
    return (*sees[:first], seen.before(stash.complete_from), *sees[first + 1 :])


def pair_access(
    plan: Plan,
    streams: Sequence[str],
    habits: Sequence[Habits],
    payload: Sequence[Payload | None],
    mode: str,
    how: How,
) -> PairAccess:
    """``payload``: the stored rows by stream, in a list that stays."""
    ranges = mode != "pairs" and plan.ranges_suffice and how.name == "inner"
    residual = None if plan.residual is None else PairResidual(plan.residual, streams, payload)
    return PairAccess(plan, streams, habits, ranges, mode, residual)
