"""Joins of two to five streams give what the rule gives, whatever the condition, windows, index, pushes and probe order."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, reload
from multiway import (
    Run,
    batch,
    bounded,
    by_duckdb,
    check,
    combinations,
    drive,
    expected,
    late_ids,
    make,
    numbered,
    push,
    ranges,
    runs,
    same,
    script,
    unbounded,
    whole,
)
from multiway_conditions import SHAPES, Condition, band, conjunction, equality, of_three
from oracle import Combination, Event, Window, under_all_names
from strategies import INDEXES
from watersmeet.api.stream_join import OPTIONS

many = st.integers(3, 5)
few = st.integers(3, 4)


# ---- by hand ----------------------------------------------------------------------------------------------------

Answer = tuple[list[list[Combination]], list[dict[str, list[int]]]]
ALWAYS = conjunction([])


def by_oracle(run: Run) -> Answer:
    outcome = expected(run)
    return outcome.combinations, [late_ids(events) for events in outcome.late]


@pytest.fixture(params=[by_oracle, drive], ids=["oracle", "engine"])
def answer(request: pytest.FixtureRequest) -> Callable[[Run], Answer]:
    return request.param  # type: ignore[no-any-return]


def timed(duration: int, lateness: int = 0) -> Window:
    return ("range", duration, "ts", lateness)


def one_push_each(windows: dict[str, Window], *texts: str, condition: Condition = ALWAYS) -> Run:
    """Events from ``"a 5"``: stream and time; every row has key 1."""
    events: list[Event] = []
    for text in texts:
        stream, time = text.split()
        events.append((stream, {"id": 0, "ts": int(time), **_ones(condition, stream)}))
    times = dict.fromkeys(windows, pa.int64())
    return numbered(Run(condition, windows, tuple((event,) for event in events), times))


def _ones(condition: Condition, stream: str) -> dict[str, int]:
    return {name.split(".")[1]: 1 for name in condition.columns if name.startswith(f"{stream}.")}


def test_a_row_that_an_untimed_one_could_not_see_is_in_no_combination_with_it(
    answer: Callable[[Run], Answer],
) -> None:
    windows = {"a": timed(10), "b": ("rows", 9), "c": timed(10)}
    run = one_push_each(windows, "a 0", "a 50", "b 0", "c 5")
    # c's time is near a(0)'s, but b came when a's clock stood at 50.
    assert answer(run)[0] == [[], [], [], []]


@pytest.mark.parametrize("names", list(itertools.permutations("abc")), ids="".join)
def test_the_order_of_the_streams_does_not_change_that(
    names: Sequence[str], answer: Callable[[Run], Answer]
) -> None:
    windows = {"a": timed(10), "b": ("rows", 9), "c": timed(10)}
    run = one_push_each({name: windows[name] for name in names}, "a 45", "a 50", "a 0", "b 0", "c 44", "c 5")
    found = sorted(tuple({"a": a, "b": 0, "c": 0}[name] for name in names) for a in (0, 1))
    # a(0) is not late, as there is no watermark before c has come, but b could not see it. c(5) is late.
    assert answer(run) == ([[], [], [], [], found, []], [{}, {}, {}, {}, {}, {"c": [1]}])


def test_count_windows_slide_stream_by_stream(answer: Callable[[Run], Answer]) -> None:
    windows: dict[str, Window] = {"a": ("rows", 1), "b": ("rows", 2), "c": ("rows", 1)}
    run = one_push_each(windows, "a 0", "b 0", "b 0", "b 0", "c 0", "a 0", "b 0")
    assert answer(run)[0] == [[], [], [], [], [(0, 1, 0), (0, 2, 0)], [(1, 1, 0), (1, 2, 0)], [(1, 3, 0)]]


def test_a_row_that_the_second_could_not_see_is_not_seen_through_the_third(
    answer: Callable[[Run], Answer],
) -> None:
    # With windows by time each two rows must be near: a(0) and b(8) are, b(8) and c(16) are, a(0) and c(16) are not.
    windows = {"a": timed(10, 100), "b": timed(10, 100), "c": timed(10, 100)}
    run = one_push_each(windows, "a 0", "b 8", "c 16", "a 7", "c 9")
    assert answer(run)[0] == [[], [], [], [(1, 0, 0)], [(0, 0, 1), (1, 0, 1)]]


def test_durations_differ_by_stream(answer: Callable[[Run], Answer]) -> None:
    windows = {"a": timed(2), "b": timed(20), "c": timed(5)}
    run = one_push_each(windows, "b 0", "a 10", "c 11", "c 13", "a 16", "c 21")
    # a(10) is within 2 of c(11), not of c(13); b(0) within 20 of both; a(16) sees c(11) and c(13) within 5.
    assert answer(run)[0] == [[], [], [(0, 0, 0)], [], [(1, 0, 0), (1, 0, 1)], []]


def test_the_slowest_timed_stream_holds_the_watermark_back(answer: Callable[[Run], Answer]) -> None:
    windows = {"a": timed(100), "b": timed(100, 3), "c": ("unbounded",)}
    run = one_push_each(windows, "a 50", "a 10", "c 0", "b 20", "a 16", "a 17", "b 16", "b 17")
    combos, late = answer(run)
    # The watermark is min(50, 20 - 3) = 17 once b has come; a late row has no number.
    assert late == [{}, {}, {}, {}, {"a": [2]}, {}, {"b": [1]}, {}]
    assert combos[3] == [(0, 0, 0), (1, 0, 0)]
    assert combos[5] == [(2, 0, 0)]
    assert combos[7] == [(0, 1, 0), (1, 1, 0), (2, 1, 0)]


def test_a_product_is_every_combination(answer: Callable[[Run], Answer]) -> None:
    windows: dict[str, Window] = dict.fromkeys("abc", ("unbounded",))
    found = answer(one_push_each(windows, "a 0", "b 0", "b 0", "c 0", "c 0"))[0]
    assert found == [[], [], [], [(0, 0, 0), (0, 1, 0)], [(0, 0, 1), (0, 1, 1)]]


# ---- against the oracle -----------------------------------------------------------------------------------------


@examples(80)
@given(runs())
def test_any_condition_in_any_windows_gives_what_the_rule_gives(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_what_the_rule_gives(shape: str) -> None:
    @examples(20)
    @given(runs(many, shape))
    def holds(run: Run) -> None:
        check(run)

    holds()


@pytest.mark.parametrize("index", INDEXES)
def test_every_index_gives_what_the_rule_gives(index: str) -> None:
    @examples(20)
    @given(runs(few, index=None if index == "scan" else index))
    def holds(run: Run) -> None:
        check(replace(run, index=index))

    holds()


mixed = st.one_of(ranges, ranges, bounded, unbounded)


@examples(50)
@given(runs(few, window=mixed))
def test_rows_out_of_time_order_in_mixed_windows_give_what_the_rule_gives(run: Run) -> None:
    check(run)


@examples(30)
@given(runs(many, window=unbounded))
def test_unbounded_windows_equal_the_sql_join(run: Run) -> None:
    note(script(run))
    same(whole(run), by_duckdb(run), "against DuckDB", run)


# ---- what must not change a result ------------------------------------------------------------------------------


@examples(30)
@given(runs(many), st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_big_steps_equal_small_steps(run: Run, sizes: list[int]) -> None:
    one_by_one = whole(run.split([1]))
    same(whole(run.split([1000])), one_by_one, "everything in one push", run)
    same(whole(run.split(sizes)), one_by_one, f"pushes of {sizes}", run)


@examples(30)
@given(runs(many), st.sampled_from([1, 2, 5, 64, None]))
def test_cores_and_sub_windows_do_not_change_the_result(run: Run, subwindow: int | None) -> None:
    base = drive(replace(run, cores=1, subwindow=None))
    assert drive(replace(run, cores=2, subwindow=subwindow)) == base


@examples(20)
@given(runs(many), st.randoms(use_true_random=False))
def test_the_order_of_the_streams_does_not_change_the_result(run: Run, random: Any) -> None:
    names = random.sample(run.names, len(run.names))
    turned = whole(replace(run, windows={name: run.windows[name] for name in names}))
    places = [names.index(name) for name in run.names]
    same([tuple(one[k] for k in places) for one in turned], whole(run), f"written as {names}", run)


@examples(30)
@given(runs(many), st.sets(st.integers(0, 20)))
def test_saving_and_loading_anywhere_changes_nothing(run: Run, after: set[int]) -> None:
    base = drive(run)
    with TemporaryDirectory() as folder:

        def swap(number: int, join: wm.StreamJoin) -> wm.StreamJoin:
            return reload(join, Path(folder) / str(number)) if number in after else join

        assert drive(run, swap) == base


@pytest.mark.parametrize("later", [5, 1])
def test_a_stream_that_begins_after_rows_have_gone_and_a_load_finds_what_the_others_had_seen(
    tmp_path: Path, later: int
) -> None:
    """What an untimed row had seen is counted from the first row on; a loaded join has only the rows that somebody may still see."""
    times = [("b", 0), ("b", 0), ("c", 0), ("a", 0), ("b", later), ("c", later), ("a", 0), ("e", 0)]
    times += [("c", later), ("b", later + 1), ("e", 0), ("a", 0), ("c", later + 1), ("b", later + 1)]
    run = Run(
        conjunction([equality("a", "b"), equality("b", "c"), equality("c", "e")]),
        {"a": ("rows", 9), "b": ("range", 2, "ts", 0), "c": ("range", 3, "ts", 0), "e": ("rows", 9)},
        (tuple((name, {"id": 0, "ts": time, "k": 0}) for name, time in times),),
        dict.fromkeys("abce", pa.int64()),
        declared=False,
    )
    run = numbered(run).split([1])

    def swap(number: int, join: wm.StreamJoin) -> wm.StreamJoin:
        return reload(join, tmp_path / str(number))

    assert drive(run, swap) == by_oracle(run)


@examples(40)
@given(runs(many))
def test_counting_agrees_with_listing(run: Run) -> None:
    note(script(run))
    join = make(run, result="count")
    counts = [push(join, run, events).count for events in run.pushes]
    assert counts == [len(found) for found in expected(run).combinations]


@examples(20)
@given(runs(many), st.booleans())
def test_merging_by_a_time_column_is_the_interleaving_in_time_order(run: Run, one_push: bool) -> None:
    in_order = sorted(run.events, key=lambda event: (event[1]["ts"], run.names.index(event[0])))
    ordered = replace(run, pushes=(tuple(in_order),)).split([1000] if one_push else [7, 3])
    join, found = make(ordered), []
    for events in ordered.pushes:
        rows = {name: [row for stream, row in events if stream == name] for name in run.names}
        batches = {name: batch(rows[name], ordered, name) for name in run.names}
        found.append(combinations(join.push(**batches, order="ts"), run.names))
    for number, (got, want) in enumerate(zip(found, expected(ordered).combinations, strict=True)):
        same(got, want, f"push {number}", ordered)


@examples(20)
@given(runs(many, window=st.builds(lambda t: ("range", t, "ts", 1000), st.integers(0, 8))))
def test_time_windows_do_not_ask_who_came_first(run: Run) -> None:
    """With enough patience the result depends on the times alone, whatever the order of arrival."""
    last = {name: sum(stream == name for stream, _ in run.events) - 1 for name in run.names}
    backwards = replace(run, pushes=(tuple(reversed(run.events)),))
    turned = [
        tuple(last[name] - number for name, number in zip(run.names, one, strict=True))
        for one in whole(backwards)
    ]
    same(turned, whole(run), "the other way round", run)


# ---- rows out, state --------------------------------------------------------------------------------------------


@examples(30)
@given(runs(many))
def test_rows_are_those_of_the_arrival_numbers(run: Run) -> None:
    note(script(run))
    expected_late = expected(run).late
    accepted: dict[str, list[dict[str, Any]]] = {name: [] for name in run.names}
    join = make(run)
    for events, late in zip(run.pushes, expected_late, strict=True):
        for stream, row in events:
            if (stream, row) not in late:
                accepted[stream].append(row)
        result = push(join, run, events)
        found = result.numbers()
        table = result.to_arrow()
        if not table.num_rows:
            continue
        for name in run.names:
            wanted = batch([accepted[name][n] for n in found[name].tolist()], run, name)
            for field in run.schema(name):
                label = field.name if field.name in table.schema.names else f"{name}_{field.name}"
                got = table.column(label).combine_chunks().cast(field.type)
                assert repr(got.to_pylist()) == repr(wanted.column(field.name).to_pylist()), label  # NaN too


@examples(15)
@given(runs(many))
def test_a_select_list_is_computed_on_the_combinations(run: Run) -> None:
    first, last = run.names[0], run.names[-1]
    join = make(run, select=f"{first}.id AS one, {last}.id - {first}.id AS apart")
    plain = make(run)
    for events in run.pushes:
        got, wanted = push(join, run, events), push(plain, run, events).to_arrow()
        if not got.count:
            continue
        ids = [wanted.column(f"{name}_id").to_pylist() for name in (first, last)]
        rows = got.to_arrow().to_pydict()
        assert list(rows) == ["one", "apart"]
        pairs = [(one, two - one) for one, two in zip(*ids, strict=True)]
        assert sorted(zip(rows["one"], rows["apart"], strict=True)) == sorted(pairs)


def later(run: Run) -> tuple[tuple[Event, ...], ...]:
    """Pushes that move every window on, past all that came before; each row is alone in its time."""
    empty = {name: dict.fromkeys(run.schema(name).names) for name in run.names}
    times = range(10_000, 13_000, 100)
    return tuple(tuple((name, {**empty[name], "id": -1, "ts": t}) for name in run.names) for t in times)


@examples(20)
@given(runs(many, "chain", window=bounded))
def test_push_everything_expire_everything_and_only_the_last_window_is_left(run: Run) -> None:
    longer = replace(run, pushes=(*run.pushes, *later(run)), subwindow=4)
    join = make(longer)
    for events in longer.pushes:
        push(join, longer, events)
    for name, window in run.windows.items():
        most = window[1] if window[0] == "rows" else 1
        held = join.stats()["streams"][name]
        assert held["rows"] <= most + 2 * 4, f"{name} keeps {held['rows']} rows in {window}"


# ---- self-joins, options ----------------------------------------------------------------------------------------

THE_SAME = conjunction([equality("a", "b"), band("c", "b", 1, 0, "x"), of_three("a", "b", "c")[0]])


@examples(30)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=12), st.integers(1, 12), st.data())
def test_a_stream_under_several_names_meets_itself_row_by_row(
    keys: list[tuple[int, int]], size: int, data: st.DataObject
) -> None:
    """Each row arrives under all names before the next row; a row meets itself."""
    rows = [{"id": n, "ts": n, "k": k, "x": x} for n, (k, x) in enumerate(keys)]
    windows = {name: data.draw(bounded) for name in "abc"}
    run = Run(THE_SAME, windows, (tuple(under_all_names(rows, "abc")),), dict.fromkeys("abc", pa.int64()))
    check(run.split([3 * size]))


@pytest.mark.skipif("probe_order" not in OPTIONS, reason="StreamJoin has no probe_order= yet")
@examples(40)
@given(runs(many), st.randoms(use_true_random=False))
def test_no_probe_order_changes_the_result(run: Run, random: Any) -> None:
    others = {name: [one for one in run.names if one != name] for name in run.names}
    check(run, probe_order={name: random.sample(rest, len(rest)) for name, rest in others.items()})


@pytest.mark.skipif("stash" not in OPTIONS, reason="StreamJoin has no stash= yet")
@examples(40)
@given(runs(many), st.sampled_from(["auto", 1, 2, 3, 10, 1000]))
def test_no_stash_changes_the_result(run: Run, stash: str | int) -> None:
    check(run, stash=stash)


@pytest.mark.parametrize("how", ["left", "full", "semi", "right_anti"])
def test_more_than_two_streams_are_joined_inner_only(how: str) -> None:
    with pytest.raises(wm.WatersmeetError, match="two"):
        wm.StreamJoin("a.k = b.k AND b.k = c.k", a=wm.Rows(1), b=wm.Rows(1), c=wm.Rows(1), how=how)
