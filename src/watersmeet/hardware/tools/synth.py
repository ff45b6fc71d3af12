"""Resources and clock of a component: Yosys for Xilinx 7 and for ECP5, place and route by nextpnr for ECP5.

What stays true: a figure names the tool, its version and the device family that it is for; resources after synthesis are for the
component with its harness. A clock is ECP5's only, after routing, and is never one of another family.

The component sits between shift registers (``FewPins``), so that pins neither limit nor steer the placement: every input comes from
a register, every output goes into one.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.simulate.compiled.netlist import text_of
from watersmeet.hardware.tools.yowasp import run, tool_version

TARGETS = {
    "ecp5": "synth_ecp5 -top top -json top.json",
    "xilinx": "synth_xilinx -family xc7 -flatten -noiopad -top top",
}
KINDS = {  # how the cells of both families are called
    "luts": r"LUT\d",
    "registers": r"FD[RSCP]E|TRELLIS_FF",
    "block_rams": r"RAMB\d+E\d|DP16KD|PDPW16KD",
    "lut_rams": r"RAM\d+[XM]\w*|TRELLIS_DPR16X4",
    "carries": r"CARRY4|CCU2C",
    "multipliers": r"DSP48E1|MULT18X18D",
}


@dataclass(frozen=True)
class Synthesis:
    """What a component takes on a family of devices; ``clock`` is MHz by seed, after place and route."""

    target: str
    tool: str
    resources: Mapping[str, int]
    cells: Mapping[str, int]
    clock: Mapping[int, float] = field(default_factory=dict)
    device: str = ""


class FewPins(wiring.Component):
    """Four pins: bits in, bits out, when to take them over, and the clock."""

    def __init__(self, design: Any) -> None:
        self.design = design
        super().__init__({"bits_in": In(1), "load": In(1), "bit_out": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.design = design = self.design
        ends: dict[Any, list[Value]] = {wiring.In: [], wiring.Out: []}
        for _, member, value in design.signature.flatten(design):
            ends[member.flow].append(Value.cast(value))
        inputs, outputs = Cat(*ends[wiring.In]), Cat(*ends[wiring.Out])
        shift, held = Signal(len(inputs)), Signal(len(inputs))
        seen, folded = Signal(len(outputs)), Signal(len(outputs))
        m.d.sync += [
            shift.eq(Cat(self.bits_in, shift)),
            seen.eq(outputs),
            folded.eq(Cat(0, folded) ^ seen),
            self.bit_out.eq(folded[-1]),
        ]
        with m.If(self.load):
            m.d.sync += held.eq(shift)
        m.d.comb += inputs.eq(held)
        return m


def synth(
    design: Any,
    target: str = "ecp5",
    seeds: Sequence[int] = (),
    device: str = "85k",
    speed: int = 6,
    goal: float = 150.0,
    seconds: float = 3600,
    folder: Path | None = None,
) -> Synthesis:
    """Synthesises ``design``; for ECP5 also places and routes it, once a seed, towards ``goal`` MHz."""
    if target not in TARGETS:
        raise OptionError(f"target must be one of {', '.join(TARGETS)}; got {target!r}")
    if seeds and target != "ecp5":
        raise OptionError(
            f"seeds must be for ecp5, which nextpnr can place; got target {target!r}; leave them out"
        )
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return synth(design, target, seeds, device, speed, goal, seconds, Path(made))
    (folder / "top.il").write_text(text_of(FewPins(design), watch=False).rtlil)
    (folder / "synth.ys").write_text(
        f"read_rtlil top.il\n{TARGETS[target]}\ntee -q -o stat.json stat -json\n"
    )
    run("yosys", ["-q", "-s", "synth.ys"], folder, seconds)
    cells = json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]
    clock = {seed: _placed(folder, seed, device, speed, goal, seconds) for seed in seeds}
    tool = tool_version("yosys") + (f", {tool_version('nextpnr-ecp5')}" if seeds else "")
    where = f"LFE5U-{device[:-1]}F, speed grade {speed}" if seeds else ""
    return Synthesis(target, tool, resources(cells), cells, clock, where)


def parts(design: Any, seconds: float = 3600) -> dict[str, dict[str, int]]:
    """Resources by submodule of ``design``, for Xilinx 7; what is in none of them is under an empty name.

    It is synthesised with its hierarchy, without a harness, so each cell is counted in the part that it is in, and nothing is shared
    between two parts.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "top.il").write_text(text_of(design, watch=False).rtlil)
        (folder / "synth.ys").write_text(
            "read_rtlil top.il\nsynth_xilinx -family xc7 -noiopad -top top\ntee -q -o stat.json stat -json\n"
        )
        run("yosys", ["-q", "-s", "synth.ys"], folder, seconds)
        modules = json.loads((folder / "stat.json").read_text())["modules"]
    found: dict[str, Counter[str]] = {}
    for name, stat in modules.items():
        part = re.split(r"[.$]", name.lstrip("\\").removeprefix("top.design").lstrip("."))[0]
        found.setdefault(part, Counter()).update(stat.get("num_cells_by_type", {}))
    return {part: resources(cells) for part, cells in found.items()}


def resources(cells: Mapping[str, int]) -> dict[str, int]:
    """Cells by kind."""
    return {
        kind: sum(count for name, count in cells.items() if re.fullmatch(pattern, name))
        for kind, pattern in KINDS.items()
    }


def _placed(folder: Path, seed: int, device: str, speed: int, goal: float, seconds: float) -> float:
    """The clock in MHz after routing with one seed."""
    report = f"report{seed}.json"
    arguments = [
        f"--{device}",
        "--package",
        "CABGA756" if device == "85k" else "CABGA381",
        "--speed",
        str(speed),
    ]
    arguments += ["--json", "top.json", "--lpf-allow-unconstrained", "--seed", str(seed), "--freq", str(goal)]
    run("nextpnr-ecp5", [*arguments, "--timing-allow-fail", "--report", report, "-q"], folder, seconds)
    clocks = json.loads((folder / report).read_text())["fmax"]
    return min(float(one["achieved"]) for one in clocks.values())
