"""The result aggregation buffer (4.2, figure 4.3.2): a tree of two-to-one nodes, and before each leaf the queue of a block's filter unit.

What stays true: results leave whole, each once, those of one block in order.
"""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Fifo, Shared
from watersmeet.hardware.fqp.joint import Joint
from watersmeet.hardware.fqp.words import WORD


class ResultBuffer(wiring.Component):
    """``i[0]`` to ``i[ways - 1]`` to ``o``; ``depth``: words in each filter unit."""

    def __init__(self, ways: int, depth: int = 8) -> None:
        if ways < 1:
            raise OptionError(f"ways of a result buffer must be at least 1; got {ways}")
        self.ways, self.depth = ways, depth
        super().__init__({"i": In(stream.Signature(WORD)).array(ways), "o": Out(stream.Signature(WORD))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        level: list[Any] = []
        for k, source in enumerate(self.i):
            m.submodules[f"filter_{k}"] = queue = Shared(Fifo, WORD, self.depth)
            wiring.connect(m, wiring.flipped(source), queue.i)
            level.append(queue.o)
        depth = 0
        while len(level) > 1:
            below = []
            for k in range(0, len(level) - 1, 2):
                m.submodules[f"node_{depth}_{k // 2}"] = node = Shared(Joint)
                wiring.connect(m, level[k], node.i[0])
                wiring.connect(m, level[k + 1], node.i[1])
                below.append(node.o)
            level, depth = below + level[len(level) & ~1 :], depth + 1
        wiring.connect(m, level[0], wiring.flipped(self.o))
        return m
