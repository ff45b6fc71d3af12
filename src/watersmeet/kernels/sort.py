"""Sorting a batch once: keys ascending, with the position each came from.

A key and its position share one int64 (key in the high bits), so that NumPy's vectorised sort of plain integers does the work. Where
the keys span too many bits, their low bits are dropped, and the few neighbours this leaves out of order are mended.
"""

import numpy as np

from watersmeet.kernels.jit import kernel

_FIRST = np.zeros(1, np.int32)
WORD = 63  # bits of a non-negative int64
FEW = 64  # a mended group longer than this: sort by the full key instead


@kernel
def extent(keys):
    """Smallest and largest key; O(n)."""
    low = keys[0]
    high = keys[0]
    for key in keys:
        if key < low:
            low = key
        if key > high:
            high = key
    return low, high


@kernel
def is_sorted(keys):
    """Whether keys are ascending already; stops at the first descent."""
    i = 1
    while i < keys.size and keys[i] >= keys[i - 1]:
        i += 1
    return i >= keys.size


@kernel
def pack(keys, low, bits, out):
    for i in range(keys.size):
        out[i] = ((keys[i] - low) << bits) | i


@kernel
def unpack(packed, low, bits, keys, order):
    mask = (1 << bits) - 1
    for i in range(packed.size):
        keys[i] = (packed[i] >> bits) + low
        order[i] = packed[i] & mask


@kernel
def unpack_order(packed, bits, source, keys, order):
    mask = (1 << bits) - 1
    for i in range(packed.size):
        position = packed[i] & mask
        order[i] = position
        keys[i] = source[position]


@kernel
def mend(keys, order, few):
    """Insertion sort of an almost sorted array; False as soon as one key has to move further than ``few``."""
    for i in range(1, keys.size):
        key = keys[i]
        if key >= keys[i - 1]:
            continue
        row = order[i]
        j = i
        while j > 0 and keys[j - 1] > key:
            if i - j > few:
                return False
            keys[j] = keys[j - 1]
            order[j] = order[j - 1]
            j -= 1
        keys[j] = key
        order[j] = row
    return True


def sort_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``keys`` (int64) ascending, and the int32 position of each in the input. Neither is to be written to."""
    n = keys.size
    if n < 2:
        return keys, _FIRST[:n]
    if is_sorted(keys):
        return keys, np.arange(n, dtype=np.int32)
    low, high = map(int, extent(keys))
    bits = (n - 1).bit_length()
    dropped = max(0, (high - low).bit_length() + bits - WORD)
    ordered, order = np.empty(n, np.int64), np.empty(n, np.int32)
    if not dropped:
        packed = np.empty(n, np.int64)
        pack(keys, low, bits, packed)
        packed.sort()
        unpack(packed, low, bits, ordered, order)
        return ordered, order
    # The difference of two int64 needs 64 bits: unsigned subtraction wraps to exactly that.
    offset = keys.view(np.uint64) - np.array([low], np.int64).view(np.uint64)
    packed = ((offset >> np.uint64(dropped)).view(np.int64) << bits) | np.arange(n)
    packed.sort()
    unpack_order(packed, bits, keys, ordered, order)
    if not mend(ordered, order, FEW):
        order = np.argsort(keys, kind="stable").astype(np.int32)
        ordered = keys[order]
    return ordered, order
