"""The synchroniser (thesis 7.1.6): rows of several streams that came by different ways, back in the order of arrival.

What stays true: rows leave by their tickets, one after the other. The host numbers the rows of the streams that meet here in one count (the
token of the thesis, carried by the row itself: its arrival number), and a row that was dropped comes as a tick with its ticket, so the
next ticket always comes by one of the ways. A row that comes too early waits in the queue of its stream; one for which there is no
place is a fault, and is told: waiting for room could wait for ever, as the row that is due may be behind it on the same wire.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Fifo
from watersmeet.hardware.ssp.gather import Gather, Scatter, connected
from watersmeet.hardware.ssp.reading import Reading
from watersmeet.hardware.ssp.words import RESPONSE, WORD, answer

TICKET = 32  # bits, the first of a row


class Synchroniser(wiring.Component):
    """Up to ``ways`` streams with rows of ``segments`` segments, of each of which ``depth`` rows can wait."""

    def __init__(self, b_id: int, segments: int, ways: int = 4, depth: int = 64) -> None:
        self.b_id, self.segments, self.ways, self.depth = b_id, segments, ways, depth
        super().__init__({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(RESPONSE))})
        self.queues = [Fifo(answer(segments), depth) for _ in range(ways)]
        self.watch = {f"waiting_{k}": queue.level for k, queue in enumerate(self.queues)}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.gather = gather = Gather(self.segments, self.b_id)
        m.submodules.scatter = scatter = Scatter(self.segments)
        connected(m, self.i, gather.i)
        connected(m, scatter.o, self.o)
        for k, queue in enumerate(self.queues):
            m.submodules[f"queue_{k}"] = queue
        source, row, out = gather.o, gather.o.payload, scatter.i
        takes = Signal()
        read = Reading(m, row, takes)
        streams = [Signal(12, name=f"stream_{k}") for k in range(self.ways)]
        counts = [Signal(5, name=f"count_{k}") for k in range(self.ways)]
        at, due = Signal(range(self.ways + 1)), Signal(TICKET)
        with m.If(read.begins("reset")):
            m.d.sync += [at.eq(0), due.eq(0)]
            m.d.sync += [one.eq(0) for one in streams]
        with m.If(read.reads("synchronise", "input")):
            m.d.sync += at.eq(at + 1)
            for k in range(self.ways):
                with m.If(at == k):
                    m.d.sync += [streams[k].eq(read.fields.other), counts[k].eq(read.fields.attribute)]

        own = Signal(self.ways)
        m.d.comb += own.eq(Cat(one == row.stream for one in streams))
        pushes, lost = Signal(), Signal()
        for k, queue in enumerate(self.queues):
            entry = queue.i.payload
            m.d.comb += [
                entry.row.eq(row.row),
                entry.stream.eq(row.stream),
                entry.tick.eq(row.tick),
                entry.count.eq(counts[k]),
                queue.i.valid.eq(pushes & own[k]),
            ]
        m.d.comb += lost.eq((own & ~Cat(queue.i.ready for queue in self.queues)) != 0)
        is_due = Signal(self.ways)
        m.d.comb += is_due.eq(
            Cat(queue.o.valid & (queue.o.payload.row[:TICKET] == due) for queue in self.queues)
        )
        chosen = Signal(range(self.ways))
        for k in reversed(range(self.ways)):
            with m.If(is_due[k]):
                m.d.comb += chosen.eq(k)
        front = Array(Value.cast(queue.o.payload) for queue in self.queues)[chosen]
        settle = Signal(2)  # a queue shows a row two cycles after it came
        m.d.comb += Value.cast(out.payload).eq(front)
        with m.FSM():
            with m.State("START"):
                with m.If(source.valid & row.inst):
                    m.d.comb += [takes.eq(1), source.ready.eq(1)]
                with m.Elif(source.valid & (own == 0)):
                    m.d.comb += [out.valid.eq(1), out.payload.void.eq(1), out.payload.done.eq(1)]
                    m.d.comb += source.ready.eq(out.ready)
                with m.Elif(source.valid):
                    m.d.comb += [pushes.eq(1), source.ready.eq(1)]
                    m.d.sync += settle.eq(2)
                    m.next = "GIVE"
                    with m.If(lost):
                        m.next = "FAULT"
            with m.State("GIVE"):
                m.d.sync += settle.eq(Mux(settle == 0, 0, settle - 1))
                with m.If(is_due != 0):
                    m.d.comb += out.valid.eq(1)
                    with m.If(out.ready):
                        m.d.sync += [due.eq(due + 1), settle.eq(2)]
                        for k, queue in enumerate(self.queues):
                            m.d.comb += queue.o.ready.eq(chosen == k)
                with m.Elif(settle == 0):
                    m.d.comb += [out.valid.eq(1), out.payload.void.eq(1), out.payload.done.eq(1)]
                    with m.If(out.ready):
                        m.next = "START"
            with m.State("FAULT"):
                m.d.comb += [
                    out.valid.eq(1),
                    out.payload.fault.eq(1),
                    out.payload.tick.eq(1),
                    out.payload.void.eq(0),
                    out.payload.done.eq(1),
                ]
                with m.If(out.ready):
                    m.next = "START"
        return m
