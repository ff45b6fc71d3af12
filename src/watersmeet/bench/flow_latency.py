"""The latencies of SplitJoin section 7.3, from what real cores write on the results that leave.

*Distribution*: from when a row is given to the flow until a core begins with it. *Execution*: until the core is done. *Gathering*:
until the result has left. *End to end*: all of it. *Visiting*: from when the later of two rows was given to the flow until they were
compared, which is taken as half-way through the execution. Without an order, a core answers only for rows that it has found a partner
for.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from watersmeet.flow.driver.engine import FlowEngine
from watersmeet.flow.models.base import Sending
from watersmeet.flow.models.load import Load
from watersmeet.flow.models.message import Found

STAGES = ("distribution", "execution", "gathering", "end to end", "visiting")
MOST = 50_000  # results that are kept


class Latencies:
    """Listens to a core, while ``listening``."""

    def __init__(self, core: FlowEngine) -> None:
        self._core = core
        self._found: list[tuple[Found, float]] = []
        self._entered: list[tuple[int, int, int, float]] = []  # side, first row, row after the last, when
        self._since = 0.0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note everything that enters and leaves."""
        flow, core = self._core.running.flow, self._core
        assert flow is not None
        send = flow.send

        def noted(load: Load) -> Sending:
            for part in load.parts:
                self._entered.append((part.side, part.first, part.end, load.entered))
            return send(load)

        self._since = time.perf_counter()
        setattr(flow, "send", noted)  # noqa: B010 (a method, for a while)
        core.running.trace = self._left
        try:
            yield
        finally:
            core.running.trace = None
            del flow.__dict__["send"]

    def _left(self, found: Found, when: float) -> None:
        before = (
            self._core.kind.prompt and found.load.entered < self._since
        )  # still on its way when we began to listen
        if not before and len(self._found) < MOST:
            self._found.append((found, when))

    def summary(self, rate: float) -> dict[str, dict[str, float]]:
        """Mean and p99 in seconds, by stage. ``rate``: rows a second, at which the rows before are taken to have come."""
        if not self._found:
            return {}
        found: dict[str, Any] = {"visiting": self._visits(rate)}
        if self._core.kind.prompt:  # else a row is done with only when it leaves the window
            stages = [
                (f.begun - f.load.entered, f.done - f.begun, at - f.done, at - f.load.entered)
                for f, at in self._found
            ]
            found |= dict(zip(STAGES, np.array(stages).T, strict=False))
        return {
            name: {"mean": float(values.mean()), "p99": float(np.percentile(values, 99))}
            for name, values in found.items()
            if values.size
        }

    def _visits(self, rate: float) -> np.ndarray:
        entries = [self._entries(side) for side in (0, 1)]
        parts = []
        for found, _ in self._found:
            if found.arranged is not None:
                left, right = found.arranged.left, found.arranged.right
            else:
                left, right = found.matches.columns()
            later = np.maximum(_looked_up(entries[0], left, rate), _looked_up(entries[1], right, rate))
            parts.append((found.begun + found.done) / 2 - later)
        return np.concatenate(parts)

    def _entries(self, side: int) -> tuple[int, np.ndarray]:
        """Arrival number of the first row that was noted, and when each from there on came."""
        noted = [entry for entry in self._entered if entry[0] == side]
        if not noted:
            return 0, np.full(1, min(entry[3] for entry in self._entered))
        times = [np.full(end - first, when) for _, first, end, when in noted]
        return noted[0][1], np.concatenate(times)


def _looked_up(entries: tuple[int, np.ndarray], rows: np.ndarray, rate: float) -> np.ndarray:
    """When rows came; those before the first that was noted, at the same rate, half of them of this stream."""
    first, times = entries
    known = times[np.clip(rows - first, 0, times.size - 1)]
    return np.where(rows < first, times[0] - (first - rows) * 2.0 / rate, known)
