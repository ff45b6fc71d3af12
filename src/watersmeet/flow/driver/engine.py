"""The engine of a flow: admits rows as any other, sends them through a network, and makes results of what leaves it.

Rows are the state, here too: the ledger has them, and what the cores hold can be built from it at any time. So a push that fails is
undone, a new plan gets new cores, and saving needs no core at all.
"""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import CoreFailed, StateError
from watersmeet.flow.driver.intake import intake_for
from watersmeet.flow.driver.loading import Loading, PairLoading, StepLoading
from watersmeet.flow.driver.meetings import Meetings
from watersmeet.flow.driver.pending import Gathered, Pending
from watersmeet.flow.driver.running import Running
from watersmeet.flow.driver.stream import leaving
from watersmeet.flow.models.message import Mark
from watersmeet.flow.options import FlowModel
from watersmeet.flow.order import Order, Punctuations
from watersmeet.flow.runners.threads import CLOSED
from watersmeet.join.chain import SubWindow
from watersmeet.join.ledger import Ledger, Pushed
from watersmeet.join.matches import Matches
from watersmeet.join.outcome import Outcome
from watersmeet.join.outer import How, matched, unmatched
from watersmeet.join.plan import Plan
from watersmeet.join.planning import Planning
from watersmeet.join.prepare import bare_block
from watersmeet.sql.condition import BoundCondition
from watersmeet.streams.arrival import Admission
from watersmeet.streams.clock import BOTTOM, TimeAxis
from watersmeet.streams.window import Window

Batches = Sequence[pa.RecordBatch | None]
Admitted = tuple[list[Pushed | None], Admission, Any]  # and what loads are made of; None: there are none
Standing = tuple[Any, int, bool]  # the state, the newest push, and whether somebody else takes results


class FlowEngine:
    """The ledger, and cores that find the pairs.

    ``push`` sends and waits. Once somebody iterates ``leaving()``, it only sends: results leave there. Then two threads are at
    work, and ``lock`` guards what both change: ledger, payload, arrivals and the list of pending pushes.
    """

    pool = None  # whoever takes results gathers them alone: the cores are busy

    def __init__(
        self,
        streams: Sequence[str],
        windows: Sequence[Window],
        how: How,
        index: str,
        mode: str,
        options: FlowModel,
        size: int | None,
        probe_order: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self.streams, self.windows, self.how = tuple(streams), tuple(windows), how
        self.places = range(len(self.streams))
        stash = (options.stash or "auto") if options.takes("stash") else None
        self._said = (index, mode, size, None, stash)
        self.options, self.running = options, Running(options, len(self.streams))
        self.loading: Loading = (
            PairLoading(options, windows)
            if len(self.streams) == 2
            else StepLoading(options, windows, probe_order or {})
        )
        self.kind, self.cutter = self.loading.kind, self.loading.cutter
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        # One push at a time, as a whole; held while the queues are full. Nothing that a consumer does, and not close(), waits for it.
        self.pushing = threading.RLock()
        self.tuner = options.tuner
        self.mark = 0  # of the newest push
        self.streaming = self.closed = self.finished = False
        self.consumer: int | None = None  # the thread that takes results, where that is another
        self.final_mark: int | None = None  # comes out after everything else
        self.failed: BaseException | None = None  # why who pushes gave up, until who takes has heard of it
        self.asides: deque[Outcome] = deque()  # for who takes results, and not through the network
        self.begin()

    def begin(self) -> None:
        """Nothing has come yet."""
        self.running.stop()
        self.ledger = Ledger(self.streams, self.windows, self.how)
        self.planning = Planning(self.ledger, *self._said, in_flow=True)
        self.meetings = None if self.kind.prompt else Meetings()
        self.intake = intake_for(self.options, self.kind.granularity)
        self.pending: deque[Pending] = deque()
        self._before: Standing | None = None  # how everything stood before a push that is not committed

    # ---- set-up -------------------------------------------------------------------------------------------------

    def open(self, schemas: Sequence[pa.Schema | None], axis: TimeAxis | None) -> None:
        self.ledger.open(schemas, axis)

    def bind(
        self, condition: BoundCondition, columns: Sequence[Sequence[str]], index: str | None = None
    ) -> None:
        self.planning.bind(condition, index or self._said[0])
        self.ledger.fix(columns)
        self.make_plan(self.planning.shares())

    def make_plan(self, shares: dict[str, float]) -> None:
        """Another plan needs other cores."""
        if self.loading.plan(self.planning, shares):
            self.running.stop()

    @property
    def joins(self) -> bool:
        """Whether all schemas are known."""
        return self.planning.plan is not None

    @property
    def plan(self) -> Plan:
        """Of two streams."""
        plan = self.planning.plan
        assert isinstance(plan, Plan)
        return plan

    def start(self) -> None:
        """Build the network from the stored rows, unless it is there."""
        build = partial(self.loading.build, self.ledger, self.planning, self.meetings)
        if self.running.start(build, self.streaming):
            self.changed.notify_all()

    def close(self) -> None:
        """End for good; pushes on their way are undone. Always returns: nobody who waits holds the lock."""
        with self.lock:  # a push sees it before it builds a network, or has built one that is ended here
            self.closed = True
        self.go_back()

    def __del__(self) -> None:
        running = getattr(self, "running", None)
        if running is not None and running.runner is not None:
            running.stop()

    # ---- one push -----------------------------------------------------------------------------------------------

    def arrive(self, batches: Batches, order: np.ndarray | None, turns: Sequence[int]) -> Outcome:
        return self._in_turn(partial(self.intake.push, self, batches, order, turns))

    def advance(self, latest: Sequence[int | None]) -> Outcome:
        return self._in_turn(partial(self._advance, latest))

    def _in_turn(self, act: Callable[[], Outcome]) -> Outcome:
        """Let rows arrive, or a clock move: one thread at a time, all or nothing, and until ``commit`` it can be taken back."""
        with self.pushing:
            self.mend()
            if self.finished or self.final_mark is not None:
                raise StateError(
                    "the join must not be finished to be pushed to; got a push after finish(); make a new StreamJoin"
                )
            if self.closed:
                raise StateError(
                    "the join must be open to be pushed to; got a push after close(); make a new StreamJoin"
                )
            if self.streaming:  # results leave later, so that the end of a push is no time to change the plan
                self._replan_or_not()
            self._before = before = self._standing()
            return self._all_or_nothing(before, act)

    # ---- all or nothing -----------------------------------------------------------------------------------------

    def _standing(self) -> Standing:
        with self.lock:
            return self._marked(), self.mark, self.streaming

    def _marked(self) -> tuple[Any, ...]:
        """All that a push may change here, to go back to while nothing else is on its way. What was only learnt stays learnt."""
        return (
            self.ledger.mark(),
            self.planning.mark(),
            self.intake.mark(),
            None if self.meetings is None else self.meetings.mark(),
            None if self.tuner is None else self.tuner.mark(),
            (self.finished, self.final_mark),
        )

    def _back_to(self, marked: tuple[Any, ...]) -> None:
        written, planned, taken_in, met, tuned, (self.finished, self.final_mark) = marked
        self.ledger.back_to(written)
        self.planning.back_to(planned)
        self.intake.back_to(taken_in)
        if self.meetings is not None:
            self.meetings.back_to(met)
        if self.tuner is not None:
            self.tuner.back_to(tuned)

    def _all_or_nothing(self, before: Standing, act: Callable[[], Outcome]) -> Outcome:
        """Do something that changes the state, by who has the right to push. If it fails at any step, it is undone."""
        try:
            return act()
        except BaseException as error:
            self._undo(before, error)
            raise

    def commit(self) -> None:
        self._before = None

    def take_back(self) -> None:
        """The caller of the last push has failed before it said ``commit``."""
        if self._before is not None:
            self._undo(self._before, sys.exception() or StateError("the push was taken back"))

    def mend(self) -> None:
        """Should an undo have been interrupted itself, it is repeated."""
        self.take_back()

    def _undo(self, before: Standing, error: BaseException) -> None:
        marked, newest, apart = before
        if not apart:
            self._restore(marked, newest, error)
        elif self.mark != newest:
            self.give_up(error)
        self._before = None

    def _restore(self, marked: tuple[Any, ...], newest: int, error: BaseException) -> None:
        """Nothing else was on its way: all is as before. Cores that have seen the rows are made anew when they are next needed."""
        runner = None
        with self.lock:
            if self.mark != newest:
                runner = self.running.let_go()
            self.pending.clear()
            self._back_to(marked)
        if runner is not None:
            runner.close()
        self._tell_where(error)
        if isinstance(error, CoreFailed):
            self.intake.clear()  # who pushes is told from which rows on: those that were collected too

    # ---- through the network ------------------------------------------------------------------------------------

    def push_through(self, batches: Batches, order: np.ndarray | None, turns: Sequence[int]) -> Outcome:
        """A push, by who has the right to push."""
        return self._through(partial(self._admitted, batches, order, turns))

    def _advance(self, latest: Sequence[int | None]) -> Outcome:
        """A push without rows, after which a clock stands later. What was collected came before."""
        collected = self.intake.let_through(self)
        return _after(collected, self._through(partial(self._moved, latest)))

    def _through(self, admit: Callable[[], Admitted]) -> Outcome:
        """Write down what is let in, send it through the network and, unless somebody else takes the results, wait for them."""
        running = self.running
        if self.meetings is not None:  # rows can be put back where they were only while nothing moves
            self.wait_until_idle()
        if running.lost:
            self.wait_until_idle()
            running.go_on(running.runner)
        with self.lock:
            if self.closed:
                raise StateError(CLOSED)
            pushed, admission, ready = admit()
            late = {
                k: mine.late for k, mine in enumerate(pushed) if mine is not None and mine.late is not None
            }
            pending = self._entered(pushed, admission)
            flow, runner = running.flow, running.runner
            loads: Iterator[Any] = iter(())
            if flow is not None and ready is not None:
                loads = self.loading.loads(self.ledger, pending, pushed, admission, ready, self.order)
        if flow is not None and self.streaming:
            outcome = Outcome(self.no_matches(), late, self.ledger.chunks())
            running.send(flow, runner, loads, pending.mark)
            runner.settle_feed()
            return outcome
        gathered = Gathered(self.no_matches())
        oldest, missing = (0, 0), {}
        if flow is not None:
            running.send(flow, runner, loads, pending.mark)
            oldest = running.gather_until(runner, pending.mark, self.streams, gathered)
            missing = running.missing_rows()
            running.go_on(runner)
        elif self.order is not None:
            gathered.add_alone(self.streams, self.order, pending)
        with self.lock:
            if pending not in self.pending:
                raise StateError(CLOSED)
            outcome = self.outcome(gathered, late)
            outcome.missing = missing
            self.end_of_push(pending, oldest, outcome.matches)
            self.pending.remove(pending)
            if self.streaming:
                return self._set_aside(outcome)
            self._replan()
        return outcome

    def _entered(self, pushed: list[Pushed | None], admission: Admission) -> Pending:
        """Rows are written down, or nothing is."""
        if not self.streaming:  # who pushes goes back to where it began
            return self._enter(pushed, admission)
        before = self._marked()  # other pushes are on their way, and go on
        try:
            return self._enter(pushed, admission)
        except BaseException:
            self._back_to(before)
            raise

    def _enter(self, pushed: list[Pushed | None], admission: Admission) -> Pending:
        """Write the rows down. If that fails, the caller goes back."""
        ledger, planning = self.ledger, self.planning
        before, mark = (ledger.arrivals.counts, ledger.arrivals.clock), self.mark + 1
        rows = sum(mine.batch.num_rows for mine in pushed if mine is not None)
        ledger.enter(pushed, admission)
        for k, mine in enumerate(pushed):
            if mine is not None and mine.batch.num_rows:
                size = partial(planning.sizing.rows, k, ledger.chains[k].rows)
                block = bare_block(mine.batch, mine.first, mine.arrived.times)
                ledger.chains[k].insert(block, size, full=ledger.long_enough)
                if self.meetings is not None:
                    sees = mine.arrived.of(1 - k)
                    self.meetings.sights[k].append(mine.first, mine.batch.num_rows, sees)
        planning.learn_sizes(pushed)
        if not ledger.fixed:
            ledger.note_latest_of(pushed)
        pending = Pending(mark, rows, time.perf_counter(), admission.gone, *before, admission.counts)
        self.pending.append(pending)
        self.mark = mark
        return pending

    def _set_aside(self, outcome: Outcome) -> Outcome:
        """Somebody else takes the results: who pushes gets the late rows."""
        mine, theirs = Outcome(self.no_matches(), outcome.late, outcome.chunks), replace(outcome, late={})
        if outcome.matches.count or len(outcome.punctuations):
            self.changed.notify_all()
            self.asides.append(theirs)
        return mine

    def _admitted(self, batches: Batches, order: np.ndarray | None, turns: Sequence[int]) -> Admitted:
        """Judge and prepare; nothing is changed yet."""
        self.planning.forget_texts()
        admission = self.ledger.admit(batches, order, turns)
        pushed, ready = self.ledger.judged(batches, admission), None
        if self.joins:
            self.start()  # before the new rows are written down: what is written down counts as met
            ready = self.loading.prepare(self.ledger, self.planning, pushed, admission)
        return pushed, admission, ready

    def _moved(self, latest: Sequence[int | None]) -> Admitted:
        """No rows, and a clock that stands later."""
        if self.joins:
            self.start()
        arrivals = self.ledger.arrivals
        return [None for _ in self.places], arrivals.nobody(arrivals.moved(latest)), None

    def _replan(self) -> None:
        """Think again of the plan, but only while nothing is on its way."""
        with self.lock:
            planning = self.planning
            if not self.pending and planning.first_due():
                self.make_plan(planning.shares())
                planning.replans = planning.replans[1:]

    def _replan_or_not(self) -> None:
        """The same, where nobody else goes back if it fails."""
        with self.lock:
            before = self._marked()
            try:
                self._replan()
            except BaseException:
                self._back_to(before)
                raise

    @property
    def order(self) -> Order | None:
        return self.tuner.order if self.tuner is not None else self.options.fixed_order

    # ---- results ------------------------------------------------------------------------------------------------

    def nothing(self) -> Outcome:
        return Outcome(self.no_matches(), {}, self.ledger.chunks())

    def no_matches(self) -> Matches:
        return Matches(streams=len(self.streams))

    def outcome(self, gathered: Gathered, late: dict[int, pa.RecordBatch]) -> Outcome:
        """What has left, in the form of the join type."""
        matches = matched(self.how, gathered.matches, self.ledger.flags)
        outcome = Outcome(matches, late, self.ledger.chunks())
        outcome.punctuations = Punctuations.joined(self.streams, gathered.marks)
        return outcome

    def end_of_push(self, pending: Pending, oldest: tuple[int, int], matches: Matches) -> None:
        """All results of a push have left: emit who will never find a partner, forget what is over."""
        ledger, meetings, gone = self.ledger, self.meetings, list(pending.gone)
        if meetings is not None:
            if self.running.flow is not None:
                meetings.borders = self.running.flow.borders()
            # Rows that are over may still have to meet others: what counts is who has left.
            gone = [(min(oldest[k], int(pending.ends[k])), BOTTOM) for k in (0, 1)]
        matches.pairs += unmatched(self.how, ledger.flags, ledger.segments, gone)
        for k in self.places:
            ledger.expire(k, gone[k])
            if meetings is not None:
                meetings.sights[k].drop_before(ledger.chains[k].first)
        if len(self.streams) > 2 and self.planning.access is not None:
            self.planning.learnt.due(self.planning.access.seen())  # for the next plan, whenever it is made
        if self.tuner is not None:
            self.tuner.learn(pending.rows, time.perf_counter() - pending.started)
        self.changed.notify_all()

    def finish(self) -> Outcome:
        with self.pushing:
            self.mend()
            self._before = before = self._standing()
            return self._all_or_nothing(before, self._finish)

    @property
    def draining(self) -> bool:
        """Whether rows that have not met are on their way to the end of the line. A mark that comes now was reported by cores at different
        times, so that a row between them may be in nobody's report: what is over is not known before all have met."""
        return self.meetings is not None and self.final_mark is not None

    def _finish(self) -> Outcome:
        """The end of the streams, by who has the right to push. What was collected came before."""
        collected = self.intake.let_through(self)
        gathered, running = Gathered(self.no_matches()), self.running
        with self.lock:
            if self.joins:
                self.start()
            flow, runner = running.flow, running.runner
            nothing = self.nothing()
            self.mark += 1
            mark = self.mark
            if self.streaming:
                self.changed.notify_all()
                self.final_mark = mark
        if flow is not None and (self.streaming or self.meetings is not None):
            running.put(runner, flow.send_drain(Mark(mark)))
            if self.streaming:
                runner.settle_feed()
            else:
                running.gather_until(runner, mark, self.streams, gathered)
        if self.streaming:
            return _after(collected, nothing)
        with self.lock:
            met = self.outcome(gathered, {})
            outcome = self.forget_all()
            outcome.matches.add_all(met.matches)
        return _after(collected, outcome)

    def forget_all(self) -> Outcome:
        """The streams have ended, and all results have left but of rows that have found nobody."""
        self.running.stop()
        outcome = self.ledger.end()
        self.pending.clear()
        self.changed.notify_all()
        self.finished = True
        return outcome

    # ---- collected rows -----------------------------------------------------------------------------------------

    def refuse_times(self, batches: Batches) -> None:
        for k, batch in enumerate(batches):
            self.ledger.times(k, batch)

    def wake(self) -> None:
        """Who takes results must know when the time of collected rows is up."""
        with self.lock:
            if self.closed:
                raise StateError(CLOSED)
            self.start()
        if self.streaming:
            self.running.runner.wake()

    def flush_if_due(self) -> None:
        """Let rows through that have been collected for long enough.

        Only while nothing is on its way: who takes results must not wait until all of them have left.
        """
        if self.pending or not self.intake.due():
            return
        if self.pushing.acquire(blocking=False):  # else somebody pushes, and lets them through
            try:
                if self.intake.due() and not self.pending and not self.closed:
                    self._all_or_nothing(self._standing(), self._flush)
            finally:
                self.pushing.release()

    def _flush(self) -> Outcome:
        outcome = self.intake.let_through(self) or self.nothing()
        if outcome.late:
            self.asides.append(replace(self.nothing(), late=outcome.late))
        return outcome

    def held_back(self) -> Any:
        """What was collected. While a consumer takes results, it may let collected rows through at any time: they go first."""
        if self.streaming:
            if self.intake.rows:
                outcome = self.arrive([None for _ in self.places], None, tuple(self.places))
                self.commit()
                self.asides.append(outcome)  # late rows: the consumer gets them, as with any collected push
            self.settled()
        return self.intake.held_back()

    def hold_back(self, pushes: Any) -> None:
        self.intake.hold_back(pushes)

    # ---- what the outside may ask --------------------------------------------------------------------------------

    def leaving(self) -> Iterator[Outcome]:
        """Blocks of results, until the streams have ended. From now on ``push`` does not wait for results."""
        return leaving(self)

    def indexes(self, k: int) -> list[str]:
        return [index.name for sub in self._held(k) for index in sub.indexes]

    def index_bytes(self, k: int) -> int:
        """Of the ledger and of all cores."""
        return self.ledger.chains[k].nbytes + sum(sub.nbytes for sub in self._held(k))

    def _held(self, k: int) -> Iterable[SubWindow]:
        """The sub-windows of all cores. Some may share one."""
        return {id(sub): sub for core in self.running.at_work() for sub in core.subwindows(k)}.values()

    def describe_flow(self) -> dict[str, Any]:
        return {
            "name": self.kind.name,
            "cores": self.running.cores,  # that are left
            "granularity": self.cutter.granularity,
            "order": None if self.order is None else asdict(self.order),
            "tuned": self.tuner is not None,
            "collect": self.intake.describe(),
        }

    def settled(self) -> None:
        self.intake.refuse_saving()
        self.wait_until_idle()

    @contextmanager
    def still(self) -> Iterator[None]:
        """While nothing else moves: a consumer looks at rows, too."""
        with self.pushing, self.lock:
            yield

    def extra_numbers(self) -> dict[str, Any]:
        return {} if self.meetings is None else {"borders": self.meetings.borders}

    def extra_columns(self, k: int, start: int, stop: int) -> dict[str, np.ndarray]:
        seen = self.ledger.backsights[k]
        if seen is not None:
            return seen.between(start, stop)
        return {} if self.meetings is None else self.meetings.columns(k, start, stop)

    def restore_extra(self, numbers: dict[str, Any]) -> None:
        if self.meetings is not None:
            self.meetings.borders = numbers.get("borders")

    def restore_columns(self, k: int, first: int, columns: dict[str, np.ndarray]) -> None:
        seen = self.ledger.backsights[k]
        if seen is not None and columns:
            seen.restore(first, columns)
        if self.meetings is not None and columns:
            self.meetings.restore(k, first, columns)

    # ---- faults -------------------------------------------------------------------------------------------------

    def give_up(self, error: BaseException) -> None:
        """Something has failed on the way: go back, and tell who takes results, if that is somebody else."""
        self.go_back()
        self._tell_where(error)
        with self.lock:
            if self.streaming:
                self.changed.notify_all()
                self.failed = error

    def _tell_where(self, error: BaseException) -> None:
        """From which rows on to push again."""
        if isinstance(error, CoreFailed):
            error.resume = dict(zip(self.streams, self.ledger.arrivals.counts.tolist(), strict=True))

    def go_back(self) -> None:
        """To before the oldest push whose results have not all left; the network is built anew when it is next needed."""
        self.intake.clear()  # what was collected came after what is undone
        self.running.stop()
        with self.lock:
            if self.pending:
                oldest = self.pending[0]
                self.pending.clear()
                self.ledger.drop_from(oldest.counts, oldest.clock)
                if self.meetings is not None:
                    self.meetings.drop_from(oldest.counts)
            self.final_mark = None
            self.changed.notify_all()

    def wait_until_idle(self) -> None:
        """Until the results of all pushes have left."""
        with self.lock:
            if self.pending and self.consumer == threading.get_ident():
                raise StateError(
                    f"the thread that takes results() must not wait for them; got a call while pushes ({len(self.pending)}) are on their "
                    "way; save from the producer's thread, or when results() has ended"
                )
            while self.pending and self.streaming:
                try:
                    if self.running.runner is not None:
                        self.running.runner.check()
                except BaseException as error:
                    self.give_up(error)
                    raise
                self.changed.wait(0.1)


def _after(first: Outcome | None, then: Outcome) -> Outcome:
    """The results of two pushes as one; those of the first come first, and all rows lie in its chunks."""
    if first is None:
        return then
    matches = Matches(streams=then.matches.streams)
    matches.add_all(first.matches)
    matches.add_all(then.matches)
    return replace(first, matches=matches)
