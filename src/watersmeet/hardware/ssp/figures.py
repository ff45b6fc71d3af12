"""The figures of thesis 7.3, measured: cycles a row of TPC-H's Q3 and Q1.

The thesis gives whole scale factors; here a tenth of scale factor 1 runs (765,572 rows, in a minute or two), and cycles are divided by
rows. That is linear: after 1,024 rows of each stream all windows are full, and what a row costs does not depend on how many came before
it. Larger scale factors cost no more a row: a window then holds a smaller share of the customers, so fewer orders go on to the lines.
"""

from functools import cache

from watersmeet.bench.tpch_data import cache_folder, tables
from watersmeet.errors import WatersmeetError
from watersmeet.hardware.registry import Figure
from watersmeet.hardware.ssp.designs import DESIGNS, ran_q1, ran_q3

ROWS = {
    1: 7_651_215,
    2: 15_297_995,
    4: 30_595_995,
    6: 45_896_386,
    8: 61_193_408,
    10: 76_486_052,
}  # customers, orders and lines
LINES = 6_001_215
CYCLES = {1: 30e6, 2: 61e6, 4: 122e6, 6: 185e6, 8: 267e6, 10: 352e6}
FASTER = (
    "fewer: a row's keys are hashed before its turn, a row is stored while it searches, and windows count rows that were not selected, "
    "so they hold fewer; what remains is two cycles for the two words of a row at the entry"
)


@cache
def _q3(table: int, sf: float) -> float:
    parameters = DESIGNS[0].checked({"table": table})
    found = ran_q3(parameters, tables(sf, cache_folder()), "compiled", cycles=1 << 40)
    if not found.agrees:
        raise WatersmeetError("the hardware's answer must be the engine's; got another one; please report it")
    return found.cycles_a_row


@cache
def _q1(sf: float) -> float:
    found = ran_q1(DESIGNS[1].checked({}), tables(sf, cache_folder()), "compiled", cycles=1 << 40)
    if not found.agrees:
        raise WatersmeetError("the hardware's answer must be the engine's; got another one; please report it")
    return found.cycles_a_row


FIGURES = (
    *(
        Figure(
            f"TPC-H Q3, scale factor {sf}",
            "ssp_q3",
            {"window": 1024, "table": 2048},
            round(CYCLES[sf] / ROWS[sf], 2),
            "cycles a row",
            "7.3.2, figure 7.3.3",
            "cycles, compiled simulation of scale factor 0.1",
            lambda: _q3(2048, 0.1),
            "at most",
            True,
            FASTER,
        )
        for sf in CYCLES
    ),
    Figure(
        "TPC-H Q3, hash tables of 2^9",
        "ssp_q3",
        {"window": 1024, "table": 512},
        round(149e6 / ROWS[1], 2),
        "cycles a row",
        "7.3.2, figure 7.3.2",
        "cycles, compiled simulation of scale factor 0.1",
        lambda: _q3(512, 0.1),
        "at most",
        True,
        "fewer, for the reasons of 2^11: a window holds those of the last 1,024 rows that were selected, about half of orders and lines; "
        "four tables of 2^9 have room for most of them",
    ),
    Figure(
        "TPC-H Q1",
        "ssp_q1",
        {},
        round(22.4e6 / LINES, 2),
        "cycles a row",
        "7.3.5",
        "cycles, compiled simulation of scale factor 0.1",
        lambda: _q1(0.1),
        "at most",
        True,
        "fewer: a row's three words are what it costs; expressions are a pipeline, and a group is found by its key's bits",
    ),
)
