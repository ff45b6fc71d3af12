"""Joins of many streams with a flow, beside the oracle: moved by threads, or step by step by a schedule."""

import random
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import watersmeet as wm
from multiway import Run, combinations, expected, late_ids, make, push, runs, same
from oracle import Combination
from schedules import Schedule, step_by_step
from watersmeet.flow.driver.engine import FlowEngine

FLOWS = ("linear_mj", "circular_mj", "stashed_mj", "parallel_mj")


def shape(rng: random.Random, flow: str) -> dict[str, Any]:
    """Options for a small network: a row or two a load, a few messages a link."""
    options: dict[str, Any] = {"flow": flow, "cores": 1}
    options |= {"granularity": rng.randint(1, 3), "queue": rng.choice([1, 2, 8, 20])}
    if flow == "parallel_mj":
        options["cores"] = rng.randint(1, 3)
    if flow == "stashed_mj":
        options["stash"] = rng.choice([None, "auto", 1, 3, 20])
    return options


def drawn(data: st.DataObject, flow: str) -> Run:
    """A run for a flow: a stash is for pairs of three streams."""
    return data.draw(runs(st.just(3) if flow == "stashed_mj" else st.integers(3, 5)))


def made(run: Run, schedule: Schedule | None, **options: Any) -> wm.StreamJoin:
    """``schedule``: who moves the network; None: threads."""
    join = make(run, **options)
    if schedule is not None:
        step_by_step(join, schedule)
    return join


def check(
    run: Run,
    schedule: Schedule | None,
    between: Callable[[int, wm.StreamJoin], wm.StreamJoin] | None = None,
    **options: Any,
) -> None:
    """The flow's answer is the oracle's, push by push: combinations and late rows."""
    join, wanted = made(run, schedule, **options), expected(run)
    for number, events in enumerate(run.pushes):
        result = push(join, run, events)
        same(combinations(result, run.names), wanted.combinations[number], f"{options}: push {number}", run)
        late = {name: rows.column("id").to_pylist() for name, rows in result.late.items() if rows.num_rows}
        assert late == late_ids(wanted.late[number])
        if between is not None:
            join = between(number, join)
    assert join.finish().count == 0


def check_ahead(run: Run, schedule: Schedule, **options: Any) -> None:
    """The same where nobody waits: all pushes are on their way at once, and results are taken at the end."""
    join, found = made(run, schedule, **options), list[Combination]()
    blocks = join.results()
    for events in run.pushes:
        push(join, run, events)
    join.finish()
    must_move(join)
    for block in blocks:
        found += combinations(block, run.names)
    wanted = [one for several in expected(run).combinations for one in several]
    same(found, wanted, f"{options}: all pushes", run)


def must_move(join: wm.StreamJoin) -> None:
    """The streams have ended: until the last mark is out, something must be able to move."""
    core = join._engine
    assert isinstance(core, FlowEngine)
    runner = core.running.runner
    if runner is None:
        return
    take = runner.take

    def taken(timeout: float | None = None) -> Any:
        message = take(timeout)
        assert message is not None, "stuck: the end of the streams is to leave, but nothing can move"
        return message

    runner.take = taken
