"""Two stages as one module: Stashed-MJ, and the global join core of Parallel-MJ (thesis 6.2.1, 6.2.4)."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Merge
from watersmeet.hardware.multiway.first import ALONE, PRINTED, FirstStage
from watersmeet.hardware.multiway.layout import Widths
from watersmeet.hardware.multiway.second import SecondStage


class TwoStageCore(wiring.Component):
    """Windows of ``a``, ``b`` and ``c`` rows of streams 0, 1 and 2. ``position``: which core this is, of several."""

    def __init__(
        self,
        widths: Widths,
        a: int,
        b: int,
        c: int,
        spare: int = 8,
        stash: int = 0,
        recompute: int = 1,
        deal: str = ALONE,
        cores: int = 1,
        queue: int = 4,
        line: int = 32,
    ) -> None:
        if widths.streams != 3:
            raise OptionError(
                f"streams of a join in two stages must be 3; got {widths.streams}; use circular_mj"
            )
        if stash and deal == PRINTED:
            raise OptionError(
                "stash must be 0 if all windows are split: a core does not hear of the rows of others that expire; use the exact one"
            )
        self.widths, self.stash = widths, stash
        self.args_first = (widths, a, b, spare, stash, bool(recompute), deal, cores, queue, line)
        self.args_second = (widths, b, b + spare, c, line)
        super().__init__(
            {
                "position": In(range(max(2, cores))),
                "rows": In(stream.Signature(widths.row)),
                "results": Out(stream.Signature(widths.result)),
                "covered": Out(range(a + 1)),  # rows of A whose pairs are all in the stash
                "pairs": Out(range(max(2, stash + 1))),  # in the stash
                "invalid": Out(1),  # pairs are missing
                "level": Out(range(line + 1)),  # partial results between the stages
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.first = first = FirstStage(*self.args_first)
        m.submodules.second = second = SecondStage(*self.args_second)
        wiring.connect(m, wiring.flipped(self.rows), first.rows)
        wiring.connect(m, first.line, second.line)
        m.d.comb += [
            first.position.eq(self.position),
            first.slot_b.eq(second.slot_b),
            second.found_b.eq(first.found_b),
            first.released.eq(second.released),
            first.line_level.eq(second.level),
            self.covered.eq(first.covered),
            self.pairs.eq(first.pairs),
            self.invalid.eq(first.invalid),
            self.level.eq(second.level),
        ]
        if self.stash:
            m.submodules.collection = both = Merge(self.widths.result, 2, "round_robin")
            wiring.connect(m, first.results, both.i[0])
            wiring.connect(m, second.results, both.i[1])
            wiring.connect(m, both.o, wiring.flipped(self.results))
        else:
            wiring.connect(m, second.results, wiring.flipped(self.results))
        return m
