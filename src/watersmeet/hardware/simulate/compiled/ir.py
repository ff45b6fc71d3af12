"""LLVM's assembly, a line at a time: values are integers of any width, in one lane or in many.

What stays true: a value means one unsigned number of exactly its width a lane; signs are the business of the operation. In one lane it is
an LLVM integer of that width, so a payload of 134 bits is one value. In many lanes it is a vector of machine words (*boxes*: 1, 32,
64 bits, or more words) whose bits above the width are zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    """A name or a literal, and its width in bits."""

    name: str
    width: int


def constant(number: int, width: int) -> Value:
    """A literal; the same in all lanes."""
    return Value(str(number & ((1 << width) - 1)), width)


class Writer:
    """Lines of one function's body. ``on(lanes)`` writes to the same lines, with values of so many lanes."""

    def __init__(self, lanes: int = 1, share: "Writer | None" = None) -> None:
        self.lanes = lanes
        self.lines: list[str] = share.lines if share else []
        self._count: list[int] = share._count if share else [0]

    def on(self, lanes: int) -> "Writer":
        return Writer(lanes, self)

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def new(self, text: str, width: int) -> Value:
        """A new value from an instruction."""
        self._count[0] += 1
        value = Value(f"%v{self._count[0]}", width)
        self.line(f"{value.name} = {text}")
        return value

    def box(self, width: int) -> int:
        """Bits of the LLVM integer that holds a value."""
        if self.lanes == 1 or width == 1:
            return width
        return 32 if width <= 32 else -(-width // 64) * 64

    def typed(self, bits: int) -> str:
        return f"i{bits}" if self.lanes == 1 else f"<{self.lanes} x i{bits}>"

    def text(self, a: Value) -> str:
        """An operand without its type."""
        if self.lanes > 1 and a.name.isdigit():
            return f"splat (i{self.box(a.width)} {a.name})"
        return a.name

    def operand(self, a: Value) -> str:
        return f"{self.typed(self.box(a.width))} {self.text(a)}"

    def two(self, operation: str, a: Value, b: Value) -> Value:
        """``add``, ``and``, ``shl``, ... of two values of one width."""
        if operation in ("ashr", "sdiv", "srem"):
            a = self._signed(a)
            b = b if operation == "ashr" else self._signed(b)
        found = self.new(f"{operation} {self.operand(a)}, {self.text(b)}", a.width)
        return found if operation in ("and", "or", "xor", "lshr", "udiv", "urem") else self._clean(found)

    def compare(self, how: str, a: Value, b: Value) -> Value:
        """``eq``, ``ult``, ``slt``, ... as one bit."""
        if how.startswith("s"):
            a, b = self._signed(a), self._signed(b)
        return self.new(f"icmp {how} {self.operand(a)}, {self.text(b)}", 1)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        if yes == no:
            return yes
        return self.new(
            f"select {self.operand(condition)}, {self.operand(yes)}, {self.operand(no)}", yes.width
        )

    def invert(self, a: Value) -> Value:
        return self.two("xor", a, constant(-1, a.width))

    def resize(self, a: Value, width: int, signed: bool = False) -> Value:
        """Cut, or extended by zeros or by the sign."""
        old, box = self.box(a.width), self.box(width)
        if width == a.width:
            return a
        if signed and width > a.width:
            a = self._signed(a)
        if box != old:
            how = "trunc" if box < old else "sext" if signed else "zext"
            a = self.new(f"{how} {self.typed(old)} {self._of(a, old)} to {self.typed(box)}", width)
        elif a.name.isdigit():
            return constant(int(a.name), width)
        shrinks = width < a.width or box < old or signed
        a = Value(a.name, width)
        return self._clean(a) if shrinks else a

    def _of(self, a: Value, box: int) -> str:
        return f"splat (i{box} {a.name})" if self.lanes > 1 and a.name.isdigit() else a.name

    def _clean(self, a: Value) -> Value:
        """With zeros above the width."""
        if self.box(a.width) == a.width:
            return a
        return self.new(f"and {self.operand(a)}, {self.text(constant(-1, a.width))}", a.width)

    def _signed(self, a: Value) -> Value:
        """With the sign above the width, for one operation."""
        more = self.box(a.width) - a.width
        if not more:
            return a
        kind, by = self.typed(self.box(a.width)), self._of(Value(str(more), 0), self.box(a.width))
        up = self.new(f"shl {self.operand(a)}, {by}", a.width)
        return self.new(f"ashr {kind} {up.name}, {by}", a.width)

    def part(self, a: Value, low: int, width: int) -> Value:
        """Bits ``low`` to ``low + width - 1``."""
        if low:
            a = self.two("lshr", a, constant(low, a.width))
        return self.resize(a, width)

    def nonzero(self, a: Value) -> Value:
        return a if a.width == 1 else self.compare("ne", a, constant(0, a.width))

    def odd(self, a: Value) -> Value:
        """Whether an odd number of bits is set."""
        kind = self.typed(self.box(a.width))
        suffix = f"i{a.width}" if self.lanes == 1 else f"v{self.lanes}i{self.box(a.width)}"
        return self.resize(self.new(f"call {kind} @llvm.ctpop.{suffix}({self.operand(a)})", a.width), 1)

    def at(self, base: str, offset: Value | int) -> str:
        """A pointer ``offset`` bytes behind ``base``."""
        text = f"i64 {offset.name}" if isinstance(offset, Value) else f"i64 {offset}"
        return self.new(f"getelementptr i8, ptr {base}, {text}", 64).name

    def load(self, pointer: str, width: int) -> Value:
        """A value that was put by ``store``: lanes one after another."""
        place, box = stored_bits(width), self.box(width)
        found = self.new(f"load {self.typed(place)}, ptr {pointer}, align {self._align(place)}", place)
        if place != box:
            how = "trunc" if box < place else "zext"
            found = self.new(f"{how} {self.typed(place)} {found.name} to {self.typed(box)}", width)
        return Value(found.name, width)

    def store(self, a: Value, pointer: str) -> None:
        place, box, name = stored_bits(a.width), self.box(a.width), self.text(a)
        if place != box:
            how = "trunc" if place < box else "zext"
            name = self.new(f"{how} {self.typed(box)} {name} to {self.typed(place)}", a.width).name
        self.line(f"store {self.typed(place)} {name}, ptr {pointer}, align {self._align(place)}")

    def _align(self, place: int) -> int:
        return 8 if self.lanes > 1 else min(8, place // 8)

    # Between one lane and many.

    def each(self, a: Value) -> list[Value]:
        """The lanes of a value, as values of one lane."""
        if self.lanes == 1:
            return [a]
        return [self.lane(a, k) for k in range(self.lanes)]

    def lane(self, a: Value, k: int) -> Value:
        if self.lanes == 1 or a.name.isdigit():
            return a
        box = self.box(a.width)
        found = self.new(f"extractelement {self.operand(a)}, i32 {k}", box)
        return self.on(1).resize(found, a.width)

    def joined(self, lanes: Sequence[Value | None], start: Value | None = None) -> Value:
        """One value from its lanes; None where ``start`` has it."""
        width = next(one.width for one in lanes if one is not None)
        if self.lanes == 1:
            return next(one for one in lanes if one is not None)
        box = self.box(width)
        if start is None:
            literals = [one.name if one is not None and one.name.isdigit() else "0" for one in lanes]
            start = Value("<" + ", ".join(f"i{box} {text}" for text in literals) + ">", width)
        else:
            lanes = list(lanes)
        for k, one in enumerate(lanes):
            if one is None or (one.name.isdigit() and start.name.startswith("<")):
                continue
            wide = self.on(1).resize(one, box)
            start = self.new(f"insertelement {self.operand(start)}, i{box} {wide.name}, i32 {k}", width)
        return start

    def shuffled(self, a: Value, lanes: int, picks: Sequence[int | None]) -> Value:
        """Lane k of the result is lane ``picks[k]`` of ``a``, which has ``lanes`` lanes."""
        source = self.on(lanes)
        if lanes == 1:
            return self.joined([a if pick is not None else constant(0, a.width) for pick in picks])
        mask = ", ".join("i32 poison" if pick is None else f"i32 {pick}" for pick in picks)
        kind = source.typed(source.box(a.width))
        return self.new(
            f"shufflevector {source.operand(a)}, {kind} poison, <{self.lanes} x i32> <{mask}>", a.width
        )


def stored_bits(width: int) -> int:
    """Bits that a value takes in memory: a byte, two, four, or whole words of 64 bits."""
    for place in (8, 16, 32):
        if width <= place:
            return place
    return -(-width // 64) * 64


def stored_bytes(width: int) -> int:
    return stored_bits(width) // 8
