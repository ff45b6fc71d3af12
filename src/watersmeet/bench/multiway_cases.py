"""The cases of ``watersmeet bench multiway``: the thesis's figures (6.5), stash, its designs as flows, 2 to 10 streams, and the peers.

What stays true: a case fills all windows, then times every batch size, and checks each timed point against a recount. A batch is
given in rows a stream on average, so that rates over streams compare. Where a push has too many results to list, a case takes
smaller batches, or counts, and says so.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet.api.stream_join import OPTIONS
from watersmeet.bench.cases import short
from watersmeet.bench.measure import Budget, Case, Point, isolated, timed_point
from watersmeet.bench.multiway_peers import PEERS, Multiway, MultiwayJoiner, PrintedParallelMJ, TwoWayChain
from watersmeet.flow.catalog import MULTIWAY
from watersmeet.flow.options import MODELS
from watersmeet.workloads.multiway import (
    PROBABILITIES,
    WINDOW,
    MultiwayFeed,
    MultiwayWorkload,
    chain,
    interleaved,
    mostly_last,
    normal,
    one_key,
    steps,
)

MATCHES = 2  # of each step, where the number of streams is what changes
MOST_RESULTS = 1_000_000  # listed by one push
MOST_LISTED = 1000  # results a row; beyond that they are counted
THIRD_SHARES = (1 / 3, 0.6, 0.9)
WIDE = 1 << 20
SHARED = 8  # pushes of which the results of Parallel-MJ as it is printed are counted


@dataclass(frozen=True)
class MultiwayPlan:
    """How much is measured."""

    quick: bool
    cores: int
    window: int
    batches: tuple[int, ...]
    ways: tuple[int, ...]  # streams of the thesis's figures
    steps: tuple[int, ...]  # streams on one key
    steps_window: int
    probabilities: tuple[float, ...]
    stash_probabilities: tuple[float, ...]
    budget: Budget
    peer_budget: Budget
    fill_seconds: float  # after which a case is given up
    push_seconds: float  # a batch that would take longer is left out
    pathway_rows: int
    wide_window: int = WIDE  # of the second comparison with DuckDB and Polars

    @classmethod
    def of(cls, quick: bool, cores: int) -> "MultiwayPlan":
        """The quick plan (a minute or two, as measured) or the full one (about ten, as estimated from its budgets)."""
        if quick:
            return cls(
                True, cores, WINDOW, (1024, 4096), (3, 6), (2, 3, 6, 10), 1 << 10, PROBABILITIES, (1e-5,),
                Budget(0.2, 0.1, 2), Budget(0.4, 0.2, 1), 15.0, 1.0, 32_768,
            )  # fmt: skip
        return cls(
            False, cores, WINDOW, (1, 64, 1024, 4096, 16_384), (3, 6), tuple(range(2, 11)), 1 << 12, PROBABILITIES,
            PROBABILITIES[:3], Budget(0.6, 0.3, 2), Budget(1.0, 0.3, 1), 180.0, 5.0, 131_072,
        )  # fmt: skip


@dataclass
class MultiwayOutcome:
    """All that a run has measured."""

    points: list[Point] = field(default_factory=list)
    works: dict[str, MultiwayWorkload] = field(default_factory=dict)  # by the name that points have
    state: list[dict[str, Any]] = field(
        default_factory=list
    )  # {"streams", "joiner", "bytes"} of full windows
    # {"streams", "cores", "found", "expected"}: share of the results that Parallel-MJ finds as it is printed
    printed: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


MultiwayCase = Case[MultiwayPlan, MultiwayOutcome]


def multiway_cases(plan: MultiwayPlan) -> Iterator[MultiwayCase]:
    """All cases, in order."""
    for ways in plan.ways:
        for probability in plan.probabilities:
            yield _ours("probability", one_key(ways, probability, plan.window))
    for ways in plan.ways:
        yield _ours("chain", chain(ways, 1e-5, plan.window))
        for shares in (normal(ways, 1, 1), normal(ways, (ways + 1) / 2, 1), mostly_last(ways, 0.9)):
            yield _ours("origin", one_key(ways, 1e-5, plan.window, shares))
        yield _ours("origin", interleaved(one_key(ways, 1e-5, plan.window)))
    yield from _stash(plan)
    yield from _flows(plan)
    yield from _streams(plan)
    yield from _peers(plan)


def _ours(group: str, work: MultiwayWorkload, result: str | None = None, **options: Any) -> MultiwayCase:
    result = result or ("pairs" if work.selectivity <= MOST_LISTED else "count")
    shown = "".join(f", {name} {value}" for name, value in options.items())

    def measure(plan: MultiwayPlan, outcome: MultiwayOutcome) -> list[Point] | str:
        joiner = Multiway(work, plan.cores, result, **options)
        joiner.name += shown
        batches = [batch for batch in plan.batches if result == "count" or _fits(work, batch)]
        if not batches or result == "count":
            batches = [fitting(work, plan.batches[-1]), *batches]
        return _measured(group, joiner, work, batches, plan, outcome, result)

    counted = "" if result == "pairs" else f", {result}"
    return MultiwayCase(f"{work.title}{counted}{shown} · ours", measure)


def _stash(plan: MultiwayPlan) -> Iterator[MultiwayCase]:
    """Thesis 6.5.2: off and on, over the match probability and the share of the third stream."""
    for probability in plan.stash_probabilities:
        for share in THIRD_SHARES:
            work = one_key(3, probability, plan.window, mostly_last(3, share))
            for stash in (None, "auto"):
                if "stash" in OPTIONS:
                    yield _ours("stash", work, stash=stash)
                else:
                    yield _left_out(f"{work.title}, stash {stash} · ours", "StreamJoin has no stash= yet")


def _left_out(title: str, why: str) -> MultiwayCase:
    def measure(plan: MultiwayPlan, outcome: MultiwayOutcome) -> str:
        outcome.skipped.append(f"{title}: {why}")
        return f"left out: {why}"

    return MultiwayCase(title, measure)


def _flows(plan: MultiwayPlan) -> Iterator[MultiwayCase]:
    """The thesis's designs on threads; Parallel-MJ also as it is printed, which finds a share of the results."""
    several = max(2, plan.cores)
    for ways in plan.ways:
        work = one_key(ways, plan.probabilities[-2], plan.window)
        for flow in MULTIWAY:
            model = MODELS[flow]
            if model.streams[0] <= ways <= model.streams[1]:
                yield _flow_case(work, flow, several if model.takes("cores") else 1)
        yield _printed_case(work, several)


def _flow_case(work: MultiwayWorkload, flow: str, cores: int) -> MultiwayCase:
    def measure(plan: MultiwayPlan, outcome: MultiwayOutcome) -> list[Point] | str:
        joiner = Multiway(work, cores, flow=flow)
        joiner.name = flow
        return _measured("flows", joiner, work, (fitting(work, plan.batches[-1]),), plan, outcome, "pairs")

    return MultiwayCase(f"{work.title} · {flow}", measure)


def _printed_case(work: MultiwayWorkload, cores: int) -> MultiwayCase:
    def measure(plan: MultiwayPlan, outcome: MultiwayOutcome) -> list[Point] | str:
        joiner, feed = PrintedParallelMJ(work, cores), MultiwayFeed(work)
        outcome.works[work.name] = work
        batch = fitting(work, plan.batches[-1])
        fill(joiner, feed, fitting(work, 4096), plan.fill_seconds)
        pushes = feed.pushes(batch, SHARED)
        found, wanted = 0, 0
        for push in pushes:
            found, wanted = found + joiner.push(push), wanted + feed.expected(push)
        expected = cores ** (2 - len(work.streams))
        share = {"streams": len(work.streams), "cores": cores, "found": found / max(1, wanted)}
        outcome.printed.append({**share, "expected": expected})
        point, _ = timed_point("flows", joiner, feed, batch, plan.budget, work.streams, "pairs")
        outcome.points.append(replace(point, verified=None))  # a recount would not agree
        return outcome.points[-1:]

    return MultiwayCase(f"{work.title} · {PrintedParallelMJ.name}", measure)


def _streams(plan: MultiwayPlan) -> Iterator[MultiwayCase]:
    """2 to 10 streams on one key: one operator beside the chain of two-way joins, results and state."""
    for streams in plan.steps:
        work = steps(streams, MATCHES, plan.steps_window)
        batch = fitting(work, min(plan.batches[-1], plan.steps_window // 4))
        for result in ("pairs", "count"):
            yield _steps_case(work, batch, result)
        yield _chain_case("streams", work, (batch,))


def _steps_case(work: MultiwayWorkload, batch: int, result: str) -> MultiwayCase:
    def measure(plan: MultiwayPlan, outcome: MultiwayOutcome) -> list[Point] | str:
        joiner = Multiway(work, plan.cores, result)
        return _measured("streams", joiner, work, (batch,), plan, outcome, result)

    counted = "" if result == "pairs" else f", {result}"
    return MultiwayCase(f"{work.title}{counted} · ours", measure)


def _chain_case(group: str, work: MultiwayWorkload, batches: Sequence[int]) -> MultiwayCase:
    def measure(plan: MultiwayPlan, outcome: MultiwayOutcome) -> list[Point] | str:
        found: list[Point] = []
        for batch in batches:  # its windows are made of blocks of one size
            joiner = TwoWayChain(work, batch, plan.cores)
            points = _measured(group, joiner, work, (batch,), plan, outcome, "pairs", fill_batch=batch)
            if isinstance(points, str):
                return points
            found += points
        return found

    return MultiwayCase(f"{work.title} · two-way chain", measure)


def _peers(plan: MultiwayPlan) -> Iterator[MultiwayCase]:
    batches = [batch for batch in plan.batches if batch > 1 and plan.window % batch == 0]
    for ways in plan.ways:
        work = one_key(ways, 1e-5, plan.window)
        yield _chain_case("peers", work, batches)
        for peer in PEERS:
            yield _peer_case(work, peer, batches)
    # What a peer pays for a batch grows with the window, so one window says little: the same matches a row in a larger one.
    wide = one_key(3, 1e-5 * plan.window / plan.wide_window, plan.wide_window)
    yield _ours("wide", wide)
    for peer in PEERS:
        yield _peer_case(wide, peer, batches)
    yield MultiwayCase("3-way, one key, match probability 1e-05 · Pathway", _pathway, "peer")


def _peer_case(work: MultiwayWorkload, peer: str, batches: Sequence[int]) -> MultiwayCase:
    def measure(plan: MultiwayPlan, outcome: MultiwayOutcome) -> list[Point] | str:
        return _measured("peers", PEERS[peer](work, plan.cores), work, batches, plan, outcome, "pairs")

    return MultiwayCase(f"{work.title}, window {short(work.window)} · {peer}", measure, "peer")


def _measured(
    group: str,
    joiner: MultiwayJoiner,
    work: MultiwayWorkload,
    batches: Sequence[int],
    plan: MultiwayPlan,
    outcome: MultiwayOutcome,
    result: str,
    fill_batch: int | None = None,
) -> list[Point] | str:
    """Fill the windows, then time and check each batch size that does not take too long."""
    outcome.works[work.name] = work
    feed = MultiwayFeed(work)
    try:
        fill(joiner, feed, fill_batch or fitting(work, 4096), plan.fill_seconds)
    except TimeoutError as error:
        outcome.skipped.append(f"{work.title}, {joiner.name}: {error}")
        return f"given up: {error}"
    if group == "streams":
        outcome.state.append(
            {"streams": len(work.streams), "joiner": joiner.name, "bytes": joiner.state_bytes()}
        )
    budget = plan.peer_budget if group == "peers" else plan.budget
    points: list[Point] = []
    for batch in batches:
        # A peer's cost follows the windows, not the batch, and DuckDB gives up by itself.
        if group != "peers" and points and _seconds(points[-1], batch) > plan.push_seconds:
            outcome.skipped.append(f"{work.title}, {joiner.name}: batch {batch} would take too long a push")
            continue
        points.append(timed_point(group, joiner, feed, batch, budget, work.streams, result)[0])
    outcome.points += points
    return points


def _seconds(point: Point, batch: int) -> float:
    """How long a push of ``batch`` rows a stream would take, from a point with another batch."""
    return point.seconds / point.pushes * batch / point.batch


def fill(joiner: MultiwayJoiner, feed: MultiwayFeed, batch: int, seconds: float) -> None:
    """Push until every window is full, not timed; a joiner that takes longer than ``seconds`` is given up."""
    begin = time.perf_counter()
    while min(feed.pushed(stream) for stream in feed.work.streams) < feed.work.window:
        joiner.store(feed.pushes(batch, 1)[0])
        if time.perf_counter() - begin > seconds:
            raise TimeoutError(f"filling the windows took more than {seconds:.0f} s")


def fitting(work: MultiwayWorkload, most: int) -> int:
    """The largest power of two, up to ``most``, of rows a stream whose results can be listed by one push."""
    batch = 1
    while 2 * batch <= most and _fits(work, 2 * batch):
        batch *= 2
    return batch


def _fits(work: MultiwayWorkload, batch: int) -> bool:
    return batch * len(work.streams) * work.selectivity <= MOST_RESULTS


def _pathway(plan: MultiwayPlan, outcome: MultiwayOutcome) -> list[Point]:
    work = one_key(3, 1e-5, plan.window)
    outcome.works[work.name] = work
    rows, batch = plan.pathway_rows, min(4096, plan.pathway_rows // 4)
    found = isolated("multiway_pathway", str(rows), str(batch), str(work.fan_out), timeout=300)
    if found["seconds"] <= 0:
        raise RuntimeError(
            "the larger run was not the slower one: too much else is running to measure Pathway"
        )
    point = Point(
        group="peers",
        workload=work.name,
        joiner="Pathway",
        window=rows,
        batch=batch,
        result="pairs",
        rows=found["rows"],
        seconds=found["seconds"],
        pushes=found["rows"] // (3 * batch),
        results=found["results"],
        verified=found["results"] == found["expected"],
        note=f"everything kept, {rows:,} rows a stream in steps of {batch:,}; results are those of the check",
    )
    outcome.points.append(point)
    return [point]
