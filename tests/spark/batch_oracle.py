"""The oracle in micro-batches: rows are judged by the watermark of the batches before, and nothing waits within a batch."""

from collections.abc import Sequence
from typing import Any

from oracle import Event, Oracle, Pair

Ids = tuple[int | None, int | None]


class BatchOracle(Oracle):
    """The three-step procedure with Spark's clock: a batch is a push."""

    def batch(self, events: Sequence[Event]) -> tuple[list[Pair], list[Event]]:
        return self.by_push(events)

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
