"""Lets a network move on threads: each core on one of its own; the feed is moved by who pushes, the gathering by who takes results.

The kernels release the GIL, so cores run side by side; trees and queues are a few moves of Python between them, and need no thread.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from watersmeet.errors import CoreFailed, StateError
from watersmeet.flow.network import Bell, Link, Message, Network, Node, Processor

GRACE = 30.0  # seconds that a core gets to come out of a kernel when the join is closed
CLOSED = (
    "the join must stay open, and somebody must take its results, while rows are on their way; it was closed; rows from the last "
    "complete push on are to be pushed again"
)
PATIENCE = 0.2  # seconds: how often somebody who waits looks whether the others are still alive


class Threads:
    """Runs a network. ``put`` and ``take`` may be called by one thread, or, once ``apart``, by two."""

    def __init__(self, network: Network, carry_on: bool) -> None:
        self.network, self._carry_on = network, carry_on
        self._front = Bell()  # who pushes
        self._back = self._front  # who takes; the same until somebody takes while another pushes
        self._feed, self._gather = network.at("feed"), network.at("gather")
        self._taken: deque[Message] = deque()
        self._threads: dict[int, tuple[Processor, threading.Thread]] = {}
        self._begun: list[
            tuple[Processor, threading.Thread]
        ] = []  # all that must end, also those not yet at work
        self._taker: int | None = (
            None  # the thread that takes; should it put too, nobody else empties the exit
        )
        self._stopping = False
        self.failure: tuple[Processor, BaseException | None] | None = None
        self.lost: list[Processor] = []  # cores that have failed while the others go on
        network.hang_bells(self._front, self._back)

    def set_apart(self) -> None:
        """From now on somebody else takes. Nothing may be on its way."""
        self._back = Bell()
        self.network.hang_bells(self._front, self._back)

    def start(self) -> None:
        for place, node in enumerate(self.network.at("core")):
            assert isinstance(node, Processor)
            self._spawn(place, node)

    def _spawn(self, place: int, core: Processor) -> None:
        thread = threading.Thread(
            target=self._serve, args=(place, core), name=f"watersmeet {core.name}", daemon=True
        )
        self._begun.append((core, thread))
        thread.start()
        self._threads[place] = (core, thread)  # not before: who takes would find it dead

    # ---- a core's thread ----------------------------------------------------------------------------------------

    def _serve(self, place: int, core: Processor) -> None:
        _pin(place)
        while not self._stopping:
            try:
                self._work(core)
            except BaseException as error:
                if self._stopping:
                    return
                if not self._goes_on(core):
                    self.failure = (core, error)
                    self._ring()
                    return

    def _work(self, core: Processor) -> None:
        bell, turn = core.bell, 0
        while not self._stopping:
            choices = core.choices()
            if not choices:
                bell.asleep = True
                choices = core.choices()
                if not choices and not self._stopping:
                    bell.wait(60.0)
                    continue
                bell.asleep = False
                if self._stopping:
                    return
            core.step(choices[turn % len(choices)])
            turn += 1

    def _goes_on(self, core: Processor) -> bool:
        """A core has failed: whether the others may go on, with a stand-in that answers for it."""
        if not self._carry_on or len(self.lost) + 1 >= len(self._threads) or core.missing is not None:
            return False
        self.lost.append(core)  # before anybody can see an answer that the core no longer gives itself
        try:
            core.fail()
        except Exception:
            self.lost.remove(core)
            return False
        self._ring()
        return True

    # ---- who pushes, and who takes ------------------------------------------------------------------------------

    def put(self, link: Link, message: Message) -> None:
        """Put a message on a link; wait while it is full."""
        if not self._threads:
            self.start()
        while link.full:
            self._move(self._feed)
            if self._front is self._back or threading.get_ident() == self._taker:
                self._collect()
            if link.full:
                self._sleep(self._front, lambda: link.full and not self._movable(self._feed))
        link.put(message)
        if self._feed:
            self._move(self._feed)

    def settle_feed(self) -> None:
        """Wait until everything that was put has left the feed."""
        while self._feed and any(link.messages for node in self._feed for link in node.inputs):
            self._move(self._feed)
            if self._front is self._back:
                self._collect()
            if any(link.messages for node in self._feed for link in node.inputs):
                self._sleep(self._front, lambda: not self._movable(self._feed))

    def take(self, timeout: float | None = None) -> Message | None:
        """The next message that leaves; None after ``timeout`` seconds without one."""
        self._taker = threading.get_ident()
        while True:
            if self._front is self._back:
                self._move(self._feed)
            self._collect()
            if self._taken:
                return self._taken.popleft()
            self._sleep(self._back, self._nothing_to_do, PATIENCE if timeout is None else timeout)
            if timeout is not None and not self._taken and self._nothing_to_do():
                return None

    def wake(self) -> None:
        """Let who waits in ``take`` with a timeout look around."""
        self._back.ring()

    def _nothing_to_do(self) -> bool:
        if self._front is self._back and self._movable(self._feed):
            return False
        return not self.network.exit.messages and not self._movable(self._gather)

    def _collect(self) -> None:
        while True:
            self._move(self._gather)
            link = self.network.exit
            if not link.messages:
                return
            while link.messages:
                self._taken.append(link.get())

    @staticmethod
    def _move(nodes: list[Node]) -> None:
        moved = True
        while moved:
            moved = False
            for node in nodes:
                while choices := node.choices():
                    node.step(choices[0])
                    moved = True

    @staticmethod
    def _movable(nodes: list[Node]) -> bool:
        return any(node.choices() for node in nodes)

    def _sleep(self, bell: Bell, still: Callable[[], bool], longest: float = PATIENCE) -> None:
        """Sleep until a link changes, unless there is something to do; look after the cores now and then."""
        self.check()
        bell.asleep = True
        if still() and self.failure is None and not self._stopping:
            bell.wait(min(longest, PATIENCE))
        bell.asleep = False
        self.check()

    def check(self) -> None:
        """Raise if a core has failed and the others do not go on."""
        if self._stopping:
            raise StateError(CLOSED)
        if self.failure is None:
            for place, (core, thread) in list(self._threads.items()):
                if not thread.is_alive():
                    if self._goes_on(core):
                        self._spawn(place, core)
                    else:
                        self.failure = (core, None)
        if self.failure is not None:
            core, error = self.failure
            why = "its thread has ended" if error is None else f"{type(error).__name__}: {error}"
            raise CoreFailed(
                f"{core.name} of {len(self._threads)} failed: {why}", core=core.position
            ) from error

    def _ring(self) -> None:
        self._front.ring()
        self._back.ring()

    def close(self) -> None:
        """End all threads; what is still on its way is lost. Always returns: a core that does not come back is left to itself."""
        self._stopping = True
        self._front.wake()
        self._back.wake()
        for core, _ in self._begun:
            core.bell.wake()
        deadline = time.monotonic() + GRACE
        for core, thread in self._begun:
            while (
                thread is not threading.current_thread() and thread.is_alive() and time.monotonic() < deadline
            ):
                core.bell.ring()
                thread.join(0.02)


def _pin(place: int) -> None:
    """Keep a core's thread on one processor, where the system allows it and there are enough."""
    with suppress(AttributeError, OSError):
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) > 1:
            os.sched_setaffinity(0, {allowed[place % len(allowed)]})
