"""Stored rows judged again, as they came: what each had seen of the other streams, and whether it was late.

For a join that is made later than its rows. The history says in which order they have come, and what came between them that is not
stored any more: so ranges, clocks and watermark are those that the join would have had, had it been there from the start.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.kernels.arrival import judge_again
from watersmeet.streams.arrival import Admission, Arrivals, Arrived, Validity
from watersmeet.streams.clock import BOTTOM, TOP
from watersmeet.streams.history import Steps

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Stored:
    """What is stored of the streams of a join, by the join's own numbers of them."""

    places: Sequence[int]  # which stream of the history each is
    batches: Sequence[pa.RecordBatch]
    firsts: Sequence[int]  # number of the first stored row

    @property
    def ends(self) -> list[int]:
        return [first + batch.num_rows for first, batch in zip(self.firsts, self.batches, strict=True)]


class UnknownTimesError(Exception):
    """A stream of the join, by number, goes by times that are not known of all its rows: they are not those of the history."""


def judged_again(
    arrivals: Arrivals, stored: Stored, steps: Steps, timed: Sequence[bool], counts: Sequence[int] = ()
) -> Admission:
    """What was decided of the rows when they came. ``timed``: whether the times of the join's streams are those of the history.

    ``counts``: how many rows of each stream came before the steps; default none. The clocks are those of ``arrivals``.
    """
    before = np.array(counts or [0] * len(stored.places))
    width = max([*stored.places, int(steps.streams.max(initial=0))]) + 1
    firsts = [0] * width
    for place, first, base in zip(stored.places, stored.firsts, before.tolist(), strict=True):
        firsts[place] = first - base
    over = steps.over(firsts)
    leaves = [[k for k, place in enumerate(stored.places) if place == g] for g in range(width)]
    which, order = _entries(steps, over, leaves)
    gone = over[which]
    times, ahead = np.zeros(which.size, np.int64), np.zeros(which.size, np.int64)
    for k, batch in enumerate(stored.batches):
        if not arrivals.timed[k]:
            continue
        mine = order == k
        if timed[k]:
            latest = steps.latest.get(stored.places[k])
        elif bool((mine & gone & (steps.rows[which] > 0)).any()):
            raise UnknownTimesError(k)
        else:
            latest = None
        for there, codes in (
            (mine & ~gone, _codes(arrivals, k, batch)),
            (mine & gone, _latest(arrivals, k, latest, over[steps.streams == stored.places[k]])),
        ):
            times[there] = codes if codes.size else BOTTOM
            ahead[there] = arrivals.ahead(k, codes) if codes.size else BOTTOM
    rows = np.where(gone, steps.rows[which], 1)
    moves = np.ones(which.size, np.bool_)
    if arrivals.by_push:  # the last row of a push
        moves[:-1] = np.diff(steps.pushes[which]) != 0
    return _admission(arrivals, stored, order, rows, ~gone, moves, times, ahead, before)


def _entries(
    steps: Steps, over: np.ndarray, leaves: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """By step and stream of the join, in arrival order: each stored row, and each step that is over. A row has all its names in turn."""
    names = np.array([len(mine) for mine in leaves])[steps.streams]
    times = np.where(over, 1, steps.rows) * names
    which = np.repeat(np.arange(steps.count), times)
    nth = np.arange(which.size) - np.repeat(np.cumsum(times) - times, times)
    most = max(map(len, leaves), default=1) or 1
    table = np.array([[*mine, *[0] * (most - len(mine))] for mine in leaves], np.int64)
    return which, table[steps.streams[which], nth % np.maximum(names[which], 1)]


def _codes(arrivals: Arrivals, k: int, batch: pa.RecordBatch) -> np.ndarray:
    assert arrivals.axis is not None
    return arrivals.axis.codes(k, batch) if batch.num_rows else _NONE


def _latest(arrivals: Arrivals, k: int, latest: pa.Array | None, over: np.ndarray) -> np.ndarray:
    assert arrivals.axis is not None
    return _NONE if latest is None else arrivals.axis.column_codes(k, latest.filter(pa.array(over)))


def _admission(
    arrivals: Arrivals,
    stored: Stored,
    order: np.ndarray,
    rows: np.ndarray,
    there: np.ndarray,
    moves: np.ndarray,
    times: np.ndarray,
    ahead: np.ndarray,
    counts: np.ndarray,
) -> Admission:
    streams = arrivals.streams
    sizes = [batch.num_rows for batch in stored.batches]
    starts = np.cumsum([0, *sizes])
    total = int(starts[-1])
    clock = arrivals.clock.copy()
    late, seen = np.zeros(total, np.bool_), np.empty(streams * total, np.int64)
    clocks = np.empty(streams * total if arrivals.mixed else 0, np.int64)
    timed = np.array(arrivals.timed)
    judge_again(
        order, rows, there, moves, starts[:-1], timed, times, ahead, clock, counts, late, seen, clocks
    )
    by_stream = seen.reshape(streams, total)
    by_clock = clocks.reshape(streams, total if arrivals.mixed else 0)
    arrived = []
    for k, size in enumerate(sizes):
        part = slice(int(starts[k]), int(starts[k + 1]))
        own = times[there & (order == k)] if arrivals.timed[k] else None
        arrived.append(
            arrivals.verdict(k, late[part], own, by_stream[:, part], by_clock[:, part])
            if size
            else Arrived(None, own, arrivals.blind(k))
        )
    return Admission(
        tuple(arrived), counts, clock, arrivals.gone(counts, clock), order[there], tuple(range(streams))
    )


def needed(admission: Admission, stored: Stored) -> list[int]:
    """By stream, the first row that can still match."""
    found = []
    for k, (batch, first) in enumerate(zip(stored.batches, stored.firsts, strict=True)):
        mine, (number, time) = admission.arrived[k], admission.gone[k]
        skip = min(max(0, number - first), batch.num_rows)
        if mine.times is not None and time > BOTTOM:
            recent = np.flatnonzero(mine.times >= time)
            skip = max(skip, int(recent[0]) if recent.size else batch.num_rows)
        found.append(first + skip)
    return found


def rows_from(admission: Admission, stored: Stored, numbers: Sequence[int]) -> tuple[Stored, Admission]:
    """The rows from these numbers on, and what was decided of them."""
    batches, arrived = [], []
    for k, (batch, first) in enumerate(zip(stored.batches, stored.firsts, strict=True)):
        mine, skip = admission.arrived[k], max(0, numbers[k] - first)
        late = None if mine.late is None else mine.late[skip:]
        arrived.append(
            Arrived(
                late if late is not None and late.any() else None,
                None if mine.times is None else mine.times[skip:],
                mine.part(skip, batch.num_rows),
            )
        )
        batches.append(batch.slice(skip))
    fewer = Admission(
        tuple(arrived), admission.counts, admission.clock, admission.gone, admission.interleaving, admission.turns
    )  # fmt: skip
    firsts = [max(first, number) for first, number in zip(stored.firsts, numbers, strict=True)]
    return Stored(stored.places, batches, firsts), fewer


def complete_from(admission: Admission, stored: Stored, newest: Sequence[int]) -> list[int]:
    """By stream, from which number on all that a row could see was stored when the rows were judged again.

    ``newest``: by stream, the code of the largest time of the rows that were not; the bottom, if there were none.
    """
    found = []
    for k, first in enumerate(stored.firsts):
        mine = admission.arrived[k]
        lacks = np.zeros(stored.batches[k].num_rows, np.bool_)
        for j, validity in enumerate(mine.sees):
            if validity is not None and stored.firsts[j] > 0:
                lacks |= _lacks(validity, stored.firsts[j], newest[j])
        if mine.late is not None:
            lacks &= ~mine.late
        last = np.flatnonzero(lacks)
        found.append(first + (int(last[-1]) + 1 if last.size else 0))
    return found


def _lacks(validity: Validity, first: int, newest: int) -> np.ndarray | bool:
    """Whether a range reaches to rows before ``first``, of which none has a time after ``newest``."""
    lacks = np.asarray(validity.arrival_lo) < first
    if validity.time_lo is not None and newest < TOP:
        lacks = lacks & (validity.time_lo <= newest)
    return lacks
