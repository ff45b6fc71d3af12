"""How rows become what a network takes: blocks and loads of what is pushed, and a network with the stored rows in it.

Two streams (``PairLoading``): a load carries the ends of what its rows look for. More (``StepLoading``): bounds are made step by step.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from watersmeet.flow.catalog import FLOWS, MULTIWAY, make_flow, make_multiway_flow
from watersmeet.flow.driver.meetings import Meetings
from watersmeet.flow.driver.pending import Pending
from watersmeet.flow.models.base import Flow
from watersmeet.flow.models.load import Bounded, Cutter, Load
from watersmeet.flow.models.multiway.load import MultiCutter, MultiLoad, MultiPart
from watersmeet.flow.models.multiway.stage import MultiwayFlow, MultiWork
from watersmeet.flow.models.work import Work
from watersmeet.flow.options import FlowModel
from watersmeet.flow.order import Order
from watersmeet.join.access import PairAccess, Sizing, StepAccess
from watersmeet.join.ledger import Ledger, Pushed
from watersmeet.join.planning import Planning
from watersmeet.join.prepare import read_columns
from watersmeet.streams.arrival import Admission, Validity
from watersmeet.streams.window import Window

_MET = Validity(0, 0)  # of rows that have met everything there was: as probes they see nothing
Given = Sequence[Pushed | None]


class Loading(Protocol):
    """What a driver asks."""

    @property
    def kind(self) -> type[Flow]:
        """The flow that is built."""

    @property
    def cutter(self) -> Any:
        """What cuts pushes into loads; ``granularity``: of how many rows at most."""

    def plan(self, planning: Planning, shares: dict[str, float]) -> bool:
        """Make a plan; whether it needs another network."""

    def build(self, ledger: Ledger, planning: Planning, meetings: Meetings | None, cores: int) -> Flow:
        """A network that has all stored rows, and has let them meet."""

    def prepare(self, ledger: Ledger, planning: Planning, pushed: Given, admission: Admission) -> Any:
        """Make rows ready that have been judged, before anything is written down: what can fail fails here."""

    def loads(
        self,
        ledger: Ledger,
        pending: Pending,
        pushed: Given,
        admission: Admission,
        ready: Any,
        order: Order | None,
    ) -> Iterator[Any]:
        """What is to be sent of rows that have been written down."""


class PairLoading:
    """Two streams."""

    def __init__(self, options: FlowModel, windows: Sequence[Window]) -> None:
        self.options, self.kind = options, FLOWS[options.name]
        self.cutter = Cutter(
            options.granularity or self.kind.granularity, () if options.granularity else windows
        )

    def plan(self, planning: Planning, shares: dict[str, float]) -> bool:
        return planning.make(shares)

    def build(self, ledger: Ledger, planning: Planning, meetings: Meetings | None, cores: int) -> Flow:
        access = _pairs(planning)
        sizing = Sizing(ledger.windows, planning.habits, planning.size, cores)
        flow = make_flow(Work(access, sizing, ledger.arrivals.timed, time.perf_counter), self.options)
        borders = None if meetings is None else meetings.borders
        if borders is not None:
            flow.place_between(borders)
        for k, stream in enumerate(ledger.streams):
            for sub in ledger.chains[k].subwindows:
                batch = ledger.payload_of(k).rows_between(sub.base, sub.end)
                times = None if sub.times is None else sub.times[: sub.count]
                columns = read_columns(access.plan, stream, batch, sub.base, times)
                seen = _MET if meetings is None else meetings.sights[k].between(sub.base, sub.end)
                share = Bounded(access.plan, stream, k, columns, seen)
                for start, stop in _pieces(k, sub.base, sub.count, self.cutter.granularity, borders or []):
                    flow.place(share.part(start, stop, 0))
        return flow

    def prepare(
        self, ledger: Ledger, planning: Planning, pushed: Given, admission: Admission
    ) -> dict[int, Bounded]:
        """By stream: what of it was pushed, with the ends of what its rows look for."""
        plan, found = _pairs(planning).plan, {}
        for k, mine in enumerate(pushed):
            if mine is not None and mine.batch.num_rows:
                stream = ledger.streams[k]
                columns = read_columns(plan, stream, mine.batch, mine.first, mine.arrived.times)
                found[k] = Bounded(plan, stream, k, columns, mine.arrived.of(1 - k))
        return found

    def loads(
        self,
        ledger: Ledger,
        pending: Pending,
        pushed: Given,
        admission: Admission,
        ready: Mapping[int, Bounded],
        order: Order | None,
    ) -> Iterator[Load]:
        arrivals = ledger.arrivals
        first, second = arrivals.gone(arrivals.counts, pending.clock)
        # Time codes below which rows were over when the push began.
        gone, sequence = (first[1], second[1]), int(pending.counts.sum())
        inturn = [ready[k] for k in admission.turns if k in ready]
        if admission.interleaving is None:
            return self.cutter.in_turn(sequence, inturn, gone, order)
        return self.cutter.interleaved(
            sequence, inturn, without_late(admission.interleaving, pushed), gone, order
        )


def _pairs(planning: Planning) -> PairAccess:
    assert isinstance(planning.access, PairAccess)
    return planning.access


def _pieces(
    k: int, base: int, count: int, granularity: int, borders: list[list[int]]
) -> Iterator[tuple[int, int]]:
    """Where to cut stored rows: by granularity, and at the borders between cores."""
    cuts = set(range(0, count, granularity)) | {count}
    for border in borders:
        cuts |= {cut - base for cut in border[2 * k : 2 * k + 2] if 0 < cut - base < count}
    return pairwise(sorted(cuts))


class StepLoading:
    """More than two streams. ``orders``: what the user says of them."""

    def __init__(
        self,
        options: FlowModel,
        windows: Sequence[Window],
        orders: Mapping[int, Sequence[int]],
    ) -> None:
        self.options, self.kind, self._orders = options, MULTIWAY[options.name], orders
        self.cutter = MultiCutter(options.granularity or self.kind.granularity, windows)
        # Who measures puts others here.
        self.make_work: Callable[..., MultiWork] = MultiWork
        self.make_flow: Callable[[MultiWork, FlowModel, int], MultiwayFlow] = make_multiway_flow

    def plan(self, planning: Planning, shares: dict[str, float]) -> bool:
        """The network has a part in the plan: stages, and who is hot. So another plan is another network."""
        counts = planning.ledger.arrivals.counts
        planning.probe_order = self.kind.orders(len(counts), busiest(counts)) or self._orders
        planning.trial.on = True  # a stash is what was asked for, not an attempt
        planning.make(shares)
        return True

    def build(self, ledger: Ledger, planning: Planning, meetings: Meetings | None, cores: int) -> Flow:
        access, arrivals = _steps(planning), ledger.arrivals
        access.forget(arrivals.counts)  # a stash belongs to its network
        sizing = Sizing(ledger.windows, planning.habits, planning.size)
        work = self.make_work(access, sizing, arrivals.timed, ledger.long_enough, cores)
        flow = self.make_flow(work, self.options, busiest(arrivals.counts))
        for k, chain in enumerate(ledger.chains):
            for sub in chain.subwindows:
                for start in range(0, sub.count, self.cutter.granularity):
                    stop = min(start + self.cutter.granularity, sub.count)
                    batch = ledger.payload_of(k).rows_between(sub.base + start, sub.base + stop)
                    times = None if sub.times is None else sub.times[start:stop]
                    flow.place(MultiPart(k, access.block(k, batch, sub.base + start, times), ()))
        return flow

    def prepare(
        self, ledger: Ledger, planning: Planning, pushed: Given, admission: Admission
    ) -> list[MultiLoad]:
        arrivals, access = ledger.arrivals, _steps(planning)
        given = {k: pushed[k] for k in admission.turns}
        shares = {k: mine for k, mine in given.items() if mine is not None and mine.batch.num_rows}
        order = None if admission.interleaving is None else without_late(admission.interleaving, pushed)
        gone = arrivals.gone(arrivals.counts, arrivals.clock)
        return self.cutter.cut(access.block, shares, order, arrivals.counts.tolist(), gone)

    def loads(
        self,
        ledger: Ledger,
        pending: Pending,
        pushed: Given,
        admission: Admission,
        ready: Sequence[MultiLoad],
        order: Order | None,
    ) -> Iterator[MultiLoad]:
        return iter(ready)


def _steps(planning: Planning) -> StepAccess:
    assert isinstance(planning.access, StepAccess)
    return planning.access


def busiest(counts: np.ndarray) -> int:
    """The stream that arrives most often; before any has, the last."""
    return int(counts.argmax()) if counts.any() else counts.size - 1


def without_late(order: np.ndarray, pushed: Given) -> np.ndarray:
    """The interleaving of the rows that were accepted."""
    kept = np.ones(order.size, np.bool_)
    for k, mine in enumerate(pushed):
        if mine is not None and mine.arrived.late is not None:
            kept[np.flatnonzero(order == k)[mine.arrived.late]] = False
    return order[kept]
