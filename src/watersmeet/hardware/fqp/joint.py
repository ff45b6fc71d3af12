"""Two streams of words into one, a whole row or instruction at a time: where a lane is shared, and the nodes of the result tree (4.2).

What stays true: words between a first and its last one come from one input; nobody waits for ever, as the turn goes to the other input
after each row.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.fqp.words import WORD


class Joint(wiring.Component):
    """``i[0]`` and ``i[1]`` to ``o``, one cycle later; ``level``: words in the output's buffer."""

    def __init__(self) -> None:
        super().__init__(
            {"i": In(stream.Signature(WORD)).array(2), "o": Out(stream.Signature(WORD)), "level": Out(2)}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.buffer = buffer = Buffer(WORD)
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        inside, turn, chosen = Signal(), Signal(), Signal()  # inside: a row of input `turn` is on its way
        m.d.comb += [
            chosen.eq(Mux(inside, turn, Mux(turn, self.i[1].valid, ~self.i[0].valid))),
            buffer.i.payload.eq(Mux(chosen, self.i[1].payload, self.i[0].payload)),
            buffer.i.valid.eq(Mux(chosen, self.i[1].valid, self.i[0].valid)),
            self.level.eq(buffer.level),
        ]
        for k in range(2):
            m.d.comb += self.i[k].ready.eq(buffer.i.ready & (chosen == k))
        with m.If(buffer.i.valid & buffer.i.ready):
            m.d.sync += [
                inside.eq(~buffer.i.payload.last),
                turn.eq(Mux(buffer.i.payload.last, ~chosen, chosen)),
            ]
        return m
