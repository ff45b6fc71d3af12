"""All flows give the multiset of the three-step procedure: any index, window, condition, join type, granularity and number of cores."""

import threading
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import check, drive, examples, expected, make, pairs, push, reload, same_pairs
from strategies import HOWS, INDEXES, Run, runs
from test_advance import a_time, moves
from watersmeet.flow.catalog import FLOWS

PROMPT = [name for name, flow in FLOWS.items() if flow.prompt]
LAZY = [name for name, flow in FLOWS.items() if not flow.prompt]
any_run = st.sampled_from(HOWS).flatmap(lambda how: runs(how=how))


@st.composite
def options(draw: st.DrawFn, flow: str) -> dict[str, Any]:
    """What a flow may be given."""
    given: dict[str, Any] = {
        "flow": flow,
        "cores": 1 if flow == "three_step" else draw(st.sampled_from([1, 2, 3, 5])),
        "granularity": draw(st.sampled_from([1, 2, 3, 7, None])),
        "queue": draw(st.sampled_from([1, 2, None])),
    }
    if flow == "split_join":
        given["fanout"] = draw(st.sampled_from([2, 3, None]))
    return given


def check_whole(run: Run, **given: Any) -> None:
    """The oracle's pairs over the whole run, whenever they come; late rows push by push."""
    wanted = expected(run)
    found, _ = drive(run, **given)
    same_pairs(
        list(chain.from_iterable(found)),
        list(chain.from_iterable(wanted.pairs)),
        f"whole run with {given}",
        run,
    )


@pytest.mark.parametrize("flow", PROMPT)
def test_any_join_in_a_prompt_flow_is_the_oracles_push_by_push(flow: str) -> None:
    @examples(60)
    @given(any_run, options(flow))
    def holds(run: Run, given: dict[str, Any]) -> None:
        check(run, **given)

    holds()


@pytest.mark.parametrize("flow", LAZY)
def test_any_join_in_a_lazy_flow_is_the_oracles_in_the_end(flow: str) -> None:
    @examples(60)
    @given(any_run, options(flow))
    def holds(run: Run, given: dict[str, Any]) -> None:
        check_whole(run, **given)

    holds()


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("flow", FLOWS)
def test_any_index_in_any_flow(flow: str, index: str) -> None:
    @examples(10)
    @given(runs(index), options(flow))
    def holds(run: Run, given: dict[str, Any]) -> None:
        check_whole(run, **given)

    holds()


@pytest.mark.parametrize("mode", ["ranges", "count"])
@pytest.mark.parametrize("flow", FLOWS)
def test_ranges_and_counts_equal_pairs(flow: str, mode: str) -> None:
    @examples(15)
    @given(runs("bi_sort"), options(flow))
    def holds(run: Run, given: dict[str, Any]) -> None:
        wanted = sorted(chain.from_iterable(expected(run).pairs))
        join = make(run, result=mode, **given)
        results = [push(join, run, events) for events in run.pushes] + [join.finish()]
        if mode == "ranges":
            assert sorted(chain.from_iterable(map(pairs, results))) == wanted
        assert sum(result.count for result in results) == len(wanted)

    holds()


@pytest.mark.parametrize("flow", FLOWS)
def test_save_and_load_at_any_moment_goes_on_exactly(flow: str) -> None:
    @examples(12)
    @given(any_run, options(flow), st.integers(0, 5))
    def holds(run: Run, given: dict[str, Any], moment: int) -> None:
        with TemporaryDirectory() as folder:

            def between(number: int, join: wm.StreamJoin) -> wm.StreamJoin:
                return reload(join, Path(folder) / "state") if number == moment else join

            wanted = sorted(chain.from_iterable(expected(run).pairs))
            same_pairs(list(chain.from_iterable(drive(run, between, **given)[0])), wanted, "reloaded", run)

    holds()


def numbers(seed: int, pushes: int, rows: int) -> list[dict[str, dict[str, np.ndarray]]]:
    random = np.random.default_rng(seed)
    return [
        {"r": {"x": random.integers(0, 500, rows)}, "s": {"a": random.integers(0, 500, rows)}}
        for _ in range(pushes)
    ]


@pytest.mark.parametrize("flow", FLOWS)
def test_a_clock_that_is_moved_does_in_a_flow_what_it_does_in_the_engine(flow: str) -> None:
    """Rows that wait for an idle stream come when its clock moves; in a lazy flow, in the end."""

    @examples(20)
    @given(any_run, options(flow), moves)
    def holds(run: Run, given: dict[str, Any], between: list[tuple[str, int] | None]) -> None:
        run = replace(run, declared=True)
        found: list[list[list[tuple[int, int]]]] = []
        for options in ({}, given):
            join, results = make(run, **options), []
            for events, move in zip(run.pushes, chain(between, repeat(None)), strict=False):
                results.append(push(join, run, events))
                if move is not None and {"r": run.r, "s": run.s}[move[0]][0] == "range":
                    results.append(join.advance({move[0]: a_time(run, *move)}))
            found.append([pairs(result) for result in [*results, join.finish()]])
        wanted, got = found
        if flow in PROMPT:
            assert got == wanted
        same_pairs(list(chain(*got)), list(chain(*wanted)), f"whole run with {given}", run)

    holds()


def band_join(**given: Any) -> wm.StreamJoin:
    return wm.StreamJoin("r.x BETWEEN s.a - 2 AND s.a + 2", r=wm.Rows(300), s=wm.Rows(200), **given)


@pytest.mark.parametrize("how", ["inner", "left", "full", "left_semi", "right_anti"])
@pytest.mark.parametrize("flow", FLOWS)
def test_results_can_be_taken_while_another_thread_pushes(flow: str, how: str) -> None:
    pushes = numbers(7, 30, 40)
    plain = band_join(how=how)
    wanted = [pair for rows in pushes for pair in pairs(plain.push(rows))] + pairs(plain.finish())
    join = band_join(how=how, flow=flow, cores=1 if flow == "three_step" else 3, granularity=16, queue=2)

    def feed() -> None:
        for rows in pushes:
            assert join.push(rows).count == 0
        join.finish()

    blocks = join.results()
    producer = threading.Thread(target=feed)
    producer.start()
    got = [pair for block in blocks for pair in pairs(block)]
    producer.join()
    same_pairs(got, wanted, "streamed")


def test_rows_leave_with_their_payload_although_their_window_has_moved_on() -> None:
    join = band_join(flow="split_join", cores=2, select="r.x, s.a")
    blocks = join.results()
    producer = threading.Thread(
        target=lambda: ([join.push(rows) for rows in numbers(3, 40, 64)], join.finish())
    )
    producer.start()
    for block in blocks:
        table = block.to_arrow().to_pydict()
        assert all(abs(x - a) <= 2 for x, a in zip(table["x"], table["a"], strict=True))
    producer.join()


def test_results_can_be_taken_before_both_schemas_are_known() -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(1), s=wm.Rows(1), how="left", flow="split_join", cores=2)
    blocks = join.results()
    for value in (1, 2, 3):
        join.push(r={"x": np.array([value])})
    assert pairs(next(blocks)) == [(0, -1)]
    assert pairs(next(blocks)) == [(1, -1)]
    join.push(s={"a": np.array([3])})
    join.finish()
    assert [pair for block in blocks for pair in pairs(block)] == [(2, 0)]


def test_a_slow_consumer_slows_the_producer() -> None:
    join = band_join(flow="split_join", cores=2, granularity=4, queue=1)
    blocks = join.results()
    done = []
    pushes = numbers(5, 60, 40)

    def feed() -> None:
        for rows in pushes:
            join.push(rows)
            done.append(True)
        join.finish()

    producer = threading.Thread(target=feed)
    producer.start()
    producer.join(0.5)
    assert producer.is_alive()
    held_up = len(done)
    assert held_up < len(pushes) // 2
    assert sum(block.count for block in blocks) > 0
    producer.join()
    assert len(done) == len(pushes)


def test_explain_and_stats_tell_of_the_flow() -> None:
    join = band_join(flow="split_join", cores=2, order="outer", precision=10)
    join.push(numbers(1, 1, 50)[0])
    text = join.explain()
    assert "flow       split_join on 2 core(s)" in text
    assert "order      outer order, precision 10" in text
    assert join.stats()["streams"]["r"]["rows"] == 50
    assert set(join.stats()["streams"]["r"]["indexes"]) == {"bi_sort"}
    join.close()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"flow": "split"}, "flow= must be one of three_step, .*split_join.*; got 'split'"),
        ({"flow": "three_step", "cores": 2}, "flow='three_step' runs on one core; got cores=2"),
        ({"granularity": 10}, "granularity= goes with a flow; got no flow="),
        (
            {"flow": "split_join", "granularity": 0},
            "granularity= must be a whole number of at least 1; got 0",
        ),
        (
            {"flow": "three_step", "fanout": 2},
            "fanout= goes with flow='split_join', 'parallel_mj'; got flow='three_step'",
        ),
        ({"order": "sorted"}, "order= must be one of none, outer, inner, adaptive; got 'sorted'"),
        ({"order": "outer", "precision": 0}, "precision= must be a whole number of at least 1; got 0"),
        ({"precision": 3}, "precision= goes with order='outer' or 'inner'; got order='none'"),
        ({"order": "adaptive"}, "order='adaptive' needs target_rate= .* or target_latency= .*; got neither"),
        ({"target_rate": 5}, "target_rate= goes with order='adaptive'; got order='none'"),
        ({"order": "outer", "result": "count"}, "order='outer' needs result='pairs'.*; got result='count'"),
        ({"order": "outer", "how": "semi"}, "order='outer' is an order of pairs; got how='semi'"),
        (
            {"flow": "three_step", "on_core_failure": "continue"},
            "cannot go on without a core.*: .*'split_join'",
        ),
        ({"on_core_failure": "stop"}, "on_core_failure= must be one of raise, continue; got 'stop'"),
    ],
)
def test_what_cannot_be_done_is_refused_when_the_join_is_made(given: dict[str, Any], text: str) -> None:
    with pytest.raises(wm.OptionError, match=text):
        band_join(**given)


def test_results_need_a_flow() -> None:
    with pytest.raises(
        wm.OptionError, match="only with a flow; got flow=None; make the join with flow='split_join'"
    ):
        band_join().results()


def test_only_one_consumer() -> None:
    join = band_join(flow="three_step")
    blocks = join.results()
    with pytest.raises(wm.StateError, match="one consumer at a time"):
        join.results()
    join.finish()
    assert [block.count for block in blocks] == [0]
