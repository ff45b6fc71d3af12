"""Results leave in the order that was asked for, and punctuations say how far the output is complete."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import watersmeet as wm
from conditions import comparison
from harness import examples, expected, make, push, reload
from mutants import is_found_out
from oracle import Event, Window
from strategies import Run, runs
from watersmeet.flow.adaptive import LADDER, START, Tuner
from watersmeet.flow.models.core import Core
from watersmeet.flow.models.gather import Merger
from watersmeet.flow.models.message import Found
from watersmeet.flow.options import MODELS

ORDERED = [name for name, model in MODELS.items() if model.takes("order")]
UNORDERED = [name for name in MODELS if name not in ORDERED]

never_late: st.SearchStrategy[Window] = st.one_of(
    st.integers(1, 10).map(lambda n: ("rows", n)),
    st.integers(0, 8).map(lambda t: ("range", t, "ts", 1000)),
    st.just(("unbounded",)),
)


def begins_alone(*streams: str) -> Run:
    """One row a push; the second stream begins when its first row comes."""
    numbers = {"r": 0, "s": 0}
    pushes = []
    for stream in streams:
        row = {"id": numbers[stream], "ts": 0, "xa"["rs".index(stream)]: 1}
        pushes.append(((stream, row),))
        numbers[stream] += 1
    equal = comparison("=", "x", "a", ("hash",))
    return Run(equal, ("unbounded",), ("unbounded",), tuple(pushes), declared=False)


def sequence(run: Run) -> dict[tuple[int, int], int]:
    """(side, arrival number) -> place among the rows of both streams."""
    places: dict[tuple[int, int], int] = {}
    counts = [0, 0]
    for events in run.pushes:
        for stream, _ in _as_pushed(events):
            side = "rs".index(stream)
            places[side, counts[side]] = len(places)
            counts[side] += 1
    return places


def _as_pushed(events: tuple[Event, ...]) -> list[Event]:
    """In the order in which the harness lets them arrive."""
    return list(events)


def check_order(run: Run, kind: str, precision: int, **options: Any) -> None:
    places = sequence(run)
    join = make(run, order=kind, precision=precision, **options)
    wanted = expected(run)
    for number, events in enumerate(run.pushes):
        result = push(join, run, events)
        found = result.pairs()
        rows = [
            (r, s) for r, s in zip(found["r"].tolist(), found["s"].tolist(), strict=True) if r >= 0 and s >= 0
        ]
        keys = [order_key(places, pair, kind, precision) for pair in rows]
        assert keys == sorted(keys), f"push {number}: out of order: {keys}"
        truth = [pair for pair in wanted.pairs[number] if min(pair) >= 0]
        assert sorted(rows) == sorted(truth)
        before = -1
        for mark in result.punctuations:
            place = places["rs".index(mark.stream), mark.arrival]
            inside, after = rows[: mark.position], rows[mark.position :]
            assert mark.position >= before
            before = mark.position
            if mark.stored is None:
                assert all(probe(places, pair)[0] <= place for pair in inside)
                assert all(probe(places, pair)[0] > place for pair in after)
            else:
                assert kind == "inner"
                assert all(probe(places, pair) < (place, mark.stored) for pair in inside)
                assert all(probe(places, pair) >= (place, mark.stored) for pair in after)
        ends = [mark for mark in result.punctuations if mark.stored is None]
        every = precision if kind == "outer" else 1
        mine = [places["rs".index(stream), _count] for stream, _count in _numbers(run, number)]
        assert len(ends) == sum((place + 1) % every == 0 for place in mine)
    join.finish()


def _numbers(run: Run, number: int) -> list[tuple[str, int]]:
    counts = {"r": 0, "s": 0}
    listed = []
    for place, events in enumerate(run.pushes[: number + 1]):
        for stream, _ in events:
            if place == number:
                listed.append((stream, counts[stream]))
            counts[stream] += 1
    return listed


def probe(places: dict[tuple[int, int], int], pair: tuple[int, int]) -> tuple[int, int]:
    """(place of the probing row, arrival number of the stored one): the later of two has probed."""
    left, right = places[0, pair[0]], places[1, pair[1]]
    return (left, pair[1]) if left > right else (right, pair[0])


def order_key(
    places: dict[tuple[int, int], int], pair: tuple[int, int], kind: str, precision: int
) -> tuple[int, int]:
    place, stored = probe(places, pair)
    return (place // precision, 0) if kind == "outer" else (place, stored // precision)


@pytest.mark.parametrize("kind", ["outer", "inner"])
@pytest.mark.parametrize("flow", ORDERED)
def test_results_leave_in_order_and_punctuations_tell_the_truth(flow: str, kind: str) -> None:
    @examples(40)
    @given(
        st.sampled_from(["inner", "left", "full"]).flatmap(lambda how: runs(how=how, window=never_late)),
        st.sampled_from([1, 2, 3, 7]),
        st.sampled_from([1, 2, 5, None]),
        st.sampled_from([1, 2, 3]),
    )
    @example(begins_alone("r"), 1, None, 1)
    @example(begins_alone(*"ssrrsrs"), 3, 2, 2)
    def holds(run: Run, precision: int, granularity: int | None, cores: int) -> None:
        cores = 1 if flow == "three_step" else cores
        check_order(run, kind, precision, flow=flow, granularity=granularity, cores=cores, queue=1)

    holds()


@pytest.mark.parametrize("flow", ORDERED)
def test_punctuations_count_from_the_beginning_also_after_a_failure_and_a_load(
    flow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def marks(result: wm.Result) -> list[tuple[str, int]]:
        return [(mark.stream, mark.arrival) for mark in result.punctuations]

    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(9), s=wm.Rows(9), flow=flow, order="outer", precision=5)
    assert marks(join.push(r={"x": [1, 1, 1]}, s={"a": [1]})) == []
    with monkeypatch.context() as broken:
        broken.setattr(Core, "step", lambda self, choice: 1 / 0)
        with pytest.raises(wm.CoreFailed):
            join.push(r={"x": [1, 1, 1]})
    assert marks(join.push(r={"x": [1, 1, 1]})) == [("r", 3)]
    loaded = reload(join, tmp_path)
    assert marks(loaded.push(s={"a": [1, 1, 1]})) == [("s", 3)]
    join.close()
    loaded.close()


def test_who_takes_results_hears_of_rows_that_came_before_the_other_stream_began() -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(9), s=wm.Rows(9), flow="three_step", order="outer")
    blocks = join.results()
    assert len(join.push(r={"x": [1, 2]}).punctuations) == 0
    block = next(blocks)
    assert block.count == 0
    assert block.punctuations == [wm.Punctuation("r", 0, 0), wm.Punctuation("r", 1, 0)]
    join.close()


def test_punctuations_are_a_sequence() -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(9), s=wm.Rows(9), order="inner", precision=1)
    marks = join.push(r={"x": [1, 1]}, s={"a": [1, 2]}).punctuations
    listed = list(marks)
    assert listed == [
        wm.Punctuation("r", 0, 0),
        wm.Punctuation("r", 1, 0),
        wm.Punctuation("s", 0, 1, 1),
        wm.Punctuation("s", 0, 2),
        wm.Punctuation("s", 1, 2),
    ]
    assert isinstance(marks, Sequence)
    assert len(marks) == 5
    assert marks[-1] == marks[np.int64(4)] == listed[4]
    for part in (slice(1, 3), slice(None, None, -2), slice(-2, None), slice(7, 9), slice(None)):
        assert list(marks[part]) == listed[part]
        assert marks[part] == listed[part]
        assert len(marks[part]) == len(listed[part])
    assert marks[1:][1:][-1] == listed[-1]
    assert list(reversed(marks)) == listed[::-1]
    assert listed[2] in marks
    assert marks.index(listed[2]) == 2
    assert marks == listed
    assert listed == marks
    assert marks == tuple(listed)
    assert marks == marks[:]
    assert marks != marks[1:]
    assert marks != [*listed[:4], wm.Punctuation("s", 1, 3)]
    assert marks != "inner"
    for outside in (5, -6):
        with pytest.raises(IndexError):
            marks[outside]
    with pytest.raises(TypeError):
        marks["s"]
    join.close()


def strict_outer(run: Run) -> None:
    check_order(run, "outer", 1, flow="split_join", granularity=2, cores=3)


def test_a_merger_that_does_not_wait_for_stars_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removing the star from the code must make the order test fail."""
    waits = Merger.receive

    def hasty(self: Merger, port: int, message: Any) -> None:
        if isinstance(message, Found):
            self.outputs[0].put(message)
        else:
            waits(self, port, message)

    assert not is_found_out(strict_outer, runs(window=never_late), tries=30)
    monkeypatch.setattr(Merger, "receive", hasty)
    assert is_found_out(strict_outer, runs(window=never_late))


@pytest.mark.parametrize("flow", UNORDERED)
def test_a_flow_that_cannot_promise_an_order_says_who_can(flow: str) -> None:
    with pytest.raises(
        wm.OptionError, match=f"flow='{flow}' cannot promise order='outer'; flows that can: .*'split_join'"
    ):
        wm.StreamJoin("r.x = s.a", r=wm.Rows(1), s=wm.Rows(1), flow=flow, cores=2, order="outer")


def test_without_an_order_there_are_no_punctuations() -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(9), s=wm.Rows(9), flow="split_join", cores=2)
    assert list(join.push(r={"x": np.array([1])}, s={"a": np.array([1])}).punctuations) == []
    join.close()


def test_an_order_without_a_flow_gets_one() -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(9), s=wm.Rows(9), order="outer")
    result = join.push(r={"x": np.array([1])}, s={"a": np.array([1])})
    assert list(result.punctuations) == [wm.Punctuation("r", 0, 0), wm.Punctuation("s", 0, 1)]
    assert "flow       three_step" in join.explain()
    join.close()


def test_the_tuner_goes_coarser_until_the_target_is_met_and_finer_when_there_is_room() -> None:
    tuner = Tuner(rate=1000.0)
    assert tuner.order == LADDER[START]
    for _ in range(10):
        tuner.learn(100, 1.0)
    assert tuner.order == LADDER[-1]
    tuner.learn(1010, 1.0)  # met, but without room
    assert tuner.order == LADDER[-1]
    for _ in range(3):
        tuner.learn(2000, 1.0)
    assert tuner.order == LADDER[-2]
    for _ in range(40):
        tuner.learn(2000, 1.0)
    assert tuner.order == LADDER[0]


def test_a_latency_can_be_the_target() -> None:
    tuner = Tuner(latency=0.01)
    tuner.learn(5, 0.02)
    assert tuner.order == LADDER[START + 1]
    for _ in range(3):
        tuner.learn(5, 0.001)
    assert tuner.order == LADDER[START]


def test_adaptive_order_is_the_order_that_it_names() -> None:
    join = wm.StreamJoin(
        "r.x = s.a",
        r=wm.Rows(99),
        s=wm.Rows(99),
        flow="split_join",
        cores=2,
        order="adaptive",
        target_rate=1e12,
    )
    random = np.random.default_rng(1)
    before = 10**9
    for _ in range(6):
        result = join.push(r={"x": random.integers(0, 5, 300)}, s={"a": random.integers(0, 5, 300)})
        assert len(result.punctuations) <= before
        before = len(result.punctuations)
    assert "outer order, precision 4,096, tuned to its target" in join.explain()
    join.close()


def test_punctuations_are_a_sequence_also_when_sliced() -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(9), s=wm.Rows(9), order="outer")
    marks = join.push(r={"x": [1, 2, 3]}, s={"a": [3, 1]}).punctuations
    listed = list(marks)
    assert len(listed) == 5
    for cut in (slice(1, 3), slice(None), slice(-2, None), slice(None, None, -2), slice(9, 9)):
        assert list(marks[cut]) == listed[cut]
    assert marks[-1] == listed[-1]
    assert list(marks[1:][1:2]) == listed[2:3]
    assert listed[2] in marks
    assert marks.index(listed[3]) == 3
    assert list(reversed(marks)) == listed[::-1]
    with pytest.raises(IndexError):
        marks[5]
