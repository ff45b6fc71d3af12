"""All designs and figures, collected from the folders by import."""

from collections.abc import Mapping
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.hardware import fqp, joins, multiway, ssp
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


def run(
    name: str,
    parameters: Mapping[str, int] | None = None,
    streams: Any = None,
    simulator: str = "auto",
    **options: Any,
) -> Run:
    """Rows through a design, compared with the engine."""
    return design(name).run(parameters, streams, simulator, **options)
