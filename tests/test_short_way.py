"""Pushes of a few rows take a way of their own through the engine; it must not show in the result.

The runs here are long: many pushes, so that buffers merge, sub-windows fill and chunks are compacted. Now and then a larger push goes
the long way in between. Nulls, times, residuals, outer joins and interleavings are in the runs of ``test_join_properties.py``, where
pushes of up to three rows go the short way.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from conditions import EQUAL, ORDERED, Condition, add, between, compare, comparison, sub
from harness import drive, examples, expected, make, push, reload, same_pairs
from oracle import Event, Window
from strategies import Run
from watersmeet.join import short
from watersmeet.join.short import ShortWay
from watersmeet.join.short_steps import ShortSteps


@pytest.fixture(autouse=True, scope="module")
def few() -> Iterator[None]:
    """As many rows as in these runs go the short way, for as long as they last."""
    with patch.object(short, "FEW", 16):
        yield


CONDITIONS = [
    Condition(
        "r.x BETWEEN s.a - 2 AND s.a + 1",
        lambda r, s: between(r["x"], sub(s["a"], 2), add(s["a"], 1)),
        ("r.x", "s.a"),
        ORDERED,
    ),
    Condition("r.x < s.a - 6", lambda r, s: compare("<", r["x"], sub(s["a"], 6)), ("r.x", "s.a"), ORDERED),
    comparison("=", "x", "a", EQUAL),
    comparison("<>", "x", "a", ORDERED),
]
WINDOWS: st.SearchStrategy[Window] = st.one_of(
    st.integers(1, 60).map(lambda n: ("rows", n)), st.just(("unbounded",))
)


def pushes(seed: int, count: int, most: int, spread: int) -> tuple[tuple[Event, ...], ...]:
    """``count`` pushes of one stream each, of up to ``most`` rows; one in twenty is larger than the short way takes."""
    random = np.random.default_rng(seed)
    made, seen = [], {"r": 0, "s": 0}
    for _ in range(count):
        stream, key = ("r", "x") if random.random() < 0.5 else ("s", "a")
        size = 20 if random.random() < 0.05 else int(random.integers(1, most + 1))
        values = random.integers(-spread, spread + 1, size).tolist()
        made.append(tuple((stream, {"id": seen[stream] + i, "ts": 0, key: v}) for i, v in enumerate(values)))
        seen[stream] += size
    return tuple(made)


@st.composite
def small_pushes(draw: st.DrawFn) -> Run:
    shape = (draw(st.integers(0, 10**6)), draw(st.integers(5, 110)), draw(st.sampled_from([1, 3, 16])))
    return Run(
        draw(st.sampled_from(CONDITIONS)),
        draw(WINDOWS),
        draw(WINDOWS),
        pushes(*shape, spread=draw(st.sampled_from([3, 30]))),
        index=draw(st.sampled_from(["auto", "bi_sort"])),
        subwindow=draw(st.sampled_from([None, 2, 16])),
    )


@examples(50)
@given(small_pushes())
def test_a_few_rows_at_a_time_give_what_the_three_step_procedure_gives(run: Run) -> None:
    for number, (got, want) in enumerate(zip(drive(run)[0], expected(run).pairs, strict=True)):
        same_pairs(got, want, f"push {number}", run)


@examples(15)
@given(small_pushes(), st.integers(1, 40))
def test_saving_and_loading_between_small_pushes_changes_nothing(run: Run, after: int) -> None:
    with TemporaryDirectory() as folder:

        def swap(number: int, join: wm.StreamJoin) -> wm.StreamJoin:
            return reload(join, Path(folder) / str(number)) if number % 40 == after else join

        assert drive(run, swap) == drive(run)


@examples(15)
@given(small_pushes())
def test_small_pushes_are_counted_right(run: Run) -> None:
    join = make(run, result="count")
    assert [push(join, run, events).count for events in run.pushes] == [
        len(p) for p in expected(run).pairs[:-1]
    ]


@pytest.mark.parametrize("index", ["auto", "bi_sort"])
def test_the_short_way_is_really_taken(index: str) -> None:
    run = Run(CONDITIONS[0], ("rows", 50), ("rows", 50), pushes(1, 100, 3, 30), index=index)
    taken = []
    original = ShortWay._find

    def spy(self: ShortWay, *args: object) -> bool:
        taken.append(original(self, *args))  # type: ignore[arg-type]
        return taken[-1]

    with patch.object(ShortWay, "_find", spy):
        drive(run)
    assert sum(taken) > 60


def test_a_few_rows_of_many_streams_really_take_it_and_leave_it_where_they_find_too_many() -> None:
    join = wm.StreamJoin("a.k = b.k AND b.k = c.k", a=wm.Rows(3000), b=wm.Rows(3000), c=wm.Rows(3000))
    taken = []
    original = ShortSteps._further

    def spy(self: ShortSteps, *args: object) -> object:
        taken.append(original(self, *args))  # type: ignore[arg-type]
        return taken[-1]

    with patch.object(ShortSteps, "_further", spy):
        for i in range(40):
            for name in "abc":
                assert join.push(**{name: {"k": [i]}}).count == (name == "c")
        assert len(taken) > 120
        assert None not in taken
        join.push(a={"k": np.full(1500, 7)})
        for _ in range(3):
            assert join.push(c={"k": [7]}).count == 1501
            assert taken[-1] is None


def test_a_single_row_with_thousands_of_matches_finds_them_all() -> None:
    join = wm.StreamJoin("r.x = s.x", r=wm.Rows(5000), s=wm.Rows(5000), index="bi_sort")
    many = {"x": np.zeros(3000, np.int64)}
    join.push(r=many)
    join.push(s={"x": np.ones(1, np.int64)})
    for arrived in range(3):
        assert join.push(s={"x": np.zeros(1, np.int64)}).count == 3000, arrived
