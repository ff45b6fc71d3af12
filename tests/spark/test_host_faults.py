"""kill -9 of a host's driver, its source, executors, Python workers, and of the process that writes statements, at random moments while
statements and rows arrive: every table equals what the processor in process gives for the same batches and statements."""

import json
import os
import random
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.host_reference import Reference, Rows, differences, tables
from spark.hosted import COLUMNS, STREAMS
from spark.killing import ROUNDS, Job
from watersmeet.spark.host.files import ControlFiles
from watersmeet.spark.host.program import Programs

MOST = {
    kind: ROUNDS * often
    for kind, often in (("driver", 1), ("source", 1), ("executor", 1), ("worker", 5), ("writer", 3))
}
KILLS = sum(MOST.values())
PATIENCE = 600 * ROUNDS  # seconds
AHEAD = 6  # files that wait to be read


class Feed:
    """The files of both streams: file n of a stream is the same in every run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[dict[str, Rows]] = []
        for stream in STREAMS:
            (folder / stream).mkdir()

    def add(self) -> None:
        number = len(self.files)
        rng, rows = random.Random(number), {stream: [] for stream in STREAMS}
        for place, stream in enumerate(STREAMS):
            for i in range(rng.randrange(12)):
                behind = rng.randrange(20) if rng.randrange(8) == 0 else rng.randrange(4)
                row = {"id": (1000 * number + i) * 2 + place, "ts": max(0, 3 * number + 4 - behind)}
                row |= {"x": rng.randrange(30), "k": rng.randrange(4)}
                rows[stream].append(row | {"turn": None if rng.randrange(100) == 0 else number})
            path = self.folder / stream / f"{number:05d}.parquet"
            pq.write_table(pa.Table.from_pylist(rows[stream], schema=COLUMNS), path.with_suffix(".tmp"))
            os.utime(path.with_suffix(".tmp"), (1_700_000_000 + number,) * 2)
            os.rename(path.with_suffix(".tmp"), path)
        self.files.append(rows)


class Planned:
    """Which statements and files each batch had, as Spark planned it: by batch, the number of the last statement and file of each."""

    def __init__(self, folder: Path) -> None:
        self.offsets, self.ends = folder / "checkpoint" / "offsets", dict[int, list[int]]()

    def look(self) -> None:
        """Old plans are deleted, so look often."""
        for path in self.offsets.glob("[0-9]*"):
            if int(path.name) not in self.ends:
                with suppress(FileNotFoundError):
                    said = [json.loads(line) for line in path.read_text().splitlines()[-1 - len(STREAMS) :]]
                    files = [-1 if one is None else one["logOffset"] for one in said[1:]]
                    self.ends[int(path.name)] = [said[0]["number"], *files]


def committed(folder: Path) -> int:
    names = [path.name for path in (folder / "checkpoint" / "commits").glob("[0-9]*")]
    return max((int(name) for name in names), default=-1)


def wanted(folder: Path, planned: Planned, files: list[dict[str, Rows]]) -> Reference:
    """What the processor says to the batches as they were planned."""
    programs, reference = Programs(ControlFiles(str(folder / "control"))), Reference()
    assert sorted(planned.ends) == list(range(len(planned.ends)))
    number, low = 0, [-1] * len(STREAMS)
    for _, (last, *high) in sorted(planned.ends.items()):
        rows = {
            stream: [row for file in files[low[i] + 1 : high[i] + 1] for row in file[stream]]
            for i, stream in enumerate(STREAMS)
        }
        queries = programs.of(number).queries
        reference.push(rows, {name: query.key for name, query in queries.items()})
        reference.follow(programs, number, last)
        number, low = last, high
    assert low == [len(files) - 1] * len(STREAMS), "every file must have been read"
    return reference


class Play:
    """A host, who writes statements for it, and who kills them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.feed, self.planned = Feed(folder), Planned(folder)
        self.job = Job("host_job.py", folder, "2")
        self.writer, self.writers = Job("hosted.py", folder, "0"), 0
        self.kills: dict[str, int] = dict.fromkeys(MOST, 0)
        self.ends = 0  # of the host, for whatever reason

    def keep_going(self, seconds: float, writing: bool = True) -> None:
        """Rows, statements, and a host; for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.planned.look()
            read = max((ends[1] for ends in self.planned.ends.values()), default=-1)
            if writing and len(self.feed.files) <= read + AHEAD:
                self.feed.add()
            if self.job.ended():
                self.ends += 1
                self.job.command[-1] = str(self.rng.randint(1, 3))  # cores
                self.job.start()
            if writing and self.writer.ended():
                self.writers += 1
                self.writer.command[-1] = str(self.writers)
                self.writer.start()
            time.sleep(0.05)

    def kill(self, kind: str) -> None:
        before = committed(self.folder)
        self.kills[kind] += self.writer.kill_all() if kind == "writer" else self.job.kill_one(kind, self.rng)
        end = time.monotonic() + 40
        while committed(self.folder) <= before and time.monotonic() < end:  # let it get somewhere
            self.keep_going(0.2)

    def end(self) -> None:
        self.job.end()
        self.writer.end()


@pytest.mark.slow
def test_kills_at_random_moments_change_no_table(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    play, deadline = Play(tmp_path, seed), time.monotonic() + PATIENCE
    try:
        play.job.start()
        while sum(play.kills.values()) < KILLS:
            assert time.monotonic() < deadline, f"seed {seed}, {play.kills}: see {play.job.log}"
            play.keep_going(play.rng.uniform(0.1, 1.2))
            left = [kind for kind in MOST for _ in range(play.kills[kind], MOST[kind])]
            if committed(tmp_path) >= 0:
                play.kill(play.rng.choice(left))
        play.writer.end()
        (tmp_path / "stop").touch()
        while not (tmp_path / "done").exists():
            assert time.monotonic() < deadline, f"seed {seed}, {play.kills}: see {play.job.log}"
            play.keep_going(0.2, writing=False)
    finally:
        play.end()
    reference = wanted(tmp_path, play.planned, play.feed.files)
    found = tables(tmp_path)
    statements, batches = ControlFiles(str(tmp_path / "control")).last(), len(play.planned.ends)
    print(
        f"seed {seed}, {play.kills}, {statements} statements, {batches} batches, {sum(map(len, found.values()))} rows"
    )
    assert not differences(found, reference.tables)
    assert statements > KILLS
    assert len(found) > KILLS / 2
    said = play.job.log.read_text()
    assert "StateError" not in said, said[-3000:]
