"""A queue in block RAM: first in, first out.

What stays true: rows leave in the order in which they came, each once; at most ``depth`` are inside, one of them in the output's
register. The memory has one write port and one registered read; valid and ready come from registers.
"""

from typing import Any

from amaranth.hdl import Module, Shape, Signal, Value
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError


class Fifo(wiring.Component):
    """``i`` to ``o``, two cycles later when empty; ``level`` counts the rows inside."""

    def __init__(self, layout: Any, depth: int) -> None:
        if depth < 2:
            raise OptionError(f"depth of a queue must be at least 2; got {depth}")
        self.layout, self.depth = layout, depth
        super().__init__({"i": In(stream.Signature(layout)), "o": Out(stream.Signature(layout))})
        self.level = Signal(range(depth + 1))
        self.watch = {"level": self.level}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.queue = queue = fifo.SyncFIFOBuffered(
            width=Shape.cast(self.layout).width, depth=self.depth
        )
        m.d.comb += [
            queue.w_data.eq(Value.cast(self.i.payload)),
            queue.w_en.eq(self.i.valid),
            self.i.ready.eq(queue.w_rdy),
            Value.cast(self.o.payload).eq(queue.r_data),
            self.o.valid.eq(queue.r_rdy),
            queue.r_en.eq(self.o.ready),
            self.level.eq(queue.level),
        ]
        return m
