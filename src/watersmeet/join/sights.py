"""How much of the timed streams each row of an untimed stream had seen when it came.

A timed row that was seen by a later untimed one was within its window at its own stream's clock at that moment. Where a timed row comes
last, its own range does not say so: it is kept here, by arrival number. Threads may ask while rows are added and dropped: the columns and
the number of their first row change together.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from watersmeet.streams.arrival import Sees
from watersmeet.streams.clock import BOTTOM, TimeAxis

Mark = tuple[int, int, np.ndarray]


class Sights:
    """Of one untimed stream, for some timed ones: rows seen, and the time code below which they were over."""

    def __init__(self, timed: Sequence[int]) -> None:
        self._places = {stream: 2 * i for i, stream in enumerate(timed)}
        self.end = 0  # arrival number after the last row
        self._kept = (
            0,
            np.empty((2 * len(timed), 1024), np.int64),
        )  # arrival number of the first row, columns

    @property
    def first(self) -> int:
        return self._kept[0]

    @property
    def _columns(self) -> np.ndarray:
        return self._kept[1]

    def append(self, first: int, rows: int, sees: Sees) -> None:
        """Rows have come, the first of them with this arrival number."""
        start, stop = self._make_room(first, rows)
        for stream, place in self._places.items():
            validity = sees[stream]
            assert validity is not None
            self._columns[place, start:stop] = validity.arrival_hi
            self._columns[place + 1, start:stop] = BOTTOM if validity.time_lo is None else validity.time_lo
        self.end = first + rows

    def _make_room(self, first: int, rows: int) -> tuple[int, int]:
        """Where rows go that begin with this arrival number."""
        if self.first == self.end:
            self.end, self._kept = first, (first, self._columns)
        start, stop = first - self.first, first - self.first + rows
        if stop > self._columns.shape[1]:
            room = np.empty((self._columns.shape[0], 2 * stop), np.int64)
            room[:, :start] = self._columns[:, :start]
            self._kept = (self.first, room)
        return start, stop

    def of(self, timed: int, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What rows with these arrival numbers had seen of a timed stream."""
        (first, columns), place = self._kept, self._places[timed]
        return columns[place][numbers - first], columns[place + 1][numbers - first]

    def change_axis(self, axis: TimeAxis, times: Mapping[int, np.ndarray]) -> None:
        """Go over to another axis. ``times``: of each timed stream, the codes of all its times on it, in arrival order."""
        rows = self.end - self.first
        for stream, place in self._places.items():
            seen = self._columns[place, :rows]
            # The clock that a row has seen is the largest time of the rows that it has seen.
            clocks = np.concatenate(([BOTTOM], np.maximum.accumulate(times[stream])))[seen]
            cut, begun = np.full(rows, BOTTOM), clocks > BOTTOM
            cut[begun] = axis.shift(clocks[begun], -axis.duration[stream])
            self._columns[place + 1, :rows] = cut

    def drop_before(self, arrival: int) -> None:
        """Rows have gone. The old columns stay as they were, for who goes back to them."""
        if self.first + self._columns.shape[1] // 2 < arrival <= self.end:
            self._kept = (arrival, self._columns[:, arrival - self.first :].copy())

    def drop_from(self, arrival: int) -> None:
        """Rows from here on were taken back."""
        self.end = max(self.first, min(self.end, arrival))

    def between(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """By name, what the rows [start, stop) had seen: for the saved state."""
        part = self._columns[:, start - self.first : stop - self.first]
        named = {}
        for stream, place in self._places.items():
            named[f"seen_{stream}"], named[f"cut_{stream}"] = part[place], part[place + 1]
        return named

    def restore(self, first: int, columns: dict[str, np.ndarray]) -> None:
        """Take back what ``between`` gave, of the rows from ``first`` on."""
        rows = next(iter(columns.values())).size
        start, stop = self._make_room(first, rows)
        for stream, place in self._places.items():
            self._columns[place, start:stop] = columns[f"seen_{stream}"]
            self._columns[place + 1, start:stop] = columns[f"cut_{stream}"]
        self.end = first + rows

    def mark(self) -> Mark:
        """Where it stands: what ``back_to`` goes back to. Rows are only ever added behind it."""
        return self.first, self.end, self._columns

    def back_to(self, mark: Mark) -> None:
        first, self.end, columns = mark
        self._kept = (first, columns)


def sights_for(timed: Sequence[bool]) -> list[Sights | None]:
    """By stream: needed where a timed row may come last, after another timed one and an untimed one."""
    streams = [k for k, one in enumerate(timed) if one]
    return [Sights(streams) if len(streams) > 1 and not one else None for one in timed]
