"""The issue's targets, each as a line: target / measured / reached.

What stays true: a target compares figures of one run; ours is ``index="auto"``, what a user gets, unless
the target names an index; a target that was not measured says so and is never counted as reached.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from watersmeet.bench.cases import EngineOutcome, short
from watersmeet.bench.measure import Point

MILLION = 1 << 20


@dataclass(frozen=True)
class Target:
    """One line to reach. ``reached`` is None where it was not measured."""

    name: str
    target: str
    measured: str
    reached: bool | None


def rate_text(rate: float) -> str:
    """7_340_000 -> 7.34M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if rate >= size:
            return f"{rate / size:.3g}{unit}"
    return f"{rate:.3g}"


def find(points: Iterable[Point], **wanted: Any) -> Point | None:
    """The first point that has all the wanted fields."""
    for point in points:
        if all(getattr(point, name) == value for name, value in wanted.items()):
            return point
    return None


def targets(outcome: EngineOutcome) -> list[Target]:
    """The issue's lines, in its order."""
    return [
        _sort_share(outcome),
        _over(
            outcome,
            "band, window 1M, batch 32K, over the better of DuckDB and Polars",
            ("DuckDB", "Polars"),
            50,
        ),
        _over(outcome, "band, window 1M, batch 32K, over Pathway", ("Pathway",), 50),
        _over_scan(outcome),
        _grid(outcome),
        _ranges(outcome),
        *_latency(outcome),
        *_memory(outcome),
    ]


def _sort_share(outcome: EngineOutcome) -> Target:
    name, to_reach = "band, window 1M, batch 128K, pairs, over the packed sort", "≥ 20%"
    ours, limit = _ours(outcome, 131_072), outcome.limits.get(131_072)
    if ours is None or limit is None:
        return Target(name, to_reach, "", None)
    share = ours.rate / limit
    text = f"{share:.1%}: {rate_text(ours.rate)}/s ({ours.joiner}) of {rate_text(limit)}/s"
    return Target(name, to_reach, text, share >= 0.2)


def _over(outcome: EngineOutcome, name: str, peers: tuple[str, ...], factor: int) -> Target:
    ours = _ours(outcome, 32_768)
    found = [p for p in outcome.points if p.group == "peers" and p.workload == "band-1" and p.joiner in peers]
    found = [p for p in found if p.batch == 32_768 and (p.window == MILLION or p.joiner == "Pathway")]
    if ours is None or len(found) < len(peers):
        return Target(name, f"≥ {factor}x", "", None)
    best = max(found, key=lambda point: point.rate)
    ratio = ours.rate / best.rate
    text = f"{ratio:.0f}x: {rate_text(ours.rate)}/s, {best.joiner} {rate_text(best.rate)}/s"
    bare = find(outcome.points, joiner="Pathway, without its ingest")
    if "Pathway" in peers and bare is not None:
        text += f" ({ours.rate / bare.rate:.0f}x without its ingest)"
    return Target(name, f"≥ {factor}x", text, ratio >= factor)


def _over_scan(outcome: EngineOutcome) -> Target:
    wanted = {"group": "sweep", "workload": "band-1", "window": 8 * MILLION, "batch": 32_768}
    sorted_, scan = (find(outcome.points, joiner=index, **wanted) for index in ("bi_sort", "scan"))
    name = "band, window 8M, batch 32K, bi_sort over scan"
    if sorted_ is None or scan is None:
        return Target(name, "≥ 1000x", "", None)
    ratio = sorted_.rate / scan.rate
    text = f"{ratio:,.0f}x: {rate_text(sorted_.rate)}/s, {rate_text(scan.rate)}/s"
    return Target(name, "≥ 1000x", f"{text} (scan {scan.note})", ratio >= 1000)


def _grid(outcome: EngineOutcome) -> Target:
    points = [p for p in outcome.points if p.group == "two-dimensional" and p.joiner == "grid"]
    name, to_reach = "two-dimensional band, window 2^21, grid", "≥ 500K rows/s"
    if not points:
        return Target(name, to_reach, "", None)
    best = max(points, key=lambda point: point.rate)
    return Target(
        name, to_reach, f"{rate_text(best.rate)}/s at batch {short(best.batch)}", best.rate >= 500_000
    )


def _ranges(outcome: EngineOutcome) -> Target:
    one, thousand = (find(outcome.points, result="ranges", workload=f"band-{n}") for n in (1, 1000))
    name, to_reach = "ranges: selectivity 1 over selectivity 1000", "≤ 2x"
    if one is None or thousand is None:
        return Target(name, to_reach, "", None)
    ratio = one.rate / thousand.rate
    return Target(
        name, to_reach, f"{ratio:.2f}x: {rate_text(one.rate)}/s, {rate_text(thousand.rate)}/s", ratio <= 2
    )


def _latency(outcome: EngineOutcome) -> list[Target]:
    point = find(outcome.points, group="latency", joiner="auto")
    names = "one row a push, window 1M: pushes a second", "one row a push, window 1M: p99"
    if point is None:
        return [Target(names[0], "≥ 20K", "", None), Target(names[1], "< 1 ms", "", None)]
    p99 = point.latency["p99"]
    rate = point.pushes / point.seconds
    return [
        Target(names[0], "≥ 20K", rate_text(rate), rate >= 20_000),
        Target(names[1], "< 1 ms", f"{p99 / 1000:.3f} ms", p99 < 1000),
    ]


def _memory(outcome: EngineOutcome) -> list[Target]:
    ratio = outcome.index_bytes.get("bi_sort")
    names = "bi_sort's bytes over keys and arrival numbers", "growth of memory over 100 window lengths"
    met = None if ratio is None else ratio <= 2.5
    found = [Target(names[0], "≤ 2.5x", "" if ratio is None else f"{ratio:.2f}x", met)]
    if not outcome.memory:
        return [*found, Target(names[1], "none (< 2%)", "", None)]
    worst = max(outcome.memory, key=lambda run: run["growth"])
    text = f"{worst['growth']:+.2%} at worst ({worst['index']}), of the process or of the state"
    return [*found, Target(names[1], "none (< 2%)", text, worst["growth"] < 0.02)]


def _ours(outcome: EngineOutcome, batch: int) -> Point | None:
    """Band, selectivity 1, window 1M, with the index that a user gets."""
    return find(outcome.points, group="sweep", workload="band-1", joiner="auto", window=MILLION, batch=batch)
