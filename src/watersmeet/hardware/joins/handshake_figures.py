"""Handshake join in the registry: its parameters, and what the paper says about it beside what we measure."""

from collections.abc import Callable, Mapping

from amaranth.hdl import Shape

from watersmeet.hardware.joins.driving import SIDES, drive_with, pass_through, uniform
from watersmeet.hardware.joins.handshake import HandshakeCore, HandshakeJoin
from watersmeet.hardware.ports import pack
from watersmeet.hardware.registry import Design, Figure, Parameter
from watersmeet.hardware.simulate import Session
from watersmeet.hardware.tools.synth import synth

WINDOW = "rows that a window keeps, at least two a core"
PARAMETERS = {
    "cores": Parameter(4, 1, 512, what="join cores in the chain"),
    "left_window": Parameter(64, 2, 1 << 16, what=WINDOW),
    "right_window": Parameter(64, 2, 1 << 16, what=WINDOW),
    "key": Parameter(32, 1, 32, what="bits of a key"),
    "number": Parameter(32, 4, 32, what="bits of an arrival number"),
    "below": Parameter(0, 0, 1 << 20, what="right - left of the keys at least -below"),
    "above": Parameter(0, 0, 1 << 20, what="right - left of the keys at most above"),
    "queue": Parameter(64, 8, 1 << 12, what="places of a core's queue of results"),
    "fan_in": Parameter(4, 2, 8, what="inputs of a merger of results"),
    "time": Parameter(0, 0, 32, what="bits of a row's time; 0: windows count rows"),
    "left_range": Parameter(0, 0, 1 << 30, what="how far back a window of time reaches, if rows have times"),
    "right_range": Parameter(0, 0, 1 << 30, what="the same for the right stream"),
}


def quiet(parameters: Mapping[str, int]) -> int:
    """Cycles without a transfer after which nothing is left to do."""
    return 4 * (parameters["left_window"] + parameters["right_window"]) // parameters["cores"] + 100


HANDSHAKE = Design(
    name="handshake",
    title="Handshake join, in lock step",
    source="handshake join A.1 to A.5",
    parameters=PARAMETERS,
    make=HandshakeJoin,
    drive=drive_with("handshake", HandshakeJoin, quiet, bubbles=True),
)


def pace(parameters: Mapping[str, int]) -> float:
    """Cycles a row when rows never lack and nothing matches."""
    design = HANDSHAKE.build(**parameters)
    rows = 2 * parameters["left_window"] // parameters["cores"] + 40
    keys = {"left": [0] * rows, "right": [1] * rows}
    return pass_through(design, keys, idle=quiet(HANDSHAKE.checked(parameters))).pace


def threshold(parameters: Mapping[str, int]) -> float:
    """Fewest free places of a core's queue with which it does not throttle. Every row matches every row, and results leave slowly."""
    design = HANDSHAKE.build(**parameters)
    cores = [core.it for core in design.cores]
    design.watch = {f"level_{k}": core.queue.level for k, core in enumerate(cores)}
    design.watch |= {f"throttle_{k}": core.throttle for k, core in enumerate(cores)}
    session = Session(design, "python")  # which lets the inside of cores be watched
    session.stall("results", [True] * 15 + [False])
    for side in SIDES:
        session.offer(side, [pack(design.layout, {"number": k, "key": 0, "live": 1}) for k in range(400)])
    session.step(1500)
    watched = session.lines.watched
    levels = [
        level
        for k in range(len(cores))
        for level, throttle in zip(watched[f"level_{k}"], watched[f"throttle_{k}"][1:], strict=False)
        if not throttle
    ]
    return float(cores[0].queue.depth - max(levels))


def lost(parameters: Mapping[str, int]) -> float:
    """Results that are missing when far more are found than leave: every row matches every row, and an output that is slow."""
    keys = uniform(60, 1)
    slow = {"results": [True] * 15 + [False]}
    run = HANDSHAKE.run(parameters, keys, stalls=slow)
    whole = HANDSHAKE.run(parameters, keys)
    return float(len(whole.results) - len(run.results) + (not run.agrees) + (not whole.agrees))


def queue_block_rams(parameters: Mapping[str, int]) -> float:
    """36-kbit block RAMs, 1024 words of 36 bits, that a core's queue fills."""
    queue = HANDSHAKE.build(**parameters).cores[0].it.queue
    return float(-(-Shape.cast(queue.layout).width // 36) * -(-queue.depth // 1024))


def core_block_rams() -> float:
    """Block RAMs of a core with segments of 8 rows and a queue of 1024 results, as Yosys maps it."""
    return float(synth(HandshakeCore(8, 8, 32, 32, 0, 0, 1024), "xilinx").resources["block_rams"])


def _pace_figure(name: str, paper: float, parameters: Mapping[str, int], slow: bool = False) -> Figure:
    return _figure(name, paper, "cycles a row", "A.2, A.5", lambda: pace(parameters), parameters, slow=slow)


def _figure(
    name: str,
    paper: float,
    unit: str,
    section: str,
    measure: Callable[[], float],
    parameters: Mapping[str, int],
    goal: str = "equal",
    note: str = "",
    slow: bool = False,
    tool: str = "cycles, simulation",
) -> Figure:
    return Figure(
        name=name,
        design="handshake",
        parameters=parameters,
        paper=paper,
        unit=unit,
        section=f"handshake join {section}",
        tool=tool,
        measure=measure,
        goal=goal,
        slow=slow,
        note=note,
    )


SMALL = {"cores": 4, "left_window": 32, "right_window": 32, "key": 8, "number": 12}
UNEVEN = {**SMALL, "cores": 3, "left_window": 16, "right_window": 16}
HUNDRED = {"cores": 100, "left_window": 1000, "right_window": 1000}
DEEP = {"queue": 1024}

FIGURES = (
    _pace_figure("a row costs W / n cycles", 8, SMALL),
    _pace_figure("a row costs W / n cycles, rounded up", 6, UNEVEN),
    _pace_figure("a row costs W / n cycles, 100 cores", 10, HUNDRED, slow=True),
    _figure(
        "throttle threshold",
        8,
        "free places",
        "A.3",
        lambda: threshold(SMALL),
        SMALL,
        goal="at most",
        note="seven more than a segment: a comparison takes three cycles and the signal two, where the paper counts none,"
        " and one place is the queue's output register",
    ),
    _figure(
        "block RAMs of a core's queue",
        3,
        "block RAMs of 36 kbit",
        "A.4",
        lambda: queue_block_rams(DEEP),
        DEEP,
        tool="the design's own widths",
    ),
    _figure(
        "block RAMs of a core",
        3,
        "RAMB36E1",
        "A.4",
        core_block_rams,
        {**DEEP, "cores": 1, "left_window": 8, "right_window": 8},
        tool="Yosys, Xilinx 7",
        slow=True,
        note="the paper's is a Virtex-6; segments of 8 rows are LUT RAM here and flip-flops there",
    ),
    _figure(
        "results lost in overload",
        0,
        "results",
        "A.3",
        lambda: lost(SMALL),
        SMALL,
        note="the paper drops rows or results then; here rows wait",
    ),
)
DESIGNS = (HANDSHAKE,)
