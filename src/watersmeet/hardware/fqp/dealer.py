"""The dealer lets rows and instructions in (the reception stage of figure 4.5.1), each to the lane that its S bit names.

What stays true: **two streams are never on their way at once**. Rows of one stream follow each other without a pause; before a word of
another stream, or an instruction, the dealer waits until nothing moves in any block. So in each block, whatever lane it watches, rows
arrive in the order in which they were taken; of a row and a held row the held one came first; and an instruction is in force for all rows
after it and for none before it, in all blocks: reprogramming loses and doubles nothing.

Why: R and S come from opposite ends. Say a row r is held by block i, a row s by block j. On their way they meet twice if i is before j and
they pass each other between the two, and never if j is before i. The thesis's rule (one sender a link at a time) keeps rows from passing on
a wire, which handshake join needs whose rows move on as they age; its windows are then a matter of how far rows have come. With the turn
here a join is exact, whatever the number of blocks. It costs the way through the chain at each change of stream: 4 cycles a block, and
nothing in runs of one stream.
Instructions for blocks go by lane S, those for the network to both lanes.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.fqp.words import BLOCK, WORD

SETTLED = 4  # cycles until what was sent shows in ``busy``, which is two registers late


class Dealer(wiring.Component):
    """``i`` to ``r`` or ``s``; ``busy``: something moves in the blocks, or did two cycles ago."""

    def __init__(self) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(WORD)),
                "r": Out(stream.Signature(WORD)),
                "s": Out(stream.Signature(WORD)),
                "busy": In(1),
                "waits": Out(1),
            }
        )

    def is_quiet(self, since: Value) -> Value:
        """Nothing moves in the blocks, and nothing has been sent that they could not have shown yet."""
        return (since == SETTLED) & ~self.busy

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.taken = taken = Buffer(WORD)
        wiring.connect(m, wiring.flipped(self.i), taken.i)
        lanes = []
        for name, out in (("r", self.r), ("s", self.s)):
            m.submodules[f"to_{name}"] = lane = Buffer(WORD)
            wiring.connect(m, lane.o, wiring.flipped(out))
            lanes.append(lane)
        word = taken.o.payload
        inside, begun, of, code, since = Signal(), Signal(), Signal(12), Signal(), Signal(range(SETTLED + 1))
        quiet, same, goes = Signal(), Signal(), Signal()
        to_r, to_s, clear = Signal(), Signal(), Signal()
        m.d.comb += [
            quiet.eq(self.is_quiet(since)),
            same.eq(begun & (word.q == code) & (word.q | (word.id == of))),
            to_r.eq(Mux(word.q, word.id != BLOCK, ~word.s)),
            to_s.eq(Mux(word.q, 1, word.s)),
            clear.eq((~to_r | lanes[0].i.ready) & (~to_s | lanes[1].i.ready)),
            goes.eq((inside | quiet | same) & clear),
            taken.o.ready.eq(goes),
            self.waits.eq(taken.o.valid & ~(inside | quiet | same)),
        ]
        for lane, to in zip(lanes, (to_r, to_s), strict=True):
            m.d.comb += [lane.i.payload.eq(word), lane.i.valid.eq(taken.o.valid & goes & to)]
        with m.If((taken.o.valid & goes) | (lanes[0].level != 0) | (lanes[1].level != 0)):
            m.d.sync += since.eq(0)
        with m.Elif(since != SETTLED):
            m.d.sync += since.eq(since + 1)
        with m.If(taken.o.valid & goes):
            m.d.sync += [inside.eq(~word.last), begun.eq(1), code.eq(word.q)]
            with m.If(~inside):
                m.d.sync += of.eq(word.id)
        return m
