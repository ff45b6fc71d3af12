"""From ranges to pairs, or to records of ranges.

What stays true: for each probing row, in order, every stored row of its range <start, end> is read once; the pair leaves iff one of
the two may see the other (only in the oldest and the newest sub-windows can it be otherwise: PanJoin's filter, III.G). A range costs
its length and one cycle. Of ranges that are given as such, one cycle, however long.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.joins.stamped import may_meet, pair_layout


def range_layout(number: int, capacity: int, units: int) -> data.StructLayout:
    """Row ``number`` of stream ``side`` matches places ``start`` to ``end`` of a sub-window of the other stream.

    ``batch``: the number of the row's batch, those of both streams counted together, from 0.
    """
    return data.StructLayout(
        {
            "number": number,
            "side": 1,
            "batch": 16,
            "unit": range(units),
            "start": range(capacity + 1),
            "end": range(capacity + 1),
        }
    )


class _Ranges(wiring.Component):
    """What both forms share: three streams that belong together, taken at once when ``leaves``."""

    def __init__(self, layout: Any, capacity: int, result: Any, extra: dict[str, Any]) -> None:
        self.result = result
        self.position = Signal(range(capacity + 1)).shape()
        super().__init__(
            {
                "rows": In(stream.Signature(layout)),
                "starts": In(stream.Signature(self.position)),
                "ends": In(stream.Signature(self.position)),
                "o": Out(stream.Signature(result)),
                "leaves": Out(1),
                **extra,
            }
        )

    def _ready(self, m: Module) -> tuple[Signal, Any]:
        m.submodules.out = out = Buffer(self.result)
        wiring.connect(m, out.o, wiring.flipped(self.o))
        here = Signal()
        m.d.comb += here.eq(self.rows.valid & self.starts.valid & self.ends.valid)
        for one in (self.rows, self.starts, self.ends):
            m.d.comb += one.ready.eq(self.leaves)
        return here, out


class PairLister(_Ranges):
    """Reads a range's rows and gives pairs. ``stored_right``: the sub-window is of the right stream."""

    def __init__(self, layout: Any, capacity: int, windows: tuple[int, int], stored_right: int) -> None:
        self.windows, self.stored_right = windows, stored_right
        super().__init__(
            layout,
            capacity,
            pair_layout(layout["number"].width),
            {"place": Out(range(capacity)), "row": In(layout)},
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        here, out = self._ready(m)
        read, done, have, go = Signal(self.position), Signal(), Signal(), Signal()
        at = Signal(self.position)
        left, right = (self.rows.payload, self.row) if self.stored_right else (self.row, self.rows.payload)
        m.d.comb += [
            at.eq(self.starts.payload + read),
            done.eq(at == self.ends.payload),
            out.i.valid.eq(have & may_meet(left, right, *self.windows)),
            out.i.payload.left.eq(left.number),
            out.i.payload.right.eq(right.number),
            go.eq(here & (~out.i.valid | out.i.ready)),
            self.leaves.eq(go & done),
            # A stalled row is read again, so that it stays where it is.
            self.place.eq(Mux(go, at, at - 1)),
        ]
        with m.If(go):
            m.d.sync += [have.eq(~done), read.eq(Mux(done, 0, read + 1))]
        return m


class RangeLister(_Ranges):
    """Gives a record a range, of those that are not empty."""

    def __init__(self, layout: Any, capacity: int, units: int, stored_right: int) -> None:
        self.stored_right = stored_right
        result = range_layout(layout["number"].width, capacity, units)
        super().__init__(layout, capacity, result, {"batch": In(16), "unit": In(range(units))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        here, out = self._ready(m)
        empty, record = Signal(), out.i.payload
        m.d.comb += [
            empty.eq(self.starts.payload == self.ends.payload),
            out.i.valid.eq(here & ~empty),
            self.leaves.eq(here & (empty | out.i.ready)),
            record.number.eq(self.rows.payload.number),
            record.side.eq(1 - self.stored_right),
            record.batch.eq(self.batch),
            record.unit.eq(self.unit),
            record.start.eq(self.starts.payload),
            record.end.eq(self.ends.payload),
        ]
        return m
