"""The combiner at the root of the gathering tree: stars become punctuations that name their stream (splitjoin.txt figure 9)."""

from collections.abc import Sequence

import numpy as np

from watersmeet.flow.models.load import Load
from watersmeet.flow.order import Arranged, Order, Punctuations, merge


def punctuate(streams: Sequence[str], load: Load, arranged: Arranged) -> Punctuations:
    """The punctuations of one load's results; positions count from its first result row."""
    assert load.order is not None
    return _marks(streams, load.order, load.sequence, *_rows(load), arranged)


def punctuate_without_results(
    streams: Sequence[str], order: Order, sequence: int, side: int, first: int, rows: int
) -> Punctuations:
    """Of rows that came before the other stream had begun: nothing was sent anywhere, and all their results, none, are there."""
    sides, arrivals = np.full(rows, side, np.uint8), np.arange(first, first + rows)
    return _marks(streams, order, sequence, sides, arrivals, merge(order, []))


def _marks(
    streams: Sequence[str],
    order: Order,
    sequence: int,
    side: np.ndarray,
    arrival: np.ndarray,
    arranged: Arranged,
) -> Punctuations:
    """``side`` and ``arrival``: of each row, from the place ``sequence`` on; ``arranged``: the results of these rows."""
    precision, rows = order.precision, side.size
    if order.kind == "outer":
        last = sequence + rows
        ends = np.arange((sequence // precision + 1) * precision, last + 1, precision)
        position = np.searchsorted(arranged.sequence // precision, ends // precision)
        row = ends - 1 - sequence
        return Punctuations(streams, side[row], arrival[row], position, np.full(ends.size, -1))
    assert arranged.chunk is not None
    ends = sequence + np.arange(1, rows + 1)
    position = np.searchsorted(arranged.sequence, ends)
    # Within a probing row: where one stretch of stored rows ends and results of another follow.
    same = arranged.sequence[1:] == arranged.sequence[:-1]
    inside = np.flatnonzero(same & (arranged.chunk[1:] != arranged.chunk[:-1])) + 1
    row = np.concatenate((np.arange(rows), arranged.sequence[inside] - sequence))
    position = np.concatenate((position, inside))
    stored = np.concatenate((np.full(rows, -1), (arranged.chunk[inside - 1] + 1) * precision))
    by_place = np.argsort(position, kind="stable")
    row = row[by_place]
    return Punctuations(streams, side[row], arrival[row], position[by_place], stored[by_place])


def _rows(load: Load) -> tuple[np.ndarray, np.ndarray]:
    """Stream and arrival number of each row of the load, in sequence."""
    side, arrival = np.empty(load.rows, np.uint8), np.empty(load.rows, np.int64)
    for part in load.parts:
        numbers = np.arange(part.first, part.end)
        places = part.places(numbers) - load.sequence
        side[places], arrival[places] = part.side, numbers
    return side, arrival
