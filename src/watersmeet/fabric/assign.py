"""Queries to a fabric: all of them fit, or the change is refused.

Operators that queries have in common are placed once. Those that were placed before stay where they are if there is room for the others
so; only then moves are looked for. If a new query does not fit with its selections before its joins, they are made part of the joins'
conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from watersmeet.errors import FabricError
from watersmeet.fabric.assignment import Assignment, in_order
from watersmeet.fabric.floor import Floor, floor_of
from watersmeet.fabric.folding import composed, folded, repeated
from watersmeet.fabric.operator import Need, operators_of
from watersmeet.fabric.refusal import refusal
from watersmeet.fabric.rules import Placement, Rules
from watersmeet.fabric.search import WORK, Found, Search, Task
from watersmeet.fabric.topology import Topology


def assign(before: Assignment, asked: Sequence[Need], work: int = WORK) -> Assignment:
    """These queries, and no others, on the fabric. ``before``: how it stood. Refused whole if they do not fit."""
    floor = floor_of(before.topology)
    rules = Rules(floor)
    settled = dict(zip(before.asked, before.needs, strict=True))
    others = {need: _ways(need, floor) for need in asked if need not in settled}
    ways = [tuple(settled[need] if need in settled else others[need][k] for need in asked) for k in range(3)]
    searches = [_Searches(rules, before, needs, work) for needs in dict.fromkeys(ways)]
    found = next((one for one in searches if one.staying.placed is not None), None)
    found = found or next((one for one in searches if one.moving.placed is not None), None)
    if found is None:
        first = searches[0]
        raise FabricError(
            refusal(rules, first.needs, before, first.staying, any(one.cut for one in searches))
        )
    best = found.staying if found.staying.placed is not None else found.moving
    assert best.placed is not None
    placed = {op: best.placed[op] for op in in_order(found.needs)}
    moved = tuple(op for op in placed if op in before.placed and placed[op] != before.placed[op])
    return Assignment(before.topology, tuple(asked), found.needs, placed, moved, best.proven)


def _ways(need: Need, floor: Floor) -> tuple[Need, Need, Need]:
    """The ways to place a query, the best first."""
    own = composed(need) if floor.composes else need
    return own, repeated(own), folded(own)


def placed_to_plain(assignment: Assignment) -> dict[str, Any]:
    """Where the operators stand, without what the queries themselves say."""
    floor = floor_of(assignment.topology)
    pairs = zip(assignment.asked, assignment.needs, strict=True)
    return {
        "ways": [_ways(need, floor).index(own) for need, own in pairs],
        "slots": [[list(one.slots), one.flipped] for one in assignment.placed.values()],
    }


def placed_from_plain(topology: Topology, asked: Sequence[Need], data: Mapping[str, Any]) -> Assignment:
    """The same assignment for the same queries."""
    floor = floor_of(topology)
    needs = tuple(_ways(need, floor)[way] for need, way in zip(asked, data["ways"], strict=True))
    placements = [Placement(tuple(slots), flipped) for slots, flipped in data["slots"]]
    return Assignment(topology, tuple(asked), needs, dict(zip(in_order(needs), placements, strict=True)))


class _Searches:
    """One way to place the queries: with those that are placed where they are, and with moves."""

    def __init__(self, rules: Rules, before: Assignment, needs: tuple[Need, ...], work: int) -> None:
        self.rules, self.needs, self.work = rules, needs, work
        self.order = in_order(needs)
        self.roots = [root for need in needs for root in need.roots]
        self.kept = {op: before.placed[op] for op in self.order if op in before.placed}

    @cached_property
    def staying(self) -> Found:
        fresh = [op for op in self.order if op not in self.kept]
        return Search(self.rules, Task(fresh, self.kept, {}, self.roots), self.work).run()

    @cached_property
    def moving(self) -> Found:
        """Those with something new come first: the others make room for them."""
        if not self.kept:
            return self.staying
        new = [need for need in self.needs if any(op not in self.kept for op in operators_of(need.roots))]
        first = in_order(tuple(new))
        rest = [op for op in self.order if op not in set(first)]
        return Search(self.rules, Task([*first, *rest], {}, self.kept, self.roots), self.work).run()

    @property
    def cut(self) -> bool:
        """Whether a search came to the bound of its work."""
        return max(self.staying.tried, self.moving.tried) >= self.work
