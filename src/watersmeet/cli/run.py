"""``watersmeet run``: two files as streams, joined batch by batch; or, with ``--stream``, a job of queries (``job.py``)."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watersmeet.api.show import counted
from watersmeet.cli import options
from watersmeet.cli.csv_options import Csv, csv_of
from watersmeet.cli.formats import LISTED
from watersmeet.cli.inputs import STDIN, Input, open_input
from watersmeet.cli.job import Job, run_job
from watersmeet.cli.merge import check_order, check_times, in_order, pushes
from watersmeet.cli.outputs import STDOUT, Output, beside
from watersmeet.cli.terminal import errors, say, warn
from watersmeet.cli.texts import schema_of
from watersmeet.cli.timeless import with_times
from watersmeet.errors import OptionError

if TYPE_CHECKING:
    from watersmeet.api.stream_join import StreamJoin

FILES, ROWS, SPEED, JOB = "Files", "Rows", "Speed", options.JOB
TypesOption = typer.Option(
    help=options.literal(
        "Types of columns of a csv or ndjson input, as NAME:TYPE,..., where the first rows mislead."
    ),
    rich_help_panel=FILES,
)


def run(
    condition: Annotated[
        str,
        typer.Argument(
            help="SQL over the aliases r and s, such as 'r.x = s.a'; with --stream, a file of CREATE QUERY statements, or statements."
        ),
    ],
    r: Annotated[
        str | None,
        typer.Option(
            help=f"File, folder or pipe of stream r: {LISTED}; - is standard input.", rich_help_panel=FILES
        ),
    ] = None,
    s: Annotated[str | None, typer.Option(help="The same of stream s.", rich_help_panel=FILES)] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=FILE: a stream of a job of queries; once a stream, in place of --r and --s.",
            rich_help_panel=JOB,
        ),
    ] = None,
    window: options.JobWindows = None,
    table: options.Tables = None,
    types: options.Types = None,
    socket: Annotated[
        str | None,
        typer.Option(
            help="Where to listen for further statements, from: watersmeet tell SOCKET '...'.",
            rich_help_panel=JOB,
        ),
    ] = None,
    window_r: options.Window = "unbounded",
    window_s: options.Window = "unbounded",
    how: options.How = "inner",
    select: options.Select = "*",
    order: Annotated[
        str | None,
        typer.Option(help="Time column, in both files, to merge the arrivals by.", rich_help_panel=ROWS),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help=f"File for the results: {LISTED}; - is standard output. With --stream, a folder, in which each query has a file.",
            rich_help_panel=FILES,
        ),
    ] = STDOUT,
    late: Annotated[
        str | None,
        typer.Option(
            help="File for late rows, and rows without a time, of each stream with a range window: late.csv becomes "
            "late.r.csv and late.s.csv.",
            rich_help_panel=FILES,
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="Format of standard input (else arrow: an Arrow stream), and of inputs whose names do not tell it.",
            rich_help_panel=FILES,
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            help="Format of standard output (else csv), and of outputs whose names do not tell it.",
            rich_help_panel=FILES,
        ),
    ] = None,
    types_r: Annotated[str | None, TypesOption] = None,
    types_s: Annotated[str | None, TypesOption] = None,
    delimiter: Annotated[
        str,
        typer.Option(
            help=options.literal(r"Character between the fields of csv inputs, such as ';' or '\t'."),
            rich_help_panel=FILES,
        ),
    ] = ",",
    null: Annotated[
        list[str] | None,
        typer.Option(
            help='Text that is NULL in csv inputs, such as NA; may be given again. An empty field always is, "" never.',
            rich_help_panel=FILES,
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="Most rows of a stream in one push.", rich_help_panel=SPEED)
    ] = 32_768,
    index: options.Index = "auto",
    cores: options.Cores = 1,
) -> None:
    """Join two files as streams, batch by batch.

    A batch of r arrives, then one of s, and so on; or, with --order, the rows of both merged by a time column.
    Text formats are read 1 MB at a time: rows of a slow live pipe are joined when so much has come.

    With --stream: a job of queries over any number of streams, each query's results to a file of its own.
    """
    csv = csv_of(delimiter, null or [])
    if stream:
        of_two = {"--r": r, "--s": s, "--window-r": window_r, "--window-s": window_s, "--types-r": types_r, "--types-s": types_s,
                  "--how": how, "--select": select, "--late": late, "--index": index}  # fmt: skip
        _refuse(
            of_two,
            "two files, --r and --s",
            "--stream; say it in the queries, or for each stream by --window and --types",
        )
        run_job(
            Job(condition, stream, window or [], table or [], types or [], output, output_format, format, csv, order, batch, cores, socket)
        )  # fmt: skip
        return
    _refuse(
        {"--window": window, "--table": table, "--types": types, "--socket": socket},
        "a job of queries",
        "no --stream",
    )
    if r is None or s is None:
        raise OptionError(
            f"run must have the files of both streams, --r and --s, or a job's, --stream NAME=FILE; got {'no --s' if r else 'no --r'}"
        )
    windows = options.windows(window_r, window_s)
    results = Output(output, output_format, (r, s))
    late_to = _late_outputs(late, output_format, windows, (r, s, output))
    inputs = _open_inputs({"r": (r, types_r), "s": (s, types_s)}, batch, format, csv)
    schemas = {stream: source.schema for stream, source in inputs.items()}
    if order is not None:
        check_order(schemas, order)
    check_times(schemas, _time_columns(windows))
    join = options.stream_join(condition, windows, how, select, index, cores, schemas)
    if order is None:
        _warn_of_arrival_order(windows)
    with ExitStack() as files:
        for out in (results, *late_to.values()):
            files.enter_context(out)
        results.open(join.push().schema)
        for name, out in late_to.items():
            out.open(schemas[name])
        late_rows = _LateRows(late_to)
        readers = _readers(inputs, order, _time_columns(windows), late_rows)
        _join_all(join, readers, schemas, order, results, late_rows)
    for name, out in late_to.items():
        say(f"{counted(out.rows, 'late row')} of {name}: {beside(late or '', name)}")


def _refuse(given: Mapping[str, Any], of: str, got: str) -> None:
    """Options that are not of this kind of run."""
    for option, value in given.items():
        if value not in (None, [], "unbounded", "inner", "*", "auto"):
            raise OptionError(f"{option} must go with {of}; got it with {got}")


def _open_inputs(
    paths: Mapping[str, tuple[str, str | None]], batch: int, format: str | None, csv: Csv
) -> dict[str, Input]:
    if all(path == STDIN for path, _ in paths.values()):
        raise OptionError("standard input can be one stream; got - for both; give a file for one of them")
    return {
        stream: open_input(path, batch, format, schema_of(types) if types else None, csv)
        for stream, (path, types) in paths.items()
    }


def _late_outputs(
    late: str | None, output_format: str | None, windows: Mapping[str, Any], others: tuple[str, ...]
) -> dict[str, Output]:
    if late is None:
        return {}
    timed = _time_columns(windows)
    if not timed:
        raise OptionError(
            "--late must go with a range: window, as only its rows can be late; got none; give --window-r or --window-s"
        )
    if late == STDOUT:
        raise OptionError(
            "--late must be a file; got -, which is standard output; give a name such as late.csv"
        )
    return {stream: Output(beside(late, stream), output_format, others) for stream in timed}


def _time_columns(windows: Mapping[str, Any]) -> dict[str, str]:
    """The time column of each stream that has a range window."""
    return {stream: window.time for stream, window in windows.items() if window.timed}


def _warn_of_arrival_order(windows: Mapping[str, Any]) -> None:
    """Without --order files arrive in turns of --batch rows. Only two unbounded windows give the same result anyway.

    Two range windows do so for rows that are not late; which ones are is decided by what has arrived before them.
    """
    from watersmeet.streams.window import Unbounded

    if all(window == Unbounded() for window in windows.values()):
        return
    if all(window.timed for window in windows.values()):
        depends, changes = "which rows are late depends on", "make other rows late"
        do = "to merge them by time, or more lateness, range:DURATION:COLUMN:LATENESS"
    else:
        depends, changes = "these windows depend on", "give other results"
        do = "to merge them by time"
    warn(
        f"{depends} the order in which rows arrive, and without --order the files take turns, --batch rows each: another "
        f"--batch may {changes}; give --order COLUMN {do}"
    )


class _LateRows:
    """Where late rows go, and how many there were."""

    def __init__(self, files: Mapping[str, Output]) -> None:
        self._files, self._late, self._timeless = files, 0, 0

    def put(self, stream: str, rows: Any, timeless: bool = False) -> None:
        """Count these rows; write them if they have been asked for."""
        self._late += rows.num_rows
        self._timeless += rows.num_rows if timeless else 0
        if stream in self._files:
            self._files[stream].write(rows)

    def __str__(self) -> str:
        without = f" ({self._timeless:,} without a time)" if self._timeless else ""
        return f", {self._late:,} late{without}" if self._late else ""


def _readers(
    inputs: Mapping[str, Input], order: str | None, times: Mapping[str, str], late: _LateRows
) -> dict[str, Iterator[Any]]:
    """The rows of each stream that can be joined."""
    readers = {}
    for stream, source in inputs.items():
        rows, time_column = source.batches, times.get(stream)
        if order not in (None, time_column):
            rows = in_order(stream, rows, order)
        if time_column is not None:
            rows = with_times(rows, time_column, partial(late.put, stream, timeless=True))
        readers[stream] = rows
    return readers


def _join_all(
    join: "StreamJoin",
    readers: Mapping[str, Iterator[Any]],
    schemas: Mapping[str, Any],
    order: str | None,
    results: Output,
    late: _LateRows,
) -> None:
    start = time.perf_counter()
    with _progress(results) as show:
        for push in filter(None, pushes(readers, schemas, order)):
            result = join.push(push, **({"order": order} if order and len(push) > 1 else {}))
            for stream, rows in result.late.items():
                late.put(stream, rows)
            results.write(result.to_arrow())
            show(join, results.rows, time.perf_counter() - start)
        results.write(join.finish().to_arrow())
    say(_so_far(join, results.rows, time.perf_counter() - start, str(late)))


def _so_far(join: "StreamJoin", results: int, spent: float, tail: str = "") -> str:
    rows = sum(stream["arrived"] for stream in join.stats()["streams"].values())
    rate = rows / spent if spent else 0.0
    return f"{counted(rows, 'row')} joined, {counted(results, 'result')}{tail}, {spent:.2f} s, {rate:,.0f} rows/s"


@contextmanager
def _progress(results: Output) -> Iterator[Any]:
    """A line that says how far it is, on a terminal that results are not printed to."""
    if not errors.is_terminal or (results.to_stdout and sys.stdout.isatty()):
        yield lambda *_: None
        return
    from rich.text import Text

    with errors.status("reading ...") as status:
        shown = -1.0

        def show(join: "StreamJoin", rows: int, spent: float) -> None:
            nonlocal shown
            if spent - shown >= 0.1:  # seconds: small pushes are many
                status.update(Text(_so_far(join, rows, spent)))
                shown = spent

        yield show
