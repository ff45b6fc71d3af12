"""A whole component: its own logic in one lane, and for each module that repeats, all instances beside each other.

What stays true: instances of a shared module are lanes of one body only if its outputs come from registers; then the order of a cycle
is: what all instances give, what the component's own cells make of it, what the instances become.
"""

from dataclasses import dataclass
from typing import Any

from watersmeet.hardware.simulate.compiled.body import CONSTANTS, Body, Part
from watersmeet.hardware.simulate.compiled.cells import Bits
from watersmeet.hardware.simulate.compiled.ir import Value, Writer, constant
from watersmeet.hardware.simulate.compiled.netlist import Text, netlists, repeated

LEAST = 4  # instances that are worth lanes


class State:
    """Room that is given out, in multiples of 8 bytes."""

    def __init__(self) -> None:
        self.size = 0

    def place(self, size: int) -> int:
        at = self.size
        self.size = at + -(-size // 8) * 8
        return at


@dataclass(frozen=True)
class Group:
    """All instances of one module, and the wires of each: bits of the component by port."""

    name: str
    body: Body
    instances: tuple[Any, ...]

    @property
    def lanes(self) -> int:
        return self.body.lanes

    def wires(self, part: Part) -> list[Bits]:
        """The bits at one piece of a port, by lane; lanes that stand for nobody have none."""
        found = [ends.get(part.cell, []) for ends in self.instances]
        found = [bits[part.low : part.low + part.width] for bits in found]
        return found + [["0"] * part.width] * (self.lanes - len(found))

    def given(self) -> list[tuple[Part, int, Bits]]:
        """What each instance gives to the component: the piece of a port, the lane, the bits."""
        return [
            (part, k, self.wires(part)[k])
            for part, _ in self.body.outputs()
            for k in range(len(self.instances))
        ]

    def named(self, part: Part, lane: int) -> Part:
        """What the component calls a piece of an output."""
        return Part(f"{self.name}/{lane}/{part.cell}", part.low, part.width)


class Machine:
    """The component's own body and its groups."""

    def __init__(self, top: Any, leaves: dict[str, Any]) -> None:
        self.module, self._state = top, State()
        self.groups: list[Group] = []
        for name, leaf in leaves.items():
            found = [cell["connections"] for cell in top["cells"].values() if cell["type"] == name]
            lanes = -(-len(found) // 4) * 4
            self.groups.append(Group(name, Body(leaf, self._state.place, lanes), tuple(found)))
        self._sources: dict[Part, tuple[Group, Part, int]] = {}
        outside = []
        for group in self.groups:
            for part, lane, bits in group.given():
                self._sources[group.named(part, lane)] = (group, part, lane)
                outside.append((group.named(part, lane), bits))
        self.body = Body(top, self._state.place, 1, outside)

    def state(self) -> bytearray:
        """Everything before the first cycle."""
        state = bytearray(self._state.size)
        for body in [self.body, *(group.body for group in self.groups)]:
            body.fill(state)
        return state

    def cycle(self, w: Writer, inputs: dict[str, Value]) -> dict[str, Value]:
        """Writes one cycle; gives the outputs by port. The state is ``%S``."""
        self.body.begin(w)
        self.body.give(
            {part: inputs.get(part.cell, constant(0, part.width)) for part, _ in self.body.inputs()}
        )
        self._given: dict[tuple[str, Part], Value] = {}
        for group in self.groups:
            inner = w.on(group.lanes)
            group.body.begin(inner)
            for part, value in group.body.early().items():
                self._given[group.name, part] = value
        self.body.give(
            {
                name: w.on(group.lanes).lane(self._given[group.name, part], lane)
                for name, (group, part, lane) in self._sources.items()
            }
        )
        self.body.compute()
        for group in self.groups:
            group.body.give({part: self._wired(w, group, part) for part, _ in group.body.inputs()})
            group.body.compute()
        outputs = {part.cell: self.body.gather(bits) for part, bits in self.body.outputs()}
        for body in [self.body, *(group.body for group in self.groups)]:
            body.end()
        return outputs

    def _wired(self, w: Writer, group: Group, part: Part) -> Value:
        """One piece of an input of all instances: lanes of other groups' outputs where it is just that, else made lane by lane."""
        inner, lanes = w.on(group.lanes), group.wires(part)
        if part.cell in ("clk", "rst"):
            return constant(0, part.width)
        picks: dict[tuple[str, Part], list[int | None]] = {}
        single: list[Value | None] = [None] * group.lanes
        for k, bits in enumerate(lanes):
            source = self._whole(bits)
            if source is None:
                single[k] = self.body.gather(bits)
            else:
                other, piece, lane = source
                picks.setdefault((other.name, piece), [None] * group.lanes)[k] = lane
        counts = {other.name: other.lanes for other in self.groups}
        found: Value | None = None
        for (name, piece), wanted in picks.items():
            moved = inner.shuffled(self._given[name, piece], counts[name], wanted)
            if found is not None:
                mask = ", ".join(f"i1 {int(pick is not None)}" for pick in wanted)
                moved = inner.select(Value(f"<{mask}>", 1), moved, found)
            found = moved
        if any(single):
            found = inner.joined(single, found)
        return found or constant(0, part.width)

    def _whole(self, bits: Bits) -> tuple[Group, Part, int] | None:
        """The one piece of a group's output that these bits are, if they are."""
        if any(bit in CONSTANTS for bit in bits):
            return None
        runs = self.body.runs(bits)
        if len(runs) != 1:
            return None
        _, source, low, n = runs[0]
        if not isinstance(source, Part) or source not in self._sources or low or n != source.width:
            return None
        return self._sources[source]


def machine_of(text: Text) -> Machine:
    """The component, with lanes for what repeats and has registers at its ends."""
    kept = repeated(text, LEAST)
    while True:
        top, leaves = netlists(text, kept)
        wrong = [name for name, leaf in leaves.items() if not Body(leaf, State().place).moore()]
        if not wrong:
            return Machine(top, leaves)
        kept = [name for name in kept if name not in wrong]
