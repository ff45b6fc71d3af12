"""All designs and figures, collected from the folders by import."""

from typing import Any

from watersmeet.errors import OptionError
from watersmeet.fabric.fabric import Fabric
from watersmeet.hardware import fqp, joins, multiway, ssp
from watersmeet.hardware.on_fabric import QueryRun, run_queries
from watersmeet.hardware.registry import Design, Figure, Run

FOLDERS = (joins, fqp, multiway, ssp)


def designs() -> dict[str, Design]:
    """By name, in the order of the folders."""
    return {one.name: one for folder in FOLDERS for one in folder.DESIGNS}


def figures() -> tuple[Figure, ...]:
    """All figures, in the order of the folders."""
    return tuple(figure for folder in FOLDERS for figure in folder.FIGURES)


def design(name: str) -> Design:
    """The design of that name."""
    known = designs()
    if name not in known:
        raise OptionError(f"a design must be one of {', '.join(known)}; got {name!r}")
    return known[name]


def run(what: str | Fabric, *args: Any, **options: Any) -> Run | QueryRun:
    """Rows through a design or a fabric, cycle by cycle, compared with the engine.

    - ``run("split_join", {"cores": 4}, streams, simulator="auto")``: a design by its name, with its parameters; see ``Design.run``.
    - ``run(wm.Fabric.op_chain(4), {"q": "SELECT ..."}, {"trades": table}, windows=...)``: queries on a fabric; see ``run_queries``.
    """
    if isinstance(what, Fabric):
        return run_queries(what, *args, **options)
    return design(what).run(*args, **options)
