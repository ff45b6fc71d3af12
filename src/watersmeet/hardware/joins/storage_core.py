"""The storage core (thesis 5.5, figure 5.5.4): takes words one after another, keeps the operator, stores a row when it is its turn.

What stays true: of each stream it holds the last ``window`` rows of those whose turn was its own; turns go round over all cores of the join
by counting, with no coordinator. So the cores together hold exactly the last cores x window rows. A row is written in the
cycle after it was taken, when the scan that it started reads the other stream's window: a read and a write never meet in one memory.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.joins.operator import ALL, NEGATED, UNBOUNDED, Segment
from watersmeet.hardware.joins.rows import Kind, row_layout, word_layout


class StorageCore(wiring.Component):
    """``taken``: this cycle's ``word`` is accepted. The write port and what a scan needs are registers."""

    def __init__(self, share: int, attributes: int, bits: int) -> None:
        self.share, self.attributes, self.bits = share, attributes, bits
        row = row_layout(attributes, bits)
        index = max(1, (share - 1).bit_length())
        count = share.bit_length()
        super().__init__(
            {
                "number": In(16),  # of this core; a port, so that all cores are one module
                "word": In(word_layout(attributes, bits)),
                "taken": In(1),
                "write": Out(2),  # one bit a stream: R, S
                "at": Out(index),
                "row": Out(row),
                "count_r": Out(count),  # rows that a scan of R's sub-window has to read
                "count_s": Out(count),
                "low": Out(signed(bits + 2)).array(attributes),
                "high": Out(signed(bits + 2)).array(attributes),
                "negate": Out(attributes),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        word, new = self.word, self.word.row
        cores, position = Signal(16, init=1), Signal(16, init=ALL)
        m.d.sync += [self.write.eq(0), self.row.eq(new)]
        for side, (kind, count) in enumerate(((Kind.R, self.count_r), (Kind.S, self.count_s))):
            name = "rs"[side]
            window = Signal(len(count), init=self.share, name=f"window_{name}")
            turn, place = Signal(16, name=f"turn_{name}"), Signal(len(self.at), name=f"place_{name}")
            with m.If(self.taken & (word.kind == kind)):
                m.d.sync += turn.eq(Mux(turn == cores - 1, 0, turn + 1))
                with m.If(turn == position):
                    m.d.sync += [
                        self.write[side].eq(1),
                        self.at.eq(place),
                        place.eq(Mux(place == window - 1, 0, place + 1)),
                        count.eq(Mux(count == window, window, count + 1)),
                    ]
            with m.If(self._segment(Segment.JOIN)):
                m.d.sync += [turn.eq(0), place.eq(0), count.eq(0)]
            with m.If(self._segment((Segment.WINDOW_R, Segment.WINDOW_S)[side])):
                m.d.sync += window.eq(new.values[0])
        with m.If(self._segment(Segment.JOIN)):
            m.d.sync += [cores.eq(new.values[0]), position.eq(ALL)]
        with m.If(self._segment(Segment.POSITION)):
            m.d.sync += position.eq(new.values[0])
        self._bounds(m)
        return m

    def _segment(self, name: Any) -> Any:
        """Whether the word is this segment, for this core."""
        number = self.word.row.number
        core = number[16:32]
        mine = (core == self.number) | (core == ALL)
        return self.taken & (self.word.kind == Kind.OPERATOR) & (number[:4] == name) & mine

    def _bounds(self, m: Module) -> None:
        number, operand = self.word.row.number, self.word.row.values[0]
        most = 1 << self.bits  # more than any two values differ by
        for k in range(self.attributes):
            of_k = number[4:8] == k
            free = (number[8:16] & UNBOUNDED).any()
            with m.If(self._segment(Segment.LOW) & of_k):
                m.d.sync += [
                    self.low[k].eq(Mux(free, -most, operand)),
                    self.negate[k].eq((number[8:16] & NEGATED).any()),
                ]
            with m.If(self._segment(Segment.HIGH) & of_k):
                m.d.sync += self.high[k].eq(Mux(free, most, operand))
