"""The insertion buffer: rows of a batch, kept in order while they come.

What stays true: the rows that are in are in falling order of their keys, an older one behind a newer one of the same key. All places compare at
once, so a row takes one cycle to come in. PanJoin sorts a full buffer, or lets the manager sort batches (III.D, III.E); a row of
comparators needs neither.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class SortedBatch(wiring.Component):
    """Takes rows at ``i`` while ``open``, and gives them at ``o``, the largest key first, while not."""

    def __init__(self, layout: Any, places: int) -> None:
        self.layout, self.places = layout, places
        super().__init__(
            {
                "open": In(1),
                "i": In(stream.Signature(layout)),
                "o": Out(stream.Signature(layout)),
                "count": Out(range(places + 1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        rows = [Signal(self.layout, name=f"row_{k}") for k in range(self.places)]
        held = Signal(self.places)  # which places have a row: the first ones
        before = Signal(self.places)  # which of them stay in front of the new row
        comes, goes = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(self.open & ~held[-1]),
            self.o.valid.eq(~self.open & held[0]),
            self.o.payload.eq(rows[0]),
            comes.eq(self.i.valid & self.i.ready),
            goes.eq(self.o.valid & self.o.ready),
        ]
        for k, row in enumerate(rows):
            m.d.comb += before[k].eq(held[k] & (row.key > self.i.payload.key))
            with m.If(goes):
                if k + 1 < self.places:
                    m.d.sync += row.eq(rows[k + 1])
            with m.Elif(comes & ~before[k]):
                first = self.i.payload if k == 0 else Mux(before[k - 1], self.i.payload, rows[k - 1])
                m.d.sync += row.eq(first)
        with m.If(goes):
            m.d.sync += [held.eq(held >> 1), self.count.eq(self.count - 1)]
        with m.Elif(comes):
            m.d.sync += [held.eq((held << 1) | 1), self.count.eq(self.count + 1)]
        return m
