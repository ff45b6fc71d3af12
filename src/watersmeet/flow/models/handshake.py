"""Handshake join: two streams pass each other along a line of cores, and every row meets every row it passes (handshake-join.txt 3 to 5).

A core keeps a stretch of each window; the oldest rows move on to the next core when newer ones come, and fall out at the far end.
As rows can also pass each other while both are in the links between two cores, forwarding has two phases (4.2): a row that was sent
on is kept until the receiver's acknowledgement, which comes on the link that also carries the other stream.

**Every pair meets exactly once.** Write A_i(t) for row t's arrival at core i, X_i(t) for its being sent on. The rules are: r on
arrival meets all s that are held (sent on or not, as long as not acknowledged); s on arrival meets the r that have not been sent
on. Links are first in, first out, so r finds s still held at core i iff A_i(s) < A_i(r) and, as the acknowledgement of s was put on
r's own link at A_i-1(s), iff X_i-1(r) < A_i-1(s). If s comes first to core i (A_i(s) < A_i(r)), then also to all cores on the
right, as s was there earlier and r comes later. Let m be the leftmost core that s comes to first. On the right of m, r left the
core before after s had come to it: no meeting there. On the left of m-1, r had been sent on before s came: none there. Left are
core m-1, where they meet iff A_m-1(s) < X_m-1(r), and core m, where they meet iff X_m-1(r) < A_m-1(s): one of the two. At the ends:
m = 0 means that r finds s in the leftmost core, m beyond the line that s finds r in the rightmost, where rows are not sent on but
dropped once they are over.

**Expiry is late, never early.** A row is dropped in the last core of its direction only: by what was said to be over on the other
stream's entry link, behind all rows that could still see it. For count windows that is an arrival number. For time windows it is the
times that rows and marks bring along, and it holds for the rows that came before those: one that comes later, out of order and below
such a time, may still see them. Those rows have come to this core before; if the row was here, they have met it here, else it has met,
or will meet, them on its way. So a row that comes to the far end when it is over already is compared first and dropped then. While a
window fills, nothing is over, and nothing is sent.

**When rows move on.** A core keeps its share, the rows in the window / k; each message in a stream's direction tells it. The oldest
load is *due* once the others fill the share without it. So a window that fills is spread evenly, and one that empties flows out.

**No deadlock.** Sending on is a move of its own, made when the link has room; a core takes rows of a stream only while none of that
stream are due. So what goes right waits only for what goes right, further right; the rightmost core waits only for its results to
be taken. The same holds to the left. Acknowledgements wait in line with the other stream's rows, but nobody waits for them except
marks.

**Marks.** A core passes a mark on when nothing is due in its direction, and reports it when it has come from both sides and all
that was sent on before has been acknowledged. When all cores have reported and nothing has entered since, nothing moves: every r
left of an s has not met it, every other pair has, and ``borders`` says all there is to know.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from watersmeet.flow.models.base import Sending
from watersmeet.flow.models.line import NEVER, Ack, Line, LineCore, Over, Travelling
from watersmeet.flow.models.load import Load, Part
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.work import Work
from watersmeet.flow.network import Link, Message
from watersmeet.join.chain import least
from watersmeet.join.matches import Matches
from watersmeet.streams.clock import BOTTOM


@dataclass(slots=True)
class Shift(Travelling):
    """Rows that move on. ``share``: how many rows of the stream a core is to keep."""

    share: int


@dataclass(slots=True)
class Passing:
    """A mark on its way along one direction. ``gone``: time code below which rows of the other stream are over, and where these end."""

    mark: Mark
    share: int
    gone: tuple[int, int]


class HandshakeCore(LineCore):
    """A stretch of both windows. Of each stream it holds the rows [kept, end); those below ``sent`` are also with the next core, or
    on their way there. Moves: 0 and 1 take a message, 2 and 3 send rows of stream 0 or 1 on.
    """

    def __init__(
        self,
        work: Work,
        position: int,
        inputs: Sequence[Link],
        onward: Sequence[Link | None],
        results: Link,
    ) -> None:
        super().__init__(work, position, inputs, onward, results)
        self.kept, self.sent, self.end = [0, 0], [0, 0], [0, 0]
        self.share = [NEVER, NEVER]
        self._unsent: list[deque[Travelling]] = [deque(), deque()]
        self._marks: list[deque[Passing]] = [deque(), deque()]  # come, not passed on
        self._passed: list[deque[Mark]] = [deque(), deque()]  # passed on, not yet come from the other side
        self._reports: deque[tuple[Mark, int, int]] = deque()  # reported once so much is acknowledged

    # ---- moves --------------------------------------------------------------------------------------------------

    def choices(self) -> Sequence[int]:
        found = list(super().choices())
        for side, link in enumerate(self.onward):
            if link is not None and not link.full and self.due(side):
                found.append(2 + side)
        return found

    def has_room(self, side: int) -> bool:
        return not self.due(side)

    def due(self, side: int) -> bool:
        """Whether the oldest load of a stream should be with the next core."""
        unsent = self._unsent[side]
        if not unsent or self.onward[side] is None:
            return False
        return self.end[side] - unsent[0].part.end >= self.share[side]

    def step(self, choice: int) -> None:
        if choice < 2:
            super().step(choice)
        else:
            self.send_on(choice - 2)

    def send_on(self, side: int) -> None:
        rows = self._unsent[side].popleft()
        self.tell(side, Shift(rows.load, rows.part, self.share[side]))
        self.sent[side] = rows.part.end
        self._pass_marks(side)

    def receive(self, port: int, message: Message) -> None:
        if isinstance(message, Shift):
            self.share[port] = message.share
            self.arrive(message)
        elif isinstance(message, Ack):
            self.release(message.side, message.end)
            self._settle()
        elif isinstance(message, Over):
            self.note_over(message.side, message.arrival, message.time, message.end)
            self.drop_over(message.side)
        else:
            assert isinstance(message, Passing)
            self.share[port] = message.share
            self._told_gone(port, *message.gone)
            self._marks[port].append(message)
            self._pass_marks(port)

    # ---- rows ---------------------------------------------------------------------------------------------------

    def arrive(self, rows: Shift) -> None:
        """Rows come in: they are kept and acknowledged, and meet who is here."""
        begun, part, side = self.clock(), rows.part, rows.part.side
        self._told_gone(side, rows.load.gone[1 - side], least(part.probe.validity.arrival_hi))
        matches = Matches()
        self.stores[1 - side].find(part, self.buffer, matches, since=self.met_from(side))
        self.keep(rows)
        self.acknowledge(side, part.end)
        if self.onward[side] is None:
            self.drop_over(side)
        self.answer(rows.load, [(part, matches)], begun)

    def met_from(self, side: int) -> int:
        """From which arrival number on rows that come in meet those of the other stream: who is held, or who has not been sent on."""
        return self.kept[1] if side == 0 else self.sent[0]

    def keep(self, rows: Travelling) -> None:
        part, side = rows.part, rows.part.side
        if self.kept[side] == self.end[side]:
            self.kept[side] = self.sent[side] = part.first
        self.stores[side].insert(part)
        self.end[side] = part.end
        if self.onward[side] is not None:
            self._unsent[side].append(rows)

    def acknowledge(self, side: int, end: int) -> None:
        """To where the rows came from; at an entry there is nobody."""
        self.tell(1 - side, Ack(side, end))

    def release(self, side: int, end: int) -> None:
        """The next core has the rows below ``end``. Sub-windows go whole, so some of these rows may stay; they are not met again."""
        self.kept[side] = max(self.kept[side], end)
        self.stores[side].expire(self.kept[side], BOTTOM)

    def drop_over(self, side: int) -> None:
        """In the last core of a stream's direction: what is over leaves."""
        arrival, time, came = self.over[side]
        store, end = self.stores[side], self.end[side]
        store.expire(max(arrival, self.kept[side]), time, came)
        first = store.first
        kept = min(end, max(self.kept[side], arrival, end if first is None else first))
        self.kept[side] = self.sent[side] = kept

    def _told_gone(self, port: int, gone: int, end: int) -> None:
        """Rows and marks that enter the line here also say what is over of the stream that leaves it here: of the rows below ``end``, which
        came before them, those below a time."""
        if self.onward[1 - port] is None and gone > BOTTOM:
            _, known, came = self.over[1 - port]
            if gone > known or end > came:
                self.note_over(1 - port, BOTTOM, gone, end)
                self.drop_over(1 - port)

    def oldest(self, side: int) -> int:
        return self.kept[side] if self.kept[side] < self.end[side] else NEVER

    # ---- marks --------------------------------------------------------------------------------------------------

    def _pass_marks(self, side: int) -> None:
        while self._marks[side] and not self.due(side):
            passing = self._marks[side].popleft()
            self.tell(side, passing)
            self._passed[side].append(passing.mark)
        self._settle()

    def _settle(self) -> None:
        """Report marks that have come from both sides, once all that was sent on before is acknowledged."""
        while self._passed[0] and self._passed[1]:
            self._passed[0].popleft()
            self._reports.append((self._passed[1].popleft(), self.sent[0], self.sent[1]))
        while self._reports and self._reports[0][1] <= self.kept[0] and self._reports[0][2] <= self.kept[1]:
            self.report(self._reports.popleft()[0])


class HandshakeFlow(Line):
    """Rows flow past each other; pairs are found when they meet, the last of them when the streams end."""

    name: ClassVar[str] = "handshake"
    prompt: ClassVar[bool] = False
    core_class: ClassVar[type[LineCore]] = HandshakeCore

    def __init__(self, work: Work, queue: int) -> None:
        super().__init__(work, queue)
        self.stretches = cast(list[HandshakeCore], self.line)
        self._borders: list[list[int]] | None = None

    def share(self, side: int) -> int:
        """How many rows of a stream a core is to keep: an equal part of the window, or of what there is of it."""
        return max(1, -(-self.extents[side].rows // len(self.stretches)))

    def send(self, load: Load) -> Sending:
        self.enter(load)
        for part in load.parts:
            yield self.entries[part.side], Shift(load, part, self.share(part.side))
        yield from self.send_news(timed=False)

    def send_mark(self, mark: Mark) -> Sending:
        yield from self._send_marks(mark, [self.share(0), self.share(1)])

    def send_drain(self, mark: Mark) -> Sending:
        """No core keeps rows of stream 0: they go past all there is of stream 1, to the right end."""
        yield from self._send_marks(mark, [0, self.share(1)])

    def _send_marks(self, mark: Mark, shares: Sequence[int]) -> Sending:
        for side, share in enumerate(shares):
            yield self.entries[side], Passing(mark, share, self.extents[1 - side].gone)

    def borders(self) -> list[list[int]]:
        return [[core.kept[0], core.end[0], core.kept[1], core.end[1]] for core in self.stretches]

    def place_between(self, borders: list[list[int]]) -> None:
        """Rows come back to the cores that they were in; with more cores than there were, those on the right are empty."""
        assert len(borders) <= len(self.stretches), "rows that have not met may not come to one core"
        self._borders = borders

    def place(self, part: Part) -> None:
        """Without borders, nobody has anybody to meet that is here: rows are placed at their entries, and move on by and by."""
        side = part.side
        if self._borders is None:
            core = self.stretches[0 if side == 0 else -1]
        else:
            found = [
                core
                for core, border in zip(self.stretches, self._borders, strict=False)
                if border[2 * side] <= part.first < border[2 * side + 1]
            ]
            if not found:
                return  # it had left the line
            core = found[0]
            assert part.end <= self._borders[core.position][2 * side + 1]
        load = Load(-1, (part,), 0, part.block.count, (0, 0), (BOTTOM, BOTTOM))  # nobody waits for it
        core.keep(Travelling(load, part))
        self.extents[side].add(part)
