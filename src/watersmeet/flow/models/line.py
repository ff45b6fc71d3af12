"""A line of cores: what handshake join and low-latency handshake join have in common.

Stream 0 enters on the left and travels right, stream 1 enters on the right and travels left; between two neighbours there is one
link each way. Side k is both the stream and the direction that it travels in: ``onward[k]`` is the link to the core that stream k
goes to next (None: the line ends here). What is said about the rows of one stream (acknowledgements, expiry) travels against them,
on the very link on which the rows of the other stream travel: its place among those rows is what makes every pair meet exactly
once.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.flow.models.base import Flow, Sending
from watersmeet.flow.models.core import Core
from watersmeet.flow.models.gather import Funnel, grow
from watersmeet.flow.models.load import Load, Part
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.work import Work
from watersmeet.flow.network import Link, Message, Network, Node
from watersmeet.streams.clock import BOTTOM, TOP
from watersmeet.streams.window import Window

FANOUT = 4  # of the tree that gathers results
NEVER = TOP  # no row has, and no core holds, as much


@dataclass(slots=True)
class Travelling:
    """Rows on their way from core to core."""

    load: Load
    part: Part


@dataclass(slots=True)
class Ack:
    """Rows of a stream below an arrival number have been taken in by who sends this."""

    side: int
    end: int


@dataclass(slots=True)
class Over:
    """What of a stream can match nothing that comes behind this message: rows below an arrival number, and of the rows below ``end``,
    which came before this was said, those below a time code.

    Opposite a window without time a row may come out of order, below that time already. No later row sees it, but it sees the rows before
    it, which may be behind this message.
    """

    side: int
    arrival: int
    time: int
    end: int


class Extent:
    """How much of a stream is in its window, as seen by who sends the rows.

    Count windows: the last n rows. Time windows: the rows from the first load on whose newest time is not gone; a load out of order
    makes that more, never less. Unbounded: all rows.
    """

    def __init__(self, side: int, window: Window) -> None:
        self.side, self._window = side, window
        self._counted = window.rows
        self._first, self._end, self._gone = 0, 0, BOTTOM
        self._told = (0, BOTTOM)
        self._loads: deque[tuple[int, int]] = deque()  # (arrival number after it, newest time), if timed
        self._lowest = TOP  # time among the rows since something was told last

    def add(self, part: Part) -> None:
        """Rows have entered."""
        if self._first == self._end:
            self._first = part.first
        self._end = part.end
        if self._counted is not None:
            self._first = max(self._first, self._end - self._counted)
        elif part.block.times is not None and part.block.count:
            self._loads.append((part.end, int(part.block.times.max())))
            self._lowest = min(self._lowest, int(part.block.times.min()))

    def forget(self, gone: int) -> None:
        """Times below ``gone`` are over."""
        self._gone = max(self._gone, gone)
        while self._loads and self._loads[0][1] < self._gone:
            self._first, _ = self._loads.popleft()

    @property
    def rows(self) -> int:
        return self._end - self._first

    @property
    def gone(self) -> tuple[int, int]:
        """Of the rows that have entered, which end at the second number, those below the first time are over."""
        return self._gone, self._end

    def news(self, timed: bool) -> Over | None:
        """What the far end is to be told of this stream; None: nothing that it does not know. Nothing is over while a window fills."""
        arrival = 0 if self._counted is None else self._end - self._counted
        now = max(self._told[0], arrival), self._gone if timed else BOTTOM
        if now == self._told and now[1] <= self._lowest:
            return None
        self._told, self._lowest = now, TOP
        return Over(self.side, *now, self._end)


class LineCore(Core):
    """A core with a neighbour on either side. Input k brings what stream k brings, and what is said about the other stream."""

    def __init__(
        self,
        work: Work,
        position: int,
        inputs: Sequence[Link],
        onward: Sequence[Link | None],
        results: Link,
    ) -> None:
        outputs = [link for link in onward if link is not None]
        super().__init__(work, position, inputs, [*outputs, results], meeting=True)
        self.onward = list(onward)
        self.over = [(BOTTOM, BOTTOM, 0), (BOTTOM, BOTTOM, 0)]  # by stream: what has been said to be over

    def choices(self) -> Sequence[int]:
        return [side for side in (0, 1) if self.inputs[side].messages and self.takes(side)]

    def takes(self, side: int) -> bool:
        """Whether the next message of an input can be taken now. Rows wait for room; everything else is always let in."""
        waiting = self.inputs[side].messages[0]
        return not isinstance(waiting, Travelling) or (self.has_room(side) and not self.results.full)

    def has_room(self, side: int) -> bool:
        """Whether there is room for what taking rows of a stream leads to."""
        raise NotImplementedError

    def tell(self, side: int, message: Message) -> None:
        """Say something to the neighbour in the direction of a stream, if there is one."""
        link = self.onward[side]
        if link is not None:
            link.put(message)

    def note_over(self, side: int, arrival: int, time: int, end: int) -> None:
        """Remember what is over: rows may come here after that was said."""
        known = self.over[side]
        self.over[side] = max(known[0], arrival), max(known[1], time), max(known[2], end)


class Line(Flow):
    """Links each way between neighbours, an entry at either end, a tree that gathers results."""

    core_class: ClassVar[type[LineCore]]

    def __init__(self, work: Work, queue: int) -> None:
        cores = work.cores
        # ways[side][i]: the link on which a stream comes to core i
        ways = [[Link(queue) for _ in range(cores)] for _ in (0, 1)]
        answers = [Link(queue) for _ in range(cores)]
        self.line: list[LineCore] = []
        for i in range(cores):
            right = ways[0][i + 1] if i + 1 < cores else None
            left = ways[1][i - 1] if i else None
            self.line.append(self.core_class(work, i, [ways[0][i], ways[1][i]], [right, left], answers[i]))
        self.cores = [*self.line]
        self.entries = ways[0][0], ways[1][-1]
        self.extents = [Extent(side, work.windows[side]) for side in (0, 1)]
        gather, results = grow(answers, FANOUT, queue, _funnel)
        self.network = Network([*self.cores, *gather], results)

    def enter(self, load: Load) -> None:
        """A load is about to enter."""
        for part in load.parts:
            self.extents[part.side].add(part)
        for extent in self.extents:
            extent.forget(load.gone[extent.side])

    def send_news(self, timed: bool) -> Sending:
        """To the far end of each stream: what is over. Behind all rows that came before, which may still see it."""
        for extent in self.extents:
            news = extent.news(timed)
            if news is not None:
                yield self.entries[1 - extent.side], news

    def send_mark(self, mark: Mark) -> Sending:
        for entry in self.entries:
            yield entry, mark


def _funnel(name: str, above: list[Link], below: Link) -> Node:
    return Funnel(f"funnel {name}", above, [below])
