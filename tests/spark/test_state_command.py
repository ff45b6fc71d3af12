"""``watersmeet state``: the listing says what is really there, counts nothing twice, and finds what is missing."""

import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from spark import simple
from spark.runner import Runner
from watersmeet.errors import OptionError
from watersmeet.spark.state import runs
from watersmeet.spark.state.command import lines, report

LINE = re.compile(
    r"  of-(\d+)/core-(\d+)  batch (\d+) \(kept from (\d+)\); r ([\d,]+) rows in (\d+) runs, ([\d,]+) bytes; "
    r"s ([\d,]+) rows in (\d+) runs, ([\d,]+) bytes; watermark (\S+); late (\d+), (\d+); (\d+) files"
)


def manifest(folder: Path, cores: int, core: int, batch: int) -> dict[str, Any]:
    path = folder / "query" / "join" / f"of-{cores:04d}" / f"core-{core:04d}" / f"{batch:012d}.json"
    found: dict[str, Any] = json.loads(path.read_text().partition("\n")[2])
    return found


def driven(folder: Path, batches: int, **options: Any) -> Runner:
    runner = Runner(simple.spec(folder, **options))
    for number in range(batches):
        runner.batch(number, simple.both(number))
    return runner


def test_the_listing_says_what_is_there(tmp_path: Path) -> None:
    runner = driven(tmp_path, 5)
    shown = list(lines(report(str(tmp_path))))
    assert shown[:2] == [f"query query, join join in {tmp_path}", "  r.x = s.x  (inner)"]
    totals = [0, 0]
    for core in (0, 1):
        found = LINE.fullmatch(shown[2 + core])
        assert found is not None, shown[2 + core]
        number = [int(text.replace(",", "")) if text[0].isdigit() else text for text in found.groups()]
        assert number[:4] == [2, core, 4, 0]
        streams = manifest(tmp_path, 2, core, 4)["streams"]
        for k in (0, 1):
            rows, count, size = number[4 + 3 * k : 7 + 3 * k]
            assert (rows, count) == (streams[k]["rows"], len(streams[k]["runs"]))
            assert size == sum(run[2] for run in streams[k]["runs"])
            totals[0] += rows
        # The largest times of both streams are those of the last batch; lateness is 5.
        times = [max(part.column("ts").to_numpy().max() for part in side) for side in simple.both(4)]
        assert number[10] == min(times) - 5
        assert number[11:13] == [0, 0]
        files = list((tmp_path / "query" / "join" / "of-0002" / f"core-{core:04d}").iterdir())
        assert number[13] == len(files)
        totals[1] += sum(path.stat().st_size for path in files)
    assert totals[0] == runner.figures[-1]["state_rows"]
    assert shown[-1] == f"2 cores, {totals[0]:,} rows, {totals[1]:,} bytes in files; no problems"


def test_rows_of_an_earlier_number_of_cores_are_not_counted_again(tmp_path: Path) -> None:
    runner = driven(tmp_path, 2, window=wm.Unbounded())
    runner.restart(cores=3)
    runner.batch(2, simple.both(2))
    cores = report(str(tmp_path))
    shown = list(lines(cores))
    assert shown[-1].startswith("3 cores, 240 rows, ")
    assert runner.figures[-1]["state_rows"] == 240
    assert [line.split("  ")[2][:19] for line in shown[2:4]] == ["kept for a restart:"] * 2
    assert "kept for a restart" not in shown[4]
    kept = sum(core.bytes for core in cores if not core.held)
    assert f" and {kept:,} kept for a restart; no problems" in shown[-1]


def test_a_set_of_cores_that_has_been_emptied_is_not_listed(tmp_path: Path) -> None:
    runner = driven(tmp_path, 2)
    runner.restart(cores=3)
    for number in range(2, 20):
        runner.batch(number, simple.both(number))
    old = tmp_path / "query" / "join" / "of-0002"
    assert old.is_dir()
    assert not [path for path in old.rglob("*") if path.is_file()]
    shown = "\n".join(lines(report(str(tmp_path))))
    assert "of-0002" not in shown
    assert "of-0003" in shown
    assert shown.endswith("no problems")


def test_a_core_without_the_manifest_that_the_others_have_is_a_problem(tmp_path: Path) -> None:
    driven(tmp_path, 3)
    folder = tmp_path / "query" / "join" / "of-0002" / "core-0001"
    lost = folder / "000000000002.json"
    lost.unlink()
    shown = list(lines(report(str(tmp_path))))
    assert shown[-1].endswith("; 1 problem")
    told = next(line for line in shown if "PROBLEM" in line)
    assert told.startswith(f"    PROBLEM {lost} is missing, and other cores have evaluated batch 2; do: ")
    assert "if foreachBatch looked at a part of it only (show, take, limit)" in told
    assert "delete offsets/3 and commits/2" in told  # as the query's own message says
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    (core,) = [core for core in report(str(tmp_path)) if core.problems]
    assert (core.number, core.manifest, len(core.problems)) == (1, None, 3)


def test_a_batch_that_broke_off_and_went_on_with_other_cores_is_no_problem(tmp_path: Path) -> None:
    runner = driven(tmp_path, 2)
    runner.evaluate(2, 0, runner.packed(2, simple.both(2)))  # core 1 is killed
    assert list(lines(report(str(tmp_path))))[-1].endswith("; 1 problem")
    runner.restart(cores=3)
    runner.batch(2, simple.both(2))
    assert [core.held for core in report(str(tmp_path))] == [False, False, True, True, True]
    assert list(lines(report(str(tmp_path))))[-1].endswith("; no problems")
    runner.restart(cores=2)
    runner.batch(3, simple.both(3))
    assert [core.held for core in report(str(tmp_path))] == [True, True, False, False, False]
    assert list(lines(report(str(tmp_path))))[-1].endswith("; no problems")


def test_a_damaged_manifest_is_told_once(tmp_path: Path) -> None:
    driven(tmp_path, 2)
    path = tmp_path / "query" / "join" / "of-0002" / "core-0000" / "000000000001.json"
    path.write_text(path.read_text().replace('"batch": 1', '"batch": 7'))
    (problem,) = [problem for core in report(str(tmp_path)) for problem in core.problems]
    assert problem.startswith(f"{path} is damaged")


def test_every_extent_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven(tmp_path, 4, how="left", window=wm.Unbounded())
    named = {
        (core, *run)
        for core in (0, 1)
        for batch in range(4)
        for stream in manifest(tmp_path, 2, core, batch)["streams"]
        for run in map(tuple, [*stream["runs"], *([stream["flags"]] if stream["flags"] else [])])
    }
    seen = []

    def counting(data: Any, start: int = 0) -> int:
        seen.append(len(data))
        return zlib.crc32(data, start)

    monkeypatch.setattr(runs, "zlib", type("Counting", (), {"crc32": staticmethod(counting)}))
    assert not any(core.problems for core in report(str(tmp_path)))
    assert len(seen) == len(named)


def test_a_join_may_have_a_dot_in_its_name(tmp_path: Path) -> None:
    driven(tmp_path, 1, name="trades.quotes")
    assert next(lines(report(str(tmp_path)))) == f"query query, join trades.quotes in {tmp_path}"


def checkpoint(folder: Path, query: str) -> Path:
    """As Spark writes it."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": query}))
    return folder


def test_the_checkpoint_of_a_query_leads_to_its_state(tmp_path: Path) -> None:
    """Only that query's, wherever the state lies beside the checkpoint."""
    for state in (tmp_path / "state", tmp_path / "checkpoints" / "_watersmeet"):
        for query in ("one", "two"):
            Runner(simple.spec(state, name=state.name), query=f"{query}-{state.name}").batch(
                0, simple.both(0)
            )
    for state in ("state", "_watersmeet"):
        given = checkpoint(tmp_path / "checkpoints" / state, f"one-{state}")
        cores = report(str(given))
        assert {(core.query, core.name) for core in cores} == {(f"one-{state}", state)}
        place = {"state": tmp_path / "state", "_watersmeet": tmp_path / "checkpoints" / "_watersmeet"}[state]
        assert next(lines(cores)) == f"query one-{state}, join {state} in {place}"


def test_a_checkpoint_whose_state_lies_elsewhere_says_what_to_look_for(tmp_path: Path) -> None:
    given = checkpoint(tmp_path / "a" / "b", "0f1e")
    with pytest.raises(OptionError) as told:
        report(str(given))
    assert (
        f"got {given}, which is the checkpoint of query 0f1e; its state is in a folder of that name, in the state= of its"
        in str(told.value)
    )
    assert str(told.value).endswith("do: watersmeet state THAT_FOLDER/0f1e")
