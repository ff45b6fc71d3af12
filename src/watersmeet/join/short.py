"""The short way: a push of a few rows of one stream, without tasks, tables or threads in between.

The same steps as ``JoinEngine.push`` and the same results; a long list of things that are not there makes them cheap: no time windows, no
late rows, no partners to remember, nothing to check on candidates, and BI-Sort in every sub-window. Where any of it is
there, ``ShortWay.push`` says no before it has changed anything, and the long way is taken.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.index.base import Keys
from watersmeet.index.bi_sort import BISort
from watersmeet.join.chain import Block, SubWindow
from watersmeet.join.ledger import Ledger
from watersmeet.join.matches import Matches
from watersmeet.join.plan import Plan
from watersmeet.join.planning import Planning
from watersmeet.kernels.short import GROUP, chain_pairs, group_pairs
from watersmeet.kernels.sort import sort_keys

FEW = 16  # rows; with more, the long way costs less a row
ROOM = 1024  # pairs found at once; a probe with more matches takes the long way

_NO_KEYS = np.empty(0, np.int64)
_NO_ROWS = np.empty(0, np.int32)


class Host(Protocol):
    """What the short way needs of a join engine."""

    mode: str
    ledger: Ledger
    planning: Planning

    def write_down(self) -> None: ...

    def insert(self, k: int, block: Block) -> None: ...


def is_simple(engine: Host) -> bool:
    """Whether plan, windows and join type allow the short way."""
    plan, ledger = engine.planning.plan, engine.ledger
    if not isinstance(plan, Plan) or ledger.arrivals.some_timed:
        return False
    if ledger.how.name != "inner" or engine.mode == "ranges":
        return False
    return plan.ranges_suffice and not plan.condition.filters and "bi_sort" in plan.kinds


class ShortWay:
    """Pushes of a few rows. Keeps the runs of each chain in the form that the kernel takes, for as long as they stay the same."""

    def __init__(self) -> None:
        self._runs: list[_Runs | None] = [None, None]
        self._probes, self._stored = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)

    def push(self, engine: Host, k: int, batch: pa.RecordBatch) -> Matches | None:
        """Join a few rows of stream k; None: nothing was done, take the long way."""
        ledger, plan, habits = engine.ledger, engine.planning.plan, engine.planning.habits
        stream, payload, arrivals = ledger.streams[k], ledger.payload[k], ledger.arrivals
        assert isinstance(plan, Plan)
        key = plan.driver.key
        assert payload is not None
        assert key is not None
        keys, valid = key.keys(stream, batch)
        if valid is not None:
            return None
        keys, rows = sort_keys(keys)
        bounds = key.bounds(stream, keys)
        lo, hi = bounds[0]
        if len(bounds) > 1 or lo[0] > hi[0] or lo[-1] > hi[-1]:
            return None
        first = int(arrivals.counts[k])
        n = self._probe(ledger, 1 - k, lo, hi)
        if n > ROOM:
            return None
        engine.write_down()
        payload.append(batch if len(payload.columns) == batch.num_columns else batch.select(payload.columns))
        arrivals.count(k, keys.size)
        self._store(engine, k, keys, rows, first)
        if habits[k].batch != keys.size or habits[1 - k].probes != keys.size:
            habits[k].learn("batch", keys.size)
            habits[1 - k].learn("probes", keys.size)
        matches = Matches()
        if n and engine.mode == "count":
            matches.counts.append(n)
        elif n:
            matches.add(k, rows[self._probes[:n]] + np.int64(first), self._stored[:n].copy())
        return matches

    def _store(self, engine: Host, k: int, keys: np.ndarray, rows: np.ndarray, first: int) -> None:
        """Into the insertion buffer where there is room, else as any other block."""
        chain = engine.ledger.chains[k]
        newest = chain.subwindows[-1] if chain.subwindows else None
        if newest is not None and type(newest.index) is BISort:
            fits = newest.end == first and newest.count + keys.size <= newest.capacity
            if fits and newest.index.buffer(keys, rows, newest.count):
                newest.count += keys.size
                return
        engine.insert(k, Block(first, keys.size, Keys(keys, rows), [], None))

    def _probe(self, ledger: Ledger, k: int, lo: np.ndarray, hi: np.ndarray) -> int:
        """Fill the scratch arrays with pairs of the probes and stream k's rows; more than ROOM: the long way is needed."""
        chain = ledger.chains[k]
        if not chain.subwindows:
            return 0
        newest = chain.subwindows[-1].index
        if type(newest) is not BISort:
            return ROOM + 1
        runs = self._runs[k]
        if runs is None or not runs.holds(chain.subwindows, newest):
            runs = self._runs[k] = _gather_runs(chain.subwindows, newest)
            if runs is None:
                return ROOM + 1
        oldest = ledger.windows[k].lowest(int(ledger.arrivals.counts[k]))
        buffer = (newest.buffer_keys, newest.buffer_rows, newest.buffered, chain.subwindows[-1].base)
        n = chain_pairs(*runs.groups[-1], *buffer, lo, hi, oldest, 0, self._probes, self._stored)
        for group in runs.groups[:-1]:
            n = group_pairs(*group, lo, hi, oldest, n, self._probes, self._stored)
        return n


@dataclass(slots=True)
class _Runs:
    subwindows: list[SubWindow]
    newest: BISort
    keys: np.ndarray  # main array of the newest: a merge makes a new one
    groups: list[tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...], tuple[int, ...]]]

    def holds(self, subwindows: list[SubWindow], newest: BISort) -> bool:
        """Whether these are still the runs: expiry makes a new list, a new sub-window a new index, a merge new keys."""
        return self.subwindows is subwindows and self.newest is newest and self.keys is newest.keys


def _gather_runs(subwindows: list[SubWindow], newest: BISort) -> _Runs | None:
    """The sorted runs in groups, or None if one of the sub-windows has another index."""
    indexes = [sub.index for sub in subwindows if type(sub.index) is BISort]
    if len(indexes) < len(subwindows):
        return None
    groups = []
    for start in range(0, len(subwindows), GROUP):
        part = indexes[start : start + GROUP]
        missing = GROUP - len(part)
        keys = (*(index.keys for index in part), *[_NO_KEYS] * missing)
        rows = (*(index.rows for index in part), *[_NO_ROWS] * missing)
        bases = (*(sub.base for sub in subwindows[start : start + GROUP]), *[0] * missing)
        groups.append((keys, rows, bases))
    return _Runs(subwindows, newest, newest.keys, groups)
