"""The network of a flow at work: built from what is written down whenever it is needed, ended whenever it no longer fits."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from watersmeet.flow.driver.pending import Gathered
from watersmeet.flow.models.base import Flow, Keeper, Sending
from watersmeet.flow.models.message import Found, Mark
from watersmeet.flow.options import FlowModel
from watersmeet.flow.runners.threads import Threads


class Running:
    """Cores, and who lets them move; neither, while nobody needs them."""

    runner_class: Callable[..., Any] = Threads

    def __init__(self, options: FlowModel, streams: int) -> None:
        self.options = options
        self.cores = options.cores_for(streams)  # that are left
        self.flow: Flow | None = None
        self.runner: Any = None
        self.trace: Callable[[Found, float], None] | None = (
            None  # for measurements: called with all that leaves
        )

    # ---- built and ended ----------------------------------------------------------------------------------------

    def start(self, build: Callable[[int], Flow], apart: bool) -> bool:
        """Build the network for so many cores, unless it is there; whether it was built. ``apart``: another thread takes results."""
        if self.runner is not None:
            return False
        flow = build(self.cores)
        runner = self.runner_class(flow.network, self.options.on_core_failure == "continue")
        if apart:
            runner.set_apart()
        self.flow, self.runner = flow, runner
        return True

    def stop(self) -> None:
        """End the network; what it holds can be built again."""
        runner = self.let_go()
        if runner is not None:
            try:
                runner.close()
            except BaseException:  # nobody else knows of its threads any more
                runner.close()
                raise

    def let_go(self) -> Any:
        """Forget the network, and return who lets it move: the caller must end it."""
        runner, self.runner, self.flow = self.runner, None, None
        return runner

    # ---- in and out ---------------------------------------------------------------------------------------------

    def send(self, flow: Flow, runner: Any, loads: Iterator[Any], mark: int) -> None:
        """Rows into the network, then the mark of their push."""
        for load in loads:
            load.entered = time.perf_counter()
            self.put(runner, flow.send(load))
        self.put(runner, flow.send_mark(Mark(mark)))

    def put(self, runner: Any, sending: Sending) -> None:
        for link, message in sending:
            runner.put(link, message)

    def gather_until(
        self, runner: Any, mark: int, streams: Sequence[str], gathered: Gathered
    ) -> tuple[int, int]:
        """All that leaves before a mark; returns the oldest rows that cores still hold."""
        while True:
            message = runner.take()
            self.noted(message)
            if isinstance(message, Mark):
                if message.number == mark:
                    return message.oldest
            else:
                gathered.add(streams, message)

    def noted(self, message: Any) -> None:
        """Something has left the network."""
        if self.flow is not None:
            self.flow.note(message)
        if self.trace is not None and isinstance(message, Found):
            self.trace(message, time.perf_counter())

    # ---- faults -------------------------------------------------------------------------------------------------

    @property
    def lost(self) -> Sequence[Keeper]:
        """Cores that have failed while the others go on."""
        return () if self.runner is None else self.runner.lost

    def missing_rows(self) -> dict[int, np.ndarray]:
        """Rows that were lost with a core: as stored rows they may miss partners."""
        found = {}
        for k in (0, 1):
            parts = [part for core in self.lost for part in (core.missing or [[], []])[k]]
            rows = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
            if rows.size:
                found[k] = rows
        return found

    def go_on(self, runner: Any) -> None:
        """With the cores that are left. The driver has the rows of the others, so from now on nothing is missing any more."""
        if runner.lost:
            self.stop()
            self.cores -= len(runner.lost)

    # ---- what the outside may ask --------------------------------------------------------------------------------

    def at_work(self) -> Sequence[Keeper]:
        flow = self.flow  # another thread may end it now
        return () if flow is None else flow.cores
