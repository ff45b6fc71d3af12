"""The three-step procedure of Kang et al. on one core: scan the other window, insert, invalidate. The reference."""

from collections.abc import Sequence
from typing import ClassVar

from watersmeet.flow.models.base import Flow, Sending
from watersmeet.flow.models.core import Core
from watersmeet.flow.models.load import Load, Part
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.work import Work
from watersmeet.flow.network import Link, Message, Network
from watersmeet.join.matches import Matches
from watersmeet.streams.clock import BOTTOM

ONLY = (0,)  # the choice of who has one input


class ThreeStepCore(Core):
    """Probes, then stores; forgets what is over."""

    def choices(self) -> Sequence[int]:
        results = self.results
        return ONLY if self.inputs[0].messages and len(results.messages) < results.capacity else ()

    def receive(self, port: int, message: Message) -> None:
        if isinstance(message, Mark):
            self.report(message)
            return
        load: Load = message
        begun = self.clock()
        if len(load.parts) == 1:
            self._alone(load, load.parts[0], begun)
            return
        for part in load.parts:  # interleaved: validity ranges tell who sees whom, if only everybody is there
            self.insert(load, part)
        found = [(part, self.probe(load, part)) for part in load.parts]
        self.answer(load, found, begun)
        for part in load.parts:  # not before: should the answer be lost, so are pairs of theirs
            self.forget_counted(part)

    def _alone(self, load: Load, part: Part, begun: float) -> None:
        """Rows of one stream: they see what was there before them."""
        matches = self.probe(load, part)
        self.insert(load, part)
        self.forget_counted(part)
        self.answer(load, [(part, matches)], begun)

    def probe(self, load: Load, part: Part) -> Matches:
        other, matches, gone = self.stores[1 - part.side], Matches(), load.gone[1 - part.side]
        if gone > BOTTOM:
            other.expire(BOTTOM, gone)
        other.find(part, self.buffer, matches)
        return matches

    def insert(self, load: Load, part: Part) -> None:
        if self.keeps(load, part):
            self.stores[part.side].insert(part)


class ThreeStepFlow(Flow):
    """One core, one queue."""

    name: ClassVar[str] = "three_step"

    def __init__(self, work: Work, queue: int) -> None:
        self.entry, results = Link(queue), Link(queue)
        self.cores = [ThreeStepCore(work, 0, [self.entry], [results])]
        self.network = Network(self.cores, results)

    def place(self, part: Part) -> None:
        self.cores[0].stores[part.side].insert(part)

    def send(self, load: Load) -> Sending:
        yield self.entry, load

    def send_mark(self, mark: Mark) -> Sending:
        yield self.entry, mark
