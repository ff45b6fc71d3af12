"""Kernels over a linked list adaptive table (LLAT): append to a partition, collect the pairs of a sorted
batch of probes.

An entry ``e`` holds ``used[e]`` rows from ``start[e]`` on, in ``keys`` and ``rows``; ``link[e]`` is the entry
in which its partition goes on (-1: none). A partition is named by its first entry; ``last`` gives a
partition's last entry, and ``after`` the partition that follows it in key order (-1: none). Rows of one
partition are in no order.
"""

from watersmeet.kernels.jit import kernel
from watersmeet.kernels.search import rebound, rebound_below

# What ``state`` holds between two calls of ``collect``. A fresh state is all zeros, but ENTRY is -1.
PHASE, PROBE, END, PART, ENTRY, SLOT, MATCH, STATE_SIZE = 0, 1, 2, 3, 4, 5, 6, 7
LOWER, UPPER, BETWEEN, DONE = 0, 1, 2, 3
# Groups of probes up to this size take the nested loop, larger ones are searched. Tried 1 to 32: best from 8.
SMALL_GROUP = 16


@kernel
def append(new_keys, new_rows, begin, end, part, width, keys, rows, start, used, link, last, fresh):
    """Store new[begin:end] in a partition, linking unused entries (from ``fresh[0]`` on, PtrG) where one is
    full.

    The caller knows that there are enough entries. ``last`` spares the walk along the list.
    """
    entry = last[part]
    while begin < end:
        if used[entry] == width:
            link[entry] = fresh[0]
            entry = fresh[0]
            last[part] = entry
            fresh[0] += 1
        take = min(end - begin, width - used[entry])
        place = start[entry] + used[entry]
        for i in range(take):
            keys[place + i] = new_keys[begin + i]
            rows[place + i] = new_rows[begin + i]
        used[entry] += take
        begin += take


@kernel
def gather(first, after, keys, rows, start, used, link, new_keys, new_rows, new_start, new_used):
    """Copy all partitions, in key order, to one stretch without gaps; entries that were linked end up
    empty.
    """
    n = 0
    part = first
    while part >= 0:
        new_start[part] = n
        entry = part
        while entry >= 0:
            begin = start[entry]
            for i in range(begin, begin + used[entry]):
                new_keys[n] = keys[i]
                new_rows[n] = rows[i]
                n += 1
            entry = link[entry]
        new_used[part] = n - new_start[part]
        part = after[part]
    return n


@kernel
def compare_all(begin, end, lo, hi, probes, keys, rows, first, past, n, out_probe, out_row):
    """Nested loop of the probes [begin, end) over the rows [first, past); the output has room for one more
    than all pairs.

    Every row is written and only counted if it matches: no branch to mispredict. Measured against (a)
    counting, for each row, the probes below and above it and then writing that range: 1.8 times slower at 4
    probes a partition of 16; (b) an ``if`` around the write: 1.2 times slower.
    """
    for i in range(begin, end):
        low = lo[i]
        high = hi[i]
        name = probes[i]
        for at in range(first, past):
            key = keys[at]
            out_probe[n] = name
            out_row[n] = rows[at]
            n += (low <= key) & (key <= high)
    return n


@kernel
def scan_entry(begin, end, lo, hi, probes, keys, rows, place, slot, size, skip, n, out_probe, out_row):
    """Match an entry's rows with the probes [begin, end); return (pairs, slot, matches taken at that slot).

    A small group is compared with each row. In a large one, which is what skew brings, the probes that want a
    row are a range, as ``lo`` and ``hi`` never go back, and are searched: O(log group) a row instead of
    O(group).
    """
    room = len(out_row)
    group = end - begin
    while slot < size:
        if group <= SMALL_GROUP and skip == 0:
            rest = min(size - slot, (room - n - 1) // group)
            if rest > 0:
                first = place + slot
                n = compare_all(
                    begin, end, lo, hi, probes, keys, rows, first, first + rest, n, out_probe, out_row
                )
                slot += rest
                continue
        key = keys[place + slot]
        first = rebound_below(hi, begin, end, key)
        for i in range(first + skip, rebound(lo, begin, end, key)):
            if n == room:
                return n, slot, i - first
            out_probe[n] = probes[i]
            out_row[n] = rows[place + slot]
            n += 1
        skip = 0
        slot += 1
    return n, slot, 0


@kernel
def scan_ends(low, up, lo, hi, probes, keys, rows, start, used, link, state, n, out_probe, out_row):
    """Scan the partitions that hold the probes' lower (or, in phase UPPER, upper) bounds; return the pairs so
    far.

    Neighbouring probes with the same target share one pass over its rows. A probe whose bounds fall in one
    partition is done with in phase LOWER. Ends with state[PROBE] == len(lo), or earlier when the output is
    full.
    """
    upper = state[PHASE] == UPPER
    target = up if upper else low
    count = len(lo)
    begin, end, entry, slot, skip = state[PROBE], state[END], state[ENTRY], state[SLOT], state[MATCH]
    while begin < count:
        if entry < 0:
            if upper and low[begin] == up[begin]:
                begin += 1
                continue
            entry = target[begin]
            end = begin + 1
            while end < count and target[end] == entry and not (upper and low[end] == entry):
                end += 1
        while entry >= 0:
            size = used[entry]
            n, slot, skip = scan_entry(
                begin, end, lo, hi, probes, keys, rows, start[entry], slot, size, skip, n, out_probe, out_row
            )
            if slot < size:
                state[PROBE], state[END] = begin, end
                state[ENTRY], state[SLOT], state[MATCH] = entry, slot, skip
                return n
            entry = link[entry]
            slot = 0
        begin = end
    state[PROBE], state[ENTRY], state[SLOT], state[MATCH] = count, -1, 0, 0
    return n


@kernel
def copy_between(low, up, after, probes, rows, start, used, link, state, n, out_probe, out_row):
    """Copy, unchecked, the partitions strictly between each probe's two bounds; return the pairs so far."""
    room = len(out_row)
    count = len(probes)
    probe, part, entry, slot = state[PROBE], state[PART], state[ENTRY], state[SLOT]
    while probe < count:
        if entry < 0:
            part = up[probe] if low[probe] == up[probe] else after[low[probe]]
            entry = part
        name = probes[probe]
        while part != up[probe]:
            while entry >= 0:
                take = min(used[entry] - slot, room - n)
                place = start[entry] + slot
                for i in range(take):
                    out_row[n + i] = rows[place + i]
                    out_probe[n + i] = name
                n += take
                slot += take
                if slot < used[entry]:
                    state[PROBE], state[PART], state[ENTRY], state[SLOT] = probe, part, entry, slot
                    return n
                entry = link[entry]
                slot = 0
            part = after[part]
            entry = part
        entry = -1
        probe += 1
    state[PROBE] = count
    return n


@kernel
def collect(low, up, lo, hi, probes, after, keys, rows, start, used, link, state, out_probe, out_row):
    """Write the next pairs (probe, row) with lo <= key <= hi; return how many. All are given when
    state[PHASE] is DONE.
    """
    n = 0
    count = len(lo)
    while state[PHASE] < DONE:
        if state[PHASE] < BETWEEN:
            n = scan_ends(
                low, up, lo, hi, probes, keys, rows, start, used, link, state, n, out_probe, out_row
            )
        else:
            n = copy_between(low, up, after, probes, rows, start, used, link, state, n, out_probe, out_row)
        if state[PROBE] < count:
            return n
        state[PHASE] += 1
        state[PROBE] = 0
        state[ENTRY] = -1
        state[SLOT] = 0
    return n
