"""What the steps of a flow cost on this machine: short real runs of the real nodes, for the simulation and the model.

What stays true: each cost is a median over many steps, so that a thread that is held up now and then does not count; a core's step is
timed with few and with many stored rows, and the difference is what the comparisons cost.
"""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import repeat

import numpy as np

from watersmeet.bench.flow_simulation import Setting, arrivals, prepared
from watersmeet.flow.models.gather import Distributor, Funnel
from watersmeet.flow.models.load import Load
from watersmeet.flow.models.message import Found, Mark
from watersmeet.flow.network import Bell, Link, Node
from watersmeet.flow.runners.simulate import Costs
from watersmeet.join.matches import Matches

FEW, MANY = 1024, 131_072  # stored rows of a core's timed steps
STEPS = 400


def calibrate(flows: Sequence[str], steps: int = STEPS, many: int = MANY) -> dict[str, Costs]:
    """Measure everything: links and trees once, a core's steps for each flow. About a second a flow."""
    message, link = _message(steps), _handover(steps)
    load = Load(0, (), 0, 1, (0, 0), (0, 0))
    found = Found(0, load, Matches(), None, 0.0, 0.0)
    feed = _step(Distributor("distributor", [Link(4)], [Link(4)]), load, steps) - 2 * message
    gather = _step(Funnel("funnel", [Link(4), Link(4)], [Link(4)]), found, steps) - 2 * message
    control = _control(steps) - 2 * message
    shared = {"feed": feed, "gather": gather, "control": control}
    shared = {name: max(0.0, cost) for name, cost in shared.items()}
    return {
        flow: Costs(
            link=link, message=message, **shared, **_probing(flow, shared["control"], message, steps, many)
        )
        for flow in flows
    }


def _probing(flow: str, control: float, message: float, steps: int, many: int) -> dict[str, float]:
    few = min(FEW, many // 2)
    spent = {rows: _core_step(flow, rows, steps) for rows in (few, many)}
    compare = max(1e-12, (spent[many] - spent[few]) / (many - few))
    return {"compare": compare, "probe": max(0.0, spent[few] - few * compare - 2 * message - control)}


def _median(timed: Callable[[], float], steps: int) -> float:
    for _ in range(min(20, steps)):
        timed()
    return float(np.median([timed() for _ in range(steps)]))


def _message(steps: int) -> float:
    """To put a message on a link, or to take it."""
    link = Link(4)
    rounds = 50

    def timed() -> float:
        start = time.perf_counter()
        for _ in repeat(None, rounds):
            link.put(link)
            link.get()
        return (time.perf_counter() - start) / (2 * rounds)

    return _median(timed, max(10, steps // 10))


def _step(node: Node, message: object, steps: int) -> float:
    """A look at what can be done, and a step."""

    def timed() -> float:
        node.inputs[0].put(message)
        start = time.perf_counter()
        node.step(node.choices()[0])
        spent = time.perf_counter() - start
        node.outputs[0].get()
        return spent

    return _median(timed, steps)


def _control(steps: int) -> float:
    """A core's step that does not probe."""
    flow, _, _ = prepared(Setting("split_join", 1, held=64), 1)
    return _step(flow.cores[0], Mark(0), steps)


def _core_step(flow: str, rows: int, steps: int) -> float:
    """The step in which a core is given one row and probes ``rows`` stored ones: the longest of those that a row means."""
    made, shares, _ = prepared(Setting(flow, 1, held=rows), steps)
    core = made.cores[0]
    # The trees around a single core are not to be timed.
    sendings = (sending for _, sending in arrivals(made, shares, steps, 1.0, [], None))
    feed = made.network.at("feed")

    def timed() -> float:
        longest = 0.0
        for link, message in next(sendings):
            link.put(message)
        for node in feed:
            while node.choices():
                node.step(0)
        while choices := core.choices():
            start = time.perf_counter()
            core.step(choices[0])
            longest = max(longest, time.perf_counter() - start)
            core.results.messages.clear()
        return longest

    return _median(timed, 2 * steps - 20)


def _handover(steps: int) -> float:
    """From one thread to another that sleeps until it comes: half of there and back."""
    there, back = Link(4), Link(4)
    there.reader, back.reader = Bell(), Bell()

    def wait(link: Link) -> None:
        while not link.messages:
            link.reader.asleep = True
            if not link.messages:
                link.reader.wait(1.0)
            link.reader.asleep = False
        link.get()

    def other() -> None:
        for _ in range(steps + min(20, steps)):
            wait(there)
            back.put(None)

    thread = threading.Thread(target=other, name="watersmeet handover", daemon=True)
    thread.start()

    def timed() -> float:
        start = time.perf_counter()
        there.put(None)
        wait(back)
        return (time.perf_counter() - start) / 2

    found = _median(timed, steps)
    thread.join()
    return found
