"""Linear-MJ: a line of N - 1 stages, one a step, that share the windows through a crossbar (thesis 6.4.1, figure 6.4.1).

The first stage takes the first step of every row, through whichever window its stream looks at first, the second the second, and so
on. Rows are stored behind the last stage, and every stage keeps the rows that have passed it and are not stored yet in its Int-buf.

What stays true: messages go down the line in the order of arrival, so a stage has passed exactly the rows that came before the one
it works on. It therefore knows, for each stream, which rows that one sees: the newest ``fill`` that have passed it. Of them the
newest ``near`` are read from Int-buf (thesis: all that are there are considered), the older ones from the window. The thesis has to
leave out the oldest rows of the window, which should have gone for those in Int-buf, and this is the same count. Storing row x
replaces a row that no row behind x may see, and all that are still in the line are behind x. So a store never waits for a search,
and there are no locks on windows (the thesis names them as a drawback). What is left of its drawbacks is the crossbar: each window
has one read port, and if two stages want the same window in one cycle the later stage gets it, which empties the line. Nothing can
block: rows go down only.

``flight`` bounds the rows between the first stage and the store, so that Int-buf has a slot for each.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Buffer, Fifo
from watersmeet.hardware.multiway.layout import Widths
from watersmeet.hardware.multiway.ring import Ring

IN_FLIGHT = 8  # matches that may still come once a queue has said that it is full, with one to spare
LINE = 32


def line_layout(widths: Widths) -> Any:
    """A partial result of a row, or the row itself, behind all of them."""
    return data.StructLayout(
        {
            "is_row": 1,
            "origin": range(widths.streams),
            "first": widths.key,
            "last": widths.key,
            "numbers": widths.result,
            "row": widths.stored,
        }
    )


class LinearStage(wiring.Component):
    """Step ``step`` of every row."""

    def __init__(self, widths: Widths, step: int, window: int, flight: int) -> None:
        self.widths, self.step, self.window, self.flight = widths, step, window, flight
        self.is_last = step == widths.streams - 2
        n, message = widths.streams, line_layout(widths)
        self.message = message
        super().__init__(
            {
                "line": In(stream.Signature(message)),
                "onward": Out(message),
                "onward_valid": Out(1),
                "room": In(1),
                "begins": Out(1),  # with a row
                "may_begin": In(1),
                "wants": Out(1),  # a slot of a window
                "window_of": Out(range(n)),
                "slot": Out(range(max(2, window))),
                "granted": In(1),
                "found": In(widths.stored).array(n),  # one cycle after, by window
                "stored": In(1),  # a row is being stored
                "stored_of": In(range(n)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        w, n, flight, head = self.widths, self.widths.streams, self.flight, self.line
        bits = (flight - 1).bit_length()
        m.submodules.near = memory = Memory(shape=w.stored, depth=n * flight, init=[])
        near_write, near_read = memory.write_port(), memory.read_port()
        # By stream, of the rows that have passed: where the next one will be stored, how many there are, where it goes in Int-buf.
        tops = Array(Signal(range(max(2, self.window)), name=f"top_{k}") for k in range(n))
        fills = Array(Signal(range(self.window + 1), name=f"fill_{k}") for k in range(n))
        places = Array(Signal(bits, name=f"place_{k}") for k in range(n))
        nears = Array(Signal(range(flight + 1), name=f"near_{k}") for k in range(n))

        origin, target = head.payload.origin, Signal(range(n))
        with m.Switch(origin):
            for k in range(n):
                with m.Case(k):
                    m.d.comb += target.eq((k + 1 + self.step) % n)
        active, searched = Signal(), Signal()  # searched: a row of the first stage that has only to go on
        at, left = Signal(range(max(2, self.window))), Signal(range(self.window + 1))
        near, place = Signal(range(flight + 1)), Signal(bits)
        searches = ~head.payload.is_row if self.step else ~searched
        passes, reads = Signal(), Signal()
        m.d.comb += [
            self.wants.eq(active & self.room & (near == 0)),
            self.window_of.eq(target),
            self.slot.eq(at),
            reads.eq(active & self.room & ((near != 0) | self.granted)),
            near_read.addr.eq(Cat(place, target)),
            passes.eq(head.valid & ~active & self.room & (head.payload.is_row if self.step else searched)),
            self.begins.eq(0),
        ]

        def done() -> None:
            """The search is over: a partial result leaves; a row of the first stage has still to go on."""
            if self.step == 0:
                m.d.sync += searched.eq(1)
            else:
                m.d.comb += head.ready.eq(1)

        with m.If(head.valid & ~active & searches & (self.may_begin if self.step == 0 else 1)):
            m.d.comb += self.begins.eq(1)
            with m.If(fills[target] != 0):
                m.d.sync += [
                    active.eq(1),
                    at.eq(_below(tops[target], self.window)),
                    left.eq(fills[target]),
                    near.eq(nears[target]),
                    place.eq(places[target] - 1),
                ]
            with m.Else():  # nothing to look through
                done()
        with m.If(reads):
            m.d.sync += [at.eq(_below(at, self.window)), left.eq(left - 1), place.eq(place - 1)]
            with m.If(near != 0):
                m.d.sync += near.eq(near - 1)
            with m.If(left == 1):
                m.d.sync += active.eq(0)
                done()
        m.d.comb += [
            near_write.addr.eq(Cat(places[origin], origin)),
            near_write.data.eq(head.payload.row),
            near_write.en.eq(passes),
        ]
        with m.If(passes):
            m.d.comb += head.ready.eq(1)
            m.d.sync += [
                searched.eq(0),
                places[origin].eq(places[origin] + 1),
                tops[origin].eq(Mux(tops[origin] == self.window - 1, 0, tops[origin] + 1)),
            ]
            with m.If(fills[origin] != self.window):
                m.d.sync += fills[origin].eq(fills[origin] + 1)
        for k in range(n):
            comes, goes = passes & (origin == k), self.stored & (self.stored_of == k)
            m.d.sync += nears[k].eq(nears[k] + comes - goes)
        self._compare(m, reads, passes, near != 0, near_read.data)
        return m

    def _compare(self, m: Module, reads: Any, passes: Any, is_near: Any, near_row: Any) -> None:
        """Read, register, compare, send."""
        w = self.widths
        early, late, found = Signal(self.message), Signal(self.message), Signal(w.stored)
        early_valid, late_valid, early_near = Signal(), Signal(), Signal()
        early_of, late_of = Signal.like(self.window_of), Signal.like(self.window_of)
        m.d.sync += [
            early.eq(self.line.payload),
            early.is_row.eq(passes),
            early_valid.eq(reads | passes),
            early_near.eq(is_near),
            early_of.eq(self.window_of),
            late.eq(early),
            late_valid.eq(early_valid),
            late_of.eq(early_of),
            found.eq(Mux(early_near, near_row, Array(self.found)[early_of])),
        ]
        near = w.close(late.last, w.first(found))
        if self.is_last:
            near &= w.close(w.last(found), late.first)
        m.d.sync += [self.onward.eq(late), self.onward_valid.eq(late_valid & (near | late.is_row))]
        with m.If(~late.is_row):
            m.d.sync += self.onward.last.eq(w.last(found))
            for k in range(w.streams):
                with m.If(late_of == k):
                    m.d.sync += self.onward.numbers[k].eq(found.number)


class LinearMJ(wiring.Component):
    """``window``: rows of each stream. ``flight``: rows between the first stage and the store, a power of two."""

    stage_class: Any = LinearStage

    def __init__(
        self,
        streams: int = 3,
        window: int = 16,
        flight: int = 8,
        key: int = 32,
        keys: int = 1,
        number: int = 32,
        band: int = 0,
    ) -> None:
        if flight < 2 or flight & (flight - 1):
            raise OptionError(f"flight must be a power of two from 2 on; got {flight}")
        self.widths, self.window, self.flight = Widths(streams, key, keys, number, band), window, flight
        super().__init__(
            {
                "rows": In(stream.Signature(self.widths.row)),
                "results": Out(stream.Signature(self.widths.result)),
            }
        )
        self.watch = {"flying": Signal(range(flight + 1))}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        w, n = self.widths, self.widths.streams
        stages = [self.stage_class(w, step, self.window, self.flight) for step in range(n - 1)]
        for step, stage in enumerate(stages):
            m.submodules[f"stage_{step}"] = stage
        self._first(m, stages[0])
        for before, after in pairwise(stages):
            m.submodules[f"queue_{after.step}"] = queue = Fifo(after.message, LINE)
            m.d.comb += [queue.i.payload.eq(before.onward), queue.i.valid.eq(before.onward_valid)]
            m.d.sync += before.room.eq(queue.level <= LINE - IN_FLIGHT)
            wiring.connect(m, queue.o, after.line)
        last = stages[-1]
        stored = self._store(m, stages, last)
        self._results(m, last)

        flying = self.watch["flying"]
        m.d.comb += stages[0].may_begin.eq(flying != self.flight)
        m.d.sync += flying.eq(flying + stages[0].begins - stored)
        return m

    def _first(self, m: Module, first: LinearStage) -> None:
        """Rows come in as messages."""
        w = self.widths
        m.submodules.entry = entry = Buffer(w.row)
        wiring.connect(m, wiring.flipped(self.rows), entry.i)
        row, message = entry.o.payload, first.line.payload
        m.d.comb += [
            first.line.valid.eq(entry.o.valid),
            entry.o.ready.eq(first.line.ready),
            message.is_row.eq(1),
            message.origin.eq(row.stream),
            message.first.eq(w.first(row)),
            message.last.eq(w.last(row)),
            message.row.keys.eq(row.keys),
            message.row.number.eq(row.number),
        ]
        for k in range(w.streams):
            m.d.comb += message.numbers[k].eq(row.number)  # the others are written over on the way

    def _store(self, m: Module, stages: list[LinearStage], last: LinearStage) -> Any:
        """The windows, the crossbar in front of them, and the store."""
        w, n = self.widths, self.widths.streams
        stored = Signal()
        m.d.comb += stored.eq(last.onward_valid & last.onward.is_row)
        for k in range(n):
            ring = Ring(m, f"window_{k}", w.stored, self.window)
            ring.store(m, stored & (last.onward.origin == k), last.onward.row)
            for stage in stages:  # later ones override
                with m.If(stage.wants & (stage.window_of == k)):
                    m.d.comb += ring.reads[0].addr.eq(stage.slot)
                m.d.comb += stage.found[k].eq(ring.reads[0].data)
        for step, stage in enumerate(stages):
            later = [one.wants & (one.window_of == stage.window_of) for one in stages[step + 1 :]]
            m.d.comb += [
                stage.granted.eq(~Cat(later).any() if later else 1),
                stage.stored.eq(stored),
                stage.stored_of.eq(last.onward.origin),
            ]
        return stored

    def _results(self, m: Module, last: LinearStage) -> None:
        m.submodules.exit = out = Fifo(self.widths.result, 2 * IN_FLIGHT)
        m.d.comb += [
            out.i.payload.eq(last.onward.numbers),
            out.i.valid.eq(last.onward_valid & ~last.onward.is_row),
        ]
        m.d.sync += last.room.eq(out.level <= out.depth - IN_FLIGHT)
        wiring.connect(m, out.o, wiring.flipped(self.results))


def _below(slot: Any, slots: int) -> Any:
    return Mux(slot == 0, slots - 1, slot - 1)
