"""Properties that every join has, whatever its condition, types, windows, index, pushes and join type."""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import check, drive, examples, expected, late_ids, make, pairs, push, reload, same_pairs
from oracle import Event, Window
from strategies import HOWS, INDEXES, Run, batch, runs

OUTER = tuple(how for how in HOWS if how != "inner")
# index and join type are both drawn; most examples are inner joins on an index that fits
any_run = st.sampled_from(HOWS).flatmap(lambda how: runs(how=how))


@pytest.mark.parametrize("index", INDEXES)
def test_every_index_gives_what_the_three_step_procedure_gives(index: str) -> None:
    @examples(60)
    @given(runs(index))
    def holds(run: Run) -> None:
        check(run)

    holds()


@examples(80)
@given(runs())
def test_any_condition_in_any_windows_gives_what_the_three_step_procedure_gives(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("how", OUTER)
def test_rows_without_partner_are_emitted_once_and_when_they_can_no_longer_match(how: str) -> None:
    @examples(30)
    @given(runs(how=how))
    def holds(run: Run) -> None:
        check(run)

    holds()


def whole(run: Run, **options: object) -> list[tuple[int, int]]:
    """All pairs of a run, in one sorted list."""
    return sorted(chain.from_iterable(drive(run, **options)[0]))


@examples(40)
@given(any_run, st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_big_steps_equal_small_steps(run: Run, sizes: list[int]) -> None:
    one_by_one = whole(run.split([1]))
    same_pairs(whole(run.split([1000])), one_by_one, "everything in one push", run)
    same_pairs(whole(run.split(sizes)), one_by_one, f"pushes of {sizes}", run)


@examples(40)
@given(any_run, st.sampled_from([1, 2, 5, 64, None]))
def test_cores_and_sub_windows_do_not_change_the_result(run: Run, subwindow: int | None) -> None:
    base = drive(replace(run, cores=1, subwindow=None))
    assert drive(replace(run, cores=2, subwindow=subwindow)) == base


def later(run: Run) -> tuple[tuple[Event, ...], ...]:
    """Pushes that move every window on, past all that came before; each row is alone in its time."""
    empty = {side: dict.fromkeys(run.schema(side).names) for side in "rs"}
    times = range(10_000, 13_000, 100)
    return tuple(tuple((side, {**empty[side], "id": -1, "ts": time}) for side in "rs") for time in times)


bounded = st.one_of(
    st.integers(1, 10).map(lambda n: ("rows", n)),
    st.builds(lambda t, late: ("range", t, "ts", late), st.integers(0, 8), st.integers(0, 6)),
)


@examples(40)
@given(st.sampled_from(HOWS).flatmap(lambda how: runs(how=how, window=bounded)))
def test_push_everything_expire_everything_and_only_the_last_window_is_left(run: Run) -> None:
    longer = replace(run, pushes=(*run.pushes, *later(run)), subwindow=4)
    join = make(longer)
    for events in longer.pushes:
        push(join, longer, events)
    for side in "rs":
        held, window = join.stats()["streams"][side], getattr(longer, side)
        most = window[1] if window[0] == "rows" else 1
        assert held["rows"] <= most + 2 * 4, f"{side} keeps {held['rows']} rows in {window}"
        assert held["subwindows"] <= most / 4 + 3


@examples(30)
@given(any_run)
def test_a_finished_join_holds_nothing(run: Run) -> None:
    join = make(run)
    for events in run.pushes:
        push(join, run, events)
    join.finish()
    for side in "rs":
        assert join.stats()["streams"][side]["rows"] == 0
        assert join.stats()["streams"][side]["subwindows"] == 0


@examples(40)
@given(any_run, st.sets(st.integers(0, 20)))
def test_saving_and_loading_anywhere_changes_nothing(run: Run, after: set[int]) -> None:
    base = drive(run)
    with TemporaryDirectory() as folder:

        def swap(number: int, join: wm.StreamJoin) -> wm.StreamJoin:
            return reload(join, Path(folder) / str(number)) if number in after else join

        assert drive(run, swap) == base


@examples(40)
@given(any_run)
def test_counting_agrees_with_pairs(run: Run) -> None:
    join = make(run, result="count")
    counts = [push(join, run, events).count for events in run.pushes]
    assert [*counts, join.finish().count] == [len(found) for found in drive(run)[0]]


@examples(60)
@given(runs())
def test_ranges_written_out_are_the_pairs(run: Run) -> None:
    join = make(run, result="ranges")
    for number, (events, wanted) in enumerate(zip(run.pushes, drive(run)[0], strict=False)):
        result = push(join, run, events)
        same_pairs(pairs(result), wanted, f"push {number}, ranges and pairs()", run)
        same_pairs(written_out(result.ranges()), wanted, f"push {number}, ranges by hand", run)


def written_out(ranges: list[dict[str, Any]]) -> list[tuple[int, int]]:
    found = []
    for records in ranges:
        run = records["run"]().tolist()
        for probe, start, end in zip(records["probe"], records["start"], records["end"], strict=True):
            partners = [(int(probe), other) for other in run[start:end]]
            found += partners if records["stream"] == "r" else [(r, s) for s, r in partners]
    return found


@examples(30)
@given(any_run)
def test_the_payload_is_that_of_the_pairs(run: Run) -> None:
    run = replace(run, declared=True)
    join = make(run)
    refused = expected(run).late
    accepted = {side: [] for side in "rs"}  # type: dict[str, list[dict[str, object]]]
    results = []
    for events, bad in zip(run.pushes, refused, strict=True):
        results.append(push(join, run, events))
        ids = late_ids(bad)
        for stream, row in events:
            if row["id"] not in ids.get(stream, []):
                accepted[stream].append(row)
    for result in [*results, join.finish()]:
        found = result.pairs()
        table = result.to_arrow()
        assert table.num_rows == result.count
        for side in "rs":
            if side not in shown(run.how):
                continue
            schema = run.schema(side)
            rows = [
                accepted[side][n] if n >= 0 else dict.fromkeys(schema.names) for n in found[side].tolist()
            ]
            wanted = batch(rows, run, side)
            for name in schema.names:
                label = name if name in table.schema.names else f"{side}_{name}"
                got = table.column(label).combine_chunks().cast(wanted.column(name).type)
                assert repr(got.to_pylist()) == repr(wanted.column(name).to_pylist()), label  # NaN too


def shown(how: str) -> str:
    """The streams whose columns ``select="*"`` gives: a semi or anti join shows only its own side."""
    if "semi" in how or "anti" in how:
        return "s" if how.startswith("right") else "r"
    return "rs"


@examples(40)
@given(runs(), st.booleans())
def test_merging_by_a_time_column_is_the_interleaving_in_time_order(run: Run, one_push: bool) -> None:
    in_order = sorted(run.events, key=lambda event: (event[1]["ts"], event[0]))  # stable; r before s in ties
    ordered = replace(run, pushes=(tuple(in_order),)).split([1000] if one_push else [7, 3])
    base = drive(ordered)
    join = make(ordered)
    found = []
    for events in ordered.pushes:
        rows = {side: [row for stream, row in events if stream == side] for side in "rs"}
        result = join.push(**{side: batch(rows[side], ordered, side) for side in "rs"}, order="ts")
        found.append(pairs(result))
    assert [*found, pairs(join.finish())] == base[0]


times = st.builds(lambda t, late: ("range", t, "ts", late), st.integers(0, 8), st.integers(0, 20))


@examples(40)
@given(runs(window=times))
def test_time_windows_do_not_ask_who_came_first(run: Run) -> None:
    """With enough patience the result depends on the times alone, whatever the order of arrival."""
    patient: dict[str, Window] = {side: (*getattr(run, side)[:3], 1000) for side in "rs"}
    run = replace(run, r=patient["r"], s=patient["s"])
    ids = {side: [row["id"] for stream, row in run.events if stream == side] for side in "rs"}
    backwards = replace(run, pushes=(tuple(reversed(run.events)),))
    last = {side: len(ids[side]) - 1 for side in "rs"}
    turned = [(last["r"] - r, last["s"] - s) for r, s in whole(backwards)]
    same_pairs(turned, whole(run), "the other way round", run)
