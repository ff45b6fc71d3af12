"""Sorting a batch once: keys ascending, with the position each came from.

Keys that lie evenly enough, as hashes do, are dealt out by their place between the smallest and the largest one, and the few neighbours
this leaves out of order are mended: O(n). Of others a key and its position share one int64 (key in the high bits), so that NumPy's
vectorised sort of plain integers does the work. Where they span too many bits, the low bits are dropped, and neighbours mended too.
"""

import numba
import numpy as np

from watersmeet.kernels.jit import kernel

_FIRST = np.zeros(1, np.int32)
WORD = 63  # bits of a non-negative int64
FEW = 64  # a mended group longer than this: sort by the full key instead
DEALT = 512  # rows: the least that is dealt out
UNEVEN = 6  # the mean of how many keys are where a key is; more are sorted


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
def deal(keys, low, shift, ends, ordered, order):
    """Keys (as uint64, and taken from ``low`` on) by their bits from ``shift`` on; False: keys that differ have too often the same.

    ns a key, beside all that the sort takes, on an AMD EPYC: 1,000 keys 8 and 21, 10,000 6 and 29, 100,000 7 and 44, 1M 17 and 59; 256
    21 and 12. Keys that turn out to be uneven, as floats around 0 are, lose 1 or 2.
    """
    ends[:] = 0
    for key in keys:
        ends[(key - low) >> shift] += 1
    first, crowd = 0, 0
    for j in range(ends.size):
        count = ends[j]
        crowd += np.int64(count) * count
        ends[j] = first
        first += count
    if shift and crowd > UNEVEN * keys.size:
        return False
    for i in range(keys.size):
        place = (keys[i] - low) >> shift
        ordered[ends[place]], order[ends[place]] = keys[i], i
        ends[place] += 1
    return True


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
    bits, span = (n - 1).bit_length(), (high - low).bit_length()
    dropped = max(0, span + bits - WORD)
    ordered, order = np.empty(n, np.int64), np.empty(n, np.int32)
    if n >= DEALT:
        words, start = keys.view(np.uint64), np.array([low], np.int64).view(np.uint64)[0]
        ends = np.empty(1 << min(bits, span), np.int32)
        if deal(words, start, np.uint64(max(0, span - bits)), ends, ordered.view(np.uint64), order) and mend(
            ordered, order, FEW
        ):
            return ordered, order
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


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    deal = np.errstate(over="ignore")(deal)
