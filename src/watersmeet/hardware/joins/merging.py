"""Results of many cores into one stream: a tree of mergers with a token that goes round (handshake-join.txt A.4).

What stays true: every result leaves once, and no core waits for ever, whatever the others have.
"""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring

from watersmeet.hardware.blocks import Buffer, Merge, Shared


def merge_all(m: Module, sources: list[Any], layout: Any, out: Any, fan_in: int) -> None:
    """The merging network (A.4): mergers with a token that goes round, in a tree, to ``out``."""
    level = 0
    while len(sources) > 1:
        merged = []
        for k in range(0, len(sources), fan_in):
            some = sources[k : k + fan_in]
            merger = Shared(Merge, layout, len(some), "round_robin")
            m.submodules[f"merger_{level}_{k // fan_in}"] = merger
            for source, port in zip(some, merger.i, strict=True):
                wiring.connect(m, source, port)
            merged.append(merger.o)
        sources, level = merged, level + 1
    m.submodules.last = last = Buffer(layout)
    wiring.connect(m, sources[0], last.i)
    wiring.connect(m, last.o, wiring.flipped(out))
