"""BI-Sort in the registry: its parameters, and what the paper says about it beside what we measure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from watersmeet.hardware.joins.bi_sort.join import BiSortJoin
from watersmeet.hardware.joins.bi_sort.mirror import mirrored_pairs
from watersmeet.hardware.joins.driving import drive_with, pass_through, uniform
from watersmeet.hardware.registry import Design, Figure, Parameter

PARAMETERS = {
    "left_window": Parameter(64, 1, 1 << 20, what="rows that a window keeps"),
    "right_window": Parameter(64, 1, 1 << 20, what="rows that a window keeps"),
    "sub_window": Parameter(32, 2, 1 << 16, what="rows of a sub-window"),
    "batch": Parameter(8, 1, 256, what="rows of the insertion buffer, at most a sub-window"),
    "partition": Parameter(8, 1, 1 << 12, power_of_two=True, what="rows for which the index has one key"),
    "key": Parameter(32, 1, 32, what="bits of a key"),
    "number": Parameter(32, 4, 32, what="bits of an arrival number"),
    "below": Parameter(0, 0, 1 << 20, what="right - left of the keys at least -below"),
    "above": Parameter(0, 0, 1 << 20, what="right - left of the keys at most above"),
    "wait": Parameter(64, 1, 1 << 16, what="cycles without a row after which a batch goes as it is"),
    "ranges": Parameter(0, 0, 1, what="1: results are ranges in the sub-windows; 0: pairs"),
}


def quiet(parameters: Mapping[str, int]) -> int:
    """Cycles without a transfer after which nothing is left to do: both batches must have gone by."""
    return 2 * parameters["wait"] + 8 * (parameters["sub_window"] + parameters["batch"]) + 200


BI_SORT = Design(
    name="bi_sort",
    title="BI-Sort, sorted sub-windows",
    source="PanJoin III.D, IV",
    parameters=PARAMETERS,
    make=BiSortJoin,
    drive=drive_with("bi_sort", BiSortJoin, quiet, bubbles=False, pairs=mirrored_pairs),
)


def pace(parameters: Mapping[str, int], values: int = 1 << 16) -> float:
    """Cycles a row when rows never lack."""
    checked = BI_SORT.checked(parameters)
    rows = 4 * max(checked["left_window"], checked["right_window"])
    keys = uniform(rows, values)
    return pass_through(BI_SORT.build(**parameters), keys, idle=quiet(checked)).pace


def selectivity_effect(parameters: Mapping[str, int]) -> float:
    """Cycles a row where each row matches an eighth of the window, over those where it matches next to nothing."""
    return pace(parameters, 8) / pace(parameters)


def window_effect(parameters: Mapping[str, int]) -> float:
    """Cycles a row with windows four times as long, over those with the windows given."""
    long = {name: 4 * parameters[name] for name in ("left_window", "right_window")}
    return pace({**parameters, **long}) / pace(parameters)


SMALL = {
    "left_window": 64,
    "right_window": 64,
    "sub_window": 32,
    "batch": 16,
    "partition": 8,
    "key": 16,
    "number": 12,
}


def _figure(name: str, paper: float | None, measure: Any, **other: Any) -> Figure:
    figure = Figure(
        name=name,
        design="bi_sort",
        parameters=SMALL,
        paper=paper,
        unit="cycles a row",
        section="PanJoin IV",
        tool="cycles, simulation",
        measure=measure,
    )
    return replace(figure, **other)


FIGURES = (
    _figure(
        "a row costs what a batch costs, shared",
        (32 + 2 * 16) / 16,
        lambda: pace(SMALL),
        goal="at most",
        section="PanJoin III.D, IV",
        note="(C + 2 B) / B, one iteration of a prober a row of the sub-window or a bound, is what the paper's description comes to;"
        " 13 cycles more a batch are its way to the sub-windows and back",
    ),
    _figure(
        "ranges: the number of matches does not matter",
        1,
        lambda: selectivity_effect({**SMALL, "ranges": 1}),
        unit="of the cycles a row",
        section="PanJoin V.A.3, Figure 12e",
        goal="about",
        slow=True,
    ),
    _figure(
        "the length of the window does not matter",
        1,
        lambda: window_effect(SMALL),
        unit="of the cycles a row",
        section="PanJoin III.A",
        goal="about",
        slow=True,
        note="each sub-window has a memory, a merger and probers of its own",
    ),
)
DESIGNS = (BI_SORT,)
