"""Order-by (thesis 7.1.5): the rows of an answer, sorted by insertion as they come, given at the end of all streams.

What stays true: rows 0 to ``count`` of the buffer are sorted, and are the first ones of all that came; of rows with equal keys the
earlier stays in front. A row moves those behind its place on by one, a row a cycle.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.fabric.encoding import FUNCTIONS
from watersmeet.hardware.ssp.gather import Gather, Scatter, connected, passing
from watersmeet.hardware.ssp.reading import Reading
from watersmeet.hardware.ssp.riders import Riders
from watersmeet.hardware.ssp.words import ENDED, FIELD, RESPONSE, SEGMENT, WORD, value_of

DESCENDING = [FUNCTIONS.index(one) for one in ("descending", "descending_nulls_first")]
NULLS_FIRST = [FUNCTIONS.index(one) for one in ("ascending", "descending_nulls_first")]
KEY = data.StructLayout({"field": FIELD, "function": 6, "used": 1})


class OrderBy(wiring.Component):
    """A unit that sorts up to ``window`` rows of ``segments`` segments by up to ``keys`` columns."""

    def __init__(self, b_id: int, window: int, segments: int, keys: int = 2, slots: int = 0) -> None:
        self.b_id, self.window, self.segments, self.keys, self.slots = b_id, window, segments, keys, slots
        super().__init__({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(RESPONSE))})
        self.count = Signal(range(window + 1))
        self.watch = {"rows": self.count}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.gather = gather = Gather(self.segments, self.b_id)
        m.submodules.riders = riders = Riders(self.segments, self.slots)
        m.submodules.scatter = scatter = Scatter(self.segments)
        connected(m, self.i, gather.i)
        connected(m, riders.o, scatter.i)
        connected(m, scatter.o, self.o)
        source, row, out = gather.o, gather.o.payload, riders.i
        takes = Signal()
        m.d.comb += [riders.program.eq(row), riders.taken.eq(takes)]
        read = Reading(m, row, takes)
        stream_id, result, shown, segments = Signal(12), Signal(12), Signal(), Signal(5)
        limit, at = Signal(range(self.window + 1)), Signal(range(self.keys + 1))
        keys = [Signal(KEY, name=f"key_{k}") for k in range(self.keys)]
        with m.If(read.begins("reset")):
            m.d.sync += [stream_id.eq(0), shown.eq(0), at.eq(0), self.count.eq(0)]
            m.d.sync += [key.used.eq(0) for key in keys]
        with m.If(read.begins("order_by")):
            m.d.sync += [
                stream_id.eq(read.now.stream),
                result.eq(read.now.out),
                shown.eq(read.now.port[2]),
                segments.eq(read.now.segments),
            ]
        with m.If(read.ends("order_by", "input")):
            m.d.sync += limit.eq(read.word)
        with m.If(read.reads("order_by", "output")):
            m.d.sync += at.eq(at + 1)
            for k, key in enumerate(keys):
                with m.If(at == k):
                    m.d.sync += [
                        key.field.eq(read.fields.attribute),
                        key.function.eq(read.fields.function),
                        key.used.eq(1),
                    ]

        m.submodules.buffer = buffer = Memory(
            shape=SEGMENT * self.segments, depth=max(2, self.window), init=[]
        )
        write, look = buffer.write_port(), buffer.read_port()
        place = Signal(range(self.window + 1))
        earlier = self._before(m, keys, row.row, look.data)
        m.d.comb += [
            out.payload.row.eq(look.data),
            out.payload.stream.eq(result),
            out.payload.count.eq(segments),
            out.payload.shown.eq(shown),
            write.addr.eq(place),
            look.en.eq(0),  # what was read stays, until something else is
        ]
        with m.FSM():
            with m.State("START"):
                m.d.comb += [look.addr.eq(self.count - 1), look.en.eq(1)]
                m.d.sync += place.eq(self.count)
                with m.If(source.valid & row.inst):
                    m.d.comb += [takes.eq(1), source.ready.eq(1)]
                with m.Elif(source.valid & (row.stream == ENDED)):
                    m.d.sync += place.eq(0)
                    m.next = "READ"
                with m.Elif(source.valid & ((row.stream != stream_id) | row.tick)):
                    m.d.comb += passing(source, row, out)
                with m.Elif(source.valid):
                    m.next = "SHIFT"
            with m.State("SHIFT"):  # the row before the place is in look.data
                with m.If((place != 0) & earlier):
                    m.d.comb += [
                        write.en.eq(place < limit),
                        write.data.eq(look.data),
                        look.addr.eq(place - 2),
                        look.en.eq(1),
                    ]
                    m.d.sync += place.eq(place - 1)
                with m.Else():
                    m.d.comb += [out.valid.eq(1), out.payload.void.eq(1), out.payload.done.eq(1)]
                    with m.If(out.ready):
                        m.d.comb += [
                            write.en.eq(place < limit),
                            write.data.eq(row.row),
                            source.ready.eq(1),
                        ]
                        m.d.sync += self.count.eq(Mux(self.count < limit, self.count + 1, self.count))
                        m.next = "START"
            with m.State("READ"):
                m.d.comb += [look.addr.eq(place), look.en.eq(1)]
                m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += [
                    out.valid.eq(1),
                    out.payload.void.eq(place == self.count),
                    out.payload.done.eq(place == self.count),
                ]
                with m.If(out.ready):
                    m.d.sync += place.eq(place + 1)
                    m.next = "READ"
                    with m.If(place == self.count):
                        m.d.comb += source.ready.eq(1)
                        m.next = "START"
        return m

    @staticmethod
    def _before(m: Module, keys: list[Any], new: Any, old: Any) -> Signal:
        """Whether the new row comes strictly before the old one."""
        before, tied = Signal(), Signal(len(keys) + 1)
        m.d.comb += tied[0].eq(1)
        wins = Signal(len(keys))
        for k, key in enumerate(keys):
            a, a_null = value_of(m, new, key.field, f"new_{k}")
            b, b_null = value_of(m, old, key.field, f"old_{k}")
            down, nulls_first = Signal(name=f"down_{k}"), Signal(name=f"nulls_first_{k}")
            m.d.comb += [
                down.eq(Cat(key.function == one for one in DESCENDING).any()),
                nulls_first.eq(Cat(key.function == one for one in NULLS_FIRST).any()),
            ]
            less = Mux(down, b.as_signed() < a.as_signed(), a.as_signed() < b.as_signed())
            wins_here = Mux(a_null != b_null, Mux(a_null, nulls_first, ~nulls_first), ~a_null & less)
            same = (a_null & b_null) | (~a_null & ~b_null & (a == b))
            m.d.comb += [
                wins[k].eq(key.used & tied[k] & wins_here),
                tied[k + 1].eq(tied[k] & (~key.used | same)),
            ]
        m.d.comb += before.eq(wins.any())
        return before
