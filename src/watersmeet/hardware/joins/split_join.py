"""SplitJoin in hardware, uni-flow (thesis 5.4 and 5.5): a distribution network, join cores, a network that gathers results.

Where it follows the thesis: trees of DNodes and GNodes with toggle grant (figure 5.5.3), the lightweight variants of both
networks (one broadcast to all cores at once, one merger over all cores), storage by counting turns, an operator in segments that
is programmed while data flow, one read a cycle, results twice as wide as rows.

Where the thesis is silent: how many reads may be under way (ours: no more than the queue of results has room for), the encoding of
operators (``operator.py``), how order is kept (``OrderedGNode``), what a time window is (one more attribute, the time, with a band; the
sub-windows must be large enough to hold what the time covers), and what becomes of the windows when the number of cores changes (they
are emptied; a change of the condition alone keeps them).
"""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Shared
from watersmeet.hardware.joins.join_core import JoinCore
from watersmeet.hardware.joins.nodes import DNode, GNode, OrderedGNode
from watersmeet.hardware.joins.rows import result_layout, word_layout


class SplitJoin(wiring.Component):
    """``words`` in (rows and segments), ``results`` out.

    ``window``: rows of each stream that all cores together can hold. ``fan``: outputs of a DNode, inputs of a GNode.
    """

    def __init__(
        self,
        cores: int,
        window: int,
        attributes: int = 1,
        bits: int = 32,
        fan: int = 2,
        scalable: int = 1,
        ordered: int = 0,
    ) -> None:
        if cores < 1 or window < cores or window % cores:
            raise OptionError(f"window must be a multiple of the {cores} cores; got {window}")
        if fan < 2:
            raise OptionError(f"fan must be at least 2; got {fan}")
        self.cores, self.share, self.attributes, self.bits = cores, window // cores, attributes, bits
        self.fan, self.scalable, self.ordered = fan, bool(scalable), bool(ordered)
        self.word = word_layout(attributes, bits)
        self.result = result_layout(attributes, bits, self.ordered)
        super().__init__(
            {"words": In(stream.Signature(self.word)), "results": Out(stream.Signature(self.result))}
        )
        self.core = [Shared(JoinCore, self.share, attributes, bits, self.ordered) for _ in range(cores)]
        self.watch = {
            f"core{k}.{name}": signal
            for k, core in enumerate(self.core)
            for name, signal in core.watch.items()
        }

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for k, core in enumerate(self.core):
            m.submodules[f"core_{k}"] = core
            m.d.comb += core.number.eq(k)
        if self.scalable:
            self._distribute(m)
            self._gather(m, self.fan)
        else:
            self._broadcast(m)
            self._gather(m, self.cores)
        return m

    @staticmethod
    def tell(values: dict[str, int]) -> str:
        """What a core is at, for people: whose scan reads which row, and how many results wait."""
        stream, other = ("s", "r") if values["is_s"] else ("r", "s")
        parts = []
        if values["scanning"]:
            parts.append(f"{stream}{values['probe']} reads {other}[{values['at']}]")
        if values["results"]:
            parts.append(f"{values['results']} found")
        return ", ".join(parts)

    def _distribute(self, m: Module) -> None:
        """A tree of DNodes, each level ``fan`` times as wide, until there is an end for every core."""
        ends: list[Any] = [wiring.flipped(self.words)]
        level = 0
        while len(ends) < self.cores:
            below: list[Any] = []
            for k, end in enumerate(ends):
                left = (
                    self.cores - len(below) - (len(ends) - k - 1)
                )  # each end after this one needs a core at least
                ways = max(1, min(self.fan, left))
                node = Shared(DNode, self.word, ways)
                m.submodules[f"d{level}_{k}"] = node
                wiring.connect(m, end, node.i)
                below += node.o
            ends, level = below, level + 1
        for end, core in zip(ends, self.core, strict=True):
            wiring.connect(m, end, core.i)

    def _broadcast(self, m: Module) -> None:
        """Lightweight: every core takes the word in the same cycle, when all can."""
        ready = self.core[0].i.ready
        for core in self.core[1:]:
            ready = ready & core.i.ready
        m.d.comb += self.words.ready.eq(ready)
        for core in self.core:
            m.d.comb += [core.i.payload.eq(self.words.payload), core.i.valid.eq(self.words.valid & ready)]

    def _gather(self, m: Module, fan: int) -> None:
        """A tree of GNodes (lightweight: one over all cores)."""
        made = OrderedGNode if self.ordered else GNode
        sources = [core.o for core in self.core]
        level = 0
        while len(sources) > 1:
            merged = []
            for k in range(0, len(sources), fan):
                group = sources[k : k + fan]
                node = Shared(made, self.result, len(group))
                m.submodules[f"g{level}_{k // fan}"] = node
                for source, end in zip(group, node.i, strict=True):
                    wiring.connect(m, source, end)
                merged.append(node.o)
            sources, level = merged, level + 1
        wiring.connect(m, sources[0], wiring.flipped(self.results))
