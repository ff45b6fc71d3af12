"""Pictures of a run: rates over batches and windows, ratios to the peers, ranges, latency, memory.

What stays true: a picture shows only points of the run it belongs to; nothing is smoothed. Points that were
timed with fewer rows a push (the scan's) are drawn with open markers.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from watersmeet.bench.cases import EngineOutcome, short
from watersmeet.bench.measure import Point
from watersmeet.bench.targets import MILLION, find
from watersmeet.looks import pyplot

COLOURS = {
    "auto": "#222222", "bi_sort": "#1b7fbd", "rap_table": "#e07b28", "wib_tree": "#3c9a4e", "hash": "#8b5fbf",
    "grid": "#c23b54", "scan": "#999999", "DuckDB": "#d4b106", "Polars": "#5a7fd6", "Pathway": "#7a5230",
}  # fmt: skip


def write_plots(outcome: EngineOutcome, folder: Path) -> list[Path]:
    """Draw what the run has measured; return the files."""
    pictures: dict[str, Callable[[EngineOutcome, Any], bool]] = {
        "rate-over-batch.png": _over_batch,
        "rate-over-window.png": _over_window,
        "ratio-to-peers.png": _ratios,
        "ranges-over-selectivity.png": _selectivity,
        "latency.png": _latency,
        "memory.png": _memory,
    }
    return draw_all(pictures, outcome, folder)


def draw_all(pictures: dict[str, Callable[[Any, Any], bool]], outcome: Any, folder: Path) -> list[Path]:
    """A picture a file, each drawn by a function that says whether there was anything to draw; return the files."""
    plt = pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in pictures.items():
        figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
        if draw(outcome, axes):
            axes.grid(True, alpha=0.25)
            figure.savefig(folder / name, dpi=150)
            written.append(folder / name)
        plt.close(figure)
    return written


def _over_batch(outcome: EngineOutcome, axes: Any) -> bool:
    points = [p for p in outcome.points if p.group in ("sweep", "peers") and p.workload == "band-1"]
    points = [p for p in points if p.window == MILLION or p.joiner == "Pathway"]
    if not points:
        return False
    _lines(axes, points, lambda point: point.batch)
    if outcome.limits:
        batches = sorted(outcome.limits)
        axes.plot(
            batches, [outcome.limits[b] for b in batches], "--", color="black", label="limit: packed sort"
        )
    _finish(axes, "Band join, selectivity 1, window 1M a side", "rows a push and stream")
    return True


def _over_window(outcome: EngineOutcome, axes: Any) -> bool:
    points = [
        p for p in outcome.points if p.workload == "band-1" and p.batch == 32_768 and p.result == "pairs"
    ]
    points = [p for p in points if p.group in ("sweep", "peers") and not p.joiner.startswith("Pathway")]
    if not points:
        return False
    _lines(axes, points, lambda point: point.window)
    _finish(axes, "Band join, selectivity 1, batch 32K", "window, rows a side")
    return True


def _lines(axes: Any, points: list[Point], place: Callable[[Point], int]) -> None:
    joiners = dict.fromkeys(p.joiner for p in points if not p.joiner.startswith("Pathway,"))
    for joiner in joiners:
        found = sorted((p for p in points if p.joiner == joiner), key=place)
        colour = COLOURS.get(joiner, "#555555")
        axes.plot([place(p) for p in found], [p.rate for p in found], color=colour, label=joiner)
        for point in found:
            face = "white" if point.note and joiner == "scan" else colour
            axes.plot(place(point), point.rate, "o", color=colour, markerfacecolor=face)


def _finish(axes: Any, title: str, below: str) -> None:
    axes.set(title=title, xlabel=below, ylabel="rows a second, both streams", xscale="log", yscale="log")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.legend(fontsize=8, ncols=2)


def _ratios(outcome: EngineOutcome, axes: Any) -> bool:
    bars: list[tuple[str, float, str]] = []
    for point in outcome.points:
        if point.group != "peers" or point.joiner.startswith("Pathway,"):
            continue
        window = MILLION if point.joiner == "Pathway" else point.window
        wanted = {"workload": point.workload, "window": window, "batch": point.batch}
        ours = find(outcome.points, group="sweep", joiner="auto", **wanted)
        if ours is not None:
            label = f"{point.workload}, window {short(window)}, batch {short(point.batch)}: {point.joiner}"
            bars.append((label, ours.rate / point.rate, point.joiner))
    if not bars:
        return False
    axes.figure.set_size_inches(8.5, 1.6 + 0.24 * len(bars))
    axes.barh([b[0] for b in bars], [b[1] for b in bars], color=[COLOURS.get(b[2], "#555555") for b in bars])
    axes.invert_yaxis()
    axes.axvline(50, color="black", linestyle="--", linewidth=1)
    axes.tick_params(axis="y", labelsize=7)
    axes.set(
        title='How many times faster than the peers (index="auto"; the line: 50x)',
        xscale="log",
        xlabel="ratio of rates",
        xlim=(1, None),
    )
    return True


def _selectivity(outcome: EngineOutcome, axes: Any) -> bool:
    points = [p for p in outcome.points if p.group == "ranges"]
    if not points:
        return False
    for result in dict.fromkeys(p.result for p in points):
        found = [(int(p.workload.rsplit("-", 1)[1]), p.rate) for p in points if p.result == result]
        axes.plot(*zip(*sorted(found), strict=True), "o-", label=f'result="{result}"')
    axes.set(
        title="bi_sort, window 1M, batch 32K", xlabel="matches a row", ylabel="rows a second, both streams"
    )
    axes.set(xscale="log", yscale="log")
    axes.legend()
    return True


def _latency(outcome: EngineOutcome, axes: Any) -> bool:
    if not outcome.latencies:
        return False
    for index, nanoseconds in outcome.latencies.items():
        micro = nanoseconds / 1e3
        edges = np.geomspace(max(micro.min(), 1.0), max(micro.max(), 2.0 * micro.min(), 2.0), 120)
        axes.hist(micro, edges, histtype="step", color=COLOURS.get(index, "#555555"), label=index)
    axes.axvline(1000, color="black", linestyle="--", linewidth=1, label="1 ms")
    axes.set(
        title="One row a push, window 1M", xlabel="microseconds", ylabel="pushes", xscale="log", yscale="log"
    )
    axes.legend()
    return True


def _memory(outcome: EngineOutcome, axes: Any) -> bool:
    if not outcome.memory:
        return False
    for run in outcome.memory:
        colour = COLOURS.get(run["index"], "#555555")
        lengths = range(1, len(run["resident"]) + 1)
        axes.plot(
            lengths, [size / 1e6 for size in run["resident"]], color=colour, label=f"{run['index']}, process"
        )
        axes.plot(
            lengths, [size / 1e6 for size in run["state"]], ":", color=colour, label=f"{run['index']}, state"
        )
    axes.set(title="Memory as the windows slide", xlabel="window lengths pushed", ylabel="MB", ylim=(0, None))
    axes.legend(fontsize=8)
    return True
