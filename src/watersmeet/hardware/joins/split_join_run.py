"""Rows through SplitJoin, and what it costs: its entry in the registry, and its figures beside the thesis's.

What stays true: cycles are counted by simulation of the component itself; a figure that needs a full window waits until it is full.
"""

from collections.abc import Mapping, Sequence
from random import Random

from watersmeet.errors import OptionError
from watersmeet.hardware.expected import expected, same
from watersmeet.hardware.joins.operator import Band, program
from watersmeet.hardware.joins.rows import Kind
from watersmeet.hardware.joins.split_join import SplitJoin
from watersmeet.hardware.ports import pack, unpack
from watersmeet.hardware.registry import Design, Figure, Parameter, Run
from watersmeet.hardware.simulate import simulate
from watersmeet.streams.window import Rows

Arrival = tuple[str, Sequence[int]]  # "r" or "s", and the attributes


def words_of(design: SplitJoin, rows: Sequence[Arrival]) -> list[int]:
    """Rows as words, numbered in each stream from 0."""
    numbers = {"r": 0, "s": 0}
    words = []
    for stream, values in rows:
        row = {"number": numbers[stream], "values": list(values)}
        numbers[stream] += 1
        words.append(pack(design.word, {"row": row, "kind": Kind.R if stream == "r" else Kind.S}))
    return words


def pairs_of(design: SplitJoin, payloads: Sequence[int]) -> list[tuple[int, int]]:
    """Arrival numbers of the results; words that only end a row are left out."""
    found = [unpack(design.result, payload) for payload in payloads]
    return [(one["r"]["number"], one["s"]["number"]) for one in found if one.get("found", 1)]


def workload(rows: int, attributes: int, window: int, seed: int = 0) -> list[Arrival]:
    """Rows of both streams, half and half, of which each finds about one partner by equality."""
    rng = Random(seed)
    most = max(2, round(window ** (1 / attributes)))
    return [(rng.choice("rs"), [rng.randrange(most) for _ in range(attributes)]) for _ in range(rows)]


def run(
    parameters: Mapping[str, int],
    streams: Sequence[Arrival] | None = None,
    simulator: str = "auto",
    rows: int = 1000,
    bands: Sequence[Band] | None = None,
    stalls: Sequence[bool] = (False,),
    seed: int = 0,
) -> Run:
    """``streams``: rows in order of arrival, as ("r", [attributes]); None: ``rows`` of a workload.

    ``bands``: the condition, one a attribute; equality by default.
    """
    design = SplitJoin(**parameters)
    bands = bands or [Band()] * design.attributes
    if len(bands) != design.attributes:
        raise OptionError(f"bands must be one for each of {design.attributes} attributes; got {len(bands)}")
    window = parameters["window"]
    arrivals = streams if streams is not None else workload(rows, design.attributes, window, seed)
    start = program(design.cores, (design.share, design.share), bands, design.bits)
    bound = 200 + len(start) + (len(arrivals) + 4) * (design.share + 2) * 40
    trace = simulate(
        design,
        {"words": start + words_of(design, arrivals)},
        stalls={"results": stalls},
        simulator=simulator,
        cycles=bound,
    )
    found = pairs_of(design, trace.payloads("results"))
    names = [f"a{k}" for k in range(design.attributes)]
    condition = " AND ".join(
        band.text(f"r.{name}", f"s.{name}") for band, name in zip(bands, names, strict=True)
    )
    wanted = expected(
        [(stream, dict(zip(names, values, strict=True))) for stream, values in arrivals],
        condition,
        {"r": Rows(window), "s": Rows(window)},
    )
    taken = trace.taken["words"][len(start) :]
    notes = {"program": len(start), "full": _pace(taken, design.share)}
    return Run(
        "split_join",
        dict(parameters),
        len(arrivals),
        tuple(found),
        trace.cycles,
        trace.simulator,
        same(found, wanted),
        notes,
    )


def _pace(taken: Sequence[int], share: int) -> float:
    """Cycles between two acceptances in the second half of a run, when the windows are full."""
    half = taken[len(taken) // 2 :]
    return (half[-1] - half[0]) / (len(half) - 1) if len(half) > 1 else 0.0


PARAMETERS = {
    "cores": Parameter(4, 1, 512, what="join cores"),
    "window": Parameter(64, 1, 1 << 18, what="rows of each stream's window, over all cores"),
    "attributes": Parameter(1, 1, 4, what="attributes of a row, each with a band of its own"),
    "bits": Parameter(32, 6, 64, what="bits of an attribute"),
    "fan": Parameter(2, 2, 16, what="outputs of a DNode, inputs of a GNode"),
    "scalable": Parameter(1, 0, 1, what="1: trees; 0: the lightweight networks"),
    "ordered": Parameter(0, 0, 1, what="1: results in the order of the rows that found them"),
}
DESIGN = Design("split_join", "SplitJoin, uni-flow", "thesis 5.4, 5.5", PARAMETERS, SplitJoin, run)
TOOL = "cycles, compiled simulation"


def pace(cores: int, window: int, scalable: int = 1) -> float:
    """Cycles a row once the windows are full."""
    parameters = DESIGN.checked({"cores": cores, "window": window, "scalable": scalable})
    done = DESIGN.run(parameters, rows=4 * window + 64)
    return done.notes["full"] if done.agrees else float("nan")


def latency(cores: int, window: int, scalable: int = 1) -> float:
    """Cycles from a row's acceptance to its one result, alone in the machine: its partner is the row that is read last."""
    parameters = DESIGN.checked({"cores": cores, "window": window, "scalable": scalable})
    design = SplitJoin(**parameters)
    start = program(cores, (design.share, design.share), [Band()])
    fill = words_of(design, [("r", [k]) for k in range(window)])
    probe = words_of(design, [("s", [window - 1])])
    quiet = (len(start) + len(fill)) * 4 + 1000
    offers = [0] * (len(start) + len(fill)) + [quiet]
    trace = simulate(
        design, {"words": start + fill + probe}, offers={"words": offers}, cycles=quiet + 100 * window
    )
    return trace.given["results"][-1][0] - trace.taken["words"][-1]


def _pace_figure(cores: int, window: int, scalable: int, slow: bool) -> Figure:
    name = f"cycles a row, {cores} cores, window {window}" + ("" if scalable else ", lightweight")
    return Figure(
        name,
        "split_join",
        {"cores": cores, "window": window, "scalable": scalable},
        window / cores,
        "cycles",
        "5.6.7, figure 5.5.6",
        TOOL,
        lambda: pace(cores, window, scalable),
        goal="at most",
        slow=slow,
    )


def _latency_figure(cores: int, scalable: int) -> Figure:
    kind = "" if scalable else ", lightweight"
    return Figure(
        f"cycles to the one result, {cores} cores, 16 rows a core{kind}",
        "split_join",
        {"cores": cores, "window": 16 * cores, "scalable": scalable},
        None,
        "cycles",
        "5.6.7, figure 5.6.9",
        TOOL,
        lambda: latency(cores, 16 * cores, scalable),
        goal="about",
        slow=cores > 16,
        note="a curve without numbers",
    )


FIGURES = (
    *(_pace_figure(cores, 16 * cores, 1, cores > 16) for cores in (1, 2, 4, 8, 16, 32)),
    _pace_figure(16, 2048, 1, True),
    _pace_figure(16, 8192, 1, True),
    _pace_figure(4, 64, 0, False),
    _pace_figure(16, 256, 0, False),
    *(_latency_figure(cores, scalable) for scalable in (1, 0) for cores in (2, 4, 8, 16, 32)),
)
