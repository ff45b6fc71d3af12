"""Columns of state with a row a slot: they grow together, and a push that fails is taken back.

What stays true: a slot's row is written down before the first change after a mark (``save``), so ``back_to`` is putting back what was
written down. Rows of slots that nobody uses are zero.
"""

from typing import Any, Protocol, TypeVar

import numpy as np

from watersmeet.kernels.groups import first_met

LEAST = 64


class Column(Protocol):
    """State of every slot."""

    data: np.ndarray

    def take(self, slots: np.ndarray) -> Any: ...
    def put(self, slots: np.ndarray, rows: Any) -> None: ...
    def clear(self, slots: np.ndarray | slice) -> None: ...
    def saved(self, slots: np.ndarray) -> tuple[int, np.ndarray]: ...
    def load(self, first: int, rows: np.ndarray) -> None: ...


class Cells:
    """A fixed number of int64 a slot; ``width`` 0: one, as a plain array."""

    def __init__(self, width: int = 0) -> None:
        self._shape: tuple[int, ...] = (width,) if width else ()
        self.data = np.zeros((LEAST, *self._shape), np.int64)

    def take(self, slots: np.ndarray) -> np.ndarray:
        return self.data.take(slots, 0)  # rows are copied as they are; indexing takes twice as long

    def put(self, slots: np.ndarray, rows: np.ndarray) -> None:
        self.data[slots] = rows

    def clear(self, slots: np.ndarray | slice) -> None:
        self.data[slots] = 0

    def saved(self, slots: np.ndarray) -> tuple[int, np.ndarray]:
        """Rows for a snapshot, as a matrix, and a number that ``load`` needs."""
        return 0, self.data[slots].reshape(slots.size, *(self._shape or (1,)))

    def load(self, first: int, rows: np.ndarray) -> None:
        """Rows of a snapshot, for the first slots."""
        self.data[: len(rows)] = rows.reshape(len(rows), *self._shape)


C = TypeVar("C", bound=Column)


class Slots:
    """Some columns, and the journal of what they held at the marks."""

    def __init__(self) -> None:
        self.capacity = LEAST
        self._columns: list[Column] = []
        self._stamps = np.zeros(LEAST, np.int64)
        self._stamp = 0
        self._used = 0
        self._journal: list[tuple[np.ndarray, list[Any]]] = []

    def cells(self, width: int = 0) -> Cells:
        """A new column; before the first row."""
        return self.add(Cells(width))

    def add(self, column: C) -> C:
        self._columns.append(column)
        return column

    @property
    def columns(self) -> tuple[Column, ...]:
        """In the order in which they were made."""
        return tuple(self._columns)

    @property
    def nbytes(self) -> int:
        return sum(column.data.nbytes for column in self._columns)

    def grow(self) -> None:
        """Twice as many slots."""
        capacity = 2 * self.capacity
        stamps, *grown = [
            _longer(data, capacity) for data in (self._stamps, *(c.data for c in self._columns))
        ]
        pairs = list(zip(self._columns, grown, strict=True))
        for column, data in pairs:  # from here on nothing can fail: all or none
            column.data = data
        self._stamps, self.capacity = stamps, capacity

    def save(self, slots: np.ndarray) -> None:
        """Slots are about to be changed."""
        fresh = np.empty(min(slots.size, self.capacity), np.int64)
        fresh = fresh[: first_met(slots, self._used, self._stamps, self._stamp, fresh)]
        if fresh.size:
            self._journal.append((fresh, [column.take(fresh) for column in self._columns]))

    def clear(self, slots: np.ndarray) -> None:
        """Nobody uses these slots any more. They have been saved."""
        for column in self._columns:
            column.clear(slots)

    def mark(self, forget: bool, used: int) -> int:
        """From here on changes are written down, of the ``used`` slots: others are empty. ``forget``: nobody will go back farther."""
        self._used = used
        if forget:
            self._journal = []
        self._stamp += 1
        return len(self._journal)

    def back_to(self, mark: int, used: int) -> None:
        """As it was at the mark, when slots up to ``used`` had been given. May be repeated."""
        for slots, saved in reversed(self._journal[mark:]):
            for column, rows in zip(self._columns, saved, strict=True):
                column.put(slots, rows)
        for column in self._columns:
            column.clear(slice(used, None))
        del self._journal[mark:]
        self._stamp += 1


def _longer(data: np.ndarray, capacity: int) -> np.ndarray:
    """The same rows, and further ones that are zero."""
    fresh = np.zeros((capacity, *data.shape[1:]), data.dtype)
    fresh[: len(data)] = data
    return fresh
