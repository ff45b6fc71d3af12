"""The steps of an N-way join: partial results in, partial results with one more stream out. Each step is a two-way probe.

A combination of rows is a result iff the condition holds and every pair of its rows is valid by the two-way rule. The row that arrived
last is the probing one, and its validity range is in every step. Between two stored rows nothing more need be checked, except where both
are timed (the band between their times), and where a timed row was seen by a later untimed one (at that moment's clock), which only a
timed last row does not imply. No partial result is stored: they live for as long as their push.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from watersmeet.index.base import PairBuffer
from watersmeet.join.chain import Block, Probe, SubWindow
from watersmeet.join.learning import Edge
from watersmeet.join.matches import Lists, Matches, Product, count_of
from watersmeet.join.orders import Source, StashPlan, Step
from watersmeet.join.prepare import comparison_checks
from watersmeet.join.probing import satisfying
from watersmeet.join.sights import Sights
from watersmeet.join.stash import Stash
from watersmeet.kernels.product import group_by_probe
from watersmeet.sql.condition import Residual
from watersmeet.streams.arrival import Sees, Validity
from watersmeet.streams.clock import TimeAxis
from watersmeet.streams.payload import Payload

Segments = Sequence[Sequence[SubWindow]]  # by stream
TOGETHER = (
    1 << 18
)  # partial results that go on to the next step together: enough to share its cost, few enough to fit a cache
MANY = 1.5  # results of a partial result from which on they are kept as products
LISTED = 1 << 21  # rows that are listed for one step before it is known whether the next steps find any


@dataclass(slots=True)
class Partials:
    """Combinations of rows, one of each stream that is there, in columns."""

    rows: np.ndarray  # place in its block of the row that arrived last
    numbers: dict[int, np.ndarray]  # arrival numbers, by stream
    codes: dict[Source, np.ndarray]  # of the columns that later steps start from
    times: dict[int, np.ndarray] = field(default_factory=dict)  # of timed streams

    def taken(self, places: np.ndarray, kept: Iterable[Source] | None = None) -> "Partials":
        """These combinations, each as often as it is named. ``kept``: the codes that are still needed; None: all."""
        return Partials(
            self.rows.take(places),
            {stream: column.take(places) for stream, column in self.numbers.items()},
            {source: self.codes[source].take(places) for source in (self.codes if kept is None else kept)},
            {stream: column.take(places) for stream, column in self.times.items()},
        )


@dataclass(frozen=True)
class Walk:
    """One arriving block on its way through the other streams. Read by several threads, changed by none."""

    stream: int  # that arrives
    streams: Sequence[str]
    steps: Sequence[Step]
    columns: Sequence[int]  # of codes, by stream
    payload: Sequence[Payload | None]  # by stream, in a list that stays
    sights: Sequence[Sights | None]
    axis: TimeAxis | None
    timed: Sequence[bool]
    count_only: bool
    apart: int  # from this step on, steps have nothing to do with one another: what each finds, or its count, is multiplied
    stash: Stash | None = None  # of the hot stream: pairs are looked for there first
    pairs: list[list[np.ndarray]] | None = None  # of a stream of the pair: what was found, for the stash
    pair_plan: StashPlan | None = None
    seen: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # (step, partial results in, out), for those who plan
    fanouts: Mapping[Edge, float] = field(default_factory=dict)  # as measured

    def start(
        self, block: Block, sees: Sees, share: slice, segments: Segments, out: Matches, buffer: PairBuffer
    ) -> None:
        """All results of a share of the block's rows that can match at all."""
        first = self.first(block, share)
        if not first.rows.size:
            return
        way = _Way(sees, segments, buffer, out)
        if self.stash is None:
            self._walk(0, first, way)
        else:
            self._go_on(0, self._found_in_stash(self.stash, first, way), way)

    # ---- a step at a time, for a few rows ------------------------------------------------------------------------

    def probe(self, step: Step, partials: Partials, sees: Sees, segments: Sequence[SubWindow] = ()) -> Probe:
        """What partial results look for in a step. ``segments``: no others will be asked, if that is known."""
        checks = comparison_checks(step.checks, partials.codes, self.columns[step.stream])
        unordered = bool(segments) and all(segment.indexes[step.by].any_order() for segment in segments)
        bounds = step.bounds(partials.codes, partials.rows.size, unordered)
        return Probe(0, bounds, checks, self._validity(step, partials, sees), step.by)

    def passing(self, place: int, partials: Partials) -> Partials:
        """Of combinations with a row that the step has found: those that satisfy what is complete now."""
        step = self.steps[place]
        return self._satisfying(step.residuals, self._seen_in_time(self._untimed(place), partials), partials)

    def go_on(
        self, place: int, partials: Partials, sees: Sees, segments: Segments, buffer: PairBuffer, out: Matches
    ) -> None:
        """All results of partial results, from a step on."""
        self._walk(place, partials, _Way(sees, segments, buffer, out))

    def give(self, found: Partials, out: Matches) -> None:
        """After the last step: these are results."""
        if self.count_only:
            out.counts.append(found.rows.size)
        else:
            out.pairs.append(tuple(found.numbers[k] for k in range(len(self.streams))))

    # ---- a step at a time, where streams are kept apart ----------------------------------------------------------

    def first(self, block: Block, share: slice = slice(None)) -> Partials:
        """A share of the block's rows that can match at all, as partial results of one stream."""
        assert block.usable is not None
        rows = block.usable[share]
        codes = {(self.stream, column): codes[rows] for column, codes in enumerate(block.codes)}
        times = {} if block.times is None else {self.stream: block.times[rows]}
        return Partials(rows, {self.stream: rows + np.int64(block.first)}, codes, times)

    def further(
        self, place: int, partials: Partials, sees: Sees, segments: Segments, buffer: PairBuffer
    ) -> Iterator[Partials]:
        """One step: partial results with one more stream. ``segments``: no others than this stream's are looked at."""
        return self._noted(place, partials, _Way(sees, segments, buffer, Matches()))

    def counted(self, partials: Partials, sees: Sees, segments: Segments, buffer: PairBuffer) -> int | None:
        """How many results the last step has; None: it has to list them."""
        last = len(self.steps) - 1
        if not self.count_only or self.apart > last:
            return None
        out = Matches()
        self._count(last, partials, _Way(sees, segments, buffer, out))
        return sum(out.counts)

    # ---- all steps ----------------------------------------------------------------------------------------------

    def _found_in_stash(self, stash: Stash, partials: Partials, way: "_Way") -> Iterator[Partials]:
        """Hot rows with pairs of the stash."""
        plan, probe = stash.plan, stash.probe(partials.codes, partials.rows, way.sees)
        for segment, places, offsets in _candidates(stash.segments, probe, way.buffer):
            more = partials.taken(places, plan.kept)
            for place, source in enumerate(plan.columns):
                more.codes[source] = segment.codes[place].take(offsets)
            for stream in plan.pair:
                more.numbers[stream] = segment.codes[stash.place(stream)].take(offsets)
                time = stash.time_place(stream)
                if time is not None:
                    more.times[stream] = segment.codes[time].take(offsets)
            more = self._satisfying(plan.residuals, None, more)
            if more.rows.size:
                yield more

    def _go_on(self, place: int, found: Iterable[Partials], way: "_Way") -> None:
        """Partial results, as they are found, through the steps from ``place`` on; after the last step they are results."""
        if place == len(self.steps):
            for results in found:
                self.give(results, way.out)
            return
        for lot in lots(found, TOGETHER):
            self._walk(place, lot, way)

    def _keep_pairs(self, plan: StashPlan, found: Partials) -> None:
        assert self.pairs is not None
        columns = [found.codes[source] for source in plan.columns]
        columns += [found.numbers[stream] for stream in plan.pair]
        self.pairs.append(columns + [found.times[stream] for stream in plan.pair if self.timed[stream]])

    def _walk(self, place: int, partials: Partials, way: "_Way") -> None:
        if place >= self.apart and (self.count_only or self._many(place)):
            (self._count if self.count_only else self._list)(place, partials, way)
        else:
            self._go_on(place + 1, self._noted(place, partials, way), way)

    def _many(self, place: int) -> bool:
        """Whether a partial result has several results from this step on, or nobody knows. Fewer are cheaper written out at once."""
        known, rest = self.fanouts, self.steps[place:]
        return any(step.edge not in known for step in rest) or prod(known[step.edge] for step in rest) >= MANY

    def _noted(self, place: int, partials: Partials, way: "_Way") -> Iterator[Partials]:
        """What a step finds, noted for those who plan, and for the stash."""
        found = 0
        for more in self._found(place, partials, way):
            found += more.rows.size
            if place == 0 and self.pair_plan is not None:
                self._keep_pairs(self.pair_plan, more)
            yield more
        self.seen.append((place, partials.rows.size, found))

    def _count(self, place: int, partials: Partials, way: "_Way") -> None:
        """The steps from here on, counted for each partial result, and multiplied: nothing is listed."""
        counts: list[np.ndarray] = []
        for later in range(place, len(self.steps)):
            found = self._counts(self.steps[later], partials, way)
            self.seen.append((later, found.size, int(found.sum())))
            some = np.flatnonzero(found)
            if not some.size:
                return
            if some.size < found.size and later < len(self.steps) - 1:
                partials, found = partials.taken(some), found[some]
                counts = [column[some] for column in counts]
            counts.append(found)
        way.out.counts.append(count_of(counts))

    def _counts(self, step: Step, partials: Partials, way: "_Way") -> np.ndarray:
        """How many rows of a stream each partial result finds."""
        probe = self.probe(step, partials, way.sees, way.segments[step.stream])
        counts = np.zeros(partials.rows.size, np.int64)
        for segment in way.reachable(step, probe.validity):
            run = segment.sorted_run(probe.by) if step.exact and segment.inside(probe.validity) else None
            if run is None:
                for n in segment.candidates(probe, way.buffer):
                    counts += np.bincount(way.buffer.probe[:n], minlength=counts.size)
                continue
            for bounds in probe.bounds:
                start, end = run.ranges(bounds)
                counts[bounds.rows] += end - start
                for n in run.buffered_pairs(bounds, way.buffer):
                    counts += np.bincount(way.buffer.probe[:n], minlength=counts.size)
        return counts

    def _list(self, place: int, partials: Partials, way: "_Way") -> None:
        """The steps from here on, each listed for itself: the results are the products of the lists, and are not written out here."""
        whole, found, seen = partials, list[tuple[Lists, np.ndarray]](), []
        for later in range(place, len(self.steps)):
            step = self.steps[later]
            lists = self._lists(step, partials, way)
            if lists is None:
                for part in partials_in_two(whole):
                    self._list(place, part, way)
                return
            seen.append((later, partials.rows.size, lists.numbers.size))
            some = lists.length.nonzero()[0]
            if not some.size:
                break
            found.append((lists, some))
            if some.size < lists.length.size:
                partials = partials.taken(some, step.kept)
        else:
            multiplied = _of_those_left(found)
            count = count_of([one.length for one in multiplied])
            way.out.products.append(Product(partials.numbers, multiplied, count))
        self.seen.extend(seen)

    def _lists(self, step: Step, partials: Partials, way: "_Way") -> Lists | None:
        """The rows of a stream that each partial result finds; None if there are so many that fewer partial results should ask."""
        probe, rows = self.probe(step, partials, way.sees, way.segments[step.stream]), partials.rows.size
        probes, numbers, found = list[np.ndarray](), list[np.ndarray](), 0
        for segment in way.reachable(step, probe.validity):
            for n in segment.candidates(probe, way.buffer):
                several = segment.numbers(probe, way.buffer, n)
                probes.append(several[0])
                numbers.append(several[1])
                found += n
                if found > LISTED and rows > 1:
                    return None
        start, length, grouped = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(found, np.int64)
        group_by_probe(_joined(probes), _joined(numbers), start, length, grouped)
        return Lists(step.stream, start, length, grouped)

    def _found(self, place: int, partials: Partials, way: "_Way") -> Iterator[Partials]:
        """Partial results with a row of one more stream."""
        step, untimed = self.steps[place], self._untimed(place)
        probe = self.probe(step, partials, way.sees, way.segments[step.stream])
        for segment, places, offsets in _candidates(way.reachable(step, probe.validity), probe, way.buffer):
            more = self._with(step, partials.taken(places, step.kept), segment, offsets)
            more = self._satisfying(step.residuals, self._seen_in_time(untimed, more), more)
            if more.rows.size:
                yield more

    def _validity(self, step: Step, partials: Partials, sees: Sees) -> Validity:
        """What the last row sees of the stream, and what the times of the stored rows leave of it."""
        of_last = sees[step.stream]
        assert of_last is not None
        validity = of_last.take(partials.rows)
        if self.timed[step.stream] and self.axis is not None:
            for other, times in partials.times.items():
                if other != self.stream:
                    validity = validity.within(*self.axis.bounds(other, step.stream, times))
        return validity

    def _with(self, step: Step, partials: Partials, segment: SubWindow, offsets: np.ndarray) -> Partials:
        """The combinations with the rows at these offsets of a segment."""
        partials.numbers[step.stream] = offsets + segment.base
        for column in step.carried:
            partials.codes[step.stream, column] = segment.codes[column].take(offsets)
        if segment.times is not None:
            partials.times[step.stream] = segment.times.take(offsets)
        return partials

    # ---- what only whole combinations tell ----------------------------------------------------------------------

    def _satisfying(
        self, residuals: Iterable[Residual], kept: np.ndarray | None, partials: Partials
    ) -> Partials:
        """The combinations, of those that are kept (None: all), that satisfy what is complete now."""
        for residual in residuals:
            holds = satisfying(residual, self.streams, self.payload, partials.numbers)
            kept = holds if kept is None else kept & holds
        return partials if kept is None or kept.all() else partials.taken(np.flatnonzero(kept))

    def _untimed(self, place: int) -> list[tuple[int, int]]:
        """Pairs (timed, untimed) of stored streams of which this step brings the second."""
        # An untimed last row sees no more of a timed stream than the rows before it did.
        if not self.timed[self.stream]:
            return []
        there = [] if self.stash is None else list(self.stash.plan.pair)
        there += [step.stream for step in self.steps[:place]]
        stream = self.steps[place].stream
        if self.timed[stream]:
            return [(stream, other) for other in there if not self.timed[other]]
        return [(other, stream) for other in there if self.timed[other]]

    def _seen_in_time(self, pairs: Iterable[tuple[int, int]], partials: Partials) -> np.ndarray | None:
        kept: np.ndarray | None = None
        for timed, untimed in pairs:
            sight = self.sights[untimed]
            assert sight is not None
            seen, cut = sight.of(timed, partials.numbers[untimed])
            inside = (partials.numbers[timed] >= seen) | (partials.times[timed] >= cut)
            kept = inside if kept is None else kept & inside
        return kept


def apart_from(steps: Sequence[Step], stream: int, timed: Sequence[bool]) -> int:
    """The first step from which on each starts from streams that were there before, and nothing links those that come.

    What links them: a comparison, a residual, the band between two times, and what an untimed row had seen of a timed one.
    """
    looks_back = timed[stream] and len({one for k, one in enumerate(timed) if k != stream}) > 1
    for place in range(len(steps)):
        rest = steps[place:]
        coming = {step.stream for step in rest}
        linked = any(
            comparison.source[0] in coming for step in rest for comparison in (*step.drivers, *step.checks)
        )
        if (
            not linked
            and not looks_back
            and not any(step.residuals for step in rest)
            and sum(timed[k] for k in coming) < 2
        ):
            return place
    return len(steps)


@dataclass(frozen=True, slots=True)
class _Way:
    """What goes with a share of a block from step to step."""

    sees: Sees
    segments: Segments
    buffer: PairBuffer
    out: Matches

    def reachable(self, step: Step, validity: Validity) -> list[SubWindow]:
        return [segment for segment in self.segments[step.stream] if segment.overlaps(validity)]


def _candidates(
    segments: Iterable[SubWindow], probe: Probe, buffer: PairBuffer
) -> Iterator[tuple[SubWindow, np.ndarray, np.ndarray]]:
    """A segment, with the probes and its own rows that make pairs."""
    for segment in segments:
        for n in segment.candidates(probe, buffer):
            # As wide as NumPy wants them: each is used for several columns.
            yield segment, buffer.probe[:n].astype(np.intp), buffer.row[:n].astype(np.intp)


def partials_in_two(partials: Partials) -> Iterator[Partials]:
    """Partial results, more than one, as two halves."""
    rows = partials.rows.size
    for places in (np.arange(rows // 2), np.arange(rows // 2, rows)):
        yield partials.taken(places)


def _of_those_left(found: Sequence[tuple[Lists, np.ndarray]]) -> list[Lists]:
    """The lists of the partial results that every step has left; with each step's lists: the places of those that it has left."""
    lists, left = list[Lists](), found[-1][1]
    for place in reversed(range(len(found))):
        lists.append(found[place][0].of(left))
        if place:
            left = found[place - 1][1].take(left)
    return lists[::-1]


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])


def lots(found: Iterable[Partials], size: int) -> Iterator[Partials]:
    """Partial results as they are found, at least ``size`` together, but for the last."""
    waiting: list[Partials] = []
    rows = 0
    for more in found:
        waiting.append(more)
        rows += more.rows.size
        if rows >= size:
            yield _together(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _together(waiting)


def _together(several: Sequence[Partials]) -> Partials:
    if len(several) == 1:
        return several[0]
    first = several[0]
    return Partials(
        np.concatenate([one.rows for one in several]),
        {stream: np.concatenate([one.numbers[stream] for one in several]) for stream in first.numbers},
        {source: np.concatenate([one.codes[source] for one in several]) for source in first.codes},
        {stream: np.concatenate([one.times[stream] for one in several]) for stream in first.times},
    )
