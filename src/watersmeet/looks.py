"""How demos and benchmarks show what they found: a console, a picture."""

from typing import Any

import pyarrow as pa
from rich.console import Console

from watersmeet.extras import need


def wide_console() -> Console:
    """A console whose tables are not squeezed when the output goes to a file."""
    console = Console()
    return console if console.is_terminal else Console(width=140)


def pyplot() -> Any:
    """Matplotlib without a screen; a clear error where it is not installed."""
    need("plots", "matplotlib", "plot")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def draw_plane(axes: Any, pairs: pa.Table, size: int, title: str) -> None:
    """Every pair of the two-dimensional band in a corner of the plane, as a line between its two rows."""
    x, y, a, b = (pairs.column(name).to_numpy() for name in ("x", "y", "a", "b"))
    inside = (x < size) & (y < size)
    axes.plot([x[inside], a[inside]], [y[inside], b[inside]], color="#1b7fbd", linewidth=1)
    axes.plot(x[inside], y[inside], "o", markersize=3, color="#c23b54", label="row of r")
    axes.plot(a[inside], b[inside], "s", markersize=3, color="#3c9a4e", label="row of s")
    axes.set(title=title, xlabel="x, a", ylabel="y, b", aspect="equal")
    axes.legend(fontsize=7)
