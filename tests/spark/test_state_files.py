"""What lies on disk: pure functions of the batch before, refused when damaged, deleted late."""

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

import watersmeet as wm
from spark import simple
from spark.runner import Runner
from watersmeet.errors import OptionError, StateError
from watersmeet.spark.shuffle.wire import receive
from watersmeet.spark.state.command import lines, report
from watersmeet.spark.state.location import StateLocation, open_location
from watersmeet.spark.work import operator


def driven(folder: Path, batches: int, **options: object) -> Runner:
    runner = Runner(simple.spec(folder, **options))
    for number in range(batches):
        runner.batch(number, simple.both(number))
    return runner


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))


def test_a_batch_evaluated_again_gives_the_same_from_cache_or_files(tmp_path: Path) -> None:
    runner = driven(tmp_path, 3, how="full")
    once = simple.found(runner.batch(3, simple.both(3)))
    twice = simple.found(runner.batch(3, simple.both(3)))
    runner.restart()
    again = simple.found(runner.batch(3, simple.both(3)))
    assert once == twice == again
    after = simple.found(runner.batch(4, simple.both(4)))
    fresh = driven(tmp_path / "fresh", 4, how="full")
    assert after == simple.found(fresh.batch(4, simple.both(4)))


def test_a_worker_with_the_core_in_memory_reads_no_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = driven(tmp_path, 2)
    monkeypatch.setattr(
        operator, "load", lambda *args: pytest.fail("a cached core must not be read from its files")
    )
    runner.batch(2, simple.both(2))


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_damaged_or_missing_run_is_refused_by_name(tmp_path: Path, harm: str) -> None:
    runner = driven(tmp_path, 2)
    victim = files(tmp_path, "*.run")[0]
    data = bytearray(victim.read_bytes())
    if harm == "remove":
        victim.unlink()
    else:
        data[len(data) // 3] ^= 4
        victim.write_bytes(bytes(data if harm == "flip" else data[: len(data) // 2]))
    assert any(core.problems for core in report(str(tmp_path)))
    runner.restart()
    with pytest.raises(StateError, match=f"{victim.name} is {'missing' if harm == 'remove' else 'damaged'}"):
        runner.batch(2, simple.both(2))


def test_a_damaged_manifest_is_refused_by_name(tmp_path: Path) -> None:
    runner = driven(tmp_path, 2)
    victim = files(tmp_path, "000000000001.json")[1]
    victim.write_text(victim.read_text().replace('"batch": 1', '"batch": 2'))
    with pytest.raises(StateError, match=r"core-0001/000000000001\.json is damaged"):
        runner.batch(2, simple.both(2))


def test_a_batch_that_was_not_evaluated_is_named_with_its_core(tmp_path: Path) -> None:
    runner = driven(tmp_path, 2)
    runner.evaluate(2, 0, runner.packed(2, simple.both(2)))  # core 1 is never asked for
    with pytest.raises(StateError, match="batch 2 of core 1 of 2 was not evaluated, so batch 3 cannot go on"):
        runner.batch(3, simple.both(3))
    with pytest.raises(StateError, match="batch 8 of cores 0, 1 of 2 was not evaluated"):
        runner.batch(9, simple.both(9))
    with pytest.raises(StateError, match="got no state at all"):
        Runner(runner.spec, query="another").batch(5, simple.both(5))


def test_a_batch_without_map_partitions_changes_nothing(tmp_path: Path) -> None:
    runner, plain = driven(tmp_path / "a", 2, how="left"), driven(tmp_path / "b", 2, how="left")
    assert runner.batch(2, [[], []]) == []
    assert runner.batch(3, [[], []]) == []
    assert simple.found(runner.batch(4, simple.both(2))) == simple.found(plain.batch(2, simple.both(2)))


def test_every_blob_must_come(tmp_path: Path) -> None:
    runner = driven(tmp_path, 1)
    records = [
        rows.slice(i, 1)
        for rows in runner.packed(1, simple.both(1))
        for i, core in enumerate(rows.column(0).to_pylist())
        if core == 1
    ]
    blobs = [row for row in records if row.column(3)[0].as_py() >= 0]
    for lost in blobs:
        with pytest.raises(StateError, match=r"core 1 must receive every blob .* got 0 of map partition"):
            receive([row for row in records if row is not lost], 1)
    headers = [row for row in records if row.column(3)[0].as_py() < 0]
    with pytest.raises(StateError, match="announced no header"):
        receive([row for row in records if row is not headers[0]], 1)


def test_a_changed_join_is_refused_with_what_changed(tmp_path: Path) -> None:
    runner = driven(tmp_path, 1)
    runner.restart()
    windows = (wm.Range(30, time="ts", lateness=5), runner.spec.windows[1])
    smaller = runner.spec.schemas[0].set(2, pa.field("x", pa.int32()))
    for change, text in (
        (
            {"condition": "r.x = s.x AND r.id > 0"},
            "condition was 'r.x = s.x' and is now 'r.x = s.x AND r.id > 0'",
        ),
        ({"how": "left"}, "how was 'inner' and is now 'left'"),
        ({"windows": windows}, "the window of stream 'r' was .*20.* and is now .*30"),
        ({"schemas": (smaller, runner.spec.schemas[1])}, "stream 'r' were .*int64.* and are now .*int32"),
    ):
        changed = Runner(replace(runner.spec, instance=f"{text}{tmp_path}", **change))
        changed.run = "second"
        with pytest.raises(StateError, match=text):
            changed.batch(
                1,
                [
                    [part.cast(changed.spec.schemas[k]) for part in parts]
                    for k, parts in enumerate(simple.both(1))
                ],
            )


def test_only_white_space_outside_of_quotes_may_change_in_a_condition(tmp_path: Path) -> None:
    runner = driven(tmp_path, 1, condition="r.x = s.x AND r.note <> 'a  b'")
    runner.restart(condition="r.x =\n  s.x  -- as before\n AND r.note <> 'a  b'")
    runner.batch(1, simple.both(1))
    runner.restart(condition="r.x = s.x AND r.note <> 'a b'")
    with pytest.raises(StateError, match=r"condition was .*<> 'a  b'\" and is now .*<> 'a b'\""):
        runner.batch(2, simple.both(2))


def test_a_changed_select_goes_on_with_the_columns_that_were_stored(tmp_path: Path) -> None:
    runner = driven(tmp_path, 1, select="r.id AS rid, s.id AS sid, r.note")
    runner.restart(select="s.id + 1 AS more, r.id AS rid, s.id AS sid")
    got = runner.batch(1, simple.both(1))
    assert all(row["more"] == row["sid"] + 1 for row in got)
    assert got
    runner.restart(select="r.note, r.id AS rid")
    with pytest.raises(
        StateError, match=r"select= must keep to the columns .* stream 'r' have; got note \(string\)"
    ):
        runner.batch(2, simple.both(2))


def test_old_files_disappear_and_everything_that_a_restart_needs_stays(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path, how="left"))
    sizes = []
    for number in range(60):
        runner.batch(number, simple.both(number))
        if number % 7 == 0:
            runner.batch(number, simple.both(number))  # leaves orphans
        sizes.append(len(files(tmp_path, "*")))
    assert max(sizes[40:]) <= max(sizes[:30]) + 4
    assert sizes[-1] < 90
    for back in range(59, 59 - runner.spec.retain, -1):  # any batch that Spark may go back to
        runner.restart()
        runner.batch(back, simple.both(back))
    assert not any(core.problems for core in report(str(tmp_path)))


def test_many_small_runs_become_few_large_ones(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path, window=wm.Unbounded(), cores=1))
    for number in range(70):
        runner.batch(number, simple.both(number, 2))
    shown = "\n".join(lines(report(str(tmp_path))))
    assert "r 280 rows in " in shown
    runs = int(shown.split("r 280 rows in ")[1].split()[0])
    assert runs < 20
    plain = Runner(simple.spec(tmp_path / "plain", window=wm.Unbounded(), cores=1))
    for number in range(70):
        plain.batch(number, simple.both(number, 2))
        plain.restart()
    assert simple.found(runner.batch(70, simple.both(70))) == simple.found(plain.batch(70, simple.both(70)))


def test_state_that_cannot_be_written_fails_the_batch_and_it_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, plain = driven(tmp_path / "a", 2), driven(tmp_path / "b", 2)
    write = StateLocation._write_local

    def full(self: StateLocation, path: str, parts: object) -> None:
        if path.endswith(".json"):
            raise OSError(28, "No space left on device")
        write(self, path, parts)  # type: ignore[arg-type]

    monkeypatch.setattr(StateLocation, "_write_local", full)
    with pytest.raises(StateError, match=r"must be writable; got .*No space left.* do: make room"):
        runner.batch(2, simple.both(2))
    monkeypatch.setattr(StateLocation, "_write_local", write)
    assert simple.found(runner.batch(2, simple.both(2))) == simple.found(plain.batch(2, simple.both(2)))
    assert simple.found(runner.batch(3, simple.both(3))) == simple.found(plain.batch(3, simple.both(3)))


def test_a_write_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    place = open_location(str(tmp_path / "state"))
    with pytest.raises(TypeError):
        place.write(place.path("a", "b"), [b"some", object()])
    assert os.listdir(tmp_path / "state" / "a") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="must be writable"):
        open_location(str(tmp_path / "file")).write(f"{tmp_path}/file/x", [b""])
    with pytest.raises(OptionError, match=r"must be a folder or a URI that pyarrow\.fs knows"):
        open_location("nowhere://x")


def test_two_joins_of_one_name_are_refused(tmp_path: Path) -> None:
    one = driven(tmp_path, 1)
    other = Runner(replace(one.spec, instance=f"other{tmp_path}"))
    with pytest.raises(StateError, match="each join of a query must have a name of its own"):
        other.batch(1, simple.both(1))


def test_state_command_says_what_is_there(tmp_path: Path) -> None:
    driven(tmp_path, 3)
    shown = list(lines(report(str(tmp_path))))
    assert shown[0] == f"query query, join join in {tmp_path}"
    assert "of-0002/core-0000  batch 2 (kept from 0); r " in shown[2]
    assert "watermark 54" in shown[2]
    assert shown[-1].endswith("no problems")
    with pytest.raises(OptionError, match="a state location must hold folders like"):
        report(str(tmp_path / "nothing"))


def test_a_file_system_that_is_not_local(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    place = StateLocation(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "bucket")
    assert not place.local
    path = place.path("query", "file")
    assert place.read(path) is None
    assert place.names(place.path("query")) == []
    place.write(path, [b"one", b"two"])
    place.write(path, [b"three"])
    assert place.names(place.path("query")) == ["file"]
    assert place.read(path).to_pybytes() == b"three"
    assert place.size(path) == 5
    place.delete(path)
    place.delete(path)
    assert place.size(path) is None
