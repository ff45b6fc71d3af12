"""What every join core does: keep rows of both streams, probe them, answer. How rows come to it is the flow's business."""

from collections.abc import Sequence

import numpy as np

from watersmeet.flow.models.load import Load, Part
from watersmeet.flow.models.message import Found, Mark
from watersmeet.flow.models.store import Store
from watersmeet.flow.models.work import Work
from watersmeet.flow.network import Link, Message, Processor
from watersmeet.flow.order import arrange
from watersmeet.index.base import PairBuffer
from watersmeet.join.chain import SubWindow
from watersmeet.join.matches import Matches
from watersmeet.streams.clock import BOTTOM, TOP


class Core(Processor):
    """A join core. ``results``: the link on which it answers; the last of its outputs."""

    def __init__(
        self,
        work: Work,
        position: int,
        inputs: Sequence[Link],
        outputs: Sequence[Link],
        meeting: bool = False,
    ) -> None:
        super().__init__(f"core {position}", position, inputs, outputs)
        self.work, self.results = work, outputs[-1]
        self.stores = [Store(work, k, meeting) for k in (0, 1)]
        self.buffer = PairBuffer()
        self.current: Message = None  # what is being worked on: if that fails, somebody must still answer
        # Set once the core has failed: the rows that it had, or should have kept.
        self.missing: list[list[np.ndarray]] | None = None

    def step(self, choice: int) -> None:
        self.current = self.inputs[choice].get()
        if self.missing is None:
            self.receive(choice, self.current)
        else:
            self.stand_in(self.current)
        self.current = None

    # ---- answers ------------------------------------------------------------------------------------------------

    def answer(self, load: Load, found: Sequence[tuple[Part, Matches]], begun: float) -> None:
        """Send what was found for a load. With an order, also if that is nothing."""
        message = self.finding(load, found, begun)
        if message is not None:
            self.results.put(message)

    def finding(self, load: Load, found: Sequence[tuple[Part, Matches]], begun: float) -> Found | None:
        """What is to be sent for a load; None: nothing."""
        done = self.clock()
        if load.order is not None:
            pairs = []
            for part, matches in found:
                left, right = matches.columns()
                probes, stored = (left, right) if part.side == 0 else (right, left)
                pairs.append((part.side, probes, stored, part.places(probes)))
            return Found(
                self.position, load, Matches(), arrange(load.order, pairs, self.work.cores == 1), begun, done
            )
        matches = found[0][1] if len(found) == 1 else _together([matches for _, matches in found])
        if matches.some:
            return Found(self.position, load, matches, None, begun, done)
        return None

    def report(self, mark: Mark) -> None:
        """Everything before the mark has been done."""
        self.results.put(Mark(mark.number, (self.oldest(0), self.oldest(1))))

    def oldest(self, side: int) -> int:
        """The oldest row of a stream that is still here; a very large number if there is none."""
        first = self.stores[side].first
        return TOP if first is None else first

    def subwindows(self, side: int) -> Sequence[SubWindow]:
        """The sub-windows of a stream that are here."""
        return self.stores[side].windows

    def forget_counted(self, part: Part) -> None:
        """Passive expiry: a row of a count window is pushed out by the rows of its own stream."""
        window = self.work.windows[part.side]
        if window.rows is not None:
            self.stores[part.side].expire(window.lowest(part.end), BOTTOM)

    # ---- faults -------------------------------------------------------------------------------------------------

    def fail(self) -> None:
        """The core is lost: from now on it only says so."""
        self.missing = [[self.held_rows(side)] for side in (0, 1)]
        current, self.current = self.current, None
        if current is not None:
            self.stand_in(current)

    def held_rows(self, side: int) -> np.ndarray:
        """The arrival numbers of a stream's rows that are here."""
        return self.stores[side].held()

    def stand_in(self, message: Message) -> None:
        """Answer for a core that is lost: nothing found."""
        assert self.missing is not None
        if isinstance(message, Mark):
            self.report(message)
        elif isinstance(message, Load):
            for part in message.parts:
                if self.keeps(message, part):
                    self.missing[part.side].append(np.arange(part.first, part.end))
            if message.order is not None:
                self.answer(message, [], self.clock())

    def keeps(self, load: Load, part: Part) -> bool:
        """Whether this core stores these rows."""
        return True


def _together(several: Sequence[Matches]) -> Matches:
    both = Matches()
    for matches in several:
        both.add_all(matches)
    return both
