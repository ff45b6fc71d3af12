"""Pictures of a run of ``bench multiway``: rates over match probability, streams, origin and batch; state over streams.

What stays true: a picture shows only points of the run it belongs to; nothing is smoothed. Wrong counts are not drawn.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from watersmeet.bench.cases import short
from watersmeet.bench.measure import Point
from watersmeet.bench.multiway_cases import MATCHES, MultiwayOutcome
from watersmeet.bench.plots import COLOURS, draw_all
from watersmeet.workloads.multiway import MultiwayWorkload

THESIS = {
    6: {1e-6: 10_000, 1e-5: 7_000, 1e-4: 1_000, 1e-3: 100}
}  # tuples a second, 100 MHz FPGA, figure 6.2.5
OURS = {"ours": "#222222", "ours, count": "#1b7fbd", "two-way chain": "#c23b54", **COLOURS}


def write_multiway_plots(outcome: MultiwayOutcome, folder: Path) -> list[Path]:
    """Draw what the run has measured; return the files."""
    pictures: dict[str, Callable[[MultiwayOutcome, Any], bool]] = {
        "multiway-probability.png": _probability,
        "multiway-streams.png": _streams,
        "multiway-state.png": _state,
        "multiway-peers.png": _peers,
        "multiway-stash.png": _stash,
    }
    return draw_all(pictures, outcome, folder)


def _of(outcome: MultiwayOutcome, group: str) -> list[Point]:
    return [point for point in outcome.points if point.group == group and point.verified is not False]


def _best(points: list[Point], key: Callable[[Point], Any]) -> dict[Any, float]:
    """The best rate for each key, in order."""
    found: dict[Any, float] = {}
    for point in points:
        found[key(point)] = max(point.rate, found.get(key(point), 0.0))
    return dict(sorted(found.items()))


def _probability(outcome: MultiwayOutcome, axes: Any) -> bool:
    points = _of(outcome, "probability")
    for ways in sorted({len(outcome.works[p.workload].streams) for p in points}):
        mine = [p for p in points if len(outcome.works[p.workload].streams) == ways]
        best = _best(mine, lambda point: outcome.works[point.workload].probability)
        axes.plot(list(best), list(best.values()), "o-", label=f"ours, {ways}-way")
        if ways in THESIS:
            known = THESIS[ways]
            axes.plot(list(known), list(known.values()), "s--", label=f"thesis, {ways}-way, 100 MHz FPGA")
    axes.set(title="Best rate by match probability", xlabel="match probability")
    return _finish(axes, bool(points))


def _streams(outcome: MultiwayOutcome, axes: Any) -> bool:
    points = _of(outcome, "streams")
    for joiner in dict.fromkeys(point.joiner for point in points):
        mine = [p for p in points if p.joiner == joiner]
        best = _best(mine, lambda point: len(outcome.works[point.workload].streams))
        axes.plot(list(best), list(best.values()), "o-", color=OURS.get(joiner), label=joiner)
    axes.set(title=f"One key, {MATCHES} matches a step", xlabel="streams")
    return _finish(axes, bool(points), "linear")


def _state(outcome: MultiwayOutcome, axes: Any) -> bool:
    for joiner in ("ours", "two-way chain"):
        held = {run["streams"]: run["bytes"] / 1e6 for run in outcome.state if run["joiner"] == joiner}
        if held:
            axes.plot(list(held), list(held.values()), "o-", color=OURS[joiner], label=joiner)
    axes.set(title=f"State, one key, {MATCHES} matches a step", xlabel="streams")
    return _finish(axes, bool(outcome.state), "linear", "MB")


def _peers(outcome: MultiwayOutcome, axes: Any) -> bool:
    peers = [p for p in _of(outcome, "peers") if _is_three_way(outcome.works[p.workload])]
    works = {point.workload for point in peers}
    points = [*(p for p in _of(outcome, "probability") if p.workload in works), *peers]
    for joiner in dict.fromkeys(point.joiner for point in points):
        best = _best([p for p in points if p.joiner == joiner], lambda point: point.batch)
        axes.plot(list(best), list(best.values()), "o-", color=OURS.get(joiner), label=joiner)
    axes.set(title="3-way on one key, match probability 1e-5", xlabel="rows a push and stream")
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    return _finish(axes, bool(peers))


def _is_three_way(work: MultiwayWorkload) -> bool:
    return len(work.streams) == 3 and work.probability == 1e-5


def _stash(outcome: MultiwayOutcome, axes: Any) -> bool:
    points = _of(outcome, "stash")
    lines = dict.fromkeys((p.joiner, outcome.works[p.workload].probability) for p in points)
    for joiner, probability in lines:
        mine = [
            p for p in points if p.joiner == joiner and outcome.works[p.workload].probability == probability
        ]
        best = _best(mine, lambda point: outcome.works[point.workload].shares["s3"])
        axes.plot(list(best), list(best.values()), "o-", label=f"{joiner}, {probability:.0e}")
    axes.set(title="3-way, stash off and on", xlabel="share of the third stream")
    return _finish(axes, bool(points), "linear")


def _finish(axes: Any, drawn: bool, xscale: str = "log", ylabel: str = "rows a second, all streams") -> bool:
    if drawn:
        axes.set(xscale=xscale, yscale="log", ylabel=ylabel)
        axes.legend(fontsize=8)
    return drawn
