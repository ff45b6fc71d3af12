"""``watersmeet bench``: the commands that measure. What a run will need at its end is asked for before it starts."""

import os
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


@bench.command("engine")
def bench_engine(
    quick: Annotated[
        bool, typer.Option("--quick", help="Under three minutes instead of about twenty.")
    ] = False,
    json: Json = None,
    plots: Plots = None,
    cores: Annotated[int, typer.Option(min=1, help="Threads of ours and of the peers.")] = CORES,
) -> None:
    """Every index, window and batch, beside DuckDB, Polars, Pathway, the scan and the packed sort."""
    _prepare(json, plots)
    _warn_of_missing_peers()
    from watersmeet.bench.engine import bench_engine as measure

    if not measure(quick=quick, cores=cores, json=json, plots=plots):
        raise typer.Exit(1)


@bench.command("flows")
def bench_flows(
    quick: Annotated[
        bool, typer.Option("--quick", help="Under two minutes instead of about twelve.")
    ] = False,
    json: Json = None,
    plots: Plots = None,
    cores: Annotated[int, typer.Option(min=1, help="Most cores of a flow.")] = CORES,
) -> None:
    """Every flow, the papers' figures, and simulated cores beside the real ones and the model."""
    _prepare(json, plots)
    from watersmeet.bench.flows import bench_flows as measure

    if not measure(quick=quick, cores=cores, json=json, plots=plots):
        raise typer.Exit(1)


@bench.command("multiway")
def bench_multiway(
    quick: Annotated[bool, typer.Option("--quick", help="A minute or two instead of about ten.")] = False,
    json: Json = None,
    plots: Plots = None,
    cores: Annotated[int, typer.Option(min=1, help="Threads of ours and of the peers.")] = CORES,
) -> None:
    """Joins of 2 to 10 streams: the thesis's workloads, beside chains of two-way joins, DuckDB, Polars and Pathway."""
    _prepare(json, plots)
    _warn_of_missing_peers()
    from watersmeet.bench.multiway import bench_multiway as measure

    if not measure(quick=quick, cores=cores, json=json, plots=plots):
        raise typer.Exit(1)


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
