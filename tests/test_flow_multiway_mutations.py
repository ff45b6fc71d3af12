"""Each rule of the multiway flows is needed: taken out, the search over message races finds what is missing, found twice, or stuck."""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from multiway import Run
from multiway_conditions import conjunction, equality
from multiway_flows import FLOWS, check, check_ahead, shape
from schedules import Schedule
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.multiway.circular import Channel, CircularMJFlow, CircularStage, Expected
from watersmeet.flow.models.multiway.linear import LinearMJFlow, LinearStage, Published
from watersmeet.flow.models.multiway.load import Lot, MultiLoad, MultiPart
from watersmeet.flow.models.multiway.parallel import ParallelCore, ParallelMJFlow
from watersmeet.flow.models.multiway.stage import MultiWork
from watersmeet.flow.models.multiway.stashed import HotStage, StashedMJFlow, StashStage
from watersmeet.flow.network import Message
from watersmeet.join.chain import Probe, SubWindow

TRIALS = 120
MISSING, EXTRA = r"missing \[\(", r"extra \[\("


def window(rng: random.Random) -> tuple[Any, ...]:
    return rng.choice([("rows", rng.randint(2, 5)), ("range", rng.randint(0, 5), "ts", 4), ("unbounded",)])


def crowd(rng: random.Random, streams: int) -> Run:
    """Rows of which most match, in interleaved pushes. Some are out of time order, none is late."""
    names = tuple("abcd"[:streams])
    now, seen, events = 0, dict.fromkeys(names, 0), []
    for _ in range(rng.randint(14, 24)):
        stream = rng.choice(names)
        now += rng.choice([0, 0, 1])
        row = {"id": seen[stream], "ts": now - rng.choice([0, 0, 1, 4]), "k": rng.choice([0, 0, 0, 1])}
        events.append((stream, row))
        seen[stream] += 1
    equal = conjunction([equality(p, q) for p, q in itertools.pairwise(names)])
    run = Run(
        equal,
        {name: window(rng) for name in names},
        (tuple(events),),
        dict.fromkeys(names, pa.int64()),
        index=rng.choice(["scan", "bi_sort", "hash"]),
        subwindow=rng.choice([None, 1, 3]),
    )
    return run.split([rng.choice([len(events), len(events) // 2 + 1, 3])])


def search(flow: str) -> None:
    """A bounded search with fixed seeds; raises on the first trial that does not give the oracle's combinations."""
    for seed in range(TRIALS):
        rng = random.Random(seed)
        drawn = tuple(rng.randrange(12) for _ in range(rng.choice([0, 0, 200])))
        options = shape(rng, flow)
        if flow == "parallel_mj":
            options["cores"] = rng.randint(2, 3)
        run = crowd(rng, 3 if flow == "stashed_mj" else rng.choice([3, 3, 4]))
        (check_ahead if rng.random() < 0.7 else check)(run, Schedule(drawn, seed), **options)


@pytest.fixture(autouse=True)
def _small_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MultiWork, "lot", 1)


@pytest.mark.parametrize("flow", FLOWS)
def test_the_search_finds_nothing_while_all_rules_are_kept(flow: str) -> None:
    search(flow)


# ---- the ring ----------------------------------------------------------------------------------------------------


class Hasty(CircularStage):
    """No order buffer: partial results are taken although rows that came before are not here."""

    def in_order(self, lot: Lot) -> bool:
        return lot.partials is not None or super().in_order(lot)


class Forgetful(CircularStage):
    """No expiry buffer: what the newest load cannot see is forgotten."""

    def oldest(self) -> MultiLoad:
        return [entry.load for entry in self._order if isinstance(entry, Expected)][-1]


class EndlessFirst(CircularStage):
    """The first stage of a way sends no end flag."""

    def _begin(self, channel: Channel, load: MultiLoad, part: MultiPart) -> Iterator[None]:
        yield from self._search(channel, Lot(load, part, channel.place, self.first(part)))
        self._ended(load)


class HastyMarks(CircularStage):
    """A mark is reported when it comes, whatever is still on its way."""

    def receive(self, port: int, message: Message) -> None:
        if isinstance(message, Mark):
            self.report(message)
        else:
            super().receive(port, message)


class OneSearch(CircularStage):
    """A stage that has no room on one channel does not go on with another."""

    def ready(self, channel: Channel) -> bool:
        busy = [other for other in self.channels if other.search.begun]
        return super().ready(channel) and (not busy or channel in busy)


class Unrefined(CircularStage):
    """What was stored too early counts."""

    def further(self, lot: Lot, buffer: Any) -> Any:
        return unfiltered(super().further, lot, buffer)


def unfiltered(further: Any, lot: Lot, buffer: Any) -> list[Any]:
    kept, SubWindow._validity_filters = SubWindow._validity_filters, no_filters
    try:
        return list(further(lot, buffer))
    finally:
        SubWindow._validity_filters = kept


def no_filters(self: SubWindow, probe: Probe) -> list[Any]:
    return []


class StoresWhileSearched(CircularStage):
    """Rows are stored although a search that waits for room looks through the stage."""

    def idle(self) -> bool:
        return not any(channel.search.begun for channel in self.channels if channel.inbox is None)


# ---- one stream dealt out -----------------------------------------------------------------------------------------


class AllDealt(ParallelCore):
    """As it is printed: every window is split."""

    def __init__(self, work: Any, position: int, dealt: Sequence[int], *ends: Any) -> None:
        super().__init__(work, position, range(work.streams), *ends)

    def probes(self, part: MultiPart, at_home: bool) -> bool:
        return True


class TwoDealt(ParallelCore):
    def __init__(self, work: Any, position: int, dealt: Sequence[int], *ends: Any) -> None:
        super().__init__(work, position, [*dealt, (dealt[0] + 1) % work.streams], *ends)

    def probes(self, part: MultiPart, at_home: bool) -> bool:
        return True


class DealtProbesEverywhere(ParallelCore):
    """A row of the dealt stream looks for partners on every core."""

    def probes(self, part: MultiPart, at_home: bool) -> bool:
        return True


class OthersProbeAtOne(ParallelCore):
    """Rows of the other streams look for partners on one core only."""

    def probes(self, part: MultiPart, at_home: bool) -> bool:
        return at_home and (part.stream in self.turns or self.position == 0)


# ---- the line ----------------------------------------------------------------------------------------------------


class NoInterim(LinearStage):
    """No interim buffers: a stage sees what has been published, and nothing else."""

    def subwindows(self, stream: int) -> Sequence[SubWindow]:
        return super().subwindows(stream) if self.is_last else self._published[stream]


class KeptTwice(LinearStage):
    """A published segment does not take the place of the stage's own one."""

    def share(self, notice: Published) -> None:
        self._published[notice.stream].append(notice.segment)


class DroppedWhenSealed(LinearStage):
    """A stage lets go of its own segment as soon as it is full, not when it has been published."""

    def store(self, part: MultiPart) -> None:
        super().store(part)
        if not self.is_last:
            del self.chains[part.stream].subwindows[:-1]

    def share(self, notice: Published) -> None:
        self._published[notice.stream].append(notice.segment)


class RowsLast(LinearStage):
    """Rows go on behind their partial results."""

    def _enter(self, load: MultiLoad) -> Iterator[None]:
        held, self._onward = self._onward, Behind(self._onward)
        try:
            for _ in super()._enter(load):
                pass
        finally:
            self._onward = held
        yield


class Behind:
    """A link on which rows wait until partial results have gone."""

    def __init__(self, link: Any) -> None:
        self._link, self.full = link, False

    def put(self, message: Message) -> None:
        if (
            self._link.messages
            and isinstance(message, Lot)
            and isinstance(self._link.messages[-1], MultiLoad)
        ):
            self._link.messages.insert(len(self._link.messages) - 1, message)
            self._link.reader.ring()
        else:
            self._link.put(message)


# ---- the stash ---------------------------------------------------------------------------------------------------


class Unlocked(StashStage):
    """The first stage writes where the second one reads: it stores, and forgets."""

    def must_wait(self, message: Message) -> bool:
        return False

    def expire(self, gone: Any) -> None:
        for k, chain in self.chains.items():
            chain.expire(*gone[k])


class NotRecomputed(StashStage):
    """What was overwritten is not looked for."""

    def _look_for_pairs(self, load: MultiLoad, part: MultiPart) -> Iterator[None]:
        stash = self.work.access.stash
        if stash is not None:
            stash.complete_from = 0
        yield from super()._look_for_pairs(load, part)


class HotFirst(StashStage):
    """Hot rows look for pairs before those of their own load are there."""

    def _take(self, load: MultiLoad) -> Iterator[None]:
        hot = [part for part in load.parts if part.stream == self.hot]
        others = [part for part in load.parts if part.stream != self.hot]
        yield from super()._take(MultiLoad(load.number, tuple(hot), load.rows, load.gone))
        yield from super()._take(MultiLoad(load.number, tuple(others), load.rows, load.gone))


class NeverReleased(HotStage):
    def _last(self, lot: Lot) -> Iterator[None]:
        if lot.partials is not None:
            yield from super()._last(lot)


MUTANTS: list[tuple[type, str, type, str]] = [
    (CircularMJFlow, "stage_class", Hasty, MISSING),
    (CircularMJFlow, "stage_class", Forgetful, MISSING),
    (CircularMJFlow, "stage_class", EndlessFirst, "stuck"),
    (CircularMJFlow, "stage_class", HastyMarks, MISSING),
    (CircularMJFlow, "stage_class", OneSearch, "stuck"),
    (CircularMJFlow, "stage_class", Unrefined, EXTRA),
    (CircularMJFlow, "stage_class", StoresWhileSearched, MISSING + "|" + EXTRA),
    (ParallelMJFlow, "core_class", AllDealt, MISSING),
    (ParallelMJFlow, "core_class", TwoDealt, MISSING),
    (ParallelMJFlow, "core_class", DealtProbesEverywhere, EXTRA),
    (ParallelMJFlow, "core_class", OthersProbeAtOne, MISSING),
    (LinearMJFlow, "stage_class", NoInterim, MISSING),
    (LinearMJFlow, "stage_class", KeptTwice, EXTRA),
    (LinearMJFlow, "stage_class", DroppedWhenSealed, MISSING),
    (LinearMJFlow, "stage_class", RowsLast, MISSING),
    (StashedMJFlow, "first_class", Unlocked, MISSING),
    (StashedMJFlow, "first_class", NotRecomputed, MISSING),
    (StashedMJFlow, "first_class", HotFirst, MISSING),
    (StashedMJFlow, "second_class", NeverReleased, "stuck"),
]


@pytest.mark.parametrize(
    ("flow", "part", "mutant", "failure"), MUTANTS, ids=[mutant.__name__ for _, _, mutant, _ in MUTANTS]
)
def test_no_rule_can_be_left_out(
    flow: type, part: str, mutant: type, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, part, mutant)
    with pytest.raises(AssertionError, match=failure):
        search(flow.name)
