"""A memory cell as LLVM instructions: reads with or without a clock, writes with a mask. In many lanes, each has a memory of its own.

What stays true: a read with a clock gives what stood there before the cycle's writes, except where the port is transparent for a
write port; of two writes to one place the later port wins. An address outside gives 0, and a write there is lost, as in
Amaranth's simulator.
"""

from collections.abc import Callable, Iterator
from typing import Any

from watersmeet.hardware.simulate.compiled.cells import Bits, Gather, number
from watersmeet.hardware.simulate.compiled.ir import Value, Writer, constant, stored_bytes


class Memory:
    """One ``$mem_v2`` cell. A read port is called ``CELL/k``. ``place(size)`` gives out room in the state."""

    def __init__(self, name: str, cell: Any, lanes: int, place: Callable[[int], int]) -> None:
        self.ends, numbers = cell["connections"], cell["parameters"]
        self._numbers, self.lanes = numbers, lanes
        self.width, self.depth = number(numbers["WIDTH"]), number(numbers["SIZE"])
        self.address_bits = number(numbers["ABITS"])
        self.step = stored_bytes(self.width)
        self.at = place(self.step * self.depth * lanes)
        self.readers = [f"{name}/{k}" for k in range(number(numbers["RD_PORTS"]))]
        self.writers = number(numbers["WR_PORTS"])
        clocked = number(numbers["RD_CLK_ENABLE"])
        self.asynchronous = {reader for k, reader in enumerate(self.readers) if not clocked >> k & 1}
        self._places = {
            reader: place(self.step * lanes) for reader in self.readers if reader not in self.asynchronous
        }

    def fill(self, state: bytearray) -> None:
        """First values of the rows and of the registered reads."""
        rows, mask = number(self._numbers["INIT"]), (1 << self.width) - 1
        if rows:
            one = b"".join(
                (rows >> k * self.width & mask).to_bytes(self.step, "little") for k in range(self.depth)
            )
            state[self.at : self.at + len(one) * self.lanes] = one * self.lanes
        reads = number(self._numbers["RD_INIT_VALUE"])
        for k, reader in enumerate(self.readers):
            if reader in self._places:
                at, first = self._places[reader], (reads >> k * self.width & mask)
                state[at : at + self.step * self.lanes] = first.to_bytes(self.step, "little") * self.lanes

    def outputs(self) -> Iterator[tuple[str, Bits]]:
        """Each read port and the bits that it gives."""
        for k, reader in enumerate(self.readers):
            yield reader, self.ends["RD_DATA"][k * self.width : (k + 1) * self.width]

    def address(self, reader: str) -> Bits:
        k = self.readers.index(reader)
        return self.ends["RD_ADDR"][k * self.address_bits : (k + 1) * self.address_bits]

    def registered(self, w: Writer) -> dict[str, Value]:
        """What the reads with a clock show in this cycle."""
        return {reader: w.load(w.at("%S", at), self.width) for reader, at in self._places.items()}

    def look_up(self, w: Writer, reader: str, gather: Gather) -> Value:
        """What stands at a read port's address."""
        one = w.on(1)
        pointers, inside = self._rows(w, gather(self.address(reader)))
        found = w.joined([one.load(pointer, self.width) for pointer in pointers])
        return w.select(inside, found, constant(0, self.width)) if inside else found

    def read(self, w: Writer, gather: Gather) -> list[tuple[int, Value]]:
        """What the registers of reads with a clock become, and where they lie."""
        becomes = []
        for k, reader in enumerate(self.readers):
            if reader not in self._places:
                continue
            found = self.look_up(w, reader, gather)
            for writer in range(self.writers):
                if number(self._numbers["RD_TRANSPARENCY_MASK"]) >> (k * self.writers + writer) & 1:
                    found = self._through(w, reader, writer, found, gather)
            now = w.load(w.at("%S", self._places[reader]), self.width)
            found = w.select(gather([self.ends["RD_EN"][k]]), found, now)
            becomes.append((self._places[reader], found))
        return becomes

    def write(self, w: Writer, gather: Gather) -> None:
        """Stores what the write ports say."""
        one = w.on(1)
        for writer in range(self.writers):
            data, mask, address = self._writing(gather, writer)
            pointers, inside = self._rows(w, address)
            if inside:
                mask = w.select(inside, mask, constant(0, self.width))
            for pointer, new, bits in zip(pointers, w.each(data), w.each(mask), strict=True):
                one.store(_blend(one, one.load(pointer, self.width), new, bits), pointer)

    def _through(self, w: Writer, reader: str, writer: int, found: Value, gather: Gather) -> Value:
        """What a transparent port sees of a write in the same cycle."""
        data, mask, address = self._writing(gather, writer)
        same = w.compare("eq", address, gather(self.address(reader)))
        return w.select(same, _blend(w, found, data, mask), found)

    def _writing(self, gather: Gather, k: int) -> tuple[Value, Value, Value]:
        span = slice(k * self.width, (k + 1) * self.width)
        address = self.ends["WR_ADDR"][k * self.address_bits : (k + 1) * self.address_bits]
        return gather(self.ends["WR_DATA"][span]), gather(self.ends["WR_EN"][span]), gather(address)

    def _rows(self, w: Writer, address: Value) -> tuple[list[str], Value | None]:
        """Each lane's pointer to the row at an address (the first if outside), and whether it is inside, if that is a question."""
        inside = None
        if self.depth < 1 << self.address_bits:
            inside = w.compare("ult", address, constant(self.depth, self.address_bits))
            address = w.select(inside, address, constant(0, self.address_bits))
        one, pointers = w.on(1), []
        for k, place in enumerate(w.each(address)):
            offset = one.two("mul", one.resize(place, 64), constant(self.step, 64))
            base = self.at + k * self.step * self.depth
            pointers.append(one.at("%S", one.two("add", offset, constant(base, 64))))
        return pointers, inside


def _blend(w: Writer, old: Value, new: Value, mask: Value) -> Value:
    return w.two("or", w.two("and", old, w.invert(mask)), w.two("and", new, mask))
