"""For flows in which rows meet long after they have come: what each stored row may see of the other stream, and on which core it stands."""

from typing import Any

import numpy as np

from watersmeet.streams.arrival import Validity
from watersmeet.streams.clock import BOTTOM, TOP

NAMES = ("arrival_lo", "arrival_hi", "time_lo", "time_hi")
_ABSENT = (0, 0, BOTTOM, TOP)


class Sight:
    """The validity ranges of one stream's rows. Chunks are immutable."""

    def __init__(self) -> None:
        self._chunks: list[
            tuple[int, np.ndarray]
        ] = []  # (arrival number of the first row, four rows of bounds)

    def mark(self) -> tuple[list[Any], int]:
        return self._chunks, len(self._chunks)

    def back_to(self, mark: tuple[list[Any], int]) -> None:
        chunks, length = mark
        self._chunks = chunks[:length]

    def append(self, first: int, rows: int, validity: Validity) -> None:
        bounds = np.empty((4, rows), np.int64)
        for row, name, absent in zip(bounds, NAMES, _ABSENT, strict=True):
            bound = getattr(validity, name)
            row[:] = absent if bound is None else bound
        self._chunks.append((first, bounds))

    def between(self, start: int, stop: int) -> Validity:
        """Of the rows [start, stop)."""
        parts = [
            bounds[:, max(start - first, 0) : stop - first]
            for first, bounds in self._chunks
            if first < stop and first + bounds.shape[1] > start
        ]
        return Validity(*(np.ascontiguousarray(row) for row in np.concatenate(parts, axis=1)))

    def drop_before(self, arrival: int) -> None:
        self._chunks = [(first, part) for first, part in self._chunks if first + part.shape[1] > arrival]

    def drop_from(self, arrival: int) -> None:
        self._chunks = [
            (first, bounds[:, : arrival - first]) for first, bounds in self._chunks if first < arrival
        ]


class Meetings:
    """Of both streams; what is saved of a flow beside rows and flags."""

    def __init__(self) -> None:
        self.sights = (Sight(), Sight())
        self.borders: list[list[int]] | None = None  # between the rows of one core and the next

    def mark(self) -> tuple[Any, ...]:
        return self.borders, [sight.mark() for sight in self.sights]

    def back_to(self, mark: tuple[Any, ...]) -> None:
        self.borders, marks = mark
        for sight, one in zip(self.sights, marks, strict=True):
            sight.back_to(one)

    def drop_from(self, counts: np.ndarray) -> None:
        for sight, count in zip(self.sights, counts.tolist(), strict=True):
            sight.drop_from(count)

    def columns(self, k: int, start: int, stop: int) -> dict[str, np.ndarray]:
        seen = self.sights[k].between(start, stop)
        return {name: getattr(seen, name) for name in NAMES}

    def restore(self, k: int, first: int, columns: dict[str, np.ndarray]) -> None:
        self.sights[k].append(first, columns[NAMES[0]].size, Validity(**columns))
