"""What issue 3 wants to be reached, each as a line: target / measured / reached."""

from typing import Any

from watersmeet.bench.cases import short
from watersmeet.bench.flow_cases import FlowOutcome
from watersmeet.bench.targets import Target, rate_text

FEWEST = 8  # simulated cores from which on the flows must be in order
EVEN = ("split_join", "low_latency_handshake", "handshake")


def flow_targets(outcome: FlowOutcome) -> list[Target]:
    """The issue's lines, in its order."""
    return [
        _order(outcome, "scan"),
        _order(outcome, "bi_sort"),
        _visiting(outcome),
        _speed_up(outcome, "scan", 1 << 17, 1.6),
        _speed_up(outcome, "bi_sort", 1 << 23, 1.4),
        _single(outcome),
    ]


def _order(outcome: FlowOutcome, index: str) -> Target:
    name, to_reach = (
        f"strict outer order beside none, split_join, {index}, granularity 1024",
        "≤ 15% of throughput",
    )
    for found in outcome.of("order"):
        if found["settings"][0]["index"] == index:
            none, outer = found["rates"]
            text = f"{1 - outer / none:.1%}: {rate_text(outer)}/s of {rate_text(none)}/s"
            return Target(name, to_reach, text, outer >= 0.85 * none)
    return Target(name, to_reach, "", None)


def _visiting(outcome: FlowOutcome) -> Target:
    name = f"visiting latency at {FEWEST} simulated cores and above"
    to_reach = "split_join < low_latency_handshake < handshake"
    by_cores: dict[int, dict[str, float]] = {}
    for found in outcome.of("simulation"):
        if found["cores"] >= FEWEST and "visiting" in found["latency"]:
            by_cores.setdefault(found["cores"], {})[found["flow"]] = found["latency"]["visiting"]
    full = {k: at for k, at in by_cores.items() if set(EVEN) <= set(at)}
    if not full:
        return Target(name, to_reach, "", None)
    texts = []
    for k in (min(full), max(full)):
        texts.append(f"{k} cores: " + ", ".join(f"{full[k][flow] * 1e3:.3g}" for flow in EVEN) + " ms")
    reached = all(at[EVEN[0]] < at[EVEN[1]] < at[EVEN[2]] for at in full.values())
    return Target(name, to_reach, "; ".join(texts), reached)


def _speed_up(outcome: FlowOutcome, index: str, window: int, factor: float) -> Target:
    name = f"two cores over one, {index}, window {short(window)}, best flow"
    ratios: dict[str, float] = {}
    smaller: dict[str, float] = {}
    for found in outcome.of("speed-up"):
        one, setting = found["rates"][0], found["settings"][0]
        if setting["index"] == index:
            (ratios if setting["window"] == window else smaller)[setting["flow"]] = found["rates"][1] / one
    if not ratios:
        text = f"at a smaller window: {_ratios(smaller)}" if smaller else ""
        return Target(name, f"≥ {factor}x", text, None)
    best = max(ratios.values())
    return Target(name, f"≥ {factor}x", _ratios(ratios), best >= factor)


def _ratios(ratios: dict[str, float]) -> str:
    listed = sorted(ratios.items(), key=lambda item: -item[1])
    return ", ".join(f"{flow} {ratio:.2f}x" for flow, ratio in listed)


def _single(outcome: FlowOutcome) -> Target:
    """The papers' two-dimensional band decides; one band, which compares less, is shown beside it."""
    name, to_reach = "split_join, scan, granularity 1, window 128K", "≥ 10,000 tuples/s"
    best = {group: _best_single(outcome.of(group)) for group in ("count", "single")}
    if best["count"] is None:
        return Target(name, to_reach, "", None)
    texts = []
    for group, what in (("count", "two-dimensional band"), ("single", "one band")):
        found = best[group]
        if found is not None:
            texts.append(f"{what} {found['rate']:,.0f}/s ({found['setting']['cores']} cores)")
    return Target(name, to_reach, "; ".join(texts), best["count"]["rate"] >= 10_000)


def _best_single(points: list[dict[str, Any]]) -> dict[str, Any] | None:
    mine = [p for p in points if p["setting"]["flow"] == "split_join" and p["setting"]["window"] == 1 << 17]
    return max(mine, key=lambda point: point["rate"], default=None)
