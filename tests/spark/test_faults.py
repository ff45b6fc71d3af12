"""kill -9 of driver, executors and Python workers at random moments, speculative execution on: the files equal the oracle's."""

import json
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from oracle import Event
from spark.batch_oracle import BatchOracle
from spark.files import Files
from spark.killing import ROUNDS, Job
from spark.many import ManyOracle
from watersmeet.spark.state.command import report

ROUND = ["driver", "executor", "worker", "worker", "worker"]
FILES = 24  # a round: a batch each, so that there is always something to be interrupted
PATIENCE = 400 * ROUNDS  # seconds
TWO: dict[str, Any] = {
    "hash": lambda r, s: r["k"] == s["k"] and r["x"] < s["x"] + 2,
    "range": lambda r, s: abs(r["x"] - s["x"]) <= 1,
}
MANY: dict[str, Any] = {
    "one-key": lambda by: by["r"]["k"] == by["s"]["k"] == by["t"]["k"] and by["r"]["x"] < by["t"]["x"] - 20,
    "grid": lambda by: by["r"]["k"] == by["s"]["k"] and by["s"]["x"] == by["t"]["x"],
}


class Planned:
    """Which files each batch had, as Spark planned it.

    A driver that dies after one source has noted its next file, and before the batch is planned, finds that file besides another one when
    it comes back: from then on one stream is ahead of the other, and other rows are late.
    """

    def __init__(self, folder: Path, sides: str = "rs") -> None:
        self.offsets, self.sides = folder / "checkpoint" / "offsets", sides
        self.ends: dict[int, list[int]] = {}

    def wait(self, seconds: float) -> None:
        """Old plans are deleted, so look often."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for path in self.offsets.glob("[0-9]*"):
                with suppress(FileNotFoundError):
                    lines = path.read_text().splitlines()[-len(self.sides) :]
                    self.ends[int(path.name)] = [json.loads(line)["logOffset"] for line in lines]
            time.sleep(0.1)

    def batches(self, files: Files) -> list[list[Event]]:
        """The rows of each batch."""
        assert sorted(self.ends) == list(range(len(self.ends)))
        found, before = [], [-1 for _ in self.sides]
        for _, ends in sorted(self.ends.items()):
            events = []
            for side, low, high in zip(self.sides, before, ends, strict=True):
                taken = [event for file in files.batches[low + 1 : high + 1] for event in file]
                events += [event for event in taken if event[0] == side]
            found.append(events)
            before = ends
        assert before == [len(files.batches) - 1] * len(self.sides)
        return found


def committed(folder: Path) -> int:
    names = [path.name for path in (folder / "checkpoint" / "commits").glob("[0-9]*")]
    return max((int(name) for name in names), default=-1)


@pytest.mark.slow
@pytest.mark.parametrize("spread", ["hash", "range", "one-key", "grid"])
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path, spread: str) -> None:
    sides = "rst" if spread in MANY else "rs"
    files = Files(tmp_path, seed=3, sides=sides)
    for _ in range(FILES * ROUNDS):
        files.add(12)
    seed = random.randrange(1 << 32)
    rng, job, planned = (
        random.Random(seed),
        Job("faulty_job.py", tmp_path, spread, "2", "1"),
        Planned(tmp_path, sides),
    )
    left = ROUND * ROUNDS
    rng.shuffle(left)
    deadline = time.monotonic() + PATIENCE

    def stands() -> str:
        return f"seed {seed}, batch {committed(tmp_path)}, kills that are left {left}: see {job.log}"

    try:
        job.start()
        while not (tmp_path / "done").exists():
            assert time.monotonic() < deadline, stands()
            if job.ended():
                job.start()
            planned.wait(rng.uniform(0.3, 2.5))
            if left and (before := committed(tmp_path)) >= 0 and job.kill_one(left[-1], rng):
                left.pop()
                wait = time.monotonic() + 40
                while committed(tmp_path) <= before and time.monotonic() < wait:  # let it get somewhere
                    if job.ended():
                        job.start()
                    planned.wait(0.2)
    finally:
        job.end()
    assert not left, stands()
    assert sink_rows(tmp_path / "out", sides) == wanted(spread, planned.batches(files))
    assert not any(core.problems for core in report(str(tmp_path / "state")))


def wanted(spread: str, batches: list[list[Event]]) -> list[tuple[int | None, ...]]:
    """What the oracle says."""
    window = ("range", 6, "ts", 8)
    if spread in MANY:
        many = ManyOracle(MANY[spread], dict.fromkeys("rst", window))
        return sorted((one for events in batches for one in many.batch(events)[0]), key=repr)
    oracle = BatchOracle(TWO[spread], window, window, "full")
    return list(oracle.ids([pair for events in batches for pair in oracle.batch(events)[0]]))


def sink_rows(out: Path, sides: str) -> list[tuple[int | None, ...]]:
    """What the file sink has committed: its log says which files count."""
    log = out / "_spark_metadata"
    names = {path.name for path in log.iterdir() if not path.name.startswith(".")}
    compacted = max(
        (int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")), default=-1
    )
    logs = [f"{compacted}.compact"] if compacted >= 0 else []
    logs += [name for name in names if name.isdigit() and int(name) > compacted]
    rows: list[tuple[int | None, ...]] = []
    for name in logs:
        for line in (log / name).read_text().splitlines()[1:]:
            path = json.loads(line)["path"].removeprefix("file://")
            table = pq.read_table(path)
            rows += zip(*(table.column(f"{side}id").to_pylist() for side in sides), strict=True)
    return sorted(rows, key=repr)
