"""A host without Spark whose processes die at any of their writes, again and again, and whose tasks are tried twice, late ones too: every
table equals what the processor in process gives."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark.host_reference import Reference, Rows, differences, tables
from spark.host_runner import HostRunner
from spark.hosted import COLUMNS, NAMES, STREAMS, TEXTS, WINDOWS
from watersmeet.spark.host import work as working
from watersmeet.spark.host.files import ControlFiles
from watersmeet.spark.host.program import Program, Programs
from watersmeet.spark.host.setting import Setting
from watersmeet.spark.state.location import StateLocation

CORES = 3
BATCHES = 14
WARM = [sql for sql, windows in TEXTS[:7] if windows is None]
WIDE = (
    "SELECT r.id, s.id AS other FROM last_range(r, 30) r JOIN last_range(s, 30) s ON r.k = s.k AND r.x = s.x"
)


class KilledError(BaseException):
    """Where a process died."""


class Killer:
    """Kills whoever writes: before, in the middle, or after; then the file is there, but nobody has been told."""

    def __init__(self, rng: random.Random, patch: pytest.MonkeyPatch) -> None:
        self.rng, self.chance, self.kills = rng, 0.0, 0
        self._write, self._delete = StateLocation.write, StateLocation.delete
        patch.setattr(StateLocation, "write", lambda place, *args: self.do(place, self._write, *args))
        patch.setattr(StateLocation, "delete", lambda place, *args: self.do(place, self._delete, *args))

    def do(self, place: StateLocation, act: Callable[..., None], path: str, *rest: Any) -> None:
        dies = self.rng.random() < self.chance
        when = self.rng.choice(["before", "in the middle", "after"])
        if dies and when == "in the middle" and rest:
            self._write(place, f"{path}.0123.tmp", [b"half of it"])
        if dies and when != "after":
            self.kills += 1
            raise KilledError
        act(place, path, *rest)
        if dies:
            self.kills += 1
            raise KilledError


class Play:
    """A host under fire, and what it was planned to read."""

    def __init__(self, folder: Path, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.rng = random.Random(seed)
        setting = Setting(WINDOWS, dict.fromkeys(STREAMS, COLUMNS), CORES)
        self.runner = HostRunner(folder, setting, seed, retain=2)
        self.reference, self.number = Reference([*WARM, WIDE]), 0
        self.before: tuple[int, list[pa.RecordBatch]] | None = None
        self.begun: set[str] = set()
        self.killer = Killer(self.rng, patch)

    def until_done(self, do: Callable[[], Any]) -> None:
        """Again after every kill, with another number of cores; the killers tire."""
        chance = 0.12
        while True:
            self.killer.chance = chance
            try:
                do()
                return
            except KilledError:
                chance *= 0.8
                self.killer.chance = 0.0
                self.runner.restart(tasks=self.rng.randint(1, CORES))
            finally:
                self.killer.chance = 0.0

    def statements(self) -> None:
        for _ in range(self.rng.randrange(1, 6)):
            name, verb = self.rng.choice(NAMES[:5]), self.rng.choice(["create", "create", "alter", "drop"])
            sql, windows = self.rng.choice(TEXTS)
            own = {one: window.to_json() for one, window in (windows or {}).items()}
            said = {"verb": verb, "name": name, "sql": sql, "windows": own, "emit": None}
            if (
                self.rng.random() < 0.3
            ):  # one that starts warm is not altered: another text may go on with what it has
                sql = self.rng.choice([*WARM, WIDE])
                said |= {
                    "verb": self.rng.choice(["create", "create", "drop"]),
                    "name": self.rng.choice(["w0", "w1", "w2"]),
                }
                said |= {"sql": sql, "windows": {}, "start": "warm"}
            self.killer.chance = 0.2
            with suppress(KilledError):  # a client that dies says nothing, or what it had to say
                self.runner.files.ask(said)
        self.until_done(lambda: self.runner.judge.take_in())

    def rows(self) -> dict[str, Rows]:
        found: dict[str, Rows] = {stream: [] for stream in STREAMS}
        for place, stream in enumerate(STREAMS):
            for i in range(self.rng.randrange(8)):
                row = {"id": 100 * self.number + 2 * i + place, "ts": 3 * self.number + self.rng.randrange(5)}
                row |= {"x": self.rng.randrange(30), "k": self.rng.randrange(4)}
                turn = None if self.rng.randrange(60) == 0 else self.number
                found[stream].append(row | {"turn": turn})
        return found

    def batch(self) -> None:
        rows, until = self.rows(), self.runner.judge.program.version
        batches = {
            stream: [pa.RecordBatch.from_pylist(some, schema=COLUMNS)]
            for stream, some in rows.items()
            if some
        }
        runner, first = self.runner, self.runner.read
        records = runner.packed(runner.next, batches, until)
        self.until_done(lambda: runner.batch(batches, until))
        programs = Programs(runner.files)
        keys = {name: query.key for name, query in programs.of(first).queries.items()}
        self._note_warm(programs.of(first))
        self.reference.push(rows, keys)
        self.reference.follow(programs, first, until)
        if self.before is not None and self.rng.random() < 0.5:
            self.belated(*self.before)
        self.before = runner.next - 1, records
        self.number += 1

    def _note_warm(self, program: Program) -> None:
        """Queries that are complete from this batch on, in which they begin."""
        commit = self.runner.output.read(self.runner.next - 1)
        assert commit is not None
        for query in program.queries.values():
            if query.warm and query.key not in self.begun and commit.complete[query.key] == commit.batch:
                self.reference.warm[query.key] = query.sql
            self.begun.add(query.key)

    def belated(self, batch: int, records: list[pa.RecordBatch]) -> None:
        """A task of the batch before that comes to its end only now, in another process."""
        alive = dict(working._waiting)
        working._waiting.clear()
        self.runner.evaluate(batch, self.rng.randrange(self.runner.spec.tasks or CORES), records)
        working._waiting.clear()
        working._waiting.update(alive)


SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 30))]


@pytest.mark.parametrize("seed", SEEDS)
def test_deaths_at_any_write_change_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    play = Play(tmp_path, seed, monkeypatch)
    for _ in range(BATCHES):
        play.statements()
        play.batch()
    found = tables(tmp_path, "output")
    assert not differences(found, play.reference.tables)
    assert play.killer.kills >= 8
    assert len(found) >= 3
    assert ControlFiles(play.runner.spec.control).last() >= 10
