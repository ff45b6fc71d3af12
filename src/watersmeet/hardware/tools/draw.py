"""A design's structure as text and as a picture: blocks in columns, by how many blocks a row passes before them."""

from pathlib import Path
from typing import Any

from watersmeet.hardware.tools.structure import OUTSIDE, Structure
from watersmeet.looks import pyplot

COLOURS = ("#1b7fbd", "#3c9a4e", "#c23b54", "#8a5fb0", "#c98a1b", "#4b6a78")


def columns(found: Structure) -> list[list[str]]:
    """Blocks by their distance from the inputs, along the links; those that only wires lead to, behind who drives them."""
    depth = {OUTSIDE: -1}
    frontier = [OUTSIDE]
    ways = [*((link.source, link.target) for link in found.links), *_leading(found)]
    while frontier:
        after = []
        for name in frontier:
            for source, target in ways:
                if source == name and target not in depth:
                    depth[target] = depth[name] + 1
                    after.append(target)
        frontier = after
    rest = max(depth.values()) + 1
    alike = {block.kind: depth[block.name] for block in reversed(found.blocks) if block.name in depth}
    layers: dict[int, list[str]] = {}
    for block in found.blocks:  # one that is not reached stands with those of its kind
        place = depth.get(block.name, alike.get(block.kind, rest))
        layers.setdefault(place, []).append(block.name)
    return [layers[k] for k in sorted(layers)]


def _leading(found: Structure) -> list[tuple[str, str]]:
    """Wires from a block that streams lead to, to blocks that none leads to."""
    reached = {link.target for link in found.links}
    return [(source, target) for source, target in found.wires if source in reached and target not in reached]


def as_text(found: Structure) -> str:
    """One line a link, in the order in which rows come by."""
    kinds = {block.name: block.kind for block in found.blocks}
    order = {name: (k, n) for k, names in enumerate(columns(found)) for n, name in enumerate(names)}

    def end(name: str, port: str) -> str:
        return f"{name}.{port} ({kinds[name]})" if name else f"[{port}]"

    links = sorted(
        found.links, key=lambda link: (order.get(link.source, (-1, 0)), order.get(link.target, (99, 0)))
    )
    lines = [f"{found.kind}: {len(found.blocks)} blocks, {len(found.links)} streams"]
    lines += [
        f"  {end(link.source, link.source_port)} -> {end(link.target, link.target_port)}, {link.width} bits"
        for link in links
    ]
    return "\n".join(lines)


def draw(found: Structure, path: Path) -> None:
    """The same as a picture: a colour a kind of block, an arrow a stream, a broken one for other wires."""
    plt = pyplot()
    layers = columns(found)
    tall = max((len(names) for names in layers), default=1)
    figure, axes = plt.subplots(figsize=(1.9 * (len(layers) + 1), max(2.2, 0.62 * tall + 0.8)))
    place = {}
    for x, names in enumerate(layers):
        step = tall / max(1, len(names))
        for y, name in enumerate(names):  # the first on top
            place[name] = (x + 1, (tall - 1) / 2 + ((len(names) - 1) / 2 - y) * step)
    kinds = list(dict.fromkeys(block.kind for block in found.blocks))
    for block in found.blocks:
        _box(axes, place[block.name], block.name, COLOURS[kinds.index(block.kind) % len(COLOURS)])
    outside = _outside(found, tall, len(layers) + 1.0)
    for source, target in found.wires:
        if target in place and source in place:
            _wire(axes, place[source], place[target])
    for link in found.links:
        start = place.get(link.source) or outside[link.source_port]
        end = place.get(link.target) or outside[link.target_port]
        _arrow(axes, start, end)
        for name, spot, port in (
            (link.source, start, link.source_port),
            (link.target, end, link.target_port),
        ):
            if name == OUTSIDE:
                axes.text(*spot, port, ha="center", va="center", fontsize=8, backgroundcolor="white")
    for k, kind in enumerate(kinds):
        axes.plot([], [], "s", color=COLOURS[k % len(COLOURS)], label=kind)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=max(1, len(kinds)), fontsize=8, frameon=False
    )
    axes.set(xlim=(-0.5, len(layers) + 1.5), ylim=(-0.7, tall - 0.3), title=found.kind)
    axes.axis("off")
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)


def _outside(found: Structure, tall: int, right: float) -> dict[str, tuple[float, float]]:
    """Where the component's own ports stand: inputs on the left, outputs on the right, one above the other."""
    inputs = dict.fromkeys(link.source_port for link in found.links if link.source == OUTSIDE)
    outputs = dict.fromkeys(link.target_port for link in found.links if link.target == OUTSIDE)
    spots = {}
    for x, ports in ((0.0, list(inputs)), (right, list(outputs))):
        for k, port in enumerate(ports):
            spots[port] = (x, (tall - 1) / 2 + ((len(ports) - 1) / 2 - k) * 0.8)
    return spots


def _wire(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Beside the boxes where both stand in one column, to the left of them."""
    same = start[0] == end[0]
    axes.annotate(
        "",
        xy=(end[0] - 0.28, end[1]),
        xytext=(start[0] + (-0.28 if same else 0.28), start[1]),
        arrowprops={
            "arrowstyle": "-|>",
            "color": "#d8b26a",
            "lw": 0.8,
            "linestyle": "--",
            "connectionstyle": f"arc3,rad={0.5 if same else 0.0}",
        },
        zorder=0,
    )


def _box(axes: Any, spot: tuple[float, float], name: str, colour: str) -> None:
    axes.text(
        *spot,
        name,
        ha="center",
        va="center",
        fontsize=8,
        color="white",
        bbox={"boxstyle": "round,pad=0.35", "facecolor": colour, "edgecolor": "none"},
    )


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    back = end[0] <= start[0]
    axes.annotate(
        "",
        xy=(end[0] - 0.28, end[1]),
        xytext=(start[0] + 0.28, start[1]),
        arrowprops={
            "arrowstyle": "-|>",
            "color": "#9aa5ab",
            "lw": 0.9,
            "connectionstyle": "arc3,rad=-0.35" if back else "arc3,rad=0.0",
        },
        zorder=0,
    )
