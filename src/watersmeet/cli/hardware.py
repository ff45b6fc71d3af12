"""``watersmeet hardware``: the papers' designs listed, run, measured beside the papers' figures, synthesised, as Verilog."""

import json as plain
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from watersmeet.cli.places import folder, may_write
from watersmeet.errors import OptionError
from watersmeet.extras import need
from watersmeet.looks import wide_console

hardware = typer.Typer(
    help="The papers' stream processors as hardware: simulated cycle by cycle, compared with the engine, synthesised.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
Name = Annotated[str, typer.Argument(help="A design; `hardware list` has them.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", "-p", help="A parameter of the design, as NAME=NUMBER; may be repeated."),
]
Cores = Annotated[int | None, typer.Option(help="The same as --set cores=N.")]
Window = Annotated[int | None, typer.Option(help="The same as --set window=N.")]


def _ready() -> Any:
    need("the hardware", "amaranth", "hardware")
    warnings.filterwarnings("ignore", message=".*created but never used")  # asked for its ports only
    from watersmeet.hardware import catalog

    return catalog


def _parameters(given: list[str] | None, **short: int | None) -> dict[str, int]:
    found = {name: value for name, value in short.items() if value is not None}
    for text in given or []:
        name, mark, value = text.partition("=")
        if not mark or not value.lstrip("-").isdigit():
            raise OptionError(f"--set must be NAME=NUMBER; got {text!r}")
        found[name] = int(value)
    return found


@hardware.command("list")
def list_() -> None:
    """The designs, their sources and parameters."""
    table = Table("design", "what", "source", "parameters (default)", "figures")
    catalog = _ready()
    for design in catalog.designs().values():
        shown = ", ".join(f"{name} {one.default}" for name, one in design.parameters.items())
        count = sum(figure.design == design.name for figure in catalog.figures())
        table.add_row(design.name, design.title, design.source, shown, str(count))
    wide_console().print(table)


@hardware.command()
def run(
    design: Name,
    given: Parameters = None,
    cores: Cores = None,
    window: Window = None,
    simulator: Annotated[str, typer.Option(help="auto, compiled or python (Amaranth's own).")] = "auto",
    show: Annotated[
        bool, typer.Option("--show", help="Print the cycles around the first result: what moves, and where.")
    ] = False,
    picture: Annotated[Path | None, typer.Option(help="Draw the design's blocks and links here.")] = None,
    strip: Annotated[Path | None, typer.Option(help="Draw the cycles around the first result here.")] = None,
) -> None:
    """Rows through a design, compared with the engine."""
    known = _ready().design(design)
    parameters = known.checked(_parameters(given, cores=cores, window=window))
    for path in (picture, strip):
        if path is not None:
            need("plots", "matplotlib", "plot")
            may_write(path)
    from watersmeet.hardware.simulate import observed

    console = wide_console()
    if show or strip is not None:
        with observed() as seen:
            done = known.run(parameters, simulator=simulator)
        if not seen:
            raise OptionError(f"{design} must have been simulated to be shown; got none; leave --show out")
        _show(console, seen[-1], show, strip)
    else:
        done = known.run(parameters, simulator=simulator)
    if picture is not None:
        from watersmeet.hardware.tools.draw import draw
        from watersmeet.hardware.tools.structure import structure

        draw(structure(known.build(**parameters)), picture)
    table = Table(known.title, "", show_header=True)
    for name, value in parameters.items():
        table.add_row(name, str(value))
    table.add_row("rows", f"{done.rows:,}")
    table.add_row("results", f"{len(done.results):,}")
    table.add_row("cycles", f"{done.cycles:,}")
    table.add_row("cycles a row", f"{done.cycles_a_row:.2f}")
    for name, value in done.notes.items():
        table.add_row(name, str(value))
    table.add_row("simulator", done.simulator)
    says = "the same" if done.agrees else "[red]something else[/red]"
    if done.loses:
        says = f"the same and more, by design: {done.loses}"
    table.add_row("the engine says", says)
    console.print(table)
    if not done.agrees and not done.loses:
        raise typer.Exit(1)


def _show(console: Any, seen: tuple[Any, Any], show: bool, strip: Path | None) -> None:
    from watersmeet.hardware.tools.strip import meeting, picture, table

    component, trace = seen
    cycles = meeting(trace)
    if show:
        console.print(table(component, trace, cycles))
    if strip is not None:
        picture(component, trace, cycles, strip)


@hardware.command()
def figures(
    design: Annotated[str | None, typer.Argument(help="Only those of this design.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write every figure here.")] = None,
    plots: Annotated[Path | None, typer.Option(help="Draw the figures into this folder.")] = None,
    slow: Annotated[bool, typer.Option("--slow", help="Also those that take minutes.")] = False,
) -> None:
    """What the papers say and what we measure, beside each other."""
    catalog = _ready()
    if design is not None:
        catalog.design(design)
    if json is not None:
        may_write(json)
    if plots is not None:
        need("plots", "matplotlib", "plot")
        folder(plots)
    table = Table("design", "figure", "paper", "ours", "unit", "where", "tool", "")
    measured = []
    for figure in catalog.figures():
        if (design is not None and figure.design != design) or (figure.slow and not slow):
            continue
        value = figure.measure()
        measured.append((figure, value))
        table.add_row(
            figure.design,
            figure.name,
            "" if figure.paper is None else f"{figure.paper:g}",
            f"{value:.4g}",
            figure.unit,
            figure.section,
            figure.tool,
            _verdict(figure, value),
        )
    wide_console().print(table)
    if json is not None:
        json.write_text(plain.dumps([_plain(*one) for one in measured], indent=1) + "\n")
    if plots is not None:
        _plot(measured, plots)


def _verdict(figure: Any, value: float) -> str:
    if figure.met(value):
        return figure.note or figure.goal if figure.paper is None else figure.goal
    return figure.note or "open"


def _plain(figure: Any, value: float) -> dict[str, Any]:
    return {
        "design": figure.design,
        "figure": figure.name,
        "parameters": dict(figure.parameters),
        "paper": figure.paper,
        "measured": value,
        "unit": figure.unit,
        "section": figure.section,
        "tool": figure.tool,
        "goal": figure.goal,
        "met": figure.met(value),
        "note": figure.note,
    }


def _plot(measured: list[tuple[Any, float]], to: Path) -> None:
    """A picture a design: the paper's numbers and ours, as bars beside each other."""
    from watersmeet.looks import pyplot

    plt = pyplot()
    for name in dict.fromkeys(figure.design for figure, _ in measured):
        own = [(figure, value) for figure, value in measured if figure.design == name]
        drawn, axes = plt.subplots(figsize=(9, 0.8 + 0.42 * len(own)))
        for k, (figure, value) in enumerate(own):
            axes.barh(k + 0.18, value, 0.34, color="#1b7fbd", label="ours" if not k else None)
            if figure.paper is not None:
                axes.barh(k - 0.18, figure.paper, 0.34, color="#c9c4b8", label="the paper" if not k else None)
        axes.set_yticks(range(len(own)), [f"{figure.name} ({figure.unit})" for figure, _ in own], fontsize=7)
        axes.invert_yaxis()
        axes.set(xscale="log", title=name)
        axes.legend(fontsize=8)
        drawn.savefig(to / f"hardware-{name}.png", dpi=120, bbox_inches="tight")
        plt.close(drawn)


@hardware.command()
def synth(
    design: Name,
    given: Parameters = None,
    cores: Cores = None,
    window: Window = None,
    target: Annotated[str, typer.Option(help="ecp5 or xilinx (series 7).")] = "ecp5",
    seeds: Annotated[
        int, typer.Option(min=0, help="How often nextpnr places it (ECP5 only); 0: resources alone.")
    ] = 0,
) -> None:
    """Resources by Yosys, and for ECP5 the clock after place and route by nextpnr."""
    known = _ready().design(design)
    parameters = known.checked(_parameters(given, cores=cores, window=window))
    from watersmeet.hardware.tools.synth import synth as measure

    found = measure(known.build(**parameters), target, seeds=range(1, seeds + 1))
    table = Table(f"{known.title}, {found.target}", "")
    for name, value in parameters.items():
        table.add_row(name, str(value))
    for name, count in found.resources.items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    for seed, clock in found.clock.items():
        table.add_row(f"clock, seed {seed}", f"{clock:.1f} MHz on {found.device}")
    table.add_row("tool", found.tool)
    wide_console().print(table)


@hardware.command()
def verilog(
    design: Name,
    given: Parameters = None,
    cores: Cores = None,
    window: Window = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write it; standard output.")
    ] = None,
) -> None:
    """A design as Verilog."""
    known = _ready().design(design)
    parameters = known.checked(_parameters(given, cores=cores, window=window))
    if output is not None:
        may_write(output)
    from watersmeet.hardware.tools.verilog import verilog as text_of

    text = text_of(known.build(**parameters))
    if output is None:
        print(text)
    else:
        output.write_text(text)
