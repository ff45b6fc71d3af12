"""The join core: a chain a stream; probe, then store. Everything a push does, in order.

A push is all or nothing. What can be refused (schemas, null times, expressions) is refused before anything is changed. Then
``write_down`` notes how everything stands, and until the caller has said ``commit`` the push can be taken back, whatever has failed and
wherever: numbers, rows and flags are put back, and the indexes are made anew from the rows, which are the state.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.index.base import Index, PairBuffer
from watersmeet.index.choose import Habits
from watersmeet.join.access import PARALLEL, Access, Part, Sizing, StepAccess, pair_access
from watersmeet.join.chain import Block, Chain, SubWindow
from watersmeet.join.flags import Flags
from watersmeet.join.learning import Learnt, Trial
from watersmeet.join.matches import Matches
from watersmeet.join.orders import Orders, StashPlan
from watersmeet.join.outer import How, matched, unmatched
from watersmeet.join.plan import Plan, estimate, make_plan
from watersmeet.join.planner import Planner
from watersmeet.join.pool import Pool, Task
from watersmeet.join.prepare import SLICE, bare_block, out_of_sight, slices
from watersmeet.join.short import FEW, ShortWay, is_simple
from watersmeet.join.sights import sights_for
from watersmeet.join.stash import Stash
from watersmeet.join.steps import Walk, apart_from
from watersmeet.sql.condition import BoundCondition
from watersmeet.streams.arrival import Admission, Arrivals, Arrived, Gone
from watersmeet.streams.clock import TOP, TimeAxis
from watersmeet.streams.payload import Chunks, Payload
from watersmeet.streams.window import Window

SAMPLE = 1024  # rows a stream for estimating selectivities
REPLAN = (1, SAMPLE)  # the plan is made anew when all streams have first shown this many rows


@dataclass(slots=True)
class Pushed:
    """One stream's rows of a push, judged: what was accepted, as it will be stored, and what was late."""

    batch: pa.RecordBatch
    arrived: Arrived
    late: pa.RecordBatch | None
    first: int
    # The rows in slices, each with what it may see; empty until the condition is bound.
    parts: list[Part] = field(default_factory=list)
    visitors: "Pushed | None" = None  # rows that probe and are not stored


@dataclass(slots=True)
class Outcome:
    """What a push, or the end of the streams, gave."""

    matches: Matches
    late: dict[int, pa.RecordBatch]
    chunks: Sequence[Chunks | None] = ()  # where the rows of the matches lie
    punctuations: Any = ()  # flows that keep an order: marks in the output
    missing: dict[int, np.ndarray] = field(default_factory=dict)  # rows lost with a core that has failed


Before = tuple[Any, ...]
"""Counts, clock, and the marks of rows, sub-windows and plan."""


class JoinCore:
    """Streams, joined exactly: two or more. Knows nothing of SQL text or output columns.

    Nothing that a core holds refers back to it: its memory is free as soon as nobody holds it, and does not wait for the garbage
    collector, which arrays do not wake.
    """

    def __init__(
        self,
        streams: Sequence[str],
        windows: Sequence[Window],
        how: How,
        index: str,
        mode: str,
        cores: int,
        size: int | None,
        probe_order: Mapping[int, Sequence[int]] | None = None,
        stash: str | int | None = None,
    ) -> None:
        self.streams, self.windows, self.how = tuple(streams), tuple(windows), how
        self.index, self.mode, self.size = index, mode, size
        self.places = range(len(self.streams))
        self.probe_order, self.stash = probe_order or {}, stash
        self.pool = Pool(cores)
        self.begin()

    def begin(self) -> None:
        """Nothing has come yet."""
        self.arrivals = Arrivals(self.windows)
        self.payload: list[Payload | None] = [None for _ in self.places]
        self.chains = [self.new_chain(k, 0) for k in self.places]
        self.habits = [Habits() for _ in self.places]
        self.condition: BoundCondition | None = None
        self.sizing = Sizing(self.windows, self.habits, self.size)
        self.plan: Plan | Orders | None = None
        self.access: Access | None = None
        self._highest: list[np.int64 | None] = [
            None for _ in self.places
        ]  # largest key of the first index so far
        self._short = ShortWay()
        self._simple = False  # whether a few rows may go the short way
        self.replans: Sequence[int] = REPLAN
        # Until all schemas are known the axis of time may change its unit: then the largest times must be coded anew.
        self._latest: list[pa.Array | None] = [None for _ in self.places]
        self.flags = [Flags() if self.how.tracks(k) else None for k in self.places]
        self.backsights = (
            sights_for(self.arrivals.timed) if len(self.streams) > 2 else [None for _ in self.places]
        )
        self.learnt, self.trial = Learnt(), Trial()
        self._before: Before | None = None  # how everything stood before a push that is not committed
        self._stale = False  # whether the indexes hold other rows than the sub-windows
        self._undecided = False  # whether it is time to decide on a stash

    # ---- set-up -------------------------------------------------------------------------------------------------

    def open(self, schemas: Sequence[pa.Schema | None], axis: TimeAxis | None) -> None:
        """Schemas of streams have become known (None: nothing new), and with them the axis of time."""
        for k, schema in enumerate(schemas):
            if schema is not None:
                self.payload[k] = Payload(schema, schema.names)
        if axis is not None:
            latest = [
                None if column is None else axis.column_codes(k, column)
                for k, column in enumerate(self._latest)
            ]
            self.arrivals.change_axis(axis, latest)
            for k, chain in enumerate(self.chains):
                for sub in chain.subwindows:
                    if self.arrivals.timed[k]:
                        sub.set_times(axis.codes(k, self._payload(k).rows_between(sub.base, sub.end)))
            for seen in self.backsights:
                if seen is not None:
                    seen.change_axis(
                        axis, {k: self._times_so_far(k) for k in self.places if self.arrivals.timed[k]}
                    )

    def _times_so_far(self, k: int) -> np.ndarray:
        """The codes of all times of a timed stream. Until all streams are known the watermark has not begun, and no row has gone."""
        return np.concatenate(
            [
                np.empty(0, np.int64),
                *(sub.times[: sub.count] for sub in self.chains[k].subwindows if sub.times is not None),
            ]
        )

    def bind(self, condition: BoundCondition, columns: Sequence[Sequence[str]]) -> None:
        """All schemas are known: from now on rows can be joined. ``columns``: what must be kept of each stream."""
        self.condition = condition
        for k in self.places:
            self._payload(k).keep_columns(columns[k])
        self.make_plan(self._shares())

    def _payload(self, k: int) -> Payload:
        payload = self.payload[k]
        assert payload is not None
        return payload

    @property
    def segments(self) -> list[list[SubWindow]]:
        return [chain.subwindows for chain in self.chains]

    def reach_flags(self) -> None:
        """The rows that have come have flags."""
        for k, flags in enumerate(self.flags):
            if flags is not None:
                flags.reach(int(self.arrivals.counts[k]))

    def new_chain(self, k: int, checked: int) -> Chain:
        return Chain(checked, self.arrivals.timed[k])

    def _long_enough(self, sub: SubWindow) -> bool:
        """Whether a sub-window covers so much time that the next rows are better off in a new one."""
        axis = self.arrivals.axis
        return (
            axis is not None and sub.count >= SLICE and axis.windows_between(sub.min_time, sub.max_time) > 0.5
        )

    def _shares(self) -> dict[str, float]:
        """The share of pairs that each band lets through, estimated from the newest rows of its streams."""
        assert self.condition is not None
        samples = {name: self._sample(k) for k, name in enumerate(self.streams)}
        return {
            band.text: estimate(band, *band.streams, *(samples[name] for name in band.streams))
            for band in self.condition.bands
            if all(samples[name].num_rows for name in band.streams)
        }

    def make_plan(self, shares: dict[str, float]) -> None:
        """Choose the driver by what the streams have shown, and index the stored rows by it."""
        assert self.condition is not None
        rows = [self._window_rows(k) for k in self.places]
        plan: Plan | Orders
        if len(self.streams) == 2:
            plan = make_plan(self.condition, self.index, shares, max(rows))
            access: Access = pair_access(plan, self.streams, self.habits, self.payload, self.mode, self.how)
        else:
            planner = Planner(self.condition, self.streams, self.index)
            now = self.plan if isinstance(self.plan, Orders) else None
            plan = planner.orders(rows, shares, self.learnt.fanouts, self.probe_order, now, self._hot())
            if plan.stash is not None and not self._fits(plan.stash):
                plan = planner.orders(rows, shares, self.learnt.fanouts, self.probe_order, now)
            access = self._step_access(plan)
        fits = self.plan is not None and plan.index_identity == self.plan.index_identity
        self.plan, self.access = plan, access
        if not fits:
            self.rebuild()
        self._simple = is_simple(self)

    def _walk(self, plan: Orders, k: int) -> Walk:
        columns, arrivals = [len(of_stream) for of_stream in plan.columns], self.arrivals
        walk = Walk(
            k, self.streams, plan.steps[k], columns, self.payload, self.backsights, arrivals.axis, arrivals.timed, self.mode == "count",
            apart_from(plan.steps[k], k, arrivals.timed),
        )  # fmt: skip
        if plan.stash is None or k not in plan.stash.pair:
            return walk
        # The first step's pairs go into the stash: they are listed, also where nothing links them with what follows.
        return replace(walk, pairs=[], pair_plan=plan.stash, apart=max(1, walk.apart))

    def _hot(self) -> int | None:
        """The stream that arrives most often, where a stash may be kept for it."""
        if self.stash is None or (self.stash == "auto" and not self.trial.on):
            return None
        counts = self.arrivals.counts
        return len(self.streams) - 1 if not counts.any() else int(counts.argmax())

    def _room(self, plan: StashPlan) -> int:
        """How many pairs a stash may hold."""
        return (
            self.stash
            if isinstance(self.stash, int)
            else max(1024, *(self._window_rows(k) for k in plan.pair))
        )

    def _fits(self, plan: StashPlan) -> bool:
        """A stash that is overwritten all the time helps nobody; one of a size that the user wants is kept all the same."""
        return isinstance(self.stash, int) or 2 * plan.expected <= self._room(plan)

    def _step_access(self, plan: Orders) -> StepAccess:
        walks = [self._walk(plan, k) for k in self.places]
        if plan.stash is None:
            return StepAccess(plan, self.habits, walks, self.learnt.fanouts)
        stash, first = None, plan.stash.pair[0]
        if (
            isinstance(self.access, StepAccess)
            and self.access.stash is not None
            and self.access.stash.plan == plan.stash
        ):
            stash = self.access.stash
        if stash is None:
            stash = Stash(
                plan.stash, self.arrivals.timed, self._room(plan.stash), int(self.arrivals.counts[first])
            )
        hot, steps, timed = plan.stash.hot, plan.stash.steps, self.arrivals.timed
        by_stash = replace(walks[hot], steps=steps, apart=apart_from(steps, hot, timed), stash=stash, seen=[])
        return StepAccess(plan, self.habits, walks, self.learnt.fanouts, stash, by_stash)

    def _sample(self, k: int) -> pa.RecordBatch:
        payload = self._payload(k)
        return payload.rows_between(max(payload.first, payload.end - SAMPLE), payload.end)

    def _window_rows(self, k: int) -> int:
        least = 65_536 if len(self.streams) == 2 else SAMPLE
        return self.windows[k].rows or max(self.chains[k].rows, least)

    def rebuild(self) -> None:
        """Make the sub-windows anew from the stored rows, keeping their borders."""
        for k in self.places:
            payload, old = self.payload[k], self.chains[k]
            chain = self.new_chain(k, 0 if self.access is None else self.access.checked(k))
            chain.dropped = old.first
            for sub in old.subwindows:
                assert payload is not None
                batch = payload.rows_between(sub.base, sub.end)
                times = None if sub.times is None else sub.times[: batch.num_rows]
                chain.renew(sub, self._block(k, batch, sub.base, times), partial(self._indexes, k))
            self.chains[k] = chain

    def _block(self, k: int, batch: pa.RecordBatch, first: int, times: np.ndarray | None) -> Block:
        """Rows of stream k, ready to be stored."""
        if self.access is None:
            return bare_block(batch, first, times)
        return self.access.block(k, batch, first, times)

    # ---- all or nothing -----------------------------------------------------------------------------------------

    def write_down(self) -> None:
        """From here on everything that changes can be taken back, until ``commit``. What was only learnt of the data stays learnt."""
        self._before = (
            self.arrivals.counts,
            self.arrivals.clock,
            [None if one is None else one.mark() for one in self.payload],
            [(chain, chain.mark()) for chain in self.chains],
            (self.plan, self.access, self._simple, self.replans),
            self._latest[:],
            None if self.how.name == "inner" else [None if one is None else one.mark() for one in self.flags],
            None
            if len(self.streams) == 2
            else [None if one is None else one.mark() for one in self.backsights],
        )

    def commit(self) -> None:
        """What was pushed counts. The caller has all that it needs: after this nothing may fail."""
        self._before = None

    def take_back(self) -> None:
        """Nothing was pushed: everything as ``write_down`` found it. Nothing is done where nothing is to be taken back.

        Only names are bound and flags set, so there is little that could fail; should it be interrupted all the same, it is done again,
        from the beginning, before the next push.
        """
        if self._before is None:
            return
        counts, clock, payloads, chains, plan, latest, flags, sights = self._before
        self._stale = True
        self.arrivals.stand_at(counts, clock)
        for payload, payload_mark in zip(self.payload, payloads, strict=True):
            if payload is not None and payload_mark is not None:
                payload.back_to(payload_mark)
        for chain, chain_mark in chains:
            chain.back_to(chain_mark)
        self.chains = [chain for chain, _ in chains]
        for kept, marks in ((self.flags, flags), (self.backsights, sights)):
            for one, mark in zip(kept, marks or (), strict=False):
                if one is not None:
                    one.back_to(mark)
        self.plan, self.access, self._simple, self.replans = plan
        if self.access is not None:
            self.access.forget(counts)
        self._latest = list(latest)
        self._before = None

    def mend(self) -> None:
        """After a push that failed: indexes that hold the rows there are. Called before anything looks at them."""
        if self._before is not None:
            self.take_back()
        if self._stale:
            self.rebuild()
            self._stale = False

    # ---- one push -----------------------------------------------------------------------------------------------

    def arrive(
        self, batches: Sequence[pa.RecordBatch | None], order: np.ndarray | None, turns: Sequence[int]
    ) -> Outcome:
        """Join a push. ``order``: stream of each row; None: one stream after the other, as ``turns`` says."""
        if self._stale or self._before is not None:
            self.mend()
        first = turns[0]
        # Two streams of which one comes alone. A batch without rows is a batch: who pushes those has judged them elsewhere.
        only = batches[first] if self._simple and order is None and batches[1 - first] is None else None
        if only is not None and 0 < only.num_rows <= FEW:
            found = self._short.push(self, first, only)
            if found is not None:
                outcome = self._with_rows(Outcome(found, {}))
                self._expire(first, self.arrivals.gone_before(first))
                self._replan()
                return outcome
        return self.push(batches, self.admit(batches, order, turns))

    def admit(
        self, batches: Sequence[pa.RecordBatch | None], order: np.ndarray | None, turns: Sequence[int]
    ) -> Admission:
        """Judge the rows of a push, and change nothing."""
        sizes = [0 if batch is None else batch.num_rows for batch in batches]
        times = [self.times(k, batch) for k, batch in enumerate(batches)]
        return self.arrivals.admit(sizes, times, order, turns)

    def push(
        self,
        batches: Sequence[pa.RecordBatch | None],
        admission: Admission,
        visiting: Sequence[tuple[pa.RecordBatch, Arrived]] = (),
    ) -> Outcome:
        """Join rows that have been judged.

        ``visiting``: where streams are stored on many cores, the rows that probe here and are stored elsewhere, with what
        they may see; of each stream, or of none.
        """
        if self._stale or self._before is not None:
            self.mend()
        pushed = [
            None if batch is None else self._judged(k, batch, admission.arrived[k])
            for k, batch in enumerate(batches)
        ]
        for k, (visitors, arrived) in enumerate(visiting):
            self._let_in(pushed[k], self._judged(k, visitors, arrived))
        if self.access is not None:
            judged = [(k, mine) for k, mine in enumerate(pushed) if mine is not None]
            judged += [(k, mine.visitors) for k, mine in judged if mine.visitors is not None]
            rows, interleaved = sum(mine.batch.num_rows for _, mine in judged), admission.order is not None
            self._run([partial(self._prepare, k, mine, interleaved) for k, mine in judged], rows)
        return self._apply(pushed, admission)

    def advance(self, latest: Sequence[int | None]) -> Outcome:
        """Streams have come to these times (codes; None: nothing new) without a row. Only clocks and watermark move."""
        self.mend()
        return self._apply([None for _ in self.places], self.arrivals.nobody(self.arrivals.moved(latest)))

    def times(self, k: int, batch: pa.RecordBatch | None) -> np.ndarray | None:
        if not self.arrivals.timed[k]:
            return None
        if batch is None:
            return np.empty(0, np.int64)
        assert self.arrivals.axis is not None
        return self.arrivals.axis.codes(k, batch)

    def _judged(self, k: int, batch: pa.RecordBatch, arrived: Arrived) -> Pushed:
        late = None
        if arrived.late is not None:
            late = batch.filter(pa.array(arrived.late))
            batch = batch.filter(pa.array(~arrived.late))
        columns = self._payload(k).columns
        if len(columns) != batch.num_columns:
            batch = batch.select(columns)
        return Pushed(batch, arrived, late, int(self.arrivals.counts[k]))

    def _let_in(self, mine: Pushed | None, visitors: Pushed) -> None:
        """Visitors are numbered after the rows that stay, for as long as the push takes."""
        assert mine is not None
        visitors.first = mine.first + mine.batch.num_rows
        mine.visitors = visitors

    def _prepare(self, k: int, mine: Pushed, interleaved: bool, buffer: PairBuffer) -> None:
        assert self.access is not None
        arrived, rows = mine.arrived, mine.batch.num_rows
        for start, stop in slices(rows, self.windows, self.arrivals.axis, arrived.times, interleaved):
            batch = mine.batch if stop - start == rows else mine.batch.slice(start, stop - start)
            times = None if arrived.times is None else arrived.times[start:stop]
            block = self.access.block(k, batch, mine.first + start, times)
            mine.parts.append((block, arrived.part(start, stop)))

    def _apply(self, pushed: Sequence[Pushed | None], admission: Admission) -> Outcome:
        """Store and probe. All rows of a push are in the payload before the first probe: a residual may need any of them."""
        late = {k: mine.late for k, mine in enumerate(pushed) if mine is not None and mine.late is not None}
        outcome = Outcome(Matches(streams=len(self.streams)), late)
        rows = sum(mine.batch.num_rows for mine in pushed if mine is not None)
        self.write_down()
        for k, mine in enumerate(pushed):
            if mine is not None:
                self._payload(k).append(mine.batch)
                if mine.visitors is not None:
                    self._payload(k).append(mine.visitors.batch)
                seen = self.backsights[k]
                if seen is not None and mine.batch.num_rows:
                    seen.append(mine.first, mine.batch.num_rows, mine.arrived.sees)
        self.arrivals.stand_at(admission.counts, admission.clock)
        self.reach_flags()
        self._learn_sizes(pushed)
        begun = time.perf_counter()
        if admission.order is not None:
            self._run([task for k in self.places for task in self._inserts(pushed, k, False)], rows)
            for streams in () if self.access is None else self.access.rounds():
                self._run([task for k in streams for task in self._probes(pushed, k, outcome.matches)], rows)
                self._after()
        else:
            for k in admission.turns:
                self._run([*self._inserts(pushed, k, True), *self._probes(pushed, k, outcome.matches)], rows)
                self._after()
        if self.stash == "auto":
            self._try_stash(rows, time.perf_counter() - begun)
        self._learn_matches(pushed, outcome.matches)
        for k, mine in enumerate(pushed):
            if mine is not None:
                self.note_latest(k, mine.batch, mine.arrived.times)
        if self.how.name != "inner":
            outcome.matches = self._settle(outcome.matches, admission.gone)
        self._with_rows(outcome)
        for k, gone in enumerate(admission.gone):
            self._expire(k, gone)
        self._replan()
        for k, mine in enumerate(pushed):
            if mine is not None and mine.visitors is not None:  # the outcome has hold of their rows
                self._payload(k).drop_from(mine.visitors.first)
        return outcome

    def _try_stash(self, rows: int, seconds: float) -> None:
        """Time with the stash counts once it is complete; until then hot rows look in both ways."""
        stash = self.access.stash if isinstance(self.access, StepAccess) else None
        if stash is not None and stash.complete_from > self.chains[stash.plan.pair[0]].first:
            return
        self._undecided = self.trial.learn(rows, seconds)

    def _after(self) -> None:
        if self.access is not None and len(self.streams) > 2:
            self.access.after([chain.first for chain in self.chains])

    def _with_rows(self, outcome: Outcome) -> Outcome:
        """Keep hold of the rows that a push found, before any of them are dropped."""
        outcome.chunks = [None if payload is None else payload.chunks for payload in self.payload]
        return outcome

    def _replan(self) -> None:
        """Think again of the plan, when all streams have first shown enough rows."""
        if self.replans and self.condition is not None and int(min(self.arrivals.counts)) >= self.replans[0]:
            self.replans = self.replans[1:]
            self.make_plan(self._shares())
        elif len(self.streams) > 2 and self.access is not None:
            due = self.learnt.due(self.access.seen())
            if self._undecided:
                self._undecided = False
                due |= self.trial.decide(
                    int(self.arrivals.counts.max()) * 2 >= int(self.arrivals.counts.sum())
                )
            if due:
                self.make_plan(self._shares())

    def note_latest(self, k: int, batch: pa.RecordBatch, times: np.ndarray | None) -> None:
        """Keep the row with the largest time seen of stream k, for as long as the axis of time may change."""
        axis = self.arrivals.axis
        if self.access is None and axis is not None and times is not None and times.size:
            newest = int(times.argmax())
            if self._latest[k] is None or times[newest] >= self.arrivals.clock[k]:
                self._latest[k] = batch.column(axis.columns[k]).slice(newest, 1)

    def _run(self, tasks: list[Task], rows: int) -> None:
        self.pool.run(tasks, parallel=rows >= PARALLEL)

    def _learn_sizes(self, pushed: Sequence[Pushed | None]) -> None:
        """Remember how many rows come at a time, before they are stored: a first sub-window has nothing else to go by."""
        for k, mine in enumerate(pushed):
            if mine is not None and mine.batch.num_rows:
                for j, habits in enumerate(self.habits):
                    habits.learn("batch" if j == k else "probes", mine.batch.num_rows)
                self._learn_keys(k, mine)

    def _learn_matches(self, pushed: Sequence[Pushed | None], matches: Matches) -> None:
        rows = [0 if mine is None else mine.batch.num_rows for mine in pushed]
        for k in self.places:
            if sum(rows) > rows[k]:
                chains = max(1, len(self.chains[k].subwindows))
                self.habits[k].learn("matches", (matches.count / sum(rows) + 0.01) / chains)

    def _learn_keys(self, k: int, mine: Pushed) -> None:
        """Whether keys keep increasing: the batch's smallest is not below the largest before."""
        for block, _ in mine.parts:
            if block.keys.size:
                before = self._highest[k]
                rising = before is not None and block.keys.key[0] >= before
                self.habits[k].increasing = 0.8 * self.habits[k].increasing + 0.2 * rising
                self._highest[k] = block.keys.key[-1] if before is None else max(before, block.keys.key[-1])

    # ---- store --------------------------------------------------------------------------------------------------

    def _inserts(self, pushed: Sequence[Pushed | None], k: int, in_turn: bool) -> list[Task]:
        mine = pushed[k]
        if mine is None or not mine.batch.num_rows:
            return []
        blocks = [block for block, _ in mine.parts] or [
            bare_block(mine.batch, mine.first, mine.arrived.times)
        ]
        window = self.windows[k]
        if in_turn and (hidden := window.lowest(mine.batch.num_rows)) > 0:
            oldest = mine.first + hidden
            blocks = [out_of_sight(block, oldest - block.first) for block in blocks]

        def insert_all(buffer: PairBuffer) -> None:
            for block in blocks:
                self.insert(k, block)

        return [insert_all]

    def insert(self, k: int, block: Block) -> None:
        """Store a block in its stream's chain."""
        size, make = partial(self._subwindow, k), partial(self._indexes, k)
        self.chains[k].insert(block, size, make, self._long_enough)

    def _subwindow(self, k: int) -> int:
        """How many rows a new sub-window of stream k is made for."""
        return self.sizing.rows(k, self.chains[k].rows)

    def _indexes(self, k: int, capacity: int, previous: SubWindow | None) -> Sequence[Index]:
        return () if self.access is None else self.access.indexes(k, capacity, previous)

    # ---- probe --------------------------------------------------------------------------------------------------

    def _probes(self, pushed: Sequence[Pushed | None], k: int, matches: Matches) -> list[Task]:
        """The tasks that look for partners of stream k's new rows among the stored ones."""
        mine, access = pushed[k], self.access
        if mine is None or access is None:
            return []
        visits = [] if mine.visitors is None else mine.visitors.parts
        return [
            task
            for part in [*mine.parts, *visits]
            if part[0].keys.size
            for task in access.probes(k, part, self.segments, self.pool.cores, matches)
        ]

    # ---- what the outside may ask --------------------------------------------------------------------------------

    def indexes(self, k: int) -> list[str]:
        """The kinds of index over stream k's rows."""
        return [index.name for sub in self.chains[k].subwindows for index in sub.indexes]

    def index_bytes(self, k: int) -> int:
        return self.chains[k].nbytes

    def describe_flow(self) -> dict[str, Any] | None:
        """How rows reach the cores, as plain data; None: without a flow."""
        return None

    def settled(self) -> None:
        """Return when nothing is on its way: the state can then be written down."""
        self.mend()

    def extra_numbers(self) -> dict[str, Any]:
        """What the state has besides rows, flags and counters."""
        return {}

    def extra_columns(self, k: int, start: int, stop: int) -> dict[str, np.ndarray]:
        """The same by row, for the rows [start, stop) of stream k."""
        seen = self.backsights[k]
        return {} if seen is None else seen.between(start, stop)

    def restore_extra(self, numbers: dict[str, Any]) -> None:
        """Take back ``extra_numbers``."""

    def restore_columns(self, k: int, first: int, columns: dict[str, np.ndarray]) -> None:
        """Take back ``extra_columns`` of the rows from ``first`` on."""
        seen = self.backsights[k]
        if seen is not None and columns:
            seen.restore(first, columns)

    # ---- after the probes ---------------------------------------------------------------------------------------

    def _settle(self, matches: Matches, gone: Sequence[Gone]) -> Matches:
        """Turn pairs into what the join type asks for."""
        settled = matched(self.how, matches, self.flags)
        settled.pairs += unmatched(self.how, self.flags, self.segments, gone)
        return settled

    def _expire(self, k: int, gone: Gone) -> None:
        chain, payload = self.chains[k], self.payload[k]
        if chain.subwindows and chain.expire(*gone) and payload is not None:
            payload.drop_before(chain.first)
            for kept in (self.flags[k], self.backsights[k]):
                if kept is not None:
                    kept.drop_before(chain.first)

    def finish(self) -> Outcome:
        """The streams have ended: every row that waits for a partner is emitted, and everything is forgotten."""
        self.mend()
        self.write_down()
        outcome = Outcome(
            Matches(streams=len(self.streams)),
            {},
            [None if payload is None else payload.chunks for payload in self.payload],
        )
        outcome.matches.pairs += unmatched(
            self.how, self.flags, self.segments, [(TOP, TOP)] * len(self.streams)
        )
        for k in self.places:
            self.chains[k].expire(TOP, TOP)
            payload = self.payload[k]
            if payload is not None:
                payload.drop_before(payload.end)
        self.close()  # threads come back on their own, should this be taken back
        return outcome

    def close(self) -> None:
        """End the threads."""
        self.pool.close()
