"""Feeds the two streams of a workload to any joiner, and remembers exactly what each window holds.

What stays true: ``pushed`` rows of a stream have been handed out, in order, and ``held(stream)`` is the
last ``window`` of them. So every joiner, ours or a peer, can be checked at any moment against a recount of
the next push.
"""

from collections import deque

import pyarrow as pa

from watersmeet.workloads.catalog import Source, Workload, count_matches

Push = dict[str, pa.RecordBatch]  # the batches of one push, by stream, in keyword order
STREAMS = ("r", "s")


class Feed:
    """The two streams of ``work``, cut into pushes."""

    def __init__(self, work: Workload, seed: int = 1) -> None:
        self.work = work
        self._sources = {stream: Source(work, stream, seed) for stream in STREAMS}
        self._schemas = {stream: Source(work, stream).take(0).schema for stream in STREAMS}
        self._blocks: dict[str, deque[pa.RecordBatch]] = {stream: deque() for stream in STREAMS}

    def pushed(self, stream: str) -> int:
        """Rows of ``stream`` handed out so far."""
        return self._sources[stream].arrived

    def pushes(self, batch: int, count: int, streams: tuple[str, ...] = STREAMS) -> list[Push]:
        """The next ``count`` pushes, each with ``batch`` rows of every one of ``streams``."""
        blocks = {stream: self._take(stream, batch * count) for stream in streams}
        starts = range(0, batch * count, batch)
        return [{stream: blocks[stream].slice(start, batch) for stream in streams} for start in starts]

    def single_rows(self, count: int) -> list[Push]:
        """The next ``count`` pushes (made even) of one row each: r, s, r, s, ..."""
        both = self.pushes(1, (count + 1) // 2)
        return [{stream: push[stream]} for push in both for stream in STREAMS]

    def held(self, stream: str, before: int = 0) -> pa.Table:
        """The rows in the window of ``stream``, as it was before the newest ``before`` rows of it came."""
        table = pa.Table.from_batches(self._blocks[stream], self._schemas[stream])
        end = table.num_rows - before
        start = max(0, end - self.work.window)
        return table.slice(start, end - start)

    def expected(self, push: Push) -> int:
        """Results of ``push``, recounted. It must be the newest push of this feed."""
        total = 0
        for stream, batch in push.items():
            other = "s" if stream == "r" else "r"
            # Streams arrive in keyword order: r probes s as it was, s probes r with the new rows in it.
            later = push[other].num_rows if stream == "r" and other in push else 0
            total += count_matches(self.work, stream, batch, self.held(other, later))
        return total

    def _take(self, stream: str, rows: int) -> pa.RecordBatch:
        block = self._sources[stream].take(rows)
        blocks = self._blocks[stream]
        blocks.append(block)
        spare = sum(len(held) for held in blocks) - self.work.window - rows
        while spare >= len(blocks[0]):
            spare -= len(blocks.popleft())
        return block
