"""Results: a typed table a query and generation. Tasks write the files, one commit a batch lists those that count.

``<output>/<query>-<name>/<generation>/<batch>-<core>-<id>.parquet`` and ``<output>/_commits/<batch>.json``. A batch that is evaluated
again writes further files, which nobody lists: its commit is there.
"""

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import StateError
from watersmeet.spark.host.program import Hosted
from watersmeet.spark.state.location import open_location

COMMITS = "_commits"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def table_folder(query: Hosted) -> str:
    """Where the table of a query and generation lies in the output."""
    return f"{query.number:06d}-{_UNSAFE.sub('_', query.name)[:60]}/{query.generation:04d}"


def write_file(output: str, query: Hosted, batch: int, core: int, table: pa.Table) -> list[Any]:
    """A file of a table; returns its path in the output, its rows and bytes."""
    place = open_location(output)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data = sink.getvalue()
    path = f"{table_folder(query)}/{batch:012d}-{core:04d}-{uuid.uuid4().hex[:12]}.parquet"
    place.write(place.path(*path.split("/")), [data])
    return [path, table.num_rows, data.size]


@dataclass(frozen=True)
class Said:
    """What a core tells the driver of a batch."""

    core: int
    query: str  # Spark's id of the query
    course: str
    version: int  # of the program that the batch has run
    files: Mapping[str, Sequence[Any]]  # by key of the query
    stopped: Mapping[str, str]  # of all that run no more
    late: Mapping[str, int] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    # Of the queries on the core, from which batch on they are complete; None: they are not.
    complete: Mapping[str, int | None] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps(vars(self))

    @classmethod
    def read(cls, text: str) -> "Said":
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Commit:
    """A batch that counts."""

    batch: int
    query: str
    course: str
    version: int
    files: dict[str, list[Any]]
    stopped: dict[str, str]
    late: dict[str, int]
    figures: dict[str, Any]
    complete: dict[str, int | None] = field(default_factory=dict)


def commit_of(batch: int, said: Iterable[Said]) -> Commit | None:
    """What all cores say of a batch, as one; None if it brought nothing. A query that has stopped on one core has no rows of that batch."""
    heard = sorted(said, key=lambda one: one.core)
    if not heard:
        return None
    first = heard[0]
    if any((one.course, one.version) != (first.course, first.version) for one in heard):
        raise StateError(
            f"all cores must have taken in the same in batch {batch}; do: let Spark try the batch again"
        )
    stopped = {key: why for one in heard for key, why in one.stopped.items()}
    files: dict[str, list[Any]] = {}
    late: dict[str, int] = {}
    for one in heard:
        for key, file in one.files.items():
            if key not in stopped:
                files.setdefault(key, []).append(file)
        for key, rows in one.late.items():
            late[key] = late.get(key, 0) + rows
    figures: dict[str, Any] = {}
    for one in heard:
        for name, value in one.figures.items():
            figures[name] = figures.get(name, 0) + value
    complete: dict[str, int | None] = {}
    for one in heard:
        for key, since in one.complete.items():
            before = complete.get(key, since)
            complete[key] = None if since is None or before is None else max(since, before)
    complete = {key: since for key, since in complete.items() if key not in stopped}
    return Commit(batch, first.query, first.course, first.version, files, stopped, late, figures, complete)


class Output:
    """The tables of a host."""

    def __init__(self, location: str) -> None:
        self.location, self.place = location.rstrip("/"), open_location(location)

    def commit(self, commit: Commit) -> Commit:
        """Let a batch count; returns what counts: of a batch that was committed before, what was then."""
        before = self.read(commit.batch)
        if before is not None:
            if before.query != commit.query:
                raise StateError(
                    f"output= must be new, or of the same checkpoint; got {self.place.root}, where batch {commit.batch} was "
                    "committed by another query; "
                    "do: name another folder, or start from that query's checkpoint"
                )
            if before.course == commit.course:
                return before
        self.place.write(self._path(commit.batch), [json.dumps(vars(commit)).encode()])
        return commit

    def read(self, batch: int) -> Commit | None:
        data = self.place.read(self._path(batch))
        return None if data is None else Commit(**json.loads(data.to_pybytes()))

    def commits(self) -> list[Commit]:
        """All batches that count, in order."""
        names = self.place.names(self.place.path(COMMITS))
        found = [self.read(int(name[:-5])) for name in names if name.endswith(".json")]
        return [commit for commit in found if commit is not None]

    def files(self, query: Hosted) -> list[str]:
        """The files of a query's table; of one that gives whole answers, those of the newest."""
        lists = [commit.files[query.key] for commit in self.commits() if query.key in commit.files]
        chosen = lists[-1:] if query.complete else lists
        return [path for several in chosen for path in self.paths(several)]

    def paths(self, files: Sequence[Sequence[Any]]) -> list[str]:
        """Files of a commit, as Spark finds them."""
        return [f"{self.location}/{file[0]}" for file in files]

    def _path(self, batch: int) -> str:
        return self.place.path(COMMITS, f"{batch:012d}.json")
