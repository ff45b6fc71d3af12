"""Proofs that a block loses and doubles no row, for all inputs and all handshakes up to a number of cycles.

``Conserves`` puts a block between free handshakes and counts. For each *way* (an input, an output, and which rows of the one leave by
the other) it asserts, in every cycle:

- the n-th row that leaves is the n-th that was taken, for an n that is free (so for every n);
- no more leave than were taken;
- an output that is valid and not taken stays valid with the same row (the rule of streams);
- after ``patience`` cycles without a new row and with all outputs ready, all that were taken have left;
- while all inputs are valid and all outputs ready, something is taken within ``patience`` cycles.

What a block promises beyond that (which output a row goes to, in which order inputs are taken) is a *spec*: a function that is given the
module and the block's ports, and gives the ways. It may add registers that follow what the block has been told, assertions of its own, and
assignments to inputs that narrow what comes, which win over the free ones.

Yosys unrolls the assertions and its SAT solver looks for inputs that break one; there are none, or they are shown.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.hdl import Assert, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from watersmeet.errors import WatersmeetError
from watersmeet.hardware.ports import Port, stream_ports
from watersmeet.hardware.simulate.compiled.netlist import text_of
from watersmeet.hardware.tools.yowasp import run

COUNT = 4  # bits of the counters; enough for 15 cycles


@dataclass(frozen=True, eq=False)
class Way:
    """Rows of input ``source`` leave by output ``sink``; ``mark``: what their lowest bits are, if several inputs share the output.

    Of the row that ``source`` offers, ``goes``: whether it must leave by ``sink`` (always), ``becomes``: as what (as it came). Of the one
    that ``sink`` offers, ``counts``: whether it is one of these (by its mark), ``seen``: what must be what it ``becomes`` (all of it).
    """

    source: str
    sink: str
    mark: int | None = None
    goes: Any = 1
    becomes: Any = None
    counts: Any = 1
    seen: Any = None


Spec = Callable[[Module, Mapping[str, Port]], Sequence[Way]]


@dataclass(frozen=True)
class Proof:
    """Whether every assertion holds in the first ``cycles`` cycles; if not, what the solver found."""

    holds: bool
    cycles: int
    shown: str = ""


class Conserves(wiring.Component):
    """A block, free inputs, and the assertions."""

    def __init__(self, block: Any, ways: Sequence[Way] | Spec, patience: int, mark_bits: int = 0) -> None:
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
        for name, port in self.ports.items():
            if port.inward:
                m.d.comb += [
                    port.valid.eq(getattr(self, f"{name}_valid")),
                    port.payload.eq(getattr(self, f"{name}_payload")),
                ]
            else:
                m.d.comb += port.ready.eq(getattr(self, f"{name}_ready"))
                self._steady(m, port)
        ways = self.ways(m, self.ports) if callable(self.ways) else self.ways
        for source, mark in {way.source: way.mark for way in ways if way.mark is not None}.items():
            m.d.comb += self.ports[source].payload[: self.mark_bits].eq(mark)
        drained = self._lively(m)
        for way in ways:
            self._way(m, way, n, drained)
        return m

    def _lively(self, m: Module) -> Any:
        """Whether all that was taken must have left; and that a block which could take something does."""
        inputs = [port for port in self.ports.values() if port.inward]
        outputs = [port for port in self.ports.values() if not port.inward]
        free, offered, came, took = Signal(), Signal(), Signal(), Signal()
        for every, some in (
            (free, [port.ready for port in outputs]),
            (offered, [port.valid for port in inputs]),
        ):
            m.d.comb += every.eq(1)
            for one in some:
                with m.If(~one):
                    m.d.comb += every.eq(0)
        for port in inputs:
            with m.If(port.valid):
                m.d.comb += came.eq(1)
                with m.If(port.ready):
                    m.d.comb += took.eq(1)
        still, stuck = Signal(range(self.patience + 2)), Signal(range(self.patience + 2))
        for count, goes_on in ((still, free & ~came), (stuck, free & offered & ~took)):
            m.d.sync += count.eq(0)
            with m.If(goes_on):
                m.d.sync += count.eq(count + (count <= self.patience))
        m.d.comb += Assert(stuck <= self.patience)
        return still > self.patience

    def _steady(self, m: Module, port: Port) -> None:
        waited, before = Signal(name=f"waited_{port.name}"), Signal(port.width, name=f"before_{port.name}")
        m.d.sync += [waited.eq(port.valid & ~port.ready), before.eq(port.payload)]
        with m.If(waited):
            m.d.comb += [Assert(port.valid), Assert(port.payload == before)]

    def _way(self, m: Module, way: Way, n: Signal, drained: Any) -> None:
        source, sink = self.ports[way.source], self.ports[way.sink]
        name = f"{way.source}_{way.sink}"
        becomes = Value.cast(source.payload if way.becomes is None else way.becomes)
        came, left = Signal(COUNT, name=f"came_{name}"), Signal(COUNT, name=f"left_{name}")
        held, row = Signal(name=f"held_{name}"), Signal(len(becomes), name=f"row_{name}")
        with m.If(source.valid & source.ready & way.goes):
            m.d.sync += came.eq(came + 1)
            with m.If(came == n):
                m.d.sync += [held.eq(1), row.eq(becomes)]
        mine = sink.valid & sink.ready & way.counts
        if way.mark is not None:
            mine = mine & (sink.payload[: self.mark_bits] == way.mark)
        with m.If(mine):
            m.d.sync += left.eq(left + 1)
            m.d.comb += Assert(left < came)  # blocks here take at least a cycle
            with m.If(left == n):
                seen = sink.payload if way.seen is None else way.seen
                m.d.comb += [Assert(held), Assert(seen == row)]
        with m.If(drained):
            m.d.comb += Assert(left == came)


def obeys(m: Module, port: Port) -> None:
    """A free input keeps the rule of streams too: what it offers stays until it is taken."""
    waited, before = Signal(name=f"kept_{port.name}"), Signal(port.width, name=f"offered_{port.name}")
    m.d.sync += [waited.eq(port.valid & ~port.ready), before.eq(port.payload)]
    with m.If(waited):
        m.d.comb += [port.valid.eq(1), port.payload.eq(before)]


def prove(
    block: Any,
    ways: Sequence[Way] | Spec,
    cycles: int = 10,
    patience: int = 6,
    mark_bits: int = 0,
    seconds: float = 3600,
) -> Proof:
    """Looks for handshakes and rows that lose, double or change one within so many cycles."""
    text = text_of(Conserves(block, ways, patience, mark_bits), watch=False)
    # Every register has a first value and every input is 0 or 1, so nothing is undefined, and the solver need not reckon with it.
    script = (
        "read_rtlil top.il\nhierarchy -top top\nproc\nflatten\nmemory\nopt\nchformal -lower\nopt_clean\n"
        f"sat -tempinduct -tempinduct-baseonly -maxsteps {cycles} -prove-asserts -set rst 0 -show-inputs\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "top.il").write_text(text.rtlil)
        Path(folder, "prove.ys").write_text(script)
        output = run("yosys", ["-s", "prove.ys"], Path(folder), seconds)
    holds = "Reached maximum number of time steps -> proved base case" in output
    if not holds and "model found for base case: FAIL" not in output:
        raise WatersmeetError(f"yosys must prove or refute; got neither: {output.strip()[-1500:]}")
    return Proof(holds, cycles, "" if holds else output[-4000:])
