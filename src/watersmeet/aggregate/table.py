"""Slots by their words: which slot each row of int64 words belongs to.

A slot is *alive* from the row that made it until it is dropped. The hash table holds the slots that are alive, and is made anew from them
when a push is taken back.
"""

import numpy as np

from watersmeet.aggregate.slots import LEAST, Cells, Slots
from watersmeet.errors import DataError
from watersmeet.kernels.groups import EMPTY, FRESH, HELD, NOBODY, enter, find, place_all, remove

Mark = tuple[int, int]


class Table:
    """Slots with ``width`` words each, and the state that others keep beside them in ``slots``."""

    def __init__(self, width: int) -> None:
        self.slots = Slots()
        self.words = self.slots.cells(width)
        self.alive = self.slots.cells()
        self._room = np.zeros(3, np.int64)
        self._freed = np.empty(LEAST, np.int64)
        self._make(2 * LEAST)

    def _make(self, places: int) -> None:
        self._shift = np.uint64(65 - places.bit_length())
        self._table = np.full(places, EMPTY)

    def column(self, width: int = 0) -> Cells:
        """A column of state beside the words."""
        return self.slots.cells(width)

    def enter(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The slots of rows of words, and the rows for which there was none before. All slots are written down before a change."""
        out, made = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        done = count = 0
        while True:
            done, more = enter(
                rows,
                done,
                self._table,
                self._shift,
                self.words.data,
                self._freed,
                self._room,
                out,
                made[count:],
            )
            count += more
            if done == len(rows):
                break
            self._grow(out[made[:count]])
        made = made[:count]
        self.slots.save(out)
        self.alive.data[out[made]] = 1
        return out, made

    def find(self, rows: np.ndarray) -> np.ndarray:
        """The slots of rows of words that were entered before; refused if one was not. All are written down before a change."""
        out = np.empty(len(rows), np.int64)
        find(rows, self._table, self._shift, self.words.data, out)
        if (out == NOBODY).any():
            row = int(np.flatnonzero(out == NOBODY)[0])
            raise DataError(
                f"only rows that were added can be retracted; row {row} was not; retract each row once, after it was added"
            )
        self.slots.save(out)
        return out

    def knows(self, rows: np.ndarray) -> np.ndarray:
        """Which rows of words have a slot."""
        out = np.empty(len(rows), np.int64)
        find(rows, self._table, self._shift, self.words.data, out)
        known: np.ndarray = out != NOBODY
        return known

    def drop(self, slots: np.ndarray) -> None:
        """These slots are no longer needed; each once, saved before."""
        remove(slots, self._table, self._shift, self.words.data, self._freed, self._room)
        self.slots.clear(slots)

    @property
    def used(self) -> int:
        """Slots are below this number, those that were dropped among them."""
        return int(self._room[FRESH])

    @property
    def held_slots(self) -> int:
        """How many slots are alive."""
        return int(self._room[HELD])

    def held(self) -> np.ndarray:
        """All slots that are alive, in order."""
        return np.flatnonzero(self.alive.data)

    def _grow(self, made: np.ndarray) -> None:
        """Room for more; slots that were made just now are not alive yet, but belong to the table."""
        self.slots.grow()
        alive = self.alive.data.copy()
        alive[made] = 1
        self._place(alive)

    def _place(self, alive: np.ndarray) -> None:
        self._make(2 * self.slots.capacity)
        self._freed = np.empty(self.slots.capacity, np.int64)
        fresh = int(self._room[FRESH])
        place_all(alive, fresh, self._table, self._shift, self.words.data, self._freed, self._room)

    def mark(self, forget: bool) -> Mark:
        """What ``back_to`` goes back to. ``forget``: earlier marks are over."""
        used = int(self._room[FRESH])
        return self.slots.mark(forget, used), used

    def back_to(self, mark: Mark) -> None:
        """As it was at the mark. May be repeated."""
        journal, used = mark
        self.slots.back_to(journal, used)
        self._room[FRESH] = used
        self._place(self.alive.data)
