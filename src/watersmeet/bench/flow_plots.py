"""Pictures of a run of ``bench flows``: one a figure of the papers, their own numbers beside ours where their texts give them.

What stays true: a picture shows only what this run has measured, simulated or computed, and the papers' numbers, named as such.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from watersmeet.bench.cases import short
from watersmeet.bench.flow_cases import FlowOutcome
from watersmeet.bench.flow_latency import STAGES
from watersmeet.bench.flow_report import model_lines
from watersmeet.bench.plots import draw_all

COLOURS = {
    "three_step": "#222222", "split_join": "#1b7fbd", "low_latency_handshake": "#e07b28", "handshake": "#c23b54", "pan_join": "#3c9a4e",
}  # fmt: skip
PAPER = {"color": "#777777", "marker": "*", "markersize": 11, "linestyle": "none"}


def write_flow_plots(outcome: FlowOutcome, folder: Path) -> list[Path]:
    """Draw what the run has measured; return the files."""
    pictures: dict[str, Callable[[FlowOutcome, Any], bool]] = {
        "flows-simulation.png": _simulation,
        "flows-throughput-time.png": lambda o, axes: _throughput(o, axes, "time"),
        "flows-throughput-count.png": lambda o, axes: _throughput(o, axes, "count"),
        "flows-visiting.png": _visiting,
        "flows-stages-time.png": lambda o, axes: _stages(o, axes, True),
        "flows-stages-count.png": lambda o, axes: _stages(o, axes, False),
        "flows-selectivity.png": _selectivity,
        "flows-precision.png": _precision,
        "flows-sustained.png": _sustained,
        "flows-granularity.png": _granularity,
    }
    return draw_all(pictures, outcome, folder)


def _simulation(outcome: FlowOutcome, axes: Any) -> bool:
    found = outcome.of("simulation")
    if not found:
        return False
    model = model_lines(outcome)
    for flow in dict.fromkeys(run["flow"] for run in found):
        colour = COLOURS.get(flow, "#555555")
        runs = [(run["cores"], run["latency"]["visiting"] * 1e3) for run in found if run["flow"] == flow]
        axes.plot(*zip(*runs, strict=True), "o", color=colour, label=f"{flow}: simulation")
        lines = [(m["cores"], m["visiting"] * 1e3) for m in model if m["flow"] == flow and m["visiting"]]
        axes.plot(*zip(*lines, strict=True), "-", color=colour, label=f"{flow}: model")
        real = [
            (point["setting"]["cores"], point[how]["visiting"]["mean"] * 1e3)
            for point in outcome.of("real")
            for how in ("loaded" if flow == "handshake" else "alone",)
            if point["setting"]["flow"] == flow and point.get(how, {}).get("visiting")
        ]
        if real:
            axes.plot(*zip(*real, strict=True), "x", color=colour, markersize=9, label=f"{flow}: measured")
    axes.plot([28, 28], [8.1, 26.8], **PAPER, label="paper: SplitJoin 8.1, LHS 26.8 (15 min)")
    axes.set(title="Visiting latency, sub-window of 512 rows a core", xlabel="cores", ylabel="milliseconds")
    axes.set(yscale="log")
    axes.set_xscale("log", base=2)
    axes.legend(fontsize=7, ncols=2)
    return True


def _throughput(outcome: FlowOutcome, axes: Any, group: str) -> bool:
    points = outcome.of(group)
    if not points:
        return False
    lines = dict.fromkeys((p["setting"]["flow"], p["setting"]["cores"]) for p in points)
    for flow, cores in lines:
        chosen = [p for p in points if (p["setting"]["flow"], p["setting"]["cores"]) == (flow, cores)]
        style = "o--" if cores == 1 else "o-"
        places = sorted((p["setting"]["window"], p["rate"]) for p in chosen)
        label = f"{flow}, {cores} core{'s' if cores > 1 else ''}"
        axes.plot(*zip(*places, strict=True), style, color=COLOURS.get(flow, "#555555"), label=label)
    paper, figure = (4400, 12) if group == "time" else (5200, 16)
    axes.plot([1 << 21], [paper], **PAPER, label=f"paper, 28 cores: {paper:,}")
    title = f"Figure {figure}: {group} windows, two-dimensional band, scan, tuple by tuple"
    _finish(axes, title, "window, rows a side", "rows a second, both streams")
    return True


def _visiting(outcome: FlowOutcome, axes: Any) -> bool:
    bars = []
    for point in [*outcome.of("time"), *outcome.of("count")]:
        setting = point["setting"]
        if setting["window"] == 1 << 17 and point.get("loaded", {}).get("visiting"):
            kind = "time" if setting["timed"] else "count"
            label = f"{setting['flow']}, {setting['cores']} core{'s' if setting['cores'] > 1 else ''}, {kind}"
            bars.append(
                (label, point["loaded"]["visiting"]["mean"] * 1e3, COLOURS.get(setting["flow"], "#555555"))
            )
    if not bars:
        return False
    bars += [
        ("paper, 28 cores: SplitJoin, 15 min", 8.1, "#777777"),
        ("paper, 28 cores: low-latency, 15 min", 26.8, "#777777"),
    ]
    axes.figure.set_size_inches(8.5, 1.6 + 0.24 * len(bars))
    axes.barh([bar[0] for bar in bars], [bar[1] for bar in bars], color=[bar[2] for bar in bars])
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=7)
    axes.set(
        title="Figure 13: visiting latency, window 128K, queues full", xlabel="milliseconds", xscale="log"
    )
    return True


def _stages(outcome: FlowOutcome, axes: Any, timed: bool) -> bool:
    points = [p for p in outcome.of("stages") if p["setting"]["timed"] == timed and p.get("loaded")]
    if not points:
        return False
    labels = [
        f"{p['setting']['flow']}\n{p['setting']['cores']} · {short(p['setting']['window'])}" for p in points
    ]
    for number, stage in enumerate(STAGES):
        heights = [p["loaded"].get(stage, {"mean": 0.0})["mean"] * 1e3 for p in points]
        axes.bar([i + (number - 2) * 0.16 for i in range(len(points))], heights, 0.15, label=stage)
    axes.set_xticks(range(len(points)), labels, fontsize=6)
    figure = "15: time" if timed else "18: count"
    axes.set(
        title=f"Figure {figure} windows, strict outer order (cores · window)",
        ylabel="milliseconds",
        yscale="log",
    )
    axes.legend(fontsize=8)
    return True


def _selectivity(outcome: FlowOutcome, axes: Any) -> bool:
    found = [(int(p["setting"]["workload"].rsplit("-", 1)[1]), p["rate"]) for p in outcome.of("selectivity")]
    if not found:
        return False
    axes.plot(*zip(*sorted(found), strict=True), "o-", color=COLOURS["split_join"], label="split_join, scan")
    _finish(axes, "Figure 17: selectivity", "matches a row", "rows a second, both streams")
    return True


def _precision(outcome: FlowOutcome, axes: Any) -> bool:
    points = outcome.of("precision")
    if not points:
        return False
    for window in dict.fromkeys(p["setting"]["window"] for p in points):
        mine = [p for p in points if p["setting"]["window"] == window]
        inner = [(p["setting"]["precision"], p["rate"]) for p in mine if p["setting"]["order"] == "inner"]
        (line,) = axes.plot(*zip(*sorted(inner), strict=True), "o-", label=f"inner, window {short(window)}")
        for p in mine:
            if p["setting"]["order"] in ("none", "outer"):
                style = ":" if p["setting"]["order"] == "none" else "--"
                axes.axhline(p["rate"], linestyle=style, color=line.get_color(), linewidth=1)
    _finish(
        axes,
        "Figure 19: comparisons between punctuations (dashed: strict outer, dotted: none)",
        "precision",
        "rows a second",
    )
    axes.set(yscale="linear", ylim=(0, None))
    return True


def _sustained(outcome: FlowOutcome, axes: Any) -> bool:
    found = outcome.of("sustained")
    if not found:
        return False
    for flow, minutes in dict.fromkeys((r["setting"]["flow"], r["minutes"]) for r in found):
        runs = [r for r in found if (r["setting"]["flow"], r["minutes"]) == (flow, minutes)]
        places = sorted((r["setting"]["cores"], r["per_stream"]) for r in runs)
        colour, style = COLOURS.get(flow, "#555555"), {5: "o:", 10: "o-"}.get(minutes, "o--")
        axes.plot(*zip(*places, strict=True), style, color=colour, label=f"{flow}, {minutes} min")
    axes.axhline(3000, color="#777777", linestyle=":", label="paper: CellJoin, 5 min")
    axes.axhline(1500, color="#777777", linestyle="-", label="paper: CellJoin, 10 min")
    axes.set(
        title="Handshake join, figure 8: rate that is kept up with",
        xlabel="cores",
        ylabel="rows a second and stream",
    )
    axes.set(ylim=(0, None))
    axes.legend(fontsize=7)
    return True


def _granularity(outcome: FlowOutcome, axes: Any) -> bool:
    points = outcome.of("granularity")
    if not points:
        return False
    for flow, index in dict.fromkeys((p["setting"]["flow"], p["setting"]["index"]) for p in points):
        mine = [p for p in points if (p["setting"]["flow"], p["setting"]["index"]) == (flow, index)]
        places = sorted((p["setting"]["granularity"], p["rate"]) for p in mine)
        style = "o--" if index == "scan" else "o-"
        label = f"{flow}, {index}, window {short(mine[0]['setting']['window'])}"
        axes.plot(*zip(*places, strict=True), style, color=COLOURS.get(flow, "#555555"), label=label)
    _finish(axes, "Rows a message", "granularity", "rows a second, both streams")
    return True


def _finish(axes: Any, title: str, below: str, left: str) -> None:
    axes.set(title=title, xlabel=below, ylabel=left, yscale="log")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.legend(fontsize=7, ncols=2)
