"""A design's structure as text and as a picture: blocks in columns, by how many blocks a row passes before them."""

from pathlib import Path
from typing import Any

from watersmeet.hardware.tools.structure import OUTSIDE, Structure
from watersmeet.looks import pyplot

WIDE = 8  # columns that are readable beside each other
COLOURS = ("#1b7fbd", "#3c9a4e", "#c23b54", "#8a5fb0", "#c98a1b", "#4b6a78")


def columns(found: Structure) -> list[list[str]]:
    """Blocks by their distance from the inputs, along the links; those that only wires lead to, behind who drives them."""
    ways = list(
        dict.fromkeys([*((link.source, link.target) for link in found.links), *_leading(found)])
    )  # some blocks have several streams to the same one
    depth = _longest(ways) or _shortest(ways)
    rest = max(depth.values()) + 1
    alike = {block.kind: depth[block.name] for block in reversed(found.blocks) if block.name in depth}
    layers: dict[int, list[str]] = {}
    for block in found.blocks:  # one that is not reached stands with those of its kind
        place = depth.get(block.name, alike.get(block.kind, rest))
        layers.setdefault(place, []).append(block.name)
    return [layers[k] for k in sorted(layers)]


def _shortest(ways: list[tuple[str, str]]) -> dict[str, int]:
    """How many blocks stand before each, by the shortest way."""
    depth, frontier = {OUTSIDE: -1}, [OUTSIDE]
    while frontier:
        after = []
        for name in frontier:
            for source, target in ways:
                if source == name and target not in depth:
                    depth[target] = depth[name] + 1
                    after.append(target)
        frontier = after
    return depth


def _longest(ways: list[tuple[str, str]]) -> dict[str, int]:
    """The same by the longest way, so that no link points back; nothing if there is a ring."""
    depth = _shortest(ways)
    inside = [(source, target) for source, target in ways if source in depth and target != OUTSIDE]
    for _ in depth:
        late = [(source, target) for source, target in inside if depth[target] <= depth[source]]
        if not late:
            return depth
        for source, target in late:
            depth[target] = max(depth[target], depth[source] + 1)
    return {}


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
    """The same as a picture: a colour a kind of block, an arrow a stream, a broken one for other wires. A long one goes on below."""
    plt = pyplot()
    layers = columns(found)
    tall = max((len(names) for names in layers), default=1)
    bands = -(-len(layers) // WIDE) or 1
    wide = -(-len(layers) // bands)
    figure, axes = plt.subplots(figsize=(1.9 * (wide + 1), max(2.2, (0.62 * tall + 0.3) * bands + 0.5)))
    place, band = {}, {}
    for x, names in enumerate(layers):
        step, base = tall / max(1, len(names)), (tall - 1) / 2 - (x // wide) * (tall + 0.2)
        for y, name in enumerate(names):  # the first on top
            band[name] = x // wide
            place[name] = (x % wide + 1, base + ((len(names) - 1) / 2 - y) * step)
    kinds = list(dict.fromkeys(block.kind for block in found.blocks))
    for block in found.blocks:
        _box(axes, place[block.name], block.name, COLOURS[kinds.index(block.kind) % len(COLOURS)])
    low = (bands - 1) * (tall + 0.2)  # how far below the first band the last one is
    outside = _outside(found, tall, (len(layers) - 1) % wide + 2.0, low)
    for source, target in found.wires:
        if target in place and source in place:
            _wire(axes, place[source], place[target])
    for link in found.links:
        start = place.get(link.source) or outside[link.source_port]
        end = place.get(link.target) or outside[link.target_port]
        down = band.get(link.target, 0) > band.get(link.source, bands)
        _arrow(axes, start, end, (_half(link.source), _half(link.target)), down)
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
    axes.set(xlim=(-0.5, wide + 1.5), ylim=(-0.7 - low, tall - 0.3))
    axes.set_title(found.kind, pad=14)
    axes.axis("off")
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)


def _outside(found: Structure, tall: int, right: float, low: float) -> dict[str, tuple[float, float]]:
    """Where the component's own ports stand: inputs on the left, outputs on the right of the last band, one above the other."""
    inputs = dict.fromkeys(link.source_port for link in found.links if link.source == OUTSIDE)
    outputs = dict.fromkeys(link.target_port for link in found.links if link.target == OUTSIDE)
    spots = {}
    for x, below, ports in ((0.0, 0.0, list(inputs)), (right, low, list(outputs))):
        for k, port in enumerate(ports):
            spots[port] = (x, (tall - 1) / 2 - below + ((len(ports) - 1) / 2 - k) * 0.8)
    return spots


def _wire(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    """From the side of a box that faces the other one; beside the boxes where both stand in one column, to the left of them. Wires both
    ways are apart, and one that passes other boxes makes a bow around them.
    """
    way = end[0] - start[0]
    leaves, comes = (-0.28, -0.28) if not way else (0.28, -0.28) if way > 0 else (-0.28, 0.28)
    bow = 0.5 if not way else 0.0 if 0 < way <= 1 else 0.25 if way < -1 else -0.25
    axes.annotate(
        "",
        xy=(end[0] + comes, end[1]),
        xytext=(start[0] + leaves, start[1]),
        arrowprops={
            "arrowstyle": "-|>",
            "color": "#d8b26a",
            "lw": 0.8,
            "linestyle": "--",
            "connectionstyle": f"arc3,rad={bow}",
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


def _arrow(
    axes: Any, start: tuple[float, float], end: tuple[float, float], halves: tuple[float, float], down: bool
) -> None:
    """Straight to the next column, or down to the next band; with a bow above what it passes on its way to a later one, and back."""
    way = end[0] - start[0]
    bow = 0.0 if down or 0 < way <= 1 else -0.25 if way > 3 else -0.35
    before, behind, above = (0.0, 0.0, 0.22) if down else (*halves, 0.0)
    axes.annotate(
        "",
        xy=(end[0] - behind, end[1] + above),
        xytext=(start[0] + before, start[1] - above),
        arrowprops={
            "arrowstyle": "-|>",
            "color": "#9aa5ab",
            "lw": 0.9,
            "connectionstyle": f"arc3,rad={bow}",
        },
        zorder=0,
    )


def _half(name: str) -> float:
    """Half of a box with that name, and a gap, in columns."""
    return max(0.28, 0.021 * len(name) + 0.09)
