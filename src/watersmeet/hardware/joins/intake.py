"""Two ports become one line: rows of both streams in the order in which they were accepted.

What stays true: rows leave in the order of acceptance, those of one cycle the left one first; each once. This order *is* the order of
arrival that a result is exact for. Four places, of which at least two must be free before a port is ready, so that ready depends on
no input, and both ports may be taken in one cycle.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

PLACES = 4


def accepted_layout(layout: Any) -> data.StructLayout:
    """A row in the line: ``side`` is 1 for the right stream."""
    return data.StructLayout({"row": layout, "side": 1})


class Intake(wiring.Component):
    """``left`` and ``right`` to ``o``; ``level`` counts the rows inside."""

    def __init__(self, layout: Any) -> None:
        self.layout, self.accepted = layout, accepted_layout(layout)
        super().__init__(
            {
                "left": In(stream.Signature(layout)),
                "right": In(stream.Signature(layout)),
                "o": Out(stream.Signature(self.accepted)),
            }
        )
        self.level = Signal(range(PLACES + 1))
        self.watch = {"level": self.level}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        places = [Signal(self.accepted, name=f"place_{k}") for k in range(PLACES)]
        room, gone = Signal(), Signal()
        m.d.comb += [
            room.eq(self.level <= PLACES - 2),
            self.left.ready.eq(room),
            self.right.ready.eq(room),
            self.o.valid.eq(self.level != 0),
            self.o.payload.eq(places[0]),
            gone.eq(self.o.valid & self.o.ready),
        ]
        new = [Signal(self.accepted, name=f"new_{side}") for side in ("left", "right")]
        comes = [Signal(name=f"comes_{side}") for side in ("left", "right")]
        for side, port in enumerate((self.left, self.right)):
            m.d.comb += [
                new[side].row.eq(port.payload),
                new[side].side.eq(side),
                comes[side].eq(port.valid & room),
            ]
        stays = Signal(range(PLACES + 1))
        m.d.comb += stays.eq(self.level - gone)
        m.d.sync += self.level.eq(stays + comes[0] + comes[1])
        for k, place in enumerate(places):
            with m.If(stays > k):
                if k + 1 < PLACES:
                    with m.If(gone):
                        m.d.sync += place.eq(places[k + 1])
            with m.Elif((stays == k) & comes[0]):
                m.d.sync += place.eq(new[0])
            with m.Else():  # the right row: behind the left one, or in its stead
                m.d.sync += place.eq(new[1])
        return m


def seen_stamp(m: Module, accepted: Any, number: int, moves: Any) -> Signal:
    """How many rows of the other stream went by before the one in front; ``moves``: the one in front leaves now."""
    last = [Signal(number, name=f"rows_{side}") for side in ("left", "right")]
    with m.If(moves):
        with m.If(accepted.side):
            m.d.sync += last[1].eq(accepted.row.number + 1)
        with m.Else():
            m.d.sync += last[0].eq(accepted.row.number + 1)
    seen = Signal(number)
    m.d.comb += seen.eq(Mux(accepted.side, last[0], last[1]))
    return seen


def order_of(taken: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
    """Streams and numbers of the rows in the order in which an ``Intake`` accepted them."""
    order = [(cycle, side, k) for side in ("left", "right") for k, cycle in enumerate(taken[side])]
    return [(side, k) for _, side, k in sorted(order)]
