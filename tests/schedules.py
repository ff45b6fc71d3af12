"""Which move comes next, where a flow is moved step by step: drawn numbers first, then a seeded search.

Most orders of moves are harmless; a race needs somebody to be slow for long. So after the drawn moves, every kind of move
gets a random priority, the highest that is possible is made, and now and then a priority changes (probabilistic concurrency testing).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hypothesis import strategies as st

import watersmeet as wm
from watersmeet.flow.driver.engine import FlowEngine
from watersmeet.flow.network import Processor
from watersmeet.flow.runners.steps import Move, Steps

CHANGE = 0.05  # how often a priority changes


@dataclass(frozen=True)
class Schedule:
    """The same schedule makes the same moves."""

    drawn: tuple[int, ...]
    seed: int

    def begin(self) -> "Chooser":
        return Chooser(self)


class Chooser:
    """Picks one move after the other."""

    def __init__(self, schedule: Schedule) -> None:
        self._drawn = iter(schedule.drawn)
        self._random = random.Random(schedule.seed)
        self._priority: dict[tuple[str, int], float] = {}
        self._left: int | None = None

    def fail_after(self, moves: int | None) -> None:
        """Let the first core that moves after so many moves fail; None: no core."""
        self._left = moves

    def __call__(self, moves: Sequence[Move]) -> Move:
        number = next(self._drawn, None)
        move = moves[number % len(moves)] if number is not None else self._searched(moves)
        if self._left is not None:
            self._left -= 1
            if self._left < 0 and isinstance(move[0], Processor):
                self._left = None
                vars(move[0])["step"] = _fail
        return move

    def _searched(self, moves: Sequence[Move]) -> Move:
        if self._random.random() < CHANGE:
            changed = self._random.choice(moves)
            self._priority[changed[0].name, changed[1]] = self._random.random()
        return max(moves, key=self._rank)

    def _rank(self, move: Move) -> float:
        return self._priority.setdefault((move[0].name, move[1]), self._random.random())


def _fail(choice: int) -> None:
    raise RuntimeError("a core that was told to fail")


schedules = st.builds(
    Schedule, st.lists(st.integers(0, 11), max_size=120).map(tuple), st.integers(0, 2**32 - 1)
)


def step_by_step(join: wm.StreamJoin, schedule: Schedule) -> Chooser:
    """Let the schedule move the join's network. Nothing may have been pushed yet."""
    chooser = schedule.begin()
    core = join._engine
    assert isinstance(core, FlowEngine)
    assert core.running.runner is None
    core.running.runner_class = partial(Steps, choose=chooser)
    return chooser
