"""The three-step procedure of Kang et al. on one core: scan the other window, insert, invalidate. The reference."""

from typing import ClassVar

from watersmeet.clock import BOTTOM
from watersmeet.flow.base import Flow, Sending
from watersmeet.flow.core import Core
from watersmeet.flow.load import Load, Part
from watersmeet.flow.message import Mark
from watersmeet.flow.network import Link, Message, Network
from watersmeet.flow.work import Work
from watersmeet.matches import Matches


class ThreeStepCore(Core):
    """Probes, then stores; forgets what is over."""

    def receive(self, port: int, message: Message) -> None:
        if isinstance(message, Mark):
            self.report(message)
            return
        load: Load = message
        begun, together = self.clock(), len(load.parts) > 1
        if together:  # interleaved: validity ranges tell who sees whom, if only everybody is there
            for part in load.parts:
                self.insert(load, part)
        found = []
        for part in load.parts:
            other = self.stores[1 - part.side]
            other.expire(BOTTOM, load.gone[1 - part.side])
            matches = Matches()
            other.find(part, self.buffer, matches)
            found.append((part, matches))
            if not together:
                self.insert(load, part)
        for part in load.parts:
            self.forget_counted(part)
        self.answer(load, found, begun)

    def insert(self, load: Load, part: Part) -> None:
        if self.keeps(load, part):
            self.stores[part.side].insert(part)


class ThreeStep(Flow):
    """One core, one queue."""

    name: ClassVar[str] = "three_step"
    orders: ClassVar[tuple[str, ...]] = ("outer", "inner")

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
