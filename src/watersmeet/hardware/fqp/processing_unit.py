"""The processing unit of an OP-Block: selections and projections on a row, whether it came by a lane or the join has made it (4.1.3, 4.3).

What stays true: it takes every word of a row that it has begun. Then it works out, one after the other: which operators the row is for
(also those that read what others here give); for these, the comparisons, one a cycle; who has passed; then it gives the row once for each
operator with a way out, under the operator's stream-ID, with the segments that the operator keeps. A row that a lane brought and a
selection drops goes on in the lanes as one marked word.

Segment-at-a-time (4.3): values are kept by attribute number, so terms find them whatever the row's schema, and a segment that a row does
not have is NULL; the thesis has a flag a segment, which its filter unit combines. Here the row waits in this unit's buffer until all terms
are known, so nothing invalid leaves it.
Cycles of the thesis: 13 a tuple for a selection, 11 for a projection, with one segment. Here 11 and 8: comparisons and reads overlap.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.fqp.comparison import holds
from watersmeet.hardware.fqp.query_buffer import OPERATOR
from watersmeet.hardware.fqp.window_buffer import SEGMENT
from watersmeet.hardware.fqp.words import NO_LANE, ROW, TERM, TO_R, TO_S, VALUE, WORD


class ProcessingUnit(wiring.Component):
    """``i`` to ``o``: to lane R, to lane S, to the results. The other ports are the query buffer's."""

    def __init__(self, operators: int, terms: int, attributes: int, columns: int) -> None:
        self.operators, self.terms, self.attributes, self.columns = operators, terms, attributes, columns
        self.index = range(operators)
        super().__init__(
            {
                "i": In(stream.Signature(ROW)),
                "o": Out(stream.Signature(WORD)).array(3),
                "used": In(operators),
                "table": In(OPERATOR).array(operators),
                "joins": In(operators),
                "taken": In(terms),
                "owner": In(self.index).array(terms),
                "term_at": Out(range(terms)),
                "term": In(TERM),
                "keep_at": Out(self.index),
                "keep": In(attributes),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.values = values = Memory(shape=VALUE, depth=self.attributes, init=[])
        m.submodules.segments = segments = Memory(shape=SEGMENT, depth=2 * self.columns, init=[])
        self.values, self.segments = values, segments
        self.put, self.keep_segment = values.write_port(), segments.write_port()
        self.read = segments.read_port()
        self.lane, self.numbers, self.dropped = Signal(2), Signal(64), Signal()
        self.present, self.count = Signal(self.attributes), Signal(range(2 * self.columns + 1))
        self.direct, self.about, self.fail, self.alive = (
            Signal(self.operators, name=name) for name in ("direct", "about", "fail", "alive")
        )
        self.todo, self.emits = Signal(self.terms), Signal(self.operators)
        self.out, self.ports, self.full, self.kept = Signal(12), Signal(3), Signal(), Signal(self.attributes)
        self.at, self.pending, self.gone = Signal(range(2 * self.columns + 1)), Signal(WORD), Signal(3)
        self.push, self.sent, self.last, self.onward = Signal(), Signal(), Signal(), Signal()
        self.inside = Signal()
        self._links(m)
        self._ways(m)
        with m.FSM() as fsm:
            with m.State("INTAKE"):
                self._intake(m)
            with m.State("CLOSE"):
                self._close(m)
            with m.State("TERMS"):
                self._terms(m)
            with m.State("SETTLE"):
                self._settle(m)
            with m.State("PICK"):
                self._pick(m)
            with m.State("FIRST"):
                self._first(m)
            with m.State("SEGMENTS"):
                self._segments(m)
            with m.State("LAST"):
                self._last(m)
        m.d.comb += [
            self.i.ready.eq(fsm.ongoing("INTAKE")),
            self.idle.eq(fsm.ongoing("INTAKE") & ~self.inside),
        ]
        return m

    def _links(self, m: Module) -> None:
        """For each operator, the operators here that it reads from."""
        self.links = [Signal(self.operators, name=f"reads_{k}") for k in self.index]
        for k in self.index:
            rides = self.used[k] & ~self.joins[k] & (self.table[k].lane == NO_LANE)
            for j in self.index:
                same = self.table[j].out == self.table[k].stream
                m.d.comb += self.links[k][j].eq(rides & self.used[j] & same if j != k else 0)

    def _intake(self, m: Module) -> None:
        inside = self.inside
        word, lane = self.i.payload.word, self.i.payload.lane
        bits = (self.attributes - 1).bit_length()
        m.d.comb += [
            self.put.addr.eq(word.id[:bits]),
            self.put.data.value.eq(word.data),
            self.put.data.null.eq(word.mark),
            self.keep_segment.addr.eq(self.count),
            self.keep_segment.data.value.eq(word.data),
            self.keep_segment.data.null.eq(word.mark),
            self.keep_segment.data.attribute.eq(word.id),
        ]
        with m.If(self.i.valid):
            m.d.sync += inside.eq(~word.last)
            with m.If(inside):
                m.d.comb += [self.put.en.eq(1), self.keep_segment.en.eq(1)]
                m.d.sync += [
                    self.count.eq(self.count + 1),
                    self.present.eq(self.present | (1 << word.id[:bits])),
                ]
            with m.Else():
                wanted = Signal(self.operators)
                for k in self.index:
                    one = self.table[k]
                    by_lane = ~self.joins[k] & (one.stream == word.id) & (one.lane == lane)
                    m.d.comb += wanted[k].eq(self.used[k] & Mux(lane == NO_LANE, self.joins[k], by_lane))
                m.d.sync += [
                    self.lane.eq(lane),
                    self.numbers.eq(word.data),
                    self.dropped.eq(word.mark),
                    self.present.eq(0),
                    self.count.eq(0),
                    self.direct.eq(wanted),
                    self.about.eq(wanted),
                ]
            with m.If(word.last):
                m.next = "CLOSE"

    def _close(self, m: Module) -> None:
        """Who reads what others here give, until no more are found; then the terms of all of them."""
        more, terms = Signal(self.operators), Signal(self.terms)
        m.d.comb += more.eq(self.about | Cat((self.links[k] & self.about).any() for k in self.index))
        for entry in range(self.terms):
            m.d.comb += terms[entry].eq(self.taken[entry] & (self.about >> self.owner[entry])[0])
        m.d.sync += [
            self.about.eq(more),
            self.fail.eq(Mux(self.dropped, ~0, 0)),
            self.alive.eq(0),
            self.todo.eq(terms),
        ]
        with m.If(more == self.about):
            m.next = "TERMS"
            with m.If(self.dropped | ~terms.any()):
                m.next = "SETTLE"

    def _terms(self, m: Module) -> None:
        """A comparison a cycle: read the entry, read its values, compare."""
        first = Signal(range(self.terms))
        for entry in reversed(range(self.terms)):
            with m.If(self.todo[entry]):
                m.d.comb += first.eq(entry)
        bits = (self.attributes - 1).bit_length()
        reads, fetched = Signal(), Signal()  # an entry has been read; its values have
        reader, whose = Signal(self.index), Signal(self.index)
        term, absent, alone = Signal(TERM), Signal(2), Signal()
        sides = [self.values.read_port() for _ in range(2)]
        left, right = Signal(VALUE), Signal(VALUE)
        m.d.comb += [
            self.term_at.eq(first),
            sides[0].addr.eq(self.term.attribute[:bits]),
            sides[1].addr.eq(self.term.other[:bits]),
            left.value.eq(sides[0].data.value),
            left.null.eq(sides[0].data.null | absent[0]),
            right.value.eq(Mux(alone, 0, sides[1].data.value)),
            right.null.eq(~alone & (sides[1].data.null | absent[1])),
        ]
        m.d.sync += [
            self.todo.eq(self.todo & (self.todo - 1)),
            reads.eq(self.todo.any()),
            reader.eq(Array(self.owner)[first]),
            fetched.eq(reads),
            whose.eq(reader),
            term.eq(self.term),
            absent[0].eq(~(self.present >> self.term.attribute[:bits])[0]),
            absent[1].eq(~(self.present >> self.term.other[:bits])[0]),
            alone.eq(self.term.other == 0),
        ]
        passes = holds(m, term.condition, left, right, term.constant, "term_holds")
        with m.If(fetched & ~passes):
            m.d.sync += self.fail.bit_select(whose, 1).eq(1)
        with m.If(~self.todo.any() & ~reads & fetched):
            m.d.sync += fetched.eq(0)
            m.next = "SETTLE"

    def _settle(self, m: Module) -> None:
        """Who has passed: the row's own operators, then who reads what these give."""
        passed, ways, lanes = (Signal(self.operators, name=name) for name in ("passed", "ways", "lanes"))
        for k in self.index:
            source = self.direct[k] | (self.links[k] & self.alive).any()
            m.d.comb += [
                passed[k].eq(self.about[k] & ~self.fail[k] & source),
                ways[k].eq(self.table[k].port != 0),
                lanes[k].eq((self.table[k].port & (TO_R | TO_S)) != 0),
            ]
        m.d.sync += [
            self.alive.eq(passed),
            self.emits.eq(self.about & ((passed & ways) | (lanes & Mux(self.lane == NO_LANE, 0, ~0)))),
        ]
        with m.If((passed == self.alive) | (self.about == self.direct)):
            m.next = "PICK"

    def _pick(self, m: Module) -> None:
        """The next operator that has a way out."""
        chosen = Signal(self.index)
        for k in reversed(self.index):
            with m.If(self.emits[k]):
                m.d.comb += chosen.eq(k)
        one, lives = Array(self.table)[chosen], (self.alive >> chosen)[0]
        m.d.comb += self.keep_at.eq(chosen)
        m.d.sync += [
            self.emits.eq(self.emits & (self.emits - 1)),
            self.out.eq(one.out),
            self.ports.eq(Mux(lives, one.port, one.port & (TO_R | TO_S))),
            self.full.eq(lives),
            self.at.eq(0),
            self.gone.eq(0),
        ]
        m.next = "FIRST"
        with m.If(~self.emits.any()):
            m.next = "INTAKE"

    def _ways(self, m: Module) -> None:
        """A word goes out by each port when it can, and is sent when it has gone by all."""
        done = Signal(3)
        for k, out in enumerate(self.o):
            m.d.comb += [
                out.payload.eq(self.pending),
                out.payload.last.eq(self.last),
                out.payload.s.eq(k == 1),
                out.valid.eq(self.push & self.ports[k] & ~self.gone[k]),
                done[k].eq(~self.ports[k] | self.gone[k] | out.ready),
            ]
        m.d.comb += [self.sent.eq(self.push & done.all()), self.read.addr.eq(self.at + self.onward)]
        with m.If(self.push):
            m.d.sync += self.gone.eq(Mux(done.all(), 0, done & self.ports))

    def _first(self, m: Module) -> None:
        m.d.sync += [
            self.kept.eq(self.keep),
            self.pending.data.eq(self.numbers),
            self.pending.id.eq(self.out),
            self.pending.mark.eq(~self.full),
        ]
        m.next = "SEGMENTS"
        with m.If(~self.full | (self.count == 0)):
            m.next = "LAST"

    def _segments(self, m: Module) -> None:
        """A word waits until it is known whether another one follows."""
        segment = self.read.data
        keeps = (self.kept >> segment.attribute[: (self.attributes - 1).bit_length()])[0]
        m.d.comb += [self.push.eq(keeps), self.onward.eq(~keeps | self.sent)]
        with m.If(self.onward):
            m.d.sync += self.at.eq(self.at + 1)
            with m.If(self.at + 1 == self.count):
                m.next = "LAST"
        with m.If(self.sent):
            m.d.sync += [
                self.pending.data.eq(segment.value),
                self.pending.id.eq(segment.attribute),
                self.pending.mark.eq(segment.null),
            ]

    def _last(self, m: Module) -> None:
        m.d.comb += [self.push.eq(1), self.last.eq(1)]
        with m.If(self.sent):
            m.next = "PICK"
            with m.If(~self.emits.any()):
                m.next = "INTAKE"
