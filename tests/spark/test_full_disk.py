"""The state location really fails: so does the batch, in clear words, and the query goes on once the cause is gone."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from spark.batch_oracle import BatchOracle
from spark.files import Files
from watersmeet.spark import stream_join
from watersmeet.spark.state.command import report

WINDOW = (wm.Range("6 s", time="ts", lateness="8 s"), ("range", 6, "ts", 8))


def run(spark: Any, files: Files, state: Path) -> str:
    """Everything that is there, to files; returns what went wrong."""
    frame = stream_join(
        "r.x BETWEEN s.x - 1 AND s.x + 1", r=files.stream(spark, "r"), s=files.stream(spark, "s"),
        windows={"r": WINDOW[0], "s": WINDOW[0]}, how="left", select="r.id AS rid, s.id AS sid", state=str(state), cores=2,
    )  # fmt: skip
    writer = frame.writeStream.format("parquet").option(
        "checkpointLocation", str(files.folder / "checkpoint")
    )
    query = writer.option("path", str(files.folder / "out")).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as error:
        return str(error)
    return ""


def check(spark: Any, files: Files, state: Path) -> None:
    oracle = BatchOracle(lambda r, s: abs(r["x"] - s["x"]) <= 1, WINDOW[1], WINDOW[1], "left")
    pairs = [pair for events in files.batches for pair in oracle.batch(events)[0]]
    rows = spark.read.parquet(str(files.folder / "out")).collect()
    assert sorted(((row.rid, row.sid) for row in rows), key=repr) == oracle.ids(pairs)
    assert not any(core.problems for core in report(str(state)))


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few pages."""
    place = tmp_path / "tiny"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48k", "watersmeet-test", place],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)  # workers still have its files in memory


def test_a_full_disk_fails_the_batch_and_with_more_room_the_query_goes_on(
    spark: Any, folder: Path, tiny_disk: Path
) -> None:
    files = Files(folder, seed=31)
    for _ in range(5):
        files.add(20)
    failed = run(spark, files, tiny_disk / "state")
    assert "the state of a join must be writable; got [Errno 28] No space left on device" in failed
    assert "do: make room or give access there, and start the query again from its checkpoint" in failed
    committed = [path for path in (folder / "checkpoint" / "commits").iterdir() if path.name.isdigit()]
    assert 0 < len(committed) < 5
    assert not list(tiny_disk.rglob("*.tmp"))
    subprocess.run(["mount", "-o", "remount,size=16m", tiny_disk], check=True)
    assert run(spark, files, tiny_disk / "state") == ""
    check(spark, files, tiny_disk / "state")


def test_a_location_that_is_no_folder_fails_the_batch_and_goes_on_when_it_is(
    spark: Any, folder: Path
) -> None:
    files = Files(folder, seed=33)
    files.add(20)
    files.add(20)
    state = folder / "state"
    state.write_text("not a folder: not even root can write into it")
    failed = run(spark, files, state)
    assert "the state of a join must be writable; got " in failed
    assert "Not a directory" in failed or "not a directory" in failed
    state.unlink()
    assert run(spark, files, state) == ""
    check(spark, files, state)
