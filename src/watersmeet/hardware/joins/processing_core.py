"""The processing core (thesis 5.5, figure 5.5.5): compares a row with the other stream's sub-window, one read a cycle.

What stays true: the row that is taken is compared with exactly the rows that its scan reads, each once, by the operator as it
stood when the row was taken. The last read of a scan and the next row's acceptance fall into one cycle, so a row costs as many
cycles as its sub-window has rows.

The pipeline never stops. A read is issued only if the queue of results has room for it and for all that are under way:

  issue | block RAM gives the row; bounds = probe + operator | both rows registered | one chosen | comparisons | match -> queue

Each stage has one thing to wait for: a read, an addition, a choice or a comparison. Whether a read is the last of its scan is known a
cycle before (``final``), since taking the next word hangs on it.

A first sketch stalled the whole core when a match found no room, and ran at 41 MHz.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Queue
from watersmeet.hardware.joins.rows import result_layout, row_layout

UNDER_WAY = 6  # reads between issue and queue, and one to spare


class ProcessingCore(wiring.Component):
    """``start`` with a row begins a scan; allowed when ``ready``."""

    def __init__(self, share: int, attributes: int, bits: int, ordered: bool) -> None:
        self.share, self.attributes, self.bits, self.ordered = share, attributes, bits, ordered
        self.row = row_layout(attributes, bits)
        self.result = result_layout(attributes, bits, ordered)
        super().__init__(
            {
                "ready": Out(1),
                "start": In(1),
                "new": In(self.row),
                "new_is_s": In(1),
                "count": In(share.bit_length()),  # rows of the other stream's sub-window
                "low": In(signed(bits + 2)).array(attributes),
                "high": In(signed(bits + 2)).array(attributes),
                "negate": In(attributes),
                "at": Out(max(1, (share - 1).bit_length())),
                "read": Out(1),
                "row_r": In(self.row),
                "row_s": In(self.row),
                "o": Out(stream.Signature(self.result)),
            }
        )
        self.queue = Queue(self.result, 16, UNDER_WAY)
        self.scanning, self.probe, self.is_s = Signal(), Signal(self.row), Signal()
        self.watch = {
            "scanning": self.scanning,
            "probe": self.probe.number,
            "is_s": self.is_s,
            "at": self.at,
            "results": self.queue.level,
        }

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.queue = queue = self.queue
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        probe, is_s, scanning = self.probe, self.is_s, self.scanning
        nothing = Signal()  # an empty sub-window, of which only the end is told
        left, final = Signal.like(self.count), Signal()  # reads after this one; whether there are none
        m.d.comb += [
            self.read.eq(scanning & queue.room),
            self.ready.eq(~scanning | (queue.room & final)),
        ]
        with m.If(self.start):
            m.d.sync += [
                probe.eq(self.new),
                is_s.eq(self.new_is_s),
                self.at.eq(0),
                left.eq(self.count - 1),
                final.eq(self.count <= 1),
                nothing.eq(self.count == 0),
                scanning.eq((self.count != 0) | self.ordered),
            ]
        with m.Elif(self.read):
            m.d.sync += [
                self.at.eq(self.at + 1),
                left.eq(left - 1),
                final.eq(left == 1),
                scanning.eq(~final),
            ]
        self._compare(m, final, nothing)
        return m

    def _compare(self, m: Module, final: Signal, nothing: Signal) -> None:
        """The stages behind the issue. A name's number is the stage whose register it is."""
        wide = signed(self.bits + 2)
        flags = Cat(self.is_s, nothing, final)
        valid, rows, notes = [self.read], [self.probe], [flags]
        for k in (1, 2, 3, 4):
            valid.append(Signal(name=f"valid_{k}"))
            rows.append(Signal(self.row, name=f"probe_{k}"))
            notes.append(Signal(3, name=f"flags_{k}"))
            m.d.sync += [valid[k].eq(valid[k - 1]), rows[k].eq(rows[k - 1]), notes[k].eq(notes[k - 1])]
        row_r, row_s, other, found = (Signal(self.row, name=n) for n in ("row_r", "row_s", "other", "found"))
        m.d.sync += [
            row_r.eq(self.row_r),
            row_s.eq(self.row_s),
            other.eq(Mux(notes[2][0], row_r, row_s)),
            found.eq(other),
        ]
        holds = Signal(self.attributes)
        for k in range(self.attributes):
            least = [Signal(wide, name=f"least{k}_{stage}") for stage in (1, 2, 3)]
            most = [Signal(wide, name=f"most{k}_{stage}") for stage in (1, 2, 3)]
            negate = [Signal(name=f"negate{k}_{stage}") for stage in (1, 2, 3, 4)]
            above, below = Signal(name=f"above{k}"), Signal(name=f"below{k}")
            value, low, high = self.probe.values[k], self.low[k], self.high[k]
            m.d.sync += [
                least[0].eq(Mux(self.is_s, value - high, value + low)),
                most[0].eq(Mux(self.is_s, value - low, value + high)),
                negate[0].eq(self.negate[k]),
                above.eq(other.values[k] >= least[2]),
                below.eq(other.values[k] <= most[2]),
            ]
            for behind in (least, most, negate):
                m.d.sync += [after.eq(before) for before, after in pairwise(behind)]
            m.d.comb += holds[k].eq((above & below) ^ negate[3])
        self._emit(m, valid[4], rows[4], notes[4], found, holds.all())

    def _emit(self, m: Module, valid: Signal, probe: Any, flags: Signal, found: Any, holds: Any) -> None:
        queue, match = self.queue, Signal()
        is_s, nothing, final = flags[0], flags[1], flags[2]
        m.d.comb += [
            match.eq(valid & holds & ~nothing),
            queue.row.r.eq(Mux(is_s, found, probe)),
            queue.row.s.eq(Mux(is_s, probe, found)),
            queue.put.eq(match | (valid & final) if self.ordered else match),
        ]
        if self.ordered:
            m.d.comb += [queue.row.found.eq(match), queue.row.ends.eq(final)]
