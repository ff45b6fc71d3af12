"""A uni-flow join core (thesis 5.5, figure 5.5.2): fetcher, storage core, processing core, and two sub-windows in block RAM."""

from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.joins.processing_core import ProcessingCore
from watersmeet.hardware.joins.rows import Kind, result_layout, row_layout, word_layout
from watersmeet.hardware.joins.storage_core import StorageCore, decode, orders_layout


class JoinCore(wiring.Component):
    """Words in, results out; both ends are registers (the fetcher and the queue of results)."""

    def __init__(self, share: int, attributes: int = 1, bits: int = 32, ordered: bool = False) -> None:
        self.share, self.attributes, self.bits = share, attributes, bits
        self.word = word_layout(attributes, bits)
        super().__init__(
            {
                "number": In(16),  # a port, so that all cores are one module
                "i": In(stream.Signature(self.word)),
                "o": Out(stream.Signature(result_layout(attributes, bits, ordered))),
            }
        )
        self.fetcher = Buffer(data.StructLayout({"word": self.word, "orders": orders_layout(attributes)}))
        self.storage = StorageCore(share, attributes, bits)
        self.processing = ProcessingCore(share, attributes, bits, ordered)
        self.watch = {
            "waiting": self.fetcher.level,
            "rows_r": self.storage.count_r,
            "rows_s": self.storage.count_s,
            **self.processing.watch,
        }

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.fetcher = fetcher = self.fetcher
        m.submodules.storage = storage = self.storage
        m.submodules.processing = processing = self.processing
        wiring.connect(m, processing.o, wiring.flipped(self.o))
        word = fetcher.o.payload.word
        decode(m, self.i.payload, self.number, fetcher.i.payload.orders, self.attributes)
        m.d.comb += [
            fetcher.i.payload.word.eq(self.i.payload),
            fetcher.i.valid.eq(self.i.valid),
            self.i.ready.eq(fetcher.i.ready),
            storage.word.eq(word),
            storage.orders.eq(fetcher.o.payload.orders),
            storage.taken.eq(fetcher.o.valid & processing.ready),
            fetcher.o.ready.eq(processing.ready),
            processing.start.eq(storage.taken & (word.kind != Kind.OPERATOR)),
            processing.new.eq(word.row),
            processing.new_is_s.eq(word.kind == Kind.S),
            processing.count.eq(Mux(word.kind == Kind.S, storage.count_r, storage.count_s)),
            processing.negate.eq(storage.negate),
        ]
        for k in range(self.attributes):
            m.d.comb += [processing.low[k].eq(storage.low[k]), processing.high[k].eq(storage.high[k])]
        for side, found in enumerate((processing.row_r, processing.row_s)):
            window = Memory(shape=row_layout(self.attributes, self.bits), depth=self.share, init=[])
            m.submodules[f"window_{'rs'[side]}"] = window
            write, read = window.write_port(), window.read_port()
            m.d.comb += [
                write.addr.eq(storage.at),
                write.data.eq(storage.row),
                write.en.eq(storage.write[side]),
                read.addr.eq(processing.at),
                read.en.eq(processing.read),
                found.eq(read.data),
            ]
        return m
