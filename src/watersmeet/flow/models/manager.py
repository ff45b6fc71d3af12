"""PanJoin's manager: where every sub-window is, and what each worker is to do for a load (panjoin.txt III.A).

The manager knows the sub-windows by their borders only: who keeps them, arrival numbers, times, room. From that it decides who gets rows,
who is asked and what is over, and puts it in commands; a worker does what it is told, in order, and decides nothing. Borders
are counted by the manager itself as it sends, so commands never wait for an answer. What comes back (``Status``) is needed
only for what the manager cannot know: which index is sealed, and so may be read by another thread, and the sorted runs.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from watersmeet.flow.models.load import Load, Part
from watersmeet.flow.models.work import Work
from watersmeet.index.base import Index
from watersmeet.join.chain import Block, least, most
from watersmeet.join.prepare import SLICE, out_of_sight
from watersmeet.streams.arrival import Validity
from watersmeet.streams.clock import BOTTOM, TOP

# ---- commands -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Create:
    """Make an empty sub-window. ``predecessor``: a sealed index that a RaP-Table may learn its splitters from."""

    id: int
    side: int
    base: int
    capacity: int
    predecessor: Index | None


@dataclass(slots=True)
class Insert:
    """Store the block, whole."""

    id: int
    side: int
    block: Block


@dataclass(slots=True)
class Seal:
    """No more rows will come. Not among the paper's commands: there, a worker sees that a sub-window is full; here whole loads are stored,
    and that the next one does not fit is known only to who has it."""

    id: int
    side: int


@dataclass(slots=True)
class Ask:
    """Find what the part's rows match in these sub-windows of the other stream."""

    part: Part
    ids: list[int]


@dataclass(slots=True)
class Expire:
    """Forget these sub-windows."""

    side: int
    ids: list[int]


Command = Create | Insert | Seal | Ask | Expire
Plan = dict[int, list[Command]]  # by worker


@dataclass(slots=True)
class Status:
    """What a worker tells of itself, with its results: only what has changed since it last did."""

    worker: int
    rows: dict[int, int] = field(default_factory=dict)  # by sub-window
    sealed: list[tuple[int, int, Index]] = field(default_factory=list)  # stream, sub-window, its index
    dropped: list[int] = field(default_factory=list)
    runs: dict[int, np.ndarray] = field(default_factory=dict)  # ranges: rows in key order


# ---- topology -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Place:
    """A sub-window as the manager knows it."""

    id: int
    worker: int
    base: int
    capacity: int
    rows: int = 0
    min_time: int = TOP
    max_time: int = BOTTOM
    sealed: bool = False  # it may be the newest again: late rows in newer ones are over before its own

    @property
    def end(self) -> int:
        return self.base + self.rows

    def add(self, block: Block) -> None:
        self.rows += block.count
        if block.times is not None and block.count:
            self.min_time = min(self.min_time, int(block.times.min()))
            self.max_time = max(self.max_time, int(block.times.max()))


class Reach:
    """The arrival numbers and times that the rows of a part may see, all of them together."""

    def __init__(self, validity: Validity) -> None:
        self.first, self.stop = least(validity.arrival_lo), most(validity.arrival_hi)
        self.since, self.until = BOTTOM, TOP
        if validity.time_lo is not None and validity.time_hi is not None and validity.time_lo.size:
            self.since, self.until = int(validity.time_lo.min()), int(validity.time_hi.max())

    def meets(self, place: Place, timed: bool) -> bool:
        """Whether any row of the sub-window may be seen."""
        if place.end <= self.first or place.base >= self.stop:
            return False
        return not timed or (place.max_time >= self.since and place.min_time <= self.until)


class Manager:
    """Turns loads into commands. ``plan`` is called by who pushes, ``learn`` by who takes results: they share no list."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.chains: tuple[list[Place], list[Place]] = ([], [])  # by stream, oldest first
        self.reported: dict[int, int] = {}  # rows by sub-window, as of the last status
        # The paper's mirror of the main arrays, which <start, end> records are read against. Worker and manager share their memory, and a
        # run is never changed in place: so the worker's own array is the mirror, and the records of a result hold on to
        # the very array that was searched. A second copy, merged again here, would be the same bytes twice; it is
        # needed only where workers are other machines.
        self.mirror: dict[int, np.ndarray] = {}
        self._sealed: list[tuple[int, Index | None]] = [(-1, None), (-1, None)]
        self._ids = 0
        self._made = [0, 0]

    # ---- loads ------------------------------------------------------------------------------------------------------

    def plan(self, load: Load) -> Plan:
        """What each worker is to do for a load, in order; a worker with nothing to do is not in it."""
        plan: Plan = defaultdict(list)
        if len(load.parts) == 1:
            part = load.parts[0]
            self._probe(part, plan)
            self.store(part, load.gone[part.side], plan, in_turn=True)
        else:  # interleaved: validity ranges tell who sees whom, if only everybody is there
            for part in load.parts:
                self.store(part, load.gone[part.side], plan, in_turn=False)
            for part in load.parts:
                self._probe(part, plan)
        # After the probes: rows of this load may still see what later ones cannot.
        for side in (0, 1):
            ends = [part.end for part in load.parts if part.side == side]
            self._expire(side, ends[0] if ends else None, load.gone[side], plan)
        return plan

    def store(self, part: Part, gone: int, plan: Plan, in_turn: bool) -> None:
        """Rows go into the newest sub-window of their stream; where they do not fit, into a new one, at the next worker."""
        side, block = part.side, part.block
        chain = self.chains[side]
        newest = chain[-1] if chain else None
        if newest is None or not self._takes(newest, block, gone):
            if newest is not None and not newest.sealed:
                newest.sealed = True
                plan[newest.worker].append(Seal(newest.id, side))
            newest = self._create(side, block, plan)
        window = self.work.windows[side]
        if in_turn and (hidden := window.lowest(block.count)) > 0:
            block = out_of_sight(block, hidden)
        newest.add(block)
        plan[newest.worker].append(Insert(newest.id, side, block))

    @staticmethod
    def _takes(place: Place, block: Block, gone: int) -> bool:
        """Whether the block follows on the last row and fits. A sub-window that is longer than its window of time gets no more rows,
        or it could not be dropped for as long as rows come."""
        if place.end != block.first or place.rows + block.count > place.capacity:
            return False
        return place.rows < SLICE or place.min_time >= gone

    def _create(self, side: int, block: Block, plan: Plan) -> Place:
        chain = self.chains[side]
        stored = sum(place.rows for place in chain)
        capacity = max(self.work.sizing.rows(side, stored), block.count)
        # The second stream starts with the next worker, so that the newest sub-windows of both are not at one.
        worker = (self._made[side] + side) % self.work.cores
        place = Place(self._ids, worker, block.first, capacity)
        self._ids += 1
        self._made[side] += 1
        chain.append(place)
        plan[worker].append(Create(place.id, side, block.first, capacity, self._sealed[side][1]))
        return place

    def _probe(self, part: Part, plan: Plan) -> None:
        """Only workers with a sub-window of the other stream that some row of the part may see are asked (the paper's step 3)."""
        if not part.probe.rows:
            return
        other = 1 - part.side
        reach, timed = Reach(part.probe.validity), self.work.timed[other]
        asked: dict[int, list[int]] = defaultdict(list)
        for place in self.chains[other]:
            if reach.meets(place, timed):
                asked[place.worker].append(place.id)
        for worker, ids in asked.items():
            plan[worker].append(Ask(part, ids))

    def _expire(self, side: int, end: int | None, gone: int, plan: Plan) -> None:
        """Sub-windows are dropped whole, when all their rows are over. ``end``: where the stream's rows of this load end."""
        chain, window = self.chains[side], self.work.windows[side]
        if not chain:
            return
        timed = self.work.timed[side]
        arrival = BOTTOM if end is None else window.lowest(end)
        over = [place for place in chain if place.end <= arrival or (timed and place.max_time < gone)]
        if not over:
            return
        dropped = {place.id for place in over}
        chain[:] = [place for place in chain if place.id not in dropped]
        ids: dict[int, list[int]] = defaultdict(list)
        for place in over:
            ids[place.worker].append(place.id)
        for worker, theirs in ids.items():
            plan[worker].append(Expire(side, theirs))

    # ---- answers ----------------------------------------------------------------------------------------------------

    def learn(self, status: Status) -> None:
        """A worker's status has come. A worker tells of a sub-window first that it is there and last that it is gone."""
        self.reported.update(status.rows)
        self.mirror.update(status.runs)
        for side, id, index in status.sealed:
            if id > self._sealed[side][0]:
                self._sealed[side] = (id, index)
        for id in status.dropped:
            self.reported.pop(id, None)
            self.mirror.pop(id, None)
