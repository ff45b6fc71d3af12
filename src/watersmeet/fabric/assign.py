"""Queries to a fabric: all of them fit, or the change is refused.

Operators that queries have in common are placed once. Those that were placed before stay where they are if there is room for the others
so; only then moves are looked for. If a new query does not fit with its selections before its joins, they are made part of the joins'
conditions.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import FabricError
from watersmeet.fabric.assignment import Assignment, in_order
from watersmeet.fabric.floor import floor_of
from watersmeet.fabric.folding import composed, folded
from watersmeet.fabric.operator import Need, operators_of
from watersmeet.fabric.refusal import refusal
from watersmeet.fabric.rules import Rules
from watersmeet.fabric.search import WORK, Found, Search, Task


def assign(before: Assignment, asked: Sequence[Need], work: int = WORK) -> Assignment:
    """These queries, and no others, on the fabric. ``before``: how it stood. Refused whole if they do not fit."""
    floor = floor_of(before.topology)
    rules = Rules(floor)
    settled = dict(zip(before.asked, before.needs, strict=True))
    plain = [composed(need) if floor.composes else need for need in asked]
    as_asked = tuple(settled.get(need, own) for need, own in zip(asked, plain, strict=True))
    with_folds = tuple(settled.get(need, folded(own)) for need, own in zip(asked, plain, strict=True))
    first: tuple[Found, bool] | None = None
    for needs in dict.fromkeys((as_asked, with_folds)):
        staying, found = _searched(rules, before, needs, work)
        if found.placed is not None:
            placed = {op: found.placed[op] for op in in_order(needs)}
            moved = tuple(op for op in placed if op in before.placed and placed[op] != before.placed[op])
            return Assignment(before.topology, tuple(asked), needs, placed, moved, found.proven)
        first = first or (staying, max(found.tried, staying.tried) >= work)
    assert first is not None
    raise FabricError(refusal(rules, as_asked, before, *first))


def _searched(rules: Rules, before: Assignment, needs: tuple[Need, ...], work: int) -> tuple[Found, Found]:
    """What is found if nobody moves; and that, or what is found with moves. Then those with something new come first: the others make
    room.
    """
    order = in_order(needs)
    roots = [root for need in needs for root in need.roots]
    kept = {op: before.placed[op] for op in order if op in before.placed}
    fresh = [op for op in order if op not in kept]
    staying = Search(rules, Task(fresh, kept, {}, roots), work).run()
    if staying.placed is not None or not kept:
        return staying, staying
    first = in_order(tuple(need for need in needs if any(op not in kept for op in operators_of(need.roots))))
    rest = [op for op in order if op not in set(first)]
    return staying, Search(rules, Task([*first, *rest], {}, kept, roots), work).run()
