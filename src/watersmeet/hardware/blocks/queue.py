"""A short queue for what comes out of a pipeline that does not stop: it says early when there is no more room.

What stays true: rows leave in the order in which they came, each once. ``room`` is a register that is high only if
``margin`` more rows fit, so whoever starts nothing while it is low, and has at most ``margin`` rows under way, loses none.
The rows lie in look-up tables (read without a clock), the output is a register.
"""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError


class Queue(wiring.Component):
    """``put`` with ``row`` to ``o``, at the earliest one cycle later; a power of two of places."""

    def __init__(self, layout: Any, depth: int = 16, margin: int = 6) -> None:
        if depth & (depth - 1) or depth < 2:
            raise OptionError(f"depth of a queue must be a power of two; got {depth}")
        if not 0 < margin < depth:
            raise OptionError(f"margin of a queue must be from 1 to {depth - 1}; got {margin}")
        self.layout, self.depth, self.margin = layout, depth, margin
        super().__init__(
            {"put": In(1), "row": In(layout), "room": Out(1, init=1), "o": Out(stream.Signature(layout))}
        )
        self.level = Signal(range(depth + 1))  # without the row in the output's register
        self.watch = {"level": self.level}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.rows = rows = Memory(
            shape=self.layout, depth=self.depth, init=[], attrs={"ram_style": "distributed"}
        )
        write, read = rows.write_port(), rows.read_port(domain="comb")
        head, tail = Signal(range(self.depth)), Signal(range(self.depth))
        passes = Signal()  # a row goes on into the output's register
        m.d.comb += [
            write.addr.eq(tail),
            write.data.eq(self.row),
            write.en.eq(self.put),
            read.addr.eq(head),
            passes.eq((self.level != 0) & (~self.o.valid | self.o.ready)),
        ]
        m.d.sync += [
            tail.eq(tail + self.put),
            head.eq(head + passes),
            self.level.eq(self.level + self.put - passes),
            self.room.eq(self.level < self.depth - self.margin),  # the one that is put now counts already
        ]
        with m.If(passes):
            m.d.sync += [self.o.payload.eq(read.data), self.o.valid.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m
