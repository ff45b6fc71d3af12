"""Arrivals of which somebody else says where the watermark stands, and of which none is late: who gives the rows has seen to that.

What each row may see is the rule of ``arrival.py``. What is over goes by the watermark that was given, not by the times of the rows: these
may come long after it has begun to move, as the results of another join do.
"""

from collections.abc import Sequence

import numpy as np

from watersmeet.kernels.arrival import judge
from watersmeet.streams.arrival import Admission, Arrivals
from watersmeet.streams.clock import BOTTOM, TOP


def admitted(
    arrivals: Arrivals,
    sizes: Sequence[int],
    times: Sequence[np.ndarray | None],
    order: np.ndarray,
    watermark: int | None,
    ended: bool = False,
) -> Admission:
    """Judge rows, and change nothing. ``order``: the stream of each row; ``watermark``: after all of them; None: there is none.
    ``ended``: nothing more will come."""
    turns = tuple(range(arrivals.streams))
    if arrivals.some_timed:
        return _timed(arrivals, sizes, times, order, watermark, ended)
    found = arrivals.admit(sizes, times, order, turns)
    return Admission(found.arrived, found.counts, found.clock, _gone(arrivals, found, ended), order, turns)


def _timed(
    arrivals: Arrivals,
    sizes: Sequence[int],
    times: Sequence[np.ndarray | None],
    order: np.ndarray,
    watermark: int | None,
    ended: bool,
) -> Admission:
    streams, starts = arrivals.streams, np.cumsum([0, *sizes])
    counts, clock, rows = arrivals.counts.copy(), arrivals.clock.copy(), int(starts[-1])
    timed = np.array(arrivals.timed)
    codes = np.zeros(rows, np.int64)
    for k, own in enumerate(times):
        if own is not None and own.size:
            codes[starts[k] : starts[k + 1]] = own
    clock[streams:] = BOTTOM  # nobody is late
    late, seen = np.empty(rows, np.bool_), np.empty(streams * rows, np.int64)
    clocks = np.empty(streams * rows if arrivals.mixed else 0, np.int64)
    judge(
        order, starts[:-1], timed, codes, codes, clock, counts, late, seen, clocks, False, True
    )  # fmt: skip
    before = arrivals.clock[streams:]
    now = BOTTOM if watermark is None else watermark
    clock[streams:] = np.where(timed, np.maximum(before, now), TOP)
    by_stream, by_clock = seen.reshape(streams, rows), clocks.reshape(streams, clocks.size // streams)
    parts = [slice(starts[k], starts[k + 1]) for k in range(streams)]
    arrived = tuple(
        arrivals.verdict(k, late[part], times[k], by_stream[:, part], by_clock[:, part])
        for k, part in enumerate(parts)
    )
    found = Admission(arrived, counts, clock, (), order, tuple(range(streams)))
    return Admission(arrived, counts, clock, _gone(arrivals, found, ended), order, found.turns)


def _gone(arrivals: Arrivals, found: Admission, ended: bool) -> tuple[tuple[int, int], ...]:
    if ended:
        return ((TOP, TOP),) * arrivals.streams
    return arrivals.gone(found.counts, found.clock)
