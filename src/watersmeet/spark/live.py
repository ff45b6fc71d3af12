"""A core at work: the engine's join core, and which runs hold its rows. Pushed a batch, saved as a manifest, made again from one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.codes import Domain
from watersmeet.errors import DataError
from watersmeet.index.choose import Habits
from watersmeet.join.core import JoinCore
from watersmeet.join.core import Outcome as CoreOutcome
from watersmeet.join.matches import Matches
from watersmeet.join.snapshot import DONE, restore, snapshot
from watersmeet.spark.arrivals import BatchArrivals, Turn, keyword_turn, merged_turn
from watersmeet.spark.layout import Dealing, contents
from watersmeet.spark.runs import Run
from watersmeet.spark.spec import GUEST, Binding
from watersmeet.spark.wire import Received
from watersmeet.streams.clock import BOTTOM, time_domain
from watersmeet.streams.interleave import interleaving
from watersmeet.streams.payload import Chunks


@dataclass
class Outcome:
    """What a batch gave on one core."""

    matches: Matches
    chunks: Sequence[Chunks | None]  # where the rows of the matches lie
    late: tuple[pa.RecordBatch, pa.RecordBatch]  # each row once, on the one core that is to report it


class LiveCore:
    """One core of the join, in memory."""

    def __init__(self, bound: Binding, core: int) -> None:
        self.bound, self.number = bound, core
        self.section = bound.section(core)
        spec = bound.spec
        dealing = [
            Dealing(spec.cores, core - self.section.first) if bound.dealt(self.section, k) else Dealing()
            for k in (0, 1)
        ]
        self.dealing = dealing
        self.core = JoinCore(spec.streams, spec.windows, self.section.how, spec.index, "pairs", 1, None)
        self.arrivals = BatchArrivals(self.core.arrivals, dealing)
        self.core.open(bound.schemas, bound.axis)
        self.core.bind(bound.condition, bound.columns)
        self.runs: list[list[Run]] = [[], []]
        self.late = [0, 0]

    # ---- a batch ------------------------------------------------------------------------------------------------

    def push(self, received: Received) -> Outcome:
        """Join what was received. The watermark moves when all is done."""
        clock = self.core.arrivals.moved([received.latest(k) for k in (0, 1)])
        given = [received.stream(k, schema) for k, schema in enumerate(self.bound.schemas)]
        judged = [self._on_time(k, batch) for k, batch in enumerate(given)]
        kept = [batch for batch, _ in judged]
        turn = self._turn(kept, self._order(kept), clock)
        found = self._join(kept, turn)
        late = (judged[0][1], judged[1][1])
        self.late = [self.late[k] + late[k].num_rows for k in (0, 1)]
        return Outcome(found.matches, found.chunks, late)

    def finish(self) -> Outcome:
        """The streams have ended: who still waits for a partner has none."""
        found = self.core.finish()
        return Outcome(found.matches, found.chunks, self._nobody())

    def pass_by(self, received: Received) -> Outcome:
        """Read what was received and forget it: what the way alone costs."""
        for k, schema in enumerate(self.bound.schemas):
            received.stream(k, schema)
        return Outcome(Matches(), (None, None), self._nobody())

    def _nobody(self) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        left, right = (pa.RecordBatch.from_pylist([], schema=schema) for schema in self.bound.schemas)
        return left, right

    def _join(self, given: list[pa.RecordBatch], turn: Turn) -> CoreOutcome:
        """Store this core's share of the rows and probe with them; where both streams are dealt out, the others come as visitors."""
        mine = [self._mine(k, batch) for k, batch in enumerate(given)]
        times = [self.core.times(k, batch) for k, batch in enumerate(given)]
        number = [self.arrivals.numbering(k, turn, mine[k]) for k in (0, 1)]
        left, right = (self.arrivals.verdict(k, turn, mine[k], times[k], number[1 - k]) for k in (0, 1))
        visiting = []
        for k, (rows, batch) in enumerate(zip(mine, given, strict=True)):
            if rows is not None and mine[1 - k] is not None:
                others = np.delete(np.arange(batch.num_rows), rows)
                seen = self.arrivals.verdict(k, turn, others, times[k], number[1 - k])
                visiting.append((batch.take(pa.array(others)), seen))
        stored = [
            batch if rows is None else batch.take(pa.array(rows))
            for rows, batch in zip(mine, given, strict=True)
        ]
        admission = self.arrivals.admission(turn, (left, right), [batch.num_rows for batch in stored])
        found = self.core.push(stored, admission, visiting)
        self.core.commit()
        self.arrivals.totals = turn.totals
        return found

    def _mine(self, k: int, batch: pa.RecordBatch) -> np.ndarray | None:
        """Which rows this core stores; None: all. By number where windows count; else by content, which no order can change."""
        deal = self.dealing[k]
        if not self.bound.dealt(self.section, k):
            return None
        if self.bound.spec.windows[k].rows is not None:
            return deal.mine(int(self.arrivals.totals[k]), batch.num_rows)
        return np.flatnonzero(contents(batch) % np.uint64(deal.cores) == deal.core)

    def _on_time(self, k: int, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows that count, and those that are late and to be reported by this core."""
        without = None if self.bound.axis is None else self.bound.axis.timeless(k, batch)
        timed = batch if without is None else batch.filter(pa.array(~without))
        times, watermark = self.core.times(k, timed), self.core.arrivals.watermark
        if times is None or (without is None and (not times.size or int(times.min()) >= watermark)):
            return batch, batch.slice(0, 0)
        behind = np.ones(batch.num_rows, np.bool_) if without is None else without.copy()
        behind[slice(None) if without is None else ~without] = times < watermark
        return batch.filter(pa.array(~behind)), self._reported(batch.filter(pa.array(behind)))

    def _reported(self, late: pa.RecordBatch) -> pa.RecordBatch:
        if self.section.first:  # the first section reports
            return late.slice(0, 0)
        if self.bound.copies:
            guests = late.column(late.schema.get_field_index(GUEST)).to_numpy(zero_copy_only=False)
            return late.filter(pa.array(~guests))
        if self.bound.spec.spread == "counted" and self.number:  # everybody has all rows
            return late.slice(0, 0)
        return late

    def _order(self, kept: list[pa.RecordBatch]) -> np.ndarray | None:
        """The interleaving of the rows, where it can matter: that is where every core has all of them."""
        column = self.bound.spec.order
        if column is None or self.bound.spec.spread != "counted":
            return None
        types = [batch.schema.field(column).type for batch in kept]
        domain = time_domain(*types)
        assert domain is not None
        codes = [
            self._order_codes(domain, stream, batch)
            for stream, batch in zip(self.core.streams, kept, strict=True)
        ]
        return interleaving(column, self.core.streams, [batch.num_rows for batch in kept], codes)

    def _order_codes(self, domain: Domain, stream: str, batch: pa.RecordBatch) -> np.ndarray:
        column = self.bound.spec.order
        codes, valid = domain.codes(batch.column(batch.schema.get_field_index(column)))
        if valid is not None:
            raise DataError(
                f"order={column!r} must not be null; got null in stream {stream!r}; do: {stream}={stream}.where("
                f"{f'{column} IS NOT NULL'!r})"
            )
        return codes

    def _turn(self, kept: list[pa.RecordBatch], order: np.ndarray | None, clock: np.ndarray) -> Turn:
        sizes = [batch.num_rows for batch in kept]
        if order is None:
            return keyword_turn(self.arrivals, sizes, clock)
        times = [self.core.times(k, batch) for k, batch in enumerate(kept)]
        return merged_turn(self.arrivals, sizes, times, order, clock)

    # ---- as numbers and rows ------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        return snapshot(self.core)

    def habits(self) -> list[list[float]]:
        return [[h.batch, h.probes, h.matches, h.increasing] for h in self.core.habits]

    def done(self, k: int) -> np.ndarray | None:
        """Of the rows in sub-windows, which need no more attention; None: nobody asks."""
        mine = self.core.flags[k]
        if mine is None:
            return None
        flags = [mine.between(sub.base, sub.end) for sub in self.core.chains[k].subwindows]
        return np.concatenate(flags) if flags else np.empty(0, np.bool_)

    def restore(
        self,
        numbers: dict[str, Any],
        totals: list[int],
        tables: dict[int, pa.Table],
        habits: list[list[float]],
    ) -> None:
        """Take on a state. ``tables``: the rows of all sub-windows, with their flags."""
        restore(self.core, numbers, tables)
        self.arrivals.totals = np.array(totals, np.int64)
        self.core.habits[:] = [Habits(*values) for values in habits]

    @property
    def watermark(self) -> str | None:
        axis, watermark = self.bound.axis, self.core.arrivals.watermark
        return None if axis is None or watermark == BOTTOM else axis.text(watermark)


def with_flags(table: pa.Table, done: np.ndarray | None) -> pa.Table:
    """A table as the engine restores it."""
    flags = np.zeros(table.num_rows, np.bool_) if done is None else done
    return table.append_column(DONE, pa.array(flags))
