"""A push into a flow, or its finish, that is interrupted at any step is undone: the same again, and the rest, give the oracle's results.

Only the thread that pushes is interrupted; what fails in a core's own thread is the business of ``test_flow_faults.py``.
"""

from itertools import cycle
from typing import Any

import pytest

from interrupted_runs import Case, some_run
from watersmeet.flow.catalog import FLOWS

SAMPLE = 16  # steps a case in the default suite; the slow tests take all of them


def core_options(flow: str) -> dict[str, Any]:
    return {"flow": flow, "cores": 1 if flow == "three_step" else 2, "granularity": 3}


def steady() -> dict[str, Case]:
    """Every flow; joins that remember partners; windows of either kind; pushes in turn, interleaved and in order; the end."""
    cases = {}
    hows = cycle(["inner", "full", "left_semi", "left", "right_anti"])
    for flow in FLOWS:
        for window in ("rows", "range"):
            for at in (3, 6):
                how = next(hows)
                run = some_run(window, how)
                cases[f"{flow}-{window}-{how}-{'push' if at == 3 else 'finish'}"] = Case(
                    run, at, core_options(flow)
                )
        alone = some_run("rows", next(hows), "rr" * 6 + "sr" * 6, declared=False)
        cases[f"{flow}-one stream alone"] = Case(alone, 1, core_options(flow))
    for flow in ("split_join", "pan_join"):
        ordered = {**core_options(flow), "order": "inner", "precision": 2}
        cases[f"{flow}-inner order"] = Case(some_run("rows", "full"), 3, ordered)
    adaptive = {**core_options("split_join"), "order": "adaptive", "target_rate": 1e12}
    cases["split_join-adaptive"] = Case(some_run("unbounded"), 3, adaptive)
    for name, at, collected in (("kept", 3, 100), ("let through", 3, 5), ("at the end", 6, 100)):
        collecting = {**core_options("pan_join"), "collect": "1 h", "granularity": collected}
        cases[f"collect, {name}"] = Case(some_run("rows", "full"), at, collecting)
    return cases


CASES = steady()


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_operation_is_undone(name: str) -> None:
    CASES[name].interrupt(SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_operation_interrupted_at_any_step_is_undone(name: str) -> None:
    CASES[name].interrupt(None)


@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize("flow", FLOWS)
def test_a_push_that_brings_a_schema_is_undone(flow: str, at: int) -> None:
    run = some_run("range", "left", "r" * 8 + "srsr" * 3, declared=False)
    Case(run, at, core_options(flow)).interrupt(SAMPLE)


def test_a_push_that_is_not_undone_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness must see what it is there for: without going back, rows are counted and never joined."""
    monkeypatch.setattr("watersmeet.join.ledger.Ledger.back_to", lambda self, mark: None)
    with pytest.raises(AssertionError, match="stands otherwise than before") as caught:
        CASES["split_join-rows-inner-push"].interrupt(SAMPLE)
    assert "one of" in caught.value.__notes__[0]
