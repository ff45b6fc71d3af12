"""The nodes of SplitJoin's two networks (thesis 5.5, figure 5.5.3).

``DNode`` is a fork: it stores a word and hands it to each output as soon as that one can take it. ``GNode`` takes from its sources in
turn, a cycle each (toggle grant). ``OrderedGNode`` also keeps the results of one probing row together: a source that
has given its last word of a row is not granted until all have; the thesis orders by punctuation (5.2) and does not say how in
hardware.
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer, Fork, Merge

DNode = Fork


class GNode(Merge):
    """A merger with toggle grant."""

    def __init__(self, layout: Any, ways: int = 2) -> None:
        super().__init__(layout, ways, "toggle")


class OrderedGNode(wiring.Component):
    """A merger of words with ``found`` and ``ends``.

    What stays true: of each input, exactly one word with ``ends`` is taken for each one that leaves, and all results of a probing row
    leave between two ends. Ends that are not the last, and carry no result, vanish.
    """

    def __init__(self, layout: Any, ways: int = 2) -> None:
        self.layout, self.ways = layout, ways
        super().__init__({"i": In(stream.Signature(layout)).array(ways), "o": Out(stream.Signature(layout))})
        self.buffer = Buffer(layout)
        self.turn = Signal(range(ways))
        self.done = Signal(ways)  # inputs that have given the end of the row in turn
        self.watch = {"level": self.buffer.level, "done": self.done}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        m.d.sync += self.turn.eq(Mux(self.turn == self.ways - 1, 0, self.turn + 1))
        chosen, takes, after = Signal(self.layout), Signal(), Signal(self.ways)
        for k, source in enumerate(self.i):
            granted = (self.turn == k) & ~self.done[k]
            m.d.comb += source.ready.eq(buffer.i.ready & granted)
            with m.If(granted):
                m.d.comb += [
                    takes.eq(source.valid & buffer.i.ready),
                    after.eq(self.done | (source.payload.ends << k)),
                ]
        m.d.comb += [
            chosen.eq(Array(source.payload for source in self.i)[self.turn]),
            buffer.i.payload.eq(chosen),
            buffer.i.payload.ends.eq(after.all()),
            buffer.i.valid.eq(takes & (chosen.found | after.all())),
        ]
        with m.If(takes):
            m.d.sync += self.done.eq(Mux(after.all(), 0, after))
        return m
