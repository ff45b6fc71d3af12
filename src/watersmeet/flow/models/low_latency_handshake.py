"""Low-latency handshake join: every row has one home core, and is forwarded past all cores before it is compared (splitjoin.txt 3, 6.1).

Stream 0 travels right through all cores, stream 1 left, without waiting for any comparison. A row is stored in its home only. Two
things keep pairs from being missed or found twice while rows pass each other:

- s that has been forwarded, but not acknowledged by the core on the left, and that has *not yet been home*, is *flying*: r on
  arrival meets who is at home here and who is flying from here.
- r is at home, to be met by s, once its *expedition* has ended: when it has come to the right end. That is told to its home by a
  message on the link on which stream 1 travels.

**Every pair meets exactly once.** Write A_i(t) for row t's arrival at core i, which is also when it is forwarded. If s comes first
to core i (A_i(s) < A_i(r)), then also to all cores on the right. Let m be the leftmost core that s comes to first; m = k if there
is none.

- m = k: r came to the right end before s entered the line, so the end of its expedition goes before s: they meet at r's home when s
  comes there. Nor does r meet s: it was before s everywhere.
- m < k: s goes before the end of r's expedition, and never finds r at home. If s's home is m or right of it, s was there before r
  came: they meet there. They do not meet flying: s's acknowledgement was put on r's link at A_i-1(s), so r finds s unacknowledged
  at core i iff s came first to i and r came first to i-1: at m only, and there s is at home, or has been.
- m < k, and s's home is left of m: when r comes to m, s is unacknowledged there and has not been home: they meet. Nowhere else: at
  s's home r came first, and at no other core is s unacknowledged when r comes.

**Expiry** is told for rows and times alike: what is over of stream 0 enters on the right, behind the rows of stream 1 that may
still see it, and goes left with them, and the other way round. Rows that it misses because they are still on their way to their
home are dropped when they come there: who is to meet them meets them on their way. Times are told of the rows that had entered by
then: one that enters later, out of order and below them, is still to meet rows that are behind what was told.

**No deadlock.** Rows that go right wait only for room on the link to the right and for their results; the rightmost core waits for
its results only. The same holds to the left. What is not rows never waits.

**Marks** enter at both ends; a core reports a mark that has come from both. Then all rows before it have come to all cores, so all
their pairs have met. Ends of expeditions may still be on their way; later rows are behind them.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.flow.models.base import Sending
from watersmeet.flow.models.line import Ack, Line, LineCore, Over, Travelling
from watersmeet.flow.models.load import Load, Part
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.store import Store
from watersmeet.flow.models.work import Work
from watersmeet.flow.network import Link, Message
from watersmeet.join.chain import Block, SubWindow
from watersmeet.join.matches import Matches
from watersmeet.streams.clock import BOTTOM


@dataclass(slots=True)
class Expedition(Travelling):
    """Rows on their way past all cores."""

    home: int


@dataclass(slots=True)
class Ended:
    """The oldest expedition of stream 0 that its home knows of has come to the right end."""

    home: int


class Flying(Store):
    """Rows that were forwarded and not acknowledged: few, and soon gone, so they are scanned."""

    def shape(self, block: Block) -> tuple[int, str]:
        return 16 * block.count, self.work.plan.driver.small


class LowLatencyCore(LineCore):
    """Forwards first, compares afterwards."""

    def __init__(
        self,
        work: Work,
        position: int,
        inputs: Sequence[Link],
        onward: Sequence[Link | None],
        results: Link,
    ) -> None:
        super().__init__(work, position, inputs, onward, results)
        self.flying = Flying(work, 1, meeting=True)
        self.acknowledged = BOTTOM
        self._away: deque[Part] = deque()  # rows of stream 0 that are stored here once their expedition ends
        self._passed: list[deque[Mark]] = [deque(), deque()]  # marks that have not come from the other side

    def has_room(self, side: int) -> bool:
        link = self.onward[side]
        return link is None or not link.full

    def receive(self, port: int, message: Message) -> None:
        if isinstance(message, Expedition):
            begun = self.clock()
            self.tell(port, message)
            matches = Matches()
            if port == 0:
                self.pass_right(message, matches)
            else:
                self.pass_left(message, matches)
            self.answer(message.load, [(message.part, matches)], begun)
        elif isinstance(message, Ack):
            self.release(message.end)
        elif isinstance(message, Ended):
            self.end_expedition(message.home)
        elif isinstance(message, Over):
            self.tell(port, message)
            self.note_over(message.side, message.arrival, message.time, message.end)
            self.stores[message.side].expire(*self.over[message.side])
        else:
            assert isinstance(message, Mark)
            self.tell(port, message)
            self._passed[port].append(message)
            if self._passed[1 - port]:
                self._passed[0].popleft()
                self.report(self._passed[1].popleft())

    # ---- stream 0 -----------------------------------------------------------------------------------------------

    def pass_right(self, rows: Expedition, matches: Matches) -> None:
        part = rows.part
        if rows.home == self.position:
            self._away.append(part)
        if self.onward[0] is None:
            self.end_expedition(rows.home)
        self.stores[1].find(part, self.buffer, matches)
        self.flying.find(part, self.buffer, matches, since=self.acknowledged)

    def end_expedition(self, home: int) -> None:
        if home == self.position:
            self.settle(self._away.popleft())
        else:
            self.tell(1, Ended(home))

    # ---- stream 1 -----------------------------------------------------------------------------------------------

    def pass_left(self, rows: Expedition, matches: Matches) -> None:
        part = rows.part
        if rows.home <= self.position:  # else it has been home before: who sent it does not keep it
            self.acknowledge(part.end)
        if rows.home == self.position:
            self.settle(part)
        elif rows.home < self.position:
            self.flying.insert(part)
        self.stores[0].find(part, self.buffer, matches)

    def acknowledge(self, end: int) -> None:
        self.tell(0, Ack(1, end))

    def release(self, end: int) -> None:
        self.acknowledged = end
        self.flying.expire(end, BOTTOM)

    # ---- both ---------------------------------------------------------------------------------------------------

    def settle(self, part: Part) -> None:
        """Rows are at home."""
        store = self.stores[part.side]
        store.insert(part)
        store.expire(*self.over[part.side])

    def oldest(self, side: int) -> int:
        oldest = super().oldest(side)
        return min(oldest, self._away[0].first) if side == 0 and self._away else oldest

    def subwindows(self, side: int) -> Sequence[SubWindow]:
        return [*super().subwindows(side), *(self.flying.windows if side == 1 else ())]


class LowLatencyHandshakeFlow(Line):
    """Rows are everywhere soon; each has a home in turn."""

    name: ClassVar[str] = "low_latency_handshake"
    core_class: ClassVar[type[LineCore]] = LowLatencyCore

    def __init__(self, work: Work, queue: int) -> None:
        super().__init__(work, queue)
        self._placed = [0, 0]

    def home(self, side: int, turn: int) -> int:
        # The second stream starts with the next core, so that two streams that come in turn do not load one core only.
        return (turn + side) % len(self.line)

    def place(self, part: Part) -> None:
        home = self.home(part.side, self._placed[part.side])
        self._placed[part.side] += 1
        self.line[home].stores[part.side].insert(part)
        self.extents[part.side].add(part)

    def send(self, load: Load) -> Sending:
        self.enter(load)
        for part in load.parts:
            home = self.home(part.side, load.turns[part.side])
            yield self.entries[part.side], Expedition(load, part, home)
        yield from self.send_news(timed=True)
