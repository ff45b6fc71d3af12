"""Kernels of the RaP-Table: splitters, their adjustment, insertion of a sorted batch, targets of probes.

P - 1 splitters, never descending, cut the int64 keys into P partitions: partition p holds the keys k with
splitters[p - 1] <= k < splitters[p]. Equal splitters make an empty partition, which does no harm.
"""

import numpy as np

from watersmeet.kernels.jit import kernel
from watersmeet.kernels.llat import append
from watersmeet.kernels.search import rebound

LEAST = np.iinfo(np.int64).min
GREATEST = np.iinfo(np.int64).max
TOO_LARGE = 2.0**63


@kernel
def between(low, high, fraction):
    """Return the key that lies at ``fraction`` (0 to 1) of the way from ``low`` to ``high``, without
    overflow.

    The difference is exact while it fits int64, so that narrow ranges far from zero (times in nanoseconds)
    keep every digit; where it does not fit, the range is so wide that the rounding of float64 does not
    matter.
    """
    if low < 0 and high > GREATEST + low:
        guess = low * (1.0 - fraction) + high * fraction
        if guess >= high:
            return high
        return max(low, np.int64(guess))
    width = high - low
    step = width * fraction
    if step >= width or step >= TOO_LARGE:
        return high
    return low + np.int64(step)


@kernel
def place(splitters, at, wanted, most):
    """Set a splitter: above the one before it where there is room up to ``most`` (+ 1), so that equal keys
    get cut off.

    A key with more rows than a partition should hold draws several splitters; the first becomes the key, the
    second the key + 1: the key then has a partition to itself, and the probes of its neighbours do not meet
    its rows.
    """
    if at > 0 and wanted <= splitters[at - 1]:
        wanted = splitters[at - 1]
        if wanted <= most and wanted < GREATEST:
            wanted += 1
    splitters[at] = wanted


@kernel
def adjust(counts, least, greatest, splitters):
    """Compute new splitters from the histograms of a table with at least one row. O(P) (PanJoin, algorithm
    1).

    Splitter j should have bal_j = N/P * j rows below it. If partition i is the one with sum_{i-1} < bal_j <=
    sum_i, it must give r = bal_j - sum_{i-1} of its count_i rows. Taking these as spread evenly over [min_i,
    max_i], the value below which r of them lie is min_i + r / count_i * (max_i - min_i). The paper's formula
    is printed without its first term, which puts every splitter near zero; with it the paper's own worst case
    (min_1 = 0) comes out as printed. The number of partitions may change on the way: ``splitters`` decides
    the new P.
    """
    parts = len(splitters) + 1
    total = 0
    for i in range(len(counts)):
        total += counts[i]
    i = 0
    before = 0
    for j in range(1, parts):
        wanted = total * j
        while (before + counts[i]) * parts < wanted:
            before += counts[i]
            i += 1
        fraction = (wanted / parts - before) / counts[i]
        place(splitters, j - 1, between(least[i], greatest[i], fraction), greatest[i])


@kernel
def quantiles(keys, splitters):
    """Compute splitters from ascending sample keys (at least one), going evenly from one key to the next."""
    parts = len(splitters) + 1
    steps = len(keys) - 1
    for j in range(1, parts):
        i = steps * j // parts
        key = keys[i]
        if i < steps:
            key = between(key, keys[i + 1], steps * j / parts - i)
        place(splitters, j - 1, key, key)


@kernel
def insert(
    new_keys, new_rows, splitters, counts, least, greatest, width, keys, rows, start, used, link, last, fresh
):
    """Store a batch sorted by key, a partition's run at a time, and keep the three histograms."""
    count = len(new_keys)
    top = len(splitters)
    part = 0
    begin = 0
    while begin < count:
        part = rebound(splitters, part, top, new_keys[begin])
        end = count
        if part < top:
            end = begin + 1
            limit = splitters[part]
            while end < count and new_keys[end] < limit:
                end += 1
        append(new_keys, new_rows, begin, end, part, width, keys, rows, start, used, link, last, fresh)
        if counts[part] == 0:
            least[part] = new_keys[begin]
            greatest[part] = new_keys[end - 1]
        least[part] = min(least[part], new_keys[begin])
        greatest[part] = max(greatest[part], new_keys[end - 1])
        counts[part] += end - begin
        begin = end


@kernel
def find_targets(lo, hi, splitters, low, up):
    """Write each probe's target partitions; a probe that wants nothing gets one target, where nothing will
    match.
    """
    top = len(splitters)
    first = 0
    past = 0
    for i in range(len(lo)):
        first = rebound(splitters, first, top, lo[i])
        past = rebound(splitters, past, top, hi[i])
        low[i] = first
        up[i] = past if lo[i] <= hi[i] else first
