"""Probing a sorted run with a sorted batch (panjoin.txt III.D and E: index array, rebounding binary search).

``index[p]`` is the key at position ``p * STRIDE`` of the run. Bounds come in ascending order, so the search over the index only goes
forward, from the partition of the bound before. Inside the partition all STRIDE keys are compared at once, without a branch.

Nothing but the partition number is carried from one probe to the next: then the processor fetches the keys of several probes at the same
time. Tried, and slower on random keys (rows/s of a batch of 32K against 512K rows; this: 52M): stepping from key to key (24M; every exit is
mispredicted), comparing 8 or 16 keys from the last position on (33M to 39M; each load waits for the one before; as good only where the
run is hardly larger than the batch), partitions of 32 and 64 keys (46M, 22M), bisecting inside the partition (20M).
"""

import numpy as np

from watersmeet.kernels.jit import inlined, kernel
from watersmeet.kernels.raw import prefetch

BLOCK = 2048  # keys of a nested loop that stay in the first-level cache
STRETCH = 512  # of these, counted before any is looked at
PART = 32  # and of these
STRIDE = 16
STEP = 4
NEAR = 8
NEARBY = 6  # a run smaller than this many times the batch: bounds are so near that stepping beats searching
FLIGHT = 64  # probes that go together: what they need is fetched before any is looked at
LINE = 8  # keys of a cache line
AHEAD = 2  # matches written without a branch; 4 is slower by a third at one match a probe


@inlined
def partition_of(index, part, bound):
    """The last partition, from ``part`` on, whose first key is below ``bound``: a few steps ahead, then a rebounding binary search.

    The steps count four index keys at once: where bounds are a partition or so apart, that is worth a fifth of the whole probe.
    """
    ahead = STEP
    tries = 0
    while ahead == STEP and tries < STEP and part + STEP < index.size:
        block = index[part + 1 : part + 1 + STEP]
        ahead = 0
        for k in range(STEP):
            ahead += block[k] < bound
        part += ahead
        tries += 1
    if ahead == STEP:
        step = 1
        high = part + 1
        while high < index.size and index[high] < bound:
            part = high
            step += step
            high = part + step
        high = min(high, index.size)
        while part + 1 < high:
            middle = (part + high) >> 1
            if index[middle] < bound:
                part = middle
            else:
                high = middle
    return part


@inlined
def place_in(keys, part, bound):
    """First position whose key is >= ``bound``, which lies in this partition or right behind it."""
    start = part * STRIDE
    block = keys[start : start + STRIDE]
    smaller = 0
    if block.size == STRIDE:
        for k in range(STRIDE):
            smaller += block[k] < bound
    else:
        for k in range(block.size):
            smaller += block[k] < bound
    return start + smaller


@inlined
def step_to(keys, cursor, bound):
    """First position from ``cursor`` on whose key is >= ``bound``, in steps of NEAR keys."""
    smaller = NEAR
    while smaller == NEAR and cursor + NEAR <= keys.size:
        smaller = 0
        block = keys[cursor : cursor + NEAR]
        for k in range(NEAR):
            smaller += block[k] < bound
        cursor += smaller
    while smaller == NEAR and cursor < keys.size and keys[cursor] < bound:
        cursor += 1
    return cursor


@inlined
def first_few(keys, rows, position, high, probe, n, out_probe, out_row):
    """Write the next AHEAD pairs without a branch, for which there must be room. Returns how many of them have keys <= ``high``."""
    # Slices: an index that might be negative costs a test at every access.
    next_keys = keys[position : position + AHEAD]
    next_rows = rows[position : position + AHEAD]
    to_probe = out_probe[n : n + AHEAD]
    to_row = out_row[n : n + AHEAD]
    found = 0
    for k in range(AHEAD):
        to_probe[k] = probe
        to_row[k] = next_rows[k]
        found += next_keys[k] <= high
    return found


@inlined
def find_places(keys, rows, index, lo, first, end, part, places):
    """The first positions whose keys are >= lo[first:end], at ``places[i % FLIGHT]``. Returns the last one's partition."""
    for i in range(first, end):
        part = partition_of(index, part, lo[i])
        places[i % FLIGHT] = part
        prefetch(keys, part * STRIDE)
        prefetch(keys, part * STRIDE + LINE)
    for i in range(first, end):
        place = place_in(keys, places[i % FLIGHT], lo[i])
        places[i % FLIGHT] = place
        prefetch(rows, place)
        prefetch(keys, place + AHEAD)
    return part


@kernel
def run_pairs(keys, rows, index, lo, hi, probes, state, out_probe, out_row):
    """All (probe, row) with lo <= key <= hi, as many as fit; O(probes * log(gap) + pairs).

    ``state`` is where to go on: [probe, partition (or position, where bounds are near) of its lower bound, next position to emit or -1].
    Returns the number of pairs written; the work is done when state[0] == lo.size.

    Where bounds are not near, FLIGHT probes go together: the partitions of all are found, and fetched meanwhile, then the places in them,
    and what is to be written is fetched. A run seldom lies in the cache (10,000 probes, one match each, by CPU time: 62 ns a probe of 500K
    keys in place of 85 with partitions fetched alone and 112 with nothing; of 100K keys 17 in any way). Tried and lost: partitions of 8
    keys, which are a line of the cache (62), flights of 32 and 128 (61, 63), four matches without a branch (58, 3 ns more of 100K keys).
    """
    last = state[1]
    position = state[2]
    total = lo.size
    size = keys.size
    room = out_probe.size
    fits = room - AHEAD
    near = size < NEARBY * total
    places = np.empty(FLIGHT, np.int64)
    n = 0
    i = state[0]
    known = i  # probes before this one have their places found
    while i < total:
        low = lo[i]
        high = hi[i]
        probe = probes[i]
        if position < 0:
            if near:
                position = step_to(keys, last, low)
                last = position
            else:
                if i == known:
                    known = min(i + FLIGHT, total)
                    last = find_places(keys, rows, index, lo, i, known, last, places)
                position = places[i % FLIGHT]
            if n <= fits and position + AHEAD <= size:
                found = first_few(keys, rows, position, high, probe, n, out_probe, out_row)
                n += found
                if found < AHEAD:
                    position = -1
                    i += 1
                    continue
                position += AHEAD
        while position < size and keys[position] <= high:
            if n == room:
                state[0] = i
                # The key before a place is below its bound, so it lies in the bound's partition, or before.
                state[1] = last if near or i == known else max(0, places[i % FLIGHT] - 1) // STRIDE
                state[2] = position
                return n
            out_probe[n] = probe
            out_row[n] = rows[position]
            n += 1
            position += 1
        position = -1
        i += 1
        known = max(known, i)
    state[0] = total
    return n


@kernel
def run_ranges(keys, index, lo, hi, start, end):
    """Per probe the half-open range of positions with lo <= key <= hi; its cost does not grow with the number of matches."""
    first = 0
    last = 0
    near = keys.size < NEARBY * lo.size
    for i in range(lo.size):
        if near:
            first = step_to(keys, first, lo[i])
            begin = first
        else:
            first = partition_of(index, first, lo[i])
            begin = place_in(keys, first, lo[i])
        start[i] = begin
        if hi[i] < lo[i]:
            end[i] = begin
        elif hi[i] == 9223372036854775807:  # nothing lies above it, and hi + 1 would wrap
            end[i] = keys.size
        elif near:
            last = step_to(keys, last, hi[i] + 1)
            end[i] = last
        else:
            last = partition_of(index, last, hi[i] + 1)
            end[i] = place_in(keys, last, hi[i] + 1)


@kernel
def count_ranges(start, end):
    total = 0
    for i in range(start.size):
        total += end[i] - start[i]
    return total


@kernel
def list_pairs(keys, rows, used, lo, hi, probes, state, out_probe, out_row):
    """Nested loop over ``keys[:used]``, unsorted; O(probes * used), four compares an instruction.

    A block of stored keys stays in the first-level cache while all probes pass over it (probe by probe over all keys is bound by
    memory, and five times slower on a large window). A stretch of keys is first counted without a branch; only where it has a match
    are its parts counted, and only where a part has one are its keys looked at one by one. ``state``: [start of the block, probe,
    position to go on at]; the work is done when state[0] >= used.

    Tried and lost (131,072 keys, microseconds a probe, with a match every 500 keys / with none): keys of the whole block one by one
    after its count 190 / 15; parts of 64 without counting a stretch first 58 / 20; stretch and part 256, 32: 55 / 19; 512, 32: 63 / 17.
    """
    room = out_probe.size
    n = 0
    start = state[0]
    first = state[1]
    position = state[2]
    while start < used:
        end = min(start + BLOCK, used)
        for i in range(first, lo.size):
            low = lo[i]
            high = hi[i]
            at = max(start, position)
            position = 0
            while at < end:
                stop = min(at + STRETCH, end)
                stretch = keys[at:stop]
                found = 0
                for j in range(stretch.size):
                    found += (stretch[j] >= low) & (stretch[j] <= high)
                while found > 0 and at < stop:
                    part = keys[at : min(at + PART, stop)]
                    inside = 0
                    for j in range(part.size):
                        inside += (part[j] >= low) & (part[j] <= high)
                    if inside > 0 and n + PART <= room:
                        for j in range(part.size):
                            out_probe[n] = probes[i]
                            out_row[n] = rows[at + j]
                            n += (low <= part[j]) & (part[j] <= high)
                        found -= inside
                    elif inside > 0:
                        for j in range(part.size):
                            if low <= part[j] <= high:
                                if n == room:
                                    state[0] = start
                                    state[1] = i
                                    state[2] = at + j
                                    return n
                                out_probe[n] = probes[i]
                                out_row[n] = rows[at + j]
                                n += 1
                        found -= inside
                    at += part.size
                at = stop
        first = 0
        start = end
    state[0] = start
    return n
