"""What the stages of all multiway flows do: keep rows of some streams, take partial results a step further, answer.

A step is that of ``join/steps.py``: there is no second join. What a stage finds for a lot of partial results goes on in lots, each a
move of its own, so that a step with many results neither fills the memory nor holds up who waits for the stage.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from watersmeet.flow.models.base import Flow, Sending
from watersmeet.flow.models.message import Found, Mark
from watersmeet.flow.models.multiway.load import Lot, MultiLoad, MultiPart
from watersmeet.flow.network import Link, Processor
from watersmeet.index.base import PairBuffer
from watersmeet.join.access import Sizing, StepAccess, indexes
from watersmeet.join.chain import Chain, SubWindow
from watersmeet.join.matches import Matches
from watersmeet.join.steps import Partials, Segments, lots
from watersmeet.streams.arrival import Gone

LOT = 1 << 16  # partial results that go on to the next stage together


@dataclass
class MultiWork:
    """What all stages of a flow share: one plan. Read by many threads, changed by none."""

    access: StepAccess
    sizing: Sizing
    timed: tuple[bool, ...]
    full: Callable[[SubWindow], bool]  # whether a sub-window of a stream with times should get no more rows
    cores: int = 1  # that share a window, where the flow's number of cores is open
    lot: ClassVar[int] = LOT

    @property
    def streams(self) -> int:
        return len(self.timed)

    def compared(self, partials: int, stored: int) -> None:
        """So many partial results are compared with so many rows: for who measures."""


class Search:
    """Work of several moves, each of which sends a message: it waits for room between two of them."""

    def __init__(self) -> None:
        self._moves: Iterator[None] | None = None

    @property
    def begun(self) -> bool:
        return self._moves is not None

    def begin(self, moves: Iterator[None]) -> None:
        self._moves = moves

    def go_on(self) -> None:
        """Make one move."""
        assert self._moves is not None
        if next(self._moves, _OVER) is _OVER:
            self._moves = None


_OVER = object()


class Stage(Processor):
    """Keeps the rows of ``streams``. ``results``: the link on which it answers; the last of its outputs."""

    def __init__(
        self,
        work: MultiWork,
        position: int,
        streams: Iterable[int],
        inputs: Sequence[Link],
        outputs: Sequence[Link],
    ) -> None:
        super().__init__(f"stage {position}", position, inputs, outputs)
        self.work, self.results = work, outputs[-1]
        self.chains = {k: Chain(work.access.checked(k), work.timed[k]) for k in streams}

    # ---- rows ---------------------------------------------------------------------------------------------------

    def store(self, part: MultiPart) -> None:
        """Rows of a stream that is kept here. Nobody may be looking through it."""
        k, chain, work = part.stream, self.chains[part.stream], self.work
        size = partial(work.sizing.rows, k, chain.rows)
        chain.insert(part.block, size, partial(indexes, work.access, k), work.full)

    def expire(self, gone: Sequence[Gone]) -> None:
        """Forget what is over. Nobody may be looking for it."""
        for k, chain in self.chains.items():
            chain.expire(*gone[k])

    def segments(self) -> Segments:
        """The rows that are here, by stream."""
        return [self.subwindows(k) for k in range(self.work.streams)]

    def subwindows(self, stream: int) -> Sequence[SubWindow]:
        chain = self.chains.get(stream)
        return () if chain is None else chain.subwindows

    # ---- steps --------------------------------------------------------------------------------------------------

    def first(self, part: MultiPart) -> Partials:
        """Rows that have arrived, as partial results of their own stream."""
        return self.work.access.walks[part.stream].first(part.block)

    def further(self, lot: Lot, buffer: PairBuffer) -> Iterator[Partials]:
        """Partial results with one more stream, in lots."""
        walk = self.work.access.walks[lot.part.stream]
        partials = lot.partials
        assert partials is not None
        self._tell(lot.part, lot.place, partials)
        found = walk.further(lot.place, partials, lot.part.sees, self.segments(), buffer)
        return lots(found, self.work.lot)

    def last(self, lot: Lot, buffer: PairBuffer) -> Iterator[Matches]:
        """The results of the last step, in lots."""
        walk = self.work.access.walks[lot.part.stream]
        assert lot.partials is not None
        counted = walk.counted(lot.partials, lot.part.sees, self.segments(), buffer)
        if counted is not None:
            self._tell(lot.part, lot.place, lot.partials)
            yield Matches(counts=[counted], streams=self.work.streams)
            return
        for more in self.further(lot, buffer):
            found = Matches(streams=self.work.streams)
            if walk.count_only:
                found.counts.append(more.rows.size)
            else:
                found.pairs.append(tuple(more.numbers[k] for k in range(self.work.streams)))
            yield found

    def _tell(self, part: MultiPart, place: int, partials: Partials) -> None:
        step = self.work.access.walks[part.stream].steps[place]
        self.work.compared(partials.rows.size, self.stored(step.stream))

    def stored(self, stream: int) -> int:
        return sum(sub.count for sub in self.subwindows(stream))

    def prepare(self, stream: int, step: int, probes: float) -> None:
        """About so many partial results are to come to a step at once. Nobody may be looking through the stream."""
        by = self.work.access.walks[stream].steps[step]
        for sub in self.subwindows(by.stream)[-1:]:  # the others are sealed
            sub.indexes[by.by].expect(probes)

    # ---- answers ------------------------------------------------------------------------------------------------

    def answer(self, load: MultiLoad, matches: Matches, begun: float) -> None:
        if matches.some:
            self.results.put(Found(self.position, load, matches, None, begun, self.clock()))

    def report(self, mark: Mark) -> None:
        """Everything before the mark has been done."""
        self.results.put(Mark(mark.number))


class MultiwayFlow(Flow):
    """A network of stages. Everything enters by one link."""

    entry: Link

    @classmethod
    def orders(cls, streams: int, hot: int) -> dict[int, list[int]]:
        """The probe order of each stream, where the network fixes it. ``hot``: the stream that arrives most often."""
        return {}

    def place(self, part: MultiPart) -> None:
        raise NotImplementedError

    def send(self, load: MultiLoad) -> Sending:
        yield self.entry, load

    def send_mark(self, mark: Mark) -> Sending:
        yield self.entry, mark
