"""Words into items, and answers into words: the two ends of every unit.

What stays true: an item is given when its last word is there, in order; of instructions only those for this unit are given, a word at a
time; an answer's words leave one after another, the first with its stream-ID, the others with that of further segments (7.2.6).
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.encoded import HEAD
from watersmeet.hardware.ssp.words import CONTINUED, RESPONSE, SEGMENT, WORD, answer, item


def passing(source: Any, row: Any, out: Any) -> list[Any]:
    """The row that ``source`` offers is none of the unit's and goes on as it came: who rides may want it."""
    return [
        out.valid.eq(1),
        out.payload.row.eq(row.row),
        out.payload.stream.eq(row.stream),
        out.payload.tick.eq(row.tick),
        out.payload.shown.eq(0),
        out.payload.done.eq(1),
        source.ready.eq(out.ready),
    ]


class Gather(wiring.Component):
    """Words to items of up to ``segments`` segments. A row gathers while the one before is worked on."""

    def __init__(self, segments: int, b_id: int) -> None:
        self.segments, self.b_id = segments, b_id
        super().__init__({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(item(segments)))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        word, out = self.i.payload, self.o
        at = Signal(range(self.segments + 1))
        begins, mine = Signal(init=1), Signal()
        collected = Signal(SEGMENT * self.segments)
        stream_id = Signal(12)
        whole = Signal(SEGMENT * self.segments)
        m.d.comb += whole.eq(collected)
        for k in range(self.segments):
            with m.If(at == k):
                m.d.comb += whole[SEGMENT * k : SEGMENT * (k + 1)].eq(word.payload)
        head = HEAD(word.payload)
        ours = Signal()
        m.d.comb += ours.eq(Mux(begins, head.b_id == self.b_id, mine))
        gives = Signal()  # this word completes an item
        m.d.comb += gives.eq(Mux(word.q, ours, word.last))
        free = ~out.valid | out.ready
        m.d.comb += self.i.ready.eq(~gives | free)
        with m.If(free):
            m.d.sync += out.valid.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [begins.eq(word.last), mine.eq(ours)]
            with m.If(~word.q):
                m.d.sync += [
                    collected.eq(Mux(word.last, 0, whole)),
                    at.eq(Mux(word.last, 0, Mux(at == self.segments, at, at + 1))),
                ]
                with m.If(begins):
                    m.d.sync += stream_id.eq(word.stream)
            with m.If(gives):
                m.d.sync += [
                    out.valid.eq(1),
                    out.payload.row.eq(Mux(word.q, word.payload, whole)),
                    out.payload.stream.eq(Mux(begins, word.stream, stream_id)),
                    out.payload.tick.eq(word.tick & ~word.q),
                    out.payload.inst.eq(word.q),
                    out.payload.first.eq(begins),
                ]
        return m


class Scatter(wiring.Component):
    """Answers of up to ``segments`` segments to the words of a response."""

    def __init__(self, segments: int) -> None:
        self.segments = segments
        super().__init__({"i": In(stream.Signature(answer(segments))), "o": Out(stream.Signature(RESPONSE))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        new, out = self.i.payload, self.o
        rest = Signal(SEGMENT * self.segments)  # the first segment lowest
        left = Signal(5)  # segments that are still to leave, with the one in front
        busy, done, front = Signal(), Signal(), Signal(12)
        tick, void, fault = Signal(), Signal(), Signal()
        ends = Signal()
        m.d.comb += [
            ends.eq(left == 1),
            out.valid.eq(busy),
            out.payload.void.eq(void),
            out.payload.done.eq(done & ends),
            out.payload.word.payload.eq(rest[:SEGMENT]),
            out.payload.word.stream.eq(front),
            out.payload.word.last.eq(ends),
            out.payload.word.tick.eq(tick),
            out.payload.word.s.eq(fault),
            self.i.ready.eq(~busy | (out.ready & ends)),
        ]
        with m.If(busy & out.ready):
            m.d.sync += [
                rest.eq(rest >> SEGMENT),
                left.eq(left - 1),
                front.eq(CONTINUED),
                busy.eq(~ends),
            ]
        with m.If(self.i.valid & self.i.ready):
            one = new.tick | new.void | (new.count == 0)
            m.d.sync += [
                busy.eq(1),
                rest.eq(new.row),
                left.eq(Mux(one, 1, new.count)),
                front.eq(new.stream),
                done.eq(new.done),
                tick.eq(new.tick),
                void.eq(new.void),
                fault.eq(new.fault),
            ]
        return m


def connected(m: Module, source: Any, target: Any) -> None:
    """Two streams of the same payload, whatever their directions say."""
    m.d.comb += [
        Value.cast(target.payload).eq(Value.cast(source.payload)),
        target.valid.eq(source.valid),
        source.ready.eq(target.ready),
    ]


def entering(m: Module, source: Any, go: Value, out: Any) -> Signal:
    """Whether what is in front may enter a pipeline that ``go`` moves, between two streams of items: a row only when no word of an
    instruction is inside, as it is worked on by what that says.
    """
    inside, enters = Signal(5), Signal()
    comes, leaves = Signal(), Signal()
    m.d.comb += [
        enters.eq(source.payload.inst | (inside == 0)),
        comes.eq(source.valid & go & source.payload.inst),
        leaves.eq(out.valid & out.ready & out.payload.item.inst),
    ]
    m.d.sync += inside.eq(inside + comes - leaves)
    return enters
