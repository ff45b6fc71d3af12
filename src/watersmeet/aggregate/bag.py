"""Values that can go again: of each group a multiset, whose size without repetition, smallest and largest value are known."""

import numpy as np

from watersmeet.aggregate.order import Order, Payload
from watersmeet.aggregate.rows import Rows
from watersmeet.aggregate.slots import Cells
from watersmeet.aggregate.table import Mark, Table
from watersmeet.errors import DataError
from watersmeet.kernels.bag import HANGING, ROOT, TOP, bury, count_entries, hang, settle

SLACK = 1 << 12  # entries without count that are never too many


class Heap:
    """The entry of each group that is first (``largest``: last) in order."""

    def __init__(self, groups: Table, largest: bool) -> None:
        self._tops, self._largest = groups.column(TOP), largest
        self._nodes = np.zeros((0, 4), np.int64)

    def empty(self) -> None:
        """Nobody hangs in it."""
        self._nodes[:, HANGING] = 0
        self._tops.data[:] = 0

    def reach(self, capacity: int) -> None:
        """There may be more entries."""
        if capacity > len(self._nodes):
            nodes = np.zeros((capacity, 4), np.int64)
            nodes[: len(self._nodes)] = self._nodes
            self._nodes = nodes

    def roots(self, groups: np.ndarray) -> np.ndarray:
        """The first entry of groups, plus one; 0: there is none."""
        return self._tops.data[groups, ROOT]

    def hanging(self, slots: np.ndarray) -> np.ndarray:
        """Which entries hang in it."""
        return self._nodes[slots, HANGING] != 0

    def forget(self, slots: np.ndarray) -> None:
        """Entries of groups that are over."""
        self._nodes[slots, HANGING] = 0

    def hang(self, slots: np.ndarray, words: np.ndarray, order: Order) -> None:
        hang(slots, self._nodes, self._tops.data, words, self._largest, *order.texts())

    def settle(self, groups: np.ndarray, dead: np.ndarray, words: np.ndarray, order: Order) -> np.ndarray:
        """Entries have no count any more: those at the tops of their groups, and whoever is met then, are let go, and returned."""
        bury(dead, self._nodes)
        popped = np.empty(len(self._nodes), np.int64)
        state = self._nodes, self._tops.data, words, self._largest, *order.texts()
        return popped[: settle(groups, *state, popped)]


class Bag:
    """Of each group, the rows that have come and not gone, by their place in an order, counted."""

    def __init__(self, groups: Table, order: Order, payload: Payload) -> None:
        self.order, self.payload = order, payload
        self._groups = groups
        self.distinct: Cells = groups.column()
        self.table = Table(1 + order.width)
        self._counts = self.table.column()
        self.kept = self.table.column(payload.width) if payload.width else None
        self._heaps: dict[bool, Heap] = {}
        self._enough = SLACK

    def heap(self, largest: bool) -> Heap:
        """The heap that knows one end; to be asked for before the first row."""
        if largest not in self._heaps:
            self._heaps[largest] = Heap(self._groups, largest)
        return self._heaps[largest]

    def add(self, slots: np.ndarray, rows: Rows, sign: int) -> None:
        words, valid = self.order.read(rows)
        keys = np.empty((len(rows), 1 + self.order.width), np.int64)
        keys[:, 0], keys[:, 1:] = slots, words
        payload = None if self.kept is None or sign < 0 else self.payload.read(rows)
        if valid.size:
            keys = keys[valid]
            payload = None if payload is None else payload[valid]
        entries = self.table.enter(keys)[0] if sign > 0 else self.table.find(keys)
        if self.kept is not None and payload is not None:
            self.kept.data[entries] = payload
        groups, turned = np.ascontiguousarray(keys[:, 0]), np.empty(entries.size, np.int64)
        count, least = count_entries(entries, groups, sign, self._counts.data, self.distinct.data, turned)
        if least < 0:
            raise DataError(
                "only rows that were added can be retracted; one was retracted more often than it was added"
            )
        self._turn(turned[:count], groups, sign)

    def _turn(self, turned: np.ndarray, groups: np.ndarray, sign: int) -> None:
        """Entries have begun or ceased to be."""
        for heap in self._heaps.values():
            heap.reach(self.table.slots.capacity)
        if sign > 0:
            for heap in self._heaps.values():
                heap.hang(turned, self.table.words.data, self.order)
            return
        if not self._heaps:
            self.table.drop(turned)
        for heap in self._heaps.values():
            gone = heap.settle(groups, turned, self.table.words.data, self.order)
            for other in self._heaps.values():  # what hangs in another one is let go when that lets go of it
                gone = gone[~other.hanging(gone)]
            self.table.drop(gone)

    def drop_groups(self, groups: np.ndarray) -> None:
        """All entries of these groups are over."""
        gone = np.zeros(self._groups.slots.capacity, np.bool_)
        gone[groups] = True
        held = self.table.held()
        entries = held[gone[self.table.words.data[held, 0]]]
        self.table.slots.save(entries)
        for heap in self._heaps.values():
            heap.reach(self.table.slots.capacity)
            heap.forget(entries)
        self.table.drop(entries)

    def first(self, slots: np.ndarray, largest: bool) -> tuple[np.ndarray, np.ndarray]:
        """Of groups, the entry at one end; and whether there is none."""
        top = self._heaps[largest].roots(slots)
        return np.maximum(top - 1, 0), top == 0

    def counted(self) -> np.ndarray:
        """The entries that are there."""
        held = self.table.held()
        return held[self._counts.data[held] > 0]

    def restore(self) -> None:
        """The table has been loaded."""
        self._rebuild()

    @property
    def crowded(self) -> bool:
        """Whether it is time to look for entries without count that hang deep in a heap."""
        return self.table.held_slots > self._enough

    def tidy(self) -> None:
        """Let go of them."""
        self._rebuild()
        self._enough = SLACK + 2 * self.table.held_slots

    def mark(self, forget: bool) -> Mark:
        return self.table.mark(forget)

    def back_to(self, mark: Mark) -> None:
        """As it was at the mark. The groups' table has gone back before."""
        self.table.back_to(mark)
        self._rebuild()

    def _rebuild(self) -> None:
        """Heaps anew, from the entries that have a count."""
        held = self.table.held()
        dead = held[self._counts.data[held] == 0]
        self.table.slots.save(dead)
        self.table.drop(dead)
        held = self.table.held()
        for heap in self._heaps.values():
            heap.reach(self.table.slots.capacity)
            heap.empty()
            heap.hang(held, self.table.words.data, self.order)
