"""A comparison as blocks know it: ``left condition right + constant``, of signed 64-bit values that may be NULL.

What stays true: a comparison with NULL does not hold, but for ``<=>``, by which two NULLs are equal; the sum has as many bits as it needs.
"""

from typing import Any

from amaranth.hdl import Module, Signal, Value


def holds(m: Module, condition: Value, left: Any, right: Any, constant: Value, name: str) -> Signal:
    """Whether it holds. ``left`` and ``right`` are ``VALUE``; the condition is its place in ``operator.CONDITIONS``."""
    equal, less, found = Signal(name=f"{name}_equal"), Signal(name=f"{name}_less"), Signal(name=name)
    total = Signal(65, name=f"{name}_sum")
    m.d.comb += [
        total.eq(right.value.as_signed() + constant.as_signed()),
        equal.eq(left.value.as_signed() == total.as_signed()),
        less.eq(left.value.as_signed() < total.as_signed()),
    ]
    known = ~left.null & ~right.null
    with m.Switch(condition):
        for k, case in enumerate((equal, ~equal, less, less | equal, ~less & ~equal, ~less)):
            with m.Case(k):
                m.d.comb += found.eq(known & case)
        with m.Default():
            m.d.comb += found.eq((known & equal) | (left.null & right.null))
    return found
