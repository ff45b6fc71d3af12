"""A push of many streams, cut into loads: what travels through a flow. A part of a load is the rows of one stream."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.join.chain import Block
from watersmeet.join.ledger import Pushed
from watersmeet.join.steps import Partials
from watersmeet.streams.arrival import Gone, Sees
from watersmeet.streams.window import Window

Prepare = Callable[
    [int, pa.RecordBatch, int, np.ndarray | None], Block
]  # of a stream: rows, the first arrival number, times


@dataclass(slots=True)
class MultiPart:
    """Consecutive rows of one stream: as they are stored, and what they may see."""

    stream: int
    block: Block
    sees: Sees


@dataclass(slots=True)
class MultiLoad:
    """Rows that travel together. All of them are stored before any looks for partners: validity ranges tell who sees whom."""

    number: int
    parts: tuple[MultiPart, ...]  # of different streams
    rows: int
    gone: tuple[Gone, ...]  # by stream: what neither these rows nor later ones can see
    entered: float = 0.0

    def part(self, stream: int) -> MultiPart | None:
        return next((part for part in self.parts if part.stream == stream), None)


@dataclass(slots=True)
class Lot:
    """Partial results of a part of a load, before a step; None: there are no more, the *end flag* of the thesis."""

    load: MultiLoad
    part: MultiPart  # the rows that arrived last
    place: int  # of the step
    partials: Partials | None


class MultiCutter:
    """Cuts pushes into loads of ``granularity`` rows, and numbers them."""

    def __init__(self, granularity: int, windows: Sequence[Window]) -> None:
        self.granularity, self._windows = granularity, windows
        self._number = 0

    def cut(
        self,
        prepare: Prepare,
        shares: Mapping[int, Pushed],
        streams: np.ndarray | None,
        counts: Sequence[int],
        gone: Sequence[Gone],
    ) -> list[MultiLoad]:
        """``shares``: in the order in which they come, where ``streams``, the stream of each row, does not say it; ``counts`` and
        ``gone``: by stream, before the push.
        """
        taken = dict.fromkeys(shares, 0)
        loads = []
        for several in self._cuts(shares, streams):
            now = [int(count) + taken.get(k, 0) for k, count in enumerate(counts)]
            over = tuple(
                (max(arrival, window.lowest(seen)), time)
                for (arrival, time), window, seen in zip(gone, self._windows, now, strict=True)
            )
            parts = []
            for k, rows in several.items():
                parts.append(_part(prepare, k, shares[k], taken[k], taken[k] + rows))
                taken[k] += rows
            loads.append(MultiLoad(self._number, tuple(parts), sum(several.values()), over))
            self._number += 1
        return loads

    def _cuts(self, shares: Mapping[int, Pushed], streams: np.ndarray | None) -> list[dict[int, int]]:
        """By load: the rows of each stream."""
        size = self.granularity
        if streams is not None:
            counted = [np.bincount(streams[start : start + size]) for start in range(0, streams.size, size)]
            return [{k: int(rows) for k, rows in enumerate(one) if rows} for one in counted]
        return [
            {k: min(size, share.batch.num_rows - start)}
            for k, share in shares.items()
            for start in range(0, share.batch.num_rows, size)
        ]


def _part(prepare: Prepare, k: int, share: Pushed, start: int, stop: int) -> MultiPart:
    times = None if share.arrived.times is None else share.arrived.times[start:stop]
    block = prepare(k, share.batch.slice(start, stop - start), share.first + start, times)
    return MultiPart(k, block, share.arrived.part(start, stop))
