"""A push into a flow, or its finish, that is interrupted at any step is undone: the same again, and the rest, give the oracle's results.

Only the thread that pushes is interrupted; what fails in a core's own thread is the business of ``test_flow_faults.py``.
"""

from dataclasses import dataclass, replace
from itertools import chain, cycle
from typing import Any

import pytest

import watersmeet as wm
from conditions import Condition, between
from harness import expected, make, pairs, push, same_pairs
from interruptions import every_step
from oracle import Window
from strategies import Run
from watersmeet.flow.catalog import FLOWS

SAMPLE = 16  # steps a case in the default suite; the slow tests take all of them
BAND = Condition(
    "r.x BETWEEN s.a - 1 AND s.a + 1",
    lambda r, s: between(r["x"], s["a"] - 1, s["a"] + 1),
    ("r.x", "s.a"),
    ("bi_sort",),
)
WINDOWS: dict[str, Window] = {
    "rows": ("rows", 5),
    "range": ("range", 3, "ts", 1),
    "unbounded": ("unbounded",),
}


def some_run(window: str, how: str = "inner", streams: str = "rs" * 12, size: int = 4, **given: Any) -> Run:
    """Rows of both streams in turn, in pushes of ``size``; some are late, some match nobody."""
    numbers = {"r": 0, "s": 0}
    events = []
    for place, stream in enumerate(streams):
        value = (7 * place) % 11 + 50 * (place % 5 == 4)
        row = {
            "id": numbers[stream],
            "ts": max(0, place - 6 * (place % 7 == 6)),
            "xa"["rs".index(stream)]: value,
        }
        events.append((stream, row))
        numbers[stream] += 1
    run = Run(BAND, WINDOWS[window], WINDOWS[window], (tuple(events),), how=how, **given)
    return run.split([size])


@dataclass
class Case:
    """A run that is interrupted in its push ``at``; at the end of its pushes: in ``finish``."""

    run: Run
    at: int
    options: dict[str, Any]

    def __post_init__(self) -> None:
        self.wanted = expected(self.run)
        self.found: list[list[tuple[int, int]]] = []

    def make_join(self) -> wm.StreamJoin:
        join = make(replace(self.run, cores=1), **self.options)
        self.found = [pairs(push(join, self.run, events)) for events in self.run.pushes[: self.at]]
        return join

    def operation(self, join: wm.StreamJoin) -> wm.Result:
        if self.at == len(self.run.pushes):
            return join.finish()
        return push(join, self.run, self.run.pushes[self.at])

    def check(self, join: wm.StreamJoin, given: wm.Result) -> None:
        found = [*self.found, pairs(given)]
        found += [pairs(push(join, self.run, events)) for events in self.run.pushes[self.at + 1 :]]
        if self.at < len(self.run.pushes):
            found.append(pairs(join.finish()))
        if self.options.get("collect") is None and FLOWS[self.options["flow"]].prompt:
            for number, (got, want) in enumerate(zip(found, self.wanted.pairs, strict=True)):
                same_pairs(got, want, f"push {number}")
        else:
            same_pairs(list(chain(*found)), list(chain(*self.wanted.pairs)), "whole run")
        stats = join.stats()
        assert stats["pushes"] == len(self.run.pushes)
        late = chain(*self.wanted.late)
        assert sum(stream["late"] for stream in stats["streams"].values()) == len(list(late))

    def interrupt(self, at_most: int | None, **given: Any) -> int:
        return every_step(self.make_join, self.operation, self.check, at_most=at_most, **given)


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
    monkeypatch.setattr("watersmeet.flow.savepoint.Savepoint.restore", lambda self: None)
    with pytest.raises(AssertionError, match="stands otherwise than before") as caught:
        CASES["split_join-rows-inner-push"].interrupt(SAMPLE)
    assert "one of" in caught.value.__notes__[0]
