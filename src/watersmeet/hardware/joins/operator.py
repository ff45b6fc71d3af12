"""The operator of a join core, and the words that program it while data flow (thesis 5.5: an instruction of two segments).

What stays true: a pair is a result iff, for every attribute k, ``low[k] <= s[k] - r[k] <= high[k]`` (or not, if ``negate[k]``). That is
equality, inequality, a band and every comparison; a time window is one more attribute, the time, with the band
``-T_s <= s.time - r.time <= T_r``. The thesis leaves the encoding open; ours is below.

A segment is a word of kind OPERATOR whose ``number`` holds the segment's name (4 bits), the attribute (4 bits), flags (8 bits) and the
core that it is for (16 bits), and whose first value holds the operand. JOIN, POSITION and the windows are the first segment of the
thesis (how many cores, which of them this is), LOW and HIGH the second (the condition).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.lib import enum

from watersmeet.errors import OptionError
from watersmeet.hardware.joins.rows import Kind, word_layout
from watersmeet.hardware.ports import pack

ALL = 0xFFFF  # a segment for all cores
UNBOUNDED, NEGATED = 1, 2  # flags


class Segment(enum.Enum, shape=4):  # type: ignore[call-arg]
    """What the operand is. JOIN: how many cores; it also empties the windows, and nobody has a position. POSITION: which of them one
    core is. WINDOW: rows of a sub-window. LOW, HIGH: a bound."""

    JOIN = 0
    POSITION = 1
    WINDOW_R = 2
    WINDOW_S = 3
    LOW = 4
    HIGH = 5


@dataclass(frozen=True)
class Band:
    """``low <= s - r <= high`` for one attribute; None is no bound; ``negate`` turns it around."""

    low: int | None = 0
    high: int | None = 0
    negate: bool = False

    def holds(self, r: int, s: int) -> bool:
        """Whether the pair is in the band."""
        inside = (self.low is None or self.low <= s - r) and (self.high is None or s - r <= self.high)
        return inside != self.negate

    def text(self, r: str, s: str) -> str:
        """The same as a condition of the engine."""
        ends = []
        if self.low is not None:
            ends.append(f"{s} - {r} >= {self.low}")
        if self.high is not None:
            ends.append(f"{s} - {r} <= {self.high}")
        inside = " AND ".join(ends) or "TRUE"
        return f"NOT ({inside})" if self.negate else inside


def program(
    cores: int, windows: tuple[int, int], bands: Sequence[Band], bits: int = 32, new: bool = True
) -> list[int]:
    """The words that make ``cores`` cores one join: sub-windows of R and of S a core, and a band an attribute.

    ``new=False``: only the condition changes; the windows stay.
    """
    layout = word_layout(len(bands), bits)

    def segment(name: Any, operand: int, attribute: int = 0, flags: int = 0, core: int = ALL) -> int:
        number = name.value | attribute << 4 | flags << 8 | core << 16
        limit = 1 << (bits - 1)
        if not -limit <= operand < limit:
            raise OptionError(
                f"an operand must be from {-limit} to {limit - 1}; got {operand}; use None for no bound"
            )
        return pack(layout, {"row": {"number": number, "values": [operand]}, "kind": Kind.OPERATOR})

    words = []
    if new:
        words.append(segment(Segment.JOIN, cores))  # cores that get no position store nothing
        words += [segment(Segment.POSITION, k, core=k) for k in range(cores)]
        words += [segment(Segment.WINDOW_R, windows[0]), segment(Segment.WINDOW_S, windows[1])]
    for k, band in enumerate(bands):
        flags = NEGATED if band.negate else 0
        for name, bound in ((Segment.LOW, band.low), (Segment.HIGH, band.high)):
            words.append(segment(name, bound or 0, k, flags | (UNBOUNDED if bound is None else 0)))
    return words
