"""Proofs that a block loses and doubles no row, for all inputs and all handshakes up to a number of cycles.

``Conserves`` puts a block between free handshakes and counts. For each *way* (an input, an output, and the mark that rows of that
input carry, if several share the output) it asserts, in every cycle:

- the n-th row that leaves is the n-th that was taken, for an n that is free (so for every n);
- no more leave than were taken;
- an output that is valid and not taken stays valid with the same row (the rule of streams);
- after ``patience`` cycles without a new row and with all outputs ready, all that were taken have left.

Yosys unrolls the assertions and its SAT solver looks for inputs that break one; there are none, or they are shown.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from watersmeet.hardware.ports import stream_ports
from watersmeet.hardware.simulate.compiled.netlist import text_of
from watersmeet.hardware.tools.yowasp import run

COUNT = 4  # bits of the counters; enough for 15 cycles


@dataclass(frozen=True)
class Way:
    """Rows of input ``source`` leave by output ``sink``; ``mark``: what their lowest bits are, if not free."""

    source: str
    sink: str
    mark: int | None = None


@dataclass(frozen=True)
class Proof:
    """Whether every assertion holds in the first ``cycles`` cycles; if not, what the solver found."""

    holds: bool
    cycles: int
    shown: str = ""


class Conserves(wiring.Component):
    """A block, free inputs, and the assertions."""

    def __init__(self, block: Any, ways: Sequence[Way], patience: int, mark_bits: int = 0) -> None:
        self.block, self.ways, self.patience, self.mark_bits = block, ways, patience, mark_bits
        self.ports = {port.name: port for port in stream_ports(block)}
        free: dict[str, Any] = {}
        for name, port in self.ports.items():
            free |= (
                {f"{name}_valid": In(1), f"{name}_payload": In(port.width)}
                if port.inward
                else {f"{name}_ready": In(1)}
            )
        super().__init__({"which": In(COUNT), **free})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.block = self.block
        first, chosen = Signal(init=1), Signal(COUNT)
        m.d.sync += first.eq(0)
        with m.If(first):
            m.d.sync += chosen.eq(self.which)
        n = Signal(COUNT)
        m.d.comb += n.eq(chosen)
        with m.If(first):
            m.d.comb += n.eq(self.which)
        marks = {way.source: way.mark for way in self.ways}
        quiet = Signal(init=1)
        m.d.comb += quiet.eq(1)
        for name, port in self.ports.items():
            if port.inward:
                m.d.comb += [
                    port.valid.eq(getattr(self, f"{name}_valid")),
                    port.payload.eq(getattr(self, f"{name}_payload")),
                ]
                if marks.get(name) is not None:
                    m.d.comb += port.payload[: self.mark_bits].eq(marks[name])
                with m.If(port.valid):
                    m.d.comb += quiet.eq(0)
            else:
                m.d.comb += port.ready.eq(getattr(self, f"{name}_ready"))
                with m.If(~port.ready):
                    m.d.comb += quiet.eq(0)
                self._steady(m, port)
        still = Signal(range(self.patience + 2))
        m.d.sync += still.eq(0)
        with m.If(quiet):
            m.d.sync += still.eq(still + (still <= self.patience))
        for way in self.ways:
            self._way(m, way, n, still > self.patience)
        return m

    def _steady(self, m: Module, port: Any) -> None:
        waited, before = Signal(name=f"waited_{port.name}"), Signal(port.width, name=f"before_{port.name}")
        m.d.sync += [waited.eq(port.valid & ~port.ready), before.eq(port.payload)]
        with m.If(waited):
            m.d.comb += [Assert(port.valid), Assert(port.payload == before)]

    def _way(self, m: Module, way: Way, n: Signal, drained: Any) -> None:
        source, sink = self.ports[way.source], self.ports[way.sink]
        name = f"{way.source}_{way.sink}"
        came, left = Signal(COUNT, name=f"came_{name}"), Signal(COUNT, name=f"left_{name}")
        held, row = Signal(name=f"held_{name}"), Signal(source.width, name=f"row_{name}")
        with m.If(source.valid & source.ready):
            m.d.sync += came.eq(came + 1)
            with m.If(came == n):
                m.d.sync += [held.eq(1), row.eq(source.payload)]
        mine = sink.valid & sink.ready
        if way.mark is not None:
            mine = mine & (sink.payload[: self.mark_bits] == way.mark)
        with m.If(mine):
            m.d.sync += left.eq(left + 1)
            m.d.comb += Assert(left < came)  # blocks here take at least a cycle
            with m.If(left == n):
                m.d.comb += [Assert(held), Assert(sink.payload == row)]
        with m.If(drained):
            m.d.comb += Assert(left == came)


def prove(
    block: Any,
    ways: Sequence[Way],
    cycles: int = 10,
    patience: int = 6,
    mark_bits: int = 0,
    seconds: float = 3600,
) -> Proof:
    """Looks for handshakes and rows that lose, double or change one within so many cycles."""
    text = text_of(Conserves(block, ways, patience, mark_bits), watch=False)
    script = (
        "read_rtlil top.il\nhierarchy -top top\nproc\nflatten\nmemory\nopt\nchformal -lower\nopt_clean\n"
        f"sat -tempinduct -tempinduct-baseonly -maxsteps {cycles} -prove-asserts -set-def-inputs -set rst 0 -show-inputs\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "top.il").write_text(text.rtlil)
        Path(folder, "prove.ys").write_text(script)
        output = run("yosys", ["-s", "prove.ys"], Path(folder), seconds)
    holds = "Reached maximum number of time steps -> proved base case" in output
    return Proof(holds, cycles, "" if holds else output[-4000:])
