"""The insertion buffer: rows of a batch, kept in order while they come.

What stays true: the rows that are in are in falling order of their keys, an older one behind a newer one of the same key. All places
compare at once, so a row takes one cycle to come in. PanJoin sorts a full buffer, or lets the manager sort batches (III.D, III.E); a
row of comparators needs neither. Collecting goes on while a batch goes by (III.A: steps 1 and 2 beside 4 and 5).
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out


class SortedBatch(wiring.Component):
    """Takes rows at ``i`` while there is room; the first ``count`` of ``rows`` are in, the largest key first.

    ``clear`` empties it; no row may come in that cycle.
    """

    def __init__(self, layout: Any, places: int) -> None:
        self.layout, self.places = layout, places
        super().__init__(
            {
                "i": In(stream.Signature(layout)),
                "rows": Out(data.ArrayLayout(layout, places)),
                "count": Out(range(places + 1)),
                "clear": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        held = Signal(self.places)  # which places have a row: the first ones
        before = Signal(self.places)  # which of them stay in front of the new row
        m.d.comb += self.i.ready.eq(~held[-1])
        new = self.i.payload
        for k in range(self.places):
            row = self.rows[k]
            m.d.comb += before[k].eq(held[k] & (row.key > new.key))
            with m.If(self.i.valid & self.i.ready & ~before[k]):
                m.d.sync += row.eq(new if k == 0 else Mux(before[k - 1], new, self.rows[k - 1]))
        with m.If(self.clear):
            m.d.sync += [held.eq(0), self.count.eq(0)]
        with m.Elif(self.i.valid & self.i.ready):
            m.d.sync += [held.eq((held << 1) | 1), self.count.eq(self.count + 1)]
        return m


class Outgoing(wiring.Component):
    """A batch on its way out, while the next one is collected: ``load`` takes ``count`` rows, which leave at ``o`` in their order."""

    def __init__(self, layout: Any, places: int) -> None:
        self.layout, self.places = layout, places
        super().__init__(
            {
                "load": In(1),
                "rows": In(data.ArrayLayout(layout, places)),
                "count": In(range(places + 1)),
                "o": Out(stream.Signature(layout)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        rows = [Signal(self.layout, name=f"row_{k}") for k in range(self.places)]
        left = Signal(range(self.places + 1))
        m.d.comb += [self.o.valid.eq(left != 0), self.o.payload.eq(rows[0])]
        with m.If(self.load):
            m.d.sync += left.eq(self.count)
            m.d.sync += [row.eq(self.rows[k]) for k, row in enumerate(rows)]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += left.eq(left - 1)
            m.d.sync += [row.eq(rows[k + 1]) for k, row in enumerate(rows[:-1])]
        return m
