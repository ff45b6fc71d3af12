"""Queries to a fabric: an assignment is a value, and a better or other one is made from it, never changed in place.

Operators that queries have in common are placed once. Those that were placed before stay where they are if there is room for the others so;
only then moves are looked for. What does not fit is refused, with what is missing and where.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watersmeet.errors import FabricError, listed
from watersmeet.fabric.floor import Floor, Slot, floor_of
from watersmeet.fabric.operator import Flow, Need, Operator, operators_of
from watersmeet.fabric.rules import Placement, Rules
from watersmeet.fabric.search import WORK, Found, Search, Task
from watersmeet.fabric.topology import Topology

MOST_REASONS = 6


@dataclass(frozen=True)
class Assignment:
    """Where the operators of some queries stand.

    - ``slots``, ``hops``: slots used; wires that rows pass, over all steps from entries to exits.
    - ``moved``: operators that the last change has moved. ``proven``: whether the last change is known to be the best.
    """

    topology: Topology
    needs: tuple[Need, ...]
    placed: Mapping[Operator, Placement]
    moved: tuple[Operator, ...] = ()
    proven: bool = True

    @property
    def slots(self) -> int:
        return len({place for placement in self.placed.values() for place in placement.slots})

    @property
    def hops(self) -> int:
        return hops_of(self)

    def queries_of(self, op: Operator) -> list[str]:
        """The queries that an operator is for."""
        return [need.query for need in self.needs if op in set(operators_of(need.roots))]

    def operators_at(self, place: str) -> list[Operator]:
        """The operators at a slot, each after those it reads from."""
        return [op for op, placement in self.placed.items() if place in placement.slots]


def empty(topology: Topology) -> Assignment:
    """No queries."""
    return Assignment(topology, (), {})


def assign(before: Assignment, needs: Sequence[Need], work: int = WORK) -> Assignment:
    """These queries, and no others, on the fabric. ``before``: how it stood. Refused whole if they do not fit."""
    floor = floor_of(before.topology)
    rules, needs = Rules(floor), tuple(_composed(need, floor) for need in needs)
    order = _order(needs)
    roots = [root for need in needs for root in need.roots]
    kept = {op: before.placed[op] for op in order if op in before.placed}
    fresh = [op for op in order if op not in kept]
    found = staying = Search(rules, Task(fresh, kept, {}, roots), work).run()
    if found.placed is None and kept:
        found = _with_moves(rules, needs, order, kept, roots, work)
    if found.placed is None:
        raise FabricError(_refusal(rules, needs, before, staying, max(found.tried, staying.tried) >= work))
    placed = {op: found.placed[op] for op in order}
    moved = tuple(op for op in order if op in kept and placed[op] != kept[op])
    return Assignment(before.topology, needs, placed, moved, found.proven)


def _composed(need: Need, floor: Floor) -> Need:
    """Where results are composed, what is selected is computed there: no block is needed for it."""
    if not floor.composes:
        return need
    roots = [
        root.inputs[0] if isinstance(root, Operator) and root.kind == "projection" else root
        for root in need.roots
    ]
    return Need(need.query, tuple(roots))


def _order(needs: Sequence[Need]) -> list[Operator]:
    """All operators, each once, after those they read from."""
    return list(dict.fromkeys(op for need in needs for op in operators_of(need.roots)))


def _with_moves(
    rules: Rules,
    needs: Sequence[Need],
    order: Sequence[Operator],
    kept: Mapping[Operator, Placement],
    roots: Sequence[Flow],
    work: int,
) -> Found:
    """All operators anew, those of queries with something new first: the others make room for them."""
    new = [need for need in needs if any(op not in kept for op in operators_of(need.roots))]
    first = _order(new)
    rest = [op for op in order if op not in set(first)]
    return Search(rules, Task([*first, *rest], {}, kept, roots), work).run()


def hops_of(assignment: Assignment) -> int:
    """The wires that rows pass, over all steps."""
    rules, placed = Rules(floor_of(assignment.topology)), assignment.placed
    inside = [rules.hops_in(op, placement, placed) for op, placement in placed.items()]
    leaving = [
        rules.hops_out(root, placed)
        for root in dict.fromkeys(root for need in assignment.needs for root in need.roots)
    ]
    return sum(hops for hops in [*inside, *leaving] if hops is not None)


# ---- why not ------------------------------------------------------------------------------------------------------


def _refusal(rules: Rules, needs: Sequence[Need], before: Assignment, found: Found, cut: bool) -> str:
    """What is missing, and where: of a query that could not run alone either, or else of all together.

    ``found``: the search in which nobody moved. ``cut``: whether the work came to its bound.
    """
    floor = rules.floor
    if not floor.entries or not floor.exits or not floor.slots:
        missing = (
            "an entry"
            if not floor.entries
            else "an exit"
            if not floor.exits
            else "a block that an entry reaches"
        )
        return f"a fabric must have {missing}; {floor.topology.name!r} has none; add it, and wire it"
    known = {need.query: need for need in before.needs}
    new = [need for need in needs if known.get(need.query) != need] or list(needs)
    for need in new:
        for op in operators_of(need.roots):
            reasons = {slot.place: rules.lacks(op, slot) for slot in floor.slots.values()}
            if all(reasons.values()):
                return (
                    f"query {need.query!r} must fit the fabric; its {op} needs {_wants(op)}, and there is none: {_reasons(reasons)}; "
                    f"{_instead(op)}"
                )
    for need in new:
        alone = Search(rules, Task(_order([need]), {}, {}, need.roots)).run()
        if alone.placed is None:
            return _stuck(need.query, rules, alone, before, "must fit the fabric")
    end = "; others could not make room" + (", as far as was looked" if cut else "") if before.placed else ""
    query = next(
        (need.query for need in new if found.stuck and found.stuck[1] in operators_of(need.roots)),
        new[-1].query,
    )
    return _stuck(query, rules, found, before, "must fit the fabric beside the others", end)


def _stuck(query: str, rules: Rules, found: Found, before: Assignment, must: str, end: str = "") -> str:
    """Where a search came to its end."""
    if found.stuck is None:
        return f"query {query!r} {must}; its rows find no way from an entry to an exit; wire one"
    _, op, placed = found.stuck
    search = Search(rules, Task([], placed, {}, []))
    owners = {one: before.queries_of(one) for one in before.placed}
    reasons = {slot.place: _busy(op, slot, search, placed, owners) for slot in rules.floor.slots.values()}
    return (
        f"query {query!r} {must}; for its {op}, which needs {_wants(op)}, there is no place: {_reasons(reasons)}{end}; drop a query, or "
        "use a larger fabric"
    )


def _busy(
    op: Operator,
    slot: Slot,
    search: Search,
    placed: Mapping[Operator, Placement],
    owners: Mapping[Operator, list[str]],
) -> str:
    """Why an operator does not stand at a slot."""
    rules, lacks = search.rules, search.rules.lacks(op, slot)
    if lacks is not None:
        return lacks
    holder = search.slots.holder.get(slot.place)
    if holder is not None:
        of = owners.get(holder)
        return f"taken by {holder}" + (f" of {listed(of)}" if of else "")
    if not search.slots.has_memory(op, slot):
        return f"has {slot.memory - search.slots.memory.get(slot.place, 0)} of {slot.memory} entries of memory left, not {op.memory}"
    if not search.slots.takes(op, slot):
        return "in use"
    single = Placement((slot.place,))
    if rules.hops_in(op, single, placed) is None:
        return "free, but its inputs do not reach it from the right sides, in order"
    if op.kind == "join" and slot.window < max(window for window in op.windows if window is not None):
        return f"free, but holds {slot.window} rows"
    return "free, but its results reach no exit"


def _wants(op: Operator) -> str:
    """What an operator needs, in words."""
    kind = op.kind.replace("_", "-")
    wants = [f"a block for {'an' if kind[0] in 'aeo' else 'a'} {kind}"]
    if op.kind == "join":
        windows = [window for window in op.windows if window is not None]
        wants[0] = f"blocks for a join of {len(op.inputs)} streams" + (
            f" within {max(windows)} rows" if windows else ""
        )
    if op.computes:
        wants.append("expressions")
    wants.append(f"{op.memory} {'entry' if op.memory == 1 else 'entries'} of memory")
    return listed(wants)


def _instead(op: Operator) -> str:
    if None in op.windows and op.kind == "join":
        return "give its streams windows of Rows(n), or say with fabric.holding(...) how many rows they hold"
    return "use a fabric that has one"


def _reasons(reasons: Mapping[str, str | None]) -> str:
    """Slots by reason, the first few."""
    by: dict[str, list[str]] = {}
    for place, reason in reasons.items():
        by.setdefault(reason or "", []).append(place)
    texts = [f"{_places(places)}: {reason}" for reason, places in by.items()]
    more = [f"{len(texts) - MOST_REASONS} more"] if len(texts) > MOST_REASONS else []
    return "; ".join([*texts[:MOST_REASONS], *more])


def _places(places: Sequence[str]) -> str:
    return (
        listed(list(places))
        if len(places) <= 3
        else f"{places[0]}, {places[1]}, ... and {places[-1]} ({len(places)} blocks)"
    )
