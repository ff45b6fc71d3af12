"""How a join is laid out in hardware: which stream is at which stage, by what its windows are keyed, and in which order each row searches.

What stays true: for each stream the plan reaches all others; every search is by a window's key, from a stream that was met before, or by
a window without a key, which is searched through.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.errors import FabricError
from watersmeet.fabric.operator import Attribute, Operator

Key = str | None  # a column; None: no key


@dataclass(frozen=True)
class Search:
    """A step of a plan: ``window`` (a number over all stages), of leaf ``into``; ``by``: the leaf and column that give the key."""

    window: int
    into: int
    by: tuple[int, str] | None


@dataclass(frozen=True)
class JoinPlan:
    """``stages``: of each leaf; ``keys``: of each window; ``searches``: of each leaf."""

    stages: tuple[int, ...]
    keys: tuple[Key, ...]
    searches: tuple[tuple[Search, ...], ...]


def plan_of(op: Operator, windows: Sequence[int]) -> JoinPlan:
    """A plan for stages with so many windows each."""
    edges = _edges(op)
    count = len(op.leaves)
    stages = list(range(count))
    if len(windows) == 3 and count == 3:  # the middle stage for who has most neighbours
        neighbours = [len({other for a, _, other, _ in edges if a == leaf}) for leaf in range(count)]
        middle = max(range(count), key=lambda leaf: (neighbours[leaf], leaf == 1))
        stages[1], stages[middle] = stages[middle], stages[1]
    firsts = [sum(windows[:stage]) for stage in stages]
    rooms = [windows[stage] for stage in stages]
    keys: list[list[Key]] = [[] for _ in range(count)]
    searches = [_reach(op, leaf, edges, keys, rooms, firsts) for leaf in range(count)]
    found: list[Key] = [None] * sum(windows)
    for leaf, own in enumerate(keys):
        for k, key in enumerate(own):
            found[firsts[leaf] + k] = key
    return JoinPlan(tuple(stages), tuple(found), tuple(map(tuple, searches)))


def _edges(op: Operator) -> list[tuple[int, str, int, str]]:
    """Equalities of two streams' columns, both ways."""
    found = []
    for term in op.terms:
        if term.condition == "=" and term.right is not None and term.constant is None:
            one, other = _leaf(op, term.left), _leaf(op, term.right)
            if one != other:
                found += [
                    (one, term.left.name, other, term.right.name),
                    (other, term.right.name, one, term.left.name),
                ]
    return found


def _leaf(op: Operator, attribute: Attribute) -> int:
    return op.leaves.index(attribute.leaf)


def _reach(
    op: Operator,
    start: int,
    edges: Sequence[tuple[int, str, int, str]],
    keys: list[list[Key]],
    rooms: Sequence[int],
    firsts: Sequence[int],
) -> list[Search]:
    met, steps = [start], []
    while len(met) < len(rooms):
        options = [
            (into, key, (by, column)) for by, column, into, key in edges if by in met and into not in met
        ]
        options.sort(
            key=lambda one: (one[0], one[1] not in keys[one[0]])
        )  # in the order of FROM; windows that are there
        scans = [(into, None, None) for into in range(len(rooms)) if into not in met]
        scans.sort(key=lambda one: None not in keys[one[0]])
        for into, key, by in [*options, *scans]:
            if key not in keys[into] and len(keys[into]) < rooms[into]:
                keys[into].append(key)
            if key in keys[into]:
                steps.append(Search(firsts[into] + keys[into].index(key), into, by))
                met.append(into)
                break
        else:
            raise FabricError(
                f"a join in hardware must find each stream by {max(rooms)} keys at most; got more in {op}; use fewer different columns"
            )
    return steps
