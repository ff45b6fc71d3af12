"""Where operators can stand in a topology, and how far it is from one place to another.

A *slot* is an OP-Block, or a unit of a brick, that some entry reaches. Ways are counted in wires. What leaves a component goes along one
tree of shortest ways, of equally short ones always the same: nothing arrives twice, and everybody finds the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from watersmeet.fabric.components import UNIT_KINDS, Brick, Composer, Entry, Exit, GSwitchL, OpBlock
from watersmeet.fabric.topology import Topology, split


@dataclass(frozen=True)
class Slot:
    """A place for operators. ``component``: the OP-Block, or the brick that the unit is in."""

    place: str
    component: str
    kind: str
    operators: tuple[str, ...]
    window: int
    ways: int
    memory: int
    computes: bool

    @property
    def shared(self) -> bool:
        """Whether operators that remember rows may stand beside others."""
        return self.kind == "processor"


class Floor:
    """A topology, looked at by who assigns."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.entries = [one.name for one in topology.components if isinstance(one, Entry)]
        exits = [one.name for one in topology.components if isinstance(one, Exit)]
        composed = [
            split(topology.after[f"{one.name}.out"])[0]
            for one in topology.components
            if isinstance(one, Composer) and f"{one.name}.out" in topology.after
        ]
        self.composes = any(name in exits for name in composed)
        self.exits = [name for name in exits if not self.composes or name in composed]
        self.trees: dict[str, dict[str, tuple[int, str, str]]] = {}
        reached = {arrival for entry in self.entries for arrival in self.tree(entry)}
        self.slots: dict[str, Slot] = {slot.place: slot for slot in self._slots(reached)}
        self.depth = {place: self._depth(slot) for place, slot in self.slots.items()}
        self.loose = [name for name in self._places() if name not in self.slots]

    def _slots(self, reached: set[str]) -> list[Slot]:
        found = []
        for one in self.topology.components:
            if isinstance(one, OpBlock) and {f"{one.name}.r_in", f"{one.name}.s_in"} & reached:
                found.append(
                    Slot(
                        one.name,
                        one.name,
                        "op_block",
                        UNIT_KINDS["op_block"],
                        one.window,
                        2,
                        one.memory,
                        one.computes,
                    )
                )
            if isinstance(one, Brick) and f"{one.name}.in" in reached:
                found += [
                    Slot(
                        f"{one.name}.{u.name}",
                        one.name,
                        u.kind,
                        u.operators,
                        u.window,
                        u.ways,
                        u.memory,
                        u.computes,
                    )
                    for u in one.units
                    if u.operators
                ]
        return found

    def _places(self) -> list[str]:
        found = []
        for one in self.topology.components:
            if isinstance(one, OpBlock):
                found.append(one.name)
            if isinstance(one, Brick):
                found += [f"{one.name}.{unit.name}" for unit in one.units if unit.operators]
        return found

    # ---- ways ---------------------------------------------------------------------------------------------------

    def tree(self, source: str) -> Mapping[str, tuple[int, str, str]]:
        """From a component: for each way in that is reached, how far it is, the last way out on the way there, and the way in before
        ("": none).
        """
        if source in self.trees:
            return self.trees[source]
        named, after = self.topology.named, self.topology.after
        found: dict[str, tuple[int, str, str]] = {}
        queue: deque[tuple[str, int, str]] = deque(
            (f"{source}.{port}", 1, "") for port in named[source].outputs
        )
        while queue:
            out, distance, before = queue.popleft()
            arrival = after.get(out)
            if arrival is None or arrival in found:
                continue
            found[arrival] = (distance, out, before)
            name, port = split(arrival)
            queue.extend((f"{name}.{onward}", distance + 1, arrival) for onward in named[name].onward(port))
        self.trees[source] = found
        return found

    def distance(self, source: str, arrival: str) -> int | None:
        found = self.tree(source).get(arrival)
        return None if found is None else found[0]

    def path(self, source: str, arrival: str) -> list[str]:
        """The ways out from a component to a way in, in order."""
        tree, outs = self.tree(source), []
        while arrival:
            _, out, arrival = tree[arrival]
            outs.append(out)
        return outs[::-1]

    def arrivals(self, slot: Slot) -> tuple[str, ...]:
        """Where rows come in to a slot: by either lane of an OP-Block in a chain, or from the LSwitch."""
        if slot.component == slot.place:
            return (f"{slot.place}.r_in", f"{slot.place}.s_in")
        return (f"{slot.component}.in",)

    def _depth(self, slot: Slot) -> int:
        ways = (self.distance(entry, arrival) for entry in self.entries for arrival in self.arrivals(slot))
        return min(way for way in ways if way is not None)

    # ---- neighbours ---------------------------------------------------------------------------------------------

    @cached_property
    def chains(self) -> list[list[Slot]]:
        """The slots of each OP-Chain, from left to right."""
        blocks = [slot for slot in self.slots.values() if slot.component == slot.place]
        right = {slot.place: split(self.topology.after.get(f"{slot.place}.r_out", "."))[0] for slot in blocks}
        firsts = [slot for slot in blocks if slot.place not in right.values()]
        found = []
        for slot in firsts:
            chain, place = [slot], right[slot.place]
            while place:
                chain.append(self.slots[place])
                place = right[place]
            found.append(chain)
        return found

    @cached_property
    def meets(self) -> bool:
        """Whether ways can part and meet again, so that rows may overtake each other."""
        targets = set(self.topology.after.values())
        switches = [one for one in self.topology.components if isinstance(one, GSwitchL)]
        return len(self.entries) > 1 or any(
            {f"{one.name}.north", f"{one.name}.west"} <= targets for one in switches
        )

    def bricks_along(self, outs: Sequence[str]) -> list[str]:
        """The bricks that a way passes through."""
        names = [split(out)[0] for out in outs]
        return [name for name in names if isinstance(self.topology.named[name], Brick)]

    def synchroniser(self, brick: str) -> str | None:
        """The place of a brick's synchroniser."""
        component = self.topology.named[brick]
        assert isinstance(component, Brick)
        return next((f"{brick}.{unit.name}" for unit in component.units if unit.kind == "synchroniser"), None)


@lru_cache(maxsize=64)
def floor_of(topology: Topology) -> Floor:
    """Made once a topology."""
    return Floor(topology)
