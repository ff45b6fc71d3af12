"""Which rules each row satisfies: an index over the constants of many predicates of one shape.

An *entry* is a rule with one value of each of its equalities. Entries with one hash of these values are a *bucket*; in a bucket they lie
in the order of ``low``, the least code of the first range that satisfies them; ``high`` is the largest. ``reach`` is the largest ``high``
of a bucket up to each entry. A row looks at the entries that begin at or below its code, from the last one down, until one is met
up to which none reaches as far as the code. So rules with one end cost O(log n + what they give); of intervals also those are
looked at that lie between one that holds the code and the code. ``lows``, ``highs``: what else has to hold, a row a key: further
ranges, and of several equalities each.
"""

import numba
import numpy as np

from watersmeet.kernels.jit import kernel

EMPTY = -1
SPREAD = np.uint64(0x9E3779B97F4A7C15)


@kernel
def enter_buckets(hashes, shift, slots, numbers):
    """Enter distinct hashes into an empty table of slots: the bucket of hashes[i] is i."""
    mask = slots.size - 1
    for i in range(hashes.size):
        place = np.int64((hashes[i] * SPREAD) >> shift)
        while numbers[place] != EMPTY:
            place = (place + 1) & mask
        slots[place], numbers[place] = hashes[i], i


@kernel
def find_buckets(hashes, valid, shift, slots, numbers, out):
    """The bucket of each row; EMPTY where there is none, or the row has no value. ``valid``: empty, all have one."""
    mask, everywhere = slots.size - 1, valid.size == 0
    for i in range(hashes.size):
        out[i] = EMPTY
        if everywhere or valid[i]:
            place = np.int64((hashes[i] * SPREAD) >> shift)
            while numbers[place] != EMPTY and slots[place] != hashes[i]:
                place = (place + 1) & mask
            out[i] = numbers[place]


@kernel
def reaches(begins, high, reach):
    """The largest ``high`` of a bucket up to each entry."""
    for bucket in range(begins.size - 1):
        most = high[begins[bucket]]
        for i in range(begins[bucket], begins[bucket + 1]):
            most = max(most, high[i])
            reach[i] = most


@kernel
def find_rules(buckets, codes, others, begins, low, high, reach, lows, highs, owners, places, fill, out):
    """Count the rows of each rule into ``places``; or, with ``fill``, write them to ``out`` from each rule's place on, in order."""
    for row in range(buckets.size):
        bucket = buckets[row]
        if bucket == EMPTY:
            continue
        code, begin, end = codes[row], begins[bucket], begins[bucket + 1]
        first, last = begin, end  # the first entry that begins above the code
        while first < last:
            middle = (first + last) >> 1
            if low[middle] <= code:
                first = middle + 1
            else:
                last = middle
        for i in range(first - 1, begin - 1, -1):
            if reach[i] < code:
                break
            holds = high[i] >= code
            for k in range(lows.shape[0]):
                holds = holds and lows[k, i] <= others[k, row] <= highs[k, i]
            if holds:
                place = places[owners[i]]
                places[owners[i]] = place + 1
                if fill:
                    out[place] = row


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    enter_buckets = np.errstate(over="ignore")(enter_buckets)
    find_buckets = np.errstate(over="ignore")(find_buckets)
