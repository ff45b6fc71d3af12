"""Range results: leaving out empty ranges, and expired rows of a run."""

from watersmeet.kernels.jit import kernel


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
