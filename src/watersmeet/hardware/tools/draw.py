"""A design's structure as text and as a picture: blocks in columns, by how many blocks a row passes before them."""

from pathlib import Path
from typing import Any

from watersmeet.hardware.tools.structure import OUTSIDE, Structure
from watersmeet.looks import pyplot

COLOURS = ("#1b7fbd", "#3c9a4e", "#c23b54", "#8a5fb0", "#c98a1b", "#4b6a78")


def columns(found: Structure) -> list[list[str]]:
    """Blocks by their distance from the inputs, along the links."""
    depth = {OUTSIDE: -1}
    frontier = [OUTSIDE]
    while frontier:
        after = []
        for name in frontier:
            for link in found.links:
                if link.source == name and link.target not in depth:
                    depth[link.target] = depth[name] + 1
                    after.append(link.target)
        frontier = after
    rest = max(depth.values()) + 1
    layers: dict[int, list[str]] = {}
    for block in found.blocks:
        layers.setdefault(depth.get(block.name, rest), []).append(block.name)
    return [layers[k] for k in sorted(layers)]


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
    """The same as a picture: a colour a kind of block, an arrow a stream."""
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
    edges = {True: 0.0, False: len(layers) + 1.0}
    for link in found.links:
        middle = (tall - 1) / 2
        start = place.get(link.source, (edges[True], middle))
        end = place.get(link.target, (edges[False], middle))
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
