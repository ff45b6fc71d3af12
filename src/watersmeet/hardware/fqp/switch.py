"""The switch that deals a lane out to parallel chains (figures 4.2.3, 4.5.8; GSwitch-D of 7.2): a mask of ways out for each stream.

What stays true: a row goes whole to every way of its stream's mask, and to none if the switch does not know the stream; instructions for
blocks and for other switches go everywhere, its own end here.
"""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.encoded import HEAD
from watersmeet.hardware.fqp.words import NETWORK, WORD


class SwitchD(wiring.Component):
    """``i`` to each of ``o``; ``number`` is its B-ID."""

    def __init__(self, ways: int, streams: int = 8) -> None:
        if not 1 <= ways <= 64:
            raise OptionError(f"ways of a switch must be from 1 to 64; got {ways}")
        self.ways, self.streams = ways, streams
        super().__init__(
            {
                "number": In(12),
                "i": In(stream.Signature(WORD)),
                "o": Out(stream.Signature(WORD)).array(ways),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.taken = taken = Buffer(WORD)
        wiring.connect(m, wiring.flipped(self.i), taken.i)
        outs = []
        for k, out in enumerate(self.o):
            m.submodules[f"to_{k}"] = lane = Buffer(WORD)
            wiring.connect(m, lane.o, wiring.flipped(out))
            outs.append(lane)
        word, head = taken.o.payload, data.View(HEAD, taken.o.payload.data)
        known = [Signal(12, name=f"stream_{k}") for k in range(self.streams)]
        masks = [Signal(self.ways, name=f"mask_{k}") for k in range(self.streams)]
        found, own = Signal(self.ways), Signal()
        inside, route, mine = Signal(), Signal(self.ways), Signal()
        for stream_id, mask in zip(known, masks, strict=True):
            with m.If((stream_id == word.id) & mask.any()):  # a forgotten entry still has its stream's number
                m.d.comb += found.eq(mask)
        m.d.comb += own.eq(word.q & (word.id == NETWORK) & (head.b_id == self.number))
        now, ends, ready, goes = Signal(self.ways), Signal(), Signal(), Signal()
        with m.If(inside):
            m.d.comb += [now.eq(route), ends.eq(mine)]
        with m.Else():
            m.d.comb += ends.eq(own)
            with m.If(~own):
                m.d.comb += now.eq(found)
                with m.If(word.q):
                    m.d.comb += now.eq((1 << self.ways) - 1)
        blocked = Signal(self.ways)
        for k, lane in enumerate(outs):
            m.d.comb += [
                blocked[k].eq(now[k] & ~lane.i.ready),
                lane.i.payload.eq(word),
                lane.i.valid.eq(goes & now[k]),
            ]
        m.d.comb += [ready.eq(~blocked.any()), taken.o.ready.eq(ready), goes.eq(taken.o.valid & ready)]
        with m.If(goes):
            m.d.sync += [inside.eq(~word.last), route.eq(now), mine.eq(ends)]
        self._learn(m, word, head, goes & ends, inside, known, masks)
        levels = [taken.level != 0, inside, *(lane.level != 0 for lane in outs)]
        busy = Signal(len(levels))
        m.d.comb += [busy[k].eq(level) for k, level in enumerate(levels)]
        m.d.sync += self.busy.eq(busy.any())
        return m

    def _learn(
        self, m: Module, word: Any, head: Any, takes: Any, inside: Any, known: Any, masks: Any
    ) -> None:
        """Head, chunk, mask: three words. A stream that is known keeps its entry; one with an empty mask may be forgotten."""
        entry, place, same = Signal(range(self.streams)), Signal(range(self.streams)), Signal(12)
        for k in reversed(range(self.streams)):
            with m.If(~masks[k].any()):
                m.d.comb += place.eq(k)
        for k in range(self.streams):
            with m.If((known[k] == head.stream) & masks[k].any()):
                m.d.comb += place.eq(k)
        with m.If(takes & ~inside):
            m.d.sync += [entry.eq(place), same.eq(head.stream)]
        with m.If(takes & inside & word.last):
            for k in range(self.streams):
                with m.If(entry == k):
                    m.d.sync += [known[k].eq(same), masks[k].eq(word.data)]
