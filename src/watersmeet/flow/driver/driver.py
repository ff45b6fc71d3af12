"""The join core of a flow: admits rows as any other, sends them through a network, and makes results of what leaves it.

Rows are the state, here too: the ledger has them, and what the cores hold can be built from it at any time. So a push that fails is
undone, a new plan gets new cores, and saving needs no core at all.
"""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import CoreFailed, StateError
from watersmeet.flow.catalog import FLOWS, make_flow
from watersmeet.flow.driver.ledger import Gathered, Ledger, Pending
from watersmeet.flow.models.base import Flow
from watersmeet.flow.models.core import Core
from watersmeet.flow.models.load import Bounded, Cutter, Load
from watersmeet.flow.models.message import Found, Mark
from watersmeet.flow.models.work import Work
from watersmeet.flow.options import FlowModel
from watersmeet.flow.order import Order
from watersmeet.flow.runners.threads import CLOSED, Threads
from watersmeet.flow.savepoint import Attributes, Savepoint
from watersmeet.index.base import PairBuffer
from watersmeet.join.access import PairAccess, Sizing
from watersmeet.join.core import Outcome, Pushed
from watersmeet.join.matches import Matches
from watersmeet.join.outer import How
from watersmeet.join.plan import Plan
from watersmeet.join.prepare import read_columns
from watersmeet.streams.arrival import Admission, Validity
from watersmeet.streams.window import Window

Admitted = tuple[list[Pushed | None], Admission]
Standing = tuple[Savepoint, int, bool]  # the state, the newest push, and whether somebody else takes results
_ENDED, _TUNED = Attributes("finished", "final_mark"), Attributes("step", "_good")
_MET = Validity(0, 0)  # of rows that have met everything there was: as probes they see nothing


class FlowCore(Ledger):
    """The ledger, and cores that find the pairs.

    ``push`` sends and waits. Once somebody iterates ``stream.leaving``, it only sends: results leave there. Then two threads are at
    work, and ``lock`` guards what both change: ledger, payload, arrivals and the list of pending pushes.
    """

    runner_class: Callable[..., Any] = Threads
    trace: Callable[[Found, float], None] | None = None  # for measurements: called with all that leaves

    def __init__(
        self,
        streams: Sequence[str],
        windows: Sequence[Window],
        how: How,
        index: str,
        mode: str,
        options: FlowModel,
        size: int | None,
    ) -> None:
        self.options, self.kind = options, FLOWS[options.name]
        self.flow: Flow | None = None
        self.runner: Any = None
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        # One push at a time, as a whole; held while the queues are full. Nothing that a consumer does, and not close(), waits for it.
        self.pushing = threading.RLock()
        super().__init__(streams, windows, how, index, mode, size, self.kind.prompt)
        self.tuner = options.tuner
        self.cores = options.cores
        self.cutter = Cutter(
            options.granularity or self.kind.granularity, () if options.granularity else windows
        )
        self.streaming = self.closed = self.finished = False
        self.consumer: int | None = None  # the thread that takes results, where that is another
        self.final_mark: int | None = None  # comes out after everything else
        self.failed: BaseException | None = None  # why who pushes gave up, until who takes has heard of it
        self.asides: deque[Outcome] = deque()  # for who takes results, and not through the network
        self._shares_of: dict[int, Bounded] = {}

    def begin(self) -> None:
        self.stop()
        super().begin()

    # ---- set-up -------------------------------------------------------------------------------------------------

    def make_plan(self, shares: dict[str, float]) -> None:
        super().make_plan(shares)
        self._simple = False

    @property
    def pair_plan(self) -> Plan:
        """Flows have two streams."""
        assert isinstance(self.plan, Plan)
        return self.plan

    def rebuild(self) -> None:
        """The plan has changed: new cores."""
        self.stop()

    def start(self) -> None:
        """Build the network from the stored rows, unless it is there."""
        if self.runner is None:
            flow = self._build()
            runner = self.runner_class(flow.network, self.options.on_core_failure == "continue")
            if self.streaming:
                runner.set_apart()
            self.changed.notify_all()
            self.flow, self.runner = flow, runner

    def _build(self) -> Flow:
        assert isinstance(self.access, PairAccess)
        sizing = Sizing(self.windows, self.habits, self.size, self.cores)
        work = Work(self.access, sizing, self.arrivals.timed, time.perf_counter)
        flow = make_flow(work, self.options)
        if self.borders is not None:
            flow.place_between(self.borders)
        for k in (0, 1):
            for sub in self.chains[k].subwindows:
                batch = self._payload(k).rows_between(sub.base, sub.end)
                times = None if sub.times is None else sub.times[: sub.count]
                columns = read_columns(self.pair_plan, self.streams[k], batch, sub.base, times)
                seen = _MET if self.sights is None else self.sights[k].between(sub.base, sub.end)
                share = Bounded(self.pair_plan, self.streams[k], k, columns, seen)
                for start, stop in self._pieces(k, sub.base, sub.count):
                    flow.place(share.part(start, stop, 0))
        return flow

    def _pieces(self, k: int, base: int, count: int) -> Iterator[tuple[int, int]]:
        """Where to cut stored rows: by granularity, and at the borders between cores."""
        cuts = set(range(0, count, self.cutter.granularity)) | {count}
        for border in self.borders or []:
            cuts |= {cut - base for cut in border[2 * k : 2 * k + 2] if 0 < cut - base < count}
        places = sorted(cuts)
        return pairwise(places)

    def stop(self) -> None:
        """End the network; what it holds can be built again."""
        runner, self.runner, self.flow = self.runner, None, None
        if runner is not None:
            try:
                runner.close()
            except BaseException:  # nobody else knows of its threads any more
                runner.close()
                raise

    def close(self) -> None:
        """End for good; pushes on their way are undone. Always returns: nobody who waits holds the lock."""
        with self.lock:  # a push sees it before it builds a network, or has built one that is ended here
            self.closed = True
        self.go_back()

    def __del__(self) -> None:
        if getattr(self, "runner", None) is not None:
            self.stop()

    # ---- one push -----------------------------------------------------------------------------------------------

    def arrive(
        self, batches: Sequence[pa.RecordBatch | None], order: np.ndarray | None, turns: Sequence[int]
    ) -> Outcome:
        return self._in_turn(partial(self.push_through, batches, order, turns))

    def advance(self, latest: Sequence[int | None]) -> Outcome:
        return self._in_turn(partial(self.advance_through, latest))

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
            return self.all_or_nothing(before, act)

    # ---- all or nothing -----------------------------------------------------------------------------------------

    def _standing(self) -> Standing:
        with self.lock:
            return self.savepoint(), self.mark, self.streaming

    def all_or_nothing(self, before: Standing, act: Callable[[], Outcome]) -> Outcome:
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
            savepoint, mark, apart = self._before
            self._undo((savepoint, mark, apart), sys.exception() or StateError("the push was taken back"))

    def mend(self) -> None:
        """Should an undo have been interrupted itself, it is repeated."""
        if self._before is not None:
            self.take_back()

    def _undo(self, before: Standing, error: BaseException) -> None:
        savepoint, newest, apart = before
        if not apart:
            self.restore(savepoint, newest, error)
        elif self.mark != newest:
            self.give_up(error)
        self._before = None

    def restore(self, savepoint: Savepoint, newest: int, error: BaseException) -> None:
        """Nothing else was on its way: all is as before. Cores that have seen the rows are made anew when they are next needed."""
        runner = self.runner
        with self.lock:
            if self.mark != newest:
                self.runner = self.flow = None
            self.pending.clear()
            savepoint.restore()
        if self.runner is None and runner is not None:
            runner.close()
        self._tell_where(error)

    # ---- through the network ------------------------------------------------------------------------------------

    def push_through(
        self, batches: Sequence[pa.RecordBatch | None], order: np.ndarray | None, turns: Sequence[int]
    ) -> Outcome:
        """A push, by who has the right to push."""
        return self._through(partial(self._admitted, batches, order, turns))

    def advance_through(self, latest: Sequence[int | None]) -> Outcome:
        """A push without rows, after which a clock stands later."""
        return self._through(partial(self._moved, latest))

    def _through(self, admit: Callable[[], Admitted]) -> Outcome:
        """Write down what is let in, send it through the network and, unless somebody else takes the results, wait for them."""
        if self.sights is not None:  # rows can be put back where they were only while nothing moves
            self.wait_until_idle()
        if self.runner is not None and self.runner.lost:
            self.wait_until_idle()
            self._without_lost(self.runner)
        with self.lock:
            if self.closed:
                raise StateError(CLOSED)
            pushed, admission = admit()
            late = {
                k: mine.late for k, mine in enumerate(pushed) if mine is not None and mine.late is not None
            }
            pending = self._entered(pushed, admission)
            flow, runner = self.flow, self.runner
            loads = iter(()) if flow is None else self._loads(pending, pushed, admission)
        if flow is not None and self.streaming:
            outcome = Outcome(Matches(), late, self.chunks())
            self._send(flow, runner, loads, pending)
            runner.settle_feed()
            return outcome
        gathered = Gathered()
        oldest, missing = (0, 0), {}
        if flow is not None:
            self._send(flow, runner, loads, pending)
            oldest = self._gather_until(runner, pending.mark, gathered)
            missing = self.missing_rows()
            self._without_lost(runner)
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
            return self.enter(pushed, admission)
        before = self.savepoint()  # other pushes are on their way, and go on
        try:
            return self.enter(pushed, admission)
        except BaseException:
            before.restore()
            raise

    def _send(self, flow: Flow, runner: Any, loads: Iterator[Load], pending: Pending) -> None:
        """Rows into the network, then the mark of their push."""
        for load in loads:
            load.entered = time.perf_counter()
            for link, message in flow.send(load):
                runner.put(link, message)
        for link, message in flow.send_mark(Mark(pending.mark)):
            runner.put(link, message)

    def _set_aside(self, outcome: Outcome) -> Outcome:
        """Somebody else takes the results: who pushes gets the late rows."""
        mine, theirs = Outcome(Matches(), outcome.late, outcome.chunks), replace(outcome, late={})
        if outcome.matches.count or len(outcome.punctuations):
            self.changed.notify_all()
            self.asides.append(theirs)
        return mine

    def _admitted(
        self, batches: Sequence[pa.RecordBatch | None], order: np.ndarray | None, turns: Sequence[int]
    ) -> Admitted:
        """Judge and prepare; nothing is changed yet."""
        admission = self.admit(batches, order, turns)
        pushed = [
            None if batch is None else self._judged(k, batch, admission.arrived[k])
            for k, batch in enumerate(batches)
        ]
        self._shares_of = {}
        if self.plan is not None:
            self.start()  # before the new rows are written down: what is written down counts as met
            for k, mine in enumerate(pushed):
                if mine is not None and mine.batch.num_rows:
                    self._prepare(k, mine, order is not None, self.pool.buffer())
        return pushed, admission

    def _moved(self, latest: Sequence[int | None]) -> Admitted:
        """No rows, and a clock that stands later."""
        self._shares_of = {}
        if self.plan is not None:
            self.start()
        return [None, None], self.arrivals.nobody(self.arrivals.moved(latest))

    def _prepare(self, k: int, mine: Pushed, interleaved: bool, buffer: PairBuffer) -> None:
        columns = read_columns(self.pair_plan, self.streams[k], mine.batch, mine.first, mine.arrived.times)
        self._shares_of[k] = Bounded(self.pair_plan, self.streams[k], k, columns, mine.arrived.of(1 - k))

    def _replan(self) -> None:
        """The same as in any core, but only while nothing is on its way."""
        with self.lock:
            if not self.replans or self.condition is None or self.pending:
                return
            if int(min(self.arrivals.counts)) >= self.replans[0]:
                self.make_plan(self._shares())
                self.replans = self.replans[1:]

    def _replan_or_not(self) -> None:
        """The same, where nobody else goes back if it fails."""
        with self.lock:
            before = self.savepoint()
            try:
                self._replan()
            except BaseException:
                before.restore()
                raise

    def _loads(
        self, pending: Pending, pushed: Sequence[Pushed | None], admission: Admission
    ) -> Iterator[Load]:
        shares = [self._shares_of[k] for k in admission.turns if k in self._shares_of]
        gone, sequence = self.gone_times(pending.clock), int(pending.counts.sum())
        if admission.order is None:
            return self.cutter.in_turn(sequence, shares, gone, self.order)
        accepted = _without_late(admission.order, pushed)
        return self.cutter.interleaved(sequence, shares, accepted, gone, self.order)

    @property
    def order(self) -> Order | None:
        return self.tuner.order if self.tuner is not None else self.options.fixed_order

    def _gather_until(self, runner: Any, mark: int, gathered: Gathered) -> tuple[int, int]:
        while True:
            message = runner.take()
            self.noted(message)
            if isinstance(message, Mark):
                if message.number == mark:
                    return message.oldest
            else:
                gathered.add(self.streams, message)

    def noted(self, message: Any) -> None:
        """Something has left the network."""
        if self.flow is not None:
            self.flow.note(message)
        if self.trace is not None and isinstance(message, Found):
            self.trace(message, time.perf_counter())

    # ---- results ------------------------------------------------------------------------------------------------

    def end_of_push(self, pending: Pending, oldest: tuple[int, int], matches: Matches) -> None:
        if not self.prompt and self.flow is not None:
            self.borders = self.flow.borders()
        super().end_of_push(pending, oldest, matches)
        if self.tuner is not None:
            self.tuner.learn(pending.rows, time.perf_counter() - pending.started)
        self.changed.notify_all()

    def savepoint(self) -> Savepoint:
        before = super().savepoint()
        before.keep(self, _ENDED)
        if self.tuner is not None:
            before.keep(self.tuner, _TUNED)
        return before

    def finish(self) -> Outcome:
        with self.pushing:
            self.mend()
            self._before = before = self._standing()
            return self.all_or_nothing(before, self.finish_through)

    @property
    def draining(self) -> bool:
        """Whether rows that have not met are on their way to the end of the line. A mark that comes now was reported by cores at different
        times, so that a row between them may be in nobody's report: what is over is not known before all have met."""
        return not self.prompt and self.final_mark is not None

    def finish_through(self) -> Outcome:
        """The end of the streams, by who has the right to push."""
        gathered = Gathered()
        with self.lock:
            if self.plan is not None:
                self.start()
            flow, runner = self.flow, self.runner
            nothing = Outcome(Matches(), {}, self.chunks())
            self.mark += 1
            mark = self.mark
            if self.streaming:
                self.changed.notify_all()
                self.final_mark = mark
        if flow is not None and (self.streaming or not self.kind.prompt):
            for link, message in flow.send_drain(Mark(mark)):
                runner.put(link, message)
            if self.streaming:
                runner.settle_feed()
            else:
                self._gather_until(runner, mark, gathered)
        if self.streaming:
            return nothing
        with self.lock:
            met = self.outcome(gathered, {})
            outcome = self.forget_all()
            outcome.matches.pairs += met.matches.pairs
            outcome.matches.ranges += met.matches.ranges
            outcome.matches.counts += met.matches.counts
        return outcome

    def forget_all(self) -> Outcome:
        """The streams have ended, and all results have left but of rows that have found nobody."""
        self.stop()
        outcome = self.end_of_streams()
        self.pending.clear()
        self.changed.notify_all()
        self.finished = True
        return outcome

    # ---- what the outside may ask --------------------------------------------------------------------------------

    def indexes(self, k: int) -> list[str]:
        return [sub.index.name for core in self._cores() for sub in core.windows(k) if sub.index is not None]

    def index_bytes(self, k: int) -> int:
        """Of the ledger and of all cores."""
        return super().index_bytes(k) + sum(sub.nbytes for core in self._cores() for sub in core.windows(k))

    def _cores(self) -> Sequence[Core]:
        flow = self.flow  # another thread may end it now
        return () if flow is None else flow.cores

    def describe_flow(self) -> dict[str, Any]:
        return {
            "name": self.kind.name,
            "cores": self.cores,  # that are left
            "granularity": self.cutter.granularity,
            "order": None if self.order is None else asdict(self.order),
            "tuned": self.tuner is not None,
            "collect": None,
        }

    def settled(self) -> None:
        self.wait_until_idle()

    def flush_if_due(self) -> None:
        """Called now and then by who takes results: here nothing is kept back."""

    def patience(self, longest: float) -> float:
        """Seconds for which who takes results may wait before it calls ``flush_if_due``."""
        return longest

    # ---- faults -------------------------------------------------------------------------------------------------

    def missing_rows(self) -> dict[int, np.ndarray]:
        """Rows that were lost with a core: as stored rows they may miss partners."""
        lost = [] if self.runner is None else self.runner.lost
        if not lost:
            return {}
        parts = [[part for core in lost for part in core.missing[k]] for k in (0, 1)]
        missing = {k: np.unique(np.concatenate(parts[k])) for k in (0, 1)}
        return {k: rows for k, rows in missing.items() if rows.size}

    def _without_lost(self, runner: Any) -> None:
        """Go on with the cores that are left. The driver has the rows of the others, so from now on nothing is missing any more."""
        if runner.lost:
            self.stop()
            self.cores -= len(runner.lost)

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
            error.resume = dict(zip(self.streams, self.arrivals.counts.tolist(), strict=True))

    def go_back(self) -> None:
        """To before the oldest push whose results have not all left; the network is built anew when it is next needed."""
        self.stop()
        with self.lock:
            if self.pending:
                oldest = self.pending[0]
                self.pending.clear()
                self.back_to(oldest.counts, oldest.clock)
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
                    if self.runner is not None:
                        self.runner.check()
                except BaseException as error:
                    self.give_up(error)
                    raise
                self.changed.wait(0.1)


def _without_late(order: np.ndarray, pushed: Sequence[Pushed | None]) -> np.ndarray:
    """The interleaving of the rows that were accepted."""
    kept = np.ones(order.size, np.bool_)
    for k, mine in enumerate(pushed):
        if mine is not None and mine.arrived.late is not None:
            kept[np.flatnonzero(order == k)[mine.arrived.late]] = False
    return order[kept]
