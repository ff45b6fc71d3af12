"""Murmur3 of a 64-bit key under two seeds, in five steps of a pipeline: one 32-bit product, or none, between two registers.

What stays true: ``hashes(key)`` in Python is what the hardware gives. The mixing of the key does not depend on the seed and is shared, so
both functions take eight 32-bit multipliers: 32 DSP blocks of four each, as the thesis counts for a stage with one HB-SJ (table 7.3.1).
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

STEPS = 5
SEEDS = (0x9747B28C, 0x1B873593)
_C1, _C2, _N, _F1, _F2 = 0xCC9E2D51, 0x1B873593, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35
_MASK = (1 << 32) - 1


def hashes(key: int) -> tuple[int, int]:
    """Murmur3's 32 bits of the key's eight bytes, under each seed."""
    key &= (1 << 64) - 1
    return tuple(_hash(key, seed) for seed in SEEDS)  # type: ignore[return-value]


def _hash(key: int, seed: int) -> int:
    def turned(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & _MASK

    found = seed
    for part in (key & _MASK, key >> 32):
        found ^= turned(part * _C1 & _MASK, 15) * _C2 & _MASK
        found = (turned(found, 13) * 5 + _N) & _MASK
    found ^= 8
    found = (found ^ found >> 16) * _F1 & _MASK
    found = (found ^ found >> 13) * _F2 & _MASK
    return found ^ found >> 16


class Murmur(wiring.Component):
    """``key`` to ``first`` and ``second``, ``STEPS`` cycles later in which ``go`` is high."""

    def __init__(self) -> None:
        super().__init__({"key": In(64), "go": In(1), "first": Out(32), "second": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parts = [self.key[:32], self.key[32:]]
        products, mixed = [], []
        for k, part in enumerate(parts):
            product, mix = Signal(32, name=f"product_{k}"), Signal(32, name=f"mix_{k}")
            with m.If(self.go):
                m.d.sync += [product.eq(part * _C1), mix.eq(_turned(product, 15) * _C2)]
            products.append(product)
            mixed.append(mix)
        for k, (seed, out) in enumerate(zip(SEEDS, (self.first, self.second), strict=True)):
            state = Const(seed, 32)
            value: Any = state
            for step, mix in enumerate(mixed):
                next_one = Signal(32, name=f"state_{k}_{step}")
                turned = _turned((value ^ mix)[:32], 13)
                m.d.comb += next_one.eq((turned << 2) + turned + _N)
                value = next_one
            before, middle, after = (Signal(32, name=f"{name}_{k}") for name in ("before", "middle", "after"))
            with m.If(self.go):
                m.d.sync += [
                    before.eq(value ^ 8),
                    middle.eq((before ^ before[16:])[:32] * _F1),
                    after.eq((middle ^ middle[13:])[:32] * _F2),
                ]
            m.d.comb += out.eq(after ^ after[16:])
        return m


def _turned(value: Value, by: int) -> Value:
    return Cat(value[32 - by :], value[: 32 - by])
