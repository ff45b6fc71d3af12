"""Candidate pairs where stored rows carry their arrival numbers, because they do not follow on one another: a core's share of a stream."""

from watersmeet.kernels.jit import kernel


@kernel
def emit_scattered(probe, row, n, first, arrivals, out_probe, out_row):
    """Positions to arrival numbers."""
    for i in range(n):
        out_probe[i] = first + probe[i]
        out_row[i] = arrivals[row[i]]


@kernel
def keep_seen(probe, row, n, arrivals, lo, hi):
    """Keep the pairs whose stored arrival number is in [lo, hi): one range for all probes."""
    kept = 0
    for i in range(n):
        r = row[i]
        arrival = arrivals[r]
        probe[kept] = probe[i]
        row[kept] = r
        kept += (lo <= arrival) & (arrival < hi)
    return kept


ROW_STRETCH = 128  # keys counted at once by a single probe


@kernel
def row_matches(keys, codes, start, used, low, high, code_lo, code_hi, arrivals, since, until, out):
    """One probing row against a scan whose entry i is row i: driver, one more band and validity range at once.

    Writes the arrival numbers of the matches; returns how many, or -1 where there is not enough room. 131,072 rows, two bands of 0.2%
    each, median: 44 to 53 microseconds; testing the second band only on what the first lets through, as ``list_pairs`` has to, 69 to 73.
    """
    n = 0
    for at in range(start, used, ROW_STRETCH):
        stop = min(at + ROW_STRETCH, used)
        key = keys[at:stop]
        code = codes[at:stop]
        found = 0
        for j in range(key.size):
            found += (key[j] >= low) & (key[j] <= high) & (code[j] >= code_lo) & (code[j] <= code_hi)
        if found > 0:
            if n + found > out.size:
                return -1
            for j in range(key.size):
                if low <= key[j] <= high and code_lo <= code[j] <= code_hi:
                    arrival = arrivals[at + j]
                    if since <= arrival < until:
                        out[n] = arrival
                        n += 1
    return n


@kernel
def keep_meeting(probe, row, n, first, arrivals, lo, hi, stored_lo, stored_hi):
    """Keep the pairs of which either row may see the other: the later of the two decides, and only one can be the later."""
    kept = 0
    for i in range(n):
        p = probe[i]
        r = row[i]
        mine = first + p
        other = arrivals[r]
        probe[kept] = p
        row[kept] = r
        kept += ((lo[p] <= other) & (other < hi[p])) | ((stored_lo[r] <= mine) & (mine < stored_hi[r]))
    return kept


@kernel
def keep_meeting_timed(
    probe, row, n, first, arrivals, lo, hi, stored_lo, stored_hi,
    mine_at, at, time_lo, time_hi, stored_time_lo, stored_time_hi,
):  # fmt: skip
    """The same with times: a row may see the other if its number and its time lie in the ranges."""
    kept = 0
    for i in range(n):
        p = probe[i]
        r = row[i]
        mine = first + p
        other = arrivals[r]
        probe[kept] = p
        row[kept] = r
        sees = (lo[p] <= other) & (other < hi[p]) & (time_lo[p] <= at[r]) & (at[r] <= time_hi[p])
        seen = (stored_lo[r] <= mine) & (mine < stored_hi[r])
        seen = seen & (stored_time_lo[r] <= mine_at[p]) & (mine_at[p] <= stored_time_hi[r])
        kept += sees | seen
    return kept
