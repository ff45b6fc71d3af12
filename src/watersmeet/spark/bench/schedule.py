"""How many rows the batches of a run have, one after the other.

What stays true: all systems get the same batches for as long as any of the others runs, so that their results can be compared batch by
batch: large ones until the windows are full, then some of each size. Ours go on from there, as their batches are short.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.spark.bench.systems import SYSTEMS, Setting

SMALL = 10_000  # rows of both streams; only the band gets batches this small


@dataclass(frozen=True)
class Scale:
    """How large and how long: rows a side in the windows, rows of both streams a batch, batches of each size once they are full.

    Two sizes of batch, as they change who is ahead and by how much: Spark's join looks through all of its state once a batch.
    """

    rows: int
    sizes: tuple[int, int]  # the larger first
    all: int  # batches of each size that everybody gets
    ours: int  # and that only ours get, after those
    small: int
    warm: float  # seconds after which a batch counts: until then Java compiles
    timeout: float

    @classmethod
    def of(cls, quick: bool) -> "Scale":
        """The full run holds a million rows a side; the quick one a tenth of that."""
        if quick:
            return cls(100_000, (100_000, 20_000), all=3, ours=20, small=20, warm=10, timeout=180)
        return cls(1_000_000, (1_000_000, 200_000), all=3, ours=25, small=40, warm=30, timeout=1200)

    def batches(self, system: str) -> list[int]:
        """The rows of all streams in each batch of a system."""
        large = self.sizes[0]
        listed = [large] * math.ceil(SYSTEMS[system].streams * self.rows / large)
        listed += [size for size in self.sizes for _ in range(self.all)]
        if SYSTEMS[system].ours:
            more = self.ours * (
                3 if system == "source" else 1
            )  # its batches are the shortest, and have to outlast ``warm`` too
            listed += [size for size in self.sizes for _ in range(more)]
        if system == "band":
            listed += [SMALL] * self.small
        return listed


def settings(scale: Scale, cores: int, systems: tuple[str, ...] = tuple(SYSTEMS)) -> Iterator[Setting]:
    """What is run, in order."""
    for name in systems:
        sizes = tuple(rows // SYSTEMS[name].streams for rows in scale.batches(name))
        yield Setting(name, scale.rows, sizes, cores, scale.timeout)
