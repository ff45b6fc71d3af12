"""Parallel-MJ: every row goes to every core, each of which is a join of three streams in two stages (thesis 6.2.4).

As printed, every window is split over the P cores: a row is stored by the core whose turn it is, and looks for partners on all. A
result whose two stored rows lie on different cores is found by nobody, and of N streams about 1 / P^(N-2) of the results are left:
here 1 / P. ``exact=0`` builds it so.

``exact=1`` deals out stream 0 only, and has the other two whole on every core. A row of streams 1 and 2 looks on all cores, first
through the core's share of stream 0, then through all of the third. A row of stream 0 looks on all cores too: each takes its part of
stream 1, by age, and goes on through all of stream 2. So each result is found once: on the home core of its row of stream 0, or, if
that came last, on the core whose part the row of stream 1 was in. A row reads W / P slots on each core whichever stream it is of, as
in the printed design, and all cores keep step. The second stage reads whole windows, though seldom, so stream 1 needs more spare
slots and the stages a longer queue between them (4 P). The price is memory, P times the windows of two streams.

A stash works too (``stash`` pairs a core), which the thesis leaves open (6.4.6). Then a row of stream 0 looks through all of stream 1, on
its home core only, so all its pairs are in that core's stash, and rows of stream 1 expire on all. Such a row holds up one core for W
cycles, and a queue in front of each (``queue`` rows, about 4 P) lets the others go on.

Rows are dealt out one by one, and W is a multiple of P, so the W / P newest of a core are its part of the W newest of all.
"""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Buffer, Fork, Merge, Shared
from watersmeet.hardware.multiway.core import TwoStageCore
from watersmeet.hardware.multiway.first import ALONE, EXACT, PRINTED
from watersmeet.hardware.multiway.layout import Widths

LOSES = "as printed (6.2.4), results whose stored rows lie on different cores are found by nobody; exact=1 finds all"


class ParallelMJ(wiring.Component):
    """``cores``: a power of two that divides ``window``, the rows of each stream. ``queue``, ``spare`` 0: what is needed."""

    core_class: Any = TwoStageCore

    def __init__(
        self,
        cores: int = 4,
        window: int = 16,
        exact: int = 1,
        stash: int = 0,
        queue: int = 0,
        spare: int = 0,
        key: int = 32,
        keys: int = 1,
        number: int = 32,
        band: int = 0,
    ) -> None:
        if cores & (cores - 1) or window % cores:
            raise OptionError(
                f"cores must be a power of two and divide the window; got {cores} cores for {window} rows"
            )
        self.widths, self.window, self.cores = Widths(3, key, keys, number, band), window, cores
        self.share, self.exact, self.stash = window // cores, bool(exact), stash
        self.spare = spare or (max(8, 4 * cores) if exact else 8)
        self.line = max(32, 4 * cores) if exact else 32  # messages between the stages
        self.queue = queue or (4 * cores if exact and stash else 4)
        self.loses = "" if exact or cores == 1 else LOSES
        super().__init__(
            {
                "rows": In(stream.Signature(self.widths.row)),
                "results": Out(stream.Signature(self.widths.result)),
            }
        )
        self.watch = {"level_0": Signal(range(self.line + 1)), "pairs_0": Signal(range(max(2, stash + 1)))}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        w = self.widths
        ends, level = [wiring.flipped(self.rows)], 0
        while len(ends) < self.cores:
            below: list[Any] = []
            for k, end in enumerate(ends):
                m.submodules[f"fork_{level}_{k}"] = fork = Shared(Fork, w.row, 2)
                wiring.connect(m, end, fork.i)
                below += fork.o
            ends, level = below, level + 1
        if self.cores == 1:
            m.submodules.entry = entry = Buffer(w.row)
            wiring.connect(m, ends[0], entry.i)
            ends = [entry.o]
        outs = []
        for k, end in enumerate(ends):
            m.submodules[f"core_{k}"] = core = self.core(k)
            m.d.comb += core.position.eq(k)
            wiring.connect(m, end, core.rows)
            outs.append(core.results)
            if k == 0:
                m.d.comb += [self.watch["level_0"].eq(core.level), self.watch["pairs_0"].eq(core.pairs)]
        level = 0
        while len(outs) > 1:
            merged = []
            for k in range(0, len(outs), 2):
                m.submodules[f"merge_{level}_{k // 2}"] = node = Shared(Merge, w.result, 2, "round_robin")
                wiring.connect(m, outs[k], node.i[0])
                wiring.connect(m, outs[k + 1], node.i[1])
                merged.append(node.o)
            outs, level = merged, level + 1
        m.submodules.exit = out = Buffer(w.result)
        wiring.connect(m, outs[0], out.i)
        wiring.connect(m, out.o, wiring.flipped(self.results))
        return m

    def core(self, k: int) -> Any:
        """One core. All are the same module."""
        w, share, whole = self.widths, self.share, self.window
        deal = ALONE if self.cores == 1 else EXACT if self.exact else PRINTED
        other = whole if self.exact else share
        return Shared(
            self.core_class,
            w,
            share,
            other,
            other,
            self.spare,
            self.stash,
            1,
            deal,
            self.cores,
            self.queue,
            self.line,
        )
