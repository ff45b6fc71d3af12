"""The oracle in micro-batches: rows are judged by the watermark of the batches before, and nothing waits within a batch."""

from collections.abc import Sequence
from typing import Any

from oracle import Event, Oracle, Pair, Predicate, Step, Window

Ids = tuple[int | None, int | None]


class BatchOracle(Oracle):
    """The three-step procedure with Spark's clock: it moves when a batch is over, and who finds nobody is then told."""

    def __init__(self, condition: Predicate, r: Window, s: Window, how: str = "inner") -> None:
        super().__init__(condition, r, s, how)
        self.frozen: float | None = None

    def watermark(self) -> float:
        return super().watermark() if self.frozen is None else self.frozen

    def emit_unmatched(self, step: Step, ended: bool = False) -> None:
        if self.frozen is None:
            super().emit_unmatched(step, ended)

    def batch(self, events: Sequence[Event]) -> tuple[list[Pair], list[Event]]:
        self.frozen = super().watermark()
        steps = [self.arrive(stream, row) for stream, row in events]
        self.frozen = None
        last = Step()
        self.emit_unmatched(last)
        late = [event for event, step in zip(events, steps, strict=True) if step.late]
        return [pair for step in [*steps, last] for pair in step.pairs], late

    def ids(self, pairs: Sequence[Pair]) -> list[Ids]:
        return sorted(
            (
                tuple(self._id(side, number) for side, number in zip("rs", pair, strict=True))
                for pair in pairs
            ),
            key=repr,
        )  # type: ignore[return-value]

    def _id(self, side: str, number: int) -> Any:
        return None if number < 0 else self.stored[side][number].row["id"]


def arranged(events: Sequence[Event], order: bool) -> list[Event]:
    """A batch's rows as they arrive: by stream, or merged by time, each stream in its own order."""
    left, right = ([event for event in events if event[0] == side] for side in "rs")
    if not order:
        return left + right
    found: list[Event] = []
    while left or right:
        first = not right or (left and left[0][1]["ts"] <= right[0][1]["ts"])
        found.append((left if first else right).pop(0))
    return found
