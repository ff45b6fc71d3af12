"""A push into a join of many streams that is interrupted at any step is undone: the same again, and the rest, give the oracle's results."""

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from interruptions import every_step
from multiway import Run, combinations, expected, make, numbered, push, same
from multiway_conditions import band, conjunction, equality, of_three
from oracle import Window

SAMPLE = 40  # steps a case in the default suite; the slow tests take all of them
WINDOWS: dict[str, dict[str, Window]] = {
    "rows": {"a": ("rows", 3), "b": ("rows", 4), "c": ("rows", 2)},
    "range": dict.fromkeys("abc", ("range", 8, "ts", 1)),
    "mixed": {"a": ("range", 9, "ts", 2), "b": ("rows", 4), "c": ("unbounded",)},
}
CONDITION = conjunction([equality("a", "b"), band("b", "c", 2, 2), of_three("a", "b", "c")[0]])


def some_run(windows: str, size: int = 6, **given: Any) -> Run:
    """Rows of three streams in turn, in pushes of ``size``; some are late, some match nobody."""
    events = []
    for place in range(36):
        time = max(0, place - 9 * (place % 7 == 6))
        events.append(("abc"[place % 3], {"id": 0, "ts": time, "k": place % 2, "x": (7 * place) % 5}))
    kept = [
        (name, {c: row[c] for c in ("id", "ts", *_columns(name))}) for name, row in events
    ]  # only what the condition reads
    times = dict.fromkeys("abc", pa.int64())
    return numbered(Run(CONDITION, WINDOWS[windows], (tuple(kept),), times, **given)).split([size])


def _columns(stream: str) -> list[str]:
    return [name.split(".")[1] for name in CONDITION.columns if name.startswith(f"{stream}.")]


@dataclass
class Case:
    """A run that is interrupted in its push ``at``."""

    run: Run
    at: int
    options: dict[str, Any]

    def __post_init__(self) -> None:
        self.wanted = expected(self.run)
        assert any(self.wanted.combinations[self.at :]), "nothing would be found"

    def make_join(self) -> wm.StreamJoin:
        join = make(self.run, **self.options)
        for events in self.run.pushes[: self.at]:
            push(join, self.run, events)
        return join

    def operation(self, join: wm.StreamJoin) -> wm.Result:
        return push(join, self.run, self.run.pushes[self.at])

    def check(self, join: wm.StreamJoin, given: wm.Result) -> None:
        results = [given, *(push(join, self.run, events) for events in self.run.pushes[self.at + 1 :])]
        for number, result in enumerate(results, self.at):
            found = combinations(result, self.run.names)
            same(found, self.wanted.combinations[number], f"push {number}", self.run)
        assert join.stats()["pushes"] == len(self.run.pushes)

    def interrupt(self, at_most: int | None) -> None:
        every_step(self.make_join, self.operation, self.check, at_most=at_most)


CASES = {
    **{windows: Case(some_run(windows, cores=2, subwindow=3), 3, {}) for windows in WINDOWS},
    "schemas": Case(replace(some_run("mixed"), declared=False), 0, {}),
    "one row": Case(some_run("rows", size=1, subwindow=2), 20, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_push_is_undone(name: str) -> None:
    CASES[name].interrupt(SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_push_interrupted_at_any_step_is_undone(name: str) -> None:
    CASES[name].interrupt(None)
