"""Runs of many streams through a multiway flow, moved by whoever a test wants, beside the oracle.

The flow gets its rows as a driver sends them: admitted, written down, cut into loads. What it finds is compared push by push.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from multiway import Run, batch, expected, make, same
from oracle import Combination, Event
from schedules import Schedule
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.multiway.circular import CircularMJFlow, ring_orders
from watersmeet.flow.models.multiway.linear import LinearMJFlow
from watersmeet.flow.models.multiway.load import Accepted, MultiCutter, MultiLoad
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
        self.core = join._core
        self.core.mode = run_mode(shape)
        assert isinstance(self.core.access, StepAccess)
        sizing = Sizing(self.core.windows, self.core.habits, run.subwindow, shape.cores)
        arrivals = self.core.arrivals
        self.work = self.make_work(
            self.core.access, sizing, arrivals.timed, arrivals.axis, shape.cores, shape.lot
        )
        self.flow = self.make_flow(self.work)
        self.runner = runner(self.flow.network, False)
        self.cutter = MultiCutter(shape.granularity, self.core.windows)
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

    def enter(self, events: Sequence[Event]) -> tuple[list[MultiLoad], dict[str, list[int]]]:
        """Admit rows and write them down; their loads, and the ids of late rows."""
        core, run = self.core, self.run
        order = [stream for stream, _ in events]
        present = list(dict.fromkeys(order))
        places = {name: k for k, name in enumerate(run.names)}
        interleaved = order != sorted(order, key=present.index)
        streams = np.array([places[name] for name in order], np.uint8) if interleaved else None
        turns = [places[name] for name in [*present, *(set(run.names) - set(present))]]
        batches: list[pa.RecordBatch | None] = [
            batch([row for stream, row in events if stream == name], run, name) for name in run.names
        ]
        counts, gone = core.arrivals.counts, core.arrivals.gone(core.arrivals.counts, core.arrivals.clock)
        admission = core.admit(batches, streams, turns)
        pushed = [core._judged(k, rows, admission.arrived[k]) for k, rows in enumerate(batches)]
        shares = {
            k: Accepted(pushed[k].batch, pushed[k].first, pushed[k].arrived)
            for k in turns
            if pushed[k].batch.num_rows
        }
        for k, mine in enumerate(pushed):
            core._payload(k).append(mine.batch)
            sights = core.backsights[k]
            if sights is not None and mine.batch.num_rows:
                sights.append(mine.first, mine.batch.num_rows, mine.arrived.sees)
        core.arrivals.stand_at(admission.counts, admission.clock)
        if streams is not None:
            kept = np.ones(streams.size, np.bool_)
            for k, mine in enumerate(pushed):
                if mine.arrived.late is not None:
                    kept[np.flatnonzero(streams == k)[mine.arrived.late]] = False
            streams = streams[kept]
        loads = self.cutter.cut(core.access.block, shares, streams, counts.tolist(), gone)
        late = {
            run.names[k]: mine.late.column("id").to_pylist()
            for k, mine in enumerate(pushed)
            if mine.late is not None
        }
        return loads, late

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
        loads, _ = self.enter(events)
        return self.gather(self.send(loads))

    def close(self) -> None:
        self.runner.close()


def run_mode(shape: Shape) -> str:
    return "pairs"


def check(
    run: Run, shape: Shape, runner: Callable[..., Any], made: type[Flowing] = Flowing, ahead: bool = False
) -> None:
    """The flow's answer is the oracle's, push by push; ``ahead``: all pushes are sent before the first answer is taken."""
    wanted = expected(run).combinations
    flowing = made(run, shape, runner)
    try:
        if ahead:  # nobody promises which push's results leave first
            marks = [flowing.send(flowing.enter(events)[0]) for events in run.pushes]
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
