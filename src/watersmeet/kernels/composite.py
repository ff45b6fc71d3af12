"""Keys of equalities and a band together: some bits of a hash, then some bits of a code."""

import numba
import numpy as np

from watersmeet.kernels.code import INT_MAX, INT_MIN
from watersmeet.kernels.jit import kernel

PREFIX, FIELD = 20, 22  # bits; few enough for a key and its place in a batch to be sorted as one number
LAST = (1 << FIELD) - 1  # cell


CLASSES = 17  # of lengths: below 1, 16, 256, ... units of codes
# Classes of a factor of 4 let fewer rows beside a match through; but a point looks in all of them, and prices from 20 to 500 have six
# in place of three.
# Tried beside classes, and lost: an index for intervals, begins in order with the largest ends of 16 and of 256 of them, walked back
# from the point. 10,000 points in order, 2,000 symbols, ns of CPU time a point on a loaded machine, the index and classes:
# short intervals, one class: 392 and 202 of 1M rows, 116 and 68 of 100K; lengths over five classes: 1,027 and 520, 114 and 175;
# one in a hundred long: 494 and 287, 86 and 79. A block of 16 whose largest end is late enough is looked at whole, which makes
# twice to ten times the candidates; and it would be a second structure beside the sorted runs.
# Their first PREFIX bits differ, so that what a probe looks for in two classes does not overlap.
SALTS = np.arange(CLASSES, dtype=np.int64) << (64 - PREFIX)


@kernel
def length_classes(begin, end, bits, out, longest):
    """The class c of each interval: it is less than 16**c units of 2**bits codes long; 0, if it ends before it begins, or where.

    ``longest``: by class, the length of the longest interval so far; -1: there is none.
    """
    for i in range(begin.size):
        length = np.uint64(0)
        if end[i] > begin[i]:
            length = np.uint64(end[i]) - np.uint64(begin[i])
        left, found = length >> np.uint64(bits), 0
        while left:
            left >>= np.uint64(4)
            found += 1
        out[i] = found
        # Longer than any int64: as long as there is.
        longest[found] = max(longest[found], np.int64(min(length, np.uint64(INT_MAX))))


@kernel
def begin_before(ends, longest, out):
    """The first codes at which intervals that are no longer may begin that end at ``ends`` or later."""
    for i in range(ends.size):
        out[i] = INT_MIN
        if longest < INT_MAX and ends[i] >= INT_MIN + longest:
            out[i] = ends[i] - longest


@kernel
def composite_keys(mixed, x, shift, out):
    """The key of each row: PREFIX bits of ``mixed``, a hash of what must be equal, then the bits of x above ``shift``."""
    for i in range(x.size):
        prefix = np.int64(np.uint64(mixed[i]) >> np.uint64(64 - PREFIX))
        out[i] = (prefix << FIELD) | ((x[i] >> shift) & LAST)


@kernel
def composite_ends(mixed, lo, hi, shift, first_lo, first_hi, beyond_lo, beyond_hi):
    """The ends of the keys that rows look for whose codes lie in [lo, hi]; returns how many rows need a second range.

    Cells follow on one another, and the first on the last. Where hi is below lo nothing is looked for: the ends are 1 and 0.
    """
    wraps = 0
    for i in range(lo.size):
        base = np.int64(np.uint64(mixed[i]) >> np.uint64(64 - PREFIX)) << FIELD
        beyond_lo[i], beyond_hi[i] = 1, 0
        if lo[i] > hi[i]:
            first_lo[i], first_hi[i] = 1, 0
            continue
        start, end = lo[i] >> shift, hi[i] >> shift
        if np.uint64(end) - np.uint64(start) >= np.uint64(LAST):
            first_lo[i], first_hi[i] = base, base | LAST
            continue
        start, end = start & LAST, end & LAST
        first_lo[i] = base | start
        if start <= end:
            first_hi[i] = base | end
        else:
            first_hi[i] = base | LAST
            beyond_lo[i], beyond_hi[i] = base, base | end
            wraps += 1
    return wraps


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    _quiet = np.errstate(over="ignore")
    composite_keys, composite_ends = _quiet(composite_keys), _quiet(composite_ends)
    length_classes, begin_before = _quiet(length_classes), _quiet(begin_before)
