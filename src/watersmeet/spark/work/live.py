"""A core at work: the engine's join core, and which runs hold its rows. Pushed a batch, saved as a manifest, made again from one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.index.choose import Habits
from watersmeet.join.engine import JoinEngine
from watersmeet.join.matches import Matches
from watersmeet.join.outcome import Outcome
from watersmeet.join.snapshot import restore, snapshot
from watersmeet.spark.shuffle.layout import Layout, Router, contents, dealings
from watersmeet.spark.shuffle.wire import Received
from watersmeet.spark.spec import GUEST, Binding
from watersmeet.spark.state.core_state import CoreState, StoredRows
from watersmeet.spark.state.runs import Run
from watersmeet.spark.work.arrivals import BatchArrivals, Turn, keyword_turn, merged_turn
from watersmeet.streams.batch import one_batch
from watersmeet.streams.clock import BOTTOM
from watersmeet.streams.interleave import interleaving, order_codes
from watersmeet.streams.payload import Chunks


@dataclass
class BatchResult:
    """What a batch gave on one core."""

    matches: Matches
    chunks: Sequence[Chunks | None]  # where the rows of the matches lie
    late: tuple[pa.RecordBatch, ...]  # by stream; each row once, on the one core that is to report it


class LiveCore:
    """One core of the join, in memory."""

    def __init__(self, bound: Binding, core: int) -> None:
        self.bound, self.number = bound, core
        self.section = bound.section(core)
        spec = bound.spec
        self.dealing = dealings(bound, core)
        self.engine = JoinEngine(spec.streams, spec.windows, self.section.how, spec.index, "pairs", 1, None)
        self.arrivals = BatchArrivals(self.engine.ledger.arrivals, self.dealing)
        self.engine.open(bound.schemas, bound.axis)
        self.engine.bind(bound.condition, bound.columns)
        self.runs: list[list[Run]] = [[] for _ in spec.streams]
        self.late = [0] * len(spec.streams)

    # ---- a batch ------------------------------------------------------------------------------------------------

    def begin(self, tables: Mapping[int, pa.RecordBatch], layouts: tuple[Layout, ...]) -> None:
        """The rows of static tables come, before all others."""
        given = [schema.empty_table() for schema in self.bound.schemas]
        for k, rows in tables.items():
            given[k] = pa.Table.from_batches([self._share(k, rows, layouts)])
        batches = [one_batch(table) for table in given]
        self._join(batches, self._turn(batches, None, self.engine.ledger.arrivals.clock))

    def _share(self, k: int, rows: pa.RecordBatch, layouts: tuple[Layout, ...]) -> pa.RecordBatch:
        """What this core gets of a table."""
        for core, places, copies in Router(self.bound, layouts).shares(k, rows):
            if core == self.number:
                taken = rows if places is None else rows.take(pa.array(places))
                guests = np.zeros(taken.num_rows, np.bool_) if copies is None else copies
                return taken.append_column(GUEST, pa.array(guests)) if self.bound.copies else taken
        return one_batch(self.bound.schemas[k].empty_table())

    def push(self, received: Received) -> BatchResult:
        """Join what was received. The watermark moves when all is done."""
        clock = self.engine.ledger.arrivals.moved([received.latest(k) for k in self.bound.stream_numbers])
        given = [received.stream(k, schema) for k, schema in enumerate(self.bound.schemas)]
        judged = [self._on_time(k, batch) for k, batch in enumerate(given)]
        kept = [batch for batch, _ in judged]
        turn = self._turn(kept, self._order(kept), clock)
        found = self._join(kept, turn)
        late = tuple(behind for _, behind in judged)
        self.late = [before + behind.num_rows for before, behind in zip(self.late, late, strict=True)]
        return BatchResult(found.matches, found.chunks, late)

    def finish(self) -> BatchResult:
        """The streams have ended: who still waits for a partner has none."""
        found = self.engine.finish()
        return BatchResult(found.matches, found.chunks, self._nobody())

    def pass_by(self, received: Received) -> BatchResult:
        """Read what was received and forget it: what the way alone costs."""
        for k, schema in enumerate(self.bound.schemas):
            received.stream(k, schema)
        return BatchResult(Matches(streams=len(self.runs)), [None] * len(self.runs), self._nobody())

    def _nobody(self) -> tuple[pa.RecordBatch, ...]:
        return tuple(pa.RecordBatch.from_pylist([], schema=schema) for schema in self.bound.schemas)

    def _join(self, given: list[pa.RecordBatch], turn: Turn) -> Outcome:
        """Store this core's share of the rows and probe with them; where both of two streams are dealt out, the others are visitors."""
        mine = [self._mine(k, batch) for k, batch in enumerate(given)]
        times = [self.engine.ledger.times(k, batch) for k, batch in enumerate(given)]
        number = [self.arrivals.numbering(k, turn, mine[k]) for k in self.bound.stream_numbers]
        arrived = tuple(
            self.arrivals.verdict(k, turn, mine[k], times[k], number) for k in self.bound.stream_numbers
        )
        visiting, dealt = [], [rows for rows in mine if rows is not None]
        for k, rows in enumerate(dealt if len(dealt) == len(given) else ()):
            others = np.delete(np.arange(given[k].num_rows), rows)
            seen = self.arrivals.verdict(k, turn, others, times[k], number)
            visiting.append((given[k].take(pa.array(others)), seen))
        stored = [
            batch if rows is None else batch.take(pa.array(rows))
            for rows, batch in zip(mine, given, strict=True)
        ]
        admission = self.arrivals.admission(turn, arrived, [batch.num_rows for batch in stored])
        found = self.engine.push(stored, admission, visiting)
        self.engine.commit()
        self.arrivals.totals = turn.totals
        return found

    def _mine(self, k: int, batch: pa.RecordBatch) -> np.ndarray | None:
        """Which rows this core stores; None: all. By number where numbers count; else by content, which no order can change."""
        deal = self.dealing[k]
        if deal.cores == 1:
            return None
        if self.bound.many or self.bound.spec.windows[k].rows is not None:
            return deal.mine(int(self.arrivals.totals[k]), batch.num_rows)
        return np.flatnonzero(contents(batch) % np.uint64(deal.cores) == deal.core)

    def _on_time(self, k: int, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows that count, and those that are late and to be reported by this core."""
        without = None if self.bound.axis is None else self.bound.axis.timeless(k, batch)
        timed = batch if without is None else batch.filter(pa.array(~without))
        times = self.engine.ledger.times(k, timed)
        late = None if times is None else self.engine.ledger.arrivals.behind(times)
        if late is None and without is None:
            return batch, batch.slice(0, 0)
        behind = np.zeros(batch.num_rows, np.bool_) if without is None else without.copy()
        if late is not None:
            behind[slice(None) if without is None else ~without] = late
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
        streams = self.engine.streams
        codes = order_codes(column, streams, [batch.schema for batch in kept], kept, self._without_place)
        return interleaving(column, streams, [batch.num_rows for batch in kept], codes)

    def _without_place(self, stream: str, row: int) -> DataError:
        column = self.bound.spec.order
        return DataError(
            f"order={column!r} must not be null; got null in stream {stream!r}; do: {stream}={stream}.where("
            f"{f'{column} IS NOT NULL'!r})"
        )

    def _turn(self, kept: list[pa.RecordBatch], order: np.ndarray | None, clock: np.ndarray) -> Turn:
        sizes = [batch.num_rows for batch in kept]
        if order is None:
            return keyword_turn(self.arrivals, sizes, clock)
        times = [self.engine.ledger.times(k, batch) for k, batch in enumerate(kept)]
        return merged_turn(self.arrivals, sizes, times, order, clock)

    # ---- as numbers and rows ------------------------------------------------------------------------------------

    def state(self) -> CoreState:
        """All but the rows."""
        habits = [[h.batch, h.probes, h.matches, h.increasing] for h in self.engine.planning.habits]
        totals, late = self.arrivals.totals.tolist(), list(self.late)
        return CoreState(snapshot(self.engine), totals, habits, late, self.runs, self.watermark)

    def stored(self, k: int) -> StoredRows:
        """The rows of stream k."""
        chain, payload = self.engine.ledger.chains[k], self.engine.ledger.payload[k]
        assert payload is not None
        end, sights = int(self.engine.ledger.arrivals.counts[k]), self.engine.ledger.backsights[k]
        seen = None if sights is None else sights.between
        return StoredRows(chain.first, end, chain.rows, payload, self._done(k), seen)

    def _done(self, k: int) -> np.ndarray | None:
        """Of the rows in sub-windows, which need no more attention; None: nobody asks."""
        mine = self.engine.ledger.flags[k]
        if mine is None:
            return None
        flags = [mine.between(sub.base, sub.end) for sub in self.engine.ledger.chains[k].subwindows]
        return np.concatenate(flags) if flags else np.empty(0, np.bool_)

    @classmethod
    def restored(cls, bound: Binding, core: int, state: CoreState, tables: dict[int, pa.Table]) -> "LiveCore":
        """A core of which this was left. ``tables``: the rows of all sub-windows, with their flags."""
        live = cls(bound, core)
        restore(live.engine, state.numbers, tables)
        live.arrivals.totals = np.array(state.totals, np.int64)
        live.engine.planning.habits[:] = [Habits(*values) for values in state.habits]
        live.runs, live.late = state.runs, state.late
        return live

    @property
    def watermark(self) -> str | None:
        axis, watermark = self.bound.axis, self.engine.ledger.arrivals.watermark
        return None if axis is None or watermark == BOTTOM else axis.text(watermark)
