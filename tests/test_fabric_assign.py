"""Assignments: valid by a machine that runs their programs, as good as the best of all, kept while queries come and go."""

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fabric_cases import Everything, chained, need, topology
from fabric_machine import check
from watersmeet.errors import FabricError
from watersmeet.fabric.assign import assign
from watersmeet.fabric.assignment import Assignment, empty
from watersmeet.fabric.floor import floor_of
from watersmeet.fabric.folding import folded, repeated
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
def test_the_best_assignment_is_found_and_none_only_if_there_is_none(seed: int) -> None:
    random = Random(seed)
    fabric = topology(random, 4)
    asked = [need(random, f"q{k}", chained(fabric)) for k in range(random.randint(1, 2))]
    everything = Everything(fabric)
    found = assigned_or_none(empty(fabric), asked)
    best = None
    for way in (lambda one: one, repeated, folded):
        best = best or everything.best_of([way(one) for one in asked])
    ordered = not floor_of(fabric).meets or chained(
        fabric
    )  # no synchroniser is needed, which that knows nothing of
    if found is None:
        assert best is None or not ordered
        return
    assert found.proven
    assert best is not None
    reached = found.slots, found.hops, depth_of(found)
    assert best == reached or (best < reached and not ordered)
    check(found)


@settings(max_examples=150, deadline=None)
@given(seeds)
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
