"""Why queries do not fit a fabric: what is missing, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.errors import listed
from watersmeet.fabric.assignment import Assignment, in_order
from watersmeet.fabric.floor import Slot
from watersmeet.fabric.operator import Need, Operator, operators_of
from watersmeet.fabric.rules import Placement, Rules
from watersmeet.fabric.search import Found, Search, Task

MOST_REASONS = 6


def refusal(rules: Rules, needs: Sequence[Need], before: Assignment, found: Found, cut: bool) -> str:
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
        alone = Search(rules, Task(in_order((need,)), {}, {}, need.roots)).run()
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
