"""The command ``watersmeet``: demo, run, explain, bench.

What stays true: anything wrong with what the user gave ends in one message in red and exit code 2, without
a traceback; results go to standard output or the file asked for, everything else to standard error; heavy
packages are imported by the command that needs them, so ``watersmeet --version`` is quick.
"""

import os
import re
import sys
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from watersmeet.errors import OptionError, WatersmeetError

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer(
    help="Join live data streams on any condition within sliding windows.", no_args_is_help=True
)
bench = typer.Typer(help="Measure, beside the peers and the limit, in one run.", no_args_is_help=True)
app.add_typer(bench, name="bench")

errors = Console(stderr=True)
WINDOW_HELP = "rows:N, range:DURATION:TIME_COLUMN[:LATENESS] or unbounded"
WindowOption = Annotated[str, typer.Option(help=WINDOW_HELP)]
CoresOption = Annotated[int, typer.Option(min=1, help="Threads that probe and merge.")]
IndexOption = Annotated[str, typer.Option(help="auto, scan, hash, rap_table, wib_tree, bi_sort or grid")]
HowOption = Annotated[
    str, typer.Option(help="inner, left, right, full, semi, anti, right_semi or right_anti")
]
Condition = Annotated[str, typer.Argument(help="SQL over the aliases r and s, such as 'r.x = s.a'.")]


def main() -> None:
    """Entry point: runs the command; prints a WatersmeetError as one message and exits with 2."""
    try:
        app()
    except WatersmeetError as error:
        errors.print("error:", style="bold red", end=" ")
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Join live data streams on any condition within sliding windows."""
    if version:
        from importlib.metadata import version as installed

        print(f"watersmeet {installed('watersmeet')}")
        raise typer.Exit


@app.command()
def demo(
    seconds: Annotated[
        float | None, typer.Option(min=0.5, help="About how long to stream; 30 on Spark, 10 with --engine.")
    ] = None,
    picture: Annotated[Path, typer.Option(help="Where to draw what was found.")] = Path("demo.png"),
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores to use; 2 on Spark, 1 with --engine.")
    ] = None,
    engine: Annotated[
        bool, typer.Option("--engine", help="Without Spark: two joins in this process.")
    ] = False,
) -> None:
    """Join live generated streams on local Spark, check every result, and draw them."""
    if engine:
        from watersmeet.demo import run_demo

        agrees = run_demo(seconds or 10.0, picture, cores or 1)
    else:
        _need_spark("the demo", "; or do: watersmeet demo --engine")
        from watersmeet.spark.demo import run_spark_demo

        agrees = run_spark_demo(seconds or 30.0, picture, cores or 2)
    if not agrees:
        raise typer.Exit(1)


@app.command()
def explain(
    condition: Condition,
    r: Annotated[
        str, typer.Option(help="Columns of r, as NAME:TYPE,... with Arrow types: x:int64,ts:timestamp[us]")
    ],
    s: Annotated[str, typer.Option(help="Columns of s, likewise.")],
    window_r: WindowOption = "rows:1000000",
    window_s: WindowOption = "rows:1000000",
    how: HowOption = "inner",
    select: Annotated[str, typer.Option(help="SQL select list over the aliases.")] = "*",
    index: IndexOption = "auto",
    cores: CoresOption = 1,
) -> None:
    """Show how a condition is joined: normal form, driving index, what is left to check."""
    schemas = {"r": schema_of(r), "s": schema_of(s)}
    print(_join(condition, window_r, window_s, how, select, index, cores, schemas).explain())


@app.command()
def run(
    condition: Condition,
    r: Annotated[
        str, typer.Option(help="File of stream r: Parquet, CSV or Arrow; - is an Arrow stream on stdin.")
    ],
    s: Annotated[str, typer.Option(help="File of stream s, likewise.")],
    window_r: WindowOption = "unbounded",
    window_s: WindowOption = "unbounded",
    how: HowOption = "inner",
    select: Annotated[str, typer.Option(help="SQL select list over the aliases.")] = "*",
    order: Annotated[
        str | None, typer.Option(help="Time column, in both files, to merge the arrivals by.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Most rows of a stream in one push.")] = 32_768,
    index: IndexOption = "auto",
    cores: CoresOption = 1,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help=".parquet, .csv or .arrow; else CSV to stdout")
    ] = None,
) -> None:
    """Join two files as streams, batch by batch; rows arrive r before s, or merged by a time column."""
    inputs = {stream: open_input(path, batch) for stream, path in (("r", r), ("s", s))}
    schemas = {stream: schema for stream, (schema, _) in inputs.items()}
    join = _join(condition, window_r, window_s, how, select, index, cores, schemas)
    readers = {stream: batches for stream, (_, batches) in inputs.items()}
    late = 0
    start = time.perf_counter()
    with Output(output) as out:
        for push in filter(None, pushes(readers, order)):
            result = join.push(**push, **({"order": order} if order and len(push) > 1 else {}))
            late += sum(rows.num_rows for rows in result.late.values())
            out.write(result.to_arrow())
        out.write(join.finish().to_arrow())
    spent = time.perf_counter() - start
    rows = sum(stream["arrived"] for stream in join.stats()["streams"].values())
    rate = rows / spent if spent else 0.0
    tail = f", {late:,} late" if late else ""
    errors.print(
        f"{rows:,} rows joined, {out.rows:,} results{tail}, {spent:.2f} s, {rate:,.0f} rows/s",
        highlight=False,
    )


@app.command()
def state(
    location: Annotated[
        str, typer.Argument(help="The state= of a join on Spark, or the session's checkpoint location.")
    ],
) -> None:
    """What a Spark join has stored: cores, runs, rows, bytes, watermarks. Every checksum is verified."""
    _need_spark("a join's state on Spark")
    from watersmeet.spark.state_command import lines, report

    cores = report(location)
    print("\n".join(lines(cores)))
    if any(core.problems for core in cores):
        raise typer.Exit(1)


@bench.command("engine")
def bench_engine(
    quick: Annotated[
        bool, typer.Option("--quick", help="Under three minutes instead of about twenty.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write every figure here.")] = None,
    plots: Annotated[Path | None, typer.Option(help="Draw the figures into this folder.")] = None,
    cores: Annotated[int, typer.Option(min=1, help="Threads of ours and of the peers.")] = os.cpu_count()
    or 1,
) -> None:
    """Every index, window and batch, beside DuckDB, Polars, Pathway, the scan and the packed sort."""
    from watersmeet.bench.engine import bench_engine as measure

    if not measure(quick=quick, cores=cores, json=json, plots=plots):
        raise typer.Exit(1)


@bench.command("flows")
def bench_flows(
    quick: Annotated[
        bool, typer.Option("--quick", help="Under two minutes instead of about twelve.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write every figure here.")] = None,
    plots: Annotated[Path | None, typer.Option(help="Draw the figures into this folder.")] = None,
    cores: Annotated[int, typer.Option(min=1, help="Most cores of a flow.")] = os.cpu_count() or 1,
) -> None:
    """Every flow, the papers' figures, and simulated cores beside the real ones and the model."""
    from watersmeet.bench.flows import bench_flows as measure

    if not measure(quick=quick, cores=cores, json=json, plots=plots):
        raise typer.Exit(1)


@bench.command("spark")
def bench_spark(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A tenth of the rows: about seven minutes instead of half an hour."),
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write every figure here.")] = None,
    plots: Annotated[Path | None, typer.Option(help="Draw the rates over time into this folder.")] = None,
    cores: Annotated[int, typer.Option(min=1, help="Cores of local Spark.")] = os.cpu_count() or 1,
) -> None:
    """Joins on Spark: ours, Spark's own, and the usual workaround for a band, in one run."""
    _need_spark("the benchmark")
    from watersmeet.spark.bench.run import bench_spark as measure

    if not measure(quick=quick, cores=cores, json=json, plots=plots):
        raise typer.Exit(1)


@bench.command("convergence")
def bench_convergence(
    plot: Annotated[Path | None, typer.Option(help="Draw the errors by adjustment into this file.")] = None,
) -> None:
    """How many adjustments the RaP-Table's splitters need to find the data (PanJoin's figure 10f)."""
    from rich.table import Table

    from watersmeet.bench import convergence

    measured = convergence.curves()
    table = Table("keys", "partitions", "error before", "error after", "exact quantiles", "adjustments")
    for curve in measured:
        errors_shown = (f"{error:.3f}" for error in (curve.errors[0], curve.errors[-1], curve.floor))
        table.add_row(curve.name, f"{curve.partitions:,}", *errors_shown, str(curve.adjustments))
    Console().print(table)
    if plot is not None:
        convergence.plot(measured, plot)
        errors.print(f"plot: {plot}", highlight=False)


def _need_spark(what: str, otherwise: str = "") -> None:
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise OptionError(
            f"{what} must have pyspark; got none; do: pip install 'watersmeet[spark]'{otherwise}"
        )


def _join(
    condition: str,
    window_r: str,
    window_s: str,
    how: str,
    select: str,
    index: str,
    cores: int,
    schemas: Any,
) -> Any:
    from watersmeet.join import StreamJoin

    windows = {"r": window_of(window_r), "s": window_of(window_s)}
    settings: dict[str, Any] = {"how": how, "select": select, "index": index, "cores": cores}
    return StreamJoin(condition, windows=windows, schemas=schemas, **settings)


def window_of(text: str) -> Any:
    """``rows:1000``, ``range:15 min:ts:5 s`` or ``unbounded`` as a window."""
    from watersmeet.window import Range, Rows, Unbounded

    kind, *parts = (part.strip() for part in text.split(":"))
    if kind == "unbounded" and not parts:
        return Unbounded()
    if kind == "rows" and len(parts) == 1 and re.fullmatch(r"[\d_]+", parts[0]):
        return Rows(int(parts[0]))
    if kind == "range" and len(parts) in (2, 3):
        duration, column, lateness = (
            _duration(parts[0]),
            parts[1],
            _duration(parts[2] if len(parts) == 3 else "0"),
        )
        return Range(duration, time=column, lateness=lateness)
    raise OptionError(
        f"a window must be {WINDOW_HELP}; got {text!r}; for instance rows:1000 or 'range:15 min:ts:5 s'"
    )


def _duration(text: str) -> str | int | float:
    """A bare number is in units of a numeric time column; anything else is a duration with a unit."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def schema_of(text: str) -> "pa.Schema":
    """``x:int64,ts:timestamp[us],price:decimal(10,2)`` as an Arrow schema."""
    import pyarrow as pa

    fields = []
    for part in re.split(r",(?![^(\[]*[)\]])", text):
        name, colon, kind = (piece.strip() for piece in part.partition(":"))
        if not (name and colon and kind):
            raise OptionError(
                f"a column must be NAME:TYPE; got {part!r}; for instance x:int64 or ts:timestamp[us]"
            )
        fields.append(pa.field(name, _arrow_type(kind)))
    return pa.schema(fields)


def _arrow_type(kind: str) -> "pa.DataType":
    import pyarrow as pa

    decimal = re.fullmatch(r"decimal(?:128)?\((\d+),\s*(\d+)\)", kind)
    stamp = re.fullmatch(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?([\w/+:-]+)\]", kind)
    try:
        if decimal:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        return pa.timestamp(stamp[1], stamp[2]) if stamp else pa.type_for_alias(kind)
    except ValueError as error:
        known = "int64, float64, string, bool, date32, timestamp[us], timestamp[us, UTC], decimal(10,2)"
        raise OptionError(f"a type must be an Arrow type; got {kind!r}; for instance {known}") from error


def open_input(path: str, batch: int) -> "tuple[pa.Schema, Iterator[pa.RecordBatch]]":
    """Schema and batches, in file order, of at most ``batch`` rows, of a file or of stdin."""
    import pyarrow as pa
    from pyarrow import dataset

    formats = {".parquet": "parquet", ".csv": "csv", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
    suffix = Path(path).suffix.lower()
    try:
        if path == "-":
            reader = pa.ipc.open_stream(sys.stdin.buffer)
            return reader.schema, (part for large in reader for part in _cut(large, batch))
        if suffix not in formats:
            raise OptionError(f"an input file must end in {', '.join(formats)}; got {path!r}; convert it")
        source = dataset.dataset(path, format=formats[suffix])
        batches = source.scanner(batch_size=batch).to_batches()
        return source.schema, (part for large in batches for part in _cut(large, batch))
    except (OSError, pa.ArrowInvalid) as error:
        raise OptionError(f"an input must be a readable file; got {path!r}: {error}") from error


def _cut(large: "pa.RecordBatch", batch: int) -> "Iterator[pa.RecordBatch]":
    for start in range(0, large.num_rows, batch):
        yield large.slice(start, batch)


def pushes(
    readers: "dict[str, Iterator[pa.RecordBatch]]", order: str | None = None
) -> "Iterator[dict[str, pa.Table | pa.RecordBatch]]":
    """The streams side by side, a batch of each a push; with ``order``, merged by that time column."""
    if order is not None:
        yield from _merged(readers, order)
        return
    for batches in zip_longest(*readers.values()):
        yield {stream: rows for stream, rows in zip(readers, batches, strict=True) if rows is not None}


def _merged(readers: "dict[str, Iterator[pa.RecordBatch]]", order: str) -> "Iterator[dict[str, pa.Table]]":
    """Push what lies before the horizon, the least of the streams' newest times: no later row belongs there.

    So the arrivals are the same for every batch size, equal times included.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    held: dict[str, pa.Table] = {}
    newest: dict[str, Any] = {}
    unread, slowest = dict(readers), list(readers)
    while unread:
        for stream in slowest:
            rows = next(unread[stream], None)
            if rows is None:
                del unread[stream]
                newest.pop(stream, None)
                continue
            _check_times(stream, rows, order)
            parts = [held[stream]] if stream in held else []
            held[stream] = pa.concat_tables([*parts, pa.Table.from_batches([rows])])
            newest[stream] = pc.max(held[stream].column(order))
        horizon = pc.min_element_wise(*newest.values()) if newest else None
        slowest = [stream for stream in unread if pc.equal(newest[stream], horizon).as_py()]
        push = {stream: _before(held[stream], order, horizon) for stream in readers if stream in held}
        held = {stream: held[stream].slice(rows.num_rows) for stream, rows in push.items()}
        yield {stream: rows for stream, rows in push.items() if rows.num_rows}


def _check_times(stream: str, rows: "pa.RecordBatch", order: str) -> None:
    if order not in rows.schema.names:
        raise OptionError(
            f"--order must name a column of both files; got {order!r}, not in {stream}; choose another"
        )
    if rows.column(order).null_count:
        raise OptionError(f"--order must name a column without nulls; got {order!r} with nulls in {stream}")


def _before(rows: "pa.Table", order: str, horizon: Any) -> "pa.Table":
    import pyarrow.compute as pc

    if horizon is None:
        return rows
    end = pc.index(pc.greater_equal(rows.column(order), horizon), True).as_py()
    return rows if end < 0 else rows.slice(0, end)


class Output:
    """Results on their way to a Parquet, CSV or Arrow file, or as CSV to stdout."""

    def __init__(self, path: Path | None) -> None:
        self._path, self.rows = path, 0
        self._writer: Any = None
        if path is not None and path.suffix.lower() not in (".parquet", ".csv", ".arrow", ".feather"):
            raise OptionError(
                f"an output file must end in .parquet, .csv or .arrow; got {str(path)!r}; rename it"
            )

    def write(self, rows: "pa.Table | pa.RecordBatch") -> None:
        """Add these rows."""
        import pyarrow as pa

        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        self._writer = self._writer or self._open(table.schema)
        self._writer.write_table(table)
        self.rows += table.num_rows

    def _open(self, schema: "pa.Schema") -> Any:
        from pyarrow import csv, ipc, parquet

        if self._path is None:
            return csv.CSVWriter(sys.stdout.buffer, schema)
        kinds = {".parquet": parquet.ParquetWriter, ".csv": csv.CSVWriter}
        return kinds.get(self._path.suffix.lower(), ipc.new_file)(str(self._path), schema)

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()
