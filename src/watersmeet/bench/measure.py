"""How a case is measured: fill the windows, warm up, time whole pushes, check one more against a recount.

What stays true: only ``Joiner.push`` is inside the clock (making the rows, filling and checking are not);
every timed push is timed by itself, so rates and latencies come from the same pushes; and a rate is rows
pushed, both streams together, per second.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from watersmeet.bench.peers import Engine, Joiner
from watersmeet.workloads.feed import STREAMS, Feed, Push

FILL_BATCH = 131_072
MOST_ROWS_AHEAD = 1 << 21  # rows made ahead of the clock at a time
MOST_PUSHES_AHEAD = 8192
CHECKED_ROWS = 8  # one row alone would seldom tell a wrong count


class Work(Protocol):
    """What is joined."""

    @property
    def name(self) -> str: ...

    @property
    def window(self) -> int: ...


class Feeding(Protocol):
    """What hands out pushes and knows how many results the newest one has: ``Feed``, ``MultiwayFeed``."""

    @property
    def work(self) -> Work: ...

    def pushes(self, batch: int, count: int, streams: tuple[str, ...] = ...) -> list[Push]:
        """The next ``count`` pushes."""

    def expected(self, push: Push) -> int:
        """Results of the newest push, recounted."""


@dataclass(frozen=True)
class Budget:
    """How long to measure one point: at least ``pushes`` pushes, then until ``seconds`` are used up."""

    seconds: float = 0.6
    warm_up: float = 0.2
    pushes: int = 2


@dataclass(frozen=True)
class Point:
    """One measured point: who, on what, how fast, and whether a recount agreed."""

    group: str
    workload: str
    joiner: str
    window: int
    batch: int
    result: str
    rows: int
    seconds: float
    pushes: int
    results: int
    verified: bool | None
    note: str = ""
    latency: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Rows a second, both streams together."""
        return self.rows / self.seconds if self.seconds else 0.0


P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Case(Generic[P, R]):
    """One line of a run, of a plan P: it adds to what was measured, R, and returns the points, or a text to show."""

    title: str
    measure: Callable[[P, R], list[Point] | str]
    whose: str = "ours"  # or "peer"


@dataclass(frozen=True)
class Timing:
    """What a timed run gave; ``latencies`` are nanoseconds, one a push."""

    rows: int
    results: int
    latencies: np.ndarray

    @property
    def seconds(self) -> float:
        """Time spent inside ``push``."""
        return float(self.latencies.sum()) / 1e9


def fill(engine: Engine, feed: Feed, streams: tuple[str, ...] = STREAMS) -> None:
    """Push a whole window of each stream, in large batches, not timed."""
    window = feed.work.window
    batch = min(FILL_BATCH, max(1, window // 8))
    for _ in range(-(-window // batch)):
        for push in feed.pushes(batch, 1, streams):
            engine.store(push)


def run(
    joiner: Joiner, feed: Feeding, batch: int, budget: Budget, streams: tuple[str, ...] = STREAMS
) -> Timing:
    """Warm up, then time pushes of ``batch`` rows a stream (for batch 1: one row in all, alternating)."""
    estimate = _warm_up(joiner, feed, batch, budget.warm_up, streams)
    rows = results = used = pushes = 0
    latencies: list[np.ndarray] = []
    while pushes < budget.pushes or used < budget.seconds * 1e9:
        count = max(1, min(int(budget.seconds * 0.5e9 / max(estimate, 1.0)), _most_ahead(batch)))
        spent, found, pushed = _timed(joiner, _pushes(feed, batch, count, streams))
        latencies.append(spent)
        used, pushes = used + int(spent.sum()), pushes + len(spent)
        results, rows = results + found, rows + pushed
        estimate = used / pushes
    return Timing(rows, results, np.concatenate(latencies))


def check(joiner: Joiner, feed: Feeding, batch: int, streams: tuple[str, ...] = STREAMS) -> bool:
    """Push once more (single rows: several times); do the numbers of results equal a recount by NumPy?"""
    return all(_agrees(joiner, feed, batch, streams) for _ in range(CHECKED_ROWS if batch == 1 else 1))


def _agrees(joiner: Joiner, feed: Feeding, batch: int, streams: tuple[str, ...]) -> bool:
    found = 0
    for push in _pushes(feed, batch, 1, streams):
        found = joiner.push(push)
    return found == feed.expected(push)


def timed_point(
    group: str,
    joiner: Joiner,
    feed: Feeding,
    batch: int,
    budget: Budget,
    streams: tuple[str, ...] = STREAMS,
    result: str = "pairs",
) -> tuple[Point, np.ndarray]:
    """Time and check one point; also the nanoseconds of each push."""
    timing = run(joiner, feed, batch, budget, streams)
    point = Point(
        group=group,
        workload=feed.work.name,
        joiner=joiner.name,
        window=feed.work.window,
        batch=batch,
        result=result,
        rows=timing.rows,
        seconds=timing.seconds,
        pushes=len(timing.latencies),
        results=timing.results,
        verified=check(joiner, feed, batch, streams),
        latency=percentiles(timing.latencies),
    )
    return point, timing.latencies


def sort_limit(feed: Feed, batch: int, seconds: float = 0.5) -> float:
    """Rows a second at which NumPy sorts the batch's keys packed with their positions: the limit."""
    name = feed.work.keys("r")[0]
    bits = max(1, (batch - 1).bit_length())
    source = np.asarray(feed.pushes(batch, 1, ("r",))[0]["r"].column(name)).astype(np.int64)
    packed = (source << bits) | np.arange(batch, dtype=np.int64)
    used, count = 0, 0
    while used < seconds * 1e9:
        again = packed.copy()
        start = time.perf_counter_ns()
        again.sort()
        used, count = used + time.perf_counter_ns() - start, count + 1
    return count * batch / (used / 1e9)


def percentiles(latencies: np.ndarray) -> dict[str, float]:
    """p50, p99, p99.9 and the worst, in microseconds."""
    names = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
    return {name: float(np.percentile(latencies, share)) / 1e3 for name, share in names.items()}


def isolated(
    module: str, *arguments: str, timeout: float, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run ``python -m watersmeet.bench.<module>`` in its own process; its last line of output is JSON."""
    command = [sys.executable, "-m", f"watersmeet.bench.{module}", *arguments]
    done = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        timeout=timeout,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise RuntimeError(f"{module} ended with code {done.returncode}: {done.stderr.strip()[-400:]}")
    return dict(json.loads(lines[-1]))


def _pushes(feed: Feeding, batch: int, count: int, streams: tuple[str, ...]) -> list[Push]:
    if batch == 1 and isinstance(feed, Feed) and streams == STREAMS:
        return feed.single_rows(count)
    return feed.pushes(batch, count, streams)


def _most_ahead(batch: int) -> int:
    return max(1, min(MOST_PUSHES_AHEAD, MOST_ROWS_AHEAD // batch))


def _warm_up(joiner: Joiner, feed: Feeding, batch: int, seconds: float, streams: tuple[str, ...]) -> float:
    """Push until ``seconds`` are used; return the mean nanoseconds of the later half, without compilation."""
    used, count, spent = 0.0, 1, np.zeros(1)
    while used < seconds * 1e9:
        spent, _, _ = _timed(joiner, _pushes(feed, batch, count, streams))
        used += float(spent.sum())
        count = min(2 * count, _most_ahead(batch))
    return float(np.mean(spent[len(spent) // 2 :]))


def _timed(joiner: Joiner, pushes: list[Push]) -> tuple[np.ndarray, int, int]:
    spent = np.empty(len(pushes), np.int64)
    results = rows = 0
    clock, push_one = time.perf_counter_ns, joiner.push
    for number, push in enumerate(pushes):
        start = clock()
        results += push_one(push)
        spent[number] = clock() - start
        rows += sum(batch.num_rows for batch in push.values())
    return spent, results, rows
