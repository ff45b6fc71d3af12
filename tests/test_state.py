"""What ``save`` writes, ``load`` restores whole or refuses by name."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import StateError

BAND = "r.x BETWEEN s.a - 5 AND s.a + 5"


def rows(stream: str, seed: int, n: int = 40) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    key = {"r": "x", "s": "a"}[stream]
    return {
        key: random.integers(0, 100, n),
        "name": [f"{stream}{i}" for i in range(n)],
        "ts": np.arange(n) + n * seed,
    }


def filled(**options: Any) -> wm.StreamJoin:
    join = wm.StreamJoin(BAND, **{"r": wm.Rows(50), "s": wm.Rows(30), "subwindow": 16, **options})
    join.push(r=rows("r", 0), s=rows("s", 0))
    join.push(r=rows("r", 1), s=rows("s", 1))
    return join


def rest(join: wm.StreamJoin) -> list[Any]:
    """Everything that the join still gives, payload included."""
    results = [join.push(r=rows("r", 2), s=rows("s", 2)), join.push(s=rows("s", 3)), join.finish()]
    return [sorted(result.to_arrow().to_pylist(), key=str) for result in results]


@pytest.mark.parametrize("index", ["auto", "scan", "bi_sort", "rap_table", "wib_tree"])
@pytest.mark.parametrize("how", ["inner", "full", "anti"])
def test_joining_goes_on_exactly_after_loading(tmp_path: Path, index: str, how: str) -> None:
    join = filled(index=index, how=how, select="r.name AS left_name, r.x" if how == "anti" else "*")
    join.save(tmp_path / "state")
    loaded = wm.StreamJoin.load(tmp_path / "state")
    assert rest(loaded) == rest(join)


def test_options_and_statistics_survive(tmp_path: Path) -> None:
    window = wm.Range(60, time="ts", lateness=3)
    join = filled(r=window, s=window, index="wib_tree", cores=2, how="left")
    join.push(r={"x": [1], "name": ["late"], "ts": [0]})
    join.save(tmp_path)
    loaded = wm.StreamJoin.load(tmp_path)
    assert loaded.explain() == join.explain()
    for side in "rs":
        assert loaded.stats()["streams"][side]["rows"] == join.stats()["streams"][side]["rows"]
        assert loaded.stats()["streams"][side]["late"] == join.stats()["streams"][side]["late"]
    assert loaded.stats()["streams"]["r"]["late"] == 1


def test_a_join_that_has_seen_nothing_can_be_saved(tmp_path: Path) -> None:
    wm.StreamJoin(BAND, r=wm.Rows(5), s=wm.Rows(5)).save(tmp_path)
    assert wm.StreamJoin.load(tmp_path).push(r={"x": [1]}, s={"a": [2]}).count == 1


def test_saving_again_replaces_the_older_state(tmp_path: Path) -> None:
    join = filled()
    join.save(tmp_path)
    join.push(r=rows("r", 5))
    join.save(tmp_path)
    assert rest(wm.StreamJoin.load(tmp_path)) == rest(join)


def test_loading_does_not_touch_the_files(tmp_path: Path) -> None:
    filled().save(tmp_path)
    loaded = wm.StreamJoin.load(tmp_path)
    first = rest(loaded)
    assert rest(wm.StreamJoin.load(tmp_path)) == first


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "flip":
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "longer":
        path.write_bytes(content + b"\0")
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["cut", "flip", "empty", "longer", "remove"])
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, how: str) -> None:
    whole = tmp_path / "whole"
    filled(how="full").save(whole)
    for number, file in enumerate(files(whole)):
        broken = tmp_path / f"{how}{number}"
        shutil.copytree(whole, broken)
        damage(broken / file.relative_to(whole), how)
        with pytest.raises(StateError, match=file.name.replace(".", r"\.")):
            wm.StreamJoin.load(broken)
    assert rest(wm.StreamJoin.load(whole))


def test_a_folder_that_holds_no_state_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(StateError, match=str(folder)):
            wm.StreamJoin.load(folder)


def test_results_from_before_saving_stay_valid(tmp_path: Path) -> None:
    join = filled()
    result = join.push(r=rows("r", 2))
    before = result.count
    join.save(tmp_path)
    table = result.to_arrow()
    assert isinstance(table, pa.Table)
    assert table.num_rows == before


def test_a_join_whose_middle_sub_window_has_gone_is_saved_and_loaded(tmp_path: Path) -> None:
    window = wm.Range(10, time="ts", lateness=1000)
    join = wm.StreamJoin("r.x = s.x", r=window, s=window, subwindow=4, select="r.id AS rid, s.id AS sid")
    for first, time in ((0, 2000), (4, 1100), (8, 2001), (12, 2300)):
        ids = np.arange(first, first + 4)
        join.push(r={"id": ids, "ts": np.full(4, time), "x": ids - first})
    join.push(s={"id": np.array([0]), "ts": np.array([2310]), "x": np.array([99])})
    assert [sub.base for sub in join._engine.ledger.chains[0].subwindows] == [0, 8, 12]
    join.save(tmp_path)
    probe = {"id": np.array([1, 2]), "ts": np.array([2000, 2300]), "x": np.array([2, 3])}
    found = [one.push(s=probe).to_arrow().to_pydict() for one in (join, wm.StreamJoin.load(tmp_path))]
    assert found[0] == found[1] == {"rid": [2, 10, 15], "sid": [1, 1, 2]}


@pytest.mark.parametrize("rows", [1, 2])
def test_rows_after_a_newest_sub_window_that_has_gone_keep_their_numbers(tmp_path: Path, rows: int) -> None:
    """A row out of order can be over when it comes: its sub-window goes at once, and is the newest. What comes next must be itself."""
    join = wm.StreamJoin(
        "a.k = b.k", subwindow=1, select="a.id, b.k", a=wm.Range(0, time="ts", lateness=100), b=wm.Rows(8)
    )
    join.push(b={"k": [1]})
    join.push(a={"ts": [10], "k": [1], "id": [0]})
    join.push(a={"ts": [5], "k": [1], "id": [1]})
    join.save(tmp_path / "state")
    again = wm.StreamJoin.load(tmp_path / "state")
    more = {"ts": [10, 10][:rows], "k": [1, 2][:rows], "id": [2, 3][:rows]}
    expected = [{"id": 2, "k": 1}]
    assert join.push(a=more).to_arrow().to_pylist() == expected
    assert again.push(a=more).to_arrow().to_pylist() == expected
