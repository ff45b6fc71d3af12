"""The merger (panjoin.txt IV, Figure 8) and the indexer behind it.

A merger has two streams in, a comparator, and one stream out. Here one stream is the main array from its end, the other the batch
from its largest key, and the larger of the two heads is written to where the merged array ends. So the array is merged *in place*:
the writer is ahead of the reader by as many rows as the batch still has, and never overtakes it. The paper merges into another array,
which needs twice the memory. What stays true: rows from ``to`` on are the merged ones, rows below ``end`` are as they were, and ``to
- end`` rows of the batch are to come. It ends when the batch does; what is smaller has not moved. So a merge takes at most M + B
cycles, and one to begin.

A row that moves is written once, to its new place, so the indexer only watches the writes: what is written to the first place of a
partition is that partition's entry.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Merger(wiring.Component):
    """``begin`` with ``size`` rows in the array and ``count`` rows of the batch to come at ``i``, in falling order."""

    def __init__(self, layout: Any, capacity: int, batch: int) -> None:
        self.layout = layout
        place = range(capacity)
        super().__init__(
            {
                "begin": In(1),
                "size": In(range(capacity + 1)),
                "count": In(range(batch + 1)),
                "i": In(stream.Signature(layout)),
                "read_place": Out(place),  # of ``read_row`` in the next cycle
                "read_row": In(layout),
                "write": Out(1),
                "write_place": Out(place),
                "write_row": Out(layout),
                "busy": Out(1),
            }
        )
        self.left = Signal(range(batch + 1))
        self.end = Signal(range(capacity + 1))  # rows of the array that have not moved

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        to, fetched = Signal.like(self.end), Signal()
        moves, comes, next_end = Signal(), Signal(), Signal.like(self.end)
        head = self.i.payload
        m.d.comb += [
            self.busy.eq(self.left != 0),
            moves.eq(self.busy & fetched & self.i.valid & (self.end != 0) & (self.read_row.key > head.key)),
            comes.eq(self.busy & fetched & self.i.valid & ~moves),
            self.i.ready.eq(comes),
            self.write.eq(moves | comes),
            self.write_place.eq(to - 1),
            self.write_row.eq(Mux(moves, self.read_row, head)),
            next_end.eq(self.end - moves),
            self.read_place.eq(next_end - 1),
        ]
        m.d.sync += [fetched.eq(self.busy), self.end.eq(next_end)]
        with m.If(self.begin):
            m.d.sync += [
                self.end.eq(self.size),
                to.eq(self.size + self.count),
                self.left.eq(self.count),
                fetched.eq(0),
            ]
        with m.Elif(self.write):
            m.d.sync += [to.eq(to - 1), self.left.eq(self.left - comes)]
        return m


def entries(capacity: int, partition: int) -> int:
    """How many keys the index has room for: at least two, as an address must have a bit."""
    return max(2, -(-capacity // partition))


class Indexer(wiring.Component):
    """``entry`` of the index is to be the key that is written, in the cycles in which ``write`` is high."""

    def __init__(self, capacity: int, partition: int) -> None:
        self.step = partition.bit_length() - 1
        super().__init__(
            {
                "writes": In(1),
                "place": In(range(capacity)),
                "write": Out(1),
                "entry": Out(range(entries(capacity, partition))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        within = self.place[: self.step] if self.step else 0
        m.d.comb += [
            self.write.eq(self.writes & (within == 0)),
            self.entry.eq(self.place >> self.step),
        ]
        return m
