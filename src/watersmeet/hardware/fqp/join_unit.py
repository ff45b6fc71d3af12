"""The join of an OP-Block: a new row is compared with every row of the other lane's window, one a cycle (4.1.3: nested loops).

What stays true: a row is compared with each held row once, and a match is a row for the processing unit: two numbers, then the segments of
both. What the one key comparison cannot say is left to the processing unit, as terms on that row.

The thesis needs 86.8 cycles a tuple at 16 rows, about five a comparison: its controller reads, compares and moves its pointers one after
the other. Here they overlap: address, row, comparison. A match takes the pipeline back to the row after it.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.fqp.comparison import holds
from watersmeet.hardware.fqp.query_buffer import JOIN
from watersmeet.hardware.fqp.window_buffer import SEGMENT, held
from watersmeet.hardware.fqp.words import NO_LANE, ROW, VALUE


class JoinUnit(wiring.Component):
    """``start``: a row ``row`` has come by lane R or S (``from_s``), at ``place`` of its window; ``left``: it has the key's left side.

    ``look``, ``fetch``, ``fetch_at`` and what comes back, ``seen`` and ``segment``, are the windows' ports, R first.
    """

    def __init__(self, window: int, columns: int) -> None:
        self.window, self.columns, self.held = window, columns, held(columns)
        slots = range(window + 1)
        super().__init__(
            {
                "join": In(JOIN),
                "start": In(1),
                "from_s": In(1),
                "row": In(self.held),
                "place": In(slots),
                "left": In(1),
                "fill": In(slots).array(2),
                "look": Out(slots),
                "seen": In(self.held).array(2),
                "fetch": Out(slots).array(2),
                "fetch_at": Out(range(columns)).array(2),
                "segment": In(SEGMENT).array(2),
                "o": Out(stream.Signature(ROW)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        slots = range(self.window + 1)
        new, place, from_s, left = Signal(self.held), Signal(slots), Signal(), Signal()
        fill, index = Signal(slots), Signal(slots)
        read, looked = Signal(), Signal(slots)  # `seen` is the row at `looked`
        compares, at, other = Signal(), Signal(slots), Signal(self.held)  # `other` is the row at `at`
        hit, step = Signal(), Signal(range(2 * self.columns + 1))  # step: the segment that is given
        m.d.comb += [hit.eq(compares & self._hits(m, new, left, other)), self.look.eq(index)]
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += [
                    new.eq(self.row),
                    place.eq(self.place),
                    from_s.eq(self.from_s),
                    left.eq(self.left),
                    fill.eq(Mux(self.from_s, self.fill[0], self.fill[1])),
                    index.eq(0),
                    read.eq(0),
                    compares.eq(0),
                ]
                with m.If(self.start & self.row.live):
                    m.next = "SCAN"
            with m.State("SCAN"):
                more = index != fill
                m.d.sync += [
                    index.eq(index + more),
                    read.eq(more),
                    looked.eq(index),
                    compares.eq(read),
                    at.eq(looked),
                    other.eq(Mux(from_s, self.seen[0], self.seen[1])),
                ]
                with m.If(hit):
                    m.d.sync += [index.eq(at + 1), read.eq(0), compares.eq(0), at.eq(at), other.eq(other)]
                    m.next = "FIRST"
                with m.Elif(~more & ~read):
                    m.next = "IDLE"
            with m.State("FIRST"):
                m.d.sync += step.eq(0)
                with m.If(self.o.ready):
                    m.next = "SEGMENTS"
                    with m.If(self.o.payload.word.last):
                        m.next = "SCAN"
            with m.State("SEGMENTS"):  # the processing unit takes every word of a row that it has begun
                m.d.sync += step.eq(step + 1)
                with m.If(self.o.payload.word.last):
                    m.next = "SCAN"
        first = fsm.ongoing("FIRST")
        m.d.comb += [self.busy.eq(~fsm.ongoing("IDLE")), self.o.valid.eq(first | fsm.ongoing("SEGMENTS"))]
        self._give(m, first, step, new, place, from_s, other, at)
        return m

    def _hits(self, m: Module, new: Any, left: Any, other: Any) -> Any:
        """Whether a held row meets the new one."""
        ours, theirs = Signal(VALUE), Signal(VALUE)
        m.d.comb += [
            ours.eq(Mux(left, new.key, other.key)),
            theirs.eq(Mux(left, other.key, new.key)),
        ]
        key = self.join.key
        found = holds(m, key.condition, ours, theirs, key.constant, "key_holds")
        return other.live & (found | ~self.join.keyed)

    def _give(
        self, m: Module, first: Any, step: Any, new: Any, place: Any, from_s: Any, other: Any, at: Any
    ) -> None:
        """The match as a row: the new row's segments, then the held one's. Addresses are a cycle ahead."""
        total, ahead = Signal(range(2 * self.columns + 1)), Signal(range(2 * self.columns + 2))
        segment = Signal(SEGMENT)
        word = self.o.payload.word
        own = step < new.count
        m.d.comb += [
            total.eq(new.count + other.count),
            ahead.eq(Mux(first, 0, step + 1)),
            segment.eq(Mux(from_s ^ own, self.segment[0], self.segment[1])),
            self.o.payload.lane.eq(NO_LANE),
            word.q.eq(0),
            word.s.eq(0),
        ]
        with m.If(first):
            m.d.comb += [
                word.data[:32].eq(Mux(from_s, other.number, new.number)),
                word.data[32:].eq(Mux(from_s, new.number, other.number)),
                word.id.eq(self.join.out),
                word.mark.eq(0),
                word.last.eq(total == 0),
            ]
        with m.Else():
            m.d.comb += [
                word.data.eq(segment.value),
                word.id.eq(segment.attribute),
                word.mark.eq(segment.null),
                word.last.eq(step + 1 == total),
            ]
        for lane in range(2):
            mine = from_s if lane else ~from_s
            m.d.comb += [
                self.fetch[lane].eq(Mux(mine, place, at)),
                self.fetch_at[lane].eq(Mux(mine, ahead, ahead - new.count)),
            ]
