"""``watersmeet run job.sql --stream ...``: the queries of a file over files as streams, one output a query.

A push and what it gives to the outputs is one turn, and so is a statement that comes through the socket: it acts between two pushes.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from watersmeet.api.show import counted
from watersmeet.cli.csv_options import Csv
from watersmeet.cli.formats import ENDS, checked_format
from watersmeet.cli.inputs import STDIN, open_input
from watersmeet.cli.merge import check_order, in_order, pushes
from watersmeet.cli.outputs import STDOUT, Output
from watersmeet.cli.places import folder
from watersmeet.cli.telling import Listener
from watersmeet.cli.terminal import errors, say, warn
from watersmeet.cli.texts import schema_of, window_of
from watersmeet.cli.timeless import with_times
from watersmeet.errors import OptionError, WatersmeetError

if TYPE_CHECKING:
    from watersmeet.query.processor import Processor, Query

SHOW, PLAN, STATS = "show queries", "show plan", "show stats"


@dataclass(frozen=True)
class Job:
    """What the command was told."""

    text: str  # a file of statements, or statements
    streams: Sequence[str]  # NAME=FILE
    windows: Sequence[str]  # NAME=WINDOW
    tables: Sequence[str]  # NAME=FILE
    types: Sequence[str]  # NAME=COLUMN:TYPE,...
    output: str
    output_format: str | None
    format: str | None
    csv: Csv
    order: str | None
    batch: int
    cores: int
    socket: str | None


@dataclass(frozen=True)
class Opened:
    """A job's processor, and what will be pushed into it. ``timeless``: by stream, rows that were left out as they have no time."""

    processor: "Processor"
    pushes: Iterator[Mapping[str, Any]]
    timeless: dict[str, int]


def run_job(job: Job) -> None:
    """Run it to the end of its streams."""
    _parts(job)  # what is wrong with them is said first
    statements, end = _statements(job.text), _end(job)
    outputs = Outputs(folder(Path(job.output)), job.output_format or "csv", end)
    opened = open_job(job, keeps_windows=job.socket is not None)  # only who is told more can start warm
    queries = Queries(opened.processor, outputs)
    queries.do(statements)
    with ExitStack() as stack:
        stack.enter_context(opened.processor)
        stack.enter_context(outputs)
        stack.enter_context(Listener(job.socket, queries.told) if job.socket else nullcontext())
        queries.run(opened.pushes, job.order)
    for name, count in opened.timeless.items():
        say(f"{counted(count, 'row')} of {name} without a time, left out")


def statements_of(job: Job) -> str:
    """What a job creates."""
    return _statements(job.text)


def open_job(job: Job, keeps_windows: bool) -> Opened:
    """A job's streams and tables, and a processor of them without queries. ``keeps_windows``: also what no query reads."""
    from watersmeet.query.processor import Processor

    streams, tables, windows, types = _parts(job)
    inputs = {
        name: open_input(
            path, job.batch, job.format, schema_of(types[name]) if name in types else None, job.csv
        )
        for name, path in {**streams, **tables}.items()
    }
    schemas = {name: inputs[name].schema for name in streams}
    if job.order is not None:
        check_order(schemas, job.order)
    named = {name: window_of(windows.get(name, "unbounded")) for name in streams}
    qp = Processor(
        windows=named,
        schemas=schemas,
        tables={name: _whole(inputs[name]) for name in tables},
        cores=job.cores,
        keep="windows" if keeps_windows else "queries",
    )
    timeless: dict[str, int] = {}
    readers = {}
    for name, window in named.items():
        rows = inputs[name].batches
        if job.order not in (None, window.time):
            rows = in_order(name, rows, job.order)
        if window.time is not None:
            rows = with_times(rows, window.time, partial(_count, timeless, name))
        readers[name] = rows
    return Opened(qp, pushes(readers, schemas, job.order), timeless)


def _parts(job: Job) -> tuple[dict[str, str], dict[str, str], dict[str, str], dict[str, str]]:
    """Files of streams and tables, windows and types, by name; what is not written as it must be is refused."""
    streams = _named(job.streams, "--stream", "trades=trades.parquet")
    tables = _named(job.tables, "--table", "symbols=symbols.csv")
    windows = _of_streams(job.windows, "--window", "trades=rows:1000", streams)
    types = _of_streams(job.types, "--types", "trades=price:float64", {**streams, **tables})
    if [*streams.values(), *tables.values()].count(STDIN) > 1:
        raise OptionError("standard input can be one stream; got - for several; give files for the others")
    return streams, tables, windows, types


def _named(given: Sequence[str], option: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise OptionError(f"{option} must be NAME=...; got {text!r}; for instance {option} {example}")
        if name in found:
            raise OptionError(f"{option} must be given once a name; got {name!r} twice")
        found[name] = value
    return found


def _of_streams(given: Sequence[str], option: str, example: str, names: Mapping[str, str]) -> dict[str, str]:
    found = _named(given, option, example)
    for name in found:
        if name not in names:
            raise OptionError(f"{option} must be of one of {', '.join(names)}; got {name!r}")
    return found


def _statements(text: str) -> str:
    if Path(text).is_file():
        try:
            return Path(text).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"a job must be a text in UTF-8; got {text!r}: {error}") from error
    if text.lstrip().upper().startswith("CREATE"):
        return text
    raise OptionError(
        f"with --stream a job must be a file of statements, or statements: CREATE QUERY name AS SELECT ...; got {text!r}, and there is no "
        "such file"
    )


def _end(job: Job) -> str:
    """The end of the outputs' names."""
    kind = checked_format(job.output_format, "--output-format") or "csv"
    if job.output == STDOUT:
        raise OptionError(
            "with --stream -o must be a folder, in which each query has a file; got none; give -o results"
        )
    return next(end for end, named in ENDS.items() if named == kind)


def _whole(source: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches(list(source.batches), source.schema)


def _count(timeless: dict[str, int], name: str, rows: Any) -> None:
    timeless[name] = timeless.get(name, 0) + rows.num_rows


class Outputs:
    """A file a query, and another one when it is altered, or dropped and created again. A file has its name once it is complete."""

    def __init__(self, folder: Path, format: str, end: str) -> None:
        self._folder, self._format, self._end = folder, format, end
        self._open: dict[tuple[int, int], Output] = {}
        self._names: dict[str, int] = {}
        self.rows: dict[str, int] = {}  # by file

    def write(self, query: "Query", rows: Any) -> None:
        """Rows of a query, to its file."""
        key = query.number, query.generation
        if key not in self._open:
            nth = self._names.get(query.name, 0)
            self._names[query.name] = nth + 1
            file = f"{quote(query.name, safe=' ')}{f'.{nth + 1}' if nth else ''}{self._end}"
            self._open[key] = output = Output(str(self._folder / file), self._format)
            output.__enter__()
            output.open(rows.schema)
        output = self._open[key]
        output.write(rows)

    def close_all_but(self, queries: Mapping[str, "Query"]) -> None:
        """The files of queries that are gone are complete."""
        there = {(query.number, query.generation) for query in queries.values()}
        for key in [key for key in self._open if key not in there]:
            self._open.pop(key).__exit__(None, None, None)

    def __enter__(self) -> "Outputs":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        for output in self._open.values():
            output.__exit__(kind, *error)


class Queries:
    """The processor, its outputs, and whose turn it is."""

    def __init__(self, qp: "Processor", outputs: Outputs) -> None:
        self._qp, self._outputs, self._turn = qp, outputs, threading.Lock()
        self._rows = self._results = self._late = 0

    def do(self, statements: str) -> str:
        """Statements, between two pushes; what to say of them."""
        with self._turn:
            fresh = self._qp.execute(statements)
            for query in fresh.values():
                if query.backfill is not None:
                    self._write(query, query.backfill)
            self._outputs.close_all_but(self._qp.queries())
        return "\n".join(f"{name}: {_state(query)}" for name, query in fresh.items()) or "done"

    def told(self, text: str) -> str:
        """The same from another process, or SHOW QUERIES; SHOW PLAN and SHOW STATS are ``describe()`` and ``stats()`` as JSON."""
        asked = " ".join(text.strip().rstrip(";").lower().split())
        if asked == SHOW:
            return self._qp.explain()
        if asked in (PLAN, STATS):
            return json.dumps(self._qp.describe() if asked == PLAN else self._qp.stats(), indent=1)
        return self.do(text)

    def run(self, rows: Iterator[Mapping[str, Any]], order: str | None) -> None:
        """Push all rows, and end the streams."""
        start = time.perf_counter()
        with _progress() as show:
            for push in filter(None, rows):
                self._push(push, order if len(push) > 1 else None)
                show(self._so_far(time.perf_counter() - start))
            with self._turn:
                self._take(self._qp.finish())
        say(self._so_far(time.perf_counter() - start))

    def _push(self, push: Mapping[str, Any], order: str | None) -> None:
        with self._turn:
            results = self._qp.push(push, order=order)
            self._rows += sum(rows.num_rows for rows in push.values())
            self._take(results)

    def _take(self, results: Any) -> None:
        queries = self._qp.queries()
        for name, reason in results.stopped.items():
            warn(f"query {name} was stopped: {reason}")
        for name, result in results.items():
            self._write(queries[name], result)

    def _write(self, query: "Query", result: Any) -> None:
        try:
            rows = result.to_arrow()
        except WatersmeetError as error:
            warn(f"query {query.name} was dropped: {error}")
            query.drop()
            return
        self._outputs.write(query, rows)
        self._results += rows.num_rows
        self._late += sum(late.num_rows for late in result.late.values())

    def _so_far(self, spent: float) -> str:
        rate = self._rows / spent if spent else 0.0
        late = f", {self._late:,} late" if self._late else ""
        return (
            f"{counted(self._rows, 'row')}, {len(self._qp.queries())} queries, {counted(self._results, 'result')}{late}, {spent:.2f} s, "
            f"{rate:,.0f} rows/s"
        )


def _state(query: "Query") -> str:
    return query.state if query.reason is None else f"{query.state}: {query.reason}"


@contextmanager
def _progress() -> Iterator[Any]:
    """A line that says how far it is, on a terminal."""
    if not errors.is_terminal:
        yield lambda text: None
        return
    from rich.text import Text

    with errors.status("reading ...") as status:
        shown = 0.0

        def show(text: str) -> None:
            nonlocal shown
            if time.perf_counter() - shown >= 0.1:  # seconds: small pushes are many
                status.update(Text(text))
                shown = time.perf_counter()

        yield show
