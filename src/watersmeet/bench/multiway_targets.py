"""What issue 10 wants to be reached by joins of N streams, each as a line: target / measured / reached."""

import math

from watersmeet.bench.cases import short
from watersmeet.bench.measure import Point
from watersmeet.bench.multiway_cases import MATCHES, MultiwayOutcome
from watersmeet.bench.targets import Target, find, rate_text
from watersmeet.workloads.multiway import WINDOW, MultiwayWorkload

LINEAR = 1.2  # bytes a stream of ten streams over those of two
# (streams, match probability) -> tuples a second: to reach, and the thesis's on a 100 MHz FPGA
RATES = {
    (3, 1e-5): (3_000_000, "763K on 128 cores, part of the results"),
    (6, 1e-6): (1_000_000, "10K"),
    (6, 1e-5): (1_000_000, "7K"),
    (6, 1e-4): (100_000, "1K"),
}


def multiway_targets(outcome: MultiwayOutcome) -> list[Target]:
    """The issue's lines, in its order."""
    return [
        *(_rate(outcome, *key) for key in RATES),
        _stash(outcome),
        _linear(outcome),
        _over_chain(outcome),
        _over_peers(outcome, "probability", "2^14"),
        _over_peers(outcome, "wide", "2^20"),
        Target("two-way joins", "as before", "watersmeet bench engine, before and after", None),
    ]


def _rate(outcome: MultiwayOutcome, streams: int, probability: float) -> Target:
    to_reach, thesis = RATES[streams, probability]
    name = f"{streams}-way, match probability {probability:.0e}, all results listed (thesis: {thesis})"
    best = _best(outcome, streams, probability)
    if best is None:
        return Target(name, f"≥ {rate_text(to_reach)}/s", "", None)
    text = f"{rate_text(best.rate)}/s at batch {short(best.batch)}"
    return Target(name, f"≥ {rate_text(to_reach)}/s", text, best.rate >= to_reach)


def _best(outcome: MultiwayOutcome, streams: int, probability: float) -> Point | None:
    wanted = {"group": "probability", "joiner": "ours", "result": "pairs"}
    points = [p for p in outcome.points if all(getattr(p, name) == value for name, value in wanted.items())]
    mine = [p for p in points if _is(outcome.works[p.workload], streams, probability)]
    return max(mine, key=lambda point: point.rate, default=None)


def _is(work: MultiwayWorkload, streams: int, probability: float) -> bool:
    return len(work.streams) == streams and work.probability == probability


def _stash(outcome: MultiwayOutcome) -> Target:
    name, to_reach = "stash on over off, third stream 90% of the rows, match probability 1e-05", "≥ 1.3x"
    best: dict[bool, Point] = {}
    for point in outcome.points:
        work = outcome.works[point.workload]
        if point.group == "stash" and work.probability == 1e-5 and work.shares["s3"] == 0.9:
            on = not point.joiner.endswith("None")
            if on not in best or point.rate > best[on].rate:
                best[on] = point
    if len(best) < 2:
        return Target(name, to_reach, "", None)
    ratio = best[True].rate / best[False].rate
    text = f"{ratio:.2f}x: {rate_text(best[True].rate)}/s, {rate_text(best[False].rate)}/s"
    return Target(name, to_reach, text, ratio >= 1.3)


def _linear(outcome: MultiwayOutcome) -> Target:
    name, to_reach = "10-way on one key: bytes of state a stream over those of 2-way", f"≤ {LINEAR}x"
    held = {run["streams"]: run["bytes"] for run in outcome.state if run["joiner"] == "ours"}
    if not {2, 10} <= set(held):
        return Target(name, to_reach, "", None)
    ratio = (held[10] / 10) / (held[2] / 2)
    chained = {run["streams"]: run["bytes"] for run in outcome.state if run["joiner"] == "two-way chain"}
    beside = f"; the chain keeps {chained[10] / held[10]:,.0f}x as much" if 10 in chained else ""
    return Target(name, to_reach, f"{ratio:.2f}x: {held[10] / 10 / 1e6:.2f} MB{beside}", ratio <= LINEAR)


def _over_chain(outcome: MultiwayOutcome) -> Target:
    name, to_reach = f"10-way on one key, {MATCHES} matches a step, over the chain of two-way joins", "≥ 5x"
    points = [
        p for p in outcome.points if p.group == "streams" and len(outcome.works[p.workload].streams) == 10
    ]
    ours, chained = (find(points, joiner=joiner) for joiner in ("ours", "two-way chain"))
    if ours is None or chained is None:
        return Target(name, to_reach, "", None)
    ratio = ours.rate / chained.rate
    text = f"{ratio:.1f}x: {rate_text(ours.rate)}/s, {rate_text(chained.rate)}/s"
    return Target(name, to_reach, text, ratio >= 5)


def _over_peers(outcome: MultiwayOutcome, group: str, window: str) -> Target:
    """Every batch size that all were measured at is shown; the least ratio decides."""
    name, to_reach = f"3-way, window {window}, over the better of DuckDB and Polars a batch", "≥ 20x"
    ratios: dict[int, tuple[float, str]] = {}
    for ours in outcome.points:
        if (ours.group, ours.joiner) != (group, "ours") or not _compared(outcome.works[ours.workload]):
            continue
        same = [p for p in outcome.points if (p.workload, p.batch) == (ours.workload, ours.batch)]
        peers = [p for p in same if p.group == "peers" and p.joiner in ("DuckDB", "Polars")]
        if len(peers) == 2:
            best = max(peers, key=lambda point: point.rate)
            ratios[ours.batch] = (ours.rate / best.rate, best.joiner)
    if not ratios:
        return Target(name, to_reach, "", None)
    shown = (f"batch {short(batch)} {ratio:.1f}x ({peer})" for batch, (ratio, peer) in ratios.items())
    return Target(name, to_reach, ", ".join(shown), min(ratio for ratio, _ in ratios.values()) >= 20)


def _compared(work: MultiwayWorkload) -> bool:
    """The 3-way workload of the comparison: in any window the matches a row of 2^14 rows at 1e-5."""
    return len(work.streams) == 3 and math.isclose(work.fan_out, WINDOW * 1e-5, rel_tol=0.01)
