"""What issue 12 wants to be reached by queries, each as a line: target / measured / reached.

What stays true: a ratio compares figures of one run; a wrong count reaches nothing. A kind of statement is judged by its median, and the
worst is shown. A statement delays rows by its own time and by how much longer the next push takes than one that no statement came before.
"""

from statistics import median

from watersmeet.bench.measure import Point
from watersmeet.bench.queries_bands import AGGREGATE, LISTING
from watersmeet.bench.queries_groups import OURS
from watersmeet.bench.queries_many import MANY, ONE
from watersmeet.bench.queries_plan import GROUPS, QueriesOutcome, Told
from watersmeet.bench.targets import Target, find, rate_text

QUERIES, OVER_PROCESSORS = 100, 10
ONCE = 1.05  # bytes of rows of many queries over those of one
RULES, RULE_RATE = 1_000, 500_000
FLAT, MOST_MATCHES, OVER_LISTING = 2.0, 1_000, 10
GROUP_RATES = {"tumbling": 5_000_000, "sliding": 2_000_000}
STATEMENT = 5.0  # milliseconds


def queries_targets(outcome: QueriesOutcome) -> list[Target]:
    """The issue's lines, in its order."""
    return [
        _over_processors(outcome),
        _stored_once(outcome),
        _rules(outcome),
        _flat(outcome),
        _over_listing(outcome),
        *(_groups(outcome, kind) for kind in GROUP_RATES),
        _statements(outcome),
        _delays(outcome),
    ]


def delays(outcome: QueriesOutcome, told: Told) -> list[float]:
    """Milliseconds by which each statement has delayed rows."""
    usual = median(outcome.plain)
    return [spent + max(0.0, push - usual) for spent, push in zip(told.spent, told.next_push, strict=True)]


def _line(name: str, to_reach: str, text: str, met: bool, *points: Point) -> Target:
    right = all(point.verified is not False for point in points)
    return Target(name, to_reach, text if right else f"{text}, WRONG COUNT", right and met)


def _over_processors(outcome: QueriesOutcome) -> Target:
    name, to_reach = (
        f"{QUERIES} queries over two streams, beside {QUERIES} processors",
        f"≥ {OVER_PROCESSORS}x",
    )
    one, many = (_point(outcome, "queries", f"queries-{QUERIES}", joiner) for joiner in (ONE, MANY))
    if one is None or many is None:
        return Target(name, to_reach, "", None)
    ratio = one.rate / many.rate
    text = f"{ratio:.1f}x: {rate_text(one.rate)}/s, {rate_text(many.rate)}/s"
    return _line(name, to_reach, text, ratio >= OVER_PROCESSORS, one, many)


def _stored_once(outcome: QueriesOutcome) -> Target:
    name, to_reach = "the same: bytes of rows over those of one query", f"≤ {ONCE}x"
    held = {
        run["queries"]: run["payload_bytes"]
        for run in outcome.held
        if (run["group"], run["joiner"]) == ("queries", ONE)
    }
    if not {1, QUERIES} <= set(held):
        return Target(name, to_reach, "", None)
    ratio = held[QUERIES] / held[1]
    return Target(name, to_reach, f"{ratio:.2f}x: {held[QUERIES] / 1e6:.2f} MB", ratio <= ONCE)


def _rate(name: str, point: Point | None, least: float) -> Target:
    """Rows a second, and how much of what is to be reached that is."""
    to_reach = f"≥ {rate_text(least)} rows/s"
    if point is None:
        return Target(name, to_reach, "", None)
    text = f"{rate_text(point.rate)}/s: {point.rate / least:.0%} of it"
    return _line(name, to_reach, text, point.rate >= least, point)


def _rules(outcome: QueriesOutcome) -> Target:
    return _rate(f"{RULES:,} rules on one stream", _point(outcome, "rules", f"rules-{RULES}", ONE), RULE_RATE)


def _flat(outcome: QueriesOutcome) -> Target:
    name = f"count and sum over a band join, 1 match a row over {MOST_MATCHES:,}"
    one, most = (_point(outcome, "bands", f"band-{n}", AGGREGATE) for n in (1, MOST_MATCHES))
    if one is None or most is None:
        return Target(name, f"≤ {FLAT:g}x", "", None)
    ratio = one.rate / most.rate
    text = f"{ratio:.2f}x: {rate_text(one.rate)}/s, {rate_text(most.rate)}/s"
    return _line(name, f"≤ {FLAT:g}x", text, ratio <= FLAT, one, most)


def _over_listing(outcome: QueriesOutcome) -> Target:
    name, to_reach = f"the same, {MOST_MATCHES:,} matches a row, over listing the pairs", f"≥ {OVER_LISTING}x"
    ours, listed = (
        _point(outcome, "bands", f"band-{MOST_MATCHES}", joiner) for joiner in (AGGREGATE, LISTING)
    )
    if ours is None or listed is None:
        return Target(name, to_reach, "", None)
    ratio = ours.rate / listed.rate
    text = f"{ratio:.1f}x: {rate_text(ours.rate)}/s, {rate_text(listed.rate)}/s"
    return _line(name, to_reach, text, ratio >= OVER_LISTING, ours, listed)


def _groups(outcome: QueriesOutcome, kind: str) -> Target:
    point = _point(outcome, "groups", f"{kind}-{GROUPS}", OURS)
    return _rate(f"{kind} aggregates, {GROUPS:,} groups", point, GROUP_RATES[kind])


def _statements(outcome: QueriesOutcome) -> Target:
    name, to_reach = "create, alter, drop under load: median of each kind", f"< {STATEMENT:g} ms"
    if not outcome.told:
        return Target(name, to_reach, "", None)
    slow = [told for told in outcome.told if median(told.spent) >= STATEMENT]
    worst = max(outcome.told, key=lambda told: median(told.spent))
    longest = max(max(told.spent) for told in outcome.told)
    text = (
        f"{len(outcome.told) - len(slow)} of {len(outcome.told)} kinds; {median(worst.spent):.1f} ms ({worst.kind}); the longest of all "
        f"{longest:.1f} ms"
    )
    return _told_line(outcome, name, to_reach, text, not slow)


def _delays(outcome: QueriesOutcome) -> Target:
    name, to_reach = "the same: rows are delayed, median of each kind", "≤ one push"
    if not outcome.told or not outcome.plain:
        return Target(name, to_reach, "", None)
    usual = median(outcome.plain)
    found = {told.kind: median(delays(outcome, told)) for told in outcome.told}
    kind = max(found, key=lambda name: found[name])
    text = f"{found[kind]:.1f} ms at most ({kind}); a push takes {usual:.1f} ms"
    return _told_line(outcome, name, to_reach, text, found[kind] <= usual)


def _told_line(outcome: QueriesOutcome, name: str, to_reach: str, text: str, met: bool) -> Target:
    right = all(told.verified for told in outcome.told)
    return Target(name, to_reach, text if right else f"{text}, WRONG COUNT", right and met)


def _point(outcome: QueriesOutcome, group: str, workload: str, joiner: str) -> Point | None:
    return find(outcome.points, group=group, workload=workload, joiner=joiner)
