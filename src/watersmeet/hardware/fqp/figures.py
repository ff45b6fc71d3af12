"""The thesis's numbers for FQP (4.5), each beside how ours is measured."""

from collections.abc import Callable
from functools import partial

from watersmeet.hardware.fqp.measuring import WINDOW, bypass, chain, cycles_a_tuple, insertion, saturation
from watersmeet.hardware.registry import Figure

_A_WORD = "a word is taken every cycle, after one in the port's buffer; the thesis has three cycles more than chunks"
_INSERTED = (("selection", 6, _A_WORD), ("projection", 5, _A_WORD), ("join", 5, ""), ("reset", 4, _A_WORD))
_TUPLES = (  # at 125 MHz: 9.61, 11.36 and 1.44 million a second
    ("selection", 13.0, "an entry, its values and the comparison are read and done in a pipeline"),
    ("projection", 11.0, "no comparison, so none of its cycles"),
    ("join", 86.8, "a held row is compared every cycle; the thesis's controller takes about five a row"),
)
_TURN = "a turn of the streams costs the way through the chain (dealer.py), a row one cycle a held row"


def _chain(window: int, turn: int) -> float:
    return chain(16, window, 0.0, turn).cycles


def _figure(
    name: str,
    paper: float | None,
    unit: str,
    section: str,
    measure: Callable[[], float],
    note: str,
    goal: str = "at most",
    slow: bool = False,
) -> Figure:
    design = "op_chain" if slow else "op_block"
    parameters = {"blocks": 16, "window": WINDOW} if slow else {"window": WINDOW}
    tool = "cycles, compiled simulation" if slow else "cycles, simulation"
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
            f"join on 16 blocks of {window}, turns of {turn}",
            125e6 / 1.26e6 if window == 8 else None,
            "cycles a tuple",
            "4.5.3, figures 4.5.2 and 4.5.7",
            partial(_chain, window, turn),
            _TURN,
            slow=True,
        )
        for window, turn in ((4, 1), (8, 1), (8, 8), (16, 1), (16, 8), (64, 1))
    ),
    *(
        _figure(
            f"match probability at which results leave in every cycle, 16 blocks of {window}",
            0.05,
            "of pairs",
            "4.5.3, figure 4.5.7",
            partial(saturation, 16, window),
            "ours takes rows faster and gives three words a result; 16 rows a block give twice the results of 8",
            goal="about",
            slow=True,
        )
        for window in (8, 16)
    ),
)
