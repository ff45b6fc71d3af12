"""The order control unit of a Circular-MJ stage (thesis 6.1.3, figures 6.1.5 and 6.1.7).

Rows come by the distribution chain in the order of arrival, partial results come round the ring later: then rows that arrived after the
partial result's own row may be stored here already, and rows that it has to see may have left the window for them.

OBuf has an entry for each row that has come by the chain and whose partial results may still come: where the window stood when the row
came (``top``, ``fill``). A partial result looks through exactly those slots. What was stored too early lies outside of them (the thesis's
*refine* unit). What was expired too early is still in one of the ring's spare slots (the thesis's *EBuf*, and its second comparison):
there are as many as OBuf has entries, and every row of the stage's own stream that comes while an entry waits has an entry too.

What stays true: entries are taken out in order, when their end flag has come; ``tag`` counts rows modulo twice the entries, so a partial
result that has overtaken its row on the chain finds it not ``known`` and waits (the thesis does not say what happens then).
"""

from typing import Any

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError


class OrderControl(wiring.Component):
    """``entries`` rows, asked for by ``ways`` channels at a time."""

    def __init__(self, slots: int, rows: int, entries: int, ways: int) -> None:
        if entries < 4 or entries & (entries - 1):
            raise OptionError(f"entries of the order buffer must be a power of two from 4 on; got {entries}")
        self.entries, self.ways = entries, ways
        self.slots, self.rows = slots, rows
        tag = range(2 * entries)
        super().__init__(
            {
                "ready": Out(1),
                "take": In(1),  # a row comes by the chain
                "own": In(1),  # and is of this stage's stream: nobody will ask for it
                "top": In(range(slots)),
                "fill": In(range(rows + 1)),
                "tag": Out(tag),  # the row's name
                "ask": In(tag).array(ways),
                "known": Out(1).array(ways),
                "seen_top": Out(range(slots)).array(ways),
                "seen_fill": Out(range(rows + 1)).array(ways),
                "end": In(1),  # the row's end flag has passed
                "end_tag": In(tag),
                "level": Out(range(entries + 1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        bits = (self.entries - 1).bit_length()
        tops = Array(Signal(range(self.slots), name=f"top_{k}") for k in range(self.entries))
        fills = Array(Signal(range(self.rows + 1), name=f"fill_{k}") for k in range(self.entries))
        ended, head = Signal(self.entries), Signal(bits)
        taken = self.take & self.ready
        m.d.comb += self.ready.eq(self.level != self.entries)
        with m.If(taken):
            m.d.sync += [
                tops[self.tag[:bits]].eq(self.top),
                fills[self.tag[:bits]].eq(self.fill),
                ended.bit_select(self.tag[:bits], 1).eq(self.own),
                self.tag.eq(self.tag + 1),
            ]
        with m.If(self.end):
            m.d.sync += ended.bit_select(self.end_tag[:bits], 1).eq(1)
        done = Signal()
        m.d.comb += done.eq((self.level != 0) & ended.bit_select(head, 1))
        with m.If(done):
            m.d.sync += head.eq(head + 1)
        m.d.sync += self.level.eq(self.level + taken - done)
        for k in range(self.ways):
            behind = Signal(bits + 1, name=f"behind_{k}")  # rows that have come since, and itself
            m.d.comb += [
                behind.eq(self.tag - self.ask[k]),
                self.known[k].eq((behind != 0) & (behind <= self.entries)),
                self.seen_top[k].eq(tops[self.ask[k][:bits]]),
                self.seen_fill[k].eq(fills[self.ask[k][:bits]]),
            ]
        return m
