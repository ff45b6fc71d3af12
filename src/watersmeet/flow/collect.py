"""PanJoin's first step: rows are collected until there are enough for a batch, or the first has waited long enough (panjoin.txt III.A, E).

Collecting is about when rows go through, never about what they see: they go through in the order in which they came, as one push whose
streams are interleaved. A row has *arrived* when it goes through; until then it has no arrival number and no result.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.streams.window import nanoseconds

Batches = Sequence[pa.RecordBatch | None]


def collecting_time(collect: object) -> float:
    """Seconds, from ``collect=``: a text like "10 ms", or a number of seconds."""
    if isinstance(collect, bool) or not isinstance(collect, str | int | float):
        raise OptionError(f"collect= must be a text like '10 ms' or a number of seconds; got {collect!r}")
    seconds = float(nanoseconds(collect) / 10**9) if isinstance(collect, str) else float(collect)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise OptionError(f"collect= must be finite and not negative; got {collect!r}")
    return seconds


class Collector:
    """Pushes that wait to go through as one."""

    def __init__(self, rows: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.seconds, self.clock = rows, seconds, clock
        self.rows = 0  # that wait
        self._pushes: list[tuple[Batches, np.ndarray]] = []
        self._since = 0.0  # when the first of them came

    def add(self, batches: Batches, order: np.ndarray | None, turns: Sequence[int]) -> None:
        """Keep a push. ``order``: stream of each row; None: one stream after the other, as ``turns`` says."""
        if order is None:
            sizes = [0 if batch is None else batch.num_rows for batch in batches]
            order = np.repeat(np.array(turns, np.uint8), [sizes[k] for k in turns])
        if not self._pushes:
            self._since = self.clock()
        self._pushes.append((list(batches), order))
        self.rows += order.size

    def mark(self) -> tuple[Any, ...]:
        """What ``back_to`` goes back to."""
        return self.rows, self._pushes, len(self._pushes), self._since

    def back_to(self, mark: tuple[Any, ...]) -> None:
        self.rows, pushes, length, self._since = mark
        self._pushes = pushes[:length]

    def left(self) -> float | None:
        """Seconds until the first row has waited long enough; None: nobody waits."""
        return max(0.0, self._since + self.seconds - self.clock()) if self._pushes else None

    def due(self) -> bool:
        """Whether what has been collected should go through."""
        return bool(self._pushes) and (self.rows >= self.most or self.left() == 0.0)

    def together(self) -> tuple[list[pa.RecordBatch | None], np.ndarray | None, tuple[int, int]]:
        """All that waits as one push: batches, order, turns. Nothing is forgotten yet: the push may fail."""
        batches = [_joined([batches[k] for batches, _ in self._pushes]) for k in (0, 1)]
        order = np.concatenate([np.empty(0, np.uint8), *(order for _, order in self._pushes)])
        first = int(order[0]) if order.size else 0
        if np.count_nonzero(order[1:] != order[:-1]) <= 1:  # one stream after the other, as without an order
            return batches, None, (first, 1 - first)
        return batches, order, (first, 1 - first)

    def take_back(self) -> None:
        """The newest push was refused: it never came."""
        if self._pushes:
            self.rows -= self._pushes.pop()[1].size

    def clear(self) -> None:
        self._pushes, self.rows = [], 0


def _joined(batches: Batches) -> pa.RecordBatch | None:
    given = [batch for batch in batches if batch is not None]
    if len(given) > 1:
        return pa.concat_batches(given)
    return given[0] if given else None
