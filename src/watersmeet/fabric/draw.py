"""A topology as a picture, from its structure alone: as text, or with matplotlib.

Components stand in levels, each below what feeds it; the blocks of an OP-Chain stand beside each other. What stands at a slot can be
written into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from watersmeet.fabric.components import Brick, Component, OpBlock
from watersmeet.fabric.topology import Topology, split
from watersmeet.looks import pyplot

Notes = Mapping[str, Sequence[str]]  # by slot, what stands there
_ARROWS = {"data": "->", "result": "->", "detached": "~>"}
_COLOURS = {"op_block": "#dbe9f6", "brick": "#dbe9f6", "gswitch_l": "#f6ead7", "gswitch_d": "#f6ead7"}


def drawn(topology: Topology, notes: Notes | None = None) -> str:
    """The picture as text."""
    lines: list[str] = []
    for level in levels(topology):
        boxes = [_box(_content(topology, topology.named[name], notes or {})) for name in level]
        high = max(len(box) for box in boxes)
        padded = [[*box, *[" " * len(box[0])] * (high - len(box))] for box in boxes]
        between = ["<=>" if _neighbours(topology, one, other) else "   " for one, other in pairwise(level)]
        for row in range(high):
            joints = [joint if row == 1 else "   " for joint in between]
            lines.append(
                "".join(
                    f"{box[row]}{joint}" for box, joint in zip(padded, [*joints, ""], strict=True)
                ).rstrip()
            )
    return "\n".join(lines)


def levels(topology: Topology) -> list[list[str]]:
    """The components, each below those that feed it."""
    chain = _chains(topology)
    below: dict[str, set[str]] = {name: set() for name in chain.values()}
    for link in topology.links:
        source, target = chain[split(link.source)[0]], chain[split(link.target)[0]]
        if source != target:
            below[target].add(source)
    depth: dict[str, int] = {}
    while len(depth) < len(below):
        for name, sources in below.items():
            if name not in depth and sources <= depth.keys():
                depth[name] = 1 + max((depth[source] for source in sources), default=-1)
    found: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for name in topology.named:
        found[depth[chain[name]]].append(name)
    return found


def _chains(topology: Topology) -> dict[str, str]:
    """For each component who stands for it: of an OP-Chain the block at its left end."""
    left = {
        split(link.target)[0]: split(link.source)[0]
        for link in topology.links
        if link.source.endswith(".r_out") and isinstance(topology.named[split(link.source)[0]], OpBlock)
    }
    found = {}
    for name in topology.named:
        first = name
        while first in left:
            first = left[first]
        found[name] = first
    return found


def _neighbours(topology: Topology, one: str, other: str) -> bool:
    return topology.after.get(f"{one}.r_out") == f"{other}.r_in"


def _content(topology: Topology, component: Component, notes: Notes) -> list[str]:
    """What is written into a box: name and kind, units, what stands there, where its wires lead."""
    name = component.name
    head = name if name == component.kind else f"{name}: {component.kind}"
    lines = [head + (f" {component.window}" if isinstance(component, OpBlock) else "")]
    lines += [f"* {note}" for note in notes.get(name, ())]
    if isinstance(component, Brick):
        for unit in component.units:
            room = f" {unit.window}" if unit.window else ""
            lines.append(f"| {unit.name}" + ("" if unit.name == unit.kind else f": {unit.kind}") + room)
            lines += [f"|   * {note}" for note in notes.get(f"{name}.{unit.name}", ())]
    for port, sort in component.outputs.items():
        target = topology.after.get(f"{name}.{port}")
        if target is not None and sort not in ("r", "s"):
            lines.append(f"{port} {_ARROWS[sort]} {target}")
    return lines


def _box(lines: Sequence[str]) -> list[str]:
    width = max(map(len, lines))
    edge = f"+{'-' * (width + 2)}+"
    return [edge, *(f"| {line.ljust(width)} |" for line in lines), edge]


def plotted(topology: Topology, path: Any, notes: Notes | None = None) -> None:
    """The picture with matplotlib, into a file."""
    plt = pyplot()
    rows = levels(topology)
    wide = max((len(row) for row in rows), default=1)
    figure, axes = plt.subplots(figsize=(max(4, 2.4 * wide), max(2, 1.1 * len(rows))))
    places: dict[str, tuple[float, float]] = {}
    for y, row in enumerate(rows):
        for at, name in enumerate(row):
            places[name] = (at - (len(row) - 1) / 2, -float(y))
    boxes = {}
    for name, (left, top) in places.items():
        component = topology.named[name]
        lines = _content(topology, component, notes or {})
        text = "\n".join(line for line in lines if "->" not in line and "~>" not in line)
        box = {
            "boxstyle": "round",
            "facecolor": _COLOURS.get(component.kind, "#eeeeee"),
            "edgecolor": "#555555",
        }
        boxes[name] = axes.text(left, top, text, ha="center", va="center", fontsize=6, bbox=box)
    for link in topology.links:
        (source, port), (target, _) = split(link.source), split(link.target)
        bent = {"r_out": -0.2, "s_out": -0.2, "detached": 0.4}.get(port, 0.0)
        look = {"arrowstyle": "->", "color": "#888888", "linestyle": ":" if port == "detached" else "-"}
        ends = {"patchA": boxes[source].get_bbox_patch(), "patchB": boxes[target].get_bbox_patch()}
        arrow = {**look, **ends, "connectionstyle": f"arc3,rad={bent}"}
        axes.annotate("", places[target], places[source], arrowprops=arrow)
    axes.set(xlim=(-wide / 2 - 0.2, wide / 2 + 0.2), ylim=(-len(rows) + 0.3, 0.7), title=topology.name)
    axes.axis("off")
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)
