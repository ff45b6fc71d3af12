"""The window buffer of one lane: the rows that a join holds, a segment a word (4.1.3, 4.3).

What stays true: row n of the stream has slot n modulo the window's size, and each slot is one block's; so every row is held by one
block, and takes the place of the very row that it expires. A row that a selection has dropped empties its slot. Nobody compares ages.

What is compared and who it is are apart from the segments, so that a scan looks at a row a cycle, however many segments it has. One
slot more than the window holds the row that is being worked on, where another block keeps it.
Where the thesis is silent or differs: it lets a full window push its oldest row on to the neighbour; then which pairs meet depends on how
far rows have come in either lane, and a count window is not exact (``dealer.py``).
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.fqp.query_buffer import SHARE
from watersmeet.hardware.fqp.words import VALUE


def held(columns: int) -> data.StructLayout:
    """A held row without its segments. ``count``: how many it has; ``live``: the slot is not empty."""
    return data.StructLayout({"key": VALUE, "number": 32, "count": range(columns + 1), "live": 1})


SEGMENT = data.StructLayout({"value": 64, "null": 1, "attribute": 12})


class WindowBuffer(wiring.Component):
    """``write``: segment ``at`` of the row that comes in; ``close``: it is complete, and the turn goes on. ``place``: its slot.

    ``look`` gives ``seen`` a cycle later, ``fetch`` and ``fetch_at`` ``segment``. ``fill``: slots that may hold something.
    """

    def __init__(self, window: int, columns: int) -> None:
        self.window, self.columns = window, columns
        self.slots, self.held = range(window + 1), held(columns)
        super().__init__(
            {
                "share": In(SHARE),
                "clear": In(1),
                "write": In(1),
                "segment_in": In(SEGMENT),
                "at": In(range(columns)),
                "close": In(1),
                "row": In(self.held),
                "place": Out(self.slots),
                "fill": Out(self.slots),
                "look": In(self.slots),
                "seen": Out(self.held),
                "fetch": In(self.slots),
                "fetch_at": In(range(columns)),
                "segment": Out(SEGMENT),
            }
        )

    def after(self, turn: Value) -> Value:
        """The slot after a slot: with the row that gets it, the row that had it expires."""
        return Mux(turn + 1 == self.share.size, 0, turn + 1)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.rows = rows = Memory(shape=self.held, depth=self.window + 1, init=[])
        stride = 1 << (self.columns - 1).bit_length()
        m.submodules.segments = segments = Memory(shape=SEGMENT, depth=(self.window + 1) * stride, init=[])
        write, look = rows.write_port(), rows.read_port()
        put, fetch = segments.write_port(), segments.read_port()
        turn = Signal(SHARE["size"].shape)  # the slot, of the whole window, of the next row
        own = Signal()  # whether it is held here
        m.d.comb += [
            own.eq((turn >= self.share.first) & (turn - self.share.first < self.share.held)),
            self.place.eq(Mux(own, turn - self.share.first, self.window)),
            write.en.eq(self.close),
            write.addr.eq(self.place),
            write.data.eq(self.row),
            put.en.eq(self.write),
            put.addr.eq(self.place * stride + self.at),
            put.data.eq(self.segment_in),
            look.addr.eq(self.look),
            self.seen.eq(look.data),
            fetch.addr.eq(self.fetch * stride + self.fetch_at),
            self.segment.eq(fetch.data),
        ]
        with m.If(self.close):
            m.d.sync += turn.eq(self.after(turn))
            with m.If(own & (self.place == self.fill)):
                m.d.sync += self.fill.eq(self.fill + 1)
        with m.If(self.clear):
            m.d.sync += [turn.eq(0), self.fill.eq(0)]
        return m
