"""A table of texts by their hash: which text a hash stands for."""

import numba
import numpy as np

from watersmeet.kernels.jit import kernel

DONE, FULL, ANOTHER = 0, 1, 2
EMPTY, SEVERAL = np.int64(-1), np.int64(-2)
TABLED, BYTES = 0, 1  # places in ``used``
HASH, START, END = 0, 1, 2  # columns of a table: beside each other, as a slot far away costs as much as three
LOT = 64  # rows whose slots, then texts, are fetched together: the fetches overlap

SPREAD = np.uint64(0x9E3779B97F4A7C15)


@kernel
def learn(data, offsets, hashes, row, shift, table, arena, used):
    """Enter the texts data[offsets[i]:offsets[i+1]], from ``row`` on, under their hashes.

    A slot has a hash, and where its text begins and ends in ``arena``; EMPTY: it is free; SEVERAL: the hash stands for no single
    text. Stops at the first row for which there is no room (FULL), or whose hash does not stand for its text (ANOTHER). Returns the
    row and why.
    """
    slots, mask, room = np.empty(LOT, np.int64), table.shape[0] - 1, table.shape[0] - table.shape[0] // 4
    for first in range(row, hashes.size, LOT):
        last = min(first + LOT, hashes.size)
        for i in range(first, last):
            slot = np.int64((hashes[i] * SPREAD) >> shift)
            while table[slot, START] != EMPTY and table[slot, HASH] != np.int64(hashes[i]):
                slot = (slot + 1) & mask
            slots[i - first] = slot
        for i in range(first, last):
            start, size, slot = offsets[i], offsets[i + 1] - offsets[i], slots[i - first]
            # Another row of the lot may have taken the slot meanwhile.
            while table[slot, START] != EMPTY and table[slot, HASH] != np.int64(hashes[i]):
                slot = (slot + 1) & mask
            begin = table[slot, START]
            if begin == EMPTY:
                if used[TABLED] >= room or used[BYTES] + size > arena.size:
                    return i, FULL
                begin = used[BYTES]
                for j in range(size):
                    arena[begin + j] = data[start + j]
                table[slot, HASH], table[slot, START], table[slot, END] = (
                    np.int64(hashes[i]),
                    begin,
                    begin + size,
                )
                used[TABLED] += 1
                used[BYTES] += size
                continue
            different = np.int64(begin == SEVERAL or table[slot, END] - begin != size)
            if not different:
                for j in range(size):  # without a way out: several bytes are compared at a time
                    different |= arena[begin + j] ^ data[start + j]
            if different:
                return i, ANOTHER
    return hashes.size, DONE


@kernel
def relearn(old, shift, table):
    """Enter the slots of a table into a larger one; the texts stay where they are."""
    mask = table.shape[0] - 1
    for i in range(old.shape[0]):
        if old[i, START] != EMPTY:
            slot = np.int64((np.uint64(old[i, HASH]) * SPREAD) >> shift)
            while table[slot, START] != EMPTY:
                slot = (slot + 1) & mask
            table[slot] = old[i]


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    _quiet = np.errstate(over="ignore")
    learn, relearn = _quiet(learn), _quiet(relearn)
