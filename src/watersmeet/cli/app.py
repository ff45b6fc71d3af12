"""The commands, and what becomes of errors."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli import options
from watersmeet.cli.bench import bench
from watersmeet.cli.formats import end_of
from watersmeet.cli.hardware import hardware
from watersmeet.cli.inputs import open_input
from watersmeet.cli.places import may_write
from watersmeet.cli.run import run
from watersmeet.cli.terminal import fail, warn
from watersmeet.cli.texts import schema_of
from watersmeet.errors import OptionError, WatersmeetError
from watersmeet.extras import need

app = typer.Typer(
    help="Join live data streams on any condition within sliding windows.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.add_typer(bench, name="bench")
app.add_typer(hardware, name="hardware")


def main() -> None:
    """Entry point: runs the command; prints a WatersmeetError as one message and exits with 2."""
    try:
        app()
    except WatersmeetError as error:
        fail(str(error))
        sys.exit(2)


@app.callback(invoke_without_command=True)
def options_of_all(
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
        float | None,
        typer.Option(
            min=0.5, help="About how long to stream; 30 on Spark, 10 with --engine, 15 with --queries."
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Where to draw what was found.", show_default="demo.png")
    ] = None,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores to use; 2 on Spark, 1 with --engine and --queries.")
    ] = None,
    engine: Annotated[
        bool, typer.Option("--engine", help="Without Spark: two joins in this process.")
    ] = False,
    queries: Annotated[
        bool,
        typer.Option(
            "--queries",
            help="Without Spark: queries over live streams that come and go, in the terminal alone.",
        ),
    ] = False,
) -> None:
    """Join live generated streams on local Spark, check every result, and draw them."""
    if queries:
        _demo_queries(seconds, picture, cores, engine)
        return
    if not engine:
        need("the demo", "pyspark", "spark", "; or do: watersmeet demo --engine")
    drawn = _picture(picture)
    if engine:
        from watersmeet.demo import run_demo

        agrees = run_demo(seconds or 10.0, drawn, cores or 1)
    else:
        from watersmeet.spark.demo.run import run_spark_demo

        agrees = run_spark_demo(seconds or 30.0, drawn, cores or 2)
    if not agrees:
        raise typer.Exit(1)


def _demo_queries(seconds: float | None, picture: Path | None, cores: int | None, engine: bool) -> None:
    if engine:
        raise OptionError("a demo must be one of --engine and --queries; got both; give one of them")
    if picture is not None:
        raise OptionError(
            f"--picture must be with the demo of joins; got --picture {picture} with --queries, which draws none; leave one of them out"
        )
    from watersmeet.demo_queries import run_queries_demo

    if not run_queries_demo(seconds or 15.0, cores or 1):
        raise typer.Exit(1)


def _picture(asked: Path | None) -> Path | None:
    """Where to draw; a picture that nobody asked for is left out where it cannot be drawn."""
    try:
        need("the picture", "matplotlib", "plot")
    except OptionError as error:
        if asked is not None:
            raise
        warn(f"no picture will be drawn: {error}")
        return None
    return may_write(asked or Path("demo.png"))


@app.command()
def explain(
    condition: options.Condition,
    r: Annotated[
        str,
        typer.Option(
            help=options.literal(
                "Columns of r, as NAME:TYPE,... with Arrow types: x:int64,ts:timestamp[us]; or a file that has them."
            )
        ),
    ],
    s: Annotated[str, typer.Option(help="Columns of s, likewise.")],
    window_r: options.Window = "rows:1000000",
    window_s: options.Window = "rows:1000000",
    how: options.How = "inner",
    select: options.Select = "*",
    index: options.Index = "auto",
    cores: options.Cores = 1,
) -> None:
    """Show how a condition is joined: normal form, driving index, what is left to check."""
    schemas = {
        stream: open_input(text, 1).schema if end_of(text) or Path(text).is_dir() else schema_of(text)
        for stream, text in (("r", r), ("s", s))
    }
    windows = options.windows(window_r, window_s)
    print(options.stream_join(condition, windows, how, select, index, cores, schemas).explain())


app.command()(run)


@app.command()
def tell(
    socket: Annotated[str, typer.Argument(help="The --socket of a job that runs.")],
    statements: Annotated[
        str,
        typer.Argument(
            help="CREATE QUERY name AS SELECT ...; ALTER QUERY ...; DROP QUERY name; or SHOW QUERIES."
        ),
    ],
) -> None:
    """Tell a running job to add, change or drop queries, between two pushes."""
    from watersmeet.cli.telling import tell as send

    print(send(socket, statements))


@app.command()
def state(
    location: Annotated[
        str,
        typer.Argument(
            help="The state= of a join on Spark, the session's checkpoint location, or a query's."
        ),
    ],
) -> None:
    """What a Spark join has stored: cores, runs, rows, bytes, watermarks. Every checksum is verified."""
    need("a join's state on Spark", "pyspark", "spark")
    from watersmeet.spark.state.command import lines, report

    cores = report(location)
    print("\n".join(lines(cores)))
    if any(core.problems for core in cores):
        raise typer.Exit(1)
