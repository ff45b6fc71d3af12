"""The rows of a flow, written down: payload, and the *ledger*: which rows there are, their times, who has found a partner.

The ledger is the chains of ``JoinCore`` without indexes. It knows nothing of cores: what those hold can be built from it at any time, and
what was written down can be taken back. For flows in which rows meet late it also has what each row may see, and where it stands.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.flow.driver.punctuate import punctuate, punctuate_without_results
from watersmeet.flow.driver.sight import NAMES, Sight
from watersmeet.flow.models.message import Found
from watersmeet.flow.order import Order, Punctuations
from watersmeet.flow.savepoint import Attributes, Savepoint
from watersmeet.index.base import Index
from watersmeet.index.choose import Habits
from watersmeet.join.chain import SubWindow
from watersmeet.join.core import JoinCore, Outcome, Pushed
from watersmeet.join.matches import Matches
from watersmeet.join.outer import How, matched, unmatched
from watersmeet.join.prepare import bare_block
from watersmeet.streams.arrival import Admission, Gone, Validity
from watersmeet.streams.clock import BOTTOM, TOP
from watersmeet.streams.payload import Chunks
from watersmeet.streams.window import Window

# What a push may replace, by object.
_PLANNED = Attributes("plan", "access", "borders", "replans", "_simple")
_ARRIVED = Attributes("counts", "clock")
_LEARNT = Attributes(*(one.name for one in fields(Habits)))
_CHAINED = Attributes("subwindows", "dropped")
_STORED = Attributes(*SubWindow.__slots__)
_KEPT = Attributes("chunks", "end", "_small")


@dataclass(slots=True, eq=False)
class Pending:
    """A push whose results have not all left."""

    mark: int
    rows: int
    started: float
    gone: tuple[Gone, ...]  # by stream, as of its end: what can never match again
    counts: np.ndarray  # as of its beginning, to go back to
    clock: np.ndarray
    ends: np.ndarray  # the counts as of its end


@dataclass(slots=True)
class Gathered:
    """What has left the network for one result."""

    matches: Matches = field(default_factory=Matches)
    marks: list[tuple[Punctuations, int]] = field(default_factory=list)
    rows: int = 0  # of ordered results so far

    def add(self, streams: Sequence[str], found: Found) -> None:
        if found.arranged is None:
            self.matches.pairs += found.matches.pairs
            self.matches.ranges += found.matches.ranges
            self.matches.counts += found.matches.counts
            return
        self.marks.append((punctuate(streams, found.load, found.arranged), self.rows))
        if found.arranged.left.size:
            self.rows += found.arranged.left.size
            self.matches.pairs.append((found.arranged.left, found.arranged.right))

    def add_alone(self, streams: Sequence[str], order: Order, pending: Pending) -> None:
        """A push that went nowhere, as the other stream has not begun: its rows have found nobody, and that is said."""
        sequence = int(pending.counts.sum())
        for k, (first, end) in enumerate(zip(pending.counts.tolist(), pending.ends.tolist(), strict=True)):
            marks = punctuate_without_results(streams, order, sequence, k, first, end - first)
            self.marks.append((marks, 0))
            sequence += end - first


class Ledger(JoinCore):
    """``JoinCore``'s outside, with the rows but no indexes inside."""

    def __init__(
        self,
        streams: Sequence[str],
        windows: Sequence[Window],
        how: How,
        index: str,
        mode: str,
        size: int | None,
        prompt: bool,
    ) -> None:
        self.prompt = prompt  # whether a row has met all others once its push is over
        self.mark = 0  # of the newest push
        super().__init__(streams, windows, how, index, mode, 1, size)

    def begin(self) -> None:
        super().begin()
        self.pending: deque[Pending] = deque()
        self.sights = None if self.prompt else (Sight(), Sight())
        self.borders: list[list[int]] | None = None  # between the rows of one core and the next

    def _indexes(self, k: int, capacity: int, previous: SubWindow | None) -> Sequence[Index]:
        """The ledger has no indexes."""
        return ()

    # ---- in and out ---------------------------------------------------------------------------------------------

    def savepoint(self) -> Savepoint:
        """All that a push may change here, to go back to while nothing else is on its way."""
        before = Savepoint(self.flags)
        before.keep(self, _PLANNED)
        before.keep_value(self, "_latest", list(self._latest))
        before.keep(self.arrivals, _ARRIVED)
        for k in (0, 1):
            chain, payload = self.chains[k], self.payload[k]
            before.keep(self.habits[k], _LEARNT)
            before.keep(chain, _CHAINED)
            before.keep_length(chain.subwindows)
            if chain.subwindows:  # the others are sealed
                before.keep(chain.subwindows[-1], _STORED)
            if payload is not None:
                before.keep(payload, _KEPT)
                before.keep_length(payload.chunks.batches)
                before.keep_length(payload.chunks.firsts)
            if self.sights is not None:
                self.sights[k].keep_in(before)
        return before

    def enter(self, pushed: Sequence[Pushed | None], admission: Admission) -> Pending:
        """Write the rows down: payload, ledger, numbers. If that fails, the caller goes back to a savepoint."""
        before, mark = (self.arrivals.counts, self.arrivals.clock), self.mark + 1
        rows = sum(mine.batch.num_rows for mine in pushed if mine is not None)
        for k, mine in enumerate(pushed):
            if mine is not None and mine.batch.num_rows:
                self._payload(k).append(mine.batch)
                self.insert(k, bare_block(mine.batch, mine.first, mine.arrived.times))
                if self.sights is not None:
                    self.sights[k].append(mine.first, mine.batch.num_rows, mine.arrived.of(1 - k))
        self.arrivals.stand_at(admission.counts, admission.clock)
        self.reach_flags()
        self._learn_sizes(pushed)
        for k, mine in enumerate(pushed):
            if mine is not None:
                self.note_latest(k, mine.batch, mine.arrived.times)
        pending = Pending(mark, rows, time.perf_counter(), admission.gone, *before, admission.counts)
        self.pending.append(pending)
        self.mark = mark
        return pending

    def back_to(self, counts: np.ndarray, clock: np.ndarray) -> None:
        """Take back the rows that have come since the counts and the clock stood so."""
        self.arrivals.stand_at(counts, clock)
        for k in (0, 1):
            payload, count = self.payload[k], int(counts[k])
            if payload is not None:
                payload.drop_from(min(count, payload.end))
                self.chains[k].drop_from(count)
            flags = self.flags[k]
            if flags is not None:
                flags.drop_from(count)
            if self.sights is not None:
                self.sights[k].drop_from(count)

    def outcome(self, gathered: Gathered, late: dict[int, pa.RecordBatch]) -> Outcome:
        """What has left, in the form of the join type."""
        matches = matched(self.how, gathered.matches, self.flags)
        outcome = Outcome(matches, late, self.chunks())
        outcome.punctuations = Punctuations.joined(self.streams, gathered.marks)
        return outcome

    def end_of_push(self, pending: Pending, oldest: tuple[int, int], matches: Matches) -> None:
        """All results of a push have left: emit who will never find a partner, forget what is over."""
        gone = list(pending.gone)
        if (
            self.sights is not None
        ):  # rows that are over may still have to meet others: what counts is who has left
            gone = [(min(oldest[k], int(pending.ends[k])), BOTTOM) for k in (0, 1)]
        matches.pairs += unmatched(self.how, self.flags, self.segments, gone)
        for k in (0, 1):
            self._expire(k, gone[k])
            if self.sights is not None:
                self.sights[k].drop_before(self.chains[k].first)

    def end_of_streams(self) -> Outcome:
        """No more rows: emit who has found nobody, forget everything."""
        outcome = Outcome(Matches(), {}, self.chunks())
        outcome.matches.pairs += unmatched(self.how, self.flags, self.segments, [(TOP, TOP)] * 2)
        for k in (0, 1):
            payload = self.payload[k]
            self.chains[k].expire(TOP, TOP)
            if payload is not None:
                payload.drop_before(payload.end)
        return outcome

    def gone_times(self, clock: np.ndarray) -> tuple[int, int]:
        """Time codes below which rows were over when the clock stood so."""
        first, second = self.arrivals.gone(self.arrivals.counts, clock)
        return first[1], second[1]

    def chunks(self) -> list[Chunks | None]:
        return [None if payload is None else payload.chunks for payload in self.payload]

    # ---- what is saved besides rows and flags --------------------------------------------------------------------

    def extra_numbers(self) -> dict[str, Any]:
        return {} if self.sights is None else {"borders": self.borders}

    def extra_columns(self, k: int, start: int, stop: int) -> dict[str, np.ndarray]:
        if self.sights is None:
            return {}
        seen = self.sights[k].between(start, stop)
        return {name: getattr(seen, name) for name in NAMES}

    def restore_extra(self, numbers: dict[str, Any]) -> None:
        self.borders = numbers.get("borders")

    def restore_columns(self, k: int, first: int, columns: dict[str, np.ndarray]) -> None:
        if self.sights is not None and columns:
            self.sights[k].append(first, columns[NAMES[0]].size, Validity(**columns))
