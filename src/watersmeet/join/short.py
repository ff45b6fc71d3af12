"""The short way of a push of a few rows of two streams.

The same steps as ``JoinEngine.push`` and the same results, without tasks, slices and threads in between, which cost more than they save. A
whole chain is probed in one kernel call that makes the same comparisons as ``probing.py``. That needs BI-Sort in every sub-window, as
the index chooser gives tiny batches; a chain that has another index is probed as by any other push, and so is one of a join with a
program (``sql/program.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.index.bi_sort import BISort
from watersmeet.join.access import PairAccess
from watersmeet.join.chain import Block, SubWindow, spread
from watersmeet.join.ledger import Ledger
from watersmeet.join.matches import Matches
from watersmeet.join.plan import Plan
from watersmeet.join.planning import Planning
from watersmeet.join.pool import Pool
from watersmeet.join.probing import keep_pairs
from watersmeet.kernels.short import GROUP, chain_pairs
from watersmeet.streams.arrival import Gone, Validity
from watersmeet.streams.clock import BOTTOM

FEW = 256  # rows; with more, the long way costs less a row
ROOM = 1024  # pairs that there is room for, to begin with

_NO_KEYS = np.empty(0, np.int64)
_NO_ROWS = np.empty(0, np.int32)
_NO_CODES = np.empty((0, 0), np.int64)
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
    return isinstance(plan, Plan) and "bi_sort" in plan.kinds and planning.mode != "ranges"


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
        self._runs: list[_Runs | None] = [None, None]
        self._probes, self._stored = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
        self._since, self._until = np.empty(1, np.int64), np.empty(1, np.int64)

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
        assert isinstance(access, PairAccess)
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
            sees, gone = [one.sees[1 - k] for k, one in enumerate(admission.arrived)], list(admission.gone)
            arrivals.stand_at(admission.counts, admission.clock)
        if ledger.how.name != "inner":
            ledger.reach_flags()
        if order is not None:
            for k, _, block in given:
                _insert(engine, k, block)
        matches = Matches()
        for k, _, block in given:
            if order is None:
                _insert(engine, k, block)
            validity = sees[k]
            assert validity is not None
            stored = ledger.chains[1 - k].subwindows
            if block.keys.size and stored and not self._find(access, k, block, validity, stored, matches):
                tasks = access.probes(k, (block, (validity, validity)), ledger.segments, 1, matches)
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
            runs = self._runs[1 - k] = _gather_runs(stored)
            if runs is None:
                return False
        plan, stream = access.plan, access.streams[k]
        low = high = firsts = None
        if plan.checks:
            checks = [
                band.bounds(stream, codes) for band, codes in zip(plan.checks, block.codes, strict=True)
            ]
            low = np.array([lo for check in checks for lo, _ in check])
            high = np.array([hi for check in checks for _, hi in check])
            firsts = np.array([0, *accumulate(map(len, checks))])
        ends = plan.driver.ends(stream, block.keys.codes)
        if not ends:
            return True
        (lo, hi), rows = ends[0], block.keys.rows
        if len(ends) > 1:
            lo, hi = (np.concatenate(arrays) for arrays in zip(*ends, strict=True))
            rows = np.tile(rows, len(ends))
        asked = (
            lo,
            hi,
            rows,
            *self._numbers(validity),
            validity.time_lo,
            validity.time_hi,
            low,
            high,
            firsts,
        )
        n = self._search(runs, asked)
        if n > self._probes.size:
            if access.ranges:  # they need not be listed
                return False
            self._probes, self._stored = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
            n = self._search(runs, asked)
        if n:
            keep_pairs(self._probes[:n] + block.first, self._stored[:n].copy(), k, access.residual, out)
        return True

    def _numbers(self, validity: Validity) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the arrival numbers, as the kernel takes them."""
        since, until = validity.arrival_lo, validity.arrival_hi
        if isinstance(since, int) and isinstance(until, int):
            self._since[0], self._until[0] = since, until
            return self._since, self._until
        return spread(since, until), spread(until, since)

    def _search(self, runs: "_Runs", asked: tuple[np.ndarray | None, ...]) -> int:
        """Fill the scratch arrays with pairs, and return how many there are, of which some may not have found room."""
        newest, n = runs.newest, 0
        for group in runs.groups[:-1]:
            n = chain_pairs(*group, _NO_KEYS, _NO_ROWS, 0, 0, *asked, n, self._probes, self._stored)
        buffer = (newest.buffer_keys, newest.buffer_rows, newest.buffered, runs.place)
        return chain_pairs(*runs.groups[-1], *buffer, *asked, n, self._probes, self._stored)


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


def _in_turn(ledger: Ledger, given: Given) -> tuple[list[Validity | None], list[Gone]]:
    """Rows without times come, one stream after the other: what each stream's may see, and what is then over.

    From now on they have come.
    """
    arrivals, windows = ledger.arrivals, ledger.windows
    counts = arrivals.counts.tolist()
    sees: list[Validity | None] = [None, None]
    gone = [_NOBODY, _NOBODY]
    for k, batch, _ in given:
        seen = counts[1 - k]
        sees[k] = Validity(windows[1 - k].lowest(seen), seen)
        counts[k] += batch.num_rows
        gone[k] = windows[k].lowest(counts[k]), BOTTOM
    arrivals.stand_at(np.array(counts), arrivals.clock)
    return sees, gone


@dataclass(slots=True)
class _Runs:
    subwindows: Sequence[SubWindow]
    newest: BISort
    keys: np.ndarray  # main array of the newest: a merge makes a new one
    groups: list[tuple[Any, ...]]  # the oldest sub-window first
    place: int  # of the newest in the last group

    def holds(self, subwindows: Sequence[SubWindow]) -> bool:
        """Whether these are still the runs: expiry makes a new list, a new sub-window a new index, a merge new keys.

        Rows that were trimmed are out of everybody's sight: they may stay.
        """
        newest = self.newest
        return self.subwindows is subwindows and subwindows[-1].index is newest and newest.keys is self.keys


def _gather_runs(subwindows: Sequence[SubWindow]) -> _Runs | None:
    """The sub-windows in groups, or None if one of them has another index."""
    indexes = [sub.index for sub in subwindows if type(sub.index) is BISort]
    if len(indexes) < len(subwindows):
        return None
    parts: list[tuple[Any, ...]] = [
        (index.keys, index.rows, sub.base, sub.codes, sub.times)
        for index, sub in zip(indexes, subwindows, strict=True)
    ]
    parts += [(_NO_KEYS, _NO_ROWS, 0, _NO_CODES, _NO_KEYS)] * (-len(parts) % GROUP)
    checked, timed = bool(len(subwindows[0].codes)), subwindows[0].times is not None
    groups = []
    for start in range(0, len(parts), GROUP):
        keys, rows, bases, codes, times = zip(*parts[start : start + GROUP], strict=True)
        groups.append((keys, rows, bases, codes if checked else None, times if timed else None))
    return _Runs(subwindows, indexes[-1], indexes[-1].keys, groups, (len(indexes) - 1) % GROUP)
