"""Multiway flows give the oracle's combinations, whoever lets them move and in whatever order."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import examples
from multiway import Run, runs
from multiway_flows import check, shapes, stepwise
from schedules import Schedule, schedules
from watersmeet.flow.runners.threads import Threads

FLOWS = ("linear_mj", "circular_mj", "stashed_mj", "parallel_mj")
many = runs(st.integers(3, 5))
three = runs(st.just(3))


def run_for(data: st.DataObject, flow: str) -> Run:
    """A stash is for pairs of three streams."""
    return data.draw(three if flow == "stashed_mj" else many)


@pytest.mark.parametrize("flow", FLOWS)
@examples(60)
@given(data=st.data(), schedule=schedules, seed=st.integers(0, 2**32 - 1))
def test_any_schedule_gives_the_oracles_combinations(
    flow: str, data: st.DataObject, schedule: Schedule, seed: int
) -> None:
    rng = random.Random(seed)
    check(run_for(data, flow), shapes(rng, flow), stepwise(schedule), ahead=rng.random() < 0.5)


@pytest.mark.parametrize("flow", FLOWS)
@examples(15)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_threads_give_the_oracles_combinations(flow: str, data: st.DataObject, seed: int) -> None:
    rng = random.Random(seed)
    check(run_for(data, flow), shapes(rng, flow), Threads, ahead=rng.random() < 0.5)
