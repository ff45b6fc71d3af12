"""The buffer manager of one lane, with its bypass: every word goes on to the neighbour at once, and to whoever in this block wants it.

What stays true: a word that goes on and is wanted here goes both ways in the same cycle, or waits; a row that nobody here wants waits for
nobody but the lane. Instructions for this block end here, all others pass (4.1.3).
Where the thesis differs: it stores rows first and lets them pass when the window is full; here a second query behind the first sees a row
as soon as it can, which the assigner counts on (docs/fabric.md).
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.encoded import HEAD
from watersmeet.hardware.fqp.query_buffer import JOIN
from watersmeet.hardware.fqp.window_buffer import SEGMENT, held
from watersmeet.hardware.fqp.words import BLOCK, ROW, VALUE, WORD


class For(enum.Enum, shape=2):  # type: ignore[call-arg]
    """Who wants a row or instruction, beside the neighbour."""

    NOBODY = 0
    OPERATORS = 1
    JOIN = 2
    QUERY_BUFFER = 3


class BufferManager(wiring.Component):
    """``plain`` and ``joining``: operators, or the join, want a row of stream ``asks``. ``wants``: such a row is here and waits for
    ``grant``; ``holds``: its first word has been taken, its last not. ``close``: a row for the join is complete.
    """

    def __init__(self, lane: int, columns: int) -> None:
        self.lane, self.columns, self.held = lane, columns, held(columns)
        super().__init__(
            {
                "number": In(12),  # the block's B-ID
                "i": In(stream.Signature(WORD)),
                "onward": Out(stream.Signature(WORD)),
                "code": Out(stream.Signature(WORD)),
                "row": Out(stream.Signature(ROW)),
                "asks": Out(12),
                "plain": In(1),
                "joining": In(1),
                "wants": Out(1),
                "grant": In(1),
                "holds": Out(1),
                "inside": Out(1),
                "join": In(JOIN),
                "write": Out(1),
                "segment": Out(SEGMENT),
                "at": Out(range(columns)),
                "close": Out(1),
                "kept": Out(self.held),
                "left": Out(1),  # whether this lane has the left side of the join's key
            }
        )

    def goes_on(self, whose: Any) -> Value:
        """The bypass: all but instructions for this block."""
        return whose != For.QUERY_BUFFER

    def is_free(self, wanted: Value) -> Value:
        """A row that is wanted here waits for the units."""
        return ~wanted | self.grant

    def lives(self, dropped: Value) -> Value:
        """A row that a selection has dropped empties its slot."""
        return ~dropped

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        word, head = self.i.payload, data.View(HEAD, self.i.payload.data)
        whose, now = Signal(For), Signal(For)
        m.d.comb += self.asks.eq(word.id)
        with m.If(self.inside):
            m.d.comb += now.eq(whose)
        with m.Elif(word.q):
            mine = (word.id == BLOCK) & (head.b_id == self.number)
            m.d.comb += now.eq(Mux(mine, For.QUERY_BUFFER, For.NOBODY))
        with m.Elif(self.joining):
            m.d.comb += now.eq(For.JOIN)
        with m.Elif(self.plain):
            m.d.comb += now.eq(For.OPERATORS)
        wanted = (now == For.OPERATORS) | (now == For.JOIN)
        passes, free, goes = Signal(), Signal(), Signal()
        m.d.comb += [
            self.wants.eq(self.i.valid & wanted & ~self.inside),
            self.holds.eq(self.inside & ((whose == For.OPERATORS) | (whose == For.JOIN))),
            passes.eq(self.goes_on(now)),
            free.eq(self.is_free(wanted) & ((now != For.OPERATORS) | self.row.ready)),
            self.onward.payload.eq(word),
            self.onward.valid.eq(self.i.valid & passes & free),
            self.i.ready.eq(free & (~passes | self.onward.ready)),
            goes.eq(self.i.valid & self.i.ready),
            self.row.payload.word.eq(word),
            self.row.payload.lane.eq(self.lane),
            self.row.valid.eq(goes & (now == For.OPERATORS)),
            self.code.payload.eq(word),
            self.code.valid.eq(goes & (now == For.QUERY_BUFFER)),
        ]
        with m.If(goes):
            m.d.sync += [self.inside.eq(~word.last), whose.eq(now)]
        self._keep(m, word, goes & (now == For.JOIN))
        return m

    def _keep(self, m: Module, word: Any, takes: Any) -> None:
        """To the window buffer, segment by segment; what is compared and who it is with the last one."""
        key, found, number, dropped = Signal(VALUE), Signal(VALUE), Signal(32), Signal()
        count = Signal(range(self.columns + 1))
        was_left = Signal()
        is_left = word.id == self.join.key.attribute
        is_key = is_left | (word.id == self.join.key.other)
        m.d.comb += [
            found.value.eq(Mux(is_key, word.data, key.value)),
            found.null.eq(Mux(is_key, word.mark, key.null)),
            self.write.eq(takes & self.inside),
            self.at.eq(count),
            self.segment.value.eq(word.data),
            self.segment.null.eq(word.mark),
            self.segment.attribute.eq(word.id),
            self.close.eq(takes & word.last),
            self.kept.key.eq(Mux(self.inside, found, key)),
            self.kept.number.eq(Mux(self.inside, number, word.data[:32])),
            self.kept.count.eq(Mux(self.inside, count + 1, 0)),
            self.left.eq(Mux(self.inside & is_key, is_left, was_left)),
            self.kept.live.eq(self.lives(Mux(self.inside, dropped, word.mark))),
        ]
        with m.If(takes & ~self.inside):
            m.d.sync += [number.eq(word.data[:32]), dropped.eq(word.mark), count.eq(0), key.null.eq(1)]
        with m.If(takes & self.inside):
            m.d.sync += [key.eq(found), count.eq(count + 1)]
            m.d.sync += was_left.eq(self.left)
