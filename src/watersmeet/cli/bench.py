"""``watersmeet bench``: the commands that measure. What a run will need at its end is asked for before it starts."""

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.places import folder, may_write
from watersmeet.cli.terminal import say, warn
from watersmeet.extras import install_command, need

bench = typer.Typer(
    help="Measure, beside the peers and the limit, in one run.", no_args_is_help=True, rich_markup_mode="rich"
)
CORES = os.cpu_count() or 1
Json = Annotated[Path | None, typer.Option(help="Write every figure here.")]
Plots = Annotated[Path | None, typer.Option(help="Draw the figures into this folder.")]


def _prepare(json: Path | None, plots: Path | None) -> None:
    if json is not None:
        may_write(json)
    if plots is not None:
        need("plots", "matplotlib", "plot")
        folder(plots)


def _warn_of_missing_peers() -> None:
    missing = [name for name in ("duckdb", "polars", "pathway") if find_spec(name) is None]
    if missing:
        warn(f"without {', '.join(missing)} there is less to compare with; do: {install_command('bench')}")


def _add(name: str, about: str, quick_help: str, cores_help: str, peers: bool) -> None:
    """A command that runs ``watersmeet.bench.<name>``, whose function is ``bench_<name>``."""

    def command(
        quick: Annotated[bool, typer.Option("--quick", help=quick_help)] = False,
        json: Json = None,
        plots: Plots = None,
        cores: Annotated[int, typer.Option(min=1, help=cores_help)] = CORES,
    ) -> None:
        _prepare(json, plots)
        if peers:
            _warn_of_missing_peers()
        measure = getattr(import_module(f"watersmeet.bench.{name}"), f"bench_{name}")
        if not measure(quick=quick, cores=cores, json=json, plots=plots):
            raise typer.Exit(1)

    bench.command(name, help=about)(command)


BOTH = "Threads of ours and of the peers."
_add(
    "engine",
    "Every index, window and batch, beside DuckDB, Polars, Pathway, the scan and the packed sort.",
    "Under three minutes instead of about twenty.",
    BOTH,
    peers=True,
)
_add(
    "users",
    "The joins that users bring: text keys with a band, small pushes, time windows, results as Arrow; beside DuckDB, Polars and Pathway.",
    "About two minutes instead of about ten.",
    BOTH,
    peers=True,
)
_add(
    "flows",
    "Every flow, the papers' figures, and simulated cores beside the real ones and the model.",
    "Under two minutes instead of about twelve.",
    "Most cores of a flow.",
    peers=False,
)
_add(
    "multiway",
    "Joins of 2 to 10 streams: the thesis's workloads, beside chains of two-way joins, DuckDB, Polars and Pathway.",
    "A minute or two instead of about ten.",
    BOTH,
    peers=True,
)
_add(
    "queries",
    "Continuous queries: 1 to 1,000 at once, rules, aggregates over joins and in windows, statements under load; beside as many "
    "processors, DuckDB, Polars and Pathway.",
    "Under two minutes instead of about ten.",
    BOTH,
    peers=True,
)


@bench.command("spark")
def bench_spark(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A tenth of the rows: about seven minutes instead of half an hour."),
    ] = False,
    json: Json = None,
    plots: Annotated[Path | None, typer.Option(help="Draw the rates over time into this folder.")] = None,
    cores: Annotated[int, typer.Option(min=1, help="Cores of local Spark.")] = CORES,
) -> None:
    """Joins on Spark: ours, Spark's own, and the usual workaround for a band, in one run."""
    need("the benchmark", "pyspark", "spark")
    _prepare(json, plots)
    from watersmeet.spark.bench.run import bench_spark as measure

    if not measure(quick=quick, cores=cores, json=json, plots=plots):
        raise typer.Exit(1)


@bench.command("tpch")
def bench_tpch(
    sf: Annotated[float, typer.Option(min=0.001, help="TPC-H's scale factor.")] = 1.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="One timed run of each instead of the best of three.")
    ] = False,
    json: Json = None,
    data: Annotated[
        Path | None, typer.Option(help="Keep the tables in this folder instead of the user's cache.")
    ] = None,
    cores: Annotated[int, typer.Option(min=1, help="Threads of ours and of DuckDB.")] = CORES,
) -> None:
    """TPC-H's Q1 and Q3 as stream queries, in four orders of arrival, beside DuckDB's one-shot query."""
    need("the benchmark", "duckdb", "bench")
    _prepare(json, None)
    from watersmeet.bench.tpch import bench_tpch as measure

    if not measure(sf=sf, quick=quick, cores=cores, data=data, json=json):
        raise typer.Exit(1)


@bench.command("page")
def bench_page(
    quick: Annotated[
        bool, typer.Option("--quick", help="Half a minute instead of about three minutes.")
    ] = False,
    json: Json = None,
) -> None:
    """What it costs a processor to be watched by the page: less than 2% of its throughput."""
    _prepare(json, None)
    from watersmeet.page.bench import bench_page as measure

    if not measure(quick=quick, json_to=json):
        raise typer.Exit(1)


@bench.command("convergence")
def bench_convergence(
    plot: Annotated[Path | None, typer.Option(help="Draw the errors by adjustment into this file.")] = None,
) -> None:
    """How many adjustments the RaP-Table's splitters need to find the data (PanJoin's figure 10f)."""
    from rich.console import Console
    from rich.table import Table

    from watersmeet.bench import convergence

    if plot is not None:
        need("a plot", "matplotlib", "plot")
        may_write(plot)
    measured = convergence.curves()
    table = Table("keys", "partitions", "error before", "error after", "exact quantiles", "adjustments")
    for curve in measured:
        shown = (f"{error:.3f}" for error in (curve.errors[0], curve.errors[-1], curve.floor))
        table.add_row(curve.name, f"{curve.partitions:,}", *shown, str(curve.adjustments))
    Console().print(table)
    if plot is not None:
        convergence.plot(measured, plot)
        say(f"plot: {plot}")
