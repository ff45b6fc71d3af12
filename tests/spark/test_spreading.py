"""How rows are spread: the ways chosen, borders that follow the data, heavy buckets shared."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import watersmeet as wm
from spark import simple
from spark.runner import Runner
from spark.test_matrix import HOWS
from spark.test_rebucket import RANGE, Case
from watersmeet.spark.shuffle import planning
from watersmeet.spark.shuffle.layout import Layout, first_layouts
from watersmeet.spark.shuffle.planning import balanced, batch_layouts, best_layout, busiest, cut, sampled
from watersmeet.spark.shuffle.spread import choose_spread
from watersmeet.spark.spec import Binding
from watersmeet.spark.task import Task
from watersmeet.sql.condition import Condition

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


@pytest.mark.parametrize("heavy", [0, 1], ids=["first-stream", "second-stream"])
@pytest.mark.parametrize("key", [0, 500, 999])
def test_a_heavy_key_of_either_stream_is_shared(tmp_path: Path, heavy: int, key: int) -> None:
    runner = Runner(simple.spec(tmp_path, BAND, cores=4, window=wm.Unbounded()))
    rng = np.random.default_rng(3)
    total, seen = 0, [[], []]
    for number in range(4):
        sides = []
        for k in (0, 1):
            keys = rng.integers(0, 1000, 200)
            keys = np.where(rng.random(200) < 0.7, key, keys) if k == heavy else keys
            sides.append([simple.rows(2 * number + part, 200, keys, seed=k) for part in (0, 1)])
            seen[k] += sides[k]
        total += len(runner.batch(number, sides))
    assert total == pairs(lambda r, s: abs(r - s) <= 1, seen)
    (now,) = layouts(tmp_path, 3, "layouts")
    assert now.home == heavy
    rows = [sum(row) for row in stored(tmp_path, 3)]
    assert max(rows) < 1.5 * sum(rows) / 4
    assert 3200 <= sum(rows) < 3400  # few copies


@pytest.mark.parametrize("how", HOWS)
def test_layouts_that_change_all_the_time_change_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(planning, "SETTLED", 1)
    monkeypatch.setattr(planning, "WORTH", (1, 1))
    homes, changes, before = set(), 0, None
    for seed in range(3):
        folder = tmp_path / str(seed)
        case = Case(folder, "range", (RANGE, RANGE), how, 3, "range")
        rng = random.Random(f"{how}{seed}")
        for number in range(10):
            heavy, key = "rs"[number // 3 % 2], rng.randrange(40)
            rows: dict[str, list[dict[str, Any]]] = {"r": [], "s": []}
            for place in range(40):
                side = rng.choice("rs")
                x = key if side == heavy and rng.random() < 0.7 else rng.randrange(40)
                ts = max(0, 3 * number + rng.randrange(3) - rng.choice([0, 0, 0, 8]))
                rows[side].append({"id": 40 * number + place, "ts": ts, "x": rng.choice([x, x, x, x, None])})
            case.batch(rows)
            now = layouts(folder, number, "layouts")
            homes |= {layout.home for layout in now}
            changes += now != before
            before = now
            if rng.random() < 0.2:
                case.runner.restart()
    assert changes >= 9
    assert homes == ({0, 1} if how in ("inner", "full") else {int(how.startswith("right"))})


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


@pytest.mark.parametrize("how", ["inner", "left", "right"])
def test_the_best_layout_gives_every_core_to_exactly_one_bucket(how: str) -> None:
    rng = np.random.default_rng(4)
    for cores in (2, 3, 8):
        bound = Binding(simple.spec("", BAND, cores=cores, how=how))
        for _ in range(30):
            keys = [
                sorted((int(rng.integers(0, 50)), int(rng.integers(1, 2000) ** rng.integers(0, 2))) for _ in range(size))
                for size in rng.choice([0, 1, 5, 60], 2)
            ]  # fmt: skip
            found = [best_layout(bound, bound.sections[0], keys)]
            found += [balanced(bound, keys, cores, home) for home in (0, 1)]
            for layout in found:
                assert [core for first, stop in layout.groups for core in range(first, stop)] == list(
                    range(cores)
                )
                assert all(first < stop for first, stop in layout.groups)
                assert len(layout.borders) == len(layout.groups) - 1
                assert list(layout.borders) == sorted(set(layout.borders))
                assert Layout.from_json(json.loads(json.dumps(layout.to_json()))) == layout
            assert how == "inner" or found[0].home == int(how == "right")
            assert busiest(bound, found[0], keys) <= busiest(bound, first_layouts(bound)[0], keys)


def test_a_batch_join_deals_out_the_stream_with_the_heavy_key(tmp_path: Path) -> None:
    spec = simple.spec(tmp_path, BAND, cores=4, window=wm.Unbounded(), streaming=False)
    rng = np.random.default_rng(5)
    heavy = np.where(rng.random(800) < 0.7, 500, rng.integers(0, 1000, 800))
    sides = [[simple.rows(0, 800, rng.integers(0, 1000, 800))], [simple.rows(0, 800, heavy, seed=1)]]
    samples = [
        [(0, row["rows"], row["keys"]) for part in sampled(spec, k, sides[k], lambda: Task(0)) for row in part.to_pylist()]
        for k in (0, 1)
    ]  # fmt: skip
    spec = replace(spec, layouts=batch_layouts(Binding(spec), samples), instance=f"{tmp_path}")
    assert [layout.home for layout in spec.layouts] == [1]
    assert len(Runner(spec).batch(None, sides)) == pairs(lambda r, s: abs(r - s) <= 1, sides)


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
