"""Stashed-MJ: three streams on two stages, and a stash of pairs for the third (thesis 6.2, 6.3).

Streams 0 and 1 are the pair A and B, stream 2 is C, the one that should arrive most often. As in the thesis: the first stage stores
A and B, joins them with one another and keeps the pairs in the stash; C is joined with the stash there, or, where that is not
complete, with A, and with B in the second stage, which stores C and joins the pairs with it; storing goes on beside processing; the
second stage reads B while the first may want to write it.

Otherwise than in the thesis, each with its reason in the part's own text: the stash is one sorted ring without gaps that expires by
arrival (``stash.py``); partial recomputation (6.3.3) is the rule, and ``recompute=0`` is the invalid state of 6.2.2, in which the
stash is ignored; B has spare slots in place of the lock (``first.py``).

Costs in cycles: a row of A reads B, a row of B reads A; a row of C reads the pairs in the stash and the rows of A that they do not
cover, at least one; a partial result reads B or C in the second stage, beside the next row. These are the thesis's equations 6.2.1
to 6.2.6 with a cycle a row for T_proc, and the number of pairs in the stash, not its size, for T_proc(Stash).
"""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.multiway.core import TwoStageCore
from watersmeet.hardware.multiway.layout import Widths


class StashedMJ(wiring.Component):
    """``window``: rows of each stream. ``stash``: pairs, 0 for no stash. ``spare``: rows of B that may come while B is being read for C."""

    core_class: Any = TwoStageCore
    opened = ("core",)  # in pictures: all that there is to see is in it

    def __init__(
        self,
        window: int = 16,
        stash: int = 16,
        recompute: int = 1,
        spare: int = 8,
        key: int = 32,
        keys: int = 1,
        number: int = 32,
        band: int = 0,
    ) -> None:
        self.widths, self.window = Widths(3, key, keys, number, band), window
        self.core = (self.widths, window, window, window, spare, stash, recompute)
        super().__init__(
            {
                "rows": In(stream.Signature(self.widths.row)),
                "results": Out(stream.Signature(self.widths.result)),
            }
        )
        self.watch = {
            "covered": Signal(range(window + 1)),
            "pairs": Signal(range(max(2, stash + 1))),
            "invalid": Signal(),
            "level": Signal(8),
        }

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.core = core = self.core_class(*self.core)
        m.submodules.entry = entry = Buffer(self.widths.row)
        m.submodules.exit = out = Buffer(self.widths.result)
        wiring.connect(m, wiring.flipped(self.rows), entry.i)
        wiring.connect(m, entry.o, core.rows)
        wiring.connect(m, core.results, out.i)
        wiring.connect(m, out.o, wiring.flipped(self.results))
        for name, signal in self.watch.items():
            m.d.comb += signal.eq(getattr(core, name))
        return m
