"""Aggregation with group-by (thesis 7.1.5, figure 7.1.5): group finder, group buffer, aggregation core.

What stays true: every row changes exactly one group, the one with its key; groups leave at the end of all streams, in the order in which
they began. NULL is a key like others; a sum, least or greatest of no values is NULL, and values that are NULL are not counted.

The thesis searches the group buffer from its beginning. Here the key's bits say where to begin, so a row takes two cycles however many
groups there are (and one more for each group on the way that is not its own). A key that finds the buffer full is a fault, and is told
with the results.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.fabric.encoding import FUNCTIONS
from watersmeet.hardware.ssp.gather import Gather, Scatter, connected, passing
from watersmeet.hardware.ssp.reading import Reading
from watersmeet.hardware.ssp.riders import Riders
from watersmeet.hardware.ssp.steps import Steps, chosen
from watersmeet.hardware.ssp.words import ENDED, FIELD, LANE, LANES, RESPONSE, SEGMENT, WORD

KEY, COUNT, SUM, MIN, MAX = (FUNCTIONS.index(one) for one in ("key", "count", "sum", "min", "max"))
AGGREGATE = data.StructLayout({"function": 6, "source": FIELD})
NULL = Const(1 << 63, 64)


class Aggregation(wiring.Component):
    """A unit that groups. ``segments``: of the rows that come; ``key``: segments of a group's key; ``aggregates``, ``steps``, ``groups``:
    how many there can be. A group is a row: its key, and a segment for each aggregate.
    """

    def __init__(
        self, b_id: int, segments: int, key: int, aggregates: int, steps: int, groups: int, slots: int = 0
    ) -> None:
        if groups < 2 or groups & (groups - 1):
            raise OptionError(f"groups must be a power of two, at least 2; got {groups}")
        self.b_id, self.segments, self.key, self.aggregates = b_id, segments, key, aggregates
        self.steps, self.groups, self.slots = steps, groups, slots
        super().__init__({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(RESPONSE))})
        self.count = Signal(range(groups + 1))
        self.watch = {"groups": self.count}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        wide = self.key + self.aggregates
        m.submodules.gather = gather = Gather(self.segments, self.b_id)
        m.submodules.steps = steps = Steps(self.segments, self.steps)
        m.submodules.riders = riders = Riders(wide, self.slots)
        m.submodules.scatter = scatter = Scatter(wide)
        connected(m, self.i, gather.i)
        connected(m, gather.o, steps.i)
        connected(m, riders.o, scatter.i)
        connected(m, scatter.o, self.o)

        given, source, out = steps.o.payload, steps.o, riders.i
        row = given.item
        takes = Signal()
        for listener in (steps, riders):
            m.d.comb += [
                listener.program.row.eq(row.row),
                listener.program.inst.eq(row.inst),
                listener.program.first.eq(row.first),
                listener.taken.eq(takes),
            ]
        read = Reading(m, row, takes)
        stream_id, result, shown, segments = Signal(12), Signal(12), Signal(), Signal(5)
        picks, lane = Signal(6 * LANES * self.key), Signal(range(LANES * self.key + 1))
        uses = [Signal(AGGREGATE, name=f"aggregate_{k}") for k in range(self.aggregates)]
        at = Signal(range(self.aggregates + 1))
        with m.If(read.begins("reset")):
            m.d.sync += [stream_id.eq(0), shown.eq(0), lane.eq(0), at.eq(0), picks.eq((1 << len(picks)) - 1)]
        with m.If(read.begins("aggregation")):
            m.d.sync += [
                stream_id.eq(read.now.stream),
                result.eq(read.now.out),
                shown.eq(read.now.port[2]),
                segments.eq(read.now.segments),
            ]
        with m.If(read.reads("aggregation", "output")):
            with m.If(read.fields.function == KEY):
                m.d.sync += lane.eq(lane + 1)
                for k in range(LANES * self.key):
                    with m.If(lane == k):
                        m.d.sync += picks[6 * k : 6 * k + 6].eq(read.fields.attribute[:6])
            with m.Else():
                m.d.sync += at.eq(at + 1)
                for k, use in enumerate(uses):
                    with m.If(at == k):
                        m.d.sync += [
                            use.function.eq(read.fields.function),
                            use.source.eq(read.fields.attribute),
                        ]

        # the row's key: lanes that are not used are those of a lane that no row has
        own = Signal(SEGMENT * self.key)
        padded = Cat(row.row, Const(0, 64 * LANE - SEGMENT * self.segments))
        m.d.comb += own.eq(
            Cat(padded.word_select(picks[6 * k : 6 * k + 6], LANE) for k in range(LANES * self.key))
        )
        bits = self.groups.bit_length() - 1
        mixed: Any = Const(0, 32)
        for k in range(LANES * self.key):
            mixed = Cat(mixed[25:], mixed[:25]) ^ own[LANE * k : LANE * (k + 1)]
        start = Signal(bits)
        m.d.comb += start.eq(mixed ^ mixed[9:] ^ mixed[18:])

        group = data.StructLayout(
            {"valid": 1, "key": SEGMENT * self.key, "values": data.ArrayLayout(64, self.aggregates)}
        )
        m.submodules.buffer = buffer = Memory(shape=group, depth=self.groups, init=[])
        write, find = buffer.write_port(), buffer.read_port()
        m.submodules.order = order = Memory(shape=range(self.groups), depth=self.groups, init=[])
        list_write, list_read = order.write_port(), order.read_port()
        here, sweep, fault = Signal(bits), Signal(bits), Signal()
        same = find.data.key == own
        m.d.comb += [
            write.addr.eq(here),
            write.data.valid.eq(1),
            write.data.key.eq(own),
            list_write.addr.eq(self.count),
            list_write.data.eq(here),
            list_read.addr.eq(sweep),
            find.en.eq(0),  # what was read stays, until something else is
            list_read.en.eq(0),
        ]
        for k, use in enumerate(uses):
            m.d.comb += write.data.values[k].eq(self._changed(m, k, use, given, find.data))
        m.d.comb += [
            out.payload.stream.eq(result),
            out.payload.count.eq(segments),
            out.payload.shown.eq(shown),
            out.payload.row.eq(Cat(find.data.key, Value.cast(find.data["values"]))),
        ]

        with m.FSM():
            with m.State("START"):
                m.d.comb += [find.addr.eq(start), find.en.eq(1)]
                m.d.sync += here.eq(start)
                with m.If(source.valid & row.inst):
                    m.d.comb += [takes.eq(1), source.ready.eq(1)]
                    with m.If(read.begins("reset")):
                        m.d.sync += [sweep.eq(0), self.count.eq(0), fault.eq(0)]
                        m.next = "CLEAR"
                with m.Elif(source.valid & (row.stream == ENDED)):
                    m.d.sync += sweep.eq(0)
                    m.next = "LIST"
                with m.Elif(source.valid & ((row.stream != stream_id) | row.tick)):
                    m.d.comb += passing(source, row, out)
                with m.Elif(source.valid):
                    m.next = "FIND"
            with m.State("FIND"):
                lost = self.count == self.groups
                with m.If(find.data.valid & ~same & ~lost):
                    m.d.comb += [find.addr.eq(here + 1), find.en.eq(1)]
                    m.d.sync += here.eq(here + 1)
                with m.Elif(
                    find.data.valid & ~same & ((here + 1)[:bits] != start)
                ):  # full: all are looked at once
                    m.d.comb += [find.addr.eq(here + 1), find.en.eq(1)]
                    m.d.sync += here.eq(here + 1)
                with m.Else():
                    m.d.comb += [out.valid.eq(1), out.payload.void.eq(1), out.payload.done.eq(1)]
                    with m.If(out.ready):
                        m.d.comb += [
                            source.ready.eq(1),
                            write.en.eq(~find.data.valid | same),
                            list_write.en.eq(~find.data.valid),
                        ]
                        m.d.sync += [
                            self.count.eq(self.count + ~find.data.valid),
                            fault.eq(fault | (find.data.valid & ~same)),
                        ]
                        m.next = "START"
            with m.State("LIST"):  # the place of the next group
                m.d.comb += list_read.en.eq(1)
                m.next = "READ"
                with m.If(sweep == self.count):
                    m.next = "END"
            with m.State("READ"):
                m.d.comb += [find.addr.eq(list_read.data), find.en.eq(1)]
                m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += out.valid.eq(1)
                with m.If(out.ready):
                    m.d.sync += sweep.eq(sweep + 1)
                    m.next = "LIST"
                    with m.If(sweep + 1 == self.groups):
                        m.next = "END"
            with m.State("END"):
                m.d.comb += [
                    out.valid.eq(1),
                    out.payload.void.eq(~fault),
                    out.payload.fault.eq(fault),
                    out.payload.tick.eq(fault),
                    out.payload.done.eq(1),
                ]
                with m.If(out.ready):
                    m.d.comb += source.ready.eq(1)
                    m.next = "START"
            with m.State("CLEAR"):
                m.d.comb += [write.addr.eq(sweep), write.data.valid.eq(0), write.en.eq(1)]
                m.d.sync += sweep.eq(sweep + 1)
                with m.If(sweep == self.groups - 1):
                    m.next = "START"
        return m

    @staticmethod
    def _changed(m: Module, number: int, use: Any, given: Any, old: Any) -> Signal:
        """An aggregate's next value; that of a new group if the place is empty."""
        value, unknown = chosen(m, given, use.source, f"of_{number}")
        null = Signal(name=f"null_{number}")  # count(*) has no source: it counts every row
        m.d.comb += null.eq(use.source.present & unknown)
        before, after = Signal(64, name=f"before_{number}"), Signal(64, name=f"after_{number}")
        none = NULL
        m.d.comb += before.eq(Mux(old.valid, old["values"][number], Mux(use.function == COUNT, 0, none)))
        first = before == none
        less = value.as_signed() < before.as_signed()
        with m.Switch(use.function):
            with m.Case(COUNT):
                m.d.comb += after.eq(before + ~null)
            with m.Case(MIN):
                m.d.comb += after.eq(Mux(null, before, Mux(first | less, value, before)))
            with m.Case(MAX):
                m.d.comb += after.eq(Mux(null, before, Mux(first | ~less, value, before)))
            with m.Default():
                m.d.comb += after.eq(Mux(null, before, Mux(first, value, before + value)))
        return after
