"""Multiway flows give the oracle's combinations, whoever lets them move and in whatever order; and do what other joins do."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import examples
from multiway_flows import FLOWS, check, check_ahead, drawn, shape
from schedules import Schedule, schedules
from watersmeet.flow.models.multiway.stage import MultiWork

seeds = st.integers(0, 2**32 - 1)


# ---- who moves ----------------------------------------------------------------------------------------------------


@pytest.fixture
def _small_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MultiWork, "lot", 1)


@pytest.mark.parametrize("flow", FLOWS)
@examples(20)
@given(data=st.data(), schedule=schedules, seed=seeds)
@pytest.mark.usefixtures("_small_lots")
def test_any_schedule_gives_the_oracles_combinations(
    flow: str, data: st.DataObject, schedule: Schedule, seed: int
) -> None:
    check(drawn(data, flow), schedule, **shape(random.Random(seed), flow))


@pytest.mark.parametrize("flow", FLOWS)
@examples(20)
@given(data=st.data(), schedule=schedules, seed=seeds)
@pytest.mark.usefixtures("_small_lots")
def test_pushes_on_their_way_at_once_give_the_same(
    flow: str, data: st.DataObject, schedule: Schedule, seed: int
) -> None:
    check_ahead(drawn(data, flow), schedule, **shape(random.Random(seed), flow))


@pytest.mark.parametrize("flow", FLOWS)
@examples(15)
@given(data=st.data(), seed=seeds)
def test_threads_give_the_oracles_combinations(flow: str, data: st.DataObject, seed: int) -> None:
    check(drawn(data, flow), None, **shape(random.Random(seed), flow))
