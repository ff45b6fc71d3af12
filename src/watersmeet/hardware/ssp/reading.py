"""How a unit reads its instructions: a head, chunks, and the constant after a chunk that has one.

What stays true: ``head``, ``chunk`` and ``constant`` tell, in the cycle in which a word is taken, what it is; ``of`` is the head of the
instruction that chunks belong to. Constants have 8 bytes: lowering makes them so.
"""

from typing import Any

from amaranth.hdl import Module, Signal

from watersmeet.fabric.operator import CONDITIONS
from watersmeet.fabric.program import INSTS, TAGS
from watersmeet.hardware.encoded import CHUNK, HEAD

INST = {name: number for number, name in enumerate(INSTS)}
TAG = {name: number for number, name in enumerate(TAGS)}
CONDITION = {name: number for number, name in enumerate(CONDITIONS)}


class Reading:
    """The words of instructions that a unit takes: ``item`` while ``taken``."""

    def __init__(self, m: Module, item: Any, taken: Any) -> None:
        self.item = item
        payload = item.row[:64]
        self.word = Signal(64)
        m.d.comb += self.word.eq(payload)
        self.now = HEAD(self.word)
        self.fields = CHUNK(self.word)
        self.of = Signal(HEAD)
        self.head, self.chunk, self.constant = Signal(), Signal(), Signal()
        self.tag = Signal(4)  # of the chunk that a constant belongs to
        waits = Signal()  # for a constant
        word = taken & item.inst
        m.d.comb += [
            self.head.eq(word & item.first),
            self.chunk.eq(word & ~item.first & ~waits),
            self.constant.eq(word & ~item.first & waits),
        ]
        with m.If(self.head):
            m.d.sync += [self.of.eq(self.word), waits.eq(0)]
        with m.If(self.chunk):
            m.d.sync += [self.tag.eq(self.fields.tag), waits.eq(self.fields.bytes != 0)]
        with m.If(self.constant):
            m.d.sync += waits.eq(0)

    def begins(self, inst: str) -> Any:
        """The head of an instruction of this kind is taken."""
        return self.head & (self.now.inst == INST[inst])

    def reads(self, inst: str, tag: str) -> Any:
        """A chunk with this tag, of an instruction of this kind, is taken."""
        return self.chunk & (self.of.inst == INST[inst]) & (self.fields.tag == TAG[tag])

    def ends(self, inst: str, tag: str) -> Any:
        """The constant of such a chunk is taken."""
        return self.constant & (self.of.inst == INST[inst]) & (self.tag == TAG[tag])
