"""Range results: leaving out empty ranges, and expired rows of a run; who is covered by ranges, how often, and first by whom."""

from watersmeet.kernels.jit import kernel

NOWHERE = 9223372036854775807  # the place of what is covered by nobody


@kernel
def keep_filled(probes, first, start, end, out_probe):
    """Compact the ranges that hold something, in place; ``out_probe`` gets the probes' arrival numbers. Returns how many."""
    kept = 0
    for i in range(start.size):
        out_probe[kept] = first + probes[i]
        start[kept] = start[i]
        end[kept] = end[i]
        kept += end[i] > start[i]
    return kept


@kernel
def keep_rows_from(keys, rows, first, out_keys, out_rows):
    """The part of a sorted run whose row offsets are at least ``first``; one pass, no branch. Returns its size."""
    kept = 0
    for i in range(keys.size):
        out_keys[kept] = keys[i]
        out_rows[kept] = rows[i]
        kept += rows[i] >= first
    return kept


@kernel
def keep_rows(keys, rows, mask, out_keys, out_rows):
    """The part of a sorted run whose row offsets a mask keeps; one pass, no branch. Returns its size."""
    kept = 0
    for i in range(keys.size):
        out_keys[kept] = keys[i]
        out_rows[kept] = rows[i]
        kept += mask[rows[i]]
    return kept


@kernel
def cover(start, end, out):
    """How many of the ranges cover each position; ``out`` is one longer than the run, and 0. O(ranges + run)."""
    for i in range(start.size):
        out[start[i]] += 1
        out[end[i]] -= 1
    for p in range(1, out.size):
        out[p] += out[p - 1]


@kernel
def cover_first(order, start, end, beyond, out):
    """Which range covers each position first, if they come in this order; ``out`` has the range's number, or what it had.

    ``beyond``: 0, 1, 2, ... to the end of the run. Position p's next uncovered one is found by following it (union-find with path
    halving), so that each position is written once. O((ranges + run) a), a being as good as constant.
    """
    for j in range(order.size):
        i = order[j]
        p = start[i]
        while True:
            while beyond[p] != p:
                beyond[p] = beyond[beyond[p]]
                p = beyond[p]
            if p >= end[i]:
                break
            out[p] = i
            beyond[p] = p + 1


@kernel
def note_first(ids, place, number, first_place, first_number):
    """By id the least (place, number)."""
    for i in range(ids.size):
        k = ids[i]
        if place[i] < first_place[k] or (place[i] == first_place[k] and number[i] < first_number[k]):
            first_place[k] = place[i]
            first_number[k] = number[i]
