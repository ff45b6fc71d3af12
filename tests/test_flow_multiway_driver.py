"""Multiway flows as joins: counted, saved, undone, failing, taken by another thread, described, refused."""

import random
import re
import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, reload
from multiway import expected, make, push
from multiway_flows import FLOWS, check, drawn, made, shape
from schedules import Schedule, schedules, step_by_step
from test_multiway_interruptions import Case, some_run

seeds = st.integers(0, 2**32 - 1)
KEYS = "a.k = b.k AND b.k = c.k"


# ---- what any join can do ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", FLOWS)
@examples(20)
@given(data=st.data(), schedule=schedules, seed=seeds)
def test_counting_gives_as_many_as_listing(
    flow: str, data: st.DataObject, schedule: Schedule, seed: int
) -> None:
    run = drawn(data, flow)
    join = made(run, schedule, result="count", **shape(random.Random(seed), flow))
    counts = [push(join, run, events).count for events in run.pushes]
    assert counts == [len(found) for found in expected(run).combinations]


@pytest.mark.parametrize("flow", FLOWS)
@examples(8)
@given(data=st.data(), seed=seeds)
def test_a_join_that_is_saved_and_loaded_goes_on(
    flow: str, data: st.DataObject, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("state")

    def reloaded(number: int, join: wm.StreamJoin) -> wm.StreamJoin:
        with join:
            return reload(join, folder / str(number))

    check(drawn(data, flow), None, reloaded, **shape(random.Random(seed), flow))


@pytest.mark.parametrize("windows", ["rows", "range", "mixed"])
@pytest.mark.parametrize("flow", FLOWS)
def test_an_interrupted_push_is_undone(flow: str, windows: str) -> None:
    Case(some_run(windows), 4, {"flow": flow, "granularity": 2, "queue": 2}).interrupt(12)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("moves", [0, 7, 12])
def test_a_push_that_a_core_has_failed_can_be_pushed_again(flow: str, moves: int) -> None:
    run = some_run("mixed")
    join = make(run, flow=flow, granularity=1, queue=2, cores=2 if flow == "parallel_mj" else 1)
    chooser, wanted, failed = step_by_step(join, Schedule((), 5)), expected(run), 0
    for number, events in enumerate(run.pushes):
        if number == 3:
            chooser.fail_after(moves)
            with pytest.raises(wm.CoreFailed) as caught:
                push(join, run, events)
            assert caught.value.resume == {
                name: join.stats()["streams"][name]["arrived"] for name in run.names
            }
            chooser.fail_after(None)
            failed += 1
        found = push(join, run, events).numbers()
        assert (
            sorted(zip(*(found[name].tolist() for name in run.names), strict=True))
            == (wanted.combinations[number])
        )
    assert failed == 1


def keyed(rng: np.random.Generator, rows: int, keys: int) -> dict[str, Any]:
    return {"k": rng.integers(0, keys, rows), "x": rng.integers(0, 100, rows)}


@pytest.mark.parametrize("flow", FLOWS)
def test_another_thread_takes_what_a_producer_pushes(flow: str) -> None:
    """Thousands of rows in loads of some hundreds, all cores at work, links that fill up."""
    rng = np.random.default_rng(7)
    windows = {"a": wm.Rows(900), "b": wm.Range(700, time="t", lateness=100), "c": wm.Range(500, time="t")}
    options = {"granularity": 256, "queue": 2, "cores": 2 if flow == "parallel_mj" else 1, "flow": flow}
    pushes = []
    for at in range(0, 12_000, 1_000):
        rows = {name: keyed(rng, int(rng.integers(1, 700)), 400) for name in "abc"}
        for name in "bc":
            rows[name]["t"] = at + np.sort(rng.integers(0, 1_200, rows[name]["k"].size))
        pushes.append(rows)
    text = f"{KEYS} AND a.x + b.x > c.x"
    plain = wm.StreamJoin(text, windows=windows)
    wanted = [plain.push(rows).numbers() for rows in pushes]
    with wm.StreamJoin(text, windows=windows, **options) as join:
        join.push(
            {name: {column: values[:0] for column, values in pushes[0][name].items()} for name in "abc"}
        )
        found: list[Any] = []
        blocks = join.results()
        consumer = threading.Thread(target=lambda: found.extend(block.numbers() for block in blocks))
        consumer.start()
        for rows in pushes:
            join.push(rows)
        join.finish()
        consumer.join(60)
        assert not consumer.is_alive()
    assert listed(found) == listed(wanted)
    assert len(listed(found)) > 1_000


def listed(several: list[Any]) -> list[tuple[int, ...]]:
    return sorted(
        one
        for numbers in several
        for one in zip(*(column.tolist() for column in numbers.values()), strict=True)
    )


# ---- options ------------------------------------------------------------------------------------------------------


def joined(names: str = "abc", text: str = KEYS, **options: Any) -> wm.StreamJoin:
    return wm.StreamJoin(text, windows={name: wm.Rows(10) for name in names}, **options)


@pytest.mark.parametrize(
    ("value", "keywords"),
    [
        (wm.LinearMJ(queue=3), {"flow": "linear_mj", "queue": 3}),
        (wm.CircularMJ(granularity=5), {"flow": "circular_mj", "granularity": 5}),
        (wm.StashedMJ(stash=7), {"flow": "stashed_mj", "stash": 7}),
        (wm.ParallelMJ(cores=2, fanout=3), {"flow": "parallel_mj", "cores": 2, "fanout": 3}),
    ],
)
def test_a_flow_value_says_the_same_as_its_keywords(value: Any, keywords: dict[str, Any]) -> None:
    assert joined(flow=value).options == joined(**keywords).options
    assert joined(flow=value).options.model == value


@pytest.mark.parametrize(
    ("names", "options", "refusal"),
    [
        (
            "ab",
            {"flow": "circular_mj"},
            "flow='circular_mj' must have three streams or more; got 2; leave it out, or use one of the flows 'three_step', ",
        ),
        (
            "abcd",
            {"flow": "stashed_mj"},
            "flow='stashed_mj' must have three streams; got 4; leave it out, or use one of the flows 'linear_mj', 'circular_mj', "
            "'parallel_mj'; or chain two-way joins",
        ),
        (
            "abc",
            {"flow": "split_join"},
            "flow='split_join' must have two streams; got 3; leave it out, or use one of the flows 'linear_mj', 'circular_mj', "
            "'stashed_mj', 'parallel_mj'; or chain two-way joins",
        ),
        (
            "abc",
            {"flow": "linear_mj", "order": "outer"},
            "flow='linear_mj' cannot promise order='outer'; flows that can: ",
        ),
        (
            "abc",
            {"flow": "circular_mj", "cores": 2},
            "flow='circular_mj' has as many cores as its streams need; got cores=2",
        ),
        (
            "abc",
            {"flow": "parallel_mj", "stash": 5},
            "stash= goes with flow='stashed_mj'; got flow='parallel_mj'",
        ),
        (
            "abc",
            {"flow": "linear_mj", "fanout": 2},
            "fanout= goes with flow='split_join', 'parallel_mj'; got flow='linear_mj'",
        ),
        (
            "abc",
            {"flow": "parallel_mj", "on_core_failure": "continue"},
            "flow='parallel_mj' cannot go on without a core, as on_core_failure='continue' asks; flows that can: ",
        ),
        (
            "abc",
            {"flow": "circular_mj", "probe_order": {"a": ["c", "b"]}},
            "probe_order= must be left out with flow='circular_mj', whose cores fix the order of the streams; got {'a': ['c', 'b']}",
        ),
        ("abc", {"flow": "linear_mj", "how": "left"}, "how='left' must have two streams; got 3"),
        ("abc", {"flow": wm.StashedMJ, "cores": 1}, "got the class StashedMJ; say StashedMJ()"),
    ],
)
def test_what_a_flow_cannot_do_is_refused(names: str, options: dict[str, Any], refusal: str) -> None:
    text = " AND ".join(f"{p}.k = {q}.k" for p, q in pairwise(names))
    with pytest.raises(wm.OptionError, match=re.escape(refusal)):
        joined(names, text, **options)


def test_a_stash_has_some_room() -> None:
    with pytest.raises(
        wm.OptionError, match="stash= must be 'auto', a whole number of entries of at least 1, or None; got 0"
    ):
        wm.StashedMJ(stash=0)


@pytest.mark.parametrize(
    ("flow", "cores"), [("linear_mj", 2), ("circular_mj", 3), ("stashed_mj", 2), ("parallel_mj", 1)]
)
def test_a_join_tells_its_flow(flow: str, cores: int) -> None:
    with joined(flow=flow, granularity=16) as join:
        for _ in range(3):
            join.push({name: {"k": [1, 2, 3]} for name in "abc"})
        assert f"flow       {flow} on {cores} core(s), up to 16 rows a message" in join.explain()
        facts = join.describe()
        assert facts["flow"]["cores"] == cores
        assert all(facts["streams"][name]["indexes"] for name in "abc")
        orders = {name: [step["stream"] for step in steps] for name, steps in facts["plan"]["orders"].items()}
        if flow == "circular_mj":
            assert orders == {"a": ["b", "c"], "b": ["c", "a"], "c": ["a", "b"]}


def test_the_users_probe_order_is_kept() -> None:
    wanted = {"a": ["c", "b"], "b": ["c", "a"], "c": ["b", "a"]}
    with joined(flow="linear_mj", probe_order=wanted) as join:
        join.push({name: {"k": [1, 2, 3]} for name in "abc"})
        orders = join.describe()["plan"]["orders"]
        assert {name: [step["stream"] for step in steps] for name, steps in orders.items()} == wanted


def test_a_stash_is_used_by_the_stream_that_arrives_most_often() -> None:
    with joined(flow=wm.StashedMJ(stash=50)) as join:
        for at in range(6):
            rows = {"a": [at % 3], "b": [0, 1, 2, 0], "c": [at % 3]}
            join.push({name: {"k": keys} for name, keys in rows.items()})
        stash = join.describe()["plan"]["stash"]
        assert stash["hot"] == "b"
        assert stash["entries"] > 0
