"""FQP: a fabric of OP-Blocks as hardware, wired as its topology says (thesis 4.2: OP-Chain, partially parallel FQP).

What stays true: the design is made from the topology alone; what it computes is programmed. A wire between two blocks has a queue, so that
what one block gives to a lane waits for no other row in the block behind (``running.py`` keeps as much on its way as the queues hold).
"""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.fabric import components as parts
from watersmeet.fabric.topology import Topology, split
from watersmeet.hardware.blocks import Fifo, Shared
from watersmeet.hardware.fqp.dealer import Dealer
from watersmeet.hardware.fqp.op_block import OpBlock
from watersmeet.hardware.fqp.result_buffer import ResultBuffer
from watersmeet.hardware.fqp.switch import SwitchD
from watersmeet.hardware.fqp.words import WORD

KINDS = (parts.Entry, parts.Exit, parts.OpBlock, parts.ResultBuffer, parts.GSwitchD)


def lanes_of(topology: Topology) -> dict[str, str]:
    """The lane that each entry leads to, by its name. Refused: what is not FQP, or has more than an entry a lane."""
    for one in topology.components:
        if not isinstance(one, KINDS):
            raise OptionError(
                f"a fabric for FQP must be made of entries, OP-Blocks, result buffers, gswitch_d and exits; got {one.name!r}, a"
                f" {one.kind}; use Fabric.op_chain or Fabric.parallel_fqp"
            )
    exits = [one for one in topology.components if isinstance(one, parts.Exit)]
    found = {
        one.name: _lane(topology, f"{one.name}.out")
        for one in topology.components
        if isinstance(one, parts.Entry)
    }
    if sorted(found.values()) not in (["s"], ["r", "s"]) or len(exits) != 1:
        raise OptionError(
            f"a fabric for FQP must have one exit and an entry for each lane, at least for S, by which instructions come; got"
            f" {len(exits)} exits and entries {found}"
        )
    return found


def _lane(topology: Topology, out: str) -> str:
    target = topology.after.get(out, "")
    name, port = split(target)
    if port in ("r_in", "s_in"):
        return port[0]
    return _lane(topology, f"{name}.out1") if isinstance(topology.named.get(name), parts.GSwitchD) else ""


class Fqp(wiring.Component):
    """Words of rows and instructions in by ``chunks``, results out by ``results``. ``queue``: words between two blocks;
    ``streams``: that a switch knows.

    ``watch``: which blocks are busy, how full the queues are, and whether the dealer waits.
    """

    def __init__(
        self,
        topology: Topology,
        operators: int = 4,
        terms: int = 8,
        attributes: int = 16,
        columns: int = 4,
        queue: int = 32,
        streams: int = 8,
    ) -> None:
        self.topology, self.queue, self.sizes = topology, queue, (operators, terms, attributes, columns)
        self.lanes = lanes_of(topology)
        super().__init__({"chunks": In(stream.Signature(WORD)), "results": Out(stream.Signature(WORD))})
        self.dealer = Dealer()
        self.parts: dict[str, Any] = {}
        for one in topology.components:
            if isinstance(one, parts.OpBlock):
                self.parts[one.name] = Shared(OpBlock, one.window, *self.sizes)
            elif isinstance(one, parts.GSwitchD):
                self.parts[one.name] = SwitchD(one.fan_out, streams)
            elif isinstance(one, parts.ResultBuffer):
                self.parts[one.name] = ResultBuffer(one.fan_in)
        self.watch = {
            f"{name}_busy": part.busy
            for name, part in self.parts.items()
            if not isinstance(part, ResultBuffer)
        } | {"waits": self.dealer.waits}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.dealer = self.dealer
        wiring.connect(m, wiring.flipped(self.chunks), self.dealer.i)
        moving = []
        for name, part in self.parts.items():
            m.submodules[name] = part
            if not isinstance(part, ResultBuffer):
                m.d.comb += part.number.eq(self.topology.block_ids[name])
                moving.append(part.busy)
        for at, link in enumerate(self.topology.links):
            source, target = self._port(link.source), self._port(link.target)
            if target is None:
                wiring.connect(m, source, wiring.flipped(self.results))
            elif all(
                isinstance(self.topology.named[split(end)[0]], parts.OpBlock)
                for end in (link.source, link.target)
            ):
                m.submodules[f"queue_{at}"] = queue = Shared(Queue, self.queue)
                wiring.connect(m, source, queue.i)
                wiring.connect(m, queue.o, target)
                moving.append(queue.busy)
            else:
                wiring.connect(m, source, target)
        self._ends(m)
        busy = Signal()
        m.d.sync += busy.eq(Cat(*moving).any())
        m.d.comb += self.dealer.busy.eq(busy)
        return m

    def wires(self) -> dict[str, Any]:
        """By link of the topology, as ``source>target``, the stream that it is."""
        found = {f"{link.source}>{link.target}": self._port(link.source) for link in self.topology.links}
        return {name: one for name, one in found.items() if one is not None}

    def _port(self, end: str) -> Any:
        """The stream of a port; None for the exit, which is the component's own."""
        name, port = split(end)
        component = self.topology.named[name]
        if isinstance(component, parts.Exit):
            return None
        if isinstance(component, parts.Entry):
            return self.dealer.r if self.lanes[name] == "r" else self.dealer.s
        part = self.parts[name]
        if isinstance(component, parts.OpBlock):
            return getattr(part, port)
        ports = component.inputs if port in component.inputs else component.outputs
        if len(ports) == 1 and port in ("in", "out"):
            return part.i if port == "in" else part.o
        return (part.i if port in component.inputs else part.o)[list(ports).index(port)]

    def _ends(self, m: Module) -> None:
        """Ports without a wire: what leaves there is gone, nothing comes."""
        wired = {end for link in self.topology.links for end in (link.source, link.target)}
        for name in self.parts:
            for port in self.topology.named[name].outputs:
                if f"{name}.{port}" not in wired:
                    m.d.comb += self._port(f"{name}.{port}").ready.eq(1)
        if "r" not in self.lanes.values():
            m.d.comb += self.dealer.r.ready.eq(1)


class Queue(wiring.Component):
    """A queue between two blocks, which says, a cycle late as blocks do, whether something is in it."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        super().__init__({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(WORD)), "busy": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.words = words = Fifo(WORD, self.depth)
        wiring.connect(m, wiring.flipped(self.i), words.i)
        wiring.connect(m, words.o, wiring.flipped(self.o))
        m.d.sync += self.busy.eq(words.level != 0)
        return m
