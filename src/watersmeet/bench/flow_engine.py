"""A join with a flow, as a joiner of the benchmark: what is measured, and windows that are full without having been scanned full.

What stays true: filling a window of a scan by pushing would compare every row with every other. So the rows are pushed through a join with
a fast index, and its state is given to the one that is measured, as ``save`` and ``load`` would do. Rows carry, where windows are of
time, their arrival number as their time: a window of n time units then holds n rows.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.bench.measure import FILL_BATCH
from watersmeet.flow.catalog import FLOWS
from watersmeet.flow.driver.engine import FlowEngine
from watersmeet.join.snapshot import restore, snapshot, stored_rows
from watersmeet.streams.arrival import Arrivals
from watersmeet.streams.window import Range, Rows, Window
from watersmeet.workloads.catalog import Columns, Generator, Source, Workload, workload
from watersmeet.workloads.feed import STREAMS, Feed, Push

FILL_GRANULARITY = 8192
PLACED = 2048  # pieces that a restored window is at most cut into


@dataclass(frozen=True)
class FlowSetting:
    """One join to measure. ``batch``: rows a push and stream; ``granularity``: None is the default."""

    flow: str
    cores: int
    workload: str = "splitjoin"
    window: int = 1 << 17
    index: str = "scan"
    granularity: int | None = None
    batch: int = 256
    order: str = "none"
    precision: int | None = None
    timed: bool = False
    queue: int | None = None  # loads a link holds; None: the default

    @property
    def title(self) -> str:
        """A short name."""
        parts = [self.flow, f"{self.cores} core{'s' if self.cores > 1 else ''}", self.index]
        if self.granularity is not None:
            parts.append(f"granularity {self.granularity:,}")
        if self.order != "none":
            parts.append(self.order + ("" if self.precision is None else f" {self.precision:,}"))
        return ", ".join(parts)


def flow_workload(setting: FlowSetting) -> Workload:
    """The workload of a setting, with a time column if its windows are of time."""
    work = workload(setting.workload, setting.window)
    if not setting.timed:
        return work
    return replace(work, generators={stream: _with_time(work.generators[stream]) for stream in STREAMS})


def _with_time(generate: Generator) -> Generator:
    def timed(random: np.random.Generator, first: int, rows: int) -> Columns:
        return {**generate(random, first, rows), "ts": pa.array(np.arange(first, first + rows))}

    return timed


class OurFlow:
    """Watersmeet with a flow. The windows are full from the start; ``feed`` goes on from there."""

    def __init__(self, setting: FlowSetting) -> None:
        self.setting, self.name = setting, setting.flow
        self.feed = Feed(flow_workload(setting))
        self.join = self._join(
            index=setting.index, cores=setting.cores, flow=setting.flow, order=setting.order,
            precision=setting.precision, granularity=setting.granularity, queue=setting.queue,
        )  # fmt: skip
        core = self.join._engine
        assert isinstance(core, FlowEngine)
        self.core = core
        granularity = core.cutter.granularity
        if setting.index == "scan":
            self._restored()
        else:
            core.cutter.granularity = FILL_GRANULARITY
            for push in self._filling():
                self.join.push(**push)
        core.cutter.granularity = granularity

    def push(self, batches: Push) -> int:
        """Join, and materialise the pairs."""
        return len(self.join.push(**batches).pairs()["r"])

    def close(self) -> None:
        """End the join's threads."""
        self.join.close()

    @property
    def exact(self) -> bool:
        """Whether what a push returns can be recounted: not if rows meet later, nor if windows are of time."""
        return FLOWS[self.setting.flow].prompt and not self.setting.timed

    def _join(self, **options: Any) -> Any:
        from watersmeet.api.stream_join import StreamJoin

        size = self.setting.window
        window: Window = Range(size, time="ts") if self.setting.timed else Rows(size)
        schemas = {stream: Source(self.feed.work, stream).take(0).schema for stream in STREAMS}
        return StreamJoin(self.feed.work.condition, r=window, s=window, schemas=schemas, **options)

    def _filling(self) -> list[Push]:
        batch = min(FILL_BATCH, max(1, self.setting.window // 8))
        whole, rest = divmod(self.setting.window, batch)
        return self.feed.pushes(batch, whole) + (self.feed.pushes(rest, 1) if rest else [])

    def _restored(self) -> None:
        donor = self._join(result="count")
        for push in self._filling():
            donor.push(**push)
        rows = stored_rows(donor._engine)
        restore(self.core, snapshot(donor._engine), rows)
        if self.core.meetings is not None:
            self._placed_midway(rows)
        self.core.cutter.granularity = max(64, self.setting.window // PLACED)
        with self.core.lock:
            self.core.start()

    def _placed_midway(self, rows: dict[int, pa.Table]) -> None:
        """A flow in which rows meet later: where each row is by now, and what it may still see."""
        core, window, cores = self.core, self.setting.window, self.setting.cores
        arrivals = Arrivals(core.windows)
        arrivals.axis = core.ledger.arrivals.axis
        batches = [rows[k].combine_chunks().to_batches()[0] for k in (0, 1)]
        times = [core.ledger.times(k, batches[k]) for k in (0, 1)]
        turns = np.tile(np.array([0, 1], np.uint8), window)
        admission = arrivals.admit([window, window], times, turns, (0, 1))
        assert core.meetings is not None
        for k in (0, 1):
            core.meetings.sights[k].append(0, window, admission.arrived[k].of(1 - k))
        cuts = [window * i // cores for i in range(cores + 1)]
        core.meetings.borders = [
            [window - cuts[i + 1], window - cuts[i], cuts[i], cuts[i + 1]] for i in range(cores)
        ]
