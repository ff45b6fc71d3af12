"""Runs that are interrupted in one of their pushes, or in ``finish``: what the tests of interruptions share."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import watersmeet as wm
from conditions import Condition, between
from harness import expected, make, pairs, push, same_pairs
from interruptions import every_step
from oracle import Window
from strategies import Run
from watersmeet.flow.catalog import FLOWS

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
        flow = self.options.get("flow")
        if self.options.get("collect") is None and (flow is None or FLOWS[flow].prompt):
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
