"""One call for a whole chain: what a push of a few rows can afford.

A call from Python costs a microsecond or two, as much as the search itself; so the sorted runs of up to GROUP sub-windows go in together.
"""

from watersmeet.kernels.jit import kernel

GROUP = 4


@kernel
def group_pairs(keys, rows, bases, lo, hi, oldest, n, out_probe, out_stored):
    """Pairs (probe position, stored arrival number) of a few probes with GROUP sorted runs, from arrival ``oldest`` on.

    ``n`` pairs are there already. Returns how many there are then; more than fit means that not all were written.
    """
    for i in range(lo.size):
        for g in range(GROUP):
            run = keys[g]
            low = 0
            high = run.size
            bound = lo[i]
            while low < high:
                middle = (low + high) >> 1
                if run[middle] < bound:
                    low = middle + 1
                else:
                    high = middle
            while low < run.size and run[low] <= hi[i]:
                arrival = bases[g] + rows[g][low]
                if arrival >= oldest:
                    if n < out_probe.size:
                        out_probe[n] = i
                        out_stored[n] = arrival
                    n += 1
                low += 1
    return n


@kernel
def chain_pairs(
    keys, rows, bases, buffer_keys, buffer_rows, used, base, lo, hi, oldest, n, out_probe, out_stored
):
    """The same with an insertion buffer beside the runs. Most buffers hold no match: count first, without a branch."""
    n = group_pairs(keys, rows, bases, lo, hi, oldest, n, out_probe, out_stored)
    for i in range(lo.size):
        low = lo[i]
        high = hi[i]
        found = 0
        for j in range(used):
            found += (buffer_keys[j] >= low) & (buffer_keys[j] <= high)
        if found == 0:
            continue
        for j in range(used):
            if low <= buffer_keys[j] <= high and base + buffer_rows[j] >= oldest:
                if n < out_probe.size:
                    out_probe[n] = i
                    out_stored[n] = base + buffer_rows[j]
                n += 1
    return n
