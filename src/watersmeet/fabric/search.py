"""The best places for operators: branch and bound, exact where the work allows it.

What is best, in this order: few operators moved, few slots used, few hops (wires that rows have to pass, over all steps from entries to
exits), and selections near an entry. Operators are placed one after the other, each after those it reads from; what is placed so far, and
the least that the others can cost, is a bound. The first answers are looked for near the cheapest choices (none against them, one, two),
then everything is gone through. ``WORK`` bounds how many choices are tried in all; an answer that was not proven best says so. The same
input has the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from watersmeet.fabric.floor import Slot
from watersmeet.fabric.operator import Flow, Operator
from watersmeet.fabric.rules import Placement, Rules

WORK = 10_000
Cost = tuple[int, int, int, int]
ZERO: Cost = (0, 0, 0, 0)


@dataclass(frozen=True)
class Task:
    """What is to be placed: ``order`` has operators after those they read from; ``fixed`` stay; ``before``: where they were; ``roots``
    leave.
    """

    order: Sequence[Operator]
    fixed: Mapping[Operator, Placement]
    before: Mapping[Operator, Placement]
    roots: Sequence[Flow]


@dataclass
class Found:
    """The best answer so far, and what the search knows of itself."""

    placed: dict[Operator, Placement] | None = None
    cost: Cost | None = None
    proven: bool = False
    tried: int = 0
    stuck: tuple[int, Operator, dict[Operator, Placement]] | None = None  # the farthest it came


@dataclass
class _Slots:
    """How full the slots are."""

    rules: Rules
    memory: dict[str, int] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)
    holder: dict[str, Operator] = field(default_factory=dict)

    def put(self, op: Operator, placement: Placement, sign: int) -> None:
        for place in placement.slots:
            self.memory[place] = self.memory.get(place, 0) + sign * op.memory
            self.count[place] = self.count.get(place, 0) + sign
            if not op.stateless and not self.rules.floor.slots[place].shared:
                if sign > 0:
                    self.holder[place] = op
                else:
                    del self.holder[place]

    def has_memory(self, op: Operator, slot: Slot) -> bool:
        return self.memory.get(slot.place, 0) + op.memory <= slot.memory

    def takes(self, op: Operator, slot: Slot) -> bool:
        """Whether an operator that does not ride may come."""
        if not self.has_memory(op, slot) or slot.place in self.holder:
            return False
        return op.stateless or slot.shared or not self.count.get(slot.place)

    def alike(self, slot: Slot) -> object:
        """Empty slots of one brick that are made alike are as good as each other."""
        if self.count.get(slot.place) or slot.component == slot.place:
            return slot
        return (slot.component, slot.kind, slot.window, slot.ways, slot.memory, slot.computes)

    def fresh(self, placement: Placement) -> int:
        return sum(not self.count.get(place) for place in placement.slots)


@dataclass
class _Frame:
    """An operator whose choices are being gone through. ``left``: how many more may be against the cheapest."""

    op: Operator
    cost: Cost
    left: int
    choices: Iterator[tuple[int, tuple[Cost, Placement | None]]]


class Search:
    """One search."""

    def __init__(self, rules: Rules, task: Task, work: int = WORK) -> None:
        self.rules, self.task, self.work = rules, task, work
        self.slots = _Slots(rules)
        self.placed: dict[Operator, Placement] = dict(task.fixed)
        for op, placement in task.fixed.items():
            self.slots.put(op, placement, 1)
        self.roots = set(task.roots)
        self.found = Found()
        self.least = self._least()

    def run(self) -> Found:
        """The best answer that the work allows, if there is one."""
        start = self._outside()
        if start is None:
            return self.found
        for against in (0, 1, 2):
            if self.found.placed is None:
                self._go(start, against, self.found.tried + self.work // 8)
        self.found.proven = self._go(start, len(self.task.order) + 1, self.work)
        return self.found

    def _outside(self) -> Cost | None:
        """What it costs to lead out what is not to be placed: streams that are results as they are, and operators that stay, which may not
        have been results before."""
        hops = 0
        for root in self.roots:
            if not isinstance(root, Operator) or root in self.task.fixed:
                out = self.rules.hops_out(root, self.placed)
                if out is None:
                    return None
                hops += out
        return (0, 0, hops, 0)

    # ---- bounds -------------------------------------------------------------------------------------------------

    def _least(self) -> list[Cost]:
        """For each place in the order, the least that the operators from there on can cost together."""
        sums = [ZERO]
        for op in reversed(self.task.order):
            sums.append(_plus(sums[-1], self._least_of(op)))
        return sums[::-1]

    def _least_of(self, op: Operator) -> Cost:
        rules, floor = self.rules, self.rules.floor
        able = rules.able(op)
        if not able:
            return ZERO
        slots = 0 if op.stateless or any(slot.shared for slot in able) else 1
        if slots and op.kind == "join":
            widest = max(slot.window for slot in able)
            slots = -(-max(window for window in op.windows if window is not None) // widest)
        entering = sum(not isinstance(flow, Operator) for flow in op.inputs)
        hops = entering * min(floor.depth[slot.place] for slot in able)
        if op in self.roots:
            leaving = [
                rules.way_from(Placement((slot.place,)), f"{name}.in")
                for slot in able
                for name in floor.exits
            ]
            hops += min((way for way in leaving if way is not None), default=0)
        depth = min(floor.depth[slot.place] for slot in able) if op.kind == "selection" else 0
        return (0, slots, hops, depth)

    # ---- choices ------------------------------------------------------------------------------------------------

    def _choices(self, op: Operator) -> list[tuple[Cost, Placement]]:
        """Where the operator can stand now, the cheapest first."""
        rules, before = self.rules, self.task.before.get(op)
        options = dict.fromkeys(
            [
                *self._kept(op, before),
                *self._riding(op),
                *rules.placements(op, lambda slot: self.slots.takes(op, slot), self.slots.alike),
            ]
        )
        found = []
        self.found.tried += len(options)
        for placement in options:
            hops = rules.hops_in(op, placement, self.placed)
            if hops is None:
                continue
            self.placed[op] = placement
            out = rules.hops_out(op, self.placed) if op in self.roots else 0
            del self.placed[op]
            if out is None:
                continue
            depth = rules.floor.depth[placement.slots[0]] if op.kind == "selection" else 0
            moved = before is not None and placement != before
            found.append(((int(moved), self.slots.fresh(placement), hops + out, depth), placement))
        found.sort(key=lambda one: one[0])
        return found

    def _kept(self, op: Operator, before: Placement | None) -> list[Placement]:
        """Where it was, if it may stay there: riders are looked for apart."""
        slots = self.rules.floor.slots
        if before is None or not all(
            place in slots and self.slots.takes(op, slots[place]) for place in before.slots
        ):
            return []
        return [before] if op.kind == "join" or len(before.slots) == 1 else []

    def _riding(self, op: Operator) -> list[Placement]:
        if len(op.inputs) != 1 or not isinstance(op.inputs[0], Operator):
            return []
        placement = Placement(self.placed[op.inputs[0]].slots)
        slots = [self.rules.floor.slots[place] for place in placement.slots]
        able = all(self.rules.lacks(op, slot) is None and self.slots.has_memory(op, slot) for slot in slots)
        return [placement] if able and self.rules.rides(op, placement, placement) else []

    # ---- the walk -----------------------------------------------------------------------------------------------

    def _go(self, start: Cost, against: int, until: int) -> bool:
        """Go through all choices of which at most so many are ``against`` the cheapest. Whether it came to the end."""
        frames: list[_Frame] = []
        self._open(frames, start, against)
        while frames:
            frame = frames[-1]
            if frame.op in self.placed:
                self.slots.put(frame.op, self.placed.pop(frame.op), -1)
            rank, (more, placement) = next(frame.choices, (0, (ZERO, None)))
            if placement is None or (rank > 0 and frame.left == 0):
                frames.pop()
                continue
            if self.found.tried >= until:
                self._clear()
                return False
            self.placed[frame.op] = placement
            self.slots.put(frame.op, placement, 1)
            self._open(frames, _plus(frame.cost, more), frame.left - (rank > 0))
        return True

    def _open(self, frames: list[_Frame], cost: Cost, left: int) -> None:
        """Go one operator deeper, unless there is no hope, or none is left: then this is the best answer so far."""
        order, found, at = self.task.order, self.found, len(frames)
        if found.cost is not None and _plus(cost, self.least[at]) >= found.cost:
            return
        if at == len(order):
            found.placed, found.cost = dict(self.placed), cost
            return
        choices = self._choices(order[at])
        if not choices and (found.stuck is None or at > found.stuck[0]):
            found.stuck = (at, order[at], dict(self.placed))
        frames.append(_Frame(order[at], cost, left, iter(enumerate(choices))))

    def _clear(self) -> None:
        for op in self.task.order:
            if op in self.placed:
                self.slots.put(op, self.placed.pop(op), -1)


def _plus(one: Cost, other: Cost) -> Cost:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3])
