"""Files of queries with their results, in a format close to sqllogictest's: ``tests/queries/*.test``.

A file is records with a blank line between them; a line that begins with # is a comment. Values stand between spaces, in quotes if they
have some, NULL for nothing.

- ``stream NAME WINDOW``, then a column a line, name and type. WINDOW: ``unbounded``, ``rows N``, ``range T COLUMN [LATENESS]``.
- ``table NAME``, then columns, ``----``, and rows.
- ``statement ok``, then what ``execute`` takes; ``statement error TEXT``: it must be refused with a message that has the text in it.
- ``push``, then rows in the order in which they arrive, each after the name of its stream. ``advance STREAM TIME``, ``finish``, ``reload``
  (save and load).
- ``query NAME [rowsort]``, ``----``, and the rows that the last push, advance or finish has given; ``rowsort``: in any order.
- ``stopped NAME TEXT``: the last one has stopped the query, for a reason that has the text in it.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.query.running import Results

FILES = sorted((Path(__file__).parent / "queries").glob("*.test"))
_READ: dict[str, tuple[pa.DataType, Callable[[str], Any]]] = {
    "bigint": (pa.int64(), int),
    "double": (pa.float64(), float),
    "varchar": (pa.string(), str),
    "boolean": (pa.bool_(), {"true": True, "false": False}.__getitem__),
    "decimal": (pa.decimal128(10, 2), Decimal),
    "date": (pa.date32(), date.fromisoformat),
    "timestamp": (pa.timestamp("us"), datetime.fromisoformat),
}
Row = tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """What stands between two blank lines: the words of its first line, and the lines under it."""

    place: str  # file and line
    words: Row
    lines: tuple[str, ...]

    @property
    def rows(self) -> list[Row]:
        """The values after ----."""
        return [tuple(shlex.split(line)) for line in self.lines[self.lines.index("----") + 1 :]]

    def without(self, at: int, line: str | None = None) -> "Record":
        """With another row in a row's place, or none."""
        first = self.lines.index("----") + 1 + at
        return replace(
            self, lines=(*self.lines[:first], *(() if line is None else (line,)), *self.lines[first + 1 :])
        )


def parse(path: Path) -> list[Record]:
    """The records of a file."""
    records, open_lines = list[Record](), list[str]()
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            open_lines.append(line)
        elif open_lines:
            place = f"{path.name}:{number - len(open_lines)}"
            records.append(Record(place, tuple(open_lines[0].split()), tuple(open_lines[1:])))
            open_lines = []
    return records


class File:
    """A file as it runs: ``run`` raises an AssertionError with the place where something is not as the file has it."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.columns: dict[str, dict[str, str]] = {}  # by stream or table: types
        self.windows: dict[str, wm.Rows | wm.Range | wm.Unbounded] = {}
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.arrived: list[tuple[str, dict[str, Any]]] = []
        self.records = records
        self._qp: wm.Processor | None = None
        self._given: Results | None = None

    def run(self) -> None:
        for record in self.records:
            try:
                self._do(record)
            except (Exception, pytest.fail.Exception) as error:
                raise AssertionError(f"{record.place}: {' '.join(record.words)}: {error}") from error

    @property
    def qp(self) -> wm.Processor:
        if self._qp is None:
            self._qp = self.processor()
        return self._qp

    def processor(self) -> wm.Processor:
        """One that has had no rows."""
        tables = {name: pa.Table.from_pylist(rows, self.schema(name)) for name, rows in self.tables.items()}
        schemas = {name: self.schema(name) for name in self.windows}
        return wm.Processor(windows=self.windows, schemas=schemas, tables=tables)

    def schema(self, name: str) -> pa.Schema:
        return pa.schema({column: _READ[kind][0] for column, kind in self.columns[name].items()})

    def batches(self, rows: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, pa.RecordBatch]:
        return {
            name: pa.RecordBatch.from_pylist(
                [row for stream, row in rows if stream == name], self.schema(name)
            )
            for name in dict.fromkeys(stream for stream, _ in rows)
        }

    def _do(self, record: Record) -> None:
        match record.words:
            case ("stream", name, *window):
                self._name(name, record.lines)
                self.windows[name] = _window(window)
            case ("table", name):
                self._name(name, record.lines[: record.lines.index("----")])
                self.tables[name] = [self._row(name, values) for values in record.rows]
            case ("statement", "ok"):
                self.qp.execute("\n".join(record.lines))
            case ("statement", "error", *said):
                self._refused("\n".join(record.lines), " ".join(said))
            case ("push",):
                rows = [
                    (values[0], self._row(values[0], values[1:])) for values in map(shlex.split, record.lines)
                ]
                self.arrived += rows
                self._given = self.qp.push(self.batches(rows), order=[name for name, _ in rows])
            case ("advance", stream, time):
                self._given = self.qp.advance({stream: int(time)})
            case ("finish",):
                self._given = self.qp.finish()
            case ("reload",):
                with TemporaryDirectory() as folder:
                    self.qp.save(folder)
                    self._qp = wm.Processor.load(folder)
            case ("query", name) | ("query", name, "rowsort"):
                assert self._given is not None, "nothing was pushed"
                found, wanted = shown(self._given[name]), record.rows
                if "rowsort" in record.words:
                    found, wanted = sorted(found), sorted(wanted)
                assert found == wanted, f"got {found}"
            case ("stopped", name, *said):
                assert self._given is not None, "nothing was pushed"
                assert " ".join(said) in self._given.stopped[name], f"got {self._given.stopped[name]}"
            case _:
                raise ValueError("a record must be one of those that tests/query_files.py has")

    def _name(self, name: str, lines: Sequence[str]) -> None:
        self.columns[name] = {words[0]: words[1] for words in map(str.split, lines)}

    def _row(self, name: str, values: Sequence[str]) -> dict[str, Any]:
        columns = self.columns[name]
        return {
            column: None if value == "NULL" else _READ[kind][1](value)
            for (column, kind), value in zip(columns.items(), values, strict=True)
        }

    def _refused(self, text: str, said: str) -> None:
        before = self.qp.explain()
        with pytest.raises(wm.WatersmeetError, match=re.escape(said)):
            self.qp.execute(text)
        assert self.qp.explain() == before, "it has changed something"


def _window(words: Sequence[str]) -> wm.Rows | wm.Range | wm.Unbounded:
    match words:
        case ["unbounded"]:
            return wm.Unbounded()
        case ["rows", n]:
            return wm.Rows(int(n))
        case ["range", length, column, *lateness]:
            return wm.Range(int(length), time=column, lateness=int(lateness[0]) if lateness else 0)
    raise ValueError("a window must be 'unbounded', 'rows N' or 'range T COLUMN [LATENESS]'")


def shown(result: wm.Result) -> list[Row]:
    """The rows of a result as they stand in a file."""
    return [tuple(map(text, row.values())) for row in result.to_arrow().to_pylist()]


def text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)
