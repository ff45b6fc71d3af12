"""Arrivals of which somebody else says where the watermark stands, and of which none is late: who gives the rows has seen to that.

What each row may see is the rule of ``arrival.py``. What is over goes by the watermark that was given, not by the times of the rows: these
may come long after it has begun to move, as the results of another join do.
"""

from collections.abc import Sequence
from dataclasses import replace

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
    if arrivals.some_timed:
        found = _timed(arrivals, sizes, times, order, watermark)
    else:
        found = arrivals.admit(sizes, times, order, range(arrivals.streams))
    return replace(found, gone=((TOP, TOP),) * arrivals.streams) if ended else found


def _timed(
    arrivals: Arrivals,
    sizes: Sequence[int],
    times: Sequence[np.ndarray | None],
    order: np.ndarray,
    watermark: int | None,
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
    gone = arrivals.gone(counts, clock)
    return Admission(arrived, counts, clock, gone, order, tuple(range(streams)))
