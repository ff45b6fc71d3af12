"""A push, ``advance`` or ``finish`` that is interrupted at any step is undone: the same again, and the rest, give the oracle's results."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

import watersmeet as wm
from conditions import Condition, between
from harness import expected, make, pairs, push, same_pairs
from interruptions import Place, every_step
from oracle import Window
from strategies import Run

SAMPLE = 40  # steps a case in the default suite; the slow tests take all of them

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
    run: Run
    at: int
    options: dict[str, Any]

    def __post_init__(self) -> None:
        self.wanted = expected(self.run)
        self.found: list[list[tuple[int, int]]] = []

    def make_join(self) -> wm.StreamJoin:
        join = make(self.run, **self.options)
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
        for number, (got, want) in enumerate(zip(found, self.wanted.pairs, strict=True)):
            same_pairs(got, want, f"push {number}")
        stats = join.stats()
        assert stats["pushes"] == len(self.run.pushes)
        late = sum(len(push) for push in self.wanted.late)
        assert sum(stream["late"] for stream in stats["streams"].values()) == late

    def interrupt(self, at_most: int | None, **given: Any) -> int:
        return every_step(self.make_join, self.operation, self.check, at_most=at_most, skip=outside, **given)


def outside(place: Place) -> bool:
    """Not steps: the release of a lock, which no interrupt can prevent, and callbacks whose exceptions the interpreter ignores."""
    return place.callee == "lock.__exit__" or place.callee.startswith(("WeakSet.", "WeakKeyDictionary."))


def cases() -> dict[str, Case]:
    found = {}
    for how in ("inner", "left", "full", "left_semi", "right_anti"):
        for window in WINDOWS:
            for at, where in ((3, "push"), (6, "finish")):
                run = some_run(window, how, cores=1 + (how == "full"), subwindow=3)
                found[f"{how}-{window}-{where}"] = Case(run, at, {})
    for window in ("rows", "range"):  # the second push brings both schemas, or the first and then the other
        for at in (0, 2):
            run = some_run(window, "left", "r" * 8 + "srsr" * 3, declared=False)
            found[f"schema-{window}-{at}"] = Case(run, at, {})
    ones = some_run("rows", "inner", "rrss" * 6, size=2)
    found["short way"] = Case(ones, 9, {})
    found["short way, expiring"] = Case(replace(ones, subwindow=2), 10, {})
    for index in ("hash", "rap_table", "wib_tree", "scan"):
        condition = BAND
        if index == "hash":
            condition = Condition("r.x = s.a", lambda r, s: r["x"] == s["a"], ("r.x", "s.a"), ("hash",))
        run = replace(some_run("rows", "full", subwindow=4), condition=condition, index=index)
        found[index] = Case(run, 3, {})
    return found


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_operation_is_undone(name: str) -> None:
    CASES[name].interrupt(SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_operation_interrupted_at_any_step_is_undone(name: str) -> None:
    CASES[name].interrupt(None)
