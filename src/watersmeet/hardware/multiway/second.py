"""The second stage of Stashed-MJ: the window of C, and a look at the window of B that the first stage writes (thesis 6.2.1).

Messages come in the order of arrival, so all rows of C that a partial result has to see are stored when it comes, and no later
ones. The next message begins in the cycle of the last read of the one before: a partial result costs as many cycles as its window
has rows.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Fifo
from watersmeet.hardware.multiway.layout import Widths
from watersmeet.hardware.multiway.ring import Ring

IN_FLIGHT = 8  # matches that may still come once a queue has said that it is full, with one to spare


def line_layout(widths: Widths, slots_b: int, b: int) -> Any:
    """What the first stage sends: a row of C to be stored, a partial result, the word that a row of C needs B no longer, or several."""
    return data.StructLayout(
        {
            "store": 1,
            "hit": 1,
            "release": 1,
            "looks_at_b": 1,  # else at C
            "low": widths.key,  # the last key of the stream before the one that is looked at
            "high": widths.key,  # the first key of the stream after it
            "numbers": widths.result,
            "row": widths.stored,  # of C
            "top_b": range(max(2, slots_b)),  # B, as it was when the row of C came
            "fill_b": range(b + 1),
        }
    )


class SecondStage(wiring.Component):
    """``released`` counts the rows of C that are done with B: 0, 1 or 2 in a cycle."""

    def __init__(self, widths: Widths, b: int, slots_b: int, c: int, line: int) -> None:
        self.widths, self.b, self.slots_b, self.c, self.messages = widths, b, slots_b, c, line
        self.message = line_layout(widths, slots_b, b)
        super().__init__(
            {
                "line": In(stream.Signature(self.message)),
                "slot_b": Out(range(max(2, slots_b))),
                "found_b": In(widths.stored),
                "released": Out(2),
                "results": Out(stream.Signature(widths.result)),
                "level": Out(range(line + 1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        w = self.widths
        m.submodules.queue = queue = Fifo(self.message, self.messages)
        wiring.connect(m, wiring.flipped(self.line), queue.i)
        m.submodules.results = results = Fifo(w.result, 2 * IN_FLIGHT)
        wiring.connect(m, results.o, wiring.flipped(self.results))
        m.d.comb += self.level.eq(queue.level)
        ring = Ring(m, "window_c", w.stored, self.c)
        new, took = queue.o, Signal()

        active, held = Signal(), Signal(self.message)
        at_b, at_c = Signal(range(max(2, self.slots_b))), Signal(range(max(2, ring.slots)))
        left = Signal(range(max(self.b, self.c) + 1))
        room, reads, last = Signal(), Signal(), Signal()
        m.d.sync += room.eq(results.level <= results.depth - IN_FLIGHT)
        m.d.comb += [
            reads.eq(active & room),
            last.eq(reads & (left == 1)),
            new.ready.eq(~active | last),
            took.eq(new.valid & new.ready),
            self.slot_b.eq(at_b),
            ring.reads[0].addr.eq(at_c),
        ]
        with m.If(reads):
            m.d.sync += [
                at_b.eq(Mux(at_b == 0, self.slots_b - 1, at_b - 1)),
                at_c.eq(ring.below(at_c)),
                left.eq(left - 1),
            ]
        rows = Signal.like(left)
        begins, ends = Signal(), Signal()  # a search; a row of C without one
        m.d.comb += [
            rows.eq(Mux(new.payload.looks_at_b, new.payload.fill_b, ring.fill)),
            begins.eq(took & new.payload.hit & (rows != 0)),
            ends.eq(took & new.payload.release & ~begins),
            self.released.eq((last & held.release) + ends),
        ]
        with m.If(last):
            m.d.sync += active.eq(0)
        with m.If(begins):
            top_b = new.payload.top_b
            m.d.sync += [
                active.eq(1),
                held.eq(new.payload),
                left.eq(rows),
                at_b.eq(Mux(top_b == 0, self.slots_b - 1, top_b - 1)),
                at_c.eq(ring.below(ring.top)),
            ]
        ring.store(m, took & new.payload.store, new.payload.row)
        self._compare(m, ring, reads, held, results)
        return m

    def _compare(self, m: Module, ring: Ring, reads: Any, held: Any, results: Fifo) -> None:
        """Read, register, compare, send."""
        w = self.widths
        early, late = Signal(self.message), Signal(self.message)
        early_valid, late_valid, hit = Signal(), Signal(), Signal()
        found, result = Signal(w.stored), Signal(w.result)
        m.d.sync += [
            early.eq(held),
            early_valid.eq(reads),
            late.eq(early),
            late_valid.eq(early_valid),
            found.eq(Mux(early.looks_at_b, self.found_b, ring.reads[0].data)),
            hit.eq(late_valid & w.close(late.low, w.first(found)) & w.close(w.last(found), late.high)),
            result.eq(late.numbers),
            result[1].eq(Mux(late.looks_at_b, found.number, late.numbers[1])),
            result[2].eq(Mux(late.looks_at_b, late.numbers[2], found.number)),
        ]
        m.d.comb += [results.i.valid.eq(hit), results.i.payload.eq(result)]
