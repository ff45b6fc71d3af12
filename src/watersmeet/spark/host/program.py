"""A program: the queries of a host after so many statements. A value: the fold of the log, worked out alike by everybody who reads it.

The digest of a statement is over itself and the digest before it, so that version and digest name a program; a log that was changed, or
lacks a statement, does not fit its digests.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import StateError
from watersmeet.spark.host.files import ControlFiles
from watersmeet.spark.host.spread import Spread

Entry = Mapping[str, Any]  # a statement of the log, as JSON


@dataclass(frozen=True)
class Hosted:
    """A query, as it stands in a program."""

    number: int  # no two have the same, also of queries that are gone
    name: str
    generation: int
    statement: int  # that has made it what it is
    sql: str
    emit: str | None
    windows: Mapping[str, Any]  # its own, as JSON
    streams: tuple[str, ...]
    spread: Spread
    schema: str  # of its results
    complete: bool  # whether each result is the whole answer
    warm: bool = False  # whether it was to begin with rows that are stored

    @property
    def key(self) -> str:
        """Query and generation: a table, and what can be stopped."""
        return f"{self.number}.{self.generation}"


@dataclass(frozen=True)
class Program:
    """The queries by name, in the order in which they were created."""

    version: int = 0
    digest: str = ""
    created: int = 0
    queries: Mapping[str, Hosted] = field(default_factory=dict)

    def after(self, entry: Entry) -> "Program":
        """The program once a statement more counts."""
        if entry["number"] != self.version + 1 or entry["digest"] != digest_of(self.digest, entry):
            raise StateError(
                f"the log of statements must be as it was written: statement {entry['number']} does not follow on statement "
                f"{self.version}; do: "
                "restore the log from a copy, or start with a new control folder, checkpoint and output"
            )
        name, queries = entry["name"], dict(self.queries)
        if entry["verb"] == "drop":
            del queries[name]
        else:
            queries[name] = Hosted(
                entry["query"],
                name,
                entry["generation"],
                entry["number"],
                entry["sql"],
                entry["emit"],
                entry["windows"],
                tuple(entry["streams"]),
                Spread.from_id(entry["spread"]),
                entry["schema"],
                entry["complete"],
                entry.get("warm", False),
            )
        created = max(self.created, entry["query"] + 1)
        return Program(entry["number"], entry["digest"], created, queries)

    def of_key(self, key: str) -> Hosted | None:
        """The query of a key, if it is still that."""
        return next((query for query in self.queries.values() if query.key == key), None)

    def spreads(self, stream: str, without: Mapping[str, str]) -> list[Spread]:
        """The spreadings in which queries that run read a stream."""
        found = {
            query.spread.id: query.spread
            for query in self.queries.values()
            if stream in query.streams and query.key not in without
        }
        return [found[name] for name in sorted(found)]


def digest_of(before: str, entry: Entry) -> str:
    """The name of the program that a statement makes of the one called ``before``."""
    body = {name: value for name, value in entry.items() if name != "digest"}
    text = json.dumps([before, body], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


class Programs:
    """The programs of a control folder by version, as far as they were asked for. The log is never changed, so they may be kept."""

    def __init__(self, control: ControlFiles) -> None:
        self.control = control
        self.entries: list[Entry] = []
        self._found = [Program()]

    def of(self, version: int) -> Program:
        """The program of a version. The whole log up to it must be there."""
        while len(self._found) <= version:
            entry = self.control.entry(len(self._found))
            self._found.append(self._found[-1].after(entry))
            self.entries.append(entry)
        return self._found[version]

    def entry(self, number: int) -> Entry:
        self.of(number)
        return self.entries[number - 1]
