"""The compiled model: lines as arrays, a call for as many cycles as there is room for results."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from watersmeet.hardware.ports import stream_ports
from watersmeet.hardware.simulate.compiled.ir import stored_bytes
from watersmeet.hardware.simulate.compiled.loop import FULL, NEVER, SETTLED, Places, watch_words
from watersmeet.hardware.simulate.compiled.netlist import WATCH, Text, text_of
from watersmeet.hardware.simulate.compiled.program import Program, program
from watersmeet.hardware.simulate.lines import Lines, Sink, Source

ROOM = 1 << 16  # results of one output, and watched cycles, a call


class CompiledModel:
    """Machine code with a state of its own."""

    name = "compiled"

    def __init__(self, design: Any, watch: bool, constants: Mapping[str, Any]) -> None:
        ports = stream_ports(design)
        text = text_of(design, watch)
        self.watched = text.watched
        self._sources = [port.name for port in ports if port.inward]
        self._sinks = [port.name for port in ports if not port.inward]
        numbers = {name: int(value) for name, (_, value) in constants.items()}
        self._program = self._made(text, numbers)
        self._state = self._begun()
        self._places = Places(self._sources, self._sinks).index
        self._control = np.zeros(len(self._places), np.int64)
        widths = self._program.widths
        self._watch_words = watch_words([widths[WATCH + name] for name in self.watched])
        self._sink_arrays = {
            name: (np.zeros(stored_bytes(widths[name]) * (ROOM + 1), np.uint8), np.zeros(ROOM + 1, np.int64))
            for name in self._sinks
        }

    def _made(self, text: Text, numbers: dict[str, int]) -> Program:
        return program(text, self._sources, self._sinks, numbers)

    def _begun(self) -> int:
        """Where the state lies, before the first cycle."""
        self._bytes = _aligned(self._program.state)
        return int(self._bytes.ctypes.data)

    def run(self, lines: Lines, until: int, idle: int | None) -> bool:
        if lines.cycle >= until:
            return False
        self._set(cycle=lines.cycle, last=lines.last, idle=NEVER if idle is None else idle)
        held = [self._offer(name, lines.sources[name]) for name in self._sources]
        held += [self._ready(name, lines.sinks[name], lines.cycle) for name in self._sinks]
        taken = dict(zip(self._sources, [arrays[-1] for arrays in held], strict=False))
        why = FULL
        while why == FULL or (why != SETTLED and lines.cycle < until):
            stop = min(until, lines.cycle + ROOM) if self.watched else until
            seen = np.zeros((max(1, stop - lines.cycle), sum(self._watch_words)), np.uint64)
            self._set(until=stop, watch=seen.ctypes.data)
            why = self._program.run(self._control.ctypes.data, self._state)
            self._see(lines, seen)
            lines.cycle, lines.last = self._get("cycle"), self._get("last")
            for name in self._sinks:
                self._take(name, lines.sinks[name])
            if why == FULL and lines.cycle >= until:
                break
        for name, cycles in taken.items():
            lines.sources[name].taken += cycles[: self._get(f"{name}.at")].tolist()
        return bool(why == SETTLED)

    def _set(self, port: str = "", **words: int) -> None:
        for word, value in words.items():
            self._control[self._places[f"{port}.{word}" if port else word]] = value

    def _get(self, name: str) -> int:
        return int(self._control[self._places[name]])

    def _offer(self, name: str, source: Source) -> list[np.ndarray]:
        first = len(source.taken)
        size = stored_bytes(self._program.widths[name])
        payloads = b"".join(payload.to_bytes(size, "little") for payload in source.payloads[first:])
        items = _aligned(payloads + bytes(size))
        offers = np.array([*source.offers[first:], NEVER], np.int64)
        taken = np.zeros(len(offers), np.int64)
        pointers = {"payloads": items, "offers": offers, "taken": taken}
        self._set(name, at=0, n=len(offers) - 1, **{k: v.ctypes.data for k, v in pointers.items()})
        return [items, offers, taken]

    def _ready(self, name: str, sink: Sink, cycle: int) -> list[np.ndarray]:
        stalls = np.array(sink.stalls, np.uint8)
        payloads, cycles = self._sink_arrays[name]
        self._set(name, count=0, room=ROOM, period=len(stalls), phase=cycle % len(stalls))
        self._set(name, payloads=payloads.ctypes.data, cycles=cycles.ctypes.data, stalls=stalls.ctypes.data)
        return [payloads, cycles, stalls]

    def _take(self, name: str, sink: Sink) -> None:
        count = self._get(f"{name}.count")
        payloads, cycles = self._sink_arrays[name]
        size = stored_bytes(self._program.widths[name])
        sink.given += zip(cycles[:count].tolist(), _integers(payloads[: count * size], size), strict=True)
        self._set(name, count=0)

    def _see(self, lines: Lines, seen: np.ndarray) -> None:
        rows = seen[: self._get("cycle") - lines.cycle]
        at = 0
        for name, words in zip(self.watched, self._watch_words, strict=True):
            lines.watched[name] += _integers(
                np.ascontiguousarray(rows[:, at : at + words]).view(np.uint8).ravel(), 8 * words
            )
            at += words


def _integers(raw: np.ndarray, size: int) -> list[int]:
    """Little-endian numbers of ``size`` bytes each."""
    if size in (1, 2, 4, 8):
        return raw.view(f"<u{size}").tolist()
    text = raw.tobytes()
    return [int.from_bytes(text[k : k + size], "little") for k in range(0, len(text), size)]


def _aligned(content: bytes) -> np.ndarray:
    """A copy that begins at a multiple of 64, as LLVM may expect of wide numbers."""
    room = np.zeros(len(content) + 64, np.uint8)
    at = -room.ctypes.data % 64
    room[at : at + len(content)] = np.frombuffer(content, np.uint8)
    return room[at : at + len(content)]
