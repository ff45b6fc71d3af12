"""How rows are spread: the ways chosen, borders that follow the data, heavy buckets shared."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import watersmeet as wm
from spark import simple
from spark.runner import Runner
from watersmeet.condition import Condition
from watersmeet.spark.layout import Layout
from watersmeet.spark.planning import cut
from watersmeet.spark.spread import choose_spread

BAND = "r.x BETWEEN s.x - 1 AND s.x + 1"


@pytest.mark.parametrize(
    ("condition", "window", "order", "expected"),
    [
        ("r.x = s.x", wm.Range(5), None, "hash"),
        ("r.x = s.x AND r.id < s.id", wm.Unbounded(), "ts", "hash"),
        (BAND, wm.Range(5), "ts", "range"),
        ("r.x < s.x", wm.Range(5), None, "counted"),
        ("r.x = s.x OR r.id = s.id", wm.Range(5), None, "counted"),
        ("r.x = s.x", wm.Rows(5), None, "counted"),
    ],
)
def test_the_way_follows_from_condition_and_windows(
    condition: str, window: Any, order: Any, expected: str
) -> None:
    bound = Condition(condition).bind({"r": simple.SCHEMA, "s": simple.SCHEMA})
    assert choose_spread("auto", bound, (window, window), order, "inner") == expected


def layouts(folder: Path, batch: int, which: str) -> list[Layout]:
    texts = [path.read_text() for path in sorted(folder.rglob(f"{batch:012d}.json"))]
    found = [json.loads(text.partition("\n")[2])[which] for text in texts]
    assert all(one == found[0] for one in found)  # every core has come to the same
    return [Layout.from_json(data) for data in found[0]]


def pairs(condition: Any, parts: list[list[Any]]) -> int:
    left, right = (np.concatenate([part.column("x").to_numpy() for part in side]) for side in parts)
    return int(condition(left[:, None], right[None, :]).sum())


def stored(folder: Path, batch: int) -> list[list[int]]:
    """Rows of each stream on each core."""
    found = []
    for path in sorted(folder.rglob(f"{batch:012d}.json")):
        body = json.loads(path.read_text().partition("\n")[2])
        found.append([stream["rows"] for stream in body["streams"]])
    return found


def test_borders_follow_the_keys_and_rows_are_stored_about_once(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path, BAND, cores=4, window=wm.Unbounded()))
    rng = np.random.default_rng(1)
    keys = [rng.integers(0, 10_000, 200) for _ in range(4)]
    total = 0
    seen: list[list[Any]] = [[], []]
    for number in range(4):
        parts = simple.both(number, 200, keys=keys[number])
        for k in (0, 1):
            seen[k] += parts[k]
        total += len(runner.batch(number, parts))
    assert total == pairs(lambda r, s: abs(r - s) <= 1, seen)
    assert len(layouts(tmp_path, 0, "layouts")[0].groups) == 1
    (now,) = layouts(tmp_path, 3, "layouts")
    assert [stop - first for first, stop in now.groups] == [1, 1, 1, 1]
    rows = stored(tmp_path, 3)
    assert sum(row[0] for row in rows) == 1600
    assert 1600 <= sum(row[1] for row in rows) < 1680  # few copies, near borders
    assert max(row[0] for row in rows) < 600


def test_a_heavy_key_is_shared_by_several_cores(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path, BAND, cores=4, window=wm.Unbounded()))
    rng = np.random.default_rng(2)
    total, seen = 0, [[], []]
    for number in range(3):
        keys = np.where(rng.random(200) < 0.7, 500, rng.integers(0, 1000, 200))
        sides = [
            [simple.rows(2 * number + part, 200, keys) for part in (0, 1)],
            [simple.rows(number, 20, seed=1)],
        ]
        for k in (0, 1):
            seen[k] += sides[k]
        total += len(runner.batch(number, sides))
    assert total == pairs(lambda r, s: abs(r - s) <= 1, seen)
    (now,) = layouts(tmp_path, 2, "layouts")
    assert max(stop - first for first, stop in now.groups) >= 2
    rows = [row[0] for row in stored(tmp_path, 2)]
    assert sum(rows) == 1200
    assert max(rows) < 500  # the heavy key alone has about 840


def test_a_wide_band_is_not_cut_into_narrow_buckets(tmp_path: Path) -> None:
    condition = "r.x BETWEEN s.x - 100000 AND s.x + 100000"
    runner = Runner(simple.spec(tmp_path, condition, cores=4, window=wm.Unbounded()))
    found = sum(len(runner.batch(number, simple.both(number))) for number in range(2))
    assert found == 80 * 80
    assert max(row[0] for row in stored(tmp_path, 1)) < 40


def test_borders_move_when_the_keys_do(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path, BAND, cores=3))
    before = None
    for number in range(24):
        keys = np.random.default_rng(number).integers(0, 1000, 60) + (0 if number < 6 else 100_000)
        runner.batch(number, simple.both(number, 60, keys=keys))
        if number == 5:
            (before,) = layouts(tmp_path, 5, "layouts")
    (after,) = layouts(tmp_path, 23, "layouts")
    assert before is not None
    assert max(before.borders) < 2000
    assert min(after.borders) > 90_000


def test_cut_gives_every_core_to_exactly_one_bucket() -> None:
    for sketch in ([], [(1, 5)], [(1, 1), (2, 100), (3, 1)], [(i, 1) for i in range(100)]):
        for cores in (1, 2, 3, 7):
            for buckets in range(1, cores + 1):
                layout = cut(sketch, buckets, cores)
                assert [core for first, stop in layout.groups for core in range(first, stop)] == list(
                    range(cores)
                )
                assert len(layout.borders) == len(layout.groups) - 1
                assert list(layout.borders) == sorted(set(layout.borders))


@pytest.mark.parametrize("window", [wm.Unbounded(), wm.Rows(10_000)], ids=["unbounded", "rows"])
def test_broadcast_stores_every_row_once(tmp_path: Path, window: Any) -> None:
    runner = Runner(simple.spec(tmp_path, "r.x < s.x", cores=3, window=window))
    seen: list[list[Any]] = [[], []]
    total = 0
    for number in range(3):
        parts = simple.both(number)
        for k in (0, 1):
            seen[k] += parts[k]
        total += len(runner.batch(number, parts))
    assert total == pairs(lambda r, s: r < s, seen)
    rows = stored(tmp_path, 2)
    assert [sum(row[k] for row in rows) for k in (0, 1)] == [120, 120]
    assert min(row[k] for row in rows for k in (0, 1)) > 20
