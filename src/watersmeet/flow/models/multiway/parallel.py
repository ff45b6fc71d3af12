"""Parallel-MJ: a tree hands every row to every core, each a multiway join of its own; a tree gathers (thesis 6.2.4).

The thesis splits every window over the cores. A combination whose stored rows lie on different cores is then found by nobody: of N
streams on P cores about 1/P^(N-2) of the results are left. Here *one* stream is dealt out, and the others are whole on every core. A
row of the dealt stream looks for partners on its home core only, where all of them are; any other row looks everywhere, and finds on
each core the combinations with that core's share. So every combination is found once: on the core that has its dealt row.

Nobody coordinates: as with SplitJoin, a core knows from the rows that it has seen whose turn it is to store (the *store-expire turn
counters*). A turn lasts for a number of rows, so that what a core keeps of the dealt stream is a few runs of consecutive arrivals.
"""

from collections.abc import Sequence
from typing import ClassVar

from watersmeet.flow.models.gather import Distributor, Funnel, grow
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.multiway.load import MultiLoad, MultiPart
from watersmeet.flow.models.multiway.stage import MultiwayFlow, MultiWork, Stage
from watersmeet.flow.network import Link, Message, Network, Node
from watersmeet.index.base import PairBuffer
from watersmeet.join.matches import Matches

TURN = 4096  # rows that one core stores before it is the next one's turn, at most


class Turns:
    """Whose turn it is to store rows of one stream."""

    def __init__(self, cores: int, rows: int) -> None:
        self._cores, self._rows = cores, rows
        self._turn = self._stored = 0

    def home(self, rows: int) -> int:
        """The core that stores the next rows, so many."""
        home = self._turn % self._cores
        self._stored += rows
        if self._stored >= self._rows:
            self._turn, self._stored = self._turn + 1, 0
        return home


class ParallelCore(Stage):
    """All streams, one of them in part. A load goes through all its steps at once."""

    def __init__(
        self, work: MultiWork, position: int, dealt: Sequence[int], entry: Link, results: Link
    ) -> None:
        super().__init__(work, position, range(work.streams), [entry], [results])
        self.turns = {k: Turns(work.cores, turn_rows(work, k)) for k in dealt}
        self._buffer = PairBuffer()

    def receive(self, port: int, message: Message) -> None:
        if isinstance(message, Mark):
            self.report(message)
            return
        load: MultiLoad = message
        begun, matches = self.clock(), Matches(streams=self.work.streams)
        self.expire(load.gone)
        at_home = [self.keep(part) for part in load.parts]
        for part, home in zip(load.parts, at_home, strict=True):
            if self.probes(part, home):
                self._probe(part, matches)
        self.answer(load, matches, begun)

    def keep(self, part: MultiPart) -> bool:
        """Store rows, if that is for this core to do; whether it is."""
        turns = self.turns.get(part.stream)
        home = turns is None or turns.home(part.block.count) == self.position
        if home:
            self.store(part)
        return home

    def probes(self, part: MultiPart, at_home: bool) -> bool:
        """Whether the rows look for partners here."""
        return at_home

    def _probe(self, part: MultiPart, matches: Matches) -> None:
        access, segments = self.work.access, self.segments()
        walk = access.walks[part.stream]
        before = len(walk.seen)
        for task in access.probes(part.stream, (part.block, part.sees), segments, 1, matches):
            task(self._buffer)
        for place, partials, _ in walk.seen[before:]:  # who measures is alone
            self.work.compared(partials, self.stored(walk.steps[place].stream))


def turn_rows(work: MultiWork, stream: int) -> int:
    """How long a turn is: a window is at least four turns of every core, so that all have about as much of it."""
    window = work.sizing.windows[stream].rows
    return max(1, min(TURN, TURN if window is None else window // (4 * work.cores)))


def _distributor(name: str, below: list[Link], above: Link) -> Node:
    return Distributor(f"distributor {name}", [above], below)


def _funnel(name: str, above: list[Link], below: Link) -> Node:
    return Funnel(f"funnel {name}", above, [below])


class ParallelMJFlow(MultiwayFlow):
    """Distribution tree, independent cores, gathering tree. ``dealt``: the stream that is dealt out."""

    name: ClassVar[str] = "parallel_mj"
    core_class: ClassVar[type[ParallelCore]] = ParallelCore

    def __init__(self, work: MultiWork, queue: int, fanout: int, dealt: int) -> None:
        self._build(work, queue, fanout, [dealt])

    def _build(self, work: MultiWork, queue: int, fanout: int, dealt: Sequence[int]) -> None:
        inputs, outputs = ([Link(queue) for _ in range(work.cores)] for _ in range(2))
        self._parallel = [
            self.core_class(work, i, dealt, *ends) for i, ends in enumerate(zip(inputs, outputs, strict=True))
        ]
        self.cores = list(self._parallel)
        feed, self.entry = grow(inputs, fanout, queue, _distributor)
        gather, results = grow(outputs, fanout, queue, _funnel)
        self.network = Network([*feed, *self.cores, *gather], results)

    def place(self, part: MultiPart) -> None:
        for core in self._parallel:
            core.keep(part)


class PrintedCore(ParallelCore):
    """Stores a share of every stream, and lets every row look for partners."""

    def probes(self, part: MultiPart, at_home: bool) -> bool:
        return True


class PrintedParallelMJFlow(ParallelMJFlow):
    """Parallel-MJ as it is printed: all windows are split, and no partial results are exchanged. Most results are not found.

    For the benchmark only.
    """

    core_class: ClassVar[type[ParallelCore]] = PrintedCore

    def __init__(self, work: MultiWork, queue: int, fanout: int) -> None:
        self._build(work, queue, fanout, range(work.streams))
