"""Nodes and the bounded links between them: what every flow is made of, whoever lets the nodes move.

A node says which moves it could make now (``choices``) and makes one (``step``). Nothing else happens: so threads (``threads.py``), a
test that chooses each move (``steps.py``) and a simulation with a clock of its own (``simulate.py``) run the same code.

Back-pressure: a node takes rows only if the links that it may then write to have room; what one step writes is let in even if that is a
few messages more than the capacity. Control messages (acknowledgements, expiry, marks) are few for each message of rows, and always
let in: they can never be in each other's way, so links both ways between two cores cannot block each other.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

Message = Any


class Bell:
    """What somebody sleeps on until a link changes. Ringing somebody who is awake costs a look at a flag."""

    __slots__ = ("_queue", "asleep")

    def __init__(self) -> None:
        self.asleep = False
        self._queue: SimpleQueue[None] = SimpleQueue()

    def ring(self) -> None:
        if self.asleep:
            self.asleep = False
            self._queue.put(None)

    def wake(self) -> None:
        """Ring in any case: whoever rang before may have been interrupted between the two steps of ``ring``."""
        self.asleep = False
        self._queue.put(None)

    def wait(self, timeout: float) -> None:
        """Sleep; the caller has set ``asleep`` and then looked once more that there is nothing to do."""
        try:
            self._queue.get(timeout=timeout)
        except Empty:
            self.asleep = False


class Link:
    """A bounded FIFO with one writer and one reader."""

    __slots__ = ("capacity", "low", "messages", "reader", "writer")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.low = capacity // 2  # a writer that waits is woken when so few are left, not after every message
        self.messages: deque[Message] = deque()
        self.reader = self.writer = Bell()

    def put(self, message: Message) -> None:
        self.messages.append(message)
        self.reader.ring()

    def get(self) -> Message:
        messages = self.messages
        message = messages.popleft()
        if len(messages) == self.low:
            self.writer.ring()
        return message

    @property
    def full(self) -> bool:
        return len(self.messages) >= self.capacity

    def __len__(self) -> int:
        return len(self.messages)


class Node:
    """Something that moves messages. ``place`` says who moves it when threads do: a thread of its own, who pushes, who takes."""

    place = "core"  # or "feed", or "gather"

    def __init__(self, name: str, inputs: Sequence[Link], outputs: Sequence[Link]) -> None:
        self.name = name
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.clock: Callable[[], float] = time.perf_counter
        self.bell = Bell()

    def choices(self) -> Sequence[int]:
        """The moves that can be made now: by default, the inputs with a message, if all outputs have room."""
        for link in self.outputs:
            if link.full:
                return ()
        return [port for port, link in enumerate(self.inputs) if link.messages]

    def step(self, choice: int) -> None:
        """Make one move: by default, take a message from an input."""
        self.receive(choice, self.inputs[choice].get())

    def receive(self, port: int, message: Message) -> None:
        raise NotImplementedError


class Processor(Node):
    """A node with a thread of its own and a place among its like. It may fail; ``missing``: what went with it, if the others go on."""

    missing: Any = None

    def __init__(self, name: str, position: int, inputs: Sequence[Link], outputs: Sequence[Link]) -> None:
        super().__init__(name, inputs, outputs)
        self.position = position

    def fail(self) -> None:
        """The node is lost, and the others go on: from now on it only says so."""
        raise NotImplementedError


class Network:
    """The nodes of one flow. ``exit``: the link on which everything leaves."""

    def __init__(self, nodes: Sequence[Node], exit: Link) -> None:
        self.nodes, self.exit = list(nodes), exit

    def at(self, place: str) -> list[Node]:
        return [node for node in self.nodes if node.place == place]

    @property
    def links(self) -> list[Link]:
        found = {id(link): link for node in self.nodes for link in (*node.inputs, *node.outputs)}
        return list(found.values())

    def hang_bells(self, feed: Bell, take: Bell) -> None:
        """Give every link the bells of who reads it and who writes it; links that no node writes are written by who pushes."""
        for link in self.links:
            link.writer, link.reader = feed, take
        for node in self.nodes:
            bell = {"feed": feed, "gather": take}.get(
                node.place
            ) or node.bell  # a core may be asleep on its own
            node.bell = bell
            for link in node.inputs:
                link.reader = bell
            for link in node.outputs:
                link.writer = bell
