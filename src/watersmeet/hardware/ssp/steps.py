"""Expressions of an aggregation: a step a stage of a pipeline, each one sum, difference or product of fields, constants and earlier steps.

What stays true: items leave in the order in which they came, with the value of every step, NULL where an operand is; a row can enter each
cycle, so what is computed costs latency, not throughput. Values are signed 64 bits: who programs it makes sure that they fit.
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.fabric.encoding import FUNCTIONS
from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.ssp.gather import connected, entering
from watersmeet.hardware.ssp.reading import Reading
from watersmeet.hardware.ssp.words import BY_CONSTANT, BY_STEP, FIELD, item, value_of

ADD, SUBTRACT, MULTIPLY = (FUNCTIONS.index(one) for one in "+-*")
VALUE = data.StructLayout({"value": 64, "null": 1})
STEP = data.StructLayout({"op": 6, "left": FIELD, "right": FIELD, "constant": 64})


def computed_item(segments: int, steps: int) -> data.StructLayout:
    """An item and the values of all steps."""
    return data.StructLayout({"item": item(segments), "values": data.ArrayLayout(VALUE, steps)})


class Steps(wiring.Component):
    """``program`` and ``taken``: words of instructions, as they reach the aggregation behind; chunks ``call`` are steps."""

    def __init__(self, segments: int, steps: int) -> None:
        self.segments, self.steps = segments, steps
        super().__init__(
            {
                "program": In(item(segments)),
                "taken": In(1),
                "i": In(stream.Signature(item(segments))),
                "o": Out(stream.Signature(computed_item(segments, steps))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.places = places = Buffer(computed_item(self.segments, self.steps))
        connected(m, places.o, self.o)
        steps = self._programmed(m)
        go = Signal()
        valid = Signal(self.steps)
        enters = entering(m, self.i, go, self.o)
        m.d.comb += [
            go.eq(~valid[-1] | places.i.ready),
            places.i.valid.eq(valid[-1]),
            self.i.ready.eq(go & enters),
        ]
        stages: list[Any] = []
        layout = computed_item(self.segments, self.steps)
        before = Signal(layout)
        m.d.comb += before.item.eq(self.i.payload)
        for k, step in enumerate(steps):
            stage = Signal(layout, name=f"stage_{k}")
            result = self._computed(m, k, step, before)
            with m.If(go):
                m.d.sync += stage.eq(before)
                m.d.sync += stage.values[k].eq(Value.cast(result))
            stages.append(stage)
            before = stage
        with m.If(go):
            m.d.sync += valid.eq((self.i.valid & enters) | valid << 1)
        m.d.comb += Value.cast(places.i.payload).eq(Value.cast(stages[-1]))
        return m

    def _programmed(self, m: Module) -> list[Any]:
        steps = [Signal(STEP, name=f"step_{k}") for k in range(self.steps)]
        read = Reading(m, self.program, self.taken)
        at = Signal(range(self.steps + 1))
        with m.If(read.begins("aggregation")):
            m.d.sync += at.eq(0)
        with m.If(read.reads("aggregation", "call")):
            m.d.sync += at.eq(at + 1)
        for k, step in enumerate(steps):
            with m.If(read.reads("aggregation", "call") & (at == k)):
                m.d.sync += [
                    step.op.eq(read.fields.function),
                    step.left.eq(read.fields.attribute),
                    step.right.eq(read.fields.other),
                ]
            with m.If(read.ends("aggregation", "call") & (at == k + 1)):
                m.d.sync += step.constant.eq(read.word)
        return steps

    def _computed(self, m: Module, number: int, step: Any, given: Any) -> Signal:
        operands = []
        for side in ("left", "right"):
            which = step[side]
            value, null = value_of(m, given.item.row, which, f"{side}_{number}")
            for k in range(number):
                with m.If((which.source == BY_STEP) & (which.lane == k)):
                    m.d.comb += [value.eq(given.values[k].value), null.eq(given.values[k].null)]
            with m.If(which.source == BY_CONSTANT):
                m.d.comb += [value.eq(step.constant), null.eq(0)]
            operands.append((value, null))
        (a, a_null), (b, b_null) = operands
        result = Signal(VALUE, name=f"result_{number}")
        product = (a.as_signed() * b.as_signed())[:64]
        m.d.comb += [
            result.value.eq(Mux(step.op == MULTIPLY, product, Mux(step.op == SUBTRACT, a - b, a + b))),
            result.null.eq(a_null | b_null),
        ]
        return result


def chosen(m: Module, given: Any, which: Any, name: str) -> tuple[Signal, Signal]:
    """The value that a field names: of the row, or of a step."""
    value, null = value_of(m, given.item.row, which, name)
    with m.If(which.source == BY_STEP):
        values = Array(given.values[k] for k in range(len(given.values)))
        found = Signal(VALUE, name=f"{name}_step")
        m.d.comb += [found.eq(Value.cast(values[which.lane])), value.eq(found.value), null.eq(found.null)]
    return value, null
