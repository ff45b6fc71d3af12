"""How joins of many streams are spread: what the join graph has in common, grids and their sizes, what is learnt, what is refused."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from multiway import Run
from multiway_conditions import Condition as Both
from multiway_conditions import band, comparison, conjunction, equality
from oracle import Event
from spark.many import Many
from watersmeet.errors import OptionError, StateError
from watersmeet.spark import explain
from watersmeet.spark.graph import band_tree, equality_classes
from watersmeet.spark.shuffle.layout import Layout, Router, Share, by_core, contents
from watersmeet.spark.shuffle.planning import first_layouts
from watersmeet.spark.shuffle.shares import SOME, fullest, grid
from watersmeet.spark.shuffle.spread import choose_spread, possible
from watersmeet.spark.spec import Binding, JoinSpec
from watersmeet.spark.state.tables import read
from watersmeet.sql.condition import BoundCondition, Condition

SCHEMA = pa.schema({name: pa.int64() for name in ("id", "ts", "k", "x", "y")} | {"name": pa.string()})
RANGE = ("range", 6, "ts", 3)
TRIANGLE = "a.k = b.k AND b.x = c.x AND c.y = a.y"


def bound(text: str, streams: str = "abc") -> BoundCondition:
    return Condition(text).bind(dict.fromkeys(streams, SCHEMA))


def binding(
    text: str, streams: str = "abc", spread: str = "auto", cores: int = 4, window: Any = None, order: str | None = None
) -> Binding:  # fmt: skip
    windows = (window or wm.Range(6, time="ts"),) * len(streams)
    chosen = choose_spread(spread, bound(text, streams), windows, order, "inner")
    schemas = (SCHEMA,) * len(streams)
    return Binding(JoinSpec(text, tuple(streams), windows, schemas, order=order, spread=chosen, cores=cores))


# ---- the join graph ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "streams", "classes"),
    [
        ("a.k = b.k AND b.k = c.k", "abc", ["a.k = b.k = c.k"]),
        ("c.k = b.k AND d.x = a.x AND a.k = b.k", "abcd", ["a.x = d.x", "a.k = b.k = c.k"]),
        (TRIANGLE, "abc", ["a.k = b.k", "b.x = c.x", "a.y = c.y"]),
        ("a.k = b.k AND a.x = b.k AND b.k = c.k", "abc", ["a.k = b.k = c.k"]),  # a row of a has both equal, or no partner
        ("a.k < b.k AND b.x <> c.x", "abc", []),
        ("a.name = b.name AND b.name <=> c.name", "abc", ["a.name = b.name", "b.name = c.name"]),  # NULL is another value in each
    ],
)  # fmt: skip
def test_equalities_make_classes(text: str, streams: str, classes: list[str]) -> None:
    assert [one.text for one in equality_classes(bound(text, streams))] == classes


def test_each_equality_of_two_streams_is_a_class_of_its_own() -> None:
    found = equality_classes(bound("a.k = b.k AND a.x = b.k", "ab"))
    assert [one.text for one in found] == ["a.k = b.k", "a.x = b.k"]


def test_a_tree_has_the_most_streams_and_one_key_of_each() -> None:
    text = "a.x BETWEEN b.x - 1 AND b.x + 2 AND c.x BETWEEN b.x - 4 AND b.x AND a.y = c.y AND d.k < a.k"
    tree = band_tree(bound(text, "abcd"))
    assert tree is not None
    assert sorted(tree.bands) == [0, 1, 2]
    # b.x is in [c.x, c.x + 4]; a.x in [b.x - 1, b.x + 2]
    ((lo, hi),) = tree.bounds(2, 0, np.array([10, -5]))
    assert (lo.tolist(), hi.tolist()) == ([9, -6], [16, 1])
    assert band_tree(bound("a.x < b.x AND b.k <> c.k")) is None


def test_a_chain_of_bands_at_the_ends_of_int64_leaves_nobody_out() -> None:
    tree = band_tree(bound("a.x BETWEEN b.x - 2 AND b.x + 2 AND b.x BETWEEN c.x - 2 AND c.x + 2"))
    assert tree is not None
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for way in ((0, 2), (2, 0)):
        ((lo, hi),) = tree.bounds(*way, np.array([least, least + 1, 0, most]))
        assert (lo <= np.array([least, least, -4, most - 4])).all()
        assert (hi >= np.array([least + 4, least + 5, 4, most])).all()


# ---- what is chosen ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("a.k = b.k AND b.k = c.k", ["hash", "range", "shares", "broadcast"]),
        ("a.name = b.name AND b.name = c.name", ["hash", "shares", "broadcast"]),
        ("a.x BETWEEN b.x - 1 AND b.x + 1 AND c.x BETWEEN b.x - 1 AND b.x + 1", ["range", "broadcast"]),
        (TRIANGLE, ["shares", "range", "broadcast"]),
        ("a.x BETWEEN b.x - 1 AND b.x + 1 AND b.y < c.y", ["range", "broadcast"]),
        ("a.x + b.x > c.x", ["broadcast"]),
    ],
)
def test_ways_of_spreading_the_best_first(text: str, ways: list[str]) -> None:
    assert possible(bound(text)) == ways


def test_windows_that_need_the_order_of_all_rows_are_counted() -> None:
    condition, timed = bound("a.k = b.k AND b.k = c.k"), wm.Range(5, time="ts")
    assert choose_spread("auto", condition, [timed, timed, wm.Rows(3)], None, "inner") == "counted"
    assert choose_spread("auto", condition, [timed, timed, wm.Unbounded()], None, "inner") == "counted"
    assert choose_spread("auto", condition, [timed, timed, wm.Unbounded()], None, "inner", [2]) == "hash"
    assert choose_spread("auto", condition, [timed, wm.Unbounded(), wm.Unbounded()], None, "inner") == "hash"
    assert (
        choose_spread("auto", condition, [timed, wm.Unbounded(), wm.Unbounded()], "ts", "inner") == "counted"
    )
    with pytest.raises(
        OptionError,
        match="spread='shares' must not need the order of all rows; got several Range windows beside",
    ):
        choose_spread("shares", condition, [timed, timed, wm.Unbounded()], None, "inner")


def test_what_a_condition_does_not_allow_is_refused() -> None:
    timed = [wm.Range(5, time="ts")] * 3
    with pytest.raises(
        OptionError, match="spread='hash' needs equalities that make one value of all streams equal"
    ):
        choose_spread("hash", bound(TRIANGLE), timed, None, "inner")
    with pytest.raises(OptionError, match="spread='shares' needs three streams or more, and an equality"):
        choose_spread("shares", bound("a.k = b.k", "ab"), timed[:2], None, "inner")
    with pytest.raises(OptionError, match="spread='range' needs a band with two ends"):
        choose_spread("range", bound("a.x < b.x AND b.k <> c.k"), timed, None, "inner")


# ---- sizes ------------------------------------------------------------------------------------------------------


def sizes(
    text: str, cores: int, rows: list[int] | None = None, heavy: Any = None, **options: Any
) -> tuple[int, ...]:
    made = binding(text, cores=cores, **options)
    return grid(made.dimensions, cores, rows or [SOME] * len(made.spec.streams), heavy or {})


def test_sizes_of_grids() -> None:
    assert sizes(TRIANGLE, 8) == (2, 2, 2, 1, 1, 1)
    assert sizes(TRIANGLE, 64) == (4, 4, 4, 1, 1, 1)
    assert sizes("a.k = b.k AND b.k = c.k", 6) == (6, 1, 1, 1)
    assert sizes("a.k = b.k AND b.x = c.x", 4, [1000, 1000, 10]) == (4, 1, 1, 1, 1)  # c is copied
    assert sizes("a.x + b.x > c.x", 4, [1000, 10, 10]) == (4, 1, 1)  # one is dealt out, the others are whole
    assert sizes("a.x + b.x > c.x", 4, [1000, 1000, 10]) == (
        2,
        2,
        1,
    )  # in a dimension each, every two rows still meet
    assert sizes("a.x + b.x > c.x", 1) == (1, 1, 1)
    assert sizes(TRIANGLE, 4, spread="broadcast", rows=[9, 1000, 9]) == (1, 4, 1)


def test_a_heavy_key_makes_a_stream_dealt_out() -> None:
    text, even = "a.k = b.k AND b.k = c.k", [1000, 1000, 1000]
    heavy = {(0, 0): (900, 1000)}
    assert sizes(text, 4, even) == (4, 1, 1, 1)
    assert sizes(text, 4, [10_000, 100, 100], heavy) == (1, 4, 1, 1)
    made = binding(text)
    assert fullest(made.dimensions, (4, 1, 1, 1), even, heavy) == 925 + 250 + 250


def test_no_grid_is_larger_than_the_cores_and_few_cores_are_idle() -> None:
    for cores in (*range(1, 33), 97, 4096):
        found = sizes(TRIANGLE, cores)
        assert cores * 3 // 4 <= np.prod(found) <= cores, cores


# ---- rows meet once ---------------------------------------------------------------------------------------------


def events(
    seed: int, rows: int, names: str = "abc", keys: int = 6, batch: int = 0, only: str = ""
) -> list[Event]:
    rng = random.Random(f"{seed} {batch}")
    found = []
    for i in range(rows):
        name = only or rng.choice(names)
        values = {column: rng.randrange(keys) if rng.random() > 0.05 else None for column in "kxy"}
        found.append(
            (name, {"id": 1000 * batch + i, "ts": 2 * batch + rng.randrange(3), **values, "name": "n"})
        )
    return found


def run_of(condition: Both, names: str = "abc", window: Any = RANGE) -> Run:
    return Run(condition, dict.fromkeys(names, window), (), dict.fromkeys(names, pa.int64()))


CHAIN = conjunction([equality("a", "b"), equality("b", "c", "x")])
ONE_KEY = conjunction([equality("a", "b"), equality("b", "c")])
BANDS = conjunction([band("a", "b", 1, 1), band("b", "c", 0, 1)])
THETA = conjunction([comparison("<", "a", "x", "b", "x"), comparison("<>", "b", "k", "c", "k")])


@pytest.mark.parametrize("cores", [3, 4])
@pytest.mark.parametrize(
    "condition", [CHAIN, ONE_KEY, BANDS, THETA], ids=["chain", "one-key", "bands", "theta"]
)
def test_sizes_and_borders_follow_the_data_and_nothing_is_lost(
    tmp_path: Path, condition: Both, cores: int
) -> None:
    """First all streams are alike, then nearly all rows are of one stream, then nearly all of another, on one key."""
    many, layouts, found = Many(run_of(condition), tmp_path, cores=cores), [], 0
    for batch in range(14):
        only = "" if batch < 3 else ("a" if batch < 9 else "b")
        rows = events(cores, 9, batch=batch) + (
            events(cores, 24, keys=2, batch=batch, only=only) if only else []
        )
        rows = [(name, {**row, "id": 100 * batch + i}) for i, (name, row) in enumerate(rows)]
        found += len(many.batch(rows))
        (manifest,) = tmp_path.rglob(f"of-{cores:04d}/core-0000/{batch:012d}.json")
        layouts.append(json.loads(manifest.read_text().partition("\n")[2])["next_layouts"][0])
    assert found > 20
    assert len({json.dumps(one) for one in layouts}) > 1


def test_two_streams_dealt_out_in_one_dimension_would_lose_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parallel-MJ's mistake, and what finds it."""

    class Printed(Router):
        def _cells(self, k: int, batch: pa.RecordBatch, layout: Layout) -> Iterator[Share]:
            if k < 2:  # both by the same numbers of cores
                return by_core(contents(batch) % np.uint64(layout.cores), layout.cores)
            return ((core, np.arange(batch.num_rows), None) for core in range(layout.cores))

    rows = events(1, 60)
    assert len(Many(run_of(THETA), tmp_path / "right", cores=3).batch(rows)) > 50
    monkeypatch.setattr("watersmeet.spark.shuffle.packing.Router", Printed)
    with pytest.raises(AssertionError, match="missing"):
        Many(run_of(THETA), tmp_path / "wrong", cores=3).batch(rows)


@pytest.mark.parametrize("condition", [CHAIN, ONE_KEY, THETA], ids=["chain", "one-key", "theta"])
def test_copies_do_not_become_rows_of_their_own(tmp_path: Path, condition: Both) -> None:
    many = Many(run_of(condition, window=("unbounded",)), tmp_path, "broadcast", cores=4)
    many.batch(events(2, 40))
    assert many.runner.figures[-1]["state_rows"] > 40
    for cores in (3, 1):
        many.restart(cores=cores)
        many.batch([])
    assert many.runner.figures[-1]["state_rows"] == 40


# ---- tables -----------------------------------------------------------------------------------------------------


def with_table(tmp_path: Path, **options: Any) -> Many:
    run = replace(
        run_of(ONE_KEY), windows={"a": RANGE, "b": RANGE, "c": ("unbounded",)}, pushes=(tuple(events(3, 50)), tuple(events(3, 50, batch=1)))
    )  # fmt: skip
    return Many(run, tmp_path, static=["c"], **options)


@pytest.mark.parametrize("spread", ["hash", "shares", "broadcast", "range"])
def test_a_table_comes_before_all_streams_and_stays(tmp_path: Path, spread: str) -> None:
    many = with_table(tmp_path, spread=spread)
    assert many.runner.spec.spread == spread
    found = 0
    for number, push in enumerate(many.run.pushes):
        found += len(many.batch(push))
        many.restart(cores=1 + 2 * number)
    assert found + len(many.batch(events(4, 30, "ab", batch=2))) > 50


def test_a_changed_table_is_refused(tmp_path: Path) -> None:
    many = with_table(tmp_path)
    many.batch(many.run.pushes[0])
    table = many.runner.spec.tables[2]
    assert table is not None
    for other, told in (
        (replace(table, rows=7), f"the table 'c' had {table.rows} rows and now has 7"),
        (replace(table, sums={**table.sums, "k": "other"}), "the table 'c' now has other values in k"),
        (None, "'c' was a table and is now a stream"),
    ):
        many.restart(tables=() if other is None else (None, None, other))
        with pytest.raises(StateError, match=f"must join as before.*{told}"):
            many.runner.batch(1, [many.parts([], name, 1) for name in "abc"])
    many.restart(tables=(None, None, table))
    many.batch(many.run.pushes[1])


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    many = with_table(tmp_path)
    (path,) = tmp_path.rglob("*.arrow")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(
        StateError, match=f"the table 'c' must be in {path}.*got other bytes than its name says"
    ):
        read(many.runner.spec, 2)
    path.unlink()
    with pytest.raises(StateError, match="got no such file"):
        many.batch(many.run.pushes[0])


# ---- in words ---------------------------------------------------------------------------------------------------


def explained(text: str, **options: Any) -> list[str]:
    shown = explain(SimpleNamespace(_watersmeet=binding(text, **options)))
    return [line.strip() for line in shown.splitlines()]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (
            "a.k = b.k AND b.k = c.k",
            {},
            [
                "stream_join inner of a, b and c, 4 core(s), name join",
                "spread     hash: a row goes to the one core that its key names",
                "spread by  a.k = b.k = c.k",
                "grid       4 by a.k = b.k = c.k at first; then as the rows seen make cheapest",
            ],
        ),
        (
            TRIANGLE,
            {"cores": 8},
            [
                "spread     shares: cores are a grid; a row goes to all that agree with it in the dimensions that it has",
                "spread by  b.x = c.x",
                "grid       2 by a.k = b.k x 2 by b.x = c.x x 2 by a.y = c.y at first; then as the rows seen make cheapest",
            ],
        ),
        (
            "a.x BETWEEN b.x - 1 AND b.x + 1 AND b.y < c.y",
            {},
            ["home       a or b, whichever the keys seen make cheapest", "copied     c: to all cores"],
        ),
        (
            "a.x + b.x > c.x",
            {"cores": 3},
            [
                "because of the condition, which has neither an equality nor a band with two ends",
                "grid       3 by a dealt out at first; then as the rows seen make cheapest",
            ],
        ),
        (
            "a.k = b.k AND b.k = c.k",
            {"window": wm.Rows(5)},
            [
                "spread     broadcast: every core sees every row, and stores its share of one stream",
                "because of a Rows window, which is counted over all cores",
                "dealt out  a",
            ],
        ),
    ],
)
def test_explain_says_how_many_streams_are_spread(
    text: str, options: dict[str, Any], expected: list[str]
) -> None:
    shown = explained(text, **options)
    assert [line for line in expected if line not in shown] == [], shown
    assert any(line.startswith("probes     a: ") for line in shown)


def test_the_first_layouts_are_values(tmp_path: Path) -> None:
    for text in (TRIANGLE, "a.x BETWEEN b.x - 1 AND b.x + 1 AND b.y < c.y", "a.x + b.x > c.x"):
        (layout,) = first_layouts(binding(text))
        assert Layout.from_json(json.loads(json.dumps(layout.to_json()))) == layout
        assert "4 cores" in str(layout)
