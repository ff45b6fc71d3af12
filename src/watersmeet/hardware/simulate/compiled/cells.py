"""What each of Yosys's cells means, as LLVM instructions.

Operands are extended to the cell's width by their own signedness before the operation, as Yosys has it. A cell that works on
each bit alone (``BITWISE``) can be computed in parts: the part of the output from ``low`` on.
"""

from collections.abc import Callable
from typing import Any

from watersmeet.errors import WatersmeetError
from watersmeet.hardware.simulate.compiled.ir import Value, Writer, constant

BITWISE = frozenset({"$and", "$or", "$xor", "$xnor", "$not", "$pos", "$mux", "$pmux"})
IGNORED = frozenset(
    {"$scopeinfo", "$check", "$print", "$assert", "$assume", "$cover", "$live", "$fair", "$set_tag"}
)
COMPARE = {
    "$eq": "eq",
    "$ne": "ne",
    "$eqx": "eq",
    "$nex": "ne",
    "$lt": "lt",
    "$le": "le",
    "$gt": "gt",
    "$ge": "ge",
}
WORDS = {"$and": "and", "$or": "or", "$xor": "xor", "$add": "add", "$sub": "sub", "$mul": "mul"}
SHIFTS = frozenset({"$shl", "$sshl", "$shr", "$sshr", "$shift", "$shiftx"})
DIVISIONS = frozenset({"$div", "$mod", "$divfloor", "$modfloor"})
Bits = list[Any]
Gather = Callable[[Bits], Value]


def number(text: str) -> int:
    """A parameter of a cell; what is undefined is 0."""
    return int(text.replace("x", "0").replace("z", "0") or "0", 2)


def extend(bits: Bits, width: int, signed: bool) -> Bits:
    """Cut, or extended by zeros or by the highest bit."""
    return bits[:width] + [bits[-1] if signed and bits else "0"] * (width - len(bits))


def signed(cell: Any, port: str = "A") -> bool:
    """Whether an operand is a signed number."""
    return number(cell["parameters"].get(f"{port}_SIGNED", "0")) == 1


def needs(cell: Any, low: int, width: int) -> Bits:
    """All bits that a part of a cell's output depends on."""
    kind, ends = cell["type"], cell["connections"]
    if kind not in BITWISE:
        return [bit for port, bits in ends.items() if port != "Y" for bit in bits]
    return [bit for bits in _slices(cell, low, width) for bit in bits] + list(ends.get("S", []))


def _slices(cell: Any, low: int, width: int) -> list[Bits]:
    """The operands of one part of a bitwise cell: A, B, or A and each choice of B."""
    kind, ends = cell["type"], cell["connections"]
    full = len(ends["Y"])
    if kind == "$pmux":
        choices = [ends["B"][k * full :][low : low + width] for k in range(len(ends["S"]))]
        return [ends["A"][low : low + width], *choices]
    return [extend(ends[port], full, signed(cell, port))[low : low + width] for port in "AB" if port in ends]


def compute(w: Writer, cell: Any, low: int, width: int, gather: Gather) -> Value:
    """The part of the output from bit ``low`` on, of ``width`` bits."""
    kind = cell["type"]
    if kind in BITWISE:
        return _bitwise(w, cell, gather, _slices(cell, low, width))
    if kind in SHIFTS:
        return _shift(w, cell, gather)
    if kind in DIVISIONS:
        return _divide(w, cell, gather)
    if kind in COMPARE:
        return w.resize(_compare(w, cell, gather), width)
    if kind in WORDS or kind == "$neg":
        ends = cell["connections"]
        a = gather(extend(ends["A"], width, signed(cell, "A")))
        if kind == "$neg":
            return w.two("sub", constant(0, width), a)
        return w.two(WORDS[kind], a, gather(extend(ends["B"], width, signed(cell, "B"))))
    return w.resize(_one_bit(w, cell, gather), width)


def _bitwise(w: Writer, cell: Any, gather: Gather, operands: list[Bits]) -> Value:
    kind, ends = cell["type"], cell["connections"]
    first = gather(operands[0])
    if kind == "$not":
        return w.invert(first)
    if kind == "$pos":
        return first
    if kind in ("$mux", "$pmux"):
        for choice, bits in zip(ends["S"], operands[1:], strict=True):
            first = w.select(gather([choice]), gather(bits), first)
        return first
    second = gather(operands[1])
    if kind == "$xnor":
        return w.invert(w.two("xor", first, second))
    return w.two(WORDS[kind], first, second)


def _compare(w: Writer, cell: Any, gather: Gather) -> Value:
    ends, both = cell["connections"], signed(cell, "A") and signed(cell, "B")
    width = max(len(ends["A"]), len(ends["B"]))
    a, b = (gather(extend(ends[port], width, both)) for port in "AB")
    how = COMPARE[cell["type"]]
    return w.compare(how if how in ("eq", "ne") else ("s" if both else "u") + how, a, b)


def _one_bit(w: Writer, cell: Any, gather: Gather) -> Value:
    kind, ends = cell["type"], cell["connections"]
    a = gather(ends["A"])
    if kind in ("$reduce_or", "$reduce_bool"):
        return w.nonzero(a)
    if kind == "$reduce_and":
        if not ends["A"]:
            return constant(1, 1)
        return w.compare("eq", a, constant(-1, a.width))
    if kind in ("$reduce_xor", "$reduce_xnor"):
        return w.odd(a) if kind == "$reduce_xor" else w.invert(w.odd(a))
    if kind == "$logic_not":
        return w.compare("eq", a, constant(0, a.width))
    if kind in ("$logic_and", "$logic_or"):
        return w.two(kind[7:], w.nonzero(a), w.nonzero(gather(ends["B"])))
    raise WatersmeetError(
        f"a cell must be one that the compiled simulator knows; got {kind}; use simulator='python', and report it"
    )


def _shift(w: Writer, cell: Any, gather: Gather) -> Value:
    kind, ends = cell["type"], cell["connections"]
    full = len(ends["Y"])
    width = max(full, len(ends["A"]))
    a = gather(extend(ends["A"], width, signed(cell, "A")))
    amount = gather(ends["B"])
    both_ways = kind in ("$shift", "$shiftx")
    right = "ashr" if signed(cell, "A") and (both_ways or kind == "$sshr") else "lshr"
    if both_ways and signed(cell, "B"):
        left = _by(w, "shl", a, w.two("sub", constant(0, amount.width), amount))
        negative = w.compare("slt", amount, constant(0, amount.width))
        return w.resize(w.select(negative, left, _by(w, right, a, amount)), full)
    return w.resize(_by(w, "shl" if kind in ("$shl", "$sshl") else right, a, amount), full)


def _by(w: Writer, how: str, a: Value, amount: Value) -> Value:
    """A shift by any amount; one by the width or more gives zeros, or signs."""
    common = max(a.width.bit_length(), amount.width)
    wide = w.resize(amount, common)
    over = w.compare("uge", wide, constant(a.width, common))
    short = w.select(over, constant(0, a.width), w.resize(amount, a.width))
    none = w.two("ashr", a, constant(a.width - 1, a.width)) if how == "ashr" else constant(0, a.width)
    return w.select(over, none, w.two(how, a, short))


def _divide(w: Writer, cell: Any, gather: Gather) -> Value:
    """Division and remainder, towards zero or (``floor``) downwards; by zero: zero, as in Amaranth."""
    kind, ends, both = cell["type"], cell["connections"], signed(cell, "A") and signed(cell, "B")
    full = len(ends["Y"])
    width = max(full, len(ends["A"]), len(ends["B"])) + both  # room for the least number divided by -1
    if width > 64:
        raise WatersmeetError(
            f"a division must have at most {64 - both} bits; got {width - both}; use simulator='python'"
        )
    zero = constant(0, width)
    a, b = (gather(extend(ends[port], width, both)) for port in "AB")
    nothing = w.compare("eq", b, zero)
    b = w.select(nothing, constant(1, width), b)
    quotient = w.two("sdiv" if both else "udiv", a, b)
    rest = w.two("srem" if both else "urem", a, b)
    if kind.endswith("floor") and both:
        differ = w.compare("slt", w.two("xor", a, b), zero)
        off = w.two("and", differ, w.compare("ne", rest, zero))
        quotient = w.two("sub", quotient, w.resize(off, width))
        rest = w.select(off, w.two("add", rest, b), rest)
    found = quotient if kind.startswith("$div") else rest
    return w.resize(w.select(nothing, zero, found), full)
