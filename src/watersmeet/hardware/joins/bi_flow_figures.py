"""Bi-flow join in the registry: its parameters, and what the thesis says about it beside what we measure."""

from collections.abc import Mapping

from amaranth.lib import wiring

from watersmeet.hardware.joins import split_join_run
from watersmeet.hardware.joins.bi_flow import BiFlowJoin
from watersmeet.hardware.joins.driving import drive_with, pass_through
from watersmeet.hardware.registry import Design, Figure, Parameter

WINDOW = "rows that a window keeps, at least one a core"
PARAMETERS = {
    "cores": Parameter(4, 1, 512, what="join cores in the chain"),
    "left_window": Parameter(64, 1, 1 << 16, what=WINDOW),
    "right_window": Parameter(64, 1, 1 << 16, what=WINDOW),
    "key": Parameter(32, 1, 32, what="bits of a key"),
    "number": Parameter(32, 4, 32, what="bits of an arrival number"),
    "below": Parameter(0, 0, 1 << 20, what="right - left of the keys at least -below"),
    "above": Parameter(0, 0, 1 << 20, what="right - left of the keys at most above"),
    "pipelined": Parameter(
        0, 0, 1, what="1: one comparison a cycle; 0: the thesis's state machine, five cycles"
    ),
}


def quiet(parameters: Mapping[str, int]) -> int:
    """Cycles without a transfer after which nothing is left to do: a row may have to go through all cores."""
    rows = max(parameters["left_window"], parameters["right_window"])
    return 12 * (rows + 4 * parameters["cores"]) + 100


BI_FLOW = Design(
    name="bi_flow",
    title="Bi-flow join, a chain of OP-Blocks that join",
    source="thesis 5.5, 4.1",
    parameters=PARAMETERS,
    make=BiFlowJoin,
    drive=drive_with("bi_flow", BiFlowJoin, quiet, bubbles=True),
)


def pace(parameters: Mapping[str, int]) -> float:
    """Cycles a row when rows never lack and nothing matches."""
    design = BI_FLOW.build(**parameters)
    rows = 2 * max(parameters["left_window"], parameters["right_window"]) + 40
    keys = {"left": [0] * rows, "right": [1] * rows}
    return pass_through(design, keys, idle=quiet(BI_FLOW.checked(parameters))).pace


def ratio(parameters: Mapping[str, int]) -> float:
    """How many rows the uni-flow join takes in the time in which this one takes one, with as many cores and as long windows, in cycles."""
    return pace(parameters) / split_join_run.pace(parameters["cores"], parameters["left_window"])


def ends() -> float:
    """Ports of a join core, clock and reset aside."""
    signature = BI_FLOW.build().cores[0].it.signature
    return float(sum(isinstance(member.signature, wiring.Signature) for member in signature.members.values()))


ONE = {"cores": 1, "left_window": 16, "right_window": 16, "key": 8, "number": 12}
SIXTEEN = {"cores": 16, "left_window": 256, "right_window": 256}
PIPELINED = {**SIXTEEN, "pipelined": 1}

FIGURES = (
    Figure(
        name="a join of 16 rows in one OP-Block",
        design="bi_flow",
        parameters=ONE,
        paper=86.8,
        unit="cycles a row",
        section="thesis 4.5.7",
        tool="cycles, simulation",
        measure=lambda: pace(ONE),
        goal="at most",
        note="five states a comparison; 6.8 cycles of the thesis's are spent around the scan, fewer here",
    ),
    Figure(
        name="ports of a join core",
        design="bi_flow",
        parameters={},
        paper=5,
        unit="ports",
        section="thesis 5.5",
        tool="the design's own structure",
        measure=ends,
    ),
    Figure(
        name="uni-flow over bi-flow, 16 cores",
        design="bi_flow",
        parameters=SIXTEEN,
        paper=10,
        unit="times the rows",
        section="thesis 5.6.7, Figure 5.5.6b",
        tool="cycles, compiled simulation",
        measure=lambda: ratio(SIXTEEN),
        goal="at least",
        slow=True,
        note="in cycles, at one clock: five are the state machine, the rest locks and rows that wait for their neighbour."
        " The thesis compares rows a second of two placed designs, with clocks that it does not give. Open what remains",
    ),
    Figure(
        name="uni-flow over bi-flow with one comparison a cycle, 16 cores",
        design="bi_flow",
        parameters=PIPELINED,
        paper=None,
        unit="times the rows",
        section="thesis 5.5",
        tool="cycles, compiled simulation",
        measure=lambda: ratio(PIPELINED),
        slow=True,
        note="what the flow itself costs: locks, and rows that wait for their neighbour",
    ),
)
DESIGNS = (BI_FLOW,)
