"""Whole numbers of several words that fit one: most decimals have 16 bytes, and few digits.

A number's *size* is itself where it is not negative, and one less than its magnitude where it is: the bits that it has beside its sign. The
OR of all sizes has as many bits as the largest, and no loop need compare.
"""

import numba
import numpy as np

from watersmeet.kernels.jit import kernel

WIDE = np.int64(-1)
LOW32 = np.int64(0xFFFFFFFF)


@kernel
def narrow(words, step, valid, out):
    """The numbers of ``step`` words each, the lowest first, as one word; 0 where there is none (an empty mask: all are there).

    Returns the OR of their sizes; WIDE: one does not fit.
    """
    sizes, over, everywhere = np.int64(0), np.int64(0), valid.size == 0
    if everywhere and step == 2:  # the common case, without a branch in the loop
        for i in range(out.size):
            number = words[2 * i]
            sign = number >> 63
            over |= words[2 * i + 1] ^ sign
            sizes |= number ^ sign
            out[i] = number
        return WIDE if over else sizes
    for i in range(out.size):
        number = np.int64(0)
        if everywhere or valid[i]:
            number = words[step * i]
            sign = number >> 63
            for j in range(1, step):
                over |= words[step * i + j] ^ sign
            sizes |= number ^ sign
        out[i] = number
    return WIDE if over else sizes


@kernel
def widen(numbers, step, out):
    """Numbers of one word as numbers of ``step`` words."""
    for i in range(numbers.size):
        out[step * i] = numbers[i]
        for j in range(1, step):
            out[step * i + j] = numbers[i] >> 63


@kernel
def total(slots, words, step, valid, totals, counts):
    """Add the numbers of ``step`` words each to the totals of their slots, as one word each; count them, unless all are there.

    Returns the OR of their sizes; WIDE: one does not fit. Then, and if so many of that size might not fit, the totals are of no use. 64K
    numbers in 4 groups: 2.0 ns each, 4.8 added to limbs. Tried and lost: two and four totals a slot, so that no addition waits for the one
    before it (1.8 and 1.9: the words come from memory).
    """
    sizes, over = np.int64(0), np.int64(0)
    if valid.size == 0 and step == 2:
        for i in range(slots.size):
            number = words[2 * i]
            sign = number >> 63
            over |= words[2 * i + 1] ^ sign
            sizes |= number ^ sign
            totals[slots[i]] += number
        return WIDE if over else sizes
    everywhere = valid.size == 0
    for i in range(slots.size):
        if everywhere or valid[i]:
            number = words[step * i]
            sign = number >> 63
            for j in range(1, step):
                over |= words[step * i + j] ^ sign
            sizes |= number ^ sign
            totals[slots[i]] += number
            if not everywhere:
                counts[slots[i]] += 1
    return WIDE if over else sizes


@kernel
def add_totals(totals, sign, limbs):
    """Add a total a slot to its limbs (sign 1), or take it away (-1)."""
    for slot in range(totals.size):
        limbs[slot, 0] += sign * (totals[slot] & LOW32)
        limbs[slot, 1] += sign * (totals[slot] >> 32)


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    # Numbers that are too large wrap; the caller sees them by their sizes.
    total = np.errstate(over="ignore")(total)
