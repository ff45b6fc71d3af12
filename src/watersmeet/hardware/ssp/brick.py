"""A topology brick (thesis 7.1.2, figure 7.2.6): an LSwitch deals rows out to units, a collector gathers what they give.

What stays true: what leaves a brick is in the order in which its causes came in. For each row the LSwitch puts a token with the units that
get it into a queue; the collector takes the answers of these units, one unit after another and all that each gives, before it looks at
the next token. So selections beside each other do not let their streams overtake each other, and a join behind them sees the order of
arrival. (The thesis's collector goes by priorities, which keeps no order, and leaves order to synchronisers; it has tokens there, 7.1.6.)
The bypass comes last: the end of all streams leaves after the groups that it has called out. Instructions are given to all units, and
pass on by the bypass alone.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer, Fifo
from watersmeet.hardware.ssp.gather import connected
from watersmeet.hardware.ssp.switches import Masked, Table
from watersmeet.hardware.ssp.words import RESPONSE, WORD


class LSwitch(wiring.Component):
    """One way in, a way out for each unit (figure 7.2.3c), and tokens for the collector."""

    def __init__(self, b_id: int, streams: int, units: int, bypass: int) -> None:
        self.b_id, self.streams, self.units, self.bypass = b_id, streams, units, bypass
        super().__init__(
            {
                "i": In(stream.Signature(WORD)),
                "o": Out(stream.Signature(WORD)).array(units),
                "tokens": Out(stream.Signature(units)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.source = source = Buffer(WORD)
        connected(m, self.i, source.i)
        word = source.o.payload
        table = Table(m, self.streams, self.units, word.stream)
        everyone, bypass = (1 << self.units) - 1, 1 << self.bypass
        taken, took = Signal(self.units), Signal(self.units)
        held, mask, moved = Signal(self.units), Signal(self.units), Signal()
        own = Masked(m, "lswitch", self.b_id, word, moved, table)
        token, told, tells = Signal(self.units), Signal(), Signal()  # told: the token of this row is out
        m.d.comb += [
            mask.eq(Mux(own.begins, Mux(word.q, everyone, table.mask), held)),
            token.eq(Mux(word.q, bypass, mask)),
            tells.eq(own.begins & (token != 0)),
            self.tokens.payload.eq(token),
            self.tokens.valid.eq(source.o.valid & tells & ~told),
        ]
        for k, out in enumerate(self.o):
            m.d.comb += [
                Value.cast(out.payload).eq(Value.cast(word)),
                out.valid.eq(source.o.valid & mask[k] & ~taken[k]),
                took[k].eq(taken[k] | (mask[k] & out.ready)),
            ]
        m.d.comb += [
            source.o.ready.eq((took == mask) & (~tells | told | self.tokens.ready)),
            moved.eq(source.o.valid & source.o.ready),
        ]
        with m.If(source.o.valid):
            m.d.sync += [
                taken.eq(Mux(moved, 0, took)),
                told.eq(~moved & (told | (tells & self.tokens.ready))),
            ]
            with m.If(moved):
                m.d.sync += held.eq(mask)
        return m


class Collector(wiring.Component):
    """Answers of units to one way out, in the order of the tokens."""

    def __init__(self, units: int, bypass: int) -> None:
        self.units, self.bypass = units, bypass
        super().__init__(
            {
                "tokens": In(stream.Signature(units)),
                "i": In(stream.Signature(RESPONSE)).array(units),
                "o": Out(stream.Signature(WORD)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.out = out = Buffer(WORD)
        connected(m, out.o, self.o)
        ended, rest = Signal(self.units), Signal(self.units)  # units of the token that have answered
        chosen = Signal(range(self.units))
        m.d.comb += rest.eq(self.tokens.payload & ~ended)
        m.d.comb += chosen.eq(self.bypass)
        for k in reversed(range(self.units)):
            if k != self.bypass:
                with m.If(rest[k]):
                    m.d.comb += chosen.eq(k)
        found = Signal(RESPONSE)
        valid, moved = Signal(), Signal()
        m.d.comb += [
            found.eq(Array(Value.cast(unit.payload) for unit in self.i)[chosen]),
            valid.eq(Array(unit.valid for unit in self.i)[chosen] & self.tokens.valid),
            out.i.valid.eq(valid & ~found.void),
            Value.cast(out.i.payload).eq(Value.cast(found.word)),
            moved.eq(valid & (found.void | out.i.ready)),
        ]
        only = (rest & ~(1 << chosen)) == 0
        for k, unit in enumerate(self.i):
            m.d.comb += unit.ready.eq(moved & (chosen == k))
        m.d.comb += self.tokens.ready.eq(moved & found.done & only)
        with m.If(moved & found.done):
            m.d.sync += ended.eq(Mux(only, 0, ended | (1 << chosen)))
        return m


class Bypass(wiring.Component):
    """Words as they come."""

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(RESPONSE))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.places = places = Buffer(WORD)
        connected(m, self.i, places.i)
        m.d.comb += [
            Value.cast(self.o.payload.word).eq(Value.cast(places.o.payload)),
            self.o.payload.done.eq(places.o.payload.last),
            self.o.valid.eq(places.o.valid),
            places.o.ready.eq(self.o.ready),
        ]
        return m


class Brick(wiring.Component):
    """LSwitch, units (each with words in and responses out) and collector. ``bypass``: which unit is the bypass."""

    def __init__(
        self, b_id: int, streams: int, units: Sequence[tuple[str, Any]], bypass: int, tokens: int = 16
    ) -> None:
        self.b_id, self.streams, self.units, self.bypass = b_id, streams, tuple(units), bypass
        self.queue = Fifo(len(self.units), tokens)
        super().__init__({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(WORD))})
        self.watch = {"tokens": self.queue.level}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        count = len(self.units)
        m.submodules.lswitch = lswitch = LSwitch(self.b_id, self.streams, count, self.bypass)
        m.submodules.collector = collector = Collector(count, self.bypass)
        m.submodules.queue = queue = self.queue
        connected(m, self.i, lswitch.i)
        connected(m, lswitch.tokens, queue.i)
        connected(m, queue.o, collector.tokens)
        for k, (name, unit) in enumerate(self.units):
            m.submodules[f"unit_{name}"] = unit
            m.submodules[f"before_{name}"] = before = Buffer(WORD)
            m.submodules[f"after_{name}"] = after = Buffer(RESPONSE)
            connected(m, lswitch.o[k], before.i)
            connected(m, before.o, unit.i)
            connected(m, unit.o, after.i)
            connected(m, after.o, collector.i[k])
        connected(m, collector.o, self.o)
        return m
