"""Many queries in one processor beside as many processors: a mix over two streams, and rules over one.

What stays true: both arms get the same rows and gather every result as Arrow data. Where there are too many processors, the first of them
are run, which have queries of all kinds, and time and bytes are counted up; the point says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from watersmeet.bench.measure import Budget, Point
from watersmeet.bench.peers import peer_module
from watersmeet.bench.queries_plan import QueriesCase, QueriesOutcome, QueriesPlan, timed
from watersmeet.query.processor import Processor
from watersmeet.streams.window import Rows
from watersmeet.workloads.queries import Asked, MarketFeed, mixed, rule_market, rules
from watersmeet.workloads.users import UserWorkload, market
from watersmeet.workloads.users_feed import Push

BOTH, TRADES = ("t", "q"), ("t",)
ONE, MANY = "one processor", "as many processors"
PARTS = ("payload_bytes", "index_bytes")
FILL = 10_000  # rows of each stream in a push that fills windows


class Queries:
    """A processor with some queries."""

    name = ONE

    def __init__(self, asked: Sequence[Asked], work: UserWorkload, cores: int) -> None:
        self.asked = list(asked)
        schemas = {name: work.rows(name, 0, 0).schema for name in work.streams}
        windows = dict.fromkeys(work.streams, Rows(work.window))
        self.processor = Processor(windows=windows, schemas=schemas, cores=cores)
        self.counts: dict[str, int] = {}
        for one in asked:
            self.processor.create(one.name, one.sql)

    def push(self, batches: Push) -> int:
        """Push, and gather what every query gives."""
        results = self.processor.push(batches)
        self.counts = {name: result.to_arrow().num_rows for name, result in results.items()}
        return sum(self.counts.values())

    def store(self, batches: Push) -> None:
        """Push without gathering."""
        self.processor.push(batches)

    def agrees(self, feed: MarketFeed, batch: int) -> bool:
        """Whether one more push gives every query what the recount says."""
        self.push(feed.pushes(batch, 1, _streams(self.asked))[0])
        return self.counts == feed.counts(self.asked, batch)

    @property
    def held(self) -> dict[str, int]:
        """Bytes of rows, and of indexes."""
        streams = self.processor.stats()["streams"].values()
        return {part: sum(stream[part] for stream in streams) for part in PARTS}

    def close(self) -> None:
        """End its threads."""
        self.processor.close()


class Processors:
    """A processor for each query."""

    name = MANY

    def __init__(self, asked: Sequence[Asked], work: UserWorkload, cores: int) -> None:
        self._each = [Queries([one], work, cores) for one in asked]
        self._asked = list(asked)

    def push(self, batches: Push) -> int:
        """To all of them."""
        return sum(one.push(batches) for one in self._each)

    def store(self, batches: Push) -> None:
        """To all of them, without gathering."""
        for one in self._each:
            one.store(batches)

    def agrees(self, feed: MarketFeed, batch: int) -> bool:
        """Whether one more push gives every query what the recount says."""
        push = feed.pushes(batch, 1, _streams(self._asked))[0]
        counts: dict[str, int] = {}
        for one in self._each:
            one.push(push)
            counts |= one.counts
        return counts == feed.counts(self._asked, batch)

    @property
    def held(self) -> dict[str, int]:
        """Bytes of rows, and of indexes."""
        each = [one.held for one in self._each]
        return {part: sum(one[part] for one in each) for part in PARTS}

    def close(self) -> None:
        """End their threads."""
        for one in self._each:
            one.close()


class PolarsRules:
    """A filter of Polars for each rule, one after the other, over the batch as a frame."""

    name = "Polars, a filter a rule"

    def __init__(self, asked: Sequence[Asked], work: UserWorkload) -> None:
        self._pl: Any = peer_module("polars")
        self._asked = list(asked)
        col = self._pl.col
        texts = work.streams["t"].texts["sym"]
        self._filters = [
            (col("sym") == texts(np.array([one.symbol]))[0].as_py()) & (col("price") > one.price)
            for one in asked
        ]
        self.counts: dict[str, int] = {}

    def push(self, batches: Push) -> int:
        """All rules over the rows."""
        frame = self._pl.from_arrow(batches["t"])
        found = [frame.filter(chosen).height for chosen in self._filters]
        self.counts = {one.name: height for one, height in zip(self._asked, found, strict=True)}
        return sum(found)

    def agrees(self, feed: MarketFeed, batch: int) -> bool:
        """Whether one more push gives every rule what the recount says."""
        self.push(feed.pushes(batch, 1, TRADES)[0])
        return self.counts == feed.counts(self._asked, batch)


def _streams(asked: Sequence[Asked]) -> tuple[str, ...]:
    """Rules are pushed trades alone."""
    return TRADES if asked and asked[0].symbol is not None else BOTH


def many_cases(plan: QueriesPlan) -> Iterator[QueriesCase]:
    """Both kinds of many queries, each beside what is done without."""
    for count in plan.queries:
        for joiner in (ONE, MANY):
            yield QueriesCase(f"{count:,} queries · {joiner}", _mixed(count, joiner))
    for count in plan.rules:
        for joiner in (ONE, MANY):
            yield QueriesCase(f"{count:,} rules · {joiner}", _rules(count, joiner))
        yield QueriesCase(f"{count:,} rules · {PolarsRules.name}", _polars_rules(count), "peer")


def _mixed(count: int, joiner: str) -> Any:
    def measure(plan: QueriesPlan, outcome: QueriesOutcome) -> list[Point]:
        work = replace(market(plan.window, None), name=f"queries-{count}")
        return _measured(
            "queries", joiner, mixed(count, work), work, plan.batch, plan.processors, plan, outcome
        )

    return measure


def _rules(count: int, joiner: str) -> Any:
    def measure(plan: QueriesPlan, outcome: QueriesOutcome) -> list[Point]:
        work = replace(rule_market(count, plan.rule_batch), name=f"rules-{count}")
        asked = rules(count, work)
        return _measured("rules", joiner, asked, work, plan.rule_batch, plan.rule_processors, plan, outcome)

    return measure


def _polars_rules(count: int) -> Any:
    def measure(plan: QueriesPlan, outcome: QueriesOutcome) -> list[Point]:
        work = replace(rule_market(count, plan.rule_batch), name=f"rules-{count}")
        peer = PolarsRules(rules(count, work), work)
        point = timed("rules", peer, MarketFeed(work), plan.rule_batch, plan.peer_budget, TRADES)
        outcome.points.append(point)
        return [point]

    return measure


def _measured(
    group: str,
    joiner: str,
    asked: list[Asked],
    work: UserWorkload,
    batch: int,
    most: int,
    plan: QueriesPlan,
    outcome: QueriesOutcome,
) -> list[Point]:
    some = asked if joiner == ONE else asked[:most]
    note = "" if len(some) == len(asked) else f"{len(some)} of {len(asked):,} were run, and counted up"
    times, streams = len(asked) / len(some), _streams(asked)
    feed = MarketFeed(work)
    one: Queries | Processors = (Queries if joiner == ONE else Processors)(some, work, plan.cores)
    budget: Budget = plan.budget if joiner == ONE else plan.peer_budget
    try:
        _fill(one, feed, streams)
        point = timed(group, one, feed, batch, budget, streams, times, note)
        outcome.points.append(point)
        held = {part: round(size * times) for part, size in one.held.items()}
        outcome.held.append({"group": group, "queries": len(asked), "joiner": joiner, **held})
        return [point]
    finally:
        one.close()


def _fill(joiner: Queries | Processors, feed: MarketFeed, streams: tuple[str, ...]) -> None:
    """Push until the windows are full; selections need none."""
    while streams == BOTH and feed.pushed < feed.work.window:
        joiner.store(feed.pushes(min(FILL, feed.work.window), 1, streams)[0])
