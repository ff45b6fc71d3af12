"""The thesis's numbers for FQP (4.5), each beside how ours is measured."""

from collections.abc import Callable
from functools import partial

from watersmeet.hardware.fqp.measuring import WINDOW, bypass, chain, cycles_a_tuple, insertion, saturation
from watersmeet.hardware.fqp.shares import processing_share
from watersmeet.hardware.registry import Figure

_A_WORD = "a word is taken every cycle, after one in the port's buffer; the thesis has three cycles more than chunks"
_INSERTED = (("selection", 6, _A_WORD), ("projection", 5, _A_WORD), ("join", 5, ""), ("reset", 4, _A_WORD))
_TUPLES = (  # at 125 MHz: 9.61, 11.36 and 1.44 million a second
    ("selection", 13.0, "an entry, its values and the comparison are read and done in a pipeline"),
    ("projection", 11.0, "no comparison, so none of its cycles"),
    ("join", 86.8, "a held row is compared every cycle; the thesis's controller takes about five a row"),
)
_TURN = "a turn of the streams costs the way through the chain (dealer.py), a row one cycle a held row"


_SHARE = (
    "another family and tool; here a word is 80 bits and each way in and out of a block has two of them in registers, which take a fifth"
    " of the LUTs and a third of the registers"
)
CLOCK = 125.0  # MHz, the thesis's: rates are ours in cycles, at its clock; no clock is claimed
_RAW = "cycles of one block, times 24 blocks, at the thesis's clock"


def _chain(window: int, turn: int) -> float:
    return chain(16, window, 0.0, turn).cycles


def _of_24(kind: str) -> float:
    return 24 * CLOCK / cycles_a_tuple(kind)


def _of_6_chains() -> float:
    return 6 * CLOCK / chain(4, WINDOW, 0.0, 8).cycles


def _figure(
    name: str,
    paper: float | None,
    unit: str,
    section: str,
    measure: Callable[[], float],
    note: str,
    goal: str = "at most",
    slow: bool = False,
    tool: str = "",
    blocks: int = 0,
    window: int = WINDOW,
) -> Figure:
    design = "op_chain" if blocks else "op_block"
    parameters = {"blocks": blocks, "window": window} if blocks else {"window": window}
    tool = tool or ("cycles, compiled simulation" if slow else "cycles, simulation")
    return Figure(name, design, parameters, paper, unit, section, tool, measure, goal, slow, note)


FIGURES = (
    *(
        _figure(f"insert a {kind}", paper, "cycles", "table 4.5.4", partial(insertion, kind), note)
        for kind, paper, note in _INSERTED
    ),
    _figure("bypass a block", 4, "cycles", "table 4.5.4", bypass, ""),
    *(
        _figure(
            f"{kind}, one block",
            paper,
            "cycles a tuple",
            "4.5.7, table 4.5.5",
            partial(cycles_a_tuple, kind),
            note,
        )
        for kind, paper, note in _TUPLES
    ),
    *(
        _figure(
            f"{kind}, 24 blocks", paper, "M tuples/s", "table 4.5.5", partial(_of_24, kind), _RAW, "at least"
        )
        for kind, paper in (("selection", 230.6), ("projection", 272.6), ("join", 34.5))
    ),
    _figure(
        "chained join (4), 6 chains",
        8.6,
        "M tuples/s",
        "table 4.5.5",
        _of_6_chains,
        "cycles of one chain, times 6, at the thesis's clock",
        "at least",
        slow=True,
        blocks=4,
    ),
    *(
        _figure(
            f"processing unit's share of {kind}",
            paper,
            "% of a block",
            "table 4.5.2",
            partial(processing_share, kind),
            _SHARE,
            "about",
            slow=True,
            tool="Yosys, Xilinx 7",
            window=64,
        )
        for kind, paper in (("luts", 60.0), ("registers", 74.5))
    ),
    *(
        _figure(
            f"join on 16 blocks of {window}, turns of {turn}",
            125e6 / 1.26e6 if window == 8 else None,
            "cycles a tuple",
            "4.5.3, figures 4.5.2 and 4.5.7",
            partial(_chain, window, turn),
            _TURN,
            slow=True,
            blocks=16,
            window=window,
        )
        for window, turn in ((4, 1), (8, 1), (8, 8), (16, 1), (16, 8), (64, 1))
    ),
    *(
        _figure(
            f"match probability at which the output is saturated, 16 blocks of {window}",
            0.05,
            "of pairs",
            "4.5.3, figure 4.5.7",
            partial(saturation, 16, window),
            ""
            if window == 16
            else "half as many pairs a row as with 16 rows a block, three words a result; the thesis says it of both",
            goal="about" if window == 16 else "at least",
            slow=True,
            blocks=16,
            window=window,
        )
        for window in (8, 16)
    ),
)
