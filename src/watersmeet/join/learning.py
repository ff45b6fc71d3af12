"""What steps of an N-way join have been seen to do: how many partial results each makes of one, and when that is worth another plan."""

from collections.abc import Iterable

Edge = tuple[int, frozenset[str]]
"""The stream that is looked for, and what must hold between it and those that are there: who else is there makes no difference."""
Seen = tuple[Edge, int, int]
"""A step, with partial results in and out."""

FIRST = 4096  # partial results of which fan-outs are believed; then twice as many, and so on
OFTEN = 1 << 22  # but the orders are thought over at least this often: streams change


TRIES = 8  # pushes that tell what a row costs
AGAIN = 64  # decisions after which the other way is tried again: streams change


class Trial:
    """Whether a stash saves time: seconds a row with it and without, measured; now and then the dearer way is tried again."""

    def __init__(self) -> None:
        self.on = False
        self._costs: dict[bool, float] = {}
        self._pushes = self._decisions = 0

    def learn(self, rows: int, seconds: float) -> None:
        """A push of so many rows took so long, in the way that is gone now."""
        if rows:
            cost, old = seconds / rows, self._costs.get(self.on)
            self._costs[self.on] = cost if old is None or not self._pushes else 0.8 * old + 0.2 * cost
            self._pushes += 1

    @property
    def due(self) -> bool:
        """Whether it is time to decide."""
        return self._pushes >= TRIES

    def decide(self, possible: bool) -> bool:
        """Which way to go next; ``possible``: whether the pairs would fit. True if it is another way than now."""
        before, self._pushes, self._decisions = self.on, 0, self._decisions + 1
        if not possible:
            self.on = False
        elif (not self.on) not in self._costs or self._decisions % AGAIN == 0:
            self.on = not self.on
        else:
            self.on = self._costs[True] < self._costs[False]
        return self.on != before


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
