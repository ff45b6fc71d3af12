"""The manager's part (panjoin.txt III.A, III.E): collects a batch a stream, and decides what happens next.

A batch is closed when it has ``batch`` rows, when it fills its stream's newest sub-window, when nothing has come for ``wait`` cycles,
or when the other stream is about to drop a sub-window. It then goes by all sub-windows at once: it probes those of the other stream
and is merged into the newest of its own.

**Every pair is found once**, by the one of the two rows whose batch went by later: the other one was merged by then. Whether it is a
result is decided by what the two rows may see, so it does not matter that batches go by in another order than rows came in.

**Nothing is dropped too early.** There are so many sub-windows that, when all are full, the oldest holds only rows that no row that
is still to come may see: full ones hold ``window + sub_window`` rows or more. Rows that wait in the other stream's batch came
earlier, so that batch goes first. A sub-window is always filled exactly, so that this holds however batches were closed.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.joins.bi_sort.batch import Outgoing, SortedBatch
from watersmeet.hardware.joins.bi_sort.sub_window import Sizes
from watersmeet.hardware.joins.intake import accepted_layout, seen_stamp
from watersmeet.hardware.joins.stamped import row_layout, stamp


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
        m.submodules.told = told = Buffer(closed_layout(sizes.batch))
        wiring.connect(m, told.o, wiring.flipped(self.closed))
        batches = []
        for k, name in enumerate(("left", "right")):
            m.submodules[name] = batch = SortedBatch(sizes.row, sizes.batch)
            m.d.comb += self.counts[k].eq(batch.count)
            batches.append(batch)
        m.d.comb += [told.i.payload.side.eq(self.side), told.i.payload.count.eq(self.count)]
        fill = [Signal(range(sizes.sub_window + 1), name=f"fill_{k}") for k in range(2)]
        newest = [Signal(units, init=1, name=f"newest_{k}") for k, units in enumerate(sizes.units)]
        m.d.comb += self.newest.eq(newest[0] | newest[1] << sizes.units[0])
        full = Signal(2)
        m.d.comb += [full[k].eq(size == sizes.sub_window) for k, size in enumerate(fill)]
        closes = self._closes(m, batches, fill, full)
        due = self._due(m, closes, full)
        self._send(m, batches, due)
        with m.FSM():
            with m.State("next"):
                with m.If(due.any()):
                    m.d.sync += self.begin.eq(1)
                    for k, batch in enumerate(batches):
                        with m.If(due[k]):
                            m.d.comb += batch.clear.eq(1)
                            m.d.sync += [
                                self.side.eq(k),
                                self.count.eq(batch.count),
                                fill[k].eq(fill[k] + batch.count),
                            ]
                    m.next = "begin"
                with m.Elif(full.any()):  # and nothing is collected
                    m.next = "drop"
            with m.State("begin"):  # the sub-windows see ``begin`` now, and are busy from the next cycle on
                m.d.sync += self.begin.eq(0)
                m.next = "tell"
            with m.State("tell"):
                m.d.comb += told.i.valid.eq(1)
                with m.If(told.i.ready):
                    m.next = "go by"
            with m.State("go by"), m.If(~self.busy.any()):
                m.d.sync += self.batch.eq(self.batch + 1)
                m.next = "next"
            with m.State("drop"):
                for k, units in enumerate(sizes.units):
                    with m.If(full[k]):
                        low = sum(sizes.units[:k])
                        oldest = newest[k].rotate_left(1)
                        m.d.comb += self.clear[low : low + units].eq(oldest)
                        m.d.sync += [newest[k].eq(oldest), fill[k].eq(0)]
                m.next = "next"
        return m

    def _closes(self, m: Module, batches: list[Any], fill: list[Signal], full: Signal) -> Signal:
        """The row in front of the intake into its stream's batch. The result: which batches take no more rows."""
        sizes, accepted, closes = self.sizes, self.i.payload, Signal(2)
        seen = seen_stamp(m, accepted, sizes.number, self.i.valid & self.i.ready)
        row, takes = Signal(sizes.row), Signal(2)
        stamp(m, row, accepted.row, seen)
        for k, batch in enumerate(batches):
            m.d.comb += [
                closes[k].eq((batch.count == sizes.batch) | (fill[k] + batch.count == sizes.sub_window)),
                takes[k].eq(~closes[k] & ~full.any() & ~batch.clear),
                batch.i.payload.eq(row),
                batch.i.valid.eq(self.i.valid & takes[k] & (accepted.side == k)),
            ]
        m.d.comb += self.i.ready.eq(Mux(accepted.side, takes[1], takes[0]))
        return closes

    def _due(self, m: Module, closes: Signal, full: Signal) -> Signal:
        """Which batch is to go by next, at most one."""
        due, idle = Signal(2), Signal(range(self.wait + 1))
        with m.If((self.i.valid & self.i.ready) | due.any()):
            m.d.sync += idle.eq(0)
        with m.Elif(idle != self.wait):
            m.d.sync += idle.eq(idle + 1)
        wanted = [
            (count != 0) & (closes[k] | full.any() | (idle == self.wait))
            for k, count in enumerate(self.counts)
        ]
        turn = Signal()  # the stream that went by last waits
        m.d.comb += [
            turn.eq(~self.side),
            due[0].eq(wanted[0] & ~(wanted[1] & turn)),
            due[1].eq(wanted[1] & ~(wanted[0] & ~turn)),
        ]
        return due

    def _send(self, m: Module, batches: list[Any], due: Signal) -> None:
        """A batch that was closed, row by row."""
        m.submodules.outgoing = outgoing = Outgoing(self.sizes.row, self.sizes.batch)
        m.submodules.out = out = Buffer(self.sizes.passing)
        wiring.connect(m, out.o, wiring.flipped(self.rows))
        m.d.comb += [
            outgoing.load.eq(batches[0].clear | batches[1].clear),
            outgoing.rows.eq(Mux(due[1], batches[1].rows, batches[0].rows)),
            outgoing.count.eq(Mux(due[1], batches[1].count, batches[0].count)),
            out.i.payload.row.eq(outgoing.o.payload),
            out.i.payload.side.eq(self.side),
            out.i.valid.eq(outgoing.o.valid & ~self.begin),
            outgoing.o.ready.eq(out.i.ready & ~self.begin),
        ]
