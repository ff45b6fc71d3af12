"""The cases of ``watersmeet bench engine``: what is measured, with which windows, batches and joiners.

What stays true: a case fills its windows once and then times every batch size on them; each timed point is
checked against a recount. Where a joiner is too slow for whole batches (the scan, and one-dimensional
indexes on a two-dimensional band) only the opposite window is filled and fewer rows probe it: its cost is
linear in the probing rows, so the rate is the same; the point's note says so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from watersmeet.bench.measure import Budget, Case, Point, fill, sort_limit, timed_point
from watersmeet.bench.peers import DuckDB, Engine, Polars
from watersmeet.workloads.catalog import SPLITJOIN_WINDOW, workload
from watersmeet.workloads.feed import STREAMS, Feed

BAND_INDEXES = ("auto", "bi_sort", "rap_table", "wib_tree", "scan")
EQUALITY_INDEXES = ("auto", "hash", "bi_sort", "rap_table", "wib_tree", "scan")
MOST_COMPARES = 1_500_000_000  # of one push of a slow joiner
PEERS: dict[str, Callable[..., Any]] = {"DuckDB": DuckDB, "Polars": Polars}


@dataclass(frozen=True)
class EnginePlan:
    """How much is measured."""

    quick: bool
    cores: int
    windows: tuple[int, ...]
    batches: tuple[int, ...]
    wide_windows: tuple[int, ...]  # at selectivity 64
    budget: Budget
    peer_budget: Budget
    latency_seconds: float

    @classmethod
    def of(cls, quick: bool, cores: int) -> "EnginePlan":
        """The quick plan (under three minutes) or the full one (about twenty)."""
        if quick:
            budget, peer = Budget(0.15, 0.1, 2), Budget(0.5, 0.3, 1)
            return cls(
                True, cores, (1 << 16, 1 << 20), (1, 1024, 32_768, 131_072), (1 << 20,), budget, peer, 0.7
            )
        budget, peer = Budget(0.5, 0.15, 2), Budget(1.0, 0.3, 1)
        windows = (1 << 16, 1 << 20, 1 << 23)
        return cls(False, cores, windows, (1, 1024, 32_768, 131_072), windows, budget, peer, 2.0)


@dataclass
class EngineOutcome:
    """All that a run has measured."""

    points: list[Point] = field(default_factory=list)
    limits: dict[int, float] = field(default_factory=dict)  # batch -> rows/s of the packed sort
    index_bytes: dict[str, float] = field(default_factory=dict)  # index -> bytes a stored row, over 16
    latencies: dict[str, np.ndarray] = field(default_factory=dict)  # index -> ns of every one-row push
    memory: list[dict[str, Any]] = field(default_factory=list)
    start: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


EngineCase = Case[EnginePlan, EngineOutcome]


def cases(plan: EnginePlan) -> Iterator[EngineCase]:
    """All cases over joins, in order."""
    yield from _sweep(plan, ("band-1",), plan.windows, plan.batches)
    if plan.quick:
        yield from _large(plan)
        yield from _sweep(plan, ("equality-1", "band-64", "equality-64"), plan.wide_windows, (32_768,))
        yield from _sweep(plan, ("zipf-band", "increasing"), (1 << 20,), (32_768,))
    else:
        yield from _sweep(plan, ("equality-1",), plan.windows, plan.batches)
        yield from _sweep(plan, ("band-64", "equality-64"), plan.wide_windows, plan.batches[1:])
        yield from _sweep(plan, ("zipf-band", "zipf-equality", "increasing"), (1 << 20,), plan.batches[1:])
    yield from _two_dimensional(plan)
    yield from _ranges(plan)
    yield from _latency(plan)
    yield from _peers(plan)


def _sweep(
    plan: EnginePlan, names: tuple[str, ...], windows: tuple[int, ...], batches: tuple[int, ...]
) -> Iterator[EngineCase]:
    for name in names:
        for window in windows:
            for index in EQUALITY_INDEXES if workload(name, window).equality else BAND_INDEXES:
                if index != "scan" or name == "band-1" or not plan.quick:
                    yield _engine_case("sweep", name, window, index, batches)


def _large(plan: EnginePlan) -> Iterator[EngineCase]:
    """The quick run's only look at a window of 8M: what the 1000x over the scan is measured on."""
    for index in ("bi_sort", "scan"):
        yield _engine_case("sweep", "band-1", 1 << 23, index, (32_768,))


def _two_dimensional(plan: EnginePlan) -> Iterator[EngineCase]:
    batches = (32_768,) if plan.quick else plan.batches[1:]
    indexes = ("grid", "auto") if plan.quick else ("grid", "auto", "bi_sort", "rap_table", "wib_tree", "scan")
    for index in indexes:
        yield _engine_case("two-dimensional", "splitjoin", SPLITJOIN_WINDOW, index, batches)


def _ranges(plan: EnginePlan) -> Iterator[EngineCase]:
    for result in ("ranges", "count", "pairs"):
        # A thousand pairs a row would be a gigabyte a push: pairs are shown up to selectivity 64.
        for selectivity in (1, 64) if result == "pairs" else (1, 64, 1000):
            yield _engine_case("ranges", f"band-{selectivity}", 1 << 20, "bi_sort", (32_768,), result)


def _engine_case(
    group: str, name: str, window: int, index: str, batches: tuple[int, ...], result: str = "pairs"
) -> EngineCase:
    def measure(plan: EnginePlan, outcome: EngineOutcome) -> list[Point]:
        work = workload(name, window)
        feed, engine = Feed(work), Engine(work, index, plan.cores, result)
        limit = _most_probes(name, index, window)
        streams = STREAMS if limit is None else ("s",)
        fill(engine, feed, STREAMS if limit is None else ("r",))
        points: dict[int, Point] = {}
        for batch in batches:
            rows = batch if limit is None else min(batch, limit)
            note = "" if limit is None else f"timed with {rows} rows of s a push against a full r"
            if rows not in points:
                points[rows], _ = timed_point(group, engine, feed, rows, plan.budget, streams, result)
            outcome.points.append(replace(points[rows], batch=batch, note=note))
            if (group, name, window, index) == ("sweep", "band-1", 1 << 20, "auto") and batch > 1:
                # Right beside the rate that it is the limit of: the load of a machine changes within minutes.
                outcome.limits[batch] = sort_limit(Feed(work), batch)
        if group == "sweep" and name == "band-1" and window == 1 << 20 and limit is None:
            outcome.index_bytes[index] = _bytes_over_least(engine)
        return outcome.points[-len(batches) :]

    shown = "" if result == "pairs" else f", {result}"
    return Case(f"{workload(name, window).title}{shown} · {index} · window {short(window)}", measure)


def _most_probes(name: str, index: str, window: int) -> int | None:
    """Rows a push for joiners too slow for whole batches and two-sided filling; None: no limit."""
    if index == "scan":
        return max(1, MOST_COMPARES // window)
    if name == "splitjoin" and index not in ("grid", "auto"):
        return max(1, MOST_COMPARES // 200 // (window // 500))
    return None


def _latency(plan: EnginePlan) -> Iterator[EngineCase]:
    for index in ("auto", "bi_sort") if plan.quick else ("auto", "bi_sort", "rap_table", "wib_tree"):

        def measure(plan: EnginePlan, outcome: EngineOutcome, index: str = index) -> list[Point]:
            work = workload("band-1", 1 << 20)
            feed, engine = Feed(work), Engine(work, index, plan.cores)
            fill(engine, feed)
            budget = Budget(plan.latency_seconds, plan.latency_seconds / 2, 2000)
            point, outcome.latencies[index] = timed_point("latency", engine, feed, 1, budget)
            outcome.points.append(point)
            return [point]

        yield Case(f"one row a push · {index} · window 1M", measure)


def _peers(plan: EnginePlan) -> Iterator[EngineCase]:
    for window in plan.windows:
        large = window > 1 << 20  # a single row would take a peer seconds there
        batches = (32_768,) if plan.quick else plan.batches[2:] if large else plan.batches
        for peer in PEERS:
            yield _peer_case("band-1", window, peer, batches)
    if not plan.quick:
        for name in ("equality-1", "band-64", "equality-64", "zipf-band", "increasing"):
            for peer in PEERS:
                yield _peer_case(name, 1 << 20, peer, (32_768,))
    for peer in ("Polars",) if plan.quick else PEERS:
        yield _peer_case("splitjoin", SPLITJOIN_WINDOW, peer, (1024,))


def _peer_case(name: str, window: int, peer: str, batches: tuple[int, ...]) -> EngineCase:
    def measure(plan: EnginePlan, outcome: EngineOutcome) -> list[Point]:
        work = workload(name, window)
        feed = Feed(work)
        for stream in STREAMS:
            feed.pushes(window, 1, (stream,))
        joiner = PEERS[peer](work, plan.cores)
        joiner.fill({stream: feed.held(stream) for stream in STREAMS})
        group = "two-dimensional" if name == "splitjoin" else "peers"
        for batch in batches:
            outcome.points.append(timed_point(group, joiner, feed, batch, plan.peer_budget)[0])
        return outcome.points[-len(batches) :]

    return Case(f"{workload(name, window).title} · {peer} · window {short(window)}", measure, "peer")


def _bytes_over_least(engine: Engine) -> float:
    """Index bytes over 16 bytes a stored row: an int64 key and an int64 arrival number."""
    streams = engine.join.stats()["streams"].values()
    return sum(stream["index_bytes"] for stream in streams) / (16 * sum(stream["rows"] for stream in streams))


def short(number: float) -> str:
    """1024 -> 1K, 1048576 -> 1M: powers of two as the papers write them; other numbers with a decimal."""
    for size, unit in ((1 << 20, "M"), (1 << 10, "K")):
        if number >= size and number % size == 0:
            return f"{int(number) // size}{unit}"
    return f"{number:,.0f}"
