"""A window in block RAM, as a ring of slots.

What stays true: ``top`` is the slot that the next row will take, and the ``fill`` slots before it, round the ring, hold the newest
rows of the stream, at most ``rows`` of them. There are ``spare`` slots more: a row that has left the window stays readable until so
many others have come. A range of slots that was written down before therefore still means the same rows, as long as no more than
``spare`` rows have come since. A slot that is read and written in the same cycle gives the old row.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory


class Ring:
    """Memory, ``top`` and ``fill``. ``reads``: how many read ports."""

    def __init__(self, m: Module, name: str, layout: Any, rows: int, spare: int = 0, reads: int = 1) -> None:
        self.rows, self.slots = rows, rows + spare
        memory = Memory(shape=layout, depth=max(2, self.slots), init=[])  # an address has a bit at least
        m.submodules[name] = memory
        self.write, self.reads = memory.write_port(), [memory.read_port() for _ in range(reads)]
        self.top = Signal(range(max(2, self.slots)), name=f"{name}_top")
        self.fill = Signal(range(rows + 1), name=f"{name}_fill")

    def below(self, slot: Any) -> Any:
        """The slot before another, where the row lies that came before."""
        return Mux(slot == 0, self.slots - 1, slot - 1)

    def above(self, slot: Any) -> Any:
        """The slot after another."""
        return Mux(slot == self.slots - 1, 0, slot + 1)

    def store(self, m: Module, when: Any, row: Any) -> None:
        """A row comes in where ``when`` is set."""
        m.d.comb += [self.write.addr.eq(self.top), self.write.data.eq(row), self.write.en.eq(when)]
        with m.If(when):
            m.d.sync += self.top.eq(self.above(self.top))
            with m.If(self.fill != self.rows):
                m.d.sync += self.fill.eq(self.fill + 1)
