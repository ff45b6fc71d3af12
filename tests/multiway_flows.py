"""Runs of many streams through a multiway flow, moved by whoever a test wants, beside the oracle.

The flow gets its rows as a driver sends them: admitted, written down, cut into loads. What it finds is compared push by push.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from multiway import Run, batch, expected, make, same
from oracle import Combination, Event
from schedules import Schedule
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.multiway.circular import CircularMJFlow, ring_orders
from watersmeet.flow.models.multiway.linear import LinearMJFlow
from watersmeet.flow.models.multiway.load import MultiCutter, MultiLoad, without_late
from watersmeet.flow.models.multiway.parallel import ParallelMJFlow
from watersmeet.flow.models.multiway.stage import MultiwayFlow, MultiWork
from watersmeet.flow.models.multiway.stashed import StashedMJFlow, stash_orders
from watersmeet.flow.runners.steps import Steps
from watersmeet.join.access import Sizing, StepAccess


@dataclass(frozen=True)
class Shape:
    """A flow, and how its network is laid out."""

    flow: str
    cores: int = 2
    granularity: int = 2
    queue: int = 1
    lot: int = 1
    fanout: int = 2
    dealt: int = 0
    stash: int | None = None


class Flowing:
    """A join of many streams, with a flow in place of its engine's probes."""

    def __init__(self, run: Run, shape: Shape, runner: Callable[..., Any]) -> None:
        self.run, self.shape = run, shape
        join = make(replace(run, declared=True), probe_order=self._orders(), stash=shape.stash)
        self.ledger, planning = join._core.ledger, join._core.planning
        assert isinstance(planning.access, StepAccess)
        self.access = planning.access
        sizing = Sizing(self.ledger.windows, planning.habits, run.subwindow, shape.cores)
        arrivals = self.ledger.arrivals
        self.work = self.make_work(self.access, sizing, arrivals.timed, arrivals.axis, shape.cores, shape.lot)
        self.flow = self.make_flow(self.work)
        self.runner = runner(self.flow.network, False)
        self.cutter = MultiCutter(shape.granularity, self.ledger.windows)
        self.marks = 0

    make_work: Any = MultiWork

    def _orders(self) -> Any:
        names, flow = self.run.names, self.shape.flow
        if flow not in ("circular_mj", "stashed_mj"):
            return None
        orders = ring_orders(len(names)) if flow == "circular_mj" else stash_orders(2)
        return {names[k]: [names[j] for j in order] for k, order in orders.items()}

    def make_flow(self, work: MultiWork) -> MultiwayFlow:
        shape = self.shape
        if shape.flow == "circular_mj":
            return CircularMJFlow(work, shape.queue)
        if shape.flow == "linear_mj":
            return LinearMJFlow(work, shape.queue)
        if shape.flow == "stashed_mj":
            return StashedMJFlow(work, shape.queue, 2)
        return ParallelMJFlow(work, shape.queue, shape.fanout, shape.dealt % work.streams)

    # ---- a push -------------------------------------------------------------------------------------------------

    def enter(self, events: Sequence[Event]) -> list[MultiLoad]:
        """Admit rows and write them down; their loads."""
        ledger, run = self.ledger, self.run
        order = [stream for stream, _ in events]
        present = list(dict.fromkeys(order))
        places = {name: k for k, name in enumerate(run.names)}
        streams = None
        if order != sorted(order, key=present.index):
            streams = np.array([places[name] for name in order], np.uint8)
        turns = [places[name] for name in [*present, *(name for name in run.names if name not in present)]]
        batches = [batch([row for stream, row in events if stream == name], run, name) for name in run.names]
        arrivals = ledger.arrivals
        counts, gone = arrivals.counts.tolist(), arrivals.gone(arrivals.counts, arrivals.clock)
        admission = ledger.admit(batches, streams, turns)
        pushed = ledger.judged(batches, admission)
        ledger.enter(pushed, admission)
        shares = {k: pushed[k] for k in turns if pushed[k].batch.num_rows}
        if streams is not None:
            streams = without_late(streams, pushed)
        return self.cutter.cut(self.access.block, shares, streams, counts, gone)

    def send(self, loads: Sequence[MultiLoad]) -> int:
        """Rows into the network, and their mark."""
        for load in loads:
            for link, message in self.flow.send(load):
                self.runner.put(link, message)
        self.marks += 1
        for link, message in self.flow.send_mark(Mark(self.marks)):
            self.runner.put(link, message)
        return self.marks

    def gather(self, mark: int) -> list[Combination]:
        """What leaves before the mark."""
        found: list[Combination] = []
        while True:
            message = self.runner.take()
            if isinstance(message, Mark):
                assert message.number == mark
                return sorted(found)
            columns = message.matches.columns()
            found += zip(*(column.tolist() for column in columns), strict=True)
            found += [()] * sum(message.matches.counts)

    def push(self, events: Sequence[Event]) -> list[Combination]:
        return self.gather(self.send(self.enter(events)))

    def close(self) -> None:
        self.runner.close()


def check(
    run: Run, shape: Shape, runner: Callable[..., Any], made: type[Flowing] = Flowing, ahead: bool = False
) -> None:
    """The flow's answer is the oracle's, push by push; ``ahead``: all pushes are sent before the first answer is taken."""
    wanted = expected(run).combinations
    flowing = made(run, shape, runner)
    try:
        if ahead:  # nobody promises which push's results leave first
            marks = [flowing.send(flowing.enter(events)) for events in run.pushes]
            found = [[one for mark in marks for one in flowing.gather(mark)]]
            wanted = [[one for several in wanted for one in several]]
        else:
            found = [flowing.push(events) for events in run.pushes]
    finally:
        flowing.close()
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        same(got, want, f"{shape}: push {number}", run)


def stepwise(schedule: Schedule) -> Callable[..., Steps]:
    return partial(Steps, choose=schedule.begin())


def shapes(rng: random.Random, flow: str) -> Shape:
    """Small ones: a row or two a load, a message or two a link."""
    return Shape(
        flow,
        cores=rng.randint(1, 3),
        granularity=rng.randint(1, 3),
        queue=rng.randint(1, 3),
        lot=rng.choice([1, 1, 3, 100]),
        dealt=rng.randrange(5),
        stash=rng.choice([None, 1, 3, 20]) if flow == "stashed_mj" else None,
    )
