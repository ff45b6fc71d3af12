"""A program as the hardware takes it: the instructions of ``fabric.program``, with places for columns and codes for constants.

What stays true: words are made by ``fabric.encoding``, one instruction after another, the last word of each marked. What changes from
one program to the next is sent, and nothing else: a unit whose operators are the same hears nothing, so it keeps what it holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from watersmeet.fabric.encoding import encode
from watersmeet.fabric.operator import Constant
from watersmeet.fabric.program import Chunk, Instruction

LAST = 1 << 76  # of a word


def whole(value: int) -> Constant:
    """A constant of eight bytes."""
    return Constant("int", (value & (1 << 64) - 1).to_bytes(8, "little"))


def marked(words: list[int]) -> list[int]:
    """The last word as such."""
    return [*words[:-1], words[-1] | LAST]


@dataclass
class Lowered:
    """``network``: by switch and stream; ``units``: by unit, without the reset; ``stateful``: units that hold rows or groups."""

    network: dict[tuple[int, int], Instruction] = field(default_factory=dict)
    units: dict[int, tuple[Instruction, ...]] = field(default_factory=dict)

    def after(self, before: "Lowered") -> list[Instruction]:
        """What makes this program out of the one before."""
        found = []
        for key, one in before.network.items():
            if key not in self.network:
                found.append(_emptied(one))
        found += [one for key, one in self.network.items() if before.network.get(key) != one]
        for b_id in [*self.units, *(one for one in before.units if one not in self.units)]:
            found += _changed(b_id, before.units.get(b_id, ()), self.units.get(b_id, ()))
        return found


def _emptied(one: Instruction) -> Instruction:
    """A switch's entry with no way out."""
    if one.inst == "gswitch_l":
        return Instruction(one.inst, one.b_id, one.stream, segments=one.segments)
    return Instruction(one.inst, one.b_id, one.stream, body=(Chunk("mask", constant=whole(0)),))


def _changed(b_id: int, before: tuple[Instruction, ...], after: tuple[Instruction, ...]) -> list[Instruction]:
    """Who holds rows goes on as it is: what no longer rides on it gives to a stream that goes nowhere."""
    if after == before[: len(after)] and (after == before or _holds(after)):
        return []
    if before and after[: len(before)] == before and _holds(before):
        return list(after[len(before) :])
    return [Instruction("reset", b_id, 0), *after]


def _holds(instructions: tuple[Instruction, ...]) -> bool:
    return bool(instructions) and instructions[0].inst in ("join", "aggregation", "order_by")


def words_of(instructions: list[Instruction]) -> list[int]:
    """All instructions as words."""
    return [word for one in instructions for word in marked(encode([one]))]


Streams = Mapping[str, int]
