"""The hashes of a row's keys, before the row is worked on: a pipeline as long as Murmur3's.

What stays true: items leave in the order in which they came, each with the hashes of its keys; all steps move together, whenever the
buffer behind them has a place, so a row's hashes cost the join no cycle.
"""

from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.ssp.gather import connected, entering
from watersmeet.hardware.ssp.murmur import STEPS, Murmur
from watersmeet.hardware.ssp.words import FIELD, item, value_of

HASHES = data.StructLayout({"value": 64, "first": 32, "second": 32})


def hashed_item(segments: int, keys: int) -> data.StructLayout:
    """An item and what was hashed."""
    return data.StructLayout({"item": item(segments), "keys": data.ArrayLayout(HASHES, keys)})


class Prehash(wiring.Component):
    """``streams`` and ``keys``: by leaf, its stream and the fields that are hashed."""

    def __init__(self, segments: int, leaves: int, hashes: int) -> None:
        self.segments, self.leaves, self.hashes = segments, leaves, hashes
        super().__init__(
            {
                "streams": In(data.ArrayLayout(12, leaves)),
                "keys": In(data.ArrayLayout(data.ArrayLayout(FIELD, hashes), leaves)),
                "i": In(stream.Signature(item(segments))),
                "o": Out(stream.Signature(hashed_item(segments, hashes))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.places = places = Buffer(hashed_item(self.segments, self.hashes))
        connected(m, places.o, self.o)
        out = places.i
        go = Signal()
        valid = Signal(STEPS)
        enters = entering(m, self.i, go, self.o)
        m.d.comb += [go.eq(~valid[-1] | out.ready), self.i.ready.eq(go & enters), out.valid.eq(valid[-1])]
        before: Any = self.i.payload
        values: list[Any] = []
        for k in range(self.hashes):
            which = Signal(FIELD, name=f"which_{k}")
            for leaf in reversed(range(self.leaves)):
                with m.If(self.streams[leaf] == self.i.payload.stream):
                    m.d.comb += which.eq(self.keys[leaf][k])
            value, _ = value_of(m, self.i.payload.row, which, f"hashed_{k}")
            m.submodules[f"murmur_{k}"] = murmur = Murmur()
            m.d.comb += [
                murmur.key.eq(value),
                murmur.go.eq(go),
                out.payload.keys[k].first.eq(murmur.first),
                out.payload.keys[k].second.eq(murmur.second),
            ]
            values.append(value)
        with m.If(go):
            m.d.sync += valid.eq((self.i.valid & enters) | valid << 1)
        for step in range(STEPS):
            kept = Signal(item(self.segments), name=f"item_{step}")
            held = [Signal(64, name=f"value_{step}_{k}") for k in range(self.hashes)]
            with m.If(go):
                m.d.sync += [Value.cast(kept).eq(Value.cast(before))]
                m.d.sync += [one.eq(value) for one, value in zip(held, values, strict=True)]
            before, values = kept, list(held)
        m.d.comb += Value.cast(out.payload.item).eq(Value.cast(before))
        m.d.comb += [out.payload.keys[k].value.eq(values[k]) for k in range(self.hashes)]
        return m
