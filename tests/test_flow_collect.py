"""Collecting: rows wait until there are enough for a batch or the first has waited long enough, and nothing else changes."""

import threading
import time
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, expected, late, late_ids, make, pairs, push, same_pairs
from strategies import HOWS, Run, runs
from test_flows import band_join, numbers
from watersmeet.flow.collect import Collector
from watersmeet.flow.driver.engine import FlowEngine

any_run = st.sampled_from(HOWS).flatmap(lambda how: runs(how=how))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def collector_of(join: wm.StreamJoin) -> Collector:
    assert isinstance(join._engine, FlowEngine)
    assert join._engine.intake.collector is not None
    return join._engine.intake.collector


def with_clock(join: wm.StreamJoin) -> Clock:
    clock = collector_of(join).clock = Clock()
    return clock


def collecting(granularity: int, **given: Any) -> tuple[wm.StreamJoin, Clock]:
    schemas = {"r": pa.schema([("x", pa.int64())]), "s": pa.schema([("a", pa.int64())])}
    join = band_join(
        flow="pan_join", granularity=granularity, schemas=schemas, **{"collect": "10 ms", **given}
    )
    return join, with_clock(join)


@examples(60)
@given(
    any_run,
    st.integers(1, 3),
    st.sampled_from([1, 2, 5, 100]),
    st.lists(st.sampled_from([0.0, 0.004, 0.02]), min_size=1),
)
def test_collecting_changes_when_results_come_but_not_which(
    run: Run, cores: int, granularity: int, waits: list[float]
) -> None:
    wanted = expected(run)
    join = make(run, flow="pan_join", cores=cores, granularity=granularity, collect="10 ms")
    results = []
    for number, events in enumerate(run.pushes):
        core = join._engine
        assert isinstance(core, FlowEngine)
        assert core.intake.collector is not None
        core.intake.collector.clock = lambda number=number: sum(waits[i % len(waits)] for i in range(number))
        results.append(push(join, run, events))
    results.append(join.finish())
    same_pairs(list(chain(*map(pairs, results))), list(chain(*wanted.pairs)), "whole run", run)
    refused = [late_ids(events) for events in wanted.late]
    for side in "rs":
        got = list(chain(*(late(result).get(side, []) for result in results)))
        assert got == list(chain(*(ids.get(side, []) for ids in refused)))


def test_a_batch_goes_through_when_it_is_full() -> None:
    join, _ = collecting(4)
    assert join.push(r={"x": [1]}).count == 0
    assert join.push(s={"a": [1, 50]}).count == 0
    assert "collect    up to 4 rows or 0.01 s a batch; 3 rows wait" in join.explain()
    result = join.push(r={"x": [2]})
    assert pairs(result) == [(0, 0), (1, 0)]
    assert join.push(r={"x": [1]}).count == 0
    join.close()


def test_a_batch_goes_through_when_its_time_is_up() -> None:
    join, clock = collecting(1000)
    join.push(r={"x": [1]})
    clock.now = 0.009
    assert join.push(s={"a": [1]}).count == 0
    clock.now = 0.010
    assert pairs(join.push(s={"a": [2]})) == [(0, 0), (0, 1)]
    clock.now = 0.015  # the next batch has a time of its own
    assert join.push(s={"a": [1]}).count == 0
    clock.now = 0.024
    assert join.push(s={"a": [1]}).count == 0
    clock.now = 0.025
    assert join.push().count == 2
    join.close()


def test_rows_go_through_in_the_order_in_which_they_came() -> None:
    given = {"collect": "1 h", "granularity": 7}
    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(1), s=wm.Rows(1), flow="pan_join", order="inner", **given)
    join.push(r={"x": [0]}, s={"a": [9]})
    join.push(r={"x": [1]})
    join.push(s={"a": [1]})
    join.push(r={"x": [2, 1]})  # only the last r is in the window when s comes again
    result = join.push(s={"a": [1]})
    assert [tuple(pair) for pair in zip(*result.pairs().values(), strict=True)] == [(1, 1), (3, 1), (3, 2)]
    assert [(mark.stream, mark.arrival) for mark in result.punctuations if mark.stored is None] == [
        ("r", 0), ("s", 0), ("r", 1), ("s", 1), ("r", 2), ("r", 3), ("s", 2),
    ]  # fmt: skip
    join.close()


def test_a_push_without_rows_lets_through_what_there_is() -> None:
    join, _ = collecting(1000)
    join.push(r={"x": [1]}, s={"a": [1]})
    assert join.push().count == 1
    assert join.push().count == 0
    join.close()


@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
def test_the_rest_comes_with_finish(how: str) -> None:
    join, _ = collecting(1000, how=how)
    for rows in numbers(4, 3, 30):
        assert join.push(rows).count == 0
    plain = band_join(how=how)
    wanted = list(chain(*(pairs(plain.push(rows)) for rows in numbers(4, 3, 30)), pairs(plain.finish())))
    result = join.finish()
    same_pairs(pairs(result), wanted, "finish")
    assert result.to_arrow().num_rows == len(wanted)


def test_a_bad_push_is_refused_when_it_comes_and_the_others_go_on() -> None:
    window = wm.Range(5, time="ts")
    given = {"flow": "pan_join", "collect": "1 h", "granularity": 100}
    join = wm.StreamJoin("r.x = s.a", r=window, s=window, **given)
    join.push(r={"x": [1], "ts": [1]}, s={"a": [2], "ts": [1]})
    join.push(r={"x": [1], "ts": [2]})
    with pytest.raises(wm.DataError, match="null"):
        join.push(s={"a": [1, 1], "ts": [1, None]})
    with pytest.raises(wm.SchemaError):
        join.push(s={"b": [1], "ts": [1]})
    join.push(s={"a": [1], "ts": [3]})
    assert pairs(join.push()) == [(0, 1), (1, 1)]
    join.close()


def test_a_join_is_saved_only_when_all_rows_are_through(tmp_path: Path) -> None:
    join, _ = collecting(1000)
    join.push(r={"x": [1]}, s={"a": [7]})
    with pytest.raises(wm.StateError, match=r"got 2 collected rows; call push\(\) without rows"):
        join.save(tmp_path)
    join.push()
    join.save(tmp_path)
    loaded = wm.StreamJoin.load(tmp_path)
    assert collector_of(loaded).seconds == 0.01
    loaded.push(s={"a": [1]})
    assert pairs(loaded.push()) == [(0, 1)]
    join.close()
    loaded.close()


def test_a_failure_undoes_what_was_collected_too_and_says_where_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    join, _ = collecting(4, cores=2)
    join.push(r={"x": [1, 2]}, s={"a": [1, 2]})
    join.push(r={"x": [3]})
    with monkeypatch.context() as broken:
        broken.setattr("watersmeet.flow.models.pan_join.Worker.obey", lambda self, steps: 1 / 0)
        with pytest.raises(wm.CoreFailed) as caught:
            join.push(s={"a": [3, 4, 5]})
    assert caught.value.resume == {"r": 2, "s": 2}
    assert collector_of(join).rows == 0
    assert sorted(pairs(join.push(r={"x": [3]}, s={"a": [3, 4, 5]}))) == [
        (0, 2), (1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4),
    ]  # fmt: skip
    join.close()


@pytest.mark.parametrize("queue", [1, None])
def test_who_takes_results_notices_that_the_time_is_up(queue: int | None) -> None:
    schemas = {"r": pa.schema([("x", pa.int64())]), "s": pa.schema([("a", pa.int64())])}
    join = band_join(flow="pan_join", cores=2, collect="30 ms", queue=queue, schemas=schemas)
    blocks = join.results()
    found = next_in_time(blocks, lambda: join.push(r={"x": [1]}, s={"a": [1, 2]}))
    assert pairs(found) == [(0, 0), (0, 1)]
    found = next_in_time(blocks, lambda: join.push(r={"x": [2]}))
    assert pairs(found) == [(1, 0), (1, 1)]
    join.push(r={"x": [1]})
    finisher = threading.Thread(target=join.finish)
    finisher.start()
    assert sorted(chain(*map(pairs, blocks))) == [(2, 0), (2, 1)]
    finisher.join()


def next_in_time(blocks: Any, act: Any) -> Any:
    """The next block after ``act``, which another thread does; it must come within a few seconds."""
    actor = threading.Timer(0.05, act)
    actor.start()
    started = time.monotonic()
    block = next(blocks)
    assert time.monotonic() - started < 5
    actor.join()
    return block


def test_results_taken_while_rows_are_collected_are_the_engines() -> None:
    pushes = numbers(7, 60, 20)
    plain = band_join()
    wanted = list(chain(*(pairs(plain.push(rows)) for rows in pushes), pairs(plain.finish())))
    join = band_join(flow="pan_join", cores=3, collect=0.002, granularity=64, queue=1)

    def feed() -> None:
        for number, rows in enumerate(pushes):
            join.push(rows)
            if number % 7 == 0:
                time.sleep(0.005)
        join.finish()

    blocks = join.results()
    producer = threading.Thread(target=feed)
    producer.start()
    got = [pair for block in blocks for pair in pairs(block)]
    producer.join()
    same_pairs(got, wanted, "streamed")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"collect": "10 ms"}, "collect= goes with a flow; got no flow="),
        (
            {"collect": "10 ms", "flow": "split_join"},
            "collect= goes with flow='pan_join'; got flow='split_join'",
        ),
        ({"collect": "soon", "flow": "pan_join"}, "a duration must be a number and a unit"),
        ({"collect": -1, "flow": "pan_join"}, "collect= must be finite and not negative; got -1"),
        (
            {"collect": True, "flow": "pan_join"},
            "collect= must be a text like '10 ms' or a number of seconds",
        ),
    ],
)
def test_what_cannot_be_collected_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(wm.OptionError, match=text):
        band_join(**given)


def test_a_collector_counts_rows_and_time() -> None:
    clock = Clock()
    collector = Collector(5, 1.0, clock)
    batch = pa.record_batch({"x": [1, 2]})
    assert collector.left() is None
    assert not collector.due()
    clock.now = 3.0
    collector.add([batch, None], None, (0, 1))
    clock.now = 3.25
    collector.add([batch, batch], np.array([1, 0, 0, 1], np.uint8), (0, 1))
    assert collector.rows == 6
    assert collector.due()
    collector.take_back()
    assert (collector.rows, collector.left(), collector.due()) == (2, 0.75, False)
    batches, order, turns = collector.together()
    assert (batches[0].num_rows, batches[1], order, turns) == (2, None, None, (0, 1))
    clock.now = 4.0
    assert collector.due()
    collector.clear()
    assert (collector.rows, collector.due()) == (0, False)
