"""LLVM's assembly, a line at a time: values are integers of any width, so a payload of 134 bits is one value.

What stays true: every value is an LLVM integer of exactly its width, unsigned by itself; signs are the business of the operation.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    """A name or a literal, and its width in bits."""

    name: str
    width: int


def constant(number: int, width: int) -> Value:
    """A literal."""
    return Value(str(number & ((1 << width) - 1)), width)


class Writer:
    """Lines of one function's body."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def new(self, text: str, width: int) -> Value:
        """A new value from an instruction."""
        self._count += 1
        value = Value(f"%v{self._count}", width)
        self.line(f"{value.name} = {text}")
        return value

    def two(self, operation: str, a: Value, b: Value) -> Value:
        """``add``, ``and``, ``shl``, ... of two values of one width."""
        return self.new(f"{operation} i{a.width} {a.name}, {b.name}", a.width)

    def compare(self, how: str, a: Value, b: Value) -> Value:
        """``eq``, ``ult``, ``slt``, ... as one bit."""
        return self.new(f"icmp {how} i{a.width} {a.name}, {b.name}", 1)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        if yes == no:
            return yes
        return self.new(
            f"select i1 {condition.name}, i{yes.width} {yes.name}, i{no.width} {no.name}", yes.width
        )

    def invert(self, a: Value) -> Value:
        return self.two("xor", a, Value("-1", a.width))

    def resize(self, a: Value, width: int, signed: bool = False) -> Value:
        """Cut, or extended by zeros or by the sign."""
        if width == a.width:
            return a
        how = "trunc" if width < a.width else "sext" if signed else "zext"
        return self.new(f"{how} i{a.width} {a.name} to i{width}", width)

    def part(self, a: Value, low: int, width: int) -> Value:
        """Bits ``low`` to ``low + width - 1``."""
        if low:
            a = self.two("lshr", a, constant(low, a.width))
        return self.resize(a, width)

    def nonzero(self, a: Value) -> Value:
        return a if a.width == 1 else self.compare("ne", a, constant(0, a.width))

    def at(self, base: str, offset: Value | int) -> str:
        """A pointer ``offset`` bytes behind ``base``."""
        text = f"i64 {offset.name}" if isinstance(offset, Value) else f"i64 {offset}"
        return self.new(f"getelementptr i8, ptr {base}, {text}", 64).name

    def load(self, pointer: str, width: int) -> Value:
        """A value that was put by ``store``."""
        place = stored_bits(width)
        return self.resize(self.new(f"load i{place}, ptr {pointer}", place), width)

    def store(self, a: Value, pointer: str) -> None:
        wide = self.resize(a, stored_bits(a.width))
        self.line(f"store i{wide.width} {wide.name}, ptr {pointer}")


def stored_bits(width: int) -> int:
    """Bits that a value takes in memory: a byte, two, four, or whole words of 64 bits."""
    for place in (8, 16, 32):
        if width <= place:
            return place
    return -(-width // 64) * 64


def stored_bytes(width: int) -> int:
    return stored_bits(width) // 8
