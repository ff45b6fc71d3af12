"""A merger: rows of several inputs into one output, fairly.

What stays true: every row that is taken leaves once, those of one input in order; no input waits for ever.
``toggle`` is the thesis's grant (5.5): the turn goes on each cycle and looks at nobody, so an input of ``ways`` gives at most
one row in ``ways`` cycles. ``round_robin`` grants the next input that has a row, which keeps the output busy for one
more buffer an input (its choice looks at valid, and inputs' ready must come from registers).
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks.buffer import Buffer

GRANTS = ("toggle", "round_robin")


class Merge(wiring.Component):
    """Each of ``i[0]`` to ``i[ways - 1]`` to ``o``."""

    def __init__(self, layout: Any, ways: int = 2, grant: str = "toggle") -> None:
        if ways < 1:
            raise OptionError(f"ways of a merger must be at least 1; got {ways}")
        if grant not in GRANTS:
            raise OptionError(f"grant must be one of {', '.join(GRANTS)}; got {grant!r}")
        self.layout, self.ways, self.grant = layout, ways, grant
        super().__init__({"i": In(stream.Signature(layout)).array(ways), "o": Out(stream.Signature(layout))})
        self.buffer = Buffer(layout)
        self.turn = Signal(range(ways))  # whose turn it is, or (round robin) who is asked first
        self.watch = {"level": self.buffer.level, "turn": self.turn}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        if self.grant == "toggle":
            sources: list[Any] = list(self.i)
            chosen = self.turn
            m.d.sync += self.turn.eq(_after(self.turn, self.ways))
        else:
            sources = []
            for k, source in enumerate(self.i):
                m.submodules[f"source_{k}"] = waiting = Buffer(self.layout)
                wiring.connect(m, wiring.flipped(source), waiting.i)
                sources.append(waiting.o)
            chosen = self._first(m, sources)
            with m.If(buffer.i.ready & buffer.i.valid):
                m.d.sync += self.turn.eq(_after(chosen, self.ways))
        m.d.comb += [
            buffer.i.payload.eq(Array(source.payload for source in sources)[chosen]),
            buffer.i.valid.eq(Array(source.valid for source in sources)[chosen]),
        ]
        for k, source in enumerate(sources):
            m.d.comb += source.ready.eq(buffer.i.ready & (chosen == k))
        return m

    def _first(self, m: Module, sources: list[Any]) -> Signal:
        """The first input from ``turn`` on, round and round, that has a row; anyone if none has."""
        chosen = Signal(range(self.ways))
        later = Signal(self.ways)  # inputs from turn on that have a row
        for k, source in enumerate(sources):
            m.d.comb += later[k].eq(source.valid & (self.turn <= k))
        for k in reversed(range(self.ways)):
            with m.If(sources[k].valid):
                m.d.comb += chosen.eq(k)
        for k in reversed(range(self.ways)):
            with m.If(later[k]):
                m.d.comb += chosen.eq(k)
        return chosen


def _after(turn: Any, ways: int) -> Any:
    return Mux(turn == ways - 1, 0, turn + 1)
