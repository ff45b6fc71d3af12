"""A buffer with two places: every output is a register, and still a row passes every cycle.

What stays true: rows leave in the order in which they came, each once. ``i.ready`` depends only on the spare place,
``o`` only on the front one, so no path goes through a buffer within a cycle.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Buffer(wiring.Component):
    """``i`` to ``o``, one cycle later; ``level`` is 0, 1 or 2."""

    def __init__(self, layout: Any) -> None:
        self.layout = layout
        super().__init__({"i": In(stream.Signature(layout)), "o": Out(stream.Signature(layout))})
        self.level = Signal(2)
        self.watch = {"level": self.level}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        spare = Signal(self.layout)
        full = Signal()  # the spare place; only if the front one is full too
        m.d.comb += [self.i.ready.eq(~full), self.level.eq(self.o.valid + full)]
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [
                self.o.payload.eq(Mux(full, spare, self.i.payload)),
                self.o.valid.eq(full | self.i.valid),
                full.eq(0),
            ]
        with m.Elif(self.i.valid & ~full):
            m.d.sync += [spare.eq(self.i.payload), full.eq(1)]
        return m
