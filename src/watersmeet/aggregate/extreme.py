"""Values that never go again: of each group only the first or last row in an order is kept."""

import numpy as np

from watersmeet.aggregate.order import Order, Payload
from watersmeet.aggregate.rows import Rows
from watersmeet.aggregate.table import Table
from watersmeet.kernels.bag import improve

_NOTHING = np.zeros((1, 0), np.int64)


class Extreme:
    """Of each group, the row that is first (``largest``: last) in an order."""

    def __init__(self, groups: Table, order: Order, payload: Payload, largest: bool) -> None:
        self.order, self.payload, self._largest = order, payload, largest
        self.best, self._known = groups.column(order.width), groups.column()
        self.kept = groups.column(payload.width) if payload.width else None

    def add(self, slots: np.ndarray, rows: Rows, sign: int) -> None:
        words, valid = self.order.read(rows)
        given = _NOTHING if self.kept is None else self.payload.read(rows)
        kept = _NOTHING if self.kept is None else self.kept.data
        state = self.best.data, kept, self._known.data, self._largest, *self.order.texts()
        improve(slots, words, given, valid, *state)

    def unknown(self, slots: np.ndarray) -> np.ndarray:
        """Of which groups no row has come."""
        return self._known.data[slots] == 0
