"""One call for a whole chain: what a push of a few rows can afford.

A call from Python costs a microsecond or two, as much as the search itself; so up to GROUP sub-windows go in together, with all that their
candidates must pass.
"""

from watersmeet.kernels.jit import kernel

GROUP = 4
STRETCH = 64  # keys of an insertion buffer that are counted before any is looked at


@kernel
def chain_pairs(
    keys,
    rows,
    bases,
    codes,
    times,
    buffer_keys,
    buffer_rows,
    used,
    buffered,
    lo,
    hi,
    probes,
    since,
    until,
    earliest,
    latest,
    low,
    high,
    firsts,
    n,
    out_probe,
    out_stored,
):
    """Pairs (probing row, stored arrival number) of a few probes with GROUP sub-windows: sorted runs, and the buffer of one, ``buffered``.

    Probe i is row ``probes[i]`` of its block, and looks for keys in [lo[i], hi[i]]. By row of the block: arrival numbers [since, until) (or
    one range for all rows), times [earliest, latest], and codes in one of the ranges [low, high] of each checked band, of which band c has
    the rows from ``firsts[c]`` up to ``firsts[c + 1]``. Where no time, or no code, is to be compared, None is given for it: an array more
    costs a call as much as a search. ``n`` pairs are there already. Returns how many there are then; more than fit means that not
    all were written.

    Measured, 100 probes of three runs and a buffer of 1,000 keys, of which half have a match there: 30 us; 50 with the whole buffer
    counted at once; stretches of 128 the same, of 256 34.
    """
    for g in range(GROUP):
        run = keys[g]
        if run.size == 0:
            continue
        for i in range(lo.size):
            p = probes[i]
            by = p if since.size > 1 else 0
            # Without a branch that depends on keys: every second one would be mispredicted.
            place, left, bound = 0, run.size, lo[i]
            while left > 1:
                half = left >> 1
                place += half if run[place + half - 1] < bound else 0
                left -= half
            place += run[place] < bound
            while place < run.size and run[place] <= hi[i]:
                row = rows[g][place]
                place += 1
                arrival = bases[g] + row
                fits = (since[by] <= arrival) & (arrival < until[by])
                if times is not None:
                    fits &= (earliest[p] <= times[g][row]) & (times[g][row] <= latest[p])
                if codes is not None:
                    for c in range(firsts.size - 1):
                        code, inside = codes[g][c, row], False
                        for part in range(firsts[c], firsts[c + 1]):
                            inside |= (low[part, p] <= code) & (code <= high[part, p])
                        fits &= inside
                if fits:
                    if n < out_probe.size:
                        out_probe[n] = p
                        out_stored[n] = arrival
                    n += 1
    g = buffered
    for i in range(lo.size):
        p = probes[i]
        by = p if since.size > 1 else 0
        for start in range(0, used, STRETCH):
            # Most stretches of the buffer hold no match: count first, without a branch.
            stretch, found = buffer_keys[start : min(start + STRETCH, used)], 0
            for j in range(stretch.size):
                found += (stretch[j] >= lo[i]) & (stretch[j] <= hi[i])
            if found == 0:
                continue
            for j in range(stretch.size):
                if lo[i] <= stretch[j] <= hi[i]:
                    row = buffer_rows[start + j]
                    arrival = bases[g] + row
                    fits = (since[by] <= arrival) & (arrival < until[by])
                    if times is not None:
                        fits &= (earliest[p] <= times[g][row]) & (times[g][row] <= latest[p])
                    if codes is not None:
                        for c in range(firsts.size - 1):
                            code, inside = codes[g][c, row], False
                            for part in range(firsts[c], firsts[c + 1]):
                                inside |= (low[part, p] <= code) & (code <= high[part, p])
                            fits &= inside
                    if fits:
                        if n < out_probe.size:
                            out_probe[n] = p
                            out_stored[n] = arrival
                        n += 1
    return n
