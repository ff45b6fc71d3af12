"""The cases of ``watersmeet bench users``: each workload over the rows a push, ours and the peers; and what of ours is compared in pairs.

What stays true: a case fills the windows, then times every number of rows a push, and checks each timed point against a recount. Two of
ours that are compared are measured in turns, the best of each counting, so that the load of the machine meets both.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from watersmeet.bench.measure import Budget, Case, Point, isolated, timed_point
from watersmeet.bench.users_peers import PEERS, Ours, UserJoiner
from watersmeet.workloads.users import (
    UserWorkload,
    arithmetic,
    clicks,
    disordered,
    flights,
    integer_keys,
    market,
    patient,
    sensors,
)
from watersmeet.workloads.users_feed import UserFeed

FILL = 100_000  # rows of each stream in a push that fills windows
TURNS = 3  # of two that are compared
DISORDER = 100  # rows, where they come slightly out of order
PATIENCE = 30  # times the window, where lateness is much longer than that; and half of it, out of order
COMPARED = 10_000  # rows a push, where two of ours are compared
PATHWAY = ("market", "clicks", "sensors", "flights")


@dataclass(frozen=True)
class UsersPlan:
    """How much is measured."""

    quick: bool
    cores: int
    pushes: tuple[int, ...]  # rows of each stream
    peer_pushes: tuple[int, ...]
    many: int  # rows held of the large market
    some: int  # and of the others
    few: int  # and of the count windows that get small pushes
    compared: int  # rows held of the two that are compared
    budget: Budget
    peer_budget: Budget
    fill_seconds: float  # after which a case is given up
    push_seconds: float  # a large push that would take longer is left out
    give_up: float  # seconds after which DuckDB is interrupted
    pathway: tuple[str, ...]
    pathway_rows: int

    @classmethod
    def of(cls, quick: bool, cores: int) -> "UsersPlan":
        """The quick plan (about two minutes) or the full one (about ten, as estimated from its budgets)."""
        pushes, many = (1, 100, 1_000, 10_000, 100_000), 1_000_000
        if quick:
            return cls(
                True, cores, pushes, (1, 1_000, 10_000), many, 100_000, 10_000, 100_000, Budget(0.3, 0.15, 2),
                Budget(0.3, 0.01, 1), 60.0, 1.0, 5.0, PATHWAY[:1], 8_000,
            )  # fmt: skip
        return cls(
            False, cores, pushes, pushes, many, 100_000, 10_000, many, Budget(1.5, 0.5, 2),
            Budget(1.0, 0.3, 1), 180.0, 10.0, 30.0, PATHWAY, 20_000,
        )  # fmt: skip


@dataclass
class UsersOutcome:
    """All that a run of ``plan`` has measured."""

    plan: UsersPlan
    points: list[Point] = field(default_factory=list)
    works: dict[str, UserWorkload] = field(default_factory=dict)  # by the name that points have
    skipped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


UsersCase = Case[UsersPlan, UsersOutcome]


def large_market(plan: UsersPlan) -> UserWorkload:
    """The join of the first target."""
    return market(plan.many, 10)


def small_market(plan: UsersPlan) -> UserWorkload:
    """The same in count windows, for small pushes."""
    return market(plan.few, None)


def residual(plan: UsersPlan) -> UserWorkload:
    """Arithmetic that no index drives, in windows of a tenth of the small ones."""
    return arithmetic(plan.few // 10)


def workloads(plan: UsersPlan) -> list[UserWorkload]:
    """What is measured over the rows a push, beside the peers."""
    return [
        large_market(plan),
        market(plan.many // 10, 1),
        small_market(plan),
        clicks(plan.some),
        sensors(plan.some),
        flights(plan.some),
        residual(plan),
    ]


def compared(plan: UsersPlan) -> dict[str, list[tuple[UserWorkload, UserWorkload]]]:
    """What is measured in turns, by target: the one whose share of the other counts, and the other."""
    timed, count = market(plan.compared, 10), market(plan.compared, None)
    short = market(plan.few, 1)
    late = patient(short, PATIENCE * short.window)
    return {
        "text keys": [(work, integer_keys(work)) for work in (timed, clicks(plan.compared))],
        "time windows": [(timed, count), (disordered(timed, DISORDER), count)],
        "much lateness": [(late, short), (disordered(late, late.late // 2), short)],
    }


def compared_push(work: UserWorkload) -> int:
    """Rows a push where two of ours are compared."""
    return min(COMPARED, work.window // 10)


def users_cases(plan: UsersPlan) -> Iterator[UsersCase]:
    """All cases, in order."""
    for work in workloads(plan):
        yield _case(work, "ours")
        for peer in PEERS:
            yield _case(work, peer)
    for group, pairs in compared(plan).items():
        for work, beside in pairs:
            yield _pair_case(group, work, beside)
    for name in plan.pathway:
        yield _pathway_case(name, plan)


def _case(work: UserWorkload, joiner: str) -> UsersCase:
    def measure(plan: UsersPlan, outcome: UsersOutcome) -> list[Point] | str:
        if joiner == "ours":
            return _measured(Ours(work, plan.cores), work, plan.pushes, plan.budget, plan, outcome)
        peer = PEERS[joiner](work, plan.cores, plan.give_up)
        return _measured(peer, work, plan.peer_pushes, plan.peer_budget, plan, outcome)

    return UsersCase(f"{work.title} · {joiner}", measure, "ours" if joiner == "ours" else "peer")


def _measured(
    joiner: UserJoiner,
    work: UserWorkload,
    pushes: Sequence[int],
    budget: Budget,
    plan: UsersPlan,
    outcome: UsersOutcome,
) -> list[Point]:
    """Fill the windows, then time and check each number of rows a push that does not take too long."""
    outcome.works[work.name] = work
    feed = UserFeed(work)
    fill(joiner, feed, plan.fill_seconds)
    points: list[Point] = []
    for rows in pushes:
        if rows > work.window:
            continue  # a push would be wider than what it is joined with
        if rows > COMPARED and points and _seconds(points[-1], rows) > plan.push_seconds:
            outcome.skipped.append(
                f"{work.title}, {joiner.name}: a push of {rows:,} rows would take too long"
            )
            continue
        points.append(timed_point("users", joiner, feed, rows, budget, tuple(work.streams), "arrow")[0])
        outcome.points.append(points[-1])
    return points


def _seconds(point: Point, rows: int) -> float:
    """How long a push of so many rows would take, from a point with fewer."""
    return point.seconds / point.pushes * rows / point.batch


def fill(joiner: UserJoiner, feed: UserFeed, seconds: float) -> None:
    """Push until the windows are full, not timed; a joiner that takes longer than ``seconds`` is given up."""
    begin, batch = time.perf_counter(), max(1, min(FILL, feed.work.window // 4))
    while feed.pushed <= feed.work.window + feed.work.late:
        joiner.store(feed.pushes(batch, 1)[0])
        if time.perf_counter() - begin > seconds:
            raise TimeoutError(f"filling the windows took more than {seconds:.0f} s; given up")


def _pair_case(group: str, work: UserWorkload, beside: UserWorkload) -> UsersCase:
    def measure(plan: UsersPlan, outcome: UsersOutcome) -> list[Point]:
        both = [(one, Ours(one, plan.cores), UserFeed(one)) for one in (work, beside)]
        for one, joiner, feed in both:
            outcome.works[one.name] = one
            fill(joiner, feed, plan.fill_seconds)
        rows = compared_push(work)
        turns = [
            [timed_point(group, joiner, feed, rows, plan.budget, tuple(one.streams), "arrow")[0] for one, joiner, feed in both]
            for _ in range(TURNS)
        ]  # fmt: skip
        found = [_best(points) for points in zip(*turns, strict=True)]
        # A workload that is compared twice has two points; the note says with what.
        pair = [
            replace(point, note=f"beside {other.title}")
            for point, other in zip(found, (beside, work), strict=True)
        ]
        outcome.points += pair
        return pair

    return UsersCase(f"{work.title} · beside {beside.title}", measure)


def _best(points: Sequence[Point]) -> Point:
    """The fastest of several turns; it is right only if all were."""
    return replace(
        max(points, key=lambda point: point.rate), verified=all(point.verified for point in points)
    )


def pathway_work(name: str, rows: int) -> UserWorkload:
    """A workload as Pathway gets it: the window is as large as the run."""
    make: dict[str, Callable[[int, int], UserWorkload]] = {
        "market": market,
        "clicks": clicks,
        "sensors": sensors,
        "flights": flights,
    }
    return make[name](rows, 10)


def _pathway_case(name: str, plan: UsersPlan) -> UsersCase:
    # Without an equality its interval_join takes milliseconds a row.
    rows = plan.pathway_rows // 10 if name == "sensors" else plan.pathway_rows
    work = pathway_work(name, rows)

    def measure(plan: UsersPlan, outcome: UsersOutcome) -> list[Point]:
        outcome.works[work.name] = work
        batch = max(1, min(COMPARED, rows // 4))
        found = isolated("users_pathway", name, str(rows), str(batch), timeout=300)
        if found["seconds"] <= 0:
            raise RuntimeError(
                "the larger run was not the slower one: too much else is running to measure Pathway"
            )
        point = Point(
            group="users",
            workload=work.name,
            joiner="Pathway",
            window=rows,
            batch=batch,
            result="rows",
            rows=found["rows"],
            seconds=found["seconds"],
            pushes=found["rows"] // (2 * batch),
            results=found["results"],
            verified=found["results"] == found["expected"],
            note=f"everything kept, {rows:,} rows a stream in steps of {batch:,}, ingest included, results not gathered",
        )
        outcome.points.append(point)
        return [point]

    return UsersCase(f"{work.title} · Pathway", measure, "peer")
