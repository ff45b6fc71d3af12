"""Assignments: valid by a machine that runs their programs, as good as the best of all, kept while queries come and go."""

from collections.abc import Callable
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fabric_cases import Everything, chained, need, topology
from fabric_machine import check
from watersmeet.errors import FabricError
from watersmeet.fabric.assign import assign
from watersmeet.fabric.assignment import Assignment, empty
from watersmeet.fabric.floor import floor_of
from watersmeet.fabric.folding import composed, folded, repeated
from watersmeet.fabric.operator import Need

seeds = st.integers(0, 2**32 - 1)


def depth_of(assignment: Assignment) -> int:
    depth = floor_of(assignment.topology).depth
    return sum(
        depth[placement.slots[0]] for op, placement in assignment.placed.items() if op.kind == "selection"
    )


def assigned_or_none(before: Assignment, needs: list[Need]) -> Assignment | None:
    try:
        return assign(before, needs)
    except FabricError:
        return None


@settings(max_examples=200, deadline=None)
@given(seeds)
@example(37226105)  # a synchroniser costs nothing but depth
@example(3586)  # a way that a synchroniser would be needed for is not taken, and the next one costs less
def test_the_best_assignment_is_found_and_none_only_if_there_is_none(seed: int) -> None:
    random = Random(seed)
    fabric = topology(random, 4)
    asked = [need(random, f"q{k}", chained(fabric)) for k in range(random.randint(1, 2))]
    everything, floor = Everything(fabric), floor_of(fabric)
    found = assigned_or_none(empty(fabric), asked)
    ways: list[Callable[[Need], Need]] = [lambda one: one, repeated, folded]
    bests = [everything.best_of([way(one) for one in asked]) for way in ways]
    ordered = not floor.meets or chained(fabric)  # no synchroniser is needed, which that knows nothing of
    if found is None:
        assert not any(bests) or not ordered
        return
    assert found.proven
    own = [composed(one) if floor.composes else one for one in asked]
    taken = next(k for k, way in enumerate(ways) if tuple(map(way, own)) == found.needs)
    best, reached = bests[taken], (found.slots, found.hops, depth_of(found))
    assert best is not None
    if ordered:
        assert not any(bests[:taken])
        assert reached == best
    else:
        assert reached >= best
    check(found)


@settings(max_examples=150, deadline=None)
@given(seeds)
@example(1164)  # what stays where it was becomes a result, and has no way out from there
@example(6009)  # a join rides on a selection of one input, whose rows the other input's may overtake
def test_queries_come_and_go_and_every_assignment_is_valid(seed: int) -> None:
    random = Random(seed)
    fabric = topology(random, 8)
    assigned, running = empty(fabric), {}
    for _ in range(random.randint(1, 6)):
        if running and not random.randrange(4):
            asked = dict(running)
            del asked[random.choice(sorted(running))]
        else:
            name = random.choice("pqrs")
            asked = {**running, name: need(random, name, chained(fabric))}
        before, found = assigned, assigned_or_none(assigned, list(asked.values()))
        if found is None:
            assert len(asked) >= len(running), "dropping a query must always fit"
            continue
        assigned, running = found, asked
        assert [one.query for one in assigned.needs] == list(running)
        check(assigned)
        assert set(assigned.moved) <= before.placed.keys()
        stayed = [op for op in assigned.placed if op in before.placed and op not in assigned.moved]
        assert all(before.placed[op] == assigned.placed[op] for op in stayed)
