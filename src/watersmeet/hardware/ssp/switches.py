"""The switches of SCNoC (thesis 7.2.4, figure 7.2.3): tables of streams that say by which ways out a row goes on.

What stays true: a switch gives each row to every way in its table's mask once, to no other, all words of a row or instruction without
another's between them, and what comes by one way in keeps its order. A stream that is not in the table goes nowhere. Instructions go by
all ways; of a GSwitch-L with two ways in only those of the first count, as both bring the same.

The thesis counts segments in the table of a GSwitch-L to know where a row ends; here the last word is marked (``words.py``), so a tick can
be shorter than a row. ``seg-count`` is in the program for who reads it.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.encoded import HEAD
from watersmeet.hardware.ssp.gather import connected
from watersmeet.hardware.ssp.reading import INST
from watersmeet.hardware.ssp.words import WORD


class Table:
    """A mask a stream. ``learn`` and ``learn_mask`` write, ``mask`` is that of ``stream``."""

    def __init__(self, m: Module, streams: int, ways: int, stream_id: Value) -> None:
        self.masks = Signal(streams * ways)
        self.mask = Signal(ways)
        self.learn, self.learned, self.learn_mask = Signal(), Signal(12), Signal(ways)
        m.d.comb += self.mask.eq(Mux(stream_id < streams, self.masks.word_select(stream_id, ways), 0))
        with m.If(self.learn):
            for k in range(streams):
                with m.If(self.learned == k):
                    m.d.sync += self.masks[k * ways : (k + 1) * ways].eq(self.learn_mask)


class Masked:
    """Reads a switch's own instruction of three words: head, a chunk that announces the mask, the mask."""

    def __init__(self, m: Module, inst: str, b_id: int, word: Any, taken: Value, table: Table) -> None:
        begins, mine, at, learned = Signal(init=1), Signal(), Signal(2), Signal(12)
        head = HEAD(word.payload)
        with m.If(taken):
            m.d.sync += begins.eq(word.last)
            with m.If(word.q & begins):
                m.d.sync += [
                    mine.eq((head.b_id == b_id) & (head.inst == INST[inst])),
                    learned.eq(head.stream),
                    at.eq(1),
                ]
            with m.Elif(word.q & (at != 3)):
                m.d.sync += at.eq(at + 1)
        m.d.comb += [
            table.learned.eq(learned),
            table.learn_mask.eq(word.payload),
            table.learn.eq(taken & word.q & ~begins & mine & (at == 2)),
        ]
        self.begins = begins


class GSwitchL(wiring.Component):
    """``inputs`` of north and west, ``outputs`` of south and east; those that have no wire are left out."""

    def __init__(
        self, b_id: int, streams: int, inputs: Sequence[str] = ("north",), outputs: Sequence[str] = ("south",)
    ) -> None:
        if not inputs or not outputs:
            raise OptionError(f"a GSwitch-L must have a way in and a way out; got {inputs!r} and {outputs!r}")
        self.b_id, self.streams = b_id, streams
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        super().__init__(
            {
                **{name: In(stream.Signature(WORD)) for name in self.inputs},
                **{name: Out(stream.Signature(WORD)) for name in self.outputs},
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        ways = ("south", "east")
        sources, sinks = [], []
        for name in self.inputs:
            m.submodules[f"from_{name}"] = buffer = Buffer(WORD)
            connected(m, getattr(self, name), buffer.i)
            sources.append(buffer.o)
        for name in self.outputs:
            m.submodules[f"to_{name}"] = buffer = Buffer(WORD)
            connected(m, buffer.o, getattr(self, name))
            sinks.append(buffer.i)
        wired = sum(1 << ways.index(name) for name in self.outputs)

        turn, locked, begins = Signal(range(len(sources))), Signal(), Signal(init=1)
        chosen = Signal(range(len(sources)))
        m.d.comb += chosen.eq(turn)
        if len(sources) == 2:  # between rows, whoever has one; if both have, in turn
            with m.If(~locked & ~Array(source.valid for source in sources)[turn]):
                m.d.comb += chosen.eq(~turn)
        word = Signal(WORD)
        valid, ready = Signal(), Signal()
        m.d.comb += [
            word.eq(Array(Value.cast(source.payload) for source in sources)[chosen]),
            valid.eq(Array(source.valid for source in sources)[chosen]),
        ]
        table = Table(m, self.streams, 2, word.stream)
        held, mask, taken = Signal(2), Signal(2), Signal(2)
        echo = word.q & (chosen != 0)  # instructions that come a second time
        m.d.comb += mask.eq(Mux(begins, Mux(word.q, Mux(echo, 0, wired), table.mask & wired), held))
        took = Signal(2)
        for name, sink in zip(self.outputs, sinks, strict=True):
            at = ways.index(name)
            m.d.comb += [
                Value.cast(sink.payload).eq(Value.cast(word)),
                sink.valid.eq(valid & mask[at] & ~taken[at]),
                took[at].eq(taken[at] | (mask[at] & sink.ready)),
            ]
        m.d.comb += ready.eq(took == mask)
        head = HEAD(word.payload)
        m.d.comb += [
            table.learned.eq(head.stream),
            table.learn_mask.eq(head.port),
            table.learn.eq(
                valid
                & ready
                & word.q
                & begins
                & ~echo
                & (head.b_id == self.b_id)
                & (head.inst == INST["gswitch_l"])
            ),
        ]
        for k, source in enumerate(sources):
            m.d.comb += source.ready.eq(ready & (chosen == k))
        with m.If(valid):
            m.d.sync += [taken.eq(Mux(ready, 0, took)), turn.eq(chosen), locked.eq(1)]
            with m.If(ready):
                m.d.sync += [begins.eq(word.last), held.eq(mask), locked.eq(~word.last)]
                with m.If(word.last):
                    m.d.sync += turn.eq(~chosen if len(sources) == 2 else 0)
        return m


class GSwitchD(wiring.Component):
    """One way in, many ways out, and one circular buffer that all ways read (figure 7.2.3b): each has a place of its own in it, so a way
    that is slow holds nobody up before the buffer is full.
    """

    def __init__(self, b_id: int, streams: int, ways: int, depth: int = 16) -> None:
        if depth < 2 or depth & (depth - 1):
            raise OptionError(f"depth of a GSwitch-D must be a power of two, at least 2; got {depth}")
        self.b_id, self.streams, self.ways, self.depth = b_id, streams, ways, depth
        super().__init__({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(WORD)).array(ways)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.source = source = Buffer(WORD)
        connected(m, self.i, source.i)
        word = source.o.payload
        table = Table(m, self.streams, self.ways, word.stream)
        entry = data.StructLayout({"word": WORD, "mask": self.ways})
        m.submodules.buffer = memory = Memory(shape=entry, depth=self.depth, init=[])
        write = memory.write_port()
        bits = self.depth.bit_length()
        tail = Signal(bits)
        full = Signal(self.ways)
        taken, held, mask = Signal(), Signal(self.ways), Signal(self.ways)
        own = Masked(m, "gswitch_d", self.b_id, word, taken, table)
        everyone = (1 << self.ways) - 1
        m.d.comb += [
            source.o.ready.eq(full == 0),
            taken.eq(source.o.valid & source.o.ready),
            mask.eq(Mux(own.begins, Mux(word.q, everyone, table.mask), held)),
            write.en.eq(taken & (mask != 0)),
            write.addr.eq(tail),
            write.data.word.eq(word),
            write.data.mask.eq(mask),
        ]
        with m.If(taken):
            m.d.sync += held.eq(mask)
            with m.If(mask != 0):
                m.d.sync += tail.eq(tail + 1)
        for k in range(self.ways):
            m.submodules[f"to_{k}"] = out = Buffer(WORD)
            connected(m, out.o, self.o[k])
            read = memory.read_port()
            at, there = Signal(bits, name=f"at_{k}"), Signal(name=f"there_{k}")  # there: data of at - 1
            free = Signal(name=f"free_{k}")
            m.d.comb += [
                full[k].eq((tail - at)[:bits] >= self.depth - 1),
                free.eq(~there | ~read.data.mask[k] | out.i.ready),
                read.addr.eq(at),
                read.en.eq(free),
                out.i.valid.eq(there & read.data.mask[k]),
                Value.cast(out.i.payload).eq(Value.cast(read.data.word)),
            ]
            with m.If(free):
                m.d.sync += there.eq(at != tail)
                with m.If(at != tail):
                    m.d.sync += at.eq(at + 1)
        return m
