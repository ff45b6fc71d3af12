"""Linear-MJ: a line of N - 1 stages, one a step; each may have to look through any stream (thesis 6.4.1).

The first stage takes the first step of every load, in whatever order its stream probes the others, the second the second, and so on: a
load and its partial results travel down the line as messages in one order, and none overtakes another. So a stage has taken all earlier
rows when partial results come to it, and what it forgets by the load that it takes no load behind it can see.

In the thesis the stages share the windows through a crossbar, rows are stored behind the last stage, and each stage has an *interim
buffer* with the rows that have passed it and are not stored yet. So here: the last stage stores. A segment that is full is sealed,
never changes any more, and is *published*: from then on all stages look through the same one, without a lock. What has not been
published a stage keeps for itself. All stages put the same rows into the same segments, as they do the same with the same loads: a
published segment takes the place of the one with the same rows.

Notices of published segments go up the line, and are always let in; rows go down only. So nothing can block.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.multiway.load import Lot, MultiLoad, MultiPart
from watersmeet.flow.models.multiway.stage import MultiwayFlow, MultiWork, Search, Stage
from watersmeet.flow.network import Link, Message, Network
from watersmeet.index.base import PairBuffer
from watersmeet.join.access import indexes
from watersmeet.join.chain import SubWindow
from watersmeet.streams.arrival import Gone

LINE, NOTICES = 0, 1  # inputs


@dataclass(frozen=True, slots=True)
class Published:
    """A segment that will not change any more."""

    stream: int
    segment: SubWindow


class LinearStage(Stage):
    """Takes one step of every load. ``notices``: where it hears of published segments; ``tell``: where the last stage says so."""

    def __init__(
        self,
        work: MultiWork,
        position: int,
        rows: Sequence[int],
        line: Link,
        onward: Link,
        notices: Link | None = None,
        tell: Sequence[Link] = (),
    ) -> None:
        inputs = [line] if notices is None else [line, notices]
        super().__init__(work, position, range(work.streams), inputs, [*tell, onward])
        self._rows = rows  # by stream: of a segment
        self._onward, self._tell_all = onward, list(tell)
        self._published: list[list[SubWindow]] = [[] for _ in range(work.streams)]
        self._search = Search()
        self._buffer = PairBuffer()

    @property
    def is_last(self) -> bool:
        return self.position == self.work.streams - 2

    # ---- which moves there are ----------------------------------------------------------------------------------

    def choices(self) -> Sequence[int]:
        found = [NOTICES] if len(self.inputs) > 1 and self.inputs[NOTICES].messages else []
        if not self._onward.full and (self._search.begun or self.inputs[LINE].messages):
            found.append(LINE)
        return found

    def step(self, choice: int) -> None:
        if choice == NOTICES:
            self.share(self.inputs[NOTICES].get())
            return
        if not self._search.begun:
            self._search.begin(self._take(self.inputs[LINE].get()))
        self._search.go_on()

    # ---- rows ---------------------------------------------------------------------------------------------------

    def subwindows(self, stream: int) -> Sequence[SubWindow]:
        return [*self._published[stream], *self.chains[stream].subwindows]

    def store(self, part: MultiPart) -> None:
        """Into segments of a fixed number of rows: all stages cut alike."""
        chain, k = self.chains[part.stream], part.stream
        size, before = partial(int, self._rows[k]), chain.subwindows[-1:]
        chain.insert(part.block, size, partial(indexes, self.work.access, k))
        if before and chain.subwindows[-1] is not before[0]:
            for link in self._tell_all:
                link.put(Published(k, before[0]))

    def share(self, notice: Published) -> None:
        """Go over to a segment that all have. If it is not here, its rows are over."""
        chain = self.chains[notice.stream]
        own = [sub for sub in chain.subwindows if sub.base == notice.segment.base]
        if own:
            chain.subwindows = [sub for sub in chain.subwindows if sub is not own[0]]
            self._published[notice.stream].append(notice.segment)

    def expire(self, gone: Sequence[Gone]) -> None:
        """A segment that others look through is dropped here, and left as it is."""
        for k, chain in self.chains.items():
            arrival, time = gone[k]
            for several in (self._published[k], chain.subwindows):
                several[:] = [
                    sub for sub in several if sub.end > arrival and not (chain.timed and sub.max_time < time)
                ]

    # ---- down the line ------------------------------------------------------------------------------------------

    def _take(self, message: Message) -> Iterator[None]:
        if isinstance(message, MultiLoad):
            return self._enter(message)
        if isinstance(message, Lot):
            return self._further(message)
        return self._pass(message)

    def _pass(self, mark: Mark) -> Iterator[None]:
        self._onward.put(mark)
        yield

    def _enter(self, load: MultiLoad) -> Iterator[None]:
        """Rows go on at once; the first stage sends partial results after them."""
        self.expire(load.gone)
        for part in load.parts:
            self.store(part)
        if not self.is_last:
            self._onward.put(load)
            yield
        if self.position == 0:
            for part in load.parts:
                yield from self._further(Lot(load, part, 0, self.first(part)))

    def _further(self, lot: Lot) -> Iterator[None]:
        load, part, place, begun = lot.load, lot.part, lot.place, self.clock()
        assert lot.partials is not None
        self.prepare(part.stream, place, lot.partials.rows.size)
        if self.is_last:
            for matches in self.last(lot, self._buffer):
                self.answer(load, matches, begun)
                yield
        else:
            for more in self.further(lot, self._buffer):
                self._onward.put(Lot(load, part, place + 1, more))
                yield


class LinearMJFlow(MultiwayFlow):
    """A line of stages; results leave the last one."""

    name: ClassVar[str] = "linear_mj"
    stage_class: ClassVar[type[LinearStage]] = LinearStage

    def __init__(self, work: MultiWork, queue: int) -> None:
        stages = work.streams - 1
        line = [Link(queue) for _ in range(stages + 1)]
        notices = [Link(queue) for _ in range(stages - 1)]
        rows = [work.sizing.rows(k, 0) for k in range(work.streams)]
        self._stages = [
            self.stage_class(work, s, rows, line[s], line[s + 1], notices[s]) for s in range(stages - 1)
        ]
        last = self.stage_class(work, stages - 1, rows, line[-2], line[-1], tell=notices)
        self._stages.append(last)
        self._notices, self.entry = notices, line[0]
        self.cores = list(self._stages)
        self.network = Network(self.cores, line[-1])

    def place(self, part: MultiPart) -> None:
        for stage in self._stages:
            stage.store(part)
        for stage, link in zip(self._stages[:-1], self._notices, strict=True):
            while link.messages:
                stage.share(link.get())
