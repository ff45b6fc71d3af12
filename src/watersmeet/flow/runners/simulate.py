"""The same nodes under a clock of our own: a discrete-event simulation, for more cores than any machine at hand has.

What stays true: every node is a processor; it is busy for what its steps cost, and its next step begins when it is free, has a message and
room for what it may write. A message is there for its reader when the one who wrote it has got that far (a row that is forwarded before
it is compared travels while it is compared) and the link has been crossed. Links are as bounded as ever: what is on its way counts.
The code that runs is the flow's own; only time is made up. The same network, costs and arrivals give the same run.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from watersmeet.errors import StateError
from watersmeet.flow.models.base import Sending
from watersmeet.flow.models.multiway.stage import MultiWork
from watersmeet.flow.models.work import Work
from watersmeet.flow.network import Bell, Link, Message, Network, Node
from watersmeet.index.base import PairBuffer
from watersmeet.join.chain import Probe, SubWindow
from watersmeet.join.matches import Matches


@dataclass(frozen=True)
class Costs:
    """Seconds. ``compare`` is the papers' T_P; ``link`` + two times ``message`` + the reader's step is their T_CL."""

    link: float  # from one thread to another
    message: float  # to put a message on a link, or to take it
    feed: float  # a step of a node that hands rows on
    gather: float  # a step of a node that passes results on
    control: float  # a step of a core, whatever it does
    probe: float  # what a core needs more if it probes, without the comparisons
    compare: float  # one row with one other

    def step(self, place: str) -> float:
        return {"feed": self.feed, "gather": self.gather}.get(place, self.control)


@dataclass
class Meter:
    """The clock inside a step, and what was compared by it."""

    costs: Costs
    now: float = 0.0
    comparisons: int = 0
    # (left, right, when): arrival numbers of pairs that were found, and when each was compared
    met: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    compared: list[dict[int, float]] = field(default_factory=lambda: [{}, {}])  # by stream and row: when last
    _probing: bool = False

    def read(self) -> float:
        return self.now

    def begin(self, now: float) -> None:
        self.now, self._probing = now, False

    def probe(self) -> float:
        """A step probes: returns when it begins to compare."""
        if not self._probing:
            self.now += self.costs.probe
            self._probing = True
        return self.now

    def compare(self, comparisons: int) -> None:
        self.comparisons += comparisons
        self.now += comparisons * self.costs.compare

    def visits(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All pairs that were found, and when."""
        if not self.met:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        left, right, when = zip(*self.met, strict=True)
        return np.concatenate(left), np.concatenate(right), np.concatenate(when)


@dataclass
class TimedWork(Work):
    """Probes as ever, and tells the meter how many rows were compared, and when those that match were.

    There is no short way for single rows: what they cost is for the meter to say, and it must be told.
    """

    meter: Meter | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.single = False

    def find(self, sub: SubWindow, probe: Probe, side: int, out: Matches, buffer: PairBuffer) -> None:
        assert self.meter is not None
        rows, stored = probe.rows, sub.count - sub.trimmed
        begun, known = self.meter.probe(), len(out.pairs)
        super().find(sub, probe, side, out, buffer)
        self.meter.compare(rows * stored)
        for row in range(probe.first, probe.first + rows):
            self.meter.compared[side][row] = self.meter.now
        for left, right in out.pairs[known:]:
            probes, found = (left, right) if side == 0 else (right, left)
            when = (probes - probe.first) * stored + self._places(sub, found) + 1
            self.meter.met.append((left, right, begun + when * self.meter.costs.compare))

    @staticmethod
    def _places(sub: SubWindow, found: np.ndarray) -> np.ndarray:
        """How many rows were compared before these: a scan goes from the oldest row to the newest."""
        arrivals = sub.scattered
        if arrivals is None:
            return found - sub.base - sub.trimmed
        return np.searchsorted(arrivals[sub.trimmed : sub.count], found)


@dataclass
class TimedMultiWork(MultiWork):
    """The same of many streams: a step compares each partial result with all rows of a stream, as a scan does."""

    meter: Meter | None = None

    def compared(self, partials: int, stored: int) -> None:
        assert self.meter is not None
        self.meter.probe()
        self.meter.compare(partials * stored)


class _Written(Bell):
    """Rung by a link right after something was put on it."""

    __slots__ = ("_link", "_simulation")

    def __init__(self, simulation: "Simulation", link: Link) -> None:
        super().__init__()
        self._simulation, self._link = simulation, link

    def ring(self) -> None:
        self._simulation.sent(self._link)


class Simulation:
    """Moves a network. ``run`` is given what arrives when, and returns what leaves when."""

    def __init__(self, network: Network, meter: Meter) -> None:
        self.network, self.meter, self.costs = network, meter, meter.costs
        self.busy = {node.name: 0.0 for node in network.nodes}
        self._free = {id(node): 0.0 for node in network.nodes}
        self._turn = {id(node): 0 for node in network.nodes}
        self._reader = {id(link): node for node in network.nodes for link in node.inputs}
        self._travelling: dict[int, deque[Message]] = {id(link): deque() for link in network.links}
        self._events: list[tuple[float, int, Link | Node | None]] = []
        self._numbers = count()
        self._now = 0.0
        self._source: Iterator[tuple[float, Sending]] = iter(())
        self._due: tuple[float, Sending] | None = None
        self._held: tuple[Link, Message] | None = None  # what waits for room to enter
        self._left: list[tuple[Message, float]] = []
        self._writer = {id(link): node for node in network.nodes for link in node.outputs}
        for link in network.links:
            link.reader, link.writer = _Written(self, link), Bell()
        for node in network.nodes:
            node.clock = meter.read

    def run(self, arrivals: Iterable[tuple[float, Sending]]) -> list[tuple[Message, float]]:
        """Until nothing moves. ``arrivals``: when, and what is then to be put where, in order of time."""
        self._source = iter(arrivals)
        self._at(self._now, None)
        while self._events:
            self._now, _, what = heapq.heappop(self._events)
            if what is None:
                self._feed()
            elif isinstance(what, Link):
                self._deliver(what)
            else:
                self._move(what)
        if self._due is not None or any(link.messages for link in self.network.links):
            waiting = [node.name for node in self.network.nodes if any(link.messages for link in node.inputs)]
            raise StateError(
                f"a simulated network must come to rest empty; got messages that nobody takes, before: {', '.join(waiting) or 'the entry'}"
            )
        left, self._left = self._left, []
        return left

    def sent(self, link: Link) -> None:
        """Something was put on a link: it is on its way, and still counts as being on it."""
        self.meter.now += self.costs.message
        self._travelling[id(link)].append(link.messages.pop())
        link.capacity -= 1
        self._at(self.meter.now + self.costs.link, link)

    # ---- events -------------------------------------------------------------------------------------------------

    def _at(self, when: float, what: Link | Node | None) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), what))

    def _deliver(self, link: Link) -> None:
        link.messages.append(self._travelling[id(link)].popleft())
        link.capacity += 1
        if link is self.network.exit:
            full = [link] if link.full else []
            self._left.append((link.get(), self._now))
            self._room(full)
        else:
            self._move(self._reader[id(link)])

    def _move(self, node: Node) -> None:
        if self._free[id(node)] > self._now:
            return  # it looks again when it is free
        choices = node.choices()
        if not choices:
            return
        turn = self._turn[id(node)]
        self._turn[id(node)] = turn + 1
        full = [link for link in node.inputs if link.full]
        self.meter.begin(self._now + self.costs.message + self.costs.step(node.place))
        node.step(choices[turn % len(choices)])
        self._room(full)
        self._free[id(node)] = self.meter.now
        self.busy[node.name] += self.meter.now - self._now
        self._at(self.meter.now, node)

    def _room(self, full: list[Link]) -> None:
        """Who writes to a link that was full looks again as soon as it is not."""
        for link in full:
            if not link.full:
                self._at(self._now, self._writer.get(id(link)))

    def _feed(self) -> None:
        """Put on links what has arrived, as far as there is room."""
        self.meter.begin(self._now)
        while True:
            if self._held is not None:
                link, message = self._held
                if link.full:
                    return  # looked at again when there is room
                self._held = None
                link.put(message)
            if self._due is None:
                self._due = next(self._source, None)
                if self._due is None:
                    return
            when, sending = self._due
            if when > self._now:
                self._at(when, None)
                return
            self._held = next(sending, None)
            if self._held is None:
                self._due = None
