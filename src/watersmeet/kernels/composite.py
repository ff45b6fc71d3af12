"""Keys of equalities and a band together: some bits of a hash, then some bits of a code."""

import numba
import numpy as np

from watersmeet.kernels.jit import kernel

PREFIX, FIELD = 20, 22  # bits; few enough for a key and its place in a batch to be sorted as one number
LAST = (1 << FIELD) - 1  # cell


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
