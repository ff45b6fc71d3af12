"""What steps of an N-way join have been seen to do: how many partial results each makes of one, and when that is worth another plan."""

from collections.abc import Iterable

Edge = tuple[int, frozenset[str]]
"""The stream that is looked for, and what must hold between it and those that are there: who else is there makes no difference."""
Seen = tuple[Edge, int, int]
"""A step, with partial results in and out."""

FIRST = 4096  # partial results of which fan-outs are believed; then twice as many, and so on
OFTEN = 1 << 22  # but the orders are thought over at least this often: streams change


class Learnt:
    """Moving averages of fan-outs. They choose orders, never results: a push that fails need not take them back."""

    def __init__(self) -> None:
        self.fanouts: dict[Edge, float] = {}
        self._since, self._next = 0, FIRST

    def due(self, seen: Iterable[Seen]) -> bool:
        """Take in what was seen; whether the orders are to be thought over."""
        for edge, rows, more in seen:
            if rows:
                fanout = more / rows
                old = self.fanouts.get(edge)
                weight = min(1.0, rows / FIRST)
                self.fanouts[edge] = fanout if old is None else old + 0.5 * weight * (fanout - old)
                self._since += rows
        if self._since < self._next:
            return False
        self._since, self._next = 0, min(2 * self._next, OFTEN)
        return True
