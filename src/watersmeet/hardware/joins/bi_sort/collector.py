"""The manager's part (panjoin.txt III.A, III.E): collects a batch a stream, and decides what happens next.

A batch is closed when it has ``batch`` rows, when it fills its stream's newest sub-window, when nothing has come for ``wait`` cycles, or when the
other stream is about to drop a sub-window. It then goes by all sub-windows at once: it probes those of the other stream and is merged into the newest of its own.

**Every pair is found once**, by the one of the two rows whose batch went by later: the other one was merged by then. Whether it is a result is decided by
what the two rows may see, so it does not matter that batches go by in another order than rows came in.

**Nothing is dropped too early.** There are so many sub-windows that, when all are full, the oldest holds only rows that no row that is
still to come may see: full ones hold ``window + sub_window`` rows or more. Rows that wait in the other stream's batch came earlier, so
that batch goes first. A sub-window is always filled exactly, so that this holds however batches were closed.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.joins.bi_sort.batch import SortedBatch
from watersmeet.hardware.joins.bi_sort.sub_window import Sizes
from watersmeet.hardware.joins.intake import accepted_layout, seen_stamp
from watersmeet.hardware.joins.rows import row_layout, stamp


def closed_layout(batch: int) -> data.StructLayout:
    """What is told of a batch that was closed: its stream, and how many rows it has."""
    return data.StructLayout({"side": 1, "count": range(batch + 1)})


class Collector(wiring.Component):
    """Rows at ``i``, batches at ``rows``; ``begin`` goes before a batch, ``busy`` are the sub-windows, left ones first."""

    def __init__(self, sizes: Sizes, wait: int) -> None:
        self.sizes, self.wait = sizes, wait
        units = sum(sizes.units)
        super().__init__(
            {
                "i": In(stream.Signature(accepted_layout(row_layout(sizes.key, sizes.number)))),
                "rows": Out(stream.Signature(sizes.passing)),
                "closed": Out(stream.Signature(closed_layout(sizes.batch))),
                "begin": Out(1),
                "side": Out(1),
                "count": Out(range(sizes.batch + 1)),
                "batch": Out(16),
                "newest": Out(units),
                "clear": Out(units),
                "busy": In(units),
            }
        )
        self.counts = [Signal(range(sizes.batch + 1), name=f"collected_{k}") for k in range(2)]
        self.watch = {"left": self.counts[0], "right": self.counts[1]}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        sizes = self.sizes
        m.submodules.out = out = Buffer(sizes.passing)
        m.submodules.told = told = Buffer(closed_layout(sizes.batch))
        wiring.connect(m, out.o, wiring.flipped(self.rows))
        wiring.connect(m, told.o, wiring.flipped(self.closed))
        batches = []
        for k, name in enumerate(("left", "right")):
            m.submodules[name] = batch = SortedBatch(sizes.row, sizes.batch)
            m.d.comb += self.counts[k].eq(batch.count)
            batches.append(batch)
        fill = [Signal(range(sizes.sub_window + 1), name=f"fill_{k}") for k in range(2)]
        newest = [Signal(units, init=1, name=f"newest_{k}") for k, units in enumerate(sizes.units)]
        m.d.comb += [
            self.newest.eq(newest[0] | newest[1] << sizes.units[0]),
            told.i.payload.side.eq(self.side),
            told.i.payload.count.eq(self.count),
            out.i.payload.side.eq(self.side),
            out.i.payload.row.eq(Mux(self.side, batches[1].o.payload, batches[0].o.payload)),
        ]
        collecting = Signal()
        self._collect(m, batches, collecting)
        run = self._due(m, fill)
        full = [size == sizes.sub_window for size in fill]
        waits, none = Signal(), Signal()
        m.d.comb += none.eq((self.counts[0] == 0) & (self.counts[1] == 0))
        with m.FSM():
            with m.State("collect"):
                with m.If(run.any()):
                    m.d.sync += [
                        self.side.eq(~run[0]),
                        self.count.eq(Mux(run[0], self.counts[0], self.counts[1])),
                        self.begin.eq(1),
                    ]
                    m.next = "begin"
                with m.Elif((full[0] | full[1]) & none):
                    m.next = "drop"
                with m.Else():
                    m.d.comb += collecting.eq(1)
            with m.State("begin"):  # the sub-windows see ``begin`` now, and are busy from the next cycle on
                m.d.sync += self.begin.eq(0)
                for k, size in enumerate(fill):
                    with m.If(self.side == k):
                        m.d.sync += size.eq(size + self.count)
                m.next = "tell"
            with m.State("tell"):
                m.d.comb += told.i.valid.eq(1)
                with m.If(told.i.ready):
                    m.next = "go by"
            with m.State("go by"):
                m.d.comb += waits.eq(1)
                with m.If(~self.busy.any()):
                    m.d.sync += self.batch.eq(self.batch + 1)
                    m.next = "collect"
            with m.State("drop"):
                for k, units in enumerate(sizes.units):
                    with m.If(full[k]):
                        m.d.sync += [newest[k].eq(newest[k].rotate_left(1)), fill[k].eq(0)]
                        low = sum(sizes.units[:k])
                        m.d.comb += self.clear[low : low + units].eq(newest[k].rotate_left(1))
                m.next = "collect"
        for k, batch in enumerate(batches):
            goes = waits & (self.side == k)
            m.d.comb += [batch.open.eq(~goes), batch.o.ready.eq(goes & out.i.ready)]
        m.d.comb += out.i.valid.eq(Mux(self.side, batches[1].o.valid, batches[0].o.valid))
        return m

    def _collect(self, m: Module, batches: list[Any], collecting: Signal) -> None:
        """The row in front of the intake into its stream's batch."""
        accepted = self.i.payload
        seen = seen_stamp(m, accepted, self.sizes.number, self.i.valid & self.i.ready)
        row = Signal(self.sizes.row)
        stamp(m, row, accepted.row, seen)
        for k, batch in enumerate(batches):
            m.d.comb += [
                batch.i.payload.eq(row),
                batch.i.valid.eq(self.i.valid & collecting & (accepted.side == k)),
            ]
        m.d.comb += self.i.ready.eq(collecting)

    def _due(self, m: Module, fill: list[Signal]) -> Signal:
        """Which batch is to go by now, if any."""
        sizes, due = self.sizes, Signal(2)
        idle = Signal(range(self.wait + 1))
        full = Signal()
        m.d.comb += full.eq((fill[0] == sizes.sub_window) | (fill[1] == sizes.sub_window))
        with m.If((self.i.valid & self.i.ready) | due.any()):
            m.d.sync += idle.eq(0)
        with m.Elif(idle != self.wait):
            m.d.sync += idle.eq(idle + 1)
        for k in range(2):
            count = self.counts[k]
            closes = (count == sizes.batch) | (fill[k] + count == sizes.sub_window)
            m.d.comb += due[k].eq((count != 0) & (closes | full | (idle == self.wait)))
        return due
