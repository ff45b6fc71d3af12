"""How fast the RaP-Table's splitters find the data: the experiment of PanJoin's figure 10f with our table.

A chain of sub-windows is filled from one distribution. The first starts with splitters spread evenly over
the 32-bit integers, each further one adjusts its predecessor's. After each, the error is the mean distance of
a partition's count from N / P, divided by N / P: 0 is perfect balance, 2 is everything in a few partitions.
Chance alone leaves about 0.8 sqrt(2 P / N), and equal keys cannot be parted. So beside it stands the error
that exact quantiles of one sub-window leave in another.

>>> curve = convergence(uniform(0.01, 4), partitions=64, rows=4096)
>>> curve.adjustments <= 3
True
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from watersmeet.index.base import Keys
from watersmeet.index.rap_table import RapTable

SPAN = 2.0**32
INT32 = np.iinfo(np.int32)
ITERATIONS = 7
# An adjustment counts as needed if it lowers the error by more than this.
CLOSE = 0.05

Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Distribution:
    """A named way to draw keys."""

    name: str
    draw: Draw


@dataclass(frozen=True)
class Curve:
    """The error of each sub-window in turn, and that of exact quantiles of another sub-window."""

    name: str
    partitions: int
    rows: int
    errors: tuple[float, ...]
    floor: float

    @property
    def adjustments(self) -> int:
        """How many adjustments it took until none of the later ones was better by more than ``CLOSE``."""
        return next(i for i, error in enumerate(self.errors) if error - min(self.errors[i:]) <= CLOSE)


def uniform(width: float, modes: int) -> Distribution:
    """U(width, modes): evenly over ``modes`` ranges, together ``width`` of the 32-bit integers."""

    def draw(random: np.random.Generator, rows: int) -> np.ndarray:
        offset = (random.random(rows) - 0.5) * width * SPAN / modes
        return _clipped(_centres(modes)[random.integers(0, modes, rows)] + offset)

    return Distribution(f"U({width:g}, {modes})", draw)


def normal(sigma: float, modes: int) -> Distribution:
    """N(sigma, modes): ``modes`` bells, each with ``sigma`` of the 32-bit integers as its standard
    deviation.
    """

    def draw(random: np.random.Generator, rows: int) -> np.ndarray:
        return _clipped(random.normal(_centres(modes)[random.integers(0, modes, rows)], sigma * SPAN))

    return Distribution(f"N({sigma:g}, {modes})", draw)


def view_counts(exponent: float = 0.7, most: float = 0.01 * SPAN) -> Distribution:
    """Views of videos: a few have very many. 99% lie in 1% of their range, which is 0.01% of the 32-bit
    integers.
    """
    common = most / 100
    least = common * 0.01 ** (1 / exponent)
    tail = (least / most) ** exponent

    def draw(random: np.random.Generator, rows: int) -> np.ndarray:
        return _clipped(least * (tail + (1 - tail) * random.random(rows)) ** (-1 / exponent) - least)

    return Distribution("view counts", draw)


def distributions() -> list[Distribution]:
    """The paper's kinds of distributions, from wide to narrow."""
    uniforms = [uniform(1, 1), uniform(0.1, 4), uniform(0.001, 16)]
    normals = [normal(0.1, 1), normal(0.01, 4), normal(0.0001, 16)]
    return [*uniforms, *normals, view_counts()]


def convergence(
    distribution: Distribution, partitions: int, rows: int, *, iterations: int = ITERATIONS, seed: int = 1
) -> Curve:
    """Fill ``iterations`` sub-windows of ``rows`` rows, one adjusted after the other, and measure each."""
    random = np.random.default_rng(seed)
    numbers = np.arange(rows, dtype=np.int32)
    table = None
    errors = []
    for _ in range(iterations):
        table = RapTable(rows, table, partitions=partitions, initial="even")
        keys = np.sort(distribution.draw(random, rows))
        table.insert(Keys(keys, numbers), 0)
        errors.append(_error(table.counts))
    exact = RapTable(rows, partitions=partitions)
    exact.insert(Keys(np.sort(distribution.draw(random, rows)), numbers), 0)
    counts = np.bincount(np.searchsorted(exact.splitters, keys, side="right"), minlength=partitions)
    return Curve(distribution.name, partitions, rows, tuple(errors), _error(counts))


def curves(partitions: Sequence[int] = (1024, 4096, 16384), rows_each: int = 64) -> list[Curve]:
    """Run every distribution with every number of partitions, of ``rows_each`` rows on average."""
    return [convergence(d, parts, parts * rows_each) for d in distributions() for parts in partitions]


def plot(measured: Sequence[Curve], file: Path) -> None:
    """Draw the errors by adjustment, one panel for each number of partitions, and write them as an image."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = sorted({curve.partitions for curve in measured})
    figure, panels = pyplot.subplots(1, len(sizes), figsize=(4.5 * len(sizes), 4), sharey=True, squeeze=False)
    for panel, size in zip(panels[0], sizes, strict=True):
        for curve in measured:
            if curve.partitions == size:
                panel.plot(range(len(curve.errors)), curve.errors, marker="o", markersize=3, label=curve.name)
        panel.axvline(3, color="grey", linewidth=0.8, linestyle=":")
        panel.set(title=f"{size:,} partitions", xlabel="adjustments", yscale="log")
    panels[0][0].set_ylabel("mean error of a partition's count, of N / P")
    panels[0][-1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=150)
    pyplot.close(figure)


def _error(counts: np.ndarray) -> float:
    """Return the mean distance of the partitions' counts from their average, as a fraction of it."""
    average = counts.mean()
    return float(np.abs(counts - average).mean() / average)


def _centres(modes: int) -> np.ndarray:
    """Return where the modes are: in the middle of equal shares of the 32-bit integers."""
    return INT32.min + (np.arange(modes) + 0.5) * SPAN / modes


def _clipped(values: np.ndarray) -> np.ndarray:
    """Return the values as 32-bit integers held in int64."""
    return np.clip(np.floor(values), INT32.min, INT32.max).astype(np.int64)
