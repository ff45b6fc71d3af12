"""``watersmeet run``: two files as streams, joined batch by batch."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watersmeet.cli import options
from watersmeet.cli.formats import LISTED
from watersmeet.cli.inputs import STDIN, Input, open_input
from watersmeet.cli.merge import check_order, pushes
from watersmeet.cli.outputs import STDOUT, Output, beside
from watersmeet.cli.terminal import errors, say, warn
from watersmeet.cli.texts import schema_of
from watersmeet.errors import OptionError
from watersmeet.show import counted

if TYPE_CHECKING:
    from watersmeet.join import StreamJoin

FILES, ROWS, SPEED = "Files", "Rows", "Speed"
TypesOption = typer.Option(
    help=options.literal(
        "Types of columns of a csv or ndjson input, as NAME:TYPE,..., where the first rows mislead."
    ),
    rich_help_panel=FILES,
)


def run(
    condition: options.Condition,
    r: Annotated[
        str,
        typer.Option(
            help=f"File or folder of stream r: {LISTED}; - is standard input.", rich_help_panel=FILES
        ),
    ],
    s: Annotated[str, typer.Option(help="File of stream s, likewise.", rich_help_panel=FILES)],
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
            help=f"File for the results: {LISTED}; - is standard output.",
            rich_help_panel=FILES,
        ),
    ] = STDOUT,
    late: Annotated[
        str | None,
        typer.Option(
            help="File for late rows; each stream with a range window gets its own: late.csv becomes late.r.csv and late.s.csv.",
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
    batch: Annotated[
        int, typer.Option(min=1, help="Most rows of a stream in one push.", rich_help_panel=SPEED)
    ] = 32_768,
    index: options.Index = "auto",
    cores: options.Cores = 1,
) -> None:
    """Join two files as streams, batch by batch.

    A batch of r arrives, then one of s, and so on; or, with --order, the rows of both merged by a time column.
    """
    windows = options.windows(window_r, window_s)
    results = Output(output, output_format, (r, s))
    late_to = _late_outputs(late, output_format, windows, (r, s, output))
    inputs = _open_inputs({"r": (r, types_r), "s": (s, types_s)}, batch, format)
    schemas = {stream: source.schema for stream, source in inputs.items()}
    if order is not None:
        check_order(schemas, order)
    join = options.stream_join(condition, windows, how, select, index, cores, schemas)
    if order is None:
        _warn_of_arrival_order(windows)
    with ExitStack() as files:
        for out in (results, *late_to.values()):
            files.enter_context(out)
        results.open(join.push().schema)
        for stream, out in late_to.items():
            out.open(schemas[stream])
        _join_all(join, inputs, order, results, late_to)
    for stream, out in late_to.items():
        say(f"{counted(out.rows, 'late row')} of {stream}: {beside(late or '', stream)}")


def _open_inputs(
    paths: Mapping[str, tuple[str, str | None]], batch: int, format: str | None
) -> dict[str, Input]:
    if all(path == STDIN for path, _ in paths.values()):
        raise OptionError("standard input can be one stream; got - for both; give a file for one of them")
    return {
        stream: open_input(path, batch, format, schema_of(types) if types else None)
        for stream, (path, types) in paths.items()
    }


def _late_outputs(
    late: str | None, output_format: str | None, windows: Mapping[str, Any], others: tuple[str, ...]
) -> dict[str, Output]:
    from watersmeet.window import Range

    if late is None:
        return {}
    timed = [stream for stream, window in windows.items() if isinstance(window, Range)]
    if not timed:
        raise OptionError(
            "--late must go with a range: window, as only its rows can be late; got none; give --window-r or --window-s"
        )
    if late == STDOUT:
        raise OptionError(
            "--late must be a file; got -, which is standard output; give a name such as late.csv"
        )
    return {stream: Output(beside(late, stream), output_format, others) for stream in timed}


def _warn_of_arrival_order(windows: Mapping[str, Any]) -> None:
    """Without --order files arrive in turns of --batch rows.

    Two unbounded windows give the same result anyway, and so do two range windows, but for rows that come too late.
    """
    from watersmeet.window import Rows

    kinds = {type(window) for window in windows.values()}
    if len(kinds) > 1 or Rows in kinds:
        warn(
            "these windows depend on the order in which rows arrive, and without --order the files take turns, --batch rows "
            "each: another --batch may give other results; give --order COLUMN to merge them by time"
        )


def _join_all(
    join: "StreamJoin",
    inputs: Mapping[str, Input],
    order: str | None,
    results: Output,
    late_to: Mapping[str, Output],
) -> None:
    start, late = time.perf_counter(), 0
    readers = {stream: source.batches for stream, source in inputs.items()}
    with _progress(results) as show:
        for push in filter(None, pushes(readers, order)):
            result = join.push(push, **({"order": order} if order and len(push) > 1 else {}))
            for stream, rows in result.late.items():
                late += rows.num_rows
                if stream in late_to:
                    late_to[stream].write(rows)
            results.write(result.to_arrow())
            show(join, results.rows, time.perf_counter() - start)
        results.write(join.finish().to_arrow())
    tail = f", {late:,} late" if late else ""
    say(_so_far(join, results.rows, time.perf_counter() - start, tail))


def _so_far(join: "StreamJoin", results: int, spent: float, tail: str = "") -> str:
    rows = sum(stream["arrived"] for stream in join.stats()["streams"].values())
    rate = rows / spent if spent else 0.0
    return f"{rows:,} rows joined, {results:,} results{tail}, {spent:.2f} s, {rate:,.0f} rows/s"


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
