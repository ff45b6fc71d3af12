"""How a join looks for its results: the plan, which follows from the condition and from what the streams have shown, and is made anew.

The plan says what is compared, the ``access`` made from it how rows are kept and found. The engine and the flows each hold one of these.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np
import pyarrow as pa

from watersmeet.codes.interning import Texts
from watersmeet.index.choose import Habits
from watersmeet.join.access import Access, PairAccess, Sizing, StepAccess, pair_access
from watersmeet.join.drivers import BandReach, Reach
from watersmeet.join.learning import Learnt, Trial
from watersmeet.join.ledger import Ledger, Pushed
from watersmeet.join.matches import Matches
from watersmeet.join.moments import Moments
from watersmeet.join.nearby import Nearby, nearby_in_time
from watersmeet.join.orders import Orders, StashPlan
from watersmeet.join.plan import UNKNOWN, Measured, Plan, estimate, evenly, make_plan, measured, reaches
from watersmeet.join.planner import Planner
from watersmeet.join.stash import Stash
from watersmeet.join.steps import Walk, apart_from
from watersmeet.sql.condition import BoundCondition
from watersmeet.streams.payload import Payload

SAMPLE = 1024  # rows a stream for estimating selectivities
REPLAN = (1, SAMPLE)  # the plan is made anew when all streams have first shown this many rows
MOST_FACTS = 256  # of two streams that are remembered
LONG = 16  # a stream that has since brought so many times the rows that it holds is measured again


class Fact(NamedTuple):
    """What was measured of two streams, and how many rows had come of each."""

    other: "ref[Payload]"  # the second stream
    ends: tuple[int, ...]
    measured: Measured | None


_FACTS: WeakKeyDictionary[Payload, dict[Hashable, Fact]] = WeakKeyDictionary()  # by the first stream


class Planning:
    """The plan of a join, and what has been learnt of its streams."""

    def __init__(
        self,
        ledger: Ledger,
        index: str,
        mode: str,
        size: int | None,
        probe_order: Mapping[int, Sequence[int]] | None = None,
        stash: str | int | None = None,
        in_flow: bool = False,
    ) -> None:
        """``in_flow``: rows may look for rows that come later, and are stored by cores that keep no more than keys and codes of bands."""
        self._in_flow = in_flow
        self.ledger, self.index, self.mode, self.size = ledger, index, mode, size
        self.probe_order, self.stash = probe_order or {}, stash
        self.condition: BoundCondition | None = None
        self.nearby: tuple[Nearby, ...] = ()
        self.plan: Plan | Orders | None = None
        self.access: Access | None = None
        self.habits = [Habits() for _ in ledger.places]
        self.sizing = Sizing(ledger.windows, self.habits, size)
        self.replans: Sequence[int] = REPLAN
        self._reached: tuple[list[tuple[int, int]], list[tuple[Reach, Measured]]] | None = (
            None  # of which rows
        )
        self.learnt, self.trial = Learnt(), Trial()
        self.moments = Moments(0)  # of the condition's interner, if it has one
        self._highest: list[np.int64 | None] = [None for _ in ledger.places]  # key of the first index so far

    def bind(self, condition: BoundCondition, index: str) -> None:
        """All schemas are known."""
        self.condition, self.index, self._reached = condition, index, None
        ledger = self.ledger
        if not self._in_flow:
            self.nearby = nearby_in_time(ledger.streams, ledger.windows, ledger.arrivals.axis)
        if condition.interner is not None:
            condition.interner.keepers.add(self)
            self.moments = Moments(condition.interner.moment)

    def forget_texts(self) -> None:
        """Texts that are stored no more need not be told apart from others. While no push is on its way that may be taken back."""
        interner = None if self.condition is None else self.condition.interner
        if interner is None or not interner.due:
            return
        keepers: list[Planning] = list(interner.keepers)
        oldest = min(keeper.moments.oldest(keeper.ledger.chains) for keeper in keepers)
        if interner.turn(oldest, sum(chain.rows for keeper in keepers for chain in keeper.ledger.chains)):
            interner.keep(texts for keeper in keepers for texts in keeper.texts())
        for keeper in keepers:
            ends = [keeper.ledger.payload_of(k).end for k in keeper.ledger.places]
            keeper.moments.note(interner.moment, ends)

    def texts(self) -> Iterator[Texts]:
        """All texts that are stored, and compared by codes."""
        assert self.condition is not None
        ledger = self.ledger
        for band in self.condition.bands:
            for stream in band.streams if band.interned else ():
                k = ledger.streams.index(stream)
                for sub in ledger.chains[k].subwindows:
                    yield band.texts(stream, ledger.payload_of(k).rows_between(sub.base, sub.end))

    # ---- the plan -----------------------------------------------------------------------------------------------

    def shares(self) -> dict[str, float]:
        """The share of pairs that each band lets through, estimated from the newest rows of its streams."""
        assert self.condition is not None
        ledger = self.ledger
        samples = {name: ledger.newest(k, SAMPLE) for k, name in enumerate(ledger.streams)}
        return {
            band.text: estimate(band, *band.streams, *(samples[name] for name in band.streams))
            for band in self.condition.bands
            if all(samples[name].num_rows for name in band.streams)
        }

    def make(self, shares: dict[str, float]) -> bool:
        """Choose by what the streams have shown. Returns whether stored rows must be indexed anew."""
        assert self.condition is not None
        ledger, rows = self.ledger, [self._window_rows(k) for k in self.ledger.places]
        nearby = [one.band for one in self.nearby]
        shares = {**shares, **{one.band.text: one.share for one in self.nearby}}
        plan: Plan | Orders
        if len(ledger.streams) == 2:
            plan = self._same_driver(
                make_plan(self.condition, self.index, shares, max(rows), self._reaches(), nearby)
            )
            if not self._in_flow:
                program, residual = self.condition.compiled
                plan = replace(plan, program=program, residual=residual)
            access: Access = pair_access(
                plan, ledger.streams, self.habits, ledger.payload, self.mode, ledger.how
            )
        else:
            planner = Planner(
                self.condition, ledger.streams, self.index, self._reaches(), nearby, self._large()
            )
            now = self.plan if isinstance(self.plan, Orders) else None
            plan = planner.orders(rows, shares, self.learnt.fanouts, self.probe_order, now, self._hot())
            if plan.stash is not None and not self._fits(plan.stash):
                plan = planner.orders(rows, shares, self.learnt.fanouts, self.probe_order, now)
            access = self._step_access(plan)
        fits = self.plan is not None and plan.index_identity == self.plan.index_identity
        self._use(plan, access)
        return not fits

    def _use(self, plan: Plan | Orders | None, access: Access | None) -> None:
        self.plan, self.access = plan, access
        self.ledger.finds_few = bool(self.nearby) and plan is not None and plan.finds_few

    def answer_in(self, mode: str) -> None:
        """Results in another form from the next push on: how stored rows are kept does not depend on it. Of two streams."""
        self.mode = mode
        if isinstance(self.plan, Plan) and isinstance(self.access, PairAccess) and self.access.mode != mode:
            ledger = self.ledger
            self.access = pair_access(
                self.plan, ledger.streams, self.habits, ledger.payload, mode, ledger.how
            )

    @property
    def in_ranges(self) -> bool:
        """Whether results come as ranges, as far as rows are in sorted runs."""
        return isinstance(self.access, PairAccess) and self.access.ranges

    def _same_driver(self, plan: Plan) -> Plan:
        """Where stored rows keep their indexes, the driver that has coded them stays: it may have learnt of them."""
        if isinstance(self.plan, Plan) and plan.index_identity == self.plan.index_identity:
            return replace(plan, driver=self.plan.driver)
        return plan

    def _reaches(self) -> list[tuple[Reach, Measured]]:
        """What may follow equalities in a key, where rows have shown how much it lets through."""
        assert self.condition is not None
        ledger = self.ledger
        if len(self.condition.bands) + len(self.nearby) < 2:
            return []
        rows = [(payload.first, payload.end) for payload in map(ledger.payload_of, ledger.places)]
        if (
            self._reached is not None and self._reached[0] == rows
        ):  # a warm join plans before and after its replay
            return self._reached[1]
        samples = {name: ledger.newest(k, SAMPLE) for k, name in enumerate(ledger.streams)}
        two = len(ledger.streams) == 2
        plain = reaches(self.condition, two and not self._in_flow)
        plain += [BandReach(one.band) for one in self.nearby]
        even = [evenly(reach, samples) for reach in plain] if two else []
        wanted = [reach for reach in (*plain, *even) if reach is not None]
        wanted += [other for reach in wanted for other in reach.other_classes(samples)]
        found = [(reach, self._measured(reach, samples)) for reach in wanted]
        known = [(reach, facts) for reach, facts in found if facts is not None]
        for one in self.nearby:
            known = [(reach, one.measured(reach, facts)) for reach, facts in known]
        self._reached = rows, known
        return known

    def _measured(self, reach: Reach, samples: Mapping[str, pa.RecordBatch]) -> Measured | None:
        """What rows have shown. Where that was asked of the same streams not too long ago, what was found then: it chooses plans, never
        results, and joins that were made then have no others.
        """
        ledger = self.ledger
        places = [ledger.streams.index(name) for name in reach.bands[0].streams]
        payloads = [ledger.payload_of(k) for k in places]
        if any(samples[name].num_rows < SAMPLE for name in reach.bands[0].streams):
            return measured(reach, samples)
        facts = _FACTS.setdefault(payloads[0], {})
        asked = (
            type(reach),
            reach.cut,
            *((band.text, *(band.identity_of(name) for name in band.streams)) for band in reach.bands),
        )
        ends = tuple(payload.end for payload in payloads)
        if (fact := facts.get(asked)) is not None and fact.other() is payloads[1]:
            held = zip(payloads, ends, fact.ends, strict=True)
            if all(0 <= end - then <= LONG * (payload.end - payload.first) for payload, end, then in held):
                return fact.measured
        found = measured(reach, samples)
        if len(facts) >= MOST_FACTS:
            facts.clear()
        facts[asked] = Fact(ref(payloads[1]), ends, found)
        return found

    def skip_first(self) -> None:
        """Streams that have shown a whole sample before the join was made need not be looked at again with its first row."""
        payloads = map(self.ledger.payload_of, self.ledger.places)
        if all(payload.end - payload.first >= SAMPLE for payload in payloads):
            self.replans = self.replans[-1:]

    def forget(self) -> None:
        """No plan, until one is made: rows are stored as they come."""
        self._use(None, None)

    def first_due(self) -> bool:
        """Whether all streams have first shown so many rows that the plan should be thought of again."""
        counts = self.ledger.arrivals.counts
        return bool(self.replans) and self.condition is not None and int(min(counts)) >= self.replans[0]

    def learnt_due(self) -> bool:
        """Whether what many streams have shown since asks for another plan."""
        if len(self.ledger.streams) == 2 or self.access is None:
            return False
        counts = self.ledger.arrivals.counts
        due = self.learnt.due(self.access.seen())
        if self.trial.due:
            due |= self.trial.decide(int(counts.max()) * 2 >= int(counts.sum()))
        return due

    def _large(self) -> list[int]:
        """Streams that keep all their rows. Only of streams that are shared: elsewhere pushes of a few rows want sorted runs."""
        ledger = self.ledger
        return [k for k, window in enumerate(ledger.windows) if window.endless and not ledger.keeps_rows]

    def _window_rows(self, k: int) -> int:
        least = UNKNOWN if len(self.ledger.streams) == 2 else SAMPLE
        return self.ledger.windows[k].rows or max(self.ledger.chains[k].rows, least)

    def mark(self) -> tuple[Any, ...]:
        """What ``back_to`` goes back to. What was only learnt of the data stays learnt."""
        return self.plan, self.access, self.replans

    def back_to(self, mark: tuple[Any, ...]) -> None:
        plan, access, self.replans = mark
        self._use(plan, access)
        self._reached = None  # numbers that are given again may be of other rows

    # ---- many streams -------------------------------------------------------------------------------------------

    def _walk(self, plan: Orders, k: int) -> Walk:
        ledger, columns = self.ledger, [len(of_stream) for of_stream in plan.columns]
        arrivals = ledger.arrivals
        walk = Walk(
            k, ledger.streams, plan.steps[k], columns, ledger.payload, ledger.backsights, arrivals.axis, arrivals.timed,
            self.mode == "count", apart_from(plan.steps[k], k, arrivals.timed), fanouts=self.learnt.fanouts,
        )  # fmt: skip
        if plan.stash is None or k not in plan.stash.pair:
            return walk
        # The first step's pairs go into the stash: they are listed, also where nothing links them with what follows.
        return replace(walk, pairs=[], pair_plan=plan.stash, apart=max(1, walk.apart))

    def _hot(self) -> int | None:
        """The stream that arrives most often, where a stash may be kept for it."""
        if self.stash is None or (self.stash == "auto" and not self.trial.on):
            return None
        counts = self.ledger.arrivals.counts
        return len(self.ledger.streams) - 1 if not counts.any() else int(counts.argmax())

    def _room(self, plan: StashPlan) -> int:
        """How many pairs a stash may hold."""
        if isinstance(self.stash, int):
            return self.stash
        return max(1024, *(self._window_rows(k) for k in plan.pair))

    def _fits(self, plan: StashPlan) -> bool:
        """A stash that is overwritten all the time helps nobody; one of a size that the user wants is kept all the same."""
        return isinstance(self.stash, int) or 2 * plan.expected <= self._room(plan)

    def _step_access(self, plan: Orders) -> StepAccess:
        walks = [self._walk(plan, k) for k in self.ledger.places]
        if plan.stash is None:
            return StepAccess(plan, self.habits, walks, self.learnt.fanouts)
        arrivals, first = self.ledger.arrivals, plan.stash.pair[0]
        stash = self.access.stash if isinstance(self.access, StepAccess) else None
        if stash is None or stash.plan != plan.stash:
            room = self._room(plan.stash)
            stash = Stash(plan.stash, arrivals.timed, room, int(arrivals.counts[first]))
        hot, steps, timed = plan.stash.hot, plan.stash.steps, arrivals.timed
        by_stash = replace(walks[hot], steps=steps, apart=apart_from(steps, hot, timed), stash=stash, seen=[])
        return StepAccess(plan, self.habits, walks, self.learnt.fanouts, stash, by_stash)

    # ---- what is learnt -----------------------------------------------------------------------------------------

    def learn_sizes(self, pushed: Sequence[Pushed | None]) -> None:
        """Remember how many rows come at a time, before they are stored: a first sub-window has nothing else to go by."""
        for k, mine in enumerate(pushed):
            if mine is not None and mine.batch.num_rows:
                self.learn_size(k, mine.batch.num_rows)
                self._learn_keys(k, mine)

    def learn_size(self, k: int, rows: int) -> None:
        """So many rows of stream k come at a time."""
        for j, habits in enumerate(self.habits):
            if j != k and habits.probes != rows:
                habits.learn("probes", rows)
            elif j == k and habits.batch != rows:
                habits.learn("batch", rows)

    def _learn_keys(self, k: int, mine: Pushed) -> None:
        """Whether keys keep increasing: the batch's smallest is not below the largest before."""
        for block, _ in mine.parts:
            if block.keys.size and not block.keys.unordered:
                before = self._highest[k]
                rising = before is not None and block.keys.key[0] >= before
                self.habits[k].increasing = 0.8 * self.habits[k].increasing + 0.2 * rising
                self._highest[k] = block.keys.key[-1] if before is None else max(before, block.keys.key[-1])

    def learn_matches(self, pushed: Sequence[Pushed | None], matches: Matches) -> None:
        rows = [0 if mine is None else mine.batch.num_rows for mine in pushed]
        for k, habits in enumerate(self.habits):
            if sum(rows) > rows[k]:
                chains = max(1, len(self.ledger.chains[k].subwindows))
                habits.learn("matches", (matches.count / sum(rows) + 0.01) / chains)

    def learn_time(self, rows: int, seconds: float) -> None:
        """How long a push took. Time with a stash counts once it is complete; until then hot rows look in both ways."""
        if self.stash != "auto":
            return
        stash = self.access.stash if isinstance(self.access, StepAccess) else None
        if stash is None or stash.complete_from <= self.ledger.chains[stash.plan.pair[0]].first:
            self.trial.learn(rows, seconds)
