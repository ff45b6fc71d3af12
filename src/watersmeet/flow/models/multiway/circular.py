"""Circular-MJ: a ring of stages, one a stream; rows enter where their stream's next one is (thesis 6.1).

Stage k keeps stream k. A load of stream i begins at stage i + 1, and its partial results go round the ring: the probe order is i + 1, i
+ 2, ...; stage i - 1 makes the results. A *distribution chain* brings every load to every stage, in one order. The stage whose stream
it is stores the rows, the next one starts the search, and all write the load down in their *order buffer* (OBuf), from which it is
taken when its end flag has passed.

Order control. Rows overtake one another: when partial results of load L come to stage k, rows that came after L may be stored there,
and rows that came before may not. The thesis counts what was stored too early, lets its *refine* unit drop matches with it, and looks
for what has been expired too early in an expiry buffer (EBuf). Here three rules do the same:
- Stage k takes partial results of L only once it has taken all loads up to L from the chain: nothing is missing.
- What was stored too early lies outside of the validity range, which is in every step: that is the refine unit.
- A stage forgets only what the oldest load in its OBuf cannot see any more: nothing leaves too early. That is the EBuf.

Nothing is dropped and nothing blocks (the thesis drops partial results when buffers are full). Between two stages there is a link for
each stream of origin, a *channel*, and a stage that has no room on one goes on with another. A load is taken from the chain only when
nobody looks through the stage's rows. Let L be the smallest load that is not done everywhere. Before L stand only loads that are done.
So whatever is before L on the chain is gone, and no search that has been begun for an earlier load is in its way: every stage can take
L. In the channels of L's streams nothing is before its partial results, every stage has taken all loads up to L, and the last stage of
a channel writes to the exit only: they can move. So L gets done, with links of any length.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import ClassVar

from watersmeet.flow.models.gather import Distributor, Funnel
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.multiway.load import Lot, MultiLoad, MultiPart
from watersmeet.flow.models.multiway.stage import MultiwayFlow, MultiWork, Search, Stage
from watersmeet.flow.network import Link, Message, Network
from watersmeet.index.base import PairBuffer

CHAIN = 0  # the choice of who takes from the distribution chain


class Channel:
    """The partial results of one stream's rows at one stage. ``inbox``: None where they begin; ``outbox``: None where they are results."""

    def __init__(self, origin: int, place: int, inbox: Link | None, outbox: Link | None) -> None:
        self.origin, self.place, self.inbox, self.outbox = origin, place, inbox, outbox
        self.search = Search()
        self.buffer = PairBuffer()  # a search that waits for room keeps its place there


class Expected:
    """A load in the order buffer, and of how many streams its partial results are still to come."""

    def __init__(self, load: MultiLoad, left: int) -> None:
        self.load, self.left = load, left


class CircularStage(Stage):
    """Keeps one stream."""

    def __init__(
        self, work: MultiWork, position: int, entry: Link, channels: Sequence[Channel], results: Link
    ) -> None:
        inboxes = [channel.inbox for channel in channels if channel.inbox is not None]
        outboxes = [channel.outbox for channel in channels if channel.outbox is not None]
        super().__init__(work, position, [position], [entry, *inboxes], [*outboxes, results])
        self.entry, self.channels = entry, list(channels)
        self._by_origin = {channel.origin: channel for channel in channels}
        self._order: deque[Expected | Mark] = deque()  # OBuf
        self._taken = -1  # number of the newest load

    # ---- which moves there are ----------------------------------------------------------------------------------

    def choices(self) -> Sequence[int]:
        """Partial results go before new rows, so that they do not pile up."""
        found = [place for place, channel in enumerate(self.channels, 1) if self.ready(channel)]
        if not found and self.entry.messages and self.idle():
            return (CHAIN,)
        return found

    def ready(self, channel: Channel) -> bool:
        """Whether a search can go on, or begin."""
        if (self.results if channel.outbox is None else channel.outbox).full:
            return False
        if channel.search.begun:
            return True
        inbox = channel.inbox
        return inbox is not None and bool(inbox.messages) and self.in_order(inbox.messages[0])

    def in_order(self, lot: Lot) -> bool:
        """Whether all rows that came before these partial results' last rows are here."""
        return lot.load.number <= self._taken

    def idle(self) -> bool:
        """Nobody looks through the rows."""
        return not any(channel.search.begun for channel in self.channels)

    def step(self, choice: int) -> None:
        if choice == CHAIN:
            self.receive(CHAIN, self.entry.get())
            return
        channel = self.channels[choice - 1]
        if not channel.search.begun:
            assert channel.inbox is not None
            channel.search.begin(self._search(channel, channel.inbox.get()))
        channel.search.go_on()

    # ---- rows ---------------------------------------------------------------------------------------------------

    def receive(self, port: int, message: Message) -> None:
        """A load, or a mark, from the distribution chain."""
        if isinstance(message, Mark):
            self._order.append(message)
            self._settle()
            return
        load: MultiLoad = message
        self._taken = load.number
        self._order.append(Expected(load, sum(part.stream != self.position for part in load.parts)))
        self.expire(self.oldest().gone)
        mine = load.part(self.position)
        if mine is not None:
            self.store(mine)
        for channel in self.channels:
            part = load.part(channel.origin)
            if part is not None:
                self.prepare(channel.origin, channel.place, part.block.count)
                if channel.inbox is None:
                    channel.search.begin(self._begin(channel, load, part))
        self._settle()

    def oldest(self) -> MultiLoad:
        """The oldest load whose partial results may still come."""
        return next(entry.load for entry in self._order if isinstance(entry, Expected))

    def _settle(self) -> None:
        """Take what is done from the order buffer."""
        while self._order:
            entry = self._order[0]
            if isinstance(entry, Mark):
                self.report(entry)
            elif entry.left:
                return
            self._order.popleft()

    def _ended(self, load: MultiLoad) -> None:
        for entry in self._order:
            if isinstance(entry, Expected) and entry.load is load:
                entry.left -= 1
        self._settle()

    # ---- partial results ----------------------------------------------------------------------------------------

    def _begin(self, channel: Channel, load: MultiLoad, part: MultiPart) -> Iterator[None]:
        """The first step of rows that have come."""
        yield from self._search(channel, Lot(load, part, channel.place, self.first(part)))
        yield from self._search(channel, Lot(load, part, channel.place, None))

    def _search(self, channel: Channel, lot: Lot) -> Iterator[None]:
        """One step of partial results; at each ``yield`` a message has been sent."""
        load, part, outbox, begun = lot.load, lot.part, channel.outbox, self.clock()
        if lot.partials is None:
            if outbox is not None:
                outbox.put(Lot(load, part, lot.place + 1, None))
            self._ended(load)
        elif outbox is None:
            for matches in self.last(lot, channel.buffer):
                self.answer(load, matches, begun)
                yield
        else:
            for more in self.further(lot, channel.buffer):
                outbox.put(Lot(load, part, lot.place + 1, more))
                yield


class CircularMJFlow(MultiwayFlow):
    """Distribution chain, ring of stages, one collection of results. Every stream probes the others in the order of the ring."""

    name: ClassVar[str] = "circular_mj"
    stage_class: ClassVar[type[CircularStage]] = CircularStage

    def __init__(self, work: MultiWork, queue: int) -> None:
        n = work.streams
        entries, chain, outputs = ([Link(queue) for _ in range(n)] for _ in range(3))
        results = Link(queue)
        # By origin: the links between the stages of its way.
        ways = [[None, *(Link(queue) for _ in range(n - 2)), None] for _ in range(n)]
        stages = []
        for k in range(n):
            channels = []
            for place in range(n - 1):
                way = ways[(k - place - 1) % n]
                channels.append(Channel((k - place - 1) % n, place, way[place], way[place + 1]))
            stages.append(self.stage_class(work, k, entries[k], channels, outputs[k]))
        self.cores = list(stages)
        self._stages, self.entry = stages, chain[0]
        feed = [Distributor(f"chain {k}", [chain[k]], [entries[k], *chain[k + 1 : k + 2]]) for k in range(n)]
        self.network = Network([*feed, *stages, Funnel("collection", outputs, [results])], results)

    @classmethod
    def orders(cls, streams: int, hot: int) -> dict[int, list[int]]:
        """The others as they come on the ring."""
        return {k: [(k + place) % streams for place in range(1, streams)] for k in range(streams)}

    def place(self, part: MultiPart) -> None:
        self._stages[part.stream].store(part)
