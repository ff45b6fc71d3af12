"""What a host must have given: the processor in process, told of the same batches and statements; and what its tables have."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm
from spark.hosted import COLUMNS, STREAMS, WINDOWS
from watersmeet.spark.host.judge import windows_of
from watersmeet.spark.host.program import Entry, Programs
from watersmeet.spark.host.tables import Output

Rows = list[dict[str, Any]]


class Reference:
    """The processor in process, told what the host does: an alter that is spread otherwise is a drop and a create."""

    def __init__(self, warm: Sequence[str] = ()) -> None:
        """``warm``: texts of queries that may start warm: what they give from the first batch on is what they must give then."""
        self.processor, self.always = (
            wm.Processor(windows=WINDOWS, schemas=dict.fromkeys(STREAMS, COLUMNS), watermark="push")
            for _ in range(2)
        )
        for sql in warm:
            self.always.create(sql, sql)
        self.warm: dict[str, str] = {}  # the texts of those that have, by query and generation
        self.stopped: set[str] = set()
        self.tables: dict[str, Counter[str]] = {}  # by query and generation

    def do(self, entry: Entry, before: Any, after: Any) -> None:
        name, queries = entry["name"], self.processor.queries()
        if entry["verb"] == "alter" and name not in self.stopped and before.spread == after.spread:
            queries[name].alter(entry["sql"], windows=windows_of(entry["windows"]), emit=entry["emit"])
        else:
            if entry["verb"] != "create":
                queries[name].drop()
            if entry["verb"] != "drop":
                self.processor.create(
                    name, entry["sql"], windows=windows_of(entry["windows"]), emit=entry["emit"]
                )
        self.stopped.discard(name)

    def push(self, rows: dict[str, Rows], keys: dict[str, str]) -> None:
        batches = {
            stream: pa.RecordBatch.from_pylist(some, schema=COLUMNS) for stream, some in rows.items() if some
        }
        if not batches:
            return
        results, always = self.processor.push(batches), self.always.push(batches)
        self.stopped |= set(results.stopped)
        for name, result in results.items():
            if name not in self.stopped:
                key = keys[name]
                given = always[self.warm[key]] if key in self.warm else result
                self.tables.setdefault(key, Counter()).update(map(repr, given.to_arrow().to_pylist()))

    def follow(self, programs: Programs, first: int, last: int) -> None:
        """The statements of the log from after ``first`` to ``last``."""
        for number in range(first + 1, last + 1):
            entry = programs.entry(number)
            before, after = (programs.of(at).queries.get(entry["name"]) for at in (number - 1, number))
            self.do(entry, before, after)


def tables(folder: Path, name: str = "out") -> dict[str, Counter[str]]:
    """What the commits list, by query and generation."""
    found: dict[str, Counter[str]] = {}
    output = Output(str(folder / name))
    for commit in output.commits():
        for key, some in commit.files.items():
            for path in output.paths(some):
                found.setdefault(key, Counter()).update(map(repr, pq.read_table(path).to_pylist()))
    return found


def differences(mine: dict[str, Counter[str]], theirs: dict[str, Counter[str]]) -> list[str]:
    found = []
    for key in sorted(mine.keys() | theirs.keys()):
        one, other = mine.get(key, Counter()), theirs.get(key, Counter())
        for what, rows in (("extra", one - other), ("missing", other - one)):
            if rows:
                found.append(f"query {key}: {rows.total()} rows are {what}, such as {next(iter(rows))}")
    return found
