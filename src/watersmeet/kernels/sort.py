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
UNEVEN = 6  # the mean of how many keys are where a key is; more are sorted
SORTED, DEALT, OTHERWISE = 0, 1, 2
ONE = np.uint64(1)


@kernel
def is_sorted(keys):
    """Whether keys are ascending already; stops at the first descent."""
    i = 1
    while i < keys.size and keys[i] >= keys[i - 1]:
        i += 1
    return i >= keys.size


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


@kernel
def deal(keys, ends, ordered, order):
    """Keys in order, if they lie evenly enough, and where each came from: all in one call, which tiny batches are glad of. O(n).

    ``ends`` has a power of two places. Returns what came of it: SORTED if they were in order already, and nothing was written.

    ns a key, and what the sort took before, on an AMD EPYC: 100 hashes 16 and 72, 1,000 7 and 24, 10,000 6 and 30, 100,000 7 and 46, 1M
    17 and 59. Keys that turn out to be uneven, as floats on both sides of 0 are, lose 15 ns of 72, 2 of 30.
    """
    if is_sorted(keys):
        return SORTED
    low, high = extent(keys)
    start, span, shift = np.uint64(low), np.uint64(high) - np.uint64(low), np.uint64(0)
    while span >> shift >= np.uint64(ends.size):
        shift += ONE
    ends[:] = 0
    for key in keys:
        ends[(np.uint64(key) - start) >> shift] += 1
    first, crowd = 0, 0
    for j in range(ends.size):
        count = ends[j]
        crowd += np.int64(count) * count
        ends[j] = first
        first += count
    if shift and keys.size > FEW and crowd > UNEVEN * keys.size:
        return OTHERWISE
    for i in range(keys.size):
        place = (np.uint64(keys[i]) - start) >> shift
        ordered[ends[place]], order[ends[place]] = keys[i], i
        ends[place] += 1
    return DEALT if mend(ordered, order, FEW) else OTHERWISE


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


def sort_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``keys`` (int64) ascending, and the int32 position of each in the input. Neither is to be written to."""
    n = keys.size
    if n < 2:
        return keys, _FIRST[:n]
    bits = (n - 1).bit_length()
    ordered, order = np.empty(n, np.int64), np.empty(n, np.int32)
    how = deal(keys, np.empty(1 << bits, np.int32), ordered, order)
    if how == SORTED:
        return keys, np.arange(n, dtype=np.int32)
    if how == OTHERWISE:
        return _by_numpy(keys, bits, ordered, order)
    return ordered, order


def _by_numpy(
    keys: np.ndarray, bits: int, ordered: np.ndarray, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same of keys that lie unevenly. ``ordered``, ``order``: room for the result."""
    n, (low, high) = keys.size, map(int, extent(keys))
    dropped = max(0, (high - low).bit_length() + bits - WORD)
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
