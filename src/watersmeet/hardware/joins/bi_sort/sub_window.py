"""A sub-window as a worker keeps it: main array, index, a merger, two probers and a lister (panjoin.txt IV, Figure 7).

All rows of a batch come by in falling order of their keys. To a sub-window of their own stream they are to be merged, if it is the
newest, or nothing; to those of the other stream they are probes, whose bounds are made on the way (the boundary generator). What
stays true: it is busy from ``begin`` until as many rows as ``count`` said have been dealt with and their results have left, and in
that time only one of the two happens to the array, so one read port serves merger and lister. Keys are kept a second time, for the
two probers.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer, Fork
from watersmeet.hardware.joins.bi_sort.lister import PairLister, RangeLister, range_layout
from watersmeet.hardware.joins.bi_sort.merger import Indexer, Merger, entries
from watersmeet.hardware.joins.bi_sort.prober import Prober, lower_bound, upper_bound
from watersmeet.hardware.joins.stamped import pair_layout, row_layout, stamped_layout


@dataclass(frozen=True)
class Sizes:
    """What all parts of one BI-Sort join agree on."""

    key: int
    number: int
    windows: tuple[int, int]
    sub_window: int
    batch: int
    partition: int
    below: int
    above: int
    ranges: int

    @property
    def units(self) -> tuple[int, int]:
        """Sub-windows a stream: those that a window fills, and one to fill."""
        left, right = (-(-window // self.sub_window) + 1 for window in self.windows)
        return left, right

    @property
    def row(self) -> data.StructLayout:
        """A row with what it may see."""
        return stamped_layout(row_layout(self.key, self.number))

    @property
    def passing(self) -> data.StructLayout:
        """A row of a batch on its way to the sub-windows."""
        return data.StructLayout({"row": self.row, "side": 1})

    @property
    def result(self) -> data.StructLayout:
        """A pair, or the record of a range."""
        if self.ranges:
            return range_layout(self.number, self.sub_window, max(self.units))
        return pair_layout(self.number)


class SubWindow(wiring.Component):
    """``right``: whether its rows are of the right stream."""

    def __init__(self, sizes: Sizes, right: int) -> None:
        self.sizes, self.right = sizes, right
        super().__init__(
            {
                "begin": In(1),
                "side": In(1),  # of the batch
                "count": In(range(sizes.batch + 1)),
                "batch": In(16),  # its number, for records of ranges
                "unit": In(range(max(sizes.units))),
                "newest": In(1),
                "clear": In(1),
                "rows": In(stream.Signature(sizes.passing)),
                "results": Out(stream.Signature(sizes.result)),
                "busy": Out(1),
            }
        )
        self.size = Signal(range(sizes.sub_window + 1))
        self.watch = {"size": self.size, "busy": self.busy}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        sizes, capacity = self.sizes, self.sizes.sub_window
        m.submodules.merger = merger = Merger(sizes.row, capacity, sizes.batch)
        m.submodules.indexer = indexer = Indexer(capacity, sizes.partition)
        m.submodules.fork = fork = Fork(sizes.row, 3)
        m.submodules.waiting = waiting = Buffer(sizes.row)
        lister = self._lister(m)
        probers = []
        for upper in (False, True):
            prober = Prober(sizes.key, capacity, sizes.partition, upper)
            m.submodules["upper" if upper else "lower"] = prober
            probers.append(prober)
        self._distribute(m, merger, fork)
        self._bounds(m, fork, probers)
        wiring.connect(m, fork.o[2], waiting.i)
        wiring.connect(m, waiting.o, lister.rows)
        wiring.connect(m, probers[0].o, lister.starts)
        wiring.connect(m, probers[1].o, lister.ends)
        wiring.connect(m, lister.o, wiring.flipped(self.results))
        self._memories(m, merger, indexer, probers, lister)

        mine, todo = Signal(), Signal(range(sizes.batch + 1))
        m.d.comb += [
            mine.eq(self.side == self.right),
            merger.begin.eq(self.begin & mine & self.newest),
            merger.size.eq(self.size),
            merger.count.eq(self.count),
            self.busy.eq(merger.busy | (todo != 0)),
        ]
        for prober in probers:
            m.d.comb += [prober.begin.eq(self.begin & ~mine), prober.size.eq(self.size)]
        with m.If(self.begin & ~mine):
            m.d.sync += todo.eq(self.count)
        with m.Elif(lister.leaves):
            m.d.sync += todo.eq(todo - 1)
        with m.If(self.clear):
            m.d.sync += self.size.eq(0)
        with m.Elif(merger.begin):
            m.d.sync += self.size.eq(self.size + self.count)
        return m

    def _lister(self, m: Module) -> Any:
        sizes = self.sizes
        lister: PairLister | RangeLister
        if sizes.ranges:
            lister = RangeLister(sizes.row, sizes.sub_window, max(sizes.units), self.right)
            m.d.comb += [lister.batch.eq(self.batch), lister.unit.eq(self.unit)]
        else:
            lister = PairLister(sizes.row, sizes.sub_window, sizes.windows, self.right)
        m.submodules.lister = lister
        return lister

    def _distribute(self, m: Module, merger: Any, fork: Any) -> None:
        """Rows of the own stream to the merger, or away; those of the other one to the probers."""
        m.submodules.entry = entry = Buffer(self.sizes.passing)
        wiring.connect(m, wiring.flipped(self.rows), entry.i)
        passing, own = entry.o.payload, Signal()
        m.d.comb += [
            own.eq(passing.side == self.right),
            merger.i.payload.eq(passing.row),
            merger.i.valid.eq(entry.o.valid & own),
            fork.i.payload.eq(passing.row),
            fork.i.valid.eq(entry.o.valid & ~own),
            entry.o.ready.eq(Mux(own, merger.i.ready | ~self.newest, fork.i.ready)),
        ]

    def _bounds(self, m: Module, fork: Any, probers: list[Any]) -> None:
        """-below <= right - left <= above, seen from the probing row."""
        sizes, most = self.sizes, (1 << self.sizes.key) - 1
        down, up = (sizes.below, sizes.above) if self.right else (sizes.above, sizes.below)
        bounds = (
            lower_bound(fork.o[0].payload.key, down),
            upper_bound(fork.o[1].payload.key, up, most),
        )
        for out, prober, bound in zip(fork.o, probers, bounds, strict=False):
            m.d.comb += [
                prober.i.payload.eq(bound),
                prober.i.valid.eq(out.valid),
                out.ready.eq(prober.i.ready),
            ]

    def _memories(self, m: Module, merger: Any, indexer: Any, probers: list[Any], lister: Any) -> None:
        sizes = self.sizes
        m.submodules.main = main = Memory(shape=sizes.row, depth=sizes.sub_window, init=[])
        keys = Memory(shape=unsigned(sizes.key), depth=sizes.sub_window, init=[])
        depth = entries(sizes.sub_window, sizes.partition)
        index = Memory(shape=unsigned(sizes.key), depth=depth, init=[])
        m.submodules.keys, m.submodules.index = keys, index
        place, row = merger.write_place, merger.write_row
        for memory, value in ((main, row), (keys, row.key)):
            port = memory.write_port()
            m.d.comb += [port.addr.eq(place), port.data.eq(value), port.en.eq(merger.write)]
        m.d.comb += [indexer.writes.eq(merger.write), indexer.place.eq(place)]
        indexed = index.write_port()
        m.d.comb += [
            indexed.addr.eq(indexer.entry),
            indexed.data.eq(row.key),
            indexed.en.eq(indexer.write),
        ]
        read = main.read_port()
        m.d.comb += [read.addr.eq(merger.read_place), merger.read_row.eq(read.data)]
        if not sizes.ranges:
            m.d.comb += lister.row.eq(read.data)
            with m.If(~merger.busy):
                m.d.comb += read.addr.eq(lister.place)
        for prober in probers:
            of_keys, of_index = keys.read_port(), index.read_port()
            m.d.comb += [
                of_keys.addr.eq(prober.place),
                prober.row.eq(of_keys.data),
                of_index.addr.eq(prober.entry),
                prober.first.eq(of_index.data),
            ]
