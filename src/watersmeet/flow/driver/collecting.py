"""A flow whose pushes are collected until there are enough rows, or the first has waited long enough."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from watersmeet.errors import CoreFailed, StateError
from watersmeet.flow.collect import Batches, Collector, collecting_time
from watersmeet.flow.driver.driver import FlowCore
from watersmeet.flow.runners.threads import CLOSED
from watersmeet.flow.savepoint import Savepoint
from watersmeet.join.core import Outcome
from watersmeet.join.matches import Matches


class CollectingCore(FlowCore):
    """A flow whose pushes are collected, once both schemas are known."""

    def begin(self) -> None:
        most = self.options.granularity or self.kind.granularity
        self.collector = Collector(most, collecting_time(self.options.collect))
        super().begin()

    def push_through(self, batches: Batches, order: np.ndarray | None, turns: Sequence[int]) -> Outcome:
        """Keep rows until there are enough or their time is up; a push without rows lets through what there is."""
        collector = self.collector
        if self.plan is None:
            return super().push_through(batches, order, turns)
        for k, batch in enumerate(batches):
            self.times(k, batch)  # a time that cannot be used is refused by the push that brings it
        some = any(batch is not None and batch.num_rows for batch in batches)
        nothing = Outcome(Matches(), {}, self.chunks())
        if some:
            collector.add(batches, order, turns)
        try:
            if not some or collector.due():
                return self._let_through()
            with self.lock:
                if self.closed:
                    raise StateError(CLOSED)
                self.start()
            if self.streaming:
                self.runner.wake()  # who takes results from there must know when the time is up
            return nothing
        except BaseException:
            if some:
                collector.take_back()
            raise

    def _let_through(self) -> Outcome:
        """Everything that was collected goes through as one push."""
        outcome = super().push_through(*self.collector.together())
        self.collector.clear()
        return outcome

    def savepoint(self) -> Savepoint:
        before = super().savepoint()
        self.collector.keep_in(before)
        return before

    def flush_if_due(self) -> None:
        """Let rows through that have been collected for long enough.

        Only while nothing is on its way: who takes results must not wait until all of them have left.
        """
        if self.pending or not self.collector.due():
            return
        if self.pushing.acquire(blocking=False):  # else somebody pushes, and lets them through
            try:
                if self.collector.due() and not self.pending and not self.closed:
                    late = self.all_or_nothing(self._standing(), self._let_through).late
                    if late:
                        self.asides.append(Outcome(Matches(), late, self.chunks()))
            finally:
                self.pushing.release()

    def patience(self, longest: float) -> float:
        left = self.collector.left()
        return longest if left is None else min(longest, left)

    def advance_through(self, latest: Sequence[int | None]) -> Outcome:
        """What was collected came before."""
        collected = self._let_through() if self.collector.rows else None
        outcome = super().advance_through(latest)
        return outcome if collected is None else _one_after_the_other(collected, outcome)

    def finish_through(self) -> Outcome:
        collected = self._let_through() if self.collector.rows else None
        outcome = super().finish_through()
        return outcome if collected is None else _one_after_the_other(collected, outcome)

    def settled(self) -> None:
        # Rows that were collected have no arrival number yet; to let them through here would lose their results.
        if self.collector.rows:
            raise StateError(
                f"a join must have let all rows through to be saved; got {self.collector.rows:,} collected rows; call push() without "
                "rows, which lets them through and gives their results, then save"
            )
        super().settled()

    def restore(self, savepoint: Savepoint, newest: int, error: BaseException) -> None:
        super().restore(savepoint, newest, error)
        if isinstance(
            error, CoreFailed
        ):  # who pushes is told from which rows on: those that were collected too
            self.collector.clear()

    def go_back(self) -> None:
        self.collector.clear()  # what was collected came after what is undone
        super().go_back()

    def describe_flow(self) -> dict[str, Any]:
        most, seconds, waiting = self.collector.most, self.collector.seconds, self.collector.rows
        return {**super().describe_flow(), "collect": {"rows": most, "seconds": seconds, "waiting": waiting}}


def _one_after_the_other(first: Outcome, then: Outcome) -> Outcome:
    """The results of two pushes as one; those of the first come first, and all rows lie in its chunks."""
    matches = Matches(
        first.matches.pairs + then.matches.pairs,
        first.matches.ranges + then.matches.ranges,
        first.matches.counts + then.matches.counts,
    )
    return replace(first, matches=matches)
