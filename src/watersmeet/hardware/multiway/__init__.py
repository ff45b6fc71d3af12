"""Joins of many streams: the thesis's chapter 6."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from watersmeet.hardware.multiway.circular import CircularMJ
from watersmeet.hardware.multiway.drive import check, drive, random_rows
from watersmeet.hardware.multiway.figures import FIGURES
from watersmeet.hardware.multiway.linear import LinearMJ
from watersmeet.hardware.multiway.parallel import ParallelMJ
from watersmeet.hardware.multiway.stashed import StashedMJ
from watersmeet.hardware.registry import Design, Parameter, Run

__all__ = ["DESIGNS", "FIGURES", "CircularMJ", "LinearMJ", "ParallelMJ", "StashedMJ"]

_WIDTHS = {
    "key": Parameter(20, 2, 64, what="bits of a key"),
    "keys": Parameter(1, 1, 2, what="keys a row: 1, or 2 for a cycle such as R(a, b), S(b, c), T(c, a)"),
    "number": Parameter(20, 4, 64, what="bits of a row's number"),
    "band": Parameter(0, 0, 1 << 20, what="how far apart linked keys may be; 0: equal"),
}
_STREAMS = Parameter(3, 3, 16, what="streams")
_WINDOW = Parameter(16, 1, 1 << 20, what="rows of each stream's window")


def _driver(name: str, make: Callable[..., Any]) -> Callable[..., Run]:
    def run(
        parameters: Mapping[str, int],
        streams: Any,
        simulator: str,
        rows: int = 300,
        seed: int = 1,
        **options: Any,
    ) -> Run:
        """``streams``: a list of (stream, keys) in the order of arrival; None: ``rows`` random ones."""
        if streams is not None:
            check(streams, parameters.get("streams", 3), parameters["keys"])
        design = make(**parameters)
        given = streams
        if given is None:
            given = random_rows(Random(seed), design.widths, rows, max(2, parameters["window"]))
        return drive(design, name, parameters, given, simulator, **options)

    return run


def _design(name: str, title: str, source: str, make: Any, parameters: Mapping[str, Parameter]) -> Design:
    return Design(name, title, source, {**parameters, **_WIDTHS}, make, _driver(name, make))


DESIGNS: tuple[Design, ...] = (
    _design(
        "circular_mj",
        "Circular-MJ: a ring of stages, one a stream",
        "thesis 6.1",
        CircularMJ,
        {
            "streams": _STREAMS,
            "window": _WINDOW,
            "order": Parameter(8, 4, 256, power_of_two=True, what="entries of a stage's order buffer"),
            "buffer": Parameter(32, 16, 4096, what="partial results a stage buffer holds, for each stream"),
        },
    ),
    _design(
        "linear_mj",
        "Linear-MJ: a line of stages that share the windows",
        "thesis 6.4.1",
        LinearMJ,
        {
            "streams": _STREAMS,
            "window": _WINDOW,
            "flight": Parameter(
                8, 2, 256, power_of_two=True, what="rows between the first stage and the store"
            ),
        },
    ),
    _design(
        "stashed_mj",
        "Stashed-MJ: three streams, two stages, a stash of pairs",
        "thesis 6.2, 6.3",
        StashedMJ,
        {
            "window": _WINDOW,
            "stash": Parameter(16, 0, 1 << 16, power_of_two=True, what="pairs that are kept; 0: no stash"),
            "recompute": Parameter(1, 0, 1, what="0: a stash that lacks pairs is ignored"),
            "spare": Parameter(
                8, 0, 64, what="rows of stream 1 that may come while its window is read; 0: a lock"
            ),
        },
    ),
    _design(
        "parallel_mj",
        "Parallel-MJ: every row to every core",
        "thesis 6.2.4",
        ParallelMJ,
        {
            "cores": Parameter(4, 1, 256, power_of_two=True, what="cores"),
            "window": _WINDOW,
            "exact": Parameter(
                1, 0, 1, what="1: one stream is dealt out; 0: all are, as printed, which loses results"
            ),
            "stash": Parameter(0, 0, 1 << 16, power_of_two=True, what="pairs that a core keeps; 0: no stash"),
            "queue": Parameter(0, 0, 4096, what="rows in front of a core; 0: what is needed"),
            "spare": Parameter(
                0, 0, 4096, what="rows of stream 1 that may come while its window is read; 0: what is needed"
            ),
        },
    ),
)
