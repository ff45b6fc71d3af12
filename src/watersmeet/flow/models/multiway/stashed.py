"""Stashed-MJ: three streams on two stages, and a stash of pairs for the stream that arrives most often (thesis 6.2).

Two streams are a *pair*, the third is the *hot* one. The first stage keeps the pair and the stash, the second the hot stream. A row of
the pair looks for the other one at the first stage; pairs go into the stash, and to the second stage, which looks for hot rows. A hot
row looks for pairs in the stash, and its results leave at the first stage. What the stash does not have (``join/stash.py``: it is
complete from a number on) is recomputed: one stream of the pair at the first stage, the other at the second (thesis 6.3.3).

That other one is *shared*: the first stage writes it and the second reads it, so there is a lock (thesis 6.3.1), as messages. The first
stage locks the shared window when it takes a load that has something to recompute, and until the second has said for all such loads
that they are done it takes no load with rows of the shared stream and forgets none of them. Both stages may read. Where the stash is
complete nobody locks.

Messages go down in one order, so when partial results come to the second stage all earlier hot rows are there. Releases go up, and are
always let in and always taken, and the second stage waits for nobody but the exit: nothing can block.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.flow.models.gather import Funnel
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.multiway.load import Lot, MultiLoad, MultiPart
from watersmeet.flow.models.multiway.stage import MultiwayFlow, MultiWork, Search, Stage
from watersmeet.flow.network import Link, Message, Network
from watersmeet.index.base import PairBuffer
from watersmeet.join.access import not_in
from watersmeet.join.chain import SubWindow
from watersmeet.join.matches import Matches
from watersmeet.streams.arrival import Gone

ENTRY, RELEASES = 0, 1  # inputs of the first stage


@dataclass(frozen=True, slots=True)
class Released:
    """The second stage no longer reads the shared window for one of the loads for which it was locked."""


class StashStage(Stage):
    """The first stage: the pair, and the stash."""

    def __init__(
        self, work: MultiWork, hot: int, entry: Link, releases: Link, onward: Link, results: Link
    ) -> None:
        pair = [k for k in range(work.streams) if k != hot]
        super().__init__(work, 0, pair, [entry, releases], [onward, results])
        self.hot, self.pair, self.shared = hot, pair, work.access.plan.steps[hot][1].stream
        self._onward = onward
        self._locks = 0  # loads for which the second stage may read the shared window
        self._search = Search()
        self._buffer = PairBuffer()

    # ---- which moves there are ----------------------------------------------------------------------------------

    def choices(self) -> Sequence[int]:
        found = [RELEASES] if self.inputs[RELEASES].messages else []
        if self._onward.full or self.results.full:
            return found
        waiting = self.inputs[ENTRY].messages
        if self._search.begun or (waiting and not self.must_wait(waiting[0])):
            found.append(ENTRY)
        return found

    def must_wait(self, message: Message) -> bool:
        """Whether it would write where the second stage reads."""
        return self._locks > 0 and isinstance(message, MultiLoad) and message.part(self.shared) is not None

    def step(self, choice: int) -> None:
        if choice == RELEASES:
            self.inputs[RELEASES].get()
            self._locks -= 1
            return
        if not self._search.begun:
            message = self.inputs[ENTRY].get()
            self._search.begin(self._pass(message) if isinstance(message, Mark) else self._take(message))
        self._search.go_on()

    # ---- rows ---------------------------------------------------------------------------------------------------

    def expire(self, gone: Sequence[Gone]) -> None:
        for k, chain in self.chains.items():
            if k != self.shared or not self._locks:
                chain.expire(*gone[k])

    def prepare(self, stream: int, step: int, probes: float) -> None:
        if not self._locks or self.work.access.walks[stream].steps[step].stream != self.shared:
            super().prepare(stream, step, probes)

    def _pass(self, mark: Mark) -> Iterator[None]:
        self._onward.put(mark)
        self.report(mark)
        yield

    def _take(self, load: MultiLoad) -> Iterator[None]:
        """Rows are stored; the pair's go first, so that hot ones of the same load find their pairs in the stash."""
        self.expire(load.gone)
        for part in load.parts:
            if part.stream != self.hot:
                self.store(part)
        self._onward.put(load)
        yield
        for part in load.parts:
            if part.stream != self.hot:
                self.prepare(part.stream, 0, part.block.count)
                yield from self._further(load, part)
        self.work.access.after(
            [self.chains[k].first if k in self.chains else 0 for k in range(self.work.streams)]
        )
        hot = load.part(self.hot)
        if hot is not None:
            yield from self._look_for_pairs(load, hot)

    def _look_for_pairs(self, load: MultiLoad, part: MultiPart) -> Iterator[None]:
        access, stash, begun = self.work.access, self.work.access.stash, self.clock()
        lost = [part]
        if stash is not None and access.by_stash is not None:
            found = Matches(streams=self.work.streams)
            stash.expect(float(part.block.count))
            self.work.compared(part.block.count, stash.held)
            access.by_stash.start(part.block, part.sees, slice(None), self.segments(), found, self._buffer)
            self.answer(load, found, begun)
            yield
            sees = not_in(stash, part.sees)
            lost = [] if sees is None else [MultiPart(part.stream, part.block, sees)]
        for rest in lost:
            for step in (0, 1):
                self.prepare(part.stream, step, part.block.count)
            self._locks += 1
            yield from self._further(load, rest)
            self._onward.put(Lot(load, rest, 1, None))
            yield

    def _further(self, load: MultiLoad, part: MultiPart) -> Iterator[None]:
        """The first step."""
        for more in self.further(Lot(load, part, 0, self.first(part)), self._buffer):
            self._onward.put(Lot(load, part, 1, more))
            yield


class HotStage(Stage):
    """The second stage: the hot stream, and a look at the first one's shared window."""

    def __init__(self, work: MultiWork, first: StashStage, line: Link, releases: Link, results: Link) -> None:
        super().__init__(work, 1, [first.hot], [line], [releases, results])
        self._first, self._releases = first, releases
        self._search = Search()
        self._buffer = PairBuffer()

    def subwindows(self, stream: int) -> Sequence[SubWindow]:
        """The shared window is locked while it is asked for."""
        if stream == self._first.shared:
            return self._first.subwindows(stream)
        return super().subwindows(stream)

    def choices(self) -> Sequence[int]:
        return (0,) if not self.results.full and (self._search.begun or self.inputs[0].messages) else ()

    def step(self, choice: int) -> None:
        if not self._search.begun:
            message = self.inputs[0].get()
            if not isinstance(message, Lot):
                self.receive(0, message)
                return
            self._search.begin(self._last(message))
        self._search.go_on()

    def receive(self, port: int, message: Message) -> None:
        if isinstance(message, Mark):
            self.report(message)
            return
        load: MultiLoad = message
        self.expire(load.gone)
        hot = load.part(self._first.hot)
        if hot is not None:
            self.store(hot)

    def _last(self, lot: Lot) -> Iterator[None]:
        begun = self.clock()
        if lot.partials is None:
            self._releases.put(Released())
            return
        if lot.part.stream != self._first.hot:
            self.prepare(lot.part.stream, 1, lot.partials.rows.size)
        for matches in self.last(lot, self._buffer):
            self.answer(lot.load, matches, begun)
            yield


class StashedMJFlow(MultiwayFlow):
    """Two stages in a line. The hot stream is the one that both others probe last."""

    name: ClassVar[str] = "stashed_mj"
    first_class: ClassVar[type[StashStage]] = StashStage
    second_class: ClassVar[type[HotStage]] = HotStage

    def __init__(self, work: MultiWork, queue: int) -> None:
        last = [steps[-1].stream for steps in work.access.plan.steps]
        (hot,) = (k for k in range(3) if last.count(k) == 2)
        self.entry, line, releases, first, second, results = (Link(queue) for _ in range(6))
        self._first = self.first_class(work, hot, self.entry, releases, line, first)
        self._second = self.second_class(work, self._first, line, releases, second)
        self.cores = [self._first, self._second]
        collection = Funnel("collection", [first, second], [results])
        self.network = Network([*self.cores, collection], results)

    @classmethod
    def orders(cls, streams: int, hot: int) -> dict[int, list[int]]:
        """The pair each other, then the hot stream; the hot one the pair."""
        first, second = (k for k in range(streams) if k != hot)
        return {first: [second, hot], second: [first, hot], hot: [first, second]}

    def place(self, part: MultiPart) -> None:
        (self._second if part.stream == self._first.hot else self._first).store(part)
