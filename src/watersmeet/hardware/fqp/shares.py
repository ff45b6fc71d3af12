"""What share of an OP-Block each of its units takes (table 4.5.2), by Yosys for Xilinx 7.

What stays true: the block is synthesised with its hierarchy, without a harness, so each cell is counted in the unit that it is in. LUTs of
Yosys for another family than the thesis's: shares can be compared, numbers cannot.
"""

import json
import re
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

from watersmeet.hardware.fqp.op_block import OpBlock
from watersmeet.hardware.simulate.compiled.netlist import text_of
from watersmeet.hardware.tools.synth import resources
from watersmeet.hardware.tools.yowasp import run

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
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        block = OpBlock(window, operators=2, terms=4, attributes=8, columns=1)
        (folder / "top.il").write_text(text_of(block, watch=False).rtlil)
        (folder / "synth.ys").write_text(
            "read_rtlil top.il\nsynth_xilinx -family xc7 -noiopad -top top\ntee -q -o stat.json stat -json\n"
        )
        run("yosys", ["-q", "-s", "synth.ys"], folder)
        modules = json.loads((folder / "stat.json").read_text())["modules"]
    found: dict[str, Counter[str]] = {}
    for name, stat in modules.items():
        part = re.split(r"[.$]", name.lstrip("\\").removeprefix("top.design").lstrip("."))[0]
        unit = next((unit for unit, parts in UNITS.items() if part in parts), "coordinator unit")
        found.setdefault(unit, Counter()).update(stat.get("num_cells_by_type", {}))
    return {unit: resources(cells) for unit, cells in found.items()}


def processing_share(kind: str = "luts") -> float:
    """The processing unit's percentage of a block's LUTs, or registers."""
    taken = {unit: one[kind] for unit, one in units().items()}
    return 100 * taken["processing unit"] / sum(taken.values())
