"""The short way of a push of a few rows.

The same steps as ``JoinEngine.push`` and the same results, without tasks, slices and threads in between, which cost more than they save. A
whole chain is probed in one kernel call (``runs.py``). That needs BI-Sort in every sub-window, as the index chooser gives tiny batches; a
chain that has another index is probed as by any other push, and so is one of a join with a program (``sql/program.py``).
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.index.bi_sort import BISort
from watersmeet.join.access import PairAccess, StepAccess
from watersmeet.join.chain import Block, Check, SubWindow
from watersmeet.join.ledger import Ledger
from watersmeet.join.matches import Matches
from watersmeet.join.plan import Plan
from watersmeet.join.planning import Planning
from watersmeet.join.pool import Pool
from watersmeet.join.probing import keep_pairs
from watersmeet.join.runs import Runs, Search, gather_runs
from watersmeet.join.short_steps import ShortSteps
from watersmeet.streams.arrival import Gone, Sees, Validity
from watersmeet.streams.clock import BOTTOM

FEW = 256  # rows; with more, the long way costs less a row
_NOBODY = (0, BOTTOM)  # is over

Given = list[tuple[int, pa.RecordBatch, Block]]  # the streams that have rows, as they come


class Host(Protocol):
    """What the short way needs of a join engine."""

    ledger: Ledger
    planning: Planning
    pool: Pool

    def write_down(self) -> None: ...

    def insert(self, k: int, block: Block) -> None: ...


def is_simple(planning: Planning) -> bool:
    """Whether plan and form of the results allow the short way."""
    plan = planning.plan
    if isinstance(plan, Plan):
        return "bi_sort" in plan.kinds and planning.mode != "ranges"
    if plan is None or planning.stash is not None:  # whether a stash saves time is tried on the long way
        return False
    return all("bi_sort" in one.kinds for of_stream in plan.arrangements for one in of_stream)


def few(batches: Sequence[pa.RecordBatch | None]) -> bool:
    """Whether a push has few rows."""
    rows = 0
    for batch in batches:
        if batch is not None:
            rows += batch.num_rows
    return rows <= FEW


class ShortWay:
    """Keeps the runs of each chain in the form that the kernel takes, for as long as they stay the same."""

    def __init__(self) -> None:
        self._runs: list[Runs | None] = [None, None]
        self._search, self._steps = Search(), ShortSteps()

    def push(
        self,
        engine: Host,
        batches: Sequence[pa.RecordBatch | None],
        order: np.ndarray | None,
        turns: Sequence[int],
    ) -> tuple[Matches, Sequence[Gone]] | None:
        """Store and probe a few rows: what was found, and what is over. None: nothing was done, take the long way."""
        ledger, planning = engine.ledger, engine.planning
        access, arrivals, admission = planning.access, ledger.arrivals, None
        assert access is not None
        if order is not None or arrivals.some_timed:
            admission = ledger.admit(batches, order, turns)
            if any(arrived.late is not None for arrived in admission.arrived):
                return None
        given: Given = []
        for k in turns:
            batch = batches[k]
            if batch is not None and batch.num_rows:
                columns = ledger.payload_of(k).columns
                if len(columns) != batch.num_columns:
                    batch = batch.select(columns)
                times = None if admission is None else admission.arrived[k].times
                given.append((k, batch, access.block(k, batch, int(arrivals.counts[k]), times)))
        engine.write_down()
        for k, batch, _ in given:
            ledger.payload_of(k).append(batch)
            planning.learn_size(k, batch.num_rows)
        if admission is None:
            sees, gone = _in_turn(ledger, given)
        else:
            sees, gone = [one.sees for one in admission.arrived], list(admission.gone)
            for k, _, block in given:
                sight = ledger.backsights[k]
                if sight is not None:
                    sight.append(block.first, block.count, sees[k])
            arrivals.stand_at(admission.counts, admission.clock)
        if ledger.how.name != "inner":
            ledger.reach_flags()
        if order is not None:
            for k, _, block in given:
                _insert(engine, k, block)
        matches = Matches(streams=len(ledger.streams))
        for k, _, block in given:
            if order is None:
                _insert(engine, k, block)
            if not block.keys.size:
                continue
            if isinstance(access, StepAccess):
                segments, buffer = ledger.segments, engine.pool.buffer()
                self._steps.find(access.walks[k], block, sees[k], segments, buffer, matches)
                continue
            assert isinstance(access, PairAccess)
            validity, stored = sees[k][1 - k], ledger.chains[1 - k].subwindows
            assert validity is not None
            if stored and not self._find(access, k, block, validity, stored, matches):
                tasks = access.probes(k, (block, sees[k]), ledger.segments, 1, matches)
                engine.pool.run(tasks, parallel=False)
        return matches, gone

    def _find(
        self,
        access: PairAccess,
        k: int,
        block: Block,
        validity: Validity,
        stored: Sequence[SubWindow],
        out: Matches,
    ) -> bool:
        """All results of a few rows of stream k with the other stream's; False: nothing was done, take the long way."""
        if access.plan.program is not None:
            return False
        runs = self._runs[1 - k]
        if runs is None or not runs.holds(stored):
            runs = self._runs[1 - k] = gather_runs(stored)
            if runs is None:
                return False
        plan, stream, search = access.plan, access.streams[k], self._search
        checks: Sequence[Check] = ()
        if plan.checks:
            checks = [
                band.bounds(stream, codes) for band, codes in zip(plan.checks, block.codes, strict=True)
            ]
        ends = plan.driver.ends(stream, block.keys.codes)
        if not ends:
            return True
        (lo, hi), rows = ends[0], block.keys.rows
        if len(ends) > 1:
            lo, hi = (np.concatenate(arrays) for arrays in zip(*ends, strict=True))
            rows = np.tile(rows, len(ends))
        asked = search.asked(lo, hi, rows, validity, checks)
        n = search.find(runs, asked)
        if n > search.probes.size:
            if access.ranges:  # they need not be listed
                return False
            search.make_room(n)
            n = search.find(runs, asked)
        if n:
            keep_pairs(search.probes[:n] + block.first, search.stored[:n].copy(), k, access.residual, out)
        return True


def _insert(engine: Host, k: int, block: Block) -> None:
    """Into the newest sub-window, where there is room; else as any other block."""
    subwindows = engine.ledger.chains[k].subwindows
    newest = subwindows[-1] if subwindows else None
    if newest is None or not newest.takes(block) or engine.ledger.long_enough(newest):
        engine.insert(k, block)
    elif block.codes or block.times is not None or type(newest.index) is not BISort:
        newest.insert(block)
    elif newest.index.buffer(block.keys.key, block.keys.rows, newest.count):
        newest.count += block.count
    else:
        newest.insert(block)


def _in_turn(ledger: Ledger, given: Given) -> tuple[list[Sees], list[Gone]]:
    """Rows without times come, one stream after the other: what each stream's may see, and what is then over.

    From now on they have come.
    """
    arrivals, windows = ledger.arrivals, ledger.windows
    counts = arrivals.counts.tolist()
    streams = len(counts)
    sees: list[Sees] = [()] * streams
    gone = [_NOBODY] * streams
    for k, batch, _ in given:
        if streams == 2:  # a push of one row feels a loop
            number = counts[1 - k]
            seen = Validity(windows[1 - k].lowest(number), number)
            sees[k] = (seen, None) if k else (None, seen)
        else:
            sees[k] = tuple(
                [
                    None if j == k else Validity(windows[j].lowest(number), number)
                    for j, number in enumerate(counts)
                ]
            )
        counts[k] += batch.num_rows
        gone[k] = windows[k].lowest(counts[k]), BOTTOM
    arrivals.stand_at(np.array(counts), arrivals.clock)
    return sees, gone
