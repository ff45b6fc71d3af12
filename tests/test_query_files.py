"""The files of ``tests/queries``: each gives what it says, is noticed if it says anything else, and means the same to DuckDB."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot

import watersmeet as wm
from query_files import FILES, File, Record, Row, parse, shown, text

_CREATE = re.compile(r"CREATE QUERY (\w+) (?:EMIT \w+ )?AS (.*)", re.DOTALL | re.IGNORECASE)
# Windows are ours, as is which row comes first; integers are divided and typed by other rules.
_OURS = re.compile(r"last_rows|last_range|unbounded\(|window\(|FIRST\(|LAST\(|LIMIT", re.IGNORECASE)
_JOINS = re.compile(r"\bJOIN\b|FROM \w+( \w+)?,", re.IGNORECASE)


def each(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", FILES, ids=each)
def test_a_file_gives_what_it_says(path: Path) -> None:
    File(parse(path)).run()


def changed(records: list[Record]) -> Iterator[tuple[int, Record]]:
    """Each result with another value, with a row less, and with one twice."""
    for at, record in enumerate(records):
        if record.words[0] == "query":
            for number, row in enumerate(record.rows[:1]):
                same = record.lines[record.lines.index("----") + 1 + number]
                yield at, record.without(number, " ".join(["other", *row[1:]]))
                yield at, record.without(number)
                yield at, record.without(number, f"{same}\n{same}")
            if not record.rows:
                yield at, Record(record.place, record.words, (*record.lines, "other"))
        elif record.words[:2] == ("statement", "error"):
            yield at, Record(record.place, ("statement", "error", "something else"), record.lines)


@pytest.mark.parametrize("path", FILES, ids=each)
def test_a_file_that_says_something_else_fails(path: Path) -> None:
    records = parse(path)
    mutants = list(changed(records))
    assert mutants
    for at, record in mutants:
        lines = tuple(line for text in record.lines for line in text.split("\n"))
        with pytest.raises(AssertionError, match=re.escape(record.place)):
            File([*records[:at], Record(record.place, record.words, lines)]).run()


def texts(file: File) -> dict[str, str]:
    """The queries of a file that mean the same on finished data."""
    endless = all(isinstance(window, wm.Unbounded) for window in file.windows.values())
    found = {}
    for record in file.records:
        if record.words == ("statement", "ok"):
            for statement in "\n".join(record.lines).split(";"):
                create = _CREATE.fullmatch(statement.strip())
                if (
                    create is not None
                    and not _OURS.search(create[2])
                    and (endless or not _JOINS.search(create[2]))
                ):
                    found[create[1]] = create[2]
    return found


def finished(file: File, sql: str) -> list[Row]:
    """What a query makes of all rows: what it appends, or its last answer."""
    qp = file.processor()
    try:
        appends = qp.create("q", sql, emit="append") is not None
    except wm.WatersmeetError:
        appends = qp.create("q", sql, emit="complete") is None
    pushed = qp.push(file.batches(file.arrived), order=[name for name, _ in file.arrived])["q"]
    ended = shown(qp.finish()["q"])
    return [*shown(pushed), *ended] if appends else ended


def in_duckdb(file: File, sql: str) -> list[Row]:
    (translated,) = sqlglot.transpile(sql, read="spark", write="duckdb")
    with duckdb.connect() as connection:
        rows: dict[str, Any] = {
            name: [row for one, row in file.arrived if one == name] for name in file.windows
        }
        for name, mine in {**rows, **file.tables}.items():
            connection.register(name, pa.Table.from_pylist(mine, file.schema(name)))
        return [tuple(map(text, row)) for row in connection.execute(translated).fetchall()]


@pytest.mark.parametrize("path", FILES, ids=each)
def test_texts_without_windows_mean_the_same_to_duckdb(path: Path) -> None:
    file = File(parse(path))
    file.run()
    for sql in texts(file).values():
        assert sorted(finished(file, sql)) == sorted(in_duckdb(file, sql)), sql


def test_most_texts_are_put_to_duckdb() -> None:
    files = [File(parse(path)) for path in FILES]
    for file in files:
        file.run()
    assert len(FILES) >= 12
    assert sum(len(texts(file)) for file in files) >= 20
