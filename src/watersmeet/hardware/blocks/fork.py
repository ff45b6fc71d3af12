"""A fork: every row goes to all outputs, each of which takes it when it can (an eager fork).

What stays true: ``taken[k]`` iff output k has had the row in front; the row leaves when all have, so each output gets every
row once, in order. No output waits for another within a cycle, but none can be two rows ahead of another.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks.buffer import Buffer


class Fork(wiring.Component):
    """``i`` to each of ``o[0]`` to ``o[ways - 1]``, one cycle later."""

    def __init__(self, layout: Any, ways: int = 2) -> None:
        if ways < 1:
            raise OptionError(f"ways of a fork must be at least 1; got {ways}")
        self.layout, self.ways = layout, ways
        super().__init__({"i": In(stream.Signature(layout)), "o": Out(stream.Signature(layout)).array(ways)})
        self.buffer = Buffer(layout)
        self.watch = {"level": self.buffer.level}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        wiring.connect(m, wiring.flipped(self.i), buffer.i)
        taken, takes = Signal(self.ways), Signal(self.ways)
        for k, out in enumerate(self.o):
            m.d.comb += [
                out.payload.eq(buffer.o.payload),
                out.valid.eq(buffer.o.valid & ~taken[k]),
                takes[k].eq(taken[k] | out.ready),
            ]
        m.d.comb += buffer.o.ready.eq(takes.all())
        with m.If(buffer.o.valid):
            m.d.sync += taken.eq(Mux(takes.all(), 0, takes))
        return m
