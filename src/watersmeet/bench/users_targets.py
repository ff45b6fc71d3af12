"""What issue 11 wants to be reached by the joins that users bring, each as a line: target / measured / reached.

What stays true: a ratio compares figures of one run; where there are several pairs the least ratio decides; a wrong count reaches nothing.
"""

from watersmeet.bench.measure import Point
from watersmeet.bench.targets import Target, find, rate_text
from watersmeet.bench.users_cases import (
    COMPARED,
    UsersOutcome,
    compared,
    compared_push,
    large_market,
    residual,
    small_market,
)
from watersmeet.workloads.users import UserWorkload

LARGE_RATE = 3_000_000  # rows a second
OVER_DUCKDB = 20
SINGLE_PUSHES = 10_000  # a second
HUNDRED_RATE = 600_000  # rows a second
SHARES = {
    "text keys": (0.7, "integer keys"),
    "time windows": (0.8, "count windows of the same size"),
    "much lateness": (0.5, "no lateness"),  # our own; the issue has none
}


def users_targets(outcome: UsersOutcome) -> list[Target]:
    """The issue's lines, in its order."""
    plan = outcome.plan
    large, small, last = large_market(plan), small_market(plan), residual(plan)
    return [
        _rate(outcome, large, COMPARED, LARGE_RATE),
        _over_duckdb(outcome, large),
        _single(outcome, small),
        _rate(outcome, small, 100, HUNDRED_RATE),
        *(_share(outcome, group) for group in SHARES),
        _residual(outcome, last),
        Target("bench engine's figures", "none lower", "watersmeet bench engine, before and after", None),
    ]


def _ours(outcome: UsersOutcome, work: UserWorkload, rows: int) -> Point | None:
    return find(outcome.points, group="users", workload=work.name, batch=rows, joiner="ours")


def _line(name: str, to_reach: str, value: float, least: float, text: str, *points: Point) -> Target:
    right = all(point.verified is not False for point in points)
    shown = text if right else f"{text}, WRONG COUNT"
    return Target(name, to_reach, shown, right and value >= least)


def _rate(outcome: UsersOutcome, work: UserWorkload, rows: int, least: float) -> Target:
    name, to_reach = f"{work.title}, {rows:,} rows a push", f"≥ {rate_text(least)} rows/s"
    ours = _ours(outcome, work, rows)
    if ours is None:
        return Target(name, to_reach, "", None)
    text = f"{rate_text(ours.rate)}/s: {ours.rate / least:.0%} of it"
    return _line(name, to_reach, ours.rate, least, text, ours)


def _over_duckdb(outcome: UsersOutcome, work: UserWorkload) -> Target:
    name, to_reach = "the same, over DuckDB a batch", f"≥ {OVER_DUCKDB}x"
    ours = _ours(outcome, work, COMPARED)
    peer = find(outcome.points, group="users", workload=work.name, batch=COMPARED, joiner="DuckDB")
    if ours is None or peer is None:
        return Target(name, to_reach, "", None)
    ratio = ours.rate / peer.rate
    text = f"{ratio:.1f}x: {rate_text(ours.rate)}/s, {rate_text(peer.rate)}/s"
    return _line(name, to_reach, ratio, OVER_DUCKDB, text, ours, peer)


def _single(outcome: UsersOutcome, work: UserWorkload) -> Target:
    name, to_reach = f"{work.title}, one row of each stream a push", f"≥ {SINGLE_PUSHES:,} pushes/s"
    ours = _ours(outcome, work, 1)
    if ours is None:
        return Target(name, to_reach, "", None)
    rate = ours.pushes / ours.seconds
    return _line(
        name, to_reach, rate, SINGLE_PUSHES, f"{rate:,.0f}/s: {rate / SINGLE_PUSHES:.0%} of it", ours
    )


def _residual(outcome: UsersOutcome, work: UserWorkload) -> Target:
    """No verdict: the issue's 48 pushes a second do not say of which prices, and those decide the rate (16 to 250 before any change)."""
    name, to_reach = f"{work.title}, {work.window:,} rows a push", "≥ 5x before, same rows and machine"
    ours = _ours(outcome, work, work.window)
    if ours is None:
        return Target(name, to_reach, "", None)
    text = f"{ours.pushes / ours.seconds:,.0f} pushes/s; before: this command with the earlier engine"
    return Target(name, to_reach, text if ours.verified else f"{text}, WRONG COUNT", None)


def _share(outcome: UsersOutcome, group: str) -> Target:
    least, other = SHARES[group]
    both = compared(outcome.plan)[group]
    rows = compared_push(both[0][0])
    name, to_reach = f"{group} beside {other}, {rows:,} rows a push", f"≥ {least:.0%}"
    pairs = [(pair, pair_points(outcome, group, *pair)) for pair in both]
    found = [(work, points) for (work, _), points in pairs if points is not None]
    if len(found) < len(pairs):
        return Target(name, to_reach, "", None)
    shares = [points[0].rate / points[1].rate for _, points in found]
    text = "; ".join(f"{work.title}: {share:.0%}" for (work, _), share in zip(found, shares, strict=True))
    return _line(
        name, to_reach, min(shares), least, text, *(point for _, points in found for point in points)
    )


def pair_points(
    outcome: UsersOutcome, group: str, work: UserWorkload, beside: UserWorkload
) -> tuple[Point, Point] | None:
    """The points of two that were measured in turns."""
    first, second = (
        find(outcome.points, group=group, workload=one.name, note=f"beside {other.title}")
        for one, other in ((work, beside), (beside, work))
    )
    return None if first is None or second is None else (first, second)
