"""A whole simplex stream processor, built from a fabric's topology (thesis 7.1, figures 7.1.7, 7.2.1).

What stays true: each component of the topology is a component here, with its B-ID, and each wire is a stream; so what programs the fabric
programs this. Entries are input streams of words, exits output streams; what leaves is rows only, as instructions, ticks and the end of
all streams have done their work.

Decomposer and composer are on the host's side, as in the thesis's prototype ("our parser"); where a topology has them, words pass.
"""

from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import FabricError
from watersmeet.fabric import components
from watersmeet.fabric.components import Unit
from watersmeet.fabric.topology import Topology
from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.ssp.aggregation import Aggregation
from watersmeet.hardware.ssp.brick import Brick, Bypass
from watersmeet.hardware.ssp.gather import connected
from watersmeet.hardware.ssp.join import Join
from watersmeet.hardware.ssp.order_by import OrderBy
from watersmeet.hardware.ssp.riders import Sieve
from watersmeet.hardware.ssp.sizes import Sizes
from watersmeet.hardware.ssp.switches import GSwitchD, GSwitchL
from watersmeet.hardware.ssp.synchroniser import Synchroniser
from watersmeet.hardware.ssp.words import ENDED, WORD


class Leaving(wiring.Component):
    """Lets rows pass, and nothing else; a fault passes too."""

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(WORD))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.out = out = Buffer(WORD)
        connected(m, out.o, self.o)
        word = self.i.payload
        begins, held, drops = Signal(init=1), Signal(), Signal()
        m.d.comb += drops.eq(held)
        with m.If(begins):
            m.d.comb += drops.eq(word.q | (~word.s & (word.tick | (word.stream == ENDED))))
        m.d.comb += [
            Value.cast(out.i.payload).eq(Value.cast(word)),
            out.i.valid.eq(self.i.valid & ~drops),
            self.i.ready.eq(drops | out.i.ready),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [begins.eq(word.last), held.eq(drops)]
        return m


class SSP(wiring.Component):
    """The hardware of a topology of entries, GSwitches, bricks and exits."""

    def __init__(self, topology: Topology, sizes: Sizes) -> None:
        self.topology, self.sizes = topology, sizes
        self.wired = {link.source for link in topology.links} | {link.target for link in topology.links}
        signature: dict[str, Any] = {}
        self.parts: dict[str, Any] = {}
        self.watch: dict[str, Signal] = {}
        for one in topology.components:
            if isinstance(one, components.Entry):
                signature[one.name] = In(stream.Signature(WORD))
            elif isinstance(one, components.Exit):
                signature[one.name] = Out(stream.Signature(WORD))
                self.parts[one.name] = Leaving()
            else:
                self.parts[one.name] = self._part(one)
        super().__init__(signature)

    def _part(self, one: components.Component) -> Any:
        ids, sizes = self.topology.block_ids, self.sizes
        if isinstance(one, components.GSwitchL):
            ways_in = [port for port in one.inputs if f"{one.name}.{port}" in self.wired]
            ways_out = [port for port in one.outputs if f"{one.name}.{port}" in self.wired]
            return GSwitchL(ids[one.name], sizes.streams, ways_in, ways_out)
        if isinstance(one, components.GSwitchD):
            return GSwitchD(ids[one.name], sizes.streams, one.fan_out)
        if isinstance(one, components.Decomposer | components.Composer):
            return Buffer(WORD)
        if isinstance(one, components.Brick):
            units = [(unit.name, self._unit(f"{one.name}.{unit.name}", unit)) for unit in one.units]
            bypass = next(k for k, unit in enumerate(one.units) if unit.kind == "bypass")
            return Brick(ids[one.name], sizes.streams, units, bypass)
        raise FabricError(
            f"hardware of an SSP must be made of entries, GSwitches, bricks and exits"
            f"; got {one.name}, {one.kind}; use a fabric such as Fabric.ssp"
        )

    def _unit(self, place: str, unit: Unit) -> Any:
        sizes = self.sizes
        if unit.kind == "bypass":
            return Bypass()
        b_id, slots = self.topology.block_ids[place], sizes.slots(unit)
        made: Any
        if unit.kind in ("selection", "projection"):
            made = Sieve(b_id, sizes.result, slots, unit.kind == "projection")
        elif unit.kind in ("join", "op_block"):
            ways = unit.ways if unit.kind == "join" else 2
            made = Join(
                b_id,
                ways,
                max(1, unit.window),
                sizes.table,
                sizes.row,
                sizes.result,
                sizes.terms,
                slots,
                unit.kind == "op_block",
            )
        elif unit.kind == "aggregation":
            made = Aggregation(
                b_id, sizes.result, sizes.key, sizes.aggregates, sizes.steps, sizes.groups, slots
            )
        elif unit.kind == "synchroniser":
            made = Synchroniser(b_id, sizes.result, depth=sizes.skew)
        elif unit.kind == "order_by":
            made = OrderBy(b_id, max(1, unit.window), sizes.wide, sizes.sort_keys, slots)
        else:
            raise FabricError(
                f"a unit in hardware must be a bypass, selection, projection, join, aggregation, order_by, op_block or synchroniser"
                f"; got {place}, {unit.kind}"
            )
        for name, signal in getattr(made, "watch", {}).items():
            self.watch[f"{place.replace('.', '_')}_{name}"] = signal
        return made

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for name, part in self.parts.items():
            m.submodules[name] = part
        for link in self.topology.links:
            source, target = self._end(link.source), self._end(link.target)
            if source is not None and target is not None:
                connected(m, source, target)
        for one in self.topology.components:
            if isinstance(one, components.Exit):
                connected(m, self.parts[one.name].o, getattr(self, one.name))
        return m

    def wires(self) -> dict[str, Any]:
        """By link of the topology, as ``source>target``, the stream that it is; without what the host does."""
        found = {f"{link.source}>{link.target}": self._end(link.source) for link in self.topology.links}
        return {name: one for name, one in found.items() if one is not None}

    def _end(self, end: str) -> Any:
        """A port of the topology as a stream; None: what the host does."""
        name, port = end.rsplit(".", 1)
        component = self.topology.named[name]
        if isinstance(component, components.Entry):
            return getattr(self, name)
        part = self.parts[name]
        if port == "detached":
            return None
        if isinstance(component, components.GSwitchL):
            return getattr(part, port)
        if isinstance(component, components.GSwitchD):
            return part.i if port == "in" else part.o[int(port.removeprefix("out")) - 1]
        return part.i if port == "in" else part.o
