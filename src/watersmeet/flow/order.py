"""The order in which results leave, and the marks in between (splitjoin.txt section 5).

Every row of either stream has a place in one *sequence*: the order of arrival over both streams. *Outer* order: the results of a
probing row come before those of the next. *Inner* order: and those of one probing row come from the oldest stored row to the
newest. ``precision`` relaxes either: a punctuation after every n probing rows, or every n stored rows compared, and no order in between.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import NamedTuple, overload

import numpy as np

_EMPTY = np.empty(0, np.int64)


@dataclass(frozen=True)
class Order:
    """What is promised. ``outer`` by 1 is strict outer order; ``inner`` by 1 is strict in both."""

    kind: str  # "outer" or "inner"
    precision: int = 1

    def __str__(self) -> str:
        return f"{self.kind} order, precision {self.precision:,}"


@dataclass(slots=True)
class Arranged:
    """Pairs in the order that was asked for, with what decides it."""

    left: np.ndarray
    right: np.ndarray
    sequence: np.ndarray  # place of the probing row of each pair
    chunk: np.ndarray | None  # inner order: number of the stretch of stored rows that the stored one is in


def arrange(
    order: Order, found: Sequence[tuple[int, np.ndarray, np.ndarray, np.ndarray]], last: bool
) -> Arranged:
    """Put pairs in order. ``found``: (side, probes, stored, places of the probes in the sequence).

    Not ``last``: somebody after us merges, which sorts, so that sorting here too would be for nothing.
    """
    chunks = None
    if order.kind == "inner":
        chunks = [stored // order.precision for _, _, stored, _ in found]
    parts = [
        Arranged(*((p, s) if side == 0 else (s, p)), places, None if chunks is None else chunks[i])
        for i, (side, p, s, places) in enumerate(found)
    ]
    if not last and len(parts) == 1:
        return parts[0]
    return merge(order, parts)


def merge(order: Order, parts: Sequence[Arranged]) -> Arranged:
    """Several cores' pairs as one, in order."""
    parts = [part for part in parts if part.left.size]
    if not parts:
        return Arranged(_EMPTY, _EMPTY, _EMPTY, None if order.kind == "outer" else _EMPTY)
    left = np.concatenate([part.left for part in parts])
    right = np.concatenate([part.right for part in parts])
    sequence = np.concatenate([part.sequence for part in parts])
    if order.kind == "outer":
        group = sequence if order.precision == 1 else sequence // order.precision
        places = _sorting(group)
        return Arranged(left[places], right[places], sequence[places], None)
    chunk = np.concatenate([part.chunk for part in parts if part.chunk is not None])
    places = np.lexsort((chunk, sequence))
    return Arranged(left[places], right[places], sequence[places], chunk[places])


def _sorting(group: np.ndarray) -> np.ndarray:
    """A stable sorting; groups of one load lie close together, and NumPy sorts 16-bit numbers by radix."""
    low = group.min()
    if group.max() - low < 65_536:
        return np.argsort((group - low).astype(np.uint16), kind="stable")
    return np.argsort(group, kind="stable")


class Punctuation(NamedTuple):
    """All results up to the probing row ``arrival`` of ``stream`` are among the first ``position`` rows of the output.

    Inner order: ``stored`` is the arrival number below which all stored rows have been compared; None at a probing row's end.
    """

    stream: str
    arrival: int
    position: int
    stored: int | None = None


class Punctuations(Sequence[Punctuation]):
    """The marks in a result, in order; a sequence of ``Punctuation``, held as columns."""

    def __init__(
        self,
        streams: Sequence[str],
        side: np.ndarray,
        arrival: np.ndarray,
        position: np.ndarray,
        stored: np.ndarray,
    ) -> None:
        self._streams = tuple(streams)
        self.side, self.arrival, self.position = side, arrival, position
        self.stored = stored  # -1: the end of a probing row

    def __len__(self) -> int:
        return int(self.side.size)

    @overload
    def __getitem__(self, i: int) -> Punctuation: ...

    @overload
    def __getitem__(self, i: slice) -> "Punctuations": ...

    def __getitem__(self, i: int | slice) -> "Punctuation | Punctuations":
        if isinstance(i, slice):  # the same marks: positions count from the result's first row
            columns = (column[i] for column in (self.side, self.arrival, self.position, self.stored))
            return Punctuations(self._streams, *columns)
        i = index(i)
        stored = int(self.stored[i])
        where = int(self.arrival[i]), int(self.position[i])
        return Punctuation(self._streams[int(self.side[i])], *where, None if stored < 0 else stored)

    def __iter__(self) -> Iterator[Punctuation]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Equal to any list, tuple or result's marks with the same punctuations in the same order."""
        if not isinstance(other, Punctuations | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} punctuations>"

    @classmethod
    def joined(cls, streams: Sequence[str], parts: Sequence[tuple["Punctuations", int]]) -> "Punctuations":
        """One after the other, each moved by a number of result rows."""
        if not parts:
            return cls(streams, np.empty(0, np.uint8), _EMPTY, _EMPTY, _EMPTY)
        columns = [
            np.concatenate([getattr(part, name) for part, _ in parts])
            for name in ("side", "arrival", "stored")
        ]
        position = np.concatenate([part.position + moved for part, moved in parts])
        return cls(streams, columns[0], columns[1], position, columns[2])
