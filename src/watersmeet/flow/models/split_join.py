"""SplitJoin: a tree hands every row to every core; each stores its share and probes alone; a tree gathers (splitjoin.txt 4, 5).

No core knows of another, and nobody coordinates: a core stores a load when the number of loads it has seen of that stream says that it
is its turn. Expiry is passive for count windows (new rows push old ones out) and active for time windows (before a probe, rows that
are over are forgotten, by the time that the probing rows bring along).
"""

from functools import partial
from typing import ClassVar

from watersmeet.flow.models.base import Flow, Sending
from watersmeet.flow.models.gather import Distributor, Funnel, Merger, grow
from watersmeet.flow.models.load import Load, Part
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.three_step import ThreeStepCore
from watersmeet.flow.models.work import Work
from watersmeet.flow.network import Link, Network, Node


class SplitCore(ThreeStepCore):
    """Sees every load, stores every k-th of each stream."""

    def keeps(self, load: Load, part: Part) -> bool:
        # The second stream starts with the next core, so that two streams that come in turn do not load one core only.
        return (load.turns[part.side] + part.side) % self.work.cores == self.position


class SplitJoinFlow(Flow):
    """Distribution tree, independent cores, gathering tree."""

    name: ClassVar[str] = "split_join"

    def __init__(self, work: Work, queue: int, fanout: int, ordered: bool) -> None:
        inputs = [Link(queue) for _ in range(work.cores)]
        outputs = [Link(queue) for _ in range(work.cores)]
        self.cores = [SplitCore(work, i, [inputs[i]], [outputs[i]]) for i in range(work.cores)]
        feed, self.entry = grow(inputs, fanout, queue, _distributor)
        gather, results = grow(outputs, fanout, queue, partial(_gatherer, ordered))
        self.network = Network([*feed, *self.cores, *gather], results)
        self._placed = [0, 0]

    def place(self, part: Part) -> None:
        turn = self._placed[part.side] + part.side
        self._placed[part.side] += 1
        self.cores[turn % len(self.cores)].stores[part.side].insert(part)

    def send(self, load: Load) -> Sending:
        yield self.entry, load

    def send_mark(self, mark: Mark) -> Sending:
        yield self.entry, mark


def _distributor(name: str, below: list[Link], above: Link) -> Node:
    return Distributor(f"distributor {name}", [above], below)


def _gatherer(ordered: bool, name: str, above: list[Link], below: Link) -> Node:
    kind = Merger if ordered else Funnel
    return kind(f"{kind.__name__.lower()} {name}", above, [below])
