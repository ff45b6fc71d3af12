"""What a query has taken in: evaluated twice it stays what it is; other rows under the same number are noticed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import watersmeet as wm
from spark import simple
from spark.runner import Runner
from watersmeet.errors import StateError
from watersmeet.spark.state.garbage import named_runs
from watersmeet.spark.state.location import open_location
from watersmeet.spark.state.manifests import read_manifest
from watersmeet.spark.work import operator
from watersmeet.spark.work.emit import in_order


def other(number: int) -> list[list[Any]]:
    """Rows that the sources have not given before."""
    return [[simple.rows(100 + 2 * number + part, 20, seed=k) for part in (0, 1)] for k in (0, 1)]


def manifests(folder: Path) -> dict[str, str]:
    """The id of every manifest there."""
    place = open_location(str(folder))
    found = {str(path): read_manifest(place, str(path)) for path in folder.rglob("*.json")}
    return {path: manifest.id for path, manifest in found.items() if manifest is not None}


@pytest.mark.parametrize("spread", ["hash", "broadcast"])
def test_a_second_evaluation_finds_the_same_and_leaves_the_first_manifest(
    tmp_path: Path, spread: str
) -> None:
    runner = Runner(simple.spec(tmp_path, spread=spread))
    for number in range(4):
        found = simple.found(runner.batch(number, simple.both(number)))
        before = manifests(tmp_path)
        assert simple.found(runner.batch(number, simple.both(number))) == found
        assert manifests(tmp_path) == before
        waiting = [held[0] for name, held in operator._waiting.items() if name.startswith(str(tmp_path))]
        assert set(waiting) <= set(before.values()), "a core that lives on equals the manifest that stayed"
        assert len(waiting) == 2


def test_a_frame_of_another_batch_is_refused(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path))
    for number in range(3):
        runner.batch(number, simple.both(number))
    with pytest.raises(
        StateError, match=r"got other rows for batch 2 of core \d of join 'join'.*own call only"
    ):
        runner.batch(2, simple.both(1))
    plain = Runner(simple.spec(tmp_path / "plain"))
    wanted = [simple.found(plain.batch(number, simple.both(number))) for number in range(4)]
    assert simple.found(runner.batch(3, simple.both(3))) == wanted[3], "nothing was changed"


def test_rows_in_another_order_and_other_partitions_are_the_same_rows(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path))
    parts = simple.both(0)
    runner.batch(0, parts)
    before = manifests(tmp_path)
    turned = [[rows.take(np.arange(rows.num_rows)[::-1]) for rows in reversed(stream)] for stream in parts]
    runner.batch(0, turned)
    assert manifests(tmp_path) == before


def test_a_query_that_was_taken_back_may_take_in_other_rows(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path, window=wm.Unbounded()))
    plain = Runner(simple.spec(tmp_path / "plain", window=wm.Unbounded()))
    for number in range(5):
        runner.batch(number, simple.both(number))
    for number in range(2):
        plain.batch(number, simple.both(number))
    runner.restart()
    for number in (2, 3, 4):
        found = simple.found(runner.batch(number, other(number)))
        assert found == simple.found(plain.batch(number, other(number)))


def test_a_core_that_was_left_behind_when_the_query_was_taken_back_is_noticed(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path, window=wm.Unbounded()))
    for number in range(5):
        runner.batch(number, simple.both(number))
    runner.restart()
    runner.evaluate(2, 0, runner.packed(2, other(2)))  # only a part of the batch was looked at
    noticed = "state of batch 2 of core 1 that was made of other rows than that of core 0"
    with pytest.raises(StateError, match=noticed):
        runner.batch(3, other(3))
    runner.restart(cores=3)
    with pytest.raises(StateError, match=noticed):
        runner.batch(3, other(3))


def test_cores_of_a_course_that_was_given_up_are_not_taken_for_the_state(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path, window=wm.Unbounded(), cores=2))
    for number in range(6):
        runner.batch(number, simple.both(number))
    runner.restart(cores=3)
    for number in (3, 4):
        runner.batch(number, other(number))
    runner.restart(cores=4)
    with pytest.raises(StateError, match=r"got of-000\d and of-000\d in .* delete the one that was given up"):
        runner.batch(5, other(5))
    (folder,) = tmp_path.rglob("of-0002")
    folder.rename(tmp_path / "away")
    assert runner.batch(5, other(5))


def test_a_batch_that_was_empty_before_the_query_was_taken_back(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path, window=wm.Unbounded()))
    plain = Runner(simple.spec(tmp_path / "plain", window=wm.Unbounded()))
    runner.batch(0, simple.both(0))
    runner.batch(1, [[], []])
    runner.restart()
    plain.batch(0, simple.both(0))
    for number in (1, 2):
        found = simple.found(runner.batch(number, other(number)))
        assert found == simple.found(plain.batch(number, other(number)))


@pytest.mark.parametrize("window", [wm.Unbounded(), wm.Rows(50), wm.Range(60, time="ts", lateness=5)])
def test_tries_that_come_late_cost_nobody_his_files(tmp_path: Path, window: Any) -> None:
    """A task that was given up on may still write when the query has gone on: in two batches, one after the other."""
    runner = Runner(simple.spec(tmp_path, window=window, retain=2))
    for number in range(30):
        runner.batch(number, simple.both(number, 5))
        if number in (20, 21):
            waiting = dict(operator._waiting)
            operator._waiting.clear()
            runner.batch(number - 1, simple.both(number - 1, 5))
            operator._waiting.clear()
            operator._waiting.update(waiting)
    place = open_location(str(tmp_path))
    for core in tmp_path.rglob("core-*"):
        newest = read_manifest(place, str(max(core.glob("*.json"))))
        assert newest is not None
        assert all((core / run.file).exists() for run in named_runs(newest.streams))


def test_empty_batches_do_not_age_the_state_of_other_cores(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path, window=wm.Unbounded(), retain=1))
    plain = Runner(simple.spec(tmp_path / "plain", window=wm.Unbounded(), cores=1))
    for one in (runner, plain):
        one.batch(0, simple.both(0))
    runner.restart(cores=3)
    runner.batch(1, [[], []])
    assert simple.found(runner.batch(2, simple.both(2))) == simple.found(plain.batch(1, simple.both(2)))


def test_results_come_in_one_order_from_a_core_that_lived_on_and_from_one_that_was_read(
    tmp_path: Path,
) -> None:
    ways = []
    for reload in (False, True):
        folder = tmp_path / str(reload)
        runner, found = (
            Runner(simple.spec(folder, "r.x BETWEEN s.x - 3 AND s.x + 3", how="full", cores=1)),
            [],
        )
        for number in range(6):
            if reload:
                operator._waiting.clear()
            table = runner.evaluate(number, 0, runner.packed(number, simple.both(number, 40)))
            found.append(
                [(row["rid"], row["sid"]) for row in table.to_pylist() if row["__watersmeet"] is None]
            )
        ways.append(found)
    assert ways[0] == ways[1]


@pytest.mark.parametrize("wide", [10, 2**40])
def test_pairs_in_order(wide: int) -> None:
    random = np.random.default_rng(2)
    left, right = random.integers(-1, wide, 500), random.integers(-1, wide, 500)
    wanted = sorted(zip(left.tolist(), right.tolist(), strict=True))
    found = in_order(left, right)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == wanted
    assert [column.size for column in in_order(left[:0], right[:0])] == [0, 0]
