"""The prober (panjoin.txt IV, Figure 9), and the partitioner in front of it.

A prober has bounds in falling order, and walks down the main array once for all of a batch: rows from ``at`` on are beyond the
present bound, and so beyond every later one. If the first row of the partition that ends at ``at`` is beyond it too, then so is the
whole partition, and is skipped in one cycle by its entry in the index (the partitioner: as bounds are sorted, the next partition is
near, and is looked for one after another instead of by rebounding search). Where it is not, its rows are compared one a cycle.

*Beyond* is ``key >= bound`` for a lower bound, whose position is the first row of the range, and ``key > bound`` for an upper bound,
whose position is the end of the range. What stays true: ``at`` is the number of rows that are not known to be beyond the bound.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.joins.bi_sort.merger import entries


class Prober(wiring.Component):
    """``begin`` with ``size`` rows in the array; then a position at ``o`` for each bound at ``i``."""

    def __init__(self, key: int, capacity: int, partition: int, upper: bool) -> None:
        self.upper, self.step = upper, partition.bit_length() - 1
        self.position = range(capacity + 1)
        super().__init__(
            {
                "begin": In(1),
                "size": In(self.position),
                "i": In(stream.Signature(key)),
                "o": Out(stream.Signature(Signal(self.position).shape())),
                "place": Out(range(capacity)),  # of ``row`` in the next cycle
                "row": In(key),
                "entry": Out(range(entries(capacity, partition))),  # of ``first`` in the next cycle
                "first": In(key),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.bounds = bounds = Buffer(self.i.payload.shape())
        m.submodules.positions = positions = Buffer(self.o.payload.shape())
        wiring.connect(m, wiring.flipped(self.i), bounds.i)
        wiring.connect(m, positions.o, wiring.flipped(self.o))
        at, after = Signal(self.position), Signal(self.position)
        bound, inside, found = bounds.o.payload, Signal(), Signal()

        def beyond(key: Any) -> Any:
            return key > bound if self.upper else key >= bound

        # Places of the row and the partition that end at ``after``; nobody looks at them where that is 0.
        m.d.comb += [
            after.eq(at),
            self.place.eq(after - 1),
            self.entry.eq((after - 1) >> self.step),
            positions.i.payload.eq(at),
            positions.i.valid.eq(found),
            bounds.o.ready.eq(found & positions.i.ready),
        ]
        partition = Signal(self.position)
        m.d.comb += partition.eq(((at - 1) >> self.step) << self.step)
        with m.If(self.begin):
            m.d.comb += after.eq(self.size)
            m.d.sync += inside.eq(0)
        with m.Elif(bounds.o.valid):
            with m.If(at == 0):
                m.d.comb += found.eq(1)
            with m.Elif(~inside):
                with m.If(beyond(self.first)):
                    m.d.comb += after.eq(partition)
                with m.Else():
                    m.d.sync += inside.eq(1)
            with m.Elif(beyond(self.row)):
                m.d.comb += after.eq(at - 1)
            with m.Else():
                m.d.comb += found.eq(1)
                with m.If(positions.i.ready):
                    m.d.sync += inside.eq(0)
        m.d.sync += at.eq(after)
        return m


def lower_bound(key: Any, by: int) -> Any:
    """key - by, at least 0."""
    return Mux(key < by, 0, key - by)


def upper_bound(key: Any, by: int, most: int) -> Any:
    """key + by, at most ``most``."""
    return Mux(key > most - by, most, key + by)
