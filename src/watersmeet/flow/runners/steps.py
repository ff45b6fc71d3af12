"""Lets a network move one step at a time, in the caller's thread; somebody else chooses each step.

With threads, which core is fast and which is slow is luck. Here it is a choice: of everything that could happen next (a core takes
from this link or from that, rows are sent on, the next message enters, a result is taken) ``choose`` picks one. A search over its
choices is a search over all message races, and the same choices give the same run.
"""

from collections import deque
from collections.abc import Callable, Sequence

from watersmeet.errors import CoreFailed, StateError
from watersmeet.flow.network import Link, Message, Network, Node, Processor

Move = tuple[Node, int]


class Entering(Node):
    """Who pushes: has a message in hand until there is room for it."""

    place = "feed"

    def __init__(self, link: Link, message: Message) -> None:
        super().__init__("entry", [], [link])
        self._message, self.entered = message, False

    def choices(self) -> Sequence[int]:
        return () if self.entered or self.outputs[0].full else (0,)

    def step(self, choice: int) -> None:
        self.entered = True
        self.outputs[0].put(self._message)


class Leaving(Node):
    """Who takes what leaves."""

    place = "gather"

    def __init__(self, link: Link) -> None:
        super().__init__("exit", [link], [])
        self.taken: deque[Message] = deque()

    def receive(self, port: int, message: Message) -> None:
        self.taken.append(message)


class Steps:
    """Runs a network as ``Threads`` does. ``choose`` is given all possible moves, each a node and one of its choices, and returns one."""

    def __init__(
        self, network: Network, carry_on: bool, choose: Callable[[Sequence[Move]], Move] = lambda moves: moves[0]
    ) -> None:  # fmt: skip
        self.network, self._carry_on, self._choose = network, carry_on, choose
        self._exit = Leaving(network.exit)
        self._stopping = False
        self.failure: tuple[Processor, BaseException | None] | None = None
        self.lost: list[Processor] = []

    def start(self) -> None:
        """Nothing to start."""

    def set_apart(self) -> None:
        """Somebody else takes: in this thread, all the same."""

    # ---- who pushes, and who takes ------------------------------------------------------------------------------

    def put(self, link: Link, message: Message) -> None:
        """Put a message on a link, now or after some moves."""
        entry = Entering(link, message)
        while not entry.entered:
            self._move([entry], "a message is to enter")

    def settle_feed(self) -> None:
        """Move until everything that was put has left the feed."""
        feed = self.network.at("feed")
        while any(link.messages for node in feed for link in node.inputs):
            self._move([], "the feed is to settle")

    def take(self, timeout: float | None = None) -> Message | None:
        """The next message that leaves; with a ``timeout``, None if nothing can move any more."""
        while not self._exit.taken:
            self.check()
            if timeout is not None and not self._moves([]):
                return None
            self._move([], "a message is to leave")
        return self._exit.taken.popleft()

    # ---- moves --------------------------------------------------------------------------------------------------

    def _moves(self, more: Sequence[Node]) -> list[Move]:
        nodes = [*self.network.nodes, self._exit, *more]
        return [(node, choice) for node in nodes for choice in node.choices()]

    def _move(self, more: Sequence[Node], awaited: str) -> None:
        self.check()
        moves = self._moves(more)
        if not moves:
            raise AssertionError(f"stuck: {awaited}, but nothing can move; {self._queues()}")
        node, choice = self._choose(moves)
        try:
            node.step(choice)
        except Exception as error:
            if not isinstance(node, Processor):
                raise
            self._failed(node, error)

    def _queues(self) -> str:
        lengths = [
            f"{node.name}[{port}]: {len(link)} of {link.capacity}"
            for node in [*self.network.nodes, self._exit]
            for port, link in enumerate(node.inputs)
        ]
        return "messages before " + ", ".join(lengths)

    # ---- faults -------------------------------------------------------------------------------------------------

    def _failed(self, core: Processor, error: Exception) -> None:
        cores = len(self.network.at("core"))
        if self._carry_on and len(self.lost) + 1 < cores and core.missing is None:
            core.fail()
            self.lost.append(core)
        else:
            self.failure = (core, error)
            self.check()

    def check(self) -> None:
        """Raise if a core has failed and the others do not go on."""
        if self._stopping:
            raise StateError("the join must stay open while rows are on their way; it was closed")
        if self.failure is not None:
            core, error = self.failure
            raise CoreFailed(
                f"{core.name} failed: {type(error).__name__}: {error}", core=core.position
            ) from error

    def close(self) -> None:
        """What is still on its way is lost."""
        self._stopping = True
