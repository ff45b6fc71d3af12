"""A host without Spark: source, packers, cores and commits as Spark would call them, in this process."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.spark.host import spec as specs
from watersmeet.spark.host import work as working
from watersmeet.spark.host.files import ControlFiles
from watersmeet.spark.host.judge import Judge
from watersmeet.spark.host.pack import pack, pack_statements
from watersmeet.spark.host.program import Programs
from watersmeet.spark.host.setting import Setting
from watersmeet.spark.host.spec import HostSpec
from watersmeet.spark.host.tables import Commit, Output, Said, commit_of
from watersmeet.spark.host.work import work
from watersmeet.spark.task import Task

Rows = Mapping[str, Sequence[pa.RecordBatch]]  # by stream, one batch a map partition


class HostRunner:
    """A host: statements and batches in, commits out."""

    def __init__(self, folder: Path, setting: Setting, seed: int = 0, **options: Any) -> None:
        self.files = ControlFiles(str(folder / "control"))
        setting.agree(self.files)
        self.judge = Judge(self.files, setting)
        where = {name: str(folder / name) for name in ("control", "state", "output")}
        self.spec = HostSpec(setting, **where, **{"instance": f"{folder} 0", "retain": 3, **options})
        self.query, self.run, self.read, self.next = "query", 0, 0, 0
        self.random, self.output = random.Random(seed), Output(self.spec.output)

    def say(self, verb: str, name: str, sql: str = "", **options: Any) -> dict[str, Any]:
        """A statement; returns the answer."""
        told = self.files.ask(
            {"verb": verb, "name": name, "sql": sql, "windows": None, "emit": None, **options}
        )
        self.judge.take_in()
        answer: dict[str, Any] = self.files.answered(told)
        return answer

    def restart(self, **changes: Any) -> None:
        """As if all processes had been killed."""
        working._waiting.clear()
        specs._programs.clear()
        self.run += 1
        self.spec = replace(self.spec, instance=f"{self.spec.instance}+", **changes)
        self.judge = Judge(self.files, self.spec.setting)

    def task(self, partition: int, batch: int) -> Task:
        return Task(partition, batch, self.query, f"run {self.run}")

    def packed(self, batch: int, rows: Rows, until: int | None) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        for k, stream in enumerate(self.spec.setting.streams):
            for number, part in enumerate(rows.get(stream, ())):
                halves = [part.slice(0, part.num_rows // 2), part.slice(part.num_rows // 2)]
                task = self.task(number, batch)
                found += pack(self.spec, k, halves, lambda task=task: task)
        if until is not None:
            said = pa.RecordBatch.from_pydict({"first": [self.read], "last": [until]})
            found += pack_statements(self.spec, [said], lambda: self.task(0, batch))
        return found

    def evaluate(self, batch: int, number: int, records: Sequence[pa.RecordBatch]) -> list[Said]:
        mine, cores = [], self.spec.cores_of(number)
        for rows in records:
            places = [i for i, to in enumerate(rows.column(0).to_pylist()) if to in cores]
            mine += [rows.slice(i, 1) for i in places]
        self.random.shuffle(mine)  # shuffle blocks come in any order
        found = list(work(self.spec, mine, lambda: self.task(number, batch)))
        return [Said.read(text) for one in found for text in one.column(1).to_pylist()]

    def batch(self, rows: Rows, until: int | None = None, again: bool = False) -> Commit | None:
        """A whole batch, cores in any order. ``until``: the statements that it reads, None: those that there are."""
        last = self.judge.program.version if until is None else until
        records = self.packed(self.next, rows, last)
        tasks = list(range(self.spec.tasks or self.spec.setting.cores))
        self.random.shuffle(tasks)
        said = [one for task in tasks for one in self.evaluate(self.next, task, records)]
        if again:  # evaluated a second time, after the first was lost
            self.restart()
            said = [one for task in tasks for one in self.evaluate(self.next, task, records)]
        made = commit_of(self.next, said)
        commit = None if made is None else self.output.commit(made)
        self.read, self.next = last, self.next + 1
        return commit

    def rows_of(self, commit: Commit) -> dict[str, list[dict[str, Any]]]:
        """What a batch has given, by query."""
        program = Programs(self.files).of(commit.version)
        found = {}
        for query in program.queries.values():
            paths = [file[0] for file in commit.files.get(query.key, [])]
            tables = [pq.read_table(f"{self.spec.output}/{path}") for path in paths]
            found[query.name] = [row for table in tables for row in table.to_pylist()]
        return found
