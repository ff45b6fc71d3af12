"""Bi-flow join gives what the engine gives, whatever the cores and handshakes do; rows that pass each other are never missed."""

from dataclasses import replace
from random import Random

import pytest

from hardware.harness import both, offers, stalls
from hardware.two_ports import found_out, mutant, random_run
from watersmeet.errors import OptionError
from watersmeet.hardware.joins import bi_flow, stamped
from watersmeet.hardware.joins.bi_flow import BiFlowJoin
from watersmeet.hardware.joins.bi_flow_figures import BI_FLOW, FIGURES, pace, quiet
from watersmeet.hardware.joins.driving import drive_with
from watersmeet.hardware.ports import pack
from watersmeet.hardware.registry import Design, Figure

SMALL = {"key": 4, "number": 8}
SHAPES = {
    "one core": {"cores": 1, "left_window": 3, "right_window": 4, "pipelined": 1},
    "two cores": {"cores": 2, "left_window": 4, "right_window": 7, "above": 1},
    "two cores, pipelined": {"cores": 2, "left_window": 5, "right_window": 3, "pipelined": 1},
    "three, uneven": {"cores": 3, "left_window": 8, "right_window": 3, "below": 2, "pipelined": 1},
    "four": {"cores": 4, "left_window": 4, "right_window": 6},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_random_streams_windows_and_stalls_give_what_the_engine_gives(shape: str, seed: int) -> None:
    assert random_run(BI_FLOW, {**SMALL, **SHAPES[shape]}, seed).agrees


@pytest.mark.slow
@pytest.mark.parametrize("pipelined", [0, 1])
def test_sixteen_cores_and_thousands_of_rows(pipelined: int) -> None:
    parameters = {"cores": 16, "left_window": 128, "right_window": 96, "pipelined": pipelined}
    run = BI_FLOW.run(parameters, rows=1000, values=100)
    assert run.agrees
    assert len(run.results) > 1000


def test_simulators_agree_in_every_cycle() -> None:
    rng = Random(6)
    layout = BiFlowJoin(2, 4, 5, 4, 8).layout
    rows = {
        side: [pack(layout, {"number": k, "key": rng.randrange(3), "live": 1}) for k in range(20)]
        for side in ("left", "right")
    }
    both(
        lambda: BiFlowJoin(2, 4, 5, 4, 8),
        ("python", "compiled"),
        inputs=rows,
        offers={side: offers(rng, 20) for side in rows},
        stalls={"results": stalls(rng)},
    )


@pytest.mark.parametrize("figure", [one for one in FIGURES if not one.slow], ids=lambda one: one.name)
def test_figures_are_the_papers_or_say_why_not(figure: Figure) -> None:
    value = figure.measure()
    assert figure.met(value) or figure.note, f"{figure.name}: {value}, the thesis has {figure.paper}"


@pytest.mark.slow
def test_the_state_machine_costs_more_than_the_flow() -> None:
    with_states, flow = (one.measure() for one in FIGURES if one.slow)
    assert 5 < with_states < 6
    assert 1 < flow < 2


def test_a_row_costs_five_cycles_a_comparison_or_one() -> None:
    parameters = {**SMALL, "number": 10, "cores": 2, "left_window": 16, "right_window": 16}
    assert 40 < pace(parameters) <= 45
    assert 8 < pace({**parameters, "pipelined": 1}) <= 16


def _changed(text: str, instead: str) -> Design:
    join = mutant(bi_flow, text, instead).BiFlowJoin
    return replace(BI_FLOW, make=join, drive=drive_with("bi_flow", join, quiet, bubbles=True))


MUTANTS = {
    "rows pass each other between two cores": (
        "turn.eq(self.now == self.phase)",
        "turn.eq(1)",
    ),
    "a window that is scanned gives rows away": ("fresh & ~self.scan &", "fresh &"),
    "a busy core takes rows": ("self.idle & (self.count <= self.part)", "(self.count <= self.part)"),
    "rows are handed on too early": (
        "(self.count > self.part)),",
        "(self.count >= self.part)),",
    ),
    "late meetings count": (" & may_meet(one, other, *self.windows)", ""),
    "a scan leaves the last row out": (
        "last.eq(buffers[1 - k].count - 1)",
        "last.eq(buffers[1 - k].count - 2)",
    ),
    "a stalled result is lost": ("go.eq(~match | out.i.ready)", "go.eq(1)"),
}


# The faster half; all of them with the slow tests.
QUICK = tuple(MUTANTS)[:5:2]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MUTANTS]
)
def test_mutants_are_found_out(name: str) -> None:
    assert found_out(_changed(*MUTANTS[name]), {**SMALL, **SHAPES["two cores, pipelined"]})


def test_a_window_that_is_a_row_too_long_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = mutant(
        stamped, "left.seen - right.number <= right_window", "left.seen - right.number <= right_window + 1"
    )
    monkeypatch.setattr(bi_flow, "may_meet", wrong.may_meet)
    assert found_out(BI_FLOW, {**SMALL, **SHAPES["two cores, pipelined"]})


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(
        OptionError, match="window must be at least 1 rows a core, 4; got 3; take fewer cores"
    ):
        BiFlowJoin(4, 3, 8)
    with pytest.raises(OptionError, match=r"below and above must be less than 2 \*\* key; got 16 and 0"):
        BiFlowJoin(key=4, below=16)
    with pytest.raises(OptionError, match="pipelined must be from 0 to 1; got 2"):
        BI_FLOW.build(pipelined=2)
