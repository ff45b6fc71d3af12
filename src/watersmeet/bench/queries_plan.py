"""How much ``watersmeet bench queries`` measures, what it has measured, and how a point is timed.

What stays true: a joiner checks itself. Once its pushes are timed it takes one more, and what that gave, query by query or row by row, is
compared with a recount by NumPy.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from watersmeet.bench.measure import Budget, Case, Feeding, Point, percentiles, run
from watersmeet.bench.peers import Joiner

GROUPS = 10_000  # of the aggregates that have targets
PATHWAY = ("tumbling", "hopping", "session")


@dataclass(frozen=True)
class QueriesPlan:
    """How much is measured."""

    quick: bool
    cores: int
    budget: Budget
    peer_budget: Budget
    queries: tuple[int, ...]  # over the same two streams
    window: int  # rows of each of them
    batch: int  # and rows of each a push
    processors: int  # most that are made beside them; more are counted by their share
    rules: tuple[int, ...]
    rule_batch: int
    rule_processors: int
    selectivities: tuple[int, ...]  # of the band join
    band_window: int
    band_batch: int
    groups: tuple[int, ...]  # of aggregates
    second: int  # rows of a window of a second
    group_batch: int
    pathway: tuple[str, ...]  # kinds of windows
    pathway_rows: int
    rounds: int  # of statements
    give_up: float  # seconds after which DuckDB is interrupted

    @classmethod
    def of(cls, quick: bool, cores: int) -> "QueriesPlan":
        """The quick plan (under two minutes) or the full one (about ten, as estimated from its budgets)."""
        counts, matches = (1, 10, 100, 1_000), (1, 10, 100, 1_000)
        if quick:
            return cls(
                True, cores, Budget(0.4, 0.1, 2), Budget(0.3, 0.05, 1), counts, 50_000, 5_000, 50, (10, 100, 1_000), 10_000, 10,
                matches, 1 << 14, 1 << 11, (100, GROUPS, 100_000), 100_000, 10_000, PATHWAY[:1], 100_000, 6, 10.0,
            )  # fmt: skip
        return cls(
            False, cores, Budget(2.0, 0.5, 3), Budget(1.0, 0.3, 2), counts, 100_000, 10_000, 200, (10, 100, 1_000), 10_000, 100,
            matches, 1 << 17, 1 << 13, (100, 1_000, GROUPS, 100_000), 1_000_000, 100_000, PATHWAY, 200_000, 25, 60.0,
        )  # fmt: skip


@dataclass(frozen=True)
class Told:
    """Statements of one kind under load: milliseconds each, of the clock and of the processor, and of the push that came next."""

    kind: str
    spent: tuple[float, ...]
    worked: tuple[float, ...]
    next_push: tuple[float, ...]
    verified: bool


@dataclass
class QueriesOutcome:
    """All that a run of ``plan`` has measured."""

    plan: QueriesPlan
    points: list[Point] = field(default_factory=list)
    held: list[dict[str, Any]] = field(default_factory=list)  # bytes, by number of queries and joiner
    told: list[Told] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)  # milliseconds of pushes after which no statement came
    restarts: list[float] = field(default_factory=list)  # milliseconds
    skipped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


QueriesCase = Case[QueriesPlan, QueriesOutcome]


class Checked(Joiner, Protocol):
    """A joiner that can say whether it is right."""

    def agrees(self, feed: Any, batch: int) -> bool:
        """Push once more; is that what a recount gives?"""


def timed(
    group: str,
    joiner: Checked,
    feed: Feeding,
    batch: int,
    budget: Budget,
    streams: tuple[str, ...],
    times: float = 1.0,
    note: str = "",
) -> Point:
    """Time and check a point. ``times``: by how much more there is than was run, in seconds as in results."""
    timing = run(joiner, feed, batch, budget, streams)
    return Point(
        group=group,
        workload=feed.work.name,
        joiner=joiner.name,
        window=feed.work.window,
        batch=batch,
        result="arrow",
        rows=timing.rows,
        seconds=timing.seconds * times,
        pushes=len(timing.latencies),
        results=round(timing.results * times),
        verified=joiner.agrees(feed, batch),
        note=note,
        latency=percentiles(timing.latencies),
    )
