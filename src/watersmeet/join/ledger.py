"""What a join has written down: the rows of its streams, their numbers and times, who has found a partner.

Rows are the state. Indexes, networks and plans are made from them, at any time, and what was written down can be taken back: a *mark* is
references and lengths, as lists of chunks and sub-windows only grow or are replaced. The engine and the flows each hold one ledger.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.join.chain import Block, Chain, Part, SubWindow
from watersmeet.join.flags import Flags
from watersmeet.join.matches import Matches
from watersmeet.join.outcome import Outcome
from watersmeet.join.outer import How, matched, unmatched
from watersmeet.join.prepare import SLICE
from watersmeet.join.sights import sights_for
from watersmeet.streams.arrival import Admission, Arrivals, Arrived, Gone
from watersmeet.streams.clock import BOTTOM, TOP, TimeAxis
from watersmeet.streams.payload import Chunks, Payload
from watersmeet.streams.window import Window

MOST = 64  # times as many rows as there are: no window is expected to have more
Standing = tuple[Any, ...]
"""Counts, clock, and the marks of all that goes by arrival number."""


@dataclass(slots=True)
class Pushed:
    """One stream's rows of a push, judged: what was accepted, as it will be stored, and what was late."""

    batch: pa.RecordBatch
    arrived: Arrived
    late: pa.RecordBatch | None
    first: int
    hidden: np.ndarray | None = None  # mask: stored for others, and late here
    cuts: Sequence[tuple[int, int]] | None = (
        None  # where to cut the rows into slices, if somebody else says so
    )
    # The rows in slices, each with what it may see; empty until the condition is bound.
    parts: list[Part] = field(default_factory=list)
    visitors: "Pushed | None" = None  # rows that probe and are not stored


class Ledger:
    """Rows and numbers of some streams, as one join reads them."""

    def __init__(
        self, streams: Sequence[str], windows: Sequence[Window], how: How, by_push: bool = False
    ) -> None:
        self.streams, self.windows, self.how = tuple(streams), tuple(windows), how
        self.places = range(len(self.streams))
        self.arrivals = Arrivals(self.windows, by_push)
        self.payload: list[Payload | None] = [None for _ in self.places]
        self.keeps_rows = (
            True  # whether it stores the payload itself; else somebody else does, for several readers
        )
        self.chains = [Chain(0, timed) for timed in self.arrivals.timed]
        self.flags = [Flags() if how.tracks(k) else None for k in self.places]
        self.backsights = (
            sights_for(self.arrivals.timed) if len(self.streams) > 2 else [None for _ in self.places]
        )
        self.finds_few = False  # whether a probe finds few candidates among all that is stored, most of which it may not see
        self.fixed = False  # whether all schemas are known, and with them the axis of time for good
        # Until then the axis may change its unit: then the largest times must be coded anew.
        self._latest: list[pa.Array | None] = [None for _ in self.places]

    # ---- schemas ------------------------------------------------------------------------------------------------

    def open(self, schemas: Sequence[pa.Schema | None], axis: TimeAxis | None) -> None:
        """Schemas of streams have become known (None: nothing new), and with them the axis of time."""
        for k, schema in enumerate(schemas):
            if schema is not None and self.keeps_rows:
                self.payload[k] = Payload(schema, schema.names)
        timed = [k for k in self.places if self.arrivals.timed[k]]
        if axis is None or (self.arrivals.axis is not None and all(schemas[k] is None for k in timed)):
            return  # the axis is that of the times, and there are no new ones
        latest = [
            None if column is None else axis.column_codes(k, column) for k, column in enumerate(self._latest)
        ]
        self.arrivals.change_axis(axis, latest)
        for k in timed:
            for sub in self.chains[k].subwindows:
                sub.set_times(axis.codes(k, self.payload_of(k).rows_between(sub.base, sub.end)))
        if any(self.backsights):
            times = {k: self._times_so_far(k) for k in timed}
            for seen in self.backsights:
                if seen is not None:
                    seen.change_axis(axis, times)

    def _times_so_far(self, k: int) -> np.ndarray:
        """The codes of all times of a timed stream. Until all timed streams are known the watermark has not begun, and no row has gone."""
        parts = [sub.times[: sub.count] for sub in self.chains[k].subwindows if sub.times is not None]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def fix(self, columns: Sequence[Sequence[str]]) -> None:
        """All schemas are known. ``columns``: what must be kept of each stream."""
        if self.keeps_rows:
            for k in self.places:
                self.payload_of(k).keep_columns(columns[k])
        self.fixed = True

    def read_rows_of(self, payload: Sequence[Payload]) -> None:
        """The rows are stored by somebody else, and this is one of their readers. Late rows have numbers, as all others."""
        self.payload[:] = payload
        self.keeps_rows, self.arrivals.number_late = False, True

    def start_at(self, counts: np.ndarray) -> None:
        """Rows before these numbers are none of this join's business."""
        self.arrivals.stand_at(counts, self.arrivals.clock)
        for k, count in enumerate(counts.tolist()):
            self.chains[k].dropped = count
            flags = self.flags[k]
            if flags is not None:
                flags.start_at(count)

    def payload_of(self, k: int) -> Payload:
        payload = self.payload[k]
        assert payload is not None
        return payload

    # ---- who comes ----------------------------------------------------------------------------------------------

    def admit(
        self, batches: Sequence[pa.RecordBatch | None], order: np.ndarray | None, turns: Sequence[int]
    ) -> Admission:
        """Judge the rows of a push, and change nothing."""
        sizes = [0 if batch is None else batch.num_rows for batch in batches]
        times = [self.times(k, batch) for k, batch in enumerate(batches)]
        return self.arrivals.admit(sizes, times, order, turns)

    def times(self, k: int, batch: pa.RecordBatch | None) -> np.ndarray | None:
        if not self.arrivals.timed[k]:
            return None
        if batch is None:
            return np.empty(0, np.int64)
        assert self.arrivals.axis is not None
        return self.arrivals.axis.codes(k, batch)

    def judged(self, batches: Sequence[pa.RecordBatch | None], admission: Admission) -> list[Pushed | None]:
        """The rows of a push as they will be stored."""
        return [
            None if batch is None else self.one_judged(k, batch, admission.arrived[k])
            for k, batch in enumerate(batches)
        ]

    def one_judged(self, k: int, batch: pa.RecordBatch, arrived: Arrived) -> Pushed:
        late = None
        if arrived.late is not None:
            late = batch.filter(pa.array(arrived.late))
            if self.arrivals.number_late:
                return Pushed(batch, arrived, late, int(self.arrivals.counts[k]), arrived.late)
            batch = batch.filter(pa.array(~arrived.late))
        columns = self.payload_of(k).columns
        if len(columns) != batch.num_columns:
            batch = batch.select(columns)
        return Pushed(batch, arrived, late, int(self.arrivals.counts[k]))

    def enter(self, pushed: Sequence[Pushed | None], admission: Admission) -> None:
        """Write rows and numbers down; sub-windows are the caller's business. If anything fails, the caller goes back to a mark."""
        for k, mine in enumerate(pushed):
            if mine is None:
                continue
            if self.keeps_rows:
                payload = self.payload_of(k)
                payload.append(mine.batch)
                if mine.visitors is not None:
                    payload.append(mine.visitors.batch)
            seen = self.backsights[k]
            if seen is not None and mine.batch.num_rows:
                seen.append(mine.first, mine.batch.num_rows, mine.arrived.sees)
        self.arrivals.stand_at(admission.counts, admission.clock)
        self.reach_flags()
        for k, mine in enumerate(pushed):
            flags = self.flags[k]
            if mine is not None and mine.hidden is not None and flags is not None:
                flags.match(np.flatnonzero(mine.hidden) + mine.first)  # nobody waits for them

    def reach_flags(self) -> None:
        """The rows that have come have flags."""
        for k, flags in enumerate(self.flags):
            if flags is not None:
                flags.reach(int(self.arrivals.counts[k]))

    def note_latest_of(self, pushed: Sequence[Pushed | None]) -> None:
        for k, mine in enumerate(pushed):
            if mine is not None:
                self.note_latest(k, mine.batch, mine.arrived.times)

    def note_latest(self, k: int, batch: pa.RecordBatch, times: np.ndarray | None) -> None:
        """Keep the row with the largest time seen of stream k: for as long as the axis of time may change."""
        axis = self.arrivals.axis
        if axis is not None and times is not None and times.size:
            newest = int(times.argmax())
            if self._latest[k] is None or times[newest] >= self.arrivals.clock[k]:
                self._latest[k] = batch.column(axis.columns[k]).slice(newest, 1)

    # ---- what there is ------------------------------------------------------------------------------------------

    @property
    def segments(self) -> list[list[SubWindow]]:
        return [chain.subwindows for chain in self.chains]

    def chunks(self) -> list[Chunks | None]:
        return [None if payload is None else payload.chunks for payload in self.payload]

    def newest(self, k: int, rows: int) -> pa.RecordBatch:
        """The newest rows of stream k, so many at most."""
        payload = self.payload_of(k)
        return payload.rows_between(max(payload.first, payload.end - rows), payload.end)

    def long_enough(self, sub: SubWindow) -> bool:
        """Whether a sub-window covers so much time that the next rows are better off in a new one."""
        axis = self.arrivals.axis
        if axis is None or sub.times is None or sub.count < SLICE:
            return False
        return axis.windows_between(sub.min_time, sub.max_time, self.finds_few) > 0.5

    def expected(self, k: int, block: Block) -> int | None:
        """How many rows of stream k its window of time will have, if they go on to come as those did that are here; None: unknown.

        Without this a window that fills gets a sub-window each time that it has doubled, and each is probed by itself.
        """
        axis, times = self.arrivals.axis, block.times
        if axis is None or times is None or not block.count:
            return None
        subwindows = self.chains[k].subwindows
        first = min((sub.min_time for sub in subwindows), default=TOP)
        last = max((sub.max_time for sub in subwindows), default=BOTTOM)
        first, last = min(first, int(times.min())), max(last, int(times.max()))
        windows = axis.windows_of(k, first, last, self.finds_few)
        rows = self.chains[k].rows + block.count
        # A burst of rows does not say that it goes on for a window.
        return int(rows / max(windows, 1 / MOST)) if rows >= SLICE and windows > 0 else None

    # ---- who goes -----------------------------------------------------------------------------------------------

    def settle(self, matches: Matches, gone: Sequence[Gone]) -> Matches:
        """Turn pairs into what the join type asks for, and emit who will never find a partner."""
        settled = matched(self.how, matches, self.flags)
        settled.pairs += unmatched(self.how, self.flags, self.segments, gone)
        return settled

    def expire(self, k: int, gone: Gone) -> None:
        """Forget rows of stream k that are over, where whole sub-windows are."""
        chain, payload = self.chains[k], self.payload[k]
        if chain.subwindows and chain.expire(*gone) and payload is not None:
            if self.keeps_rows:
                payload.drop_before(chain.first)
            for kept in (self.flags[k], self.backsights[k]):
                if kept is not None:
                    kept.drop_before(chain.first)

    def end(self) -> Outcome:
        """No more rows: emit who has found nobody, forget everything."""
        outcome = Outcome(Matches(streams=len(self.streams)), {}, self.chunks())
        outcome.matches.pairs += unmatched(
            self.how, self.flags, self.segments, [(TOP, TOP)] * len(self.streams)
        )
        for k, payload in enumerate(self.payload):
            self.chains[k].expire(TOP, TOP)
            if payload is not None and self.keeps_rows:
                payload.drop_before(payload.end)
        return outcome

    # ---- all or nothing -----------------------------------------------------------------------------------------

    def mark(self) -> Standing:
        """Where everything stands: what ``back_to`` goes back to."""
        return (
            self.arrivals.counts,
            self.arrivals.clock,
            [one.mark() if one is not None and self.keeps_rows else None for one in self.payload],
            [chain.mark() for chain in self.chains],
            self._latest[:],
            None if self.how.name == "inner" else [None if one is None else one.mark() for one in self.flags],
            None if len(self.streams) == 2 else [None if one is None else one.mark() for one in self.backsights],
        )  # fmt: skip

    def back_to(self, mark: Standing) -> None:
        """As it was at the mark, but for the indexes: those must be made anew. Only names are bound and flags set; may be repeated."""
        counts, clock, payloads, chains, latest, flags, sights = mark
        self.arrivals.stand_at(counts, clock)
        for payload, payload_mark in zip(self.payload, payloads, strict=True):
            if payload is not None and payload_mark is not None:
                payload.back_to(payload_mark)
        for chain, chain_mark in zip(self.chains, chains, strict=True):
            chain.back_to(chain_mark)
        for kept, marks in ((self.flags, flags), (self.backsights, sights)):
            for one, one_mark in zip(kept, marks or (), strict=False):
                if one is not None:
                    one.back_to(one_mark)
        self._latest = list(latest)

    def drop_from(self, counts: np.ndarray, clock: np.ndarray) -> None:
        """Take back the rows that have come since counts and clock stood so; their sub-windows have no indexes."""
        self.arrivals.stand_at(counts, clock)
        for k, payload in enumerate(self.payload):
            count = int(counts[k])
            if payload is not None:
                payload.drop_from(min(count, payload.end))
                self.chains[k].drop_from(count)
            flags = self.flags[k]
            if flags is not None:
                flags.drop_from(count)
            seen = self.backsights[k]
            if seen is not None:
                seen.drop_from(count)
