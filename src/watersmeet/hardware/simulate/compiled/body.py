"""One cycle of a netlist as LLVM instructions: what the outputs are, and what the registers and memories become.

What stays true: all registers and memories are read as they were at the beginning of the cycle, and written after the last
read. A cell is computed after everything it depends on. Where cells depend on each other in a ring though their bits do not, those that
work on each bit alone are computed a bit at a time.

A body in many lanes is many instances of one module, a lane each: registers lie beside each other, and one vector
instruction does the work of all. Its outputs must come from registers alone (``early``), so that they are there before anybody's inputs.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from watersmeet.errors import WatersmeetError
from watersmeet.hardware.simulate.compiled.cells import BITWISE, IGNORED, Bits, compute, needs, number
from watersmeet.hardware.simulate.compiled.ir import Value, Writer, constant, stored_bytes
from watersmeet.hardware.simulate.compiled.memory import Memory

REGISTERS = frozenset({"$dff", "$dffe", "$sdff", "$sdffe", "$sdffce"})
CONSTANTS = frozenset({"0", "1", "x", "z"})
PIECE = 64  # bits of a register or of a bitwise cell that are one value, in many lanes


class Part(NamedTuple):
    """Some bits of what a cell gives, or of an input."""

    cell: str
    low: int
    width: int


class Body:
    """The cells of a netlist, their places in the state, and the order in which they are computed.

    ``place(size)`` gives out room in the state; ``outside``: bits that others give, by a name of theirs.
    """

    def __init__(
        self,
        module: Any,
        place: Callable[[int], int],
        lanes: int = 1,
        outside: Iterable[tuple[Part, Bits]] = (),
    ) -> None:
        self.module, self.lanes = module, lanes
        self.cells = {
            name: cell
            for name, cell in module["cells"].items()
            if cell["type"] not in IGNORED and cell["type"].startswith("$")
        }
        self.registers: dict[Part, int] = {}  # where their values lie
        self.memories: dict[str, Memory] = {}
        self._by_bit: dict[Any, tuple[Part | str, int]] = {}
        for part, bits in [*self.inputs(), *outside]:
            self._define(part, bits)
        for name, cell in self.cells.items():
            if cell["type"] in REGISTERS:
                bits = cell["connections"]["Q"]
                for part in self.pieces(name, len(bits)):
                    self.registers[part] = place(stored_bytes(part.width) * lanes)
                    self._define(part, bits[part.low : part.low + part.width])
            elif cell["type"] == "$mem_v2":
                memory = self.memories[name] = Memory(name, cell, lanes, place)
                for reader, bits in memory.outputs():
                    self._define(reader, bits)
        self._readers = {reader: memory for memory in self.memories.values() for reader in memory.readers}
        self.order = self._ordered()

    def pieces(self, name: str, width: int) -> list[Part]:
        """A signal as parts of a size that lanes can hold."""
        size = width if self.lanes == 1 else PIECE
        return [Part(name, low, min(size, width - low)) for low in range(0, width, size or 1)]

    def inputs(self) -> list[tuple[Part, Bits]]:
        """The input ports, in pieces."""
        return self._ports("input")

    def outputs(self) -> list[tuple[Part, Bits]]:
        """The output ports, in pieces."""
        return self._ports("output")

    def _ports(self, direction: str) -> list[tuple[Part, Bits]]:
        found = []
        for name, port in self.module["ports"].items():
            if port["direction"] == direction:
                for part in self.pieces(name, len(port["bits"])):
                    found.append((part, port["bits"][part.low : part.low + part.width]))
        return found

    def fill(self, state: bytearray) -> None:
        """The registers and memories before the first cycle."""
        first = _first_values(self.module)
        for part, at in self.registers.items():
            bits = self.cells[part.cell]["connections"]["Q"][part.low : part.low + part.width]
            value = sum(first.get(bit, 0) << k for k, bit in enumerate(bits))
            size = stored_bytes(part.width)
            state[at : at + size * self.lanes] = value.to_bytes(size, "little") * self.lanes
        for memory in self.memories.values():
            memory.fill(state)

    def moore(self) -> bool:
        """Whether no output depends on an input of the same cycle."""
        own = {part for part, _ in self.inputs()}
        return not own & self._cone([bit for _, bits in self.outputs() for bit in bits])

    def begin(self, w: Writer) -> None:
        """Reads the registers."""
        self._w = w
        self._values: dict[Part | str, Value] = {}
        for part, at in self.registers.items():
            self._values[part] = w.load(w.at("%S", at), part.width)
        for memory in self.memories.values():
            self._values.update(memory.registered(w))

    def early(self) -> dict[Part, Value]:
        """The outputs of a body whose outputs come from registers, before its inputs are known."""
        cone = self._cone([bit for _, bits in self.outputs() for bit in bits])
        self._compute([part for part in self.order if part in cone])
        return {part: self.gather(bits) for part, bits in self.outputs()}

    def give(self, values: Mapping[Part, Value]) -> None:
        """The inputs, and what others give."""
        for part, value in values.items():
            self._values[part] = value

    def compute(self) -> None:
        """Every cell."""
        self._compute(self.order)

    def end(self) -> None:
        """Writes what the registers and memories become."""
        w = self._w
        becomes = [(at, self._next(part)) for part, at in self.registers.items()]
        for memory in self.memories.values():
            becomes += memory.read(w, self.gather)
        for memory in self.memories.values():
            memory.write(w, self.gather)
        for at, value in becomes:
            w.store(value, w.at("%S", at))

    def _compute(self, order: list[Part | str]) -> None:
        for part in order:
            if part in self._values:
                continue
            if isinstance(part, str):
                self._values[part] = self._readers[part].look_up(self._w, part, self.gather)
            else:
                cell = self.cells[part.cell]
                self._values[part] = compute(self._w, cell, part.low, part.width, self.gather)

    def runs(self, bits: Bits) -> list[tuple[int, Part | str, int, int]]:
        """Where bits come from: (place among them, source, place in the source, how many)."""
        found, k = [], 0
        while k < len(bits):
            if bits[k] in CONSTANTS:
                k += 1
                continue
            source, low = self._by_bit[bits[k]]
            n = 1
            while k + n < len(bits) and self._by_bit.get(bits[k + n]) == (source, low + n):
                n += 1
            found.append((k, source, low, n))
            k += n
        return found

    def gather(self, bits: Bits) -> Value:
        """The value of some bits, from whatever holds them; of none (the address of a single row) it is 0, in LLVM's least width."""
        if not bits:
            return constant(0, 1)
        w, total = self._w, len(bits)
        known = sum((bit == "1") << k for k, bit in enumerate(bits))
        found = constant(known, total) if known else None
        for k, source, low, n in self.runs(bits):
            piece = w.resize(w.part(self._values[source], low, n), total)
            if k:
                piece = w.two("shl", piece, constant(k, total))
            found = piece if found is None else w.two("or", found, piece)
        return found or constant(0, total)

    def _next(self, part: Part) -> Value:
        """What a register becomes."""
        w, cell = self._w, self.cells[part.cell]
        ends, numbers = cell["connections"], cell["parameters"]
        now, value = self._values[part], self.gather(ends["D"][part.low : part.low + part.width])
        enable = self._control(ends, numbers, "EN")
        reset = self._control(ends, numbers, "SRST")
        first = constant(number(numbers["SRST_VALUE"]) >> part.low, value.width) if reset else None
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

    def _cone(self, bits: Bits) -> set[Part | str]:
        """Everything that bits depend on within a cycle."""
        waiting = {self._by_bit[bit][0] for bit in bits if bit not in CONSTANTS}
        found: set[Part | str] = set()
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting.update(self._below(one))
        return found

    def _ordered(self) -> list[Part | str]:
        """Parts (and reads of memories without a clock) after what they depend on."""
        registers = {part.cell for part in self.registers}
        parts: dict[str, list[Part]] = {}
        for name, cell in self.cells.items():
            width = len(cell["connections"].get("Y", ()))
            if width and name not in registers and name not in self.memories:
                bitwise = cell["type"] in BITWISE
                parts[name] = self.pieces(name, width) if bitwise else [Part(name, 0, width)]
        self._parts = {part for of in parts.values() for part in of}
        while True:
            for part in self._parts:
                self._define(part, self._given(part))
            order, ring = self._visit()
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
                self._parts.discard(part)
                self._parts |= {Part(part.cell, part.low + k, 1) for k in range(part.width)}

    def _given(self, part: Part) -> Bits:
        return self.cells[part.cell]["connections"]["Y"][part.low : part.low + part.width]

    def _visit(self) -> tuple[list[Part | str], list[Part | str]]:
        """An order, or the ring that forbids one."""
        order: list[Part | str] = []
        done: set[Part | str] = set()
        direct = [reader for memory in self.memories.values() for reader in sorted(memory.asynchronous)]
        starts: list[Part | str] = [*sorted(self._parts), *direct]
        for start in starts:
            path: dict[Part | str, None] = {}
            waiting: list[Part | str] = [start]
            while waiting:
                one = waiting[-1]
                if one in done:
                    waiting.pop()
                    continue
                if one not in path:
                    path[one] = None
                    below = self._below(one)
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
        computed = set(starts)
        return [one for one in order if one in computed], []

    def _below(self, one: Part | str) -> list[Part | str]:
        """What one depends on within the cycle."""
        if isinstance(one, str):
            memory = self._readers[one]
            bits = memory.address(one) if one in memory.asynchronous else []
        elif one in self._parts:
            bits = needs(self.cells[one.cell], one.low, one.width)
        else:
            bits = []
        return list(dict.fromkeys(self._by_bit[bit][0] for bit in bits if bit not in CONSTANTS))


def _first_values(module: Any) -> dict[Any, int]:
    first = {}
    for net in module["netnames"].values():
        text = net["attributes"].get("init")
        if text is not None:
            for bit, value in zip(net["bits"], reversed(text), strict=False):
                first[bit] = int(value == "1")
    return first
