"""The query buffer of an OP-Block: its operators, and how instructions change them while data flow (4.1.2, 4.1.3).

What stays true: an operator is in force from the cycle after its last word on, whole; a word is taken every cycle, so an instruction
costs as many cycles as it has words. ``reset`` for a stream takes out the operator that gives it (0: all operators), a join with its
windows, and says by which ports the results of the next operator for that stream leave.

Comparisons are entries of a small memory, each with its operator; an entry that an operator gives up is free at once, so nothing has to be
moved. What a projection keeps is a bit an attribute. Of a join, the windows and the comparison that looks at stored rows are registers.
Where the thesis is silent: how an operator is taken out, and how many may stand in a block; here ``operators`` and ``terms``.
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.fabric.encoding import FUNCTIONS
from watersmeet.fabric.program import INSTS, TAGS
from watersmeet.hardware.encoded import CHUNK, HEAD
from watersmeet.hardware.fqp.words import TERM, WORD

ROWS = 24  # bits of a number of rows
OPERATOR = data.StructLayout({"stream": 12, "lane": 2, "out": 12, "port": 3})
SHARE = data.StructLayout({"stream": 12, "first": ROWS, "held": ROWS, "size": ROWS})
JOIN = data.StructLayout({"present": 1, "out": 12, "keyed": 1, "key": TERM, "r": SHARE, "s": SHARE})


class QueryBuffer(wiring.Component):
    """``code``: the words of instructions for this block. The rest is what stands in it.

    ``used``, ``owner`` and ``taken``: which operators there are; of each entry, its operator and whether it is in use. ``clear``: the
    windows are to be emptied.
    """

    def __init__(self, operators: int, terms: int, attributes: int) -> None:
        self.operators, self.terms, self.attributes = operators, terms, attributes
        self.index = range(operators)
        super().__init__(
            {
                "code": In(stream.Signature(WORD)),
                "used": Out(operators),
                "table": Out(OPERATOR).array(operators),
                "joins": Out(operators),  # which of the operators is the join
                "taken": Out(terms),
                "owner": Out(self.index).array(terms),
                "join": Out(JOIN),
                "clear": Out(1),
                "inside": Out(1),  # within an instruction
                "ported": Out(12),  # the stream of the last reset
                "term_at": In(range(terms)),
                "term": Out(TERM),  # a cycle later
                "keep_at": In(self.index),
                "keep": Out(attributes),  # a cycle later
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.entries = entries = Memory(shape=TERM, depth=self.terms, init=[])
        m.submodules.keeps = keeps = Memory(shape=self.attributes, depth=self.operators, init=[])
        self.write, read = entries.write_port(), entries.read_port()
        self.keep_write, keep_read = keeps.write_port(), keeps.read_port()
        m.d.comb += [
            read.addr.eq(self.term_at),
            self.term.eq(read.data),
            keep_read.addr.eq(self.keep_at),
            self.keep.eq(keep_read.data),
            self.code.ready.eq(1),
        ]
        self.slot, self.head = Signal(self.index), Signal(HEAD)
        self.ports = Signal(3)  # of the last reset
        self.free_slot, self.free_entry = Signal(self.index), Signal(range(self.terms))
        for k in reversed(range(self.operators)):
            with m.If(~self.used[k]):
                m.d.comb += self.free_slot.eq(k)
        for k in reversed(range(self.terms)):
            with m.If(~self.taken[k]):
                m.d.comb += self.free_entry.eq(k)
        with m.If(self.code.valid):
            m.d.sync += self.inside.eq(~self.code.payload.last)
            with m.If(~self.inside):
                self._first(m)
            with m.Else():
                self._further(m)
        return m

    # ---- the first word -------------------------------------------------------------------------------------------

    def _first(self, m: Module) -> None:
        head = data.View(HEAD, self.code.payload.data)
        m.d.sync += [self.head.eq(head), self.slot.eq(self.free_slot)]
        with m.If(head.inst == INSTS.index("reset")):
            m.d.sync += [self.ports.eq(head.port), self.ported.eq(head.stream)]
            goes = Signal(self.operators)
            for k in self.index:
                m.d.comb += goes[k].eq(
                    self.used[k] & ((self.table[k].out == head.stream) | (head.stream == 0))
                )
            m.d.sync += [self.used.eq(self.used & ~goes), self.joins.eq(self.joins & ~goes)]
            with m.If((goes & self.joins).any()):
                m.d.sync += self.join.present.eq(0)
            for entry in range(self.terms):
                with m.If((goes >> self.owner[entry])[0]):
                    m.d.sync += self.taken[entry].eq(0)
        with m.Elif(head.inst == INSTS.index("join")):
            m.d.sync += [
                self.join.out.eq(head.out),
                self.join.keyed.eq(0),
                self.joins.bit_select(self.free_slot, 1).eq(1),
            ]
            m.d.comb += self.clear.eq(1)

    # ---- further words --------------------------------------------------------------------------------------------

    def _further(self, m: Module) -> None:
        word = self.code.payload
        chunk = data.View(CHUNK, word.data)
        rest = Signal(9)  # words of the last chunk's constant that are still to come
        second = Signal()
        last, sort, lane_s, keyed = Signal(CHUNK), Signal(range(len(TAGS))), Signal(), Signal()
        entry = Signal(range(self.terms))
        kept = Signal(self.attributes)
        keeps = Signal(self.attributes)
        m.d.comb += keeps.eq(kept)
        with m.If(rest != 0):
            m.d.sync += [rest.eq(rest - 1), second.eq(1)]
            with m.If(sort == TAGS.index("term")):
                self._term(m, last, word.data, keyed, entry, ~second)
            with m.If(sort == TAGS.index("window")):
                for lane, share in enumerate((self.join.r, self.join.s)):
                    with m.If((lane_s == lane) & ~second):
                        m.d.sync += [share.first.eq(word.data[:32]), share.held.eq(word.data[32:])]
                    with m.If((lane_s == lane) & second):
                        m.d.sync += share.size.eq(word.data[:32])
        with m.Else():
            tag, key = chunk.tag, chunk.function == FUNCTIONS.index("key")
            m.d.sync += [
                rest.eq((chunk.bytes + 7) >> 3),
                second.eq(0),
                last.eq(chunk),
                sort.eq(tag),
                lane_s.eq(chunk.condition == 9),
                keyed.eq(key),
            ]
            with m.If(tag == TAGS.index("term")):
                m.d.sync += entry.eq(self.free_entry)
                self._term(m, chunk, 0, key, self.free_entry, 1)
                with m.If(~key):
                    m.d.sync += [
                        self.taken.bit_select(self.free_entry, 1).eq(1),
                        Array(self.owner)[self.free_entry].eq(self.slot),
                    ]
            with m.If(tag == TAGS.index("column")):
                m.d.comb += keeps.eq(kept | (1 << chunk.attribute[: (self.attributes - 1).bit_length()]))
            with m.If(tag == TAGS.index("window")):
                for lane, share in enumerate((self.join.r, self.join.s)):
                    with m.If(chunk.condition == 8 + lane):  # a lane, after the conditions and "no lane"
                        m.d.sync += [
                            share.stream.eq(chunk.other),
                            share.first.eq(0),
                            share.held.eq(chunk.attribute),
                            share.size.eq(chunk.attribute),
                        ]
        m.d.sync += kept.eq(keeps)
        with m.If(word.last):
            self._last(m, keeps)
            m.d.sync += [kept.eq(0), rest.eq(0)]

    def _term(self, m: Module, chunk: Any, constant: Any, keyed: Any, entry: Any, when: Any) -> None:
        """A comparison, to the join's key or to an entry; written once without its constant, and again with it."""
        with m.If(when):
            with m.If(keyed):
                term = self.join.key
                m.d.sync += [
                    term.attribute.eq(chunk.attribute),
                    term.condition.eq(chunk.condition),
                    term.other.eq(chunk.other),
                    term.constant.eq(constant),
                    self.join.keyed.eq(1),
                ]
            with m.Else():
                m.d.comb += [
                    self.write.en.eq(1),
                    self.write.addr.eq(entry),
                    self.write.data.attribute.eq(chunk.attribute),
                    self.write.data.condition.eq(chunk.condition),
                    self.write.data.other.eq(chunk.other),
                    self.write.data.constant.eq(constant),
                ]

    def _last(self, m: Module, keeps: Any) -> None:
        head = self.head
        own = Array(self.table)[self.slot]
        m.d.sync += [
            self.used.bit_select(self.slot, 1).eq(1),
            own.stream.eq(head.stream),
            own.lane.eq(head.lane),
            own.out.eq(head.out),
            own.port.eq(Mux(self.ported == head.out, self.ports, 0)),
        ]
        with m.If(head.inst == INSTS.index("join")):
            m.d.sync += [self.join.present.eq(1), own.stream.eq(0), own.lane.eq(0)]
        m.d.comb += [
            self.keep_write.en.eq(1),
            self.keep_write.addr.eq(self.slot),
            self.keep_write.data.eq(
                Mux(head.inst == INSTS.index("projection"), keeps, (1 << self.attributes) - 1)
            ),
        ]
