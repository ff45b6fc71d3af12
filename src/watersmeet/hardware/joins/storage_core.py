"""The storage core (thesis 5.5, figure 5.5.4): takes words one after another, keeps the operator, stores a row when it is its turn.

What stays true: of each stream it holds the last ``window`` rows of those whose turn was its own; turns go round over all cores of the join
by counting, with no coordinator. So the cores together hold exactly the last cores x window rows. A row is written in the
cycle after it was taken, when the scan that it started reads the other stream's window: a read and a write never meet in one memory.

For the clock, what a word asks for is decoded before it is stored in the fetcher (``decode``), and whose turn is next is known before
the row comes: ``mine`` iff ``turn == position``, ``following`` is the turn after ``turn``. No word waits for an adder and a comparison.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.joins.operator import ALL, NEGATED, UNBOUNDED, Segment
from watersmeet.hardware.joins.rows import Kind, row_layout, word_layout


def orders_layout(attributes: int) -> Any:
    """What a word asks a core for, a bit each; all are low for a row, and for a segment that is for another core."""
    once = dict.fromkeys(("join", "position", "window_r", "window_s"), 1)
    return data.StructLayout({**once, "low": attributes, "high": attributes})


def decode(m: Module, word: Any, core: Any, orders: Any, attributes: int) -> None:
    """Drives ``orders`` of ``word`` for the core with this number."""
    number = word.row.number
    meant = Signal()
    m.d.comb += meant.eq((word.kind == Kind.OPERATOR) & ((number[16:32] == core) | (number[16:32] == ALL)))
    of = [number[4:8] == k for k in range(attributes)]
    m.d.comb += [
        orders.join.eq(meant & (number[:4] == Segment.JOIN)),
        orders.position.eq(meant & (number[:4] == Segment.POSITION)),
        orders.window_r.eq(meant & (number[:4] == Segment.WINDOW_R)),
        orders.window_s.eq(meant & (number[:4] == Segment.WINDOW_S)),
        orders.low.eq(Cat(meant & (number[:4] == Segment.LOW) & mine for mine in of)),
        orders.high.eq(Cat(meant & (number[:4] == Segment.HIGH) & mine for mine in of)),
    ]


class StorageCore(wiring.Component):
    """``taken``: this cycle's ``word`` is accepted. The write port and what a scan needs are registers."""

    def __init__(self, share: int, attributes: int, bits: int) -> None:
        self.share, self.attributes, self.bits = share, attributes, bits
        row = row_layout(attributes, bits)
        index = max(1, (share - 1).bit_length())
        count = share.bit_length()
        super().__init__(
            {
                "word": In(word_layout(attributes, bits)),
                "orders": In(orders_layout(attributes)),  # the word's, decoded
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
        word, orders = self.word, self.orders
        operand = word.row.values[0]
        last_core, position, asked = Signal(16), Signal(16, init=ALL), Signal(16)
        m.d.comb += asked.eq(operand)  # as wide as a turn
        m.d.sync += [self.write.eq(0), self.row.eq(word.row)]
        join, placed = self.taken & orders.join, self.taken & orders.position
        for side, (kind, count) in enumerate(((Kind.R, self.count_r), (Kind.S, self.count_s))):
            name = "rs"[side]
            window = Signal(len(count), init=self.share, name=f"window_{name}")
            place = Signal(len(self.at), name=f"place_{name}")
            last_place = Signal(len(self.at), init=self.share - 1, name=f"last_place_{name}")
            turn, following = Signal(16, name=f"turn_{name}"), Signal(16, name=f"following_{name}")
            mine = Signal(name=f"mine_{name}")
            with m.If(self.taken & (word.kind == kind)):
                m.d.sync += [
                    turn.eq(following),
                    following.eq(Mux(following == last_core, 0, following + 1)),
                    mine.eq(following == position),
                ]
                with m.If(mine):
                    m.d.sync += [
                        self.write[side].eq(1),
                        self.at.eq(place),
                        place.eq(Mux(place == last_place, 0, place + 1)),
                        count.eq(Mux(count == window, window, count + 1)),
                    ]
            with m.If(join):
                m.d.sync += [turn.eq(0), following.eq(asked != 1), mine.eq(0), place.eq(0), count.eq(0)]
            with m.If(placed):
                m.d.sync += mine.eq(turn == asked)
            with m.If(self.taken & (orders.window_r, orders.window_s)[side]):
                m.d.sync += [window.eq(operand), last_place.eq(operand - 1)]
        with m.If(join):
            m.d.sync += [last_core.eq(asked - 1), position.eq(ALL)]
        with m.If(placed):
            m.d.sync += position.eq(asked)
        self._bounds(m)
        return m

    def _bounds(self, m: Module) -> None:
        number, operand = self.word.row.number, self.word.row.values[0]
        most = 1 << self.bits  # more than any two values differ by
        for k in range(self.attributes):
            free = (number[8:16] & UNBOUNDED).any()
            with m.If(self.taken & self.orders.low[k]):
                m.d.sync += [
                    self.low[k].eq(Mux(free, -most, operand)),
                    self.negate[k].eq((number[8:16] & NEGATED).any()),
                ]
            with m.If(self.taken & self.orders.high[k]):
                m.d.sync += self.high[k].eq(Mux(free, most, operand))
