"""What each stored row may see of the other stream, by arrival number: kept where rows meet long after they have come."""

import numpy as np

from watersmeet.flow.savepoint import Savepoint
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

    def keep_in(self, before: Savepoint) -> None:
        before.keep_value(self, "_chunks", self._chunks)
        before.keep_length(self._chunks)

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
