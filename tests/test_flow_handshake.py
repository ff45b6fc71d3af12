"""Handshake join and low-latency handshake join: the oracle's pairs, each once, whoever of the cores is fast or slow."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, expected, late, late_ids, make, pairs, push, reload, same_pairs
from oracle import Pair
from schedules import Schedule, schedules, step_by_step
from strategies import HOWS, INDEXES, Run, runs
from watersmeet.flow.driver.engine import FlowEngine
from watersmeet.flow.runners.steps import Move, Steps
from watersmeet.streams.window import Window

FLOWS = ("handshake", "low_latency_handshake")
shapes = st.fixed_dictionaries(
    {"cores": st.integers(1, 5), "granularity": st.integers(1, 5), "queue": st.integers(1, 2)}
)


def drive(run: Run, schedule: Schedule | None, **options: Any) -> tuple[list[list[Pair]], list[Any]]:
    """Push everything, then finish: pairs and late ids by push."""
    found, refused = [], []
    with closing(make(run, **options)) as join:
        if schedule is not None:
            step_by_step(join, schedule)
        for events in run.pushes:
            result = push(join, run, events)
            found.append(pairs(result))
            refused.append(late(result))
        found.append(pairs(join.finish()))
    return found, refused


def check(run: Run, schedule: Schedule | None, **options: Any) -> None:
    """The oracle's pairs: over all pushes, and from a flow that is prompt, push by push."""
    wanted = expected(run)
    found, refused = drive(run, schedule, **options)
    same_pairs(list(chain(*found)), list(chain(*wanted.pairs)), f"all pushes, {options}, {schedule}", run)
    if options["flow"] == "low_latency_handshake":
        for number, (got, want) in enumerate(zip(found, wanted.pairs, strict=True)):
            same_pairs(got, want, f"push {number}", run)
    assert refused == [late_ids(events) for events in wanted.late]


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("index", INDEXES)
def test_every_index_gives_what_the_three_step_procedure_gives(flow: str, index: str) -> None:
    @examples(30)
    @given(runs(index), shapes, schedules)
    def holds(run: Run, shape: dict[str, int], schedule: Schedule) -> None:
        check(run, schedule, flow=flow, **shape)

    holds()


@pytest.mark.parametrize("flow", FLOWS)
def test_whoever_moves_next_every_pair_meets_once(flow: str) -> None:
    @examples(150)
    @given(runs(), shapes, schedules)
    def holds(run: Run, shape: dict[str, int], schedule: Schedule) -> None:
        event(f"{shape['cores']} cores")
        check(run, schedule, flow=flow, **shape)

    holds()


@pytest.mark.parametrize("flow", FLOWS)
def test_threads_give_what_the_three_step_procedure_gives(flow: str) -> None:
    @examples(40)
    @given(runs(), shapes)
    def holds(run: Run, shape: dict[str, int]) -> None:
        check(run, None, flow=flow, **shape)

    holds()


@pytest.mark.parametrize("flow", FLOWS)
def test_every_join_type_gives_what_the_three_step_procedure_gives(flow: str) -> None:
    @examples(60)
    @given(st.sampled_from(HOWS).flatmap(lambda how: runs(how=how)), shapes, schedules)
    def holds(run: Run, shape: dict[str, int], schedule: Schedule) -> None:
        check(run, schedule, flow=flow, **shape)

    holds()


@pytest.mark.parametrize("flow", FLOWS)
def test_a_join_that_is_saved_and_loaded_goes_on_where_it_was(flow: str) -> None:
    @examples(40)
    @given(runs(), shapes, schedules)
    def holds(run: Run, shape: dict[str, int], schedule: Schedule) -> None:
        found: list[Pair] = []
        join = make(run, flow=flow, **shape)
        with TemporaryDirectory() as folder:
            for number, events in enumerate(run.pushes):
                if number % 2:
                    step_by_step(join, schedule)
                found += pairs(push(join, run, events))
                saved = reload(join, Path(folder) / str(number))
                join.close()
                join = saved
            found += pairs(join.finish())
            join.close()
        same_pairs(found, list(chain(*expected(run).pairs)), f"{flow}, {shape}, {schedule}", run)

    holds()


@pytest.mark.parametrize("flow", FLOWS)
def test_a_push_in_which_a_core_fails_can_be_made_again(flow: str) -> None:
    @examples(40)
    @given(runs(), shapes, schedules, st.integers(0, 20))
    def holds(run: Run, shape: dict[str, int], schedule: Schedule, moves: int) -> None:
        found: list[Pair] = []
        with closing(make(run, flow=flow, **shape)) as join:
            chooser = step_by_step(join, schedule)
            for events in run.pushes:
                chooser.fail_after(moves)
                try:
                    result = push(join, run, events)
                except wm.CoreFailed:
                    event("failed")
                    chooser.fail_after(None)
                    result = push(join, run, events)
                found += pairs(result)
            chooser.fail_after(None)
            found += pairs(join.finish())
        same_pairs(found, list(chain(*expected(run).pairs)), f"{flow}, {shape}, {schedule}", run)

    holds()


@pytest.mark.parametrize("flow", FLOWS)
def test_results_can_be_taken_while_another_thread_pushes(flow: str) -> None:
    @examples(20)
    @given(runs(), shapes)
    def holds(run: Run, shape: dict[str, int]) -> None:
        run = replace(run, declared=True)
        with closing(make(run, flow=flow, **shape)) as join, ThreadPoolExecutor(1) as other:
            results = join.results()
            taken = other.submit(lambda: [pair for block in results for pair in pairs(block)])
            for events in run.pushes:
                push(join, run, events)
            join.finish()
            found = taken.result(timeout=60)
        same_pairs(found, list(chain(*expected(run).pairs)), f"{flow}, {shape}", run)

    holds()


@pytest.mark.parametrize("told", [True, False], ids=["told_before", "told_now"])
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(("timed", "counted"), ["rs", "sr"])
@pytest.mark.parametrize("flow", FLOWS)
def test_a_row_that_is_over_when_it_comes_meets_who_was_there(
    flow: str, timed: str, counted: str, cores: int, told: bool
) -> None:
    over_when_it_comes(flow, timed, counted, cores, told)


def over_when_it_comes(flow: str, timed: str, counted: str, cores: int, told: bool) -> None:
    """A row's time is out of its window already, so no later row of the count window sees it. It sees the rows before it all the same,
    also those that travel more slowly than what is said about times.
    """
    windows: dict[str, Window] = {timed: wm.Range(0, time="ts", lateness=1), counted: wm.Rows(1)}
    shape: dict[str, Any] = {"index": "bi_sort", "subwindow": 1, "granularity": 1, "queue": 4}
    join = wm.StreamJoin("r.k = s.k", r=windows["r"], s=windows["s"], flow=flow, cores=cores, **shape)
    with closing(join):
        core = join._engine
        assert isinstance(core, FlowEngine)
        core.running.runner_class = partial(Steps, choose=partial(fast, "rs".index(timed)))
        found = pairs(join.push(**{timed: {"k": [0, 0], "ts": [0, 5]}}))
        if told:
            found += pairs(join.push(**{counted: {"k": [1]}}))
        found += pairs(join.push(**{counted: {"k": [0]}, timed: {"k": [0], "ts": [4]}}))
        found += pairs(join.finish())
    row = 1 if told else 0
    wanted = [(row, 1), (row, 2)] if counted == "r" else [(1, row), (2, row)]
    same_pairs(found, wanted, flow)


def fast(stream: int, moves: Sequence[Move]) -> Move:
    """What is pushed enters at once; then one stream travels as far as it can before the other moves."""
    return max(moves, key=lambda move: (move[0].name == "entry", move[1] == stream))


# ---- where rows are ----------------------------------------------------------------------------------------------


def numbers(rows: int, start: int = 0) -> dict[str, np.ndarray]:
    return {"k": np.arange(start, start + rows), "ts": np.arange(start, start + rows)}


def line(join: wm.StreamJoin) -> Any:
    core = join._engine
    assert isinstance(core, FlowEngine)
    return core.running.flow


def held(join: wm.StreamJoin, side: int) -> list[int]:
    return [core.end[side] - core.kept[side] for core in line(join).cores]


def test_a_window_that_fills_is_spread_evenly() -> None:
    with closing(handshake(wm.Rows(100), wm.Rows(100))) as join:
        join.push(r=numbers(20), s=numbers(20))
        assert held(join, 0) == held(join, 1) == [5, 5, 5, 5]
        join.push(r=numbers(20, 20))
        assert held(join, 0) == [10, 10, 10, 10]
        assert held(join, 1) == [5, 5, 5, 5]


def handshake(r: Window, s: Window, **options: Any) -> wm.StreamJoin:
    return wm.StreamJoin("r.k = s.k", r=r, s=s, **{"flow": "handshake", "cores": 4, "granularity": 1, **options})  # fmt: skip


@pytest.mark.parametrize("window", [wm.Rows(40), wm.Range(40, time="ts")])
@pytest.mark.parametrize("granularity", [1, 7, 1000])
def test_what_is_over_leaves(window: Window, granularity: int) -> None:
    with closing(handshake(window, window, granularity=granularity, subwindow=4)) as join:
        for start in range(0, 600, 100):
            join.push(r=numbers(100, start), s=numbers(100, start))
            most = 4 * (40 + 100)  # a share and a load in each core
            assert sum(held(join, 0)) < most
            assert sum(held(join, 1)) < most
            assert all(store.rows <= most for core in line(join).cores for store in core.stores)


def test_of_a_timed_stream_what_is_over_leaves_though_the_other_stream_is_silent() -> None:
    with closing(handshake(wm.Range(10, time="ts"), wm.Rows(10))) as join:
        join.push(r=numbers(1), s=numbers(1))
        for start in range(1, 400, 10):
            join.push(r=numbers(10, start))
            assert sum(held(join, 0)) < 60


def test_rows_that_are_over_when_they_come_leave() -> None:
    """The clock stands still, yet the cores hear of more rows that are over. Only the row that set the clock holds up those behind it."""
    windows = {"r": wm.Rows(5), "s": wm.Range(10, time="ts", lateness=60)}
    with closing(handshake(**windows, flow="low_latency_handshake")) as join:
        join.push(r=numbers(1), s={"k": [0], "ts": [100]})
        for _ in range(40):
            join.push(r=numbers(1), s={"k": [0] * 4, "ts": [50] * 4})
        *others, _ = sorted(core.stores[1].rows for core in line(join).cores)
        assert max(others) <= 2


def test_cores_know_their_borders() -> None:
    with closing(handshake(wm.Rows(12), wm.Rows(12), granularity=2)) as join:
        join.push(r=numbers(30), s=numbers(30))
        borders = line(join).borders()
        assert [border[0] for border in borders[:-1]] == [border[1] for border in borders[1:]]
        assert [border[3] for border in borders[:-1]] == [border[2] for border in borders[1:]]
        assert borders[0][1] == borders[-1][3] == 30


def test_no_row_is_forgotten_while_the_last_ones_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the streams follows right behind a push: cores report the push when rows have begun to move on again."""
    schemas = {"r": {"x": pa.int64()}, "s": {"a": pa.int64()}}
    join = wm.StreamJoin(
        "r.x <=> s.a", r=wm.Rows(9), s=wm.Rows(9), how="full", flow="handshake", cores=3, schemas=schemas
    )
    blocks = join.results()
    join.push(r={"x": [1, 2]}, s={"a": [1, 3]})
    join.finish()
    monkeypatch.setattr("watersmeet.flow.driver.engine.FlowEngine.end_of_push", lambda *given: 1 / 0)
    assert sorted(pair for block in blocks for pair in pairs(block)) == [(-1, 1), (0, 0), (1, -1)]
