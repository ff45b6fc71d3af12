"""The trees: rows from one entry to all cores, results from all cores to one exit (splitjoin.txt 4.3, 5.2 and algorithm 5)."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from watersmeet.flow.models.message import Found, Mark
from watersmeet.flow.network import Link, Message, Node
from watersmeet.flow.order import merge
from watersmeet.join.matches import Matches


class Distributor(Node):
    """Hands every message to all its children."""

    place = "feed"

    def receive(self, port: int, message: Message) -> None:
        for link in self.outputs:
            link.put(message)


class Funnel(Node):
    """Passes on what comes, as it comes: no order is promised. Of the marks with one number it passes on one, the last."""

    place = "gather"

    def __init__(self, name: str, inputs: Sequence[Link], outputs: Sequence[Link]) -> None:
        super().__init__(name, inputs, outputs)
        self._marks: dict[int, list[Mark]] = {}

    def receive(self, port: int, message: Message) -> None:
        if isinstance(message, Mark):
            marks = self._marks.setdefault(message.number, [])
            marks.append(message)
            if len(marks) < len(self.inputs):
                return
            message = united(self._marks.pop(message.number))
        self.outputs[0].put(message)


class Merger(Node):
    """Waits for every input's star before it merges what stands before the stars into one.

    It takes messages from any input at any time and keeps them until the others have caught up; were it to leave them in their
    links, a full link could hold up the very core that the others wait for.
    """

    place = "gather"

    def __init__(self, name: str, inputs: Sequence[Link], outputs: Sequence[Link]) -> None:
        super().__init__(name, inputs, outputs)
        self._waiting: list[deque[Any]] = [deque() for _ in inputs]

    def receive(self, port: int, message: Message) -> None:
        self._waiting[port].append(message)
        while all(self._waiting):
            heads = [queue.popleft() for queue in self._waiting]
            self.outputs[0].put(united(heads) if isinstance(heads[0], Mark) else _merged(heads))


def united(marks: Sequence[Mark]) -> Mark:
    """One mark for several: the oldest row that anybody still holds."""
    left, right = (min(mark.oldest[k] for mark in marks) for k in (0, 1))
    return Mark(marks[0].number, (left, right))


def _merged(parts: Sequence[Found]) -> Found:
    """What several cores found for one load, in order."""
    load = parts[0].load
    assert load.order is not None
    arranged = merge(load.order, [part.arranged for part in parts if part.arranged is not None])
    first, last = min(part.begun for part in parts), max(part.done for part in parts)
    return Found(-1, load, Matches(), arranged, first, last)


def grow(
    leaves: Sequence[Link], fanout: int, capacity: int, make: Callable[[str, list[Link], Link], Node]
) -> tuple[list[Node], Link]:
    """A tree over the leaves, ``fanout`` to a node; returns its nodes and the link at its root. One leaf is its own root."""
    nodes: list[Node] = []
    level = list(leaves)
    while len(level) > 1:
        above = []
        for start in range(0, len(level), fanout):
            link = Link(capacity)
            nodes.append(make(str(len(nodes)), level[start : start + fanout], link))
            above.append(link)
        level = above
    return nodes, level[0]
