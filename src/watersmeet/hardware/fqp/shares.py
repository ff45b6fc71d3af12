"""What share of an OP-Block each of its units takes (table 4.5.2), by Yosys for Xilinx 7.

What stays true: the block is synthesised with its hierarchy, without a harness, so each cell is counted in the unit that it is in. LUTs of
Yosys for another family than the thesis's: shares can be compared, numbers cannot.
"""

from collections import Counter
from functools import cache

from watersmeet.hardware.fqp.op_block import OpBlock
from watersmeet.hardware.tools.synth import parts

UNITS = {  # by the thesis's name: the parts of ours
    "processing unit": ("processing", "join", "queries"),
    "buffer manager R": ("manager_r",),
    "buffer manager S": ("manager_s",),
    "window buffer R": ("window_r",),
    "window buffer S": ("window_s",),
    "bypass unit": ("in_r", "in_s", "out_r", "out_s", "result"),
}


@cache
def units(window: int = 64) -> dict[str, dict[str, int]]:
    """Resources by unit; the coordinator is what is in none of them."""
    found: dict[str, Counter[str]] = {}
    for part, taken in parts(OpBlock(window, operators=2, terms=4, attributes=8, columns=1)).items():
        unit = next((unit for unit, own in UNITS.items() if part in own), "coordinator unit")
        found.setdefault(unit, Counter()).update(taken)
    return {unit: dict(taken) for unit, taken in found.items()}


def processing_share(kind: str = "luts") -> float:
    """The processing unit's percentage of a block's LUTs, or registers."""
    taken = {unit: one[kind] for unit, one in units().items()}
    return 100 * taken["processing unit"] / sum(taken.values())
