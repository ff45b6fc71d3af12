"""Selections and projections: what stands in a unit of its own, or rides on what another operator of the unit gives.

What stays true: every slot that reads an answer, directly or through other slots, gives one row or one tick for it on its own stream, in
the order of the slots; a tick comes out as a tick. The answer's ``done`` goes to the last of them. A selection passes the row unchanged,
so all slots read the same row: that of the answer. One comparator is shared by all slots, a slot a cycle.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.ssp.gather import Gather, Scatter, connected
from watersmeet.hardware.ssp.reading import INST, Reading
from watersmeet.hardware.ssp.words import (
    FIELD,
    LANE,
    LANES,
    RESPONSE,
    WORD,
    answer,
    holds,
    item,
    value_of,
)


def slot_layout(lanes: int) -> data.StructLayout:
    """A selection (a term) or a projection (``picks``: which lane becomes each lane)."""
    return data.StructLayout(
        {
            "root": 12,
            "out": 12,
            "shown": 1,
            "count": 5,
            "parent": 4,
            "projects": 1,
            "left": FIELD,
            "condition": 4,
            "right": FIELD,
            "constant": 64,
            "picks": 6 * lanes,
        }
    )


class Riders(wiring.Component):
    """Answers in, answers out. ``program`` and ``taken``: words of instructions; a reset forgets all slots. Without slots, or without
    ``projects``, there is no hardware for them.
    """

    def __init__(self, segments: int, slots: int, projects: bool = False) -> None:
        self.segments, self.slots, self.projects = segments, slots, projects
        super().__init__(
            {
                "program": In(item(segments)),
                "taken": In(1),
                "i": In(stream.Signature(answer(segments))),
                "o": Out(stream.Signature(answer(segments))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        if not self.slots:
            connected(m, self.i, self.o)
            with m.If(~self.i.payload.shown):  # a row that is nobody's
                m.d.comb += self.o.payload.void.eq(1)
                m.d.comb += self.o.valid.eq(self.i.valid & self.i.payload.done)
                m.d.comb += self.i.ready.eq(self.o.ready | ~self.i.payload.done)
            return m
        lanes = LANES * self.segments if self.projects else 1
        slots = Array(Signal(slot_layout(lanes), name=f"slot_{k}") for k in range(self.slots))
        count = Signal(range(self.slots + 1))
        self._programmed(m, slots, count, lanes)

        new, out = self.i.payload, self.o.payload
        under, at = Signal(), Signal(range(self.slots + 1))  # under way; position: 0 the answer itself
        here, passed = Signal(range(self.slots + 1)), Signal(self.slots + 1)
        m.d.comb += here.eq(Mux(under, at, Mux(new.shown | (count == 0), 0, 1)))
        gives = Signal(self.slots + 1)
        m.d.comb += gives.eq(
            Cat(
                new.shown,
                *((count > k) & slots[k].shown & (slots[k].root == new.stream) for k in range(self.slots)),
            )
            & ~new.void.replicate(self.slots + 1)
        )
        later = Signal()
        m.d.comb += later.eq((gives >> here)[1:].any())
        last = Signal()
        m.d.comb += last.eq(~later)

        slot = Signal(slot_layout(lanes))
        m.d.comb += slot.eq(slots[Mux(here == 0, 0, here - 1)])
        left = value_of(m, new.row, slot.left, "left")
        other, other_null = value_of(m, new.row, slot.right, "right")
        right = (
            (Mux(slot.right.present, other.as_signed(), 0) + slot.constant.as_signed()).as_signed(),
            slot.right.present & other_null,
        )
        term = holds(m, slot.condition, left, right, "term")
        base = (slot.parent == 0) | passed.bit_select(slot.parent, 1)
        fits = Signal()
        m.d.comb += fits.eq(base & (slot.projects | term) & ~new.tick)
        picked = new.row
        if self.projects:
            picked = Cat(new.row.word_select(slot.picks[6 * k : 6 * k + 6], LANE) for k in range(lanes))

        shows = gives.bit_select(here, 1)
        nothing = last & ~shows & new.done & (gives == 0)
        m.d.comb += [
            out.eq(new),
            out.void.eq(~shows),
            out.done.eq(new.done & last),
            self.o.valid.eq(self.i.valid & (shows | nothing)),
        ]
        with m.If(here != 0):
            m.d.comb += [
                out.stream.eq(slot.out),
                out.count.eq(slot.count),
                out.tick.eq(~fits),
                out.row.eq(Mux(slot.projects, picked, new.row)),
            ]
        moves = Signal()
        m.d.comb += [
            moves.eq(self.i.valid & (self.o.ready | ~(shows | nothing))),
            self.i.ready.eq(moves & last),
        ]
        with m.If(moves):
            m.d.sync += [under.eq(~last), at.eq(here + 1)]
            for k in range(self.slots):
                with m.If(here == k + 1):
                    m.d.sync += passed[k + 1].eq(fits)
        return m

    def _programmed(self, m: Module, slots: Array, count: Signal, lanes: int) -> None:
        read = Reading(m, self.program, self.taken)
        last = Mux(count == 0, 0, count - 1)
        lane = Signal(range(lanes + 1))
        with m.If(read.begins("reset")):
            m.d.sync += count.eq(0)
        for k in range(self.slots):
            with m.If((read.begins("selection") | read.begins("projection")) & (count == k)):
                m.d.sync += [
                    count.eq(k + 1),
                    lane.eq(0),
                    slots[k].out.eq(read.now.out),
                    slots[k].shown.eq(read.now.port[2]),
                    slots[k].count.eq(read.now.segments),
                    slots[k].projects.eq(read.now.inst == INST["projection"]),
                ]
            with m.If(last == k):
                for kind in ("selection", "projection"):
                    with m.If(read.reads(kind, "input")):
                        m.d.sync += [
                            slots[k].root.eq(read.fields.other),
                            slots[k].parent.eq(read.fields.attribute),
                        ]
                with m.If(read.reads("selection", "term")):
                    m.d.sync += [
                        slots[k].left.eq(read.fields.attribute),
                        slots[k].condition.eq(read.fields.condition),
                        slots[k].right.eq(read.fields.other),
                        slots[k].constant.eq(0),
                    ]
                with m.If(read.ends("selection", "term")):
                    m.d.sync += slots[k].constant.eq(read.word)
                with m.If(read.reads("projection", "output")):
                    m.d.sync += lane.eq(lane + 1)
                    for n in range(lanes):
                        with m.If(lane == n):
                            m.d.sync += slots[k].picks[6 * n : 6 * n + 6].eq(read.fields.attribute[:6])


class Sieve(wiring.Component):
    """A unit of selections and projections: words in, responses out."""

    def __init__(self, b_id: int, segments: int, slots: int, projects: bool = False) -> None:
        self.b_id, self.segments, self.slots, self.projects = b_id, segments, slots, projects
        super().__init__({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(RESPONSE))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.gather = gather = Gather(self.segments, self.b_id)
        m.submodules.riders = riders = Riders(self.segments, self.slots, self.projects)
        m.submodules.scatter = scatter = Scatter(self.segments)
        connected(m, self.i, gather.i)
        connected(m, riders.o, scatter.i)
        connected(m, scatter.o, self.o)
        new = gather.o.payload
        m.d.comb += [
            riders.program.eq(new),
            riders.taken.eq(gather.o.valid & new.inst),
            riders.i.valid.eq(gather.o.valid & ~new.inst),
            riders.i.payload.row.eq(new.row),
            riders.i.payload.stream.eq(new.stream),
            riders.i.payload.tick.eq(new.tick),
            riders.i.payload.done.eq(1),
            gather.o.ready.eq(new.inst | riders.i.ready),
        ]
        return m
