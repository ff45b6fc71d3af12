"""One cycle of a netlist as LLVM instructions: what the outputs are, and what the registers and memories become.

What stays true: all registers and memories are read as they were at the beginning of the cycle, and written after the last
read. A cell is computed after everything it depends on. Where cells depend on each other in a ring though their bits do not, those that
work on each bit alone are computed a bit at a time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import WatersmeetError
from watersmeet.hardware.simulate.compiled.cells import (
    BITWISE,
    IGNORED,
    Bits,
    compute,
    needs,
    number,
)
from watersmeet.hardware.simulate.compiled.ir import Value, Writer, constant, stored_bytes
from watersmeet.hardware.simulate.compiled.memory import Memory

REGISTERS = frozenset({"$dff", "$dffe", "$sdff", "$sdffe", "$sdffce"})
CONSTANTS = frozenset({"0", "1", "x", "z"})


@dataclass(frozen=True)
class Part:
    """Some bits of what one cell gives."""

    cell: str
    low: int
    width: int


class Body:
    """The cells of a netlist, their places in the state, and the order in which they are computed."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.cells = {name: cell for name, cell in module["cells"].items() if cell["type"] not in IGNORED}
        self.first = _first_values(module)
        self.registers: dict[str, int] = {}  # by cell: where its value lies
        self.memories: dict[str, Memory] = {}
        self.size = 0
        for name, cell in self.cells.items():
            if cell["type"] in REGISTERS:
                self.registers[name] = self.place(stored_bytes(len(cell["connections"]["Q"])))
            elif cell["type"] == "$mem_v2":
                self.memories[name] = Memory(name, cell, self)
        self._by_bit: dict[Any, tuple[Part | str, int]] = {}
        for name, port in module["ports"].items():
            if port["direction"] == "input":
                self._define(name, port["bits"])
        for name in self.registers:
            self._define(name, self.cells[name]["connections"]["Q"])
        for memory in self.memories.values():
            for name, bits in memory.outputs():
                self._define(name, bits)
        self.order = self._ordered()

    def place(self, size: int) -> int:
        """Room for ``size`` bytes in the state."""
        at = self.size
        self.size = at + -(-size // 8) * 8
        return at

    def initial(self) -> bytearray:
        """The state before the first cycle."""
        state = bytearray(self.size)
        for name, at in self.registers.items():
            bits = self.cells[name]["connections"]["Q"]
            value = sum(self.first.get(bit, 0) << k for k, bit in enumerate(bits))
            size = stored_bytes(len(bits))
            state[at : at + size] = value.to_bytes(size, "little")
        for memory in self.memories.values():
            memory.fill(state)
        return state

    def write(self, w: Writer, inputs: dict[str, Value]) -> dict[str, Value]:
        """Writes the cycle; gives the outputs by port. ``@state`` is ``%S``."""
        self._w = w
        self._values: dict[Part | str, Value] = {}
        ports = self.module["ports"]
        for name, port in ports.items():
            if port["direction"] == "input":
                self._values[name] = inputs.get(name, constant(0, len(port["bits"])))
        for name, at in self.registers.items():
            width = len(self.cells[name]["connections"]["Q"])
            self._values[name] = w.load(w.at("%S", at), width)
        for memory in self.memories.values():
            self._values.update(memory.registered(w))
        for part in self.order:
            if isinstance(part, str):
                memory = self.memories[part.rsplit("/", 1)[0]]
                self._values[part] = memory.look_up(w, part, self.gather)
            else:
                self._values[part] = compute(w, self.cells[part.cell], part.low, part.width, self.gather)
        outputs = {
            name: self.gather(port["bits"]) for name, port in ports.items() if port["direction"] == "output"
        }
        becomes = [(at, self._next(name)) for name, at in self.registers.items()]
        read = [place for memory in self.memories.values() for place in memory.read(w, self.gather)]
        for memory in self.memories.values():
            memory.write(w, self.gather)
        for at, value in [*becomes, *read]:
            w.store(value, w.at("%S", at))
        return outputs

    def gather(self, bits: Bits) -> Value:
        """The value of some bits, from whatever holds them."""
        w, total = self._w, len(bits)
        known = sum((bit == "1") << k for k, bit in enumerate(bits))
        found = constant(known, total) if known else None
        k = 0
        while k < total:
            if bits[k] in CONSTANTS:
                k += 1
                continue
            source, low = self._by_bit[bits[k]]
            n = 1
            while k + n < total and self._by_bit.get(bits[k + n]) == (source, low + n):
                n += 1
            piece = w.resize(w.part(self._values[source], low, n), total)
            if k:
                piece = w.two("shl", piece, constant(k, total))
            found = piece if found is None else w.two("or", found, piece)
            k += n
        return found or constant(0, total)

    def _next(self, name: str) -> Value:
        """What a register becomes."""
        w, cell = self._w, self.cells[name]
        ends, numbers = cell["connections"], cell["parameters"]
        now, value = self._values[name], self.gather(ends["D"])
        enable = self._control(ends, numbers, "EN")
        reset = self._control(ends, numbers, "SRST")
        first = constant(number(numbers["SRST_VALUE"]), value.width) if reset else None
        if cell["type"] == "$sdffce" and reset and first:
            value = w.select(reset, first, value)
        if enable:
            value = w.select(enable, value, now)
        if cell["type"] != "$sdffce" and reset and first:
            value = w.select(reset, first, value)
        return value

    def _control(self, ends: Any, numbers: Any, port: str) -> Value | None:
        if port not in ends:
            return None
        value = self.gather(ends[port])
        return value if number(numbers[f"{port}_POLARITY"]) else self._w.invert(value)

    def _define(self, name: Part | str, bits: Iterable[Any]) -> None:
        for k, bit in enumerate(bits):
            if bit not in CONSTANTS:
                self._by_bit[bit] = (name, k)

    def _ordered(self) -> list[Part | str]:
        """Parts (and reads of memories without a clock) after what they depend on."""
        whole = {
            name: [Part(name, 0, len(cell["connections"]["Y"]))]
            for name, cell in self.cells.items()
            if name not in self.registers and name not in self.memories
        }
        while True:
            parts = [part for of in whole.values() for part in of]
            for part in parts:
                self._define(
                    part, self.cells[part.cell]["connections"]["Y"][part.low : part.low + part.width]
                )
            order, ring = self._visit(parts)
            if not ring:
                return order
            split = [
                part
                for part in ring
                if isinstance(part, Part) and part.width > 1 and self.cells[part.cell]["type"] in BITWISE
            ]
            if not split:
                raise WatersmeetError("a design must have no loop without a register; got one; register it")
            for part in split:
                whole[part.cell] = [
                    Part(part.cell, k, 1) for k in range(len(self.cells[part.cell]["connections"]["Y"]))
                ]

    def _visit(self, parts: list[Part]) -> tuple[list[Part | str], list[Part | str]]:
        """An order, or the ring that forbids one."""
        order: list[Part | str] = []
        done: set[Part | str] = set()
        asynchronous = {name for memory in self.memories.values() for name in memory.asynchronous}
        starts: list[Part | str] = [*parts, *sorted(asynchronous)]
        for start in starts:
            path: dict[Part | str, Any] = {}
            waiting: list[Part | str] = [start]
            while waiting:
                one = waiting[-1]
                if one in done:
                    waiting.pop()
                    continue
                if one not in path:
                    path[one] = None
                    below = self._below(one, asynchronous)
                    for other in below:
                        if other in path and other not in done:
                            inside = list(path)
                            return order, inside[inside.index(other) :]
                    waiting += [other for other in below if other not in done]
                    if waiting[-1] is not one:
                        continue
                path.pop(one, None)
                done.add(one)
                order.append(one)
                waiting.pop()
        return order, []

    def _below(self, one: Part | str, asynchronous: set[str]) -> list[Part | str]:
        if isinstance(one, Part):
            bits = needs(self.cells[one.cell], one.low, one.width)
        else:
            bits = self.memories[one.rsplit("/", 1)[0]].address(one)
        found = {self._by_bit[bit][0] for bit in bits if bit not in CONSTANTS}
        return [other for other in found if isinstance(other, Part) or other in asynchronous]


def _first_values(module: Any) -> dict[Any, int]:
    first = {}
    for net in module["netnames"].values():
        text = net["attributes"].get("init")
        if text is not None:
            for bit, value in zip(net["bits"], reversed(text), strict=False):
                first[bit] = int(value == "1")
    return first
