"""Merging two sorted runs into a third; the runs themselves stay as they are."""

import numpy as np

from watersmeet.kernels.jit import kernel

NEAR = 8  # keys copied at a time
AHEAD, SPARSE = (
    4,
    400,
)  # measured: the ratios |a| / |b| from which on merge_ahead, and then merge_sparse, wins


@kernel
def merge(a_keys, a_rows, b_keys, b_rows, out_keys, out_rows):
    """Merge by key, a before b on ties; O(|a| + |b|).

    The selection is arithmetic, not a branch: on random keys a branch is mispredicted every other time, and costs three times as much.
    """
    i = 0
    j = 0
    k = 0
    while i < a_keys.size and j < b_keys.size:
        a = a_keys[i]
        b = b_keys[j]
        first = a <= b
        out_keys[k] = a if first else b
        out_rows[k] = a_rows[i] if first else b_rows[j]
        i += first
        j += not first
        k += 1
    while i < a_keys.size:
        out_keys[k] = a_keys[i]
        out_rows[k] = a_rows[i]
        i += 1
        k += 1
    while j < b_keys.size:
        out_keys[k] = b_keys[j]
        out_rows[k] = b_rows[j]
        j += 1
        k += 1


@kernel
def merge_ahead(a_keys, a_rows, b_keys, b_rows, out_keys, out_rows):
    """The same for |a| several times |b|: NEAR keys of a are copied at a time, and as many kept as come before the next key of b.

    Copying too much and writing over it costs less than asking key by key: 1.7 ns a row of a instead of 3 at |a| = 32 |b|.
    """
    i = 0
    k = 0
    for j in range(b_keys.size):
        key = b_keys[j]
        before = NEAR
        while before == NEAR and i + NEAR <= a_keys.size and k + NEAR <= out_keys.size:
            keys = a_keys[i : i + NEAR]
            rows = a_rows[i : i + NEAR]
            to_keys = out_keys[k : k + NEAR]
            to_rows = out_rows[k : k + NEAR]
            before = 0
            for t in range(NEAR):
                before += keys[t] <= key
            for t in range(NEAR):
                to_keys[t] = keys[t]
            for t in range(NEAR):
                to_rows[t] = rows[t]
            i += before
            k += before
        while before == NEAR and i < a_keys.size and a_keys[i] <= key:
            out_keys[k] = a_keys[i]
            out_rows[k] = a_rows[i]
            i += 1
            k += 1
        out_keys[k] = key
        out_rows[k] = b_rows[j]
        k += 1
    out_keys[k:] = a_keys[i:]
    out_rows[k:] = a_rows[i:]


@kernel
def merge_sparse(a_keys, a_rows, b_keys, b_rows, out_keys, out_rows):
    """The same for |b| far smaller than |a|: each key of b is found by bisection, and the stretch of a before it copied whole."""
    i = 0
    k = 0
    for j in range(b_keys.size):
        key = b_keys[j]
        low = i
        high = a_keys.size
        while low < high:
            middle = (low + high) >> 1
            if a_keys[middle] <= key:
                low = middle + 1
            else:
                high = middle
        stretch = low - i
        out_keys[k : k + stretch] = a_keys[i:low]
        out_rows[k : k + stretch] = a_rows[i:low]
        k += stretch
        i = low
        out_keys[k] = key
        out_rows[k] = b_rows[j]
        k += 1
    out_keys[k:] = a_keys[i:]
    out_rows[k:] = a_rows[i:]


def merge_runs(
    a_keys: np.ndarray, a_rows: np.ndarray, b_keys: np.ndarray, b_rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Two sorted runs as one new run."""
    keys = np.empty(a_keys.size + b_keys.size, np.int64)
    rows = np.empty(keys.size, np.int32)
    ratio = a_keys.size / max(b_keys.size, 1)
    best = merge if ratio < AHEAD else merge_ahead if ratio < SPARSE else merge_sparse
    best(a_keys, a_rows, b_keys, b_rows, keys, rows)
    return keys, rows
