"""When rows that were pushed go through: at once, or, with ``collect=``, when there are enough or the first has waited long enough."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from watersmeet.errors import StateError
from watersmeet.flow.collect import Batches, Collector, collecting_time
from watersmeet.flow.options import FlowModel
from watersmeet.join.outcome import Outcome


class Through(Protocol):
    """What an intake needs of a flow."""

    @property
    def joins(self) -> bool:
        """Whether all schemas are known."""

    def push_through(self, batches: Batches, order: np.ndarray | None, turns: Sequence[int]) -> Outcome: ...

    def refuse_times(self, batches: Batches) -> None:
        """Refuse times that cannot be used."""

    def wake(self) -> None:
        """Build the network, so that who takes results looks at the time."""

    def nothing(self) -> Outcome: ...


class Intake:
    """Rows go through at once."""

    rows = 0  # that wait

    def push(
        self, flow: Through, batches: Batches, order: np.ndarray | None, turns: Sequence[int]
    ) -> Outcome:
        return flow.push_through(batches, order, turns)

    def let_through(self, flow: Through) -> Outcome | None:
        """All that waits goes through as one push; None: nothing waits."""
        return None

    def due(self) -> bool:
        """Whether what waits should go through."""
        return False

    def patience(self, longest: float) -> float:
        """Seconds for which who takes results may wait before it asks what is due."""
        return longest

    def clear(self) -> None:
        """What waits is forgotten."""

    def refuse_saving(self) -> None:
        """Rows that wait have no arrival number yet; to let them through for a save would lose their results."""

    def held_back(self) -> Any:
        """All that waits, to be given to ``hold_back`` again."""
        return None

    def hold_back(self, pushes: Any) -> None: ...

    def mark(self) -> Any:
        """What ``back_to`` goes back to."""
        return None

    def back_to(self, mark: Any) -> None: ...

    def describe(self) -> dict[str, Any] | None:
        return None


class Collecting(Intake):
    """Rows are collected, once both schemas are known."""

    def __init__(self, most: int, seconds: float) -> None:
        self.collector = Collector(most, seconds)

    @property
    def rows(self) -> int:  # type: ignore[override]
        return self.collector.rows

    def push(
        self, flow: Through, batches: Batches, order: np.ndarray | None, turns: Sequence[int]
    ) -> Outcome:
        """Keep rows until there are enough or their time is up; a push without rows lets through what there is."""
        collector = self.collector
        if not flow.joins:
            return flow.push_through(batches, order, turns)
        flow.refuse_times(batches)  # by the push that brings them
        some = any(batch is not None and batch.num_rows for batch in batches)
        if not some:
            return self._let_through(flow)
        collector.add(batches, order, turns)
        try:
            if collector.due():
                return self._let_through(flow)
            flow.wake()
            return flow.nothing()
        except BaseException:
            collector.take_back()
            raise

    def _let_through(self, flow: Through) -> Outcome:
        outcome = flow.push_through(*self.collector.together())
        self.collector.clear()
        return outcome

    def let_through(self, flow: Through) -> Outcome | None:
        return self._let_through(flow) if self.collector.rows else None

    def due(self) -> bool:
        return self.collector.due()

    def patience(self, longest: float) -> float:
        left = self.collector.left()
        return longest if left is None else min(longest, left)

    def clear(self) -> None:
        self.collector.clear()

    def refuse_saving(self) -> None:
        if self.collector.rows:
            raise StateError(
                f"a join must have let all rows through to be saved; got {self.collector.rows:,} collected rows; call push() without "
                "rows, which lets them through and gives their results, then save"
            )

    def held_back(self) -> Any:
        return self.collector.together()

    def hold_back(self, pushes: Any) -> None:
        self.collector.add(*pushes)

    def mark(self) -> Any:
        return self.collector.mark()

    def back_to(self, mark: Any) -> None:
        self.collector.back_to(mark)

    def describe(self) -> dict[str, Any] | None:
        collector = self.collector
        return {"rows": collector.most, "seconds": collector.seconds, "waiting": collector.rows}


def intake_for(options: FlowModel, granularity: int) -> Intake:
    if options.collect is None:
        return Intake()
    return Collecting(options.granularity or granularity, collecting_time(options.collect))
