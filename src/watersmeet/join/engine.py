"""The engine: a chain a stream; probe, then store. Everything a push does, in order.

A push is all or nothing. What can be refused (schemas, null times, expressions) is refused before anything is changed. Then
``write_down`` notes how everything stands, and until the caller has said ``commit`` the push can be taken back, whatever has failed and
wherever: numbers, rows and flags are put back, and the indexes are made anew from the rows, which are the state.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.index.base import Index, PairBuffer
from watersmeet.join.access import PARALLEL, Access
from watersmeet.join.access import indexes as access_indexes
from watersmeet.join.chain import Block, Chain, Maker, SubWindow, always
from watersmeet.join.coding import Coding
from watersmeet.join.ledger import Ledger, Pushed
from watersmeet.join.matches import Matches
from watersmeet.join.outcome import Outcome
from watersmeet.join.outer import How
from watersmeet.join.planning import Planning
from watersmeet.join.pool import Pool, Task
from watersmeet.join.prepare import bare_block, out_of_sight, shown, slices
from watersmeet.join.short import ShortWay, few, is_simple
from watersmeet.sql.condition import BoundCondition
from watersmeet.streams.arrival import Admission, Arrived, Gone
from watersmeet.streams.clock import TimeAxis
from watersmeet.streams.window import Window


class Shelf(Protocol):
    """Where sub-windows of a stream are, if several joins read it: ``shared.py``."""

    def insert(self, chain: Chain, block: Block, indexes: Maker) -> None: ...

    def indexes(
        self, access: Access, k: int, base: int, rows: int, capacity: int, previous: SubWindow | None
    ) -> Sequence[Index]: ...


@dataclass(slots=True)
class Push:
    """A push on its way through a join."""

    pushed: Sequence[Pushed | None]  # by stream
    admission: Admission
    matches: Matches

    @property
    def rows(self) -> int:
        return sum(mine.batch.num_rows for mine in self.pushed if mine is not None)

    @property
    def late(self) -> dict[int, pa.RecordBatch]:
        return {
            k: mine.late for k, mine in enumerate(self.pushed) if mine is not None and mine.late is not None
        }


class JoinEngine:
    """Streams, joined exactly: two or more. Knows nothing of SQL text or output columns.

    Nothing that an engine holds refers back to it: its memory is free as soon as nobody holds it, and does not wait for the garbage
    collector, which arrays do not wake.
    """

    lock = None  # of its own: whoever calls takes turns

    def __init__(
        self,
        streams: Sequence[str],
        windows: Sequence[Window],
        how: How,
        index: str,
        mode: str,
        cores: int,
        size: int | None,
        probe_order: Mapping[int, Sequence[int]] | None = None,
        stash: str | int | None = None,
        by_push: bool = False,
    ) -> None:
        self.streams, self.windows, self.how, self.mode = tuple(streams), tuple(windows), how, mode
        self._by_push = by_push  # whether the watermark moves once after each push
        self.places = range(len(self.streams))
        self._said = (index, mode, size, probe_order, stash)
        self.pool = Pool(cores)
        self.seconds = 0.0  # that work of it has taken among others', also in pushes that were taken back
        self.begin()

    def begin(self) -> None:
        """Nothing has come yet."""
        self.ledger = Ledger(self.streams, self.windows, self.how, self._by_push)
        self.planning = Planning(self.ledger, *self._said)
        # By stream, where rows are stored for several joins: see ``shared.py``.
        self.shelves: Sequence[Shelf] | None = None
        self._short = ShortWay()
        self._simple = False  # whether a few rows may go the short way
        self._before: tuple[Any, ...] | None = (
            None  # how everything stood before a push that is not committed
        )
        self._stale = False  # whether the indexes hold other rows than the sub-windows

    # ---- set-up -------------------------------------------------------------------------------------------------

    def open(self, schemas: Sequence[pa.Schema | None], axis: TimeAxis | None) -> None:
        """Schemas of streams have become known (None: nothing new), and with them the axis of time."""
        self.ledger.open(schemas, axis)

    def bind(
        self, condition: BoundCondition, columns: Sequence[Sequence[str]], index: str | None = None
    ) -> None:
        """All schemas are known: from now on rows can be joined. ``columns``: what must be kept of each stream.

        ``index``: another kind than the one that was asked for.
        """
        self.planning.bind(condition, index or self._said[0])
        self.ledger.fix(columns)
        self.planning.skip_first()
        self.make_plan(self.planning.shares())

    def make_plan(self, shares: dict[str, float]) -> None:
        """Choose the driver by what the streams have shown, and index the stored rows by it."""
        if self.planning.make(shares):
            self.rebuild()
        self._simple = self.shelves is None and is_simple(self.planning)

    def rebuild(self) -> None:
        """Make the sub-windows anew from the stored rows, keeping their borders."""
        ledger, access = self.ledger, self.planning.access
        for k, old in enumerate(ledger.chains):
            chain = Chain(0 if access is None else access.checked(k), old.timed)
            chain.dropped = old.first
            for sub in old.subwindows:
                batch = ledger.payload_of(k).rows_between(sub.base, sub.end)
                times = None if sub.times is None else sub.times[: batch.num_rows]
                block = self._block(k, batch, sub.base, times)
                chain.renew(sub, block, partial(self._indexes, k, sub.base, block.count))
            old.become(chain)

    def _block(
        self,
        k: int,
        batch: pa.RecordBatch,
        first: int,
        times: np.ndarray | None,
        coding: Coding | None = None,
    ) -> Block:
        """Rows of stream k, ready to be stored."""
        access = self.planning.access
        if access is None:
            return bare_block(batch, first, times)
        return access.block(k, batch, first, times, coding)

    # ---- all or nothing -----------------------------------------------------------------------------------------

    def write_down(self) -> None:
        """From here on everything that changes can be taken back, until ``commit``. What was only learnt of the data stays learnt."""
        self._before = (self.ledger.mark(), self.planning.mark(), self._simple)

    def commit(self) -> None:
        """What was pushed counts. The caller has all that it needs: after this nothing may fail."""
        self._before = None

    def take_back(self) -> None:
        """Nothing was pushed: everything as ``write_down`` found it. Nothing is done where nothing is to be taken back.

        Only names are bound and flags set, so there is little that could fail; should it be interrupted all the same, it is done again,
        from the beginning, before the next push.
        """
        if self._before is None:
            return
        written, planned, self._simple = self._before
        self._stale = True
        self.ledger.back_to(written)
        self.planning.back_to(planned)
        if self.planning.access is not None:
            self.planning.access.forget(self.ledger.arrivals.counts)
        self._before = None

    def mend(self) -> None:
        """After a push that failed: indexes that hold the rows there are. Called before anything looks at them."""
        if self._before is not None:
            self.take_back()
        if self._stale:
            self.rebuild()
            self._stale = False

    # ---- one push -----------------------------------------------------------------------------------------------

    def arrive(
        self, batches: Sequence[pa.RecordBatch | None], order: np.ndarray | None, turns: Sequence[int]
    ) -> Outcome:
        """Join a push. ``order``: stream of each row; None: one stream after the other, as ``turns`` says."""
        if self._stale or self._before is not None:
            self.mend()
        if self._simple and few(batches):
            self.planning.forget_texts()
            found = self._short.push(self, batches, order, turns)
            if found is not None:
                return self._left(*found, {})
        return self.push(batches, self.ledger.admit(batches, order, turns))

    def push(
        self,
        batches: Sequence[pa.RecordBatch | None],
        admission: Admission,
        visiting: Sequence[tuple[pa.RecordBatch, Arrived]] = (),
    ) -> Outcome:
        """Join rows that have been judged.

        ``visiting``: where streams are stored on many cores, the rows that probe here and are stored elsewhere, with what
        they may see; of each stream, or of none.
        """
        if self._stale or self._before is not None:
            self.mend()
        self.planning.forget_texts()
        pushed = self.ledger.judged(batches, admission)
        for k, (visitors, arrived) in enumerate(visiting):
            self._let_in(pushed[k], self.ledger.one_judged(k, visitors, arrived))
        return self._apply(Push(pushed, admission, Matches(streams=len(self.streams))))

    def advance(self, latest: Sequence[int | None]) -> Outcome:
        """Streams have come to these times (codes; None: nothing new) without a row. Only clocks and watermark move."""
        self.mend()
        arrivals = self.ledger.arrivals
        admission = arrivals.nobody(arrivals.moved(latest))
        return self._apply(Push([None for _ in self.places], admission, Matches(streams=len(self.streams))))

    def replay(self, push: Push, capacities: Sequence[Sequence[int]], probed: bool) -> Outcome:
        """Rows that came before this join was made, as if it had been there: each slice becomes a sub-window of such a capacity.

        ``probed``: whether results are looked for too; an inner join needs none of them in order to go on.
        """
        access = self.planning.access
        assert access is not None
        self._run(self.preparing(push), push.rows)
        self.write_down()
        self.ledger.enter(push.pushed, push.admission)
        for k, mine in enumerate(push.pushed):
            for (block, _), capacity in zip([] if mine is None else mine.parts, capacities[k], strict=True):
                indexes = partial(self._indexes, k, block.first, block.count)
                self.ledger.chains[k].insert(block, partial(int, capacity), indexes, always)
        for streams in access.rounds() if probed else ():
            self._run(
                [task for k in streams for task in self._probes(push.pushed, k, push.matches)], push.rows
            )
            self._after()
        return self._left(push.matches, push.admission.gone, push.late)

    def _let_in(self, mine: Pushed | None, visitors: Pushed) -> None:
        """Visitors are numbered after the rows that stay, for as long as the push takes."""
        assert mine is not None
        visitors.first = mine.first + mine.batch.num_rows
        mine.visitors = visitors

    def _apply(self, push: Push) -> Outcome:
        """Store and probe."""
        rows = push.rows
        self._run(self.preparing(push), rows)
        self.enter(push)
        begun = time.perf_counter()
        for inserts, probes in self.rounds(push):
            self._run([*inserts, *probes], rows)
        self.planning.learn_time(rows, time.perf_counter() - begun)
        return self.leave(push)

    def preparing(self, push: Push, coding: Coding | None = None) -> list[Task]:
        """What can be done before anything is changed. ``coding``: of who pushes the same to other joins."""
        if self.planning.access is None:
            return []
        judged = [(k, mine) for k, mine in enumerate(push.pushed) if mine is not None]
        judged += [(k, mine.visitors) for k, mine in judged if mine.visitors is not None]
        interleaved = push.admission.interleaving is not None
        return [partial(self._prepare, k, mine, interleaved, coding) for k, mine in judged]

    def _prepare(
        self, k: int, mine: Pushed, interleaved: bool, coding: Coding | None, buffer: PairBuffer
    ) -> None:
        arrived, rows = mine.arrived, mine.batch.num_rows
        for start, stop in mine.cuts or self.cuts(mine, interleaved):
            if coding is not None:
                batch = coding.slice(mine.batch, start, stop)
            else:
                batch = mine.batch if stop - start == rows else mine.batch.slice(start, stop - start)
            times = None if arrived.times is None else arrived.times[start:stop]
            block = self._block(k, batch, mine.first + start, times, coding)
            if mine.hidden is not None:
                block.hidden = mine.hidden[start:stop]
            mine.parts.append((block, arrived.part(start, stop)))

    def cuts(self, mine: Pushed, interleaved: bool) -> list[tuple[int, int]]:
        """Where rows are best cut into slices."""
        axis, times = self.ledger.arrivals.axis, mine.arrived.times
        held = self.ledger.finds_few
        return list(slices(mine.batch.num_rows, self.windows, axis, times, interleaved, held))

    def enter(self, push: Push) -> None:
        """Write down. All rows of a push are in the payload before the first probe: a residual may need any of them."""
        self.write_down()
        self.ledger.enter(push.pushed, push.admission)
        self.planning.learn_sizes(push.pushed)

    def rounds(self, push: Push) -> Iterator[tuple[list[Task], list[Task]]]:
        """What is to be done, in lots of tasks that store and tasks that probe: all of one may run at the same time, and must be over
        before the next is asked for."""
        pushed, access = push.pushed, self.planning.access
        if push.admission.interleaving is None:
            for k in push.admission.turns:
                yield self._inserts(pushed, k, True), self._probes(pushed, k, push.matches)
                self._after()
            return
        yield [task for k in self.places for task in self._inserts(pushed, k, False)], []
        for streams in () if access is None else access.rounds():
            yield [], [task for k in streams for task in self._probes(pushed, k, push.matches)]
            self._after()

    def leave(self, push: Push) -> Outcome:
        """All tasks have run: what they found, in the form of the join type; what is over is forgotten."""
        ledger, pushed = self.ledger, push.pushed
        self.planning.learn_matches(pushed, push.matches)
        if not ledger.fixed:
            ledger.note_latest_of(pushed)
        outcome = self._left(push.matches, push.admission.gone, push.late)
        for k, mine in enumerate(pushed):
            if mine is not None and mine.visitors is not None:
                ledger.payload_of(k).drop_from(mine.visitors.first)
        return outcome

    def _left(self, matches: Matches, gone: Sequence[Gone], late: dict[int, pa.RecordBatch]) -> Outcome:
        ledger = self.ledger
        if self.how.name != "inner":
            matches = ledger.settle(matches, gone)
        outcome = Outcome(matches, late, ledger.chunks())  # has hold of the rows before any are dropped
        for k in self.places:
            ledger.expire(k, gone[k])
        self._replan()
        return outcome

    def _after(self) -> None:
        access = self.planning.access
        if access is not None and len(self.streams) > 2:
            access.after([chain.first for chain in self.ledger.chains])

    def _replan(self) -> None:
        """Think again of the plan, when all streams have first shown enough rows, or many streams something new."""
        planning = self.planning
        if planning.first_due():
            planning.replans = planning.replans[1:]
            self.make_plan(planning.shares())
        elif planning.learnt_due():
            self.make_plan(planning.shares())

    def _run(self, tasks: list[Task], rows: int) -> None:
        self.pool.run(tasks, parallel=rows >= PARALLEL)

    # ---- store --------------------------------------------------------------------------------------------------

    def _inserts(self, pushed: Sequence[Pushed | None], k: int, in_turn: bool) -> list[Task]:
        mine = pushed[k]
        if mine is None or not mine.batch.num_rows:
            return []
        blocks = [block for block, _ in mine.parts] or [
            bare_block(mine.batch, mine.first, mine.arrived.times)
        ]
        window = self.windows[k]
        # Rows that nobody will see get no key, unless somebody else might.
        if in_turn and self.shelves is None and (hidden := window.lowest(mine.batch.num_rows)) > 0:
            oldest = mine.first + hidden
            blocks = [out_of_sight(block, oldest - block.first) for block in blocks]

        def insert_all(buffer: PairBuffer) -> None:
            for block in blocks:
                self.insert(k, block)

        return [insert_all]

    def insert(self, k: int, block: Block) -> None:
        """Store a block in its stream's chain."""
        chain, indexes = self.ledger.chains[k], partial(self._indexes, k, block.first, block.count)
        if self.shelves is None:
            chain.insert(block, partial(self.subwindow, k, block), indexes, self.ledger.long_enough)
        else:
            self.shelves[k].insert(chain, block, indexes)

    def subwindow(self, k: int, block: Block | None = None) -> int:
        """How many rows a new sub-window of stream k is made for. ``block``: its first rows, if they are known."""
        access, ledger = self.planning.access, self.ledger
        kinds = () if access is None else access.kinds(k)
        expected = None if block is None else ledger.expected(k, block)
        return self.planning.sizing.rows(k, ledger.chains[k].rows, kinds, expected)

    def _indexes(
        self, k: int, base: int, rows: int, capacity: int, previous: SubWindow | None
    ) -> Sequence[Index]:
        """For the sub-window of stream k that begins with row ``base``, and gets so many rows at once."""
        access = self.planning.access
        if access is None:
            return ()
        if self.shelves is not None:
            return self.shelves[k].indexes(access, k, base, rows, capacity, previous)
        return access_indexes(access, k, capacity, previous)

    # ---- probe --------------------------------------------------------------------------------------------------

    def _probes(self, pushed: Sequence[Pushed | None], k: int, matches: Matches) -> list[Task]:
        """The tasks that look for partners of stream k's new rows among the stored ones."""
        mine, access = pushed[k], self.planning.access
        if mine is None or access is None:
            return []
        parts = mine.parts if mine.visitors is None else [*mine.parts, *mine.visitors.parts]
        if mine.hidden is not None:
            parts = [(shown(block), sees) for block, sees in parts]
        return [
            task
            for part in parts
            if part[0].keys.size
            for task in access.probes(k, part, self.ledger.segments, self.pool.cores, matches)
        ]

    # ---- the end ------------------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """The streams have ended: every row that waits for a partner is emitted, and everything is forgotten."""
        self.mend()
        self.write_down()
        outcome = self.ledger.end()
        self.close()  # threads come back on their own, should this be taken back
        return outcome

    def close(self) -> None:
        """End the threads."""
        self.pool.close()

    # ---- what the outside may ask --------------------------------------------------------------------------------

    def indexes(self, k: int) -> list[str]:
        """The kinds of index over stream k's rows."""
        return [index.name for sub in self.ledger.chains[k].subwindows for index in sub.indexes]

    def index_bytes(self, k: int) -> int:
        return self.ledger.chains[k].nbytes

    def describe_flow(self) -> dict[str, Any] | None:
        """How rows reach the cores, as plain data; None: without a flow."""
        return None

    def settled(self) -> None:
        """Return when nothing is on its way: the state can then be written down."""
        self.mend()

    def still(self) -> AbstractContextManager[Any]:
        """While nothing else moves."""
        return nullcontext()

    def held_back(self) -> None:
        """Pushes that have not arrived yet, to be given to ``hold_back`` again: here there are none."""
        return

    def hold_back(self, pushes: Any) -> None:
        """What ``held_back`` gave, of a join that was begun anew."""

    def leaving(self) -> Iterator[Outcome]:
        """Results as they leave."""
        raise OptionError(
            "results() can be iterated while another thread pushes only with a flow; got flow=None; make the join with "
            "flow='split_join', for instance"
        )

    def extra_numbers(self) -> dict[str, Any]:
        """What the state has besides rows, flags and counters."""
        return {}

    def extra_columns(self, k: int, start: int, stop: int) -> dict[str, np.ndarray]:
        """The same by row, for the rows [start, stop) of stream k."""
        seen = self.ledger.backsights[k]
        return {} if seen is None else seen.between(start, stop)

    def restore_extra(self, numbers: dict[str, Any]) -> None:
        """Take back ``extra_numbers``."""

    def restore_columns(self, k: int, first: int, columns: dict[str, np.ndarray]) -> None:
        """Take back ``extra_columns`` of the rows from ``first`` on."""
        seen = self.ledger.backsights[k]
        if seen is not None and columns:
            seen.restore(first, columns)
