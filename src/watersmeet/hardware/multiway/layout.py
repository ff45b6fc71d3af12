"""Rows, stored rows and results of joins of many streams, and the condition that all these designs evaluate.

The streams stand in a ring. Neighbours i and i + 1 are linked: the last key of a row of i and the first key of a row of i + 1 differ by at
most ``band`` (0: are equal). With one key a row this is one key for all streams; with two it is a cycle such as the triangle R(a, b),
S(b, c), T(c, a). The thesis has the same links (6.1.4: every stream enters at the operator that it has a condition with).

A row travels with its number only: what else belongs to it lies outside and is looked up by number. The thesis carries whole rows on
its bus; that is the same width times a constant.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.lib import data

from watersmeet.errors import OptionError


@dataclass(frozen=True)
class Widths:
    """How many streams there are and how wide their rows are."""

    streams: int = 3
    key: int = 32
    keys: int = 1
    number: int = 32
    band: int = 0

    def __post_init__(self) -> None:
        if self.streams < 3:
            raise OptionError(f"streams of a multiway join must be at least 3; got {self.streams}")
        if self.keys not in (1, 2):
            raise OptionError(f"keys of a row must be 1 or 2; got {self.keys}")
        if not 0 <= self.band < 1 << self.key:
            raise OptionError(f"band must be from 0 to {(1 << self.key) - 1}; got {self.band}")

    @property
    def row(self) -> Any:
        """A row that arrives."""
        return data.StructLayout(
            {
                "stream": range(self.streams),
                "keys": data.ArrayLayout(self.key, self.keys),
                "number": self.number,
            }
        )

    @property
    def stored(self) -> Any:
        """A row in a window, whose stream is known from where it lies."""
        return data.StructLayout({"keys": data.ArrayLayout(self.key, self.keys), "number": self.number})

    @property
    def result(self) -> Any:
        """A number a stream: each stage fills in its own (thesis figure 6.1.3)."""
        return data.ArrayLayout(self.number, self.streams)

    def first(self, row: Any) -> Any:
        """The key that the stream before looks for."""
        return row.keys[0]

    def last(self, row: Any) -> Any:
        """The key that looks for the stream after."""
        return row.keys[self.keys - 1]

    def close(self, one: Any, other: Any) -> Any:
        """Whether two keys satisfy the condition. Sums are one bit wider than keys, so nothing wraps."""
        if not self.band:
            return one == other
        return (one + self.band >= other) & (other + self.band >= one)

    def condition(self) -> str:
        """What the engine calls this condition."""
        texts = []
        for i in range(self.streams):
            j = (i + 1) % self.streams
            one, other = f"s{i}.k{self.keys - 1}", f"s{j}.k0"
            if self.band:
                texts.append(f"{one} BETWEEN {other} - {self.band} AND {other} + {self.band}")
            else:
                texts.append(f"{one} = {other}")
        return " AND ".join(texts)
