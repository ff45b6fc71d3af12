"""A table of texts by their hash: which text a hash stands for; texts that were not asked for lately can be forgotten.

The texts lie one behind the other on an endless tape, as words: how many bytes, then the bytes, eight to a word; of a last word that is
not full, the last eight bytes. ``tape`` is a ring that has the tape's newest part; a text does not go over its end. What lies before
the tape's *tail* is forgotten; a text that is asked for and lies before *fresh* is written once more, at the *head*. So texts that
were asked for since some moment lie behind where the head was then, and to forget the others is to move the tail: O(1).

A slot of the table is a hash, and where its text begins. A forgotten text keeps its slot until ``sweep``.

Measured with 400,000 UUIDs on a busy machine, ns of CPU time a text: 43 to enter it, 26 if it is known (55 and 39 with a count of who
holds the arrays, `uncounted`). 225 at first, with texts that stay where they are, and a table that is made anew of all that is stored
(most of it for memory that is touched for the first time, and for texts entered twice). Without fetching ahead 70 to 130 in place of
50. Tried and lost: slots of eight bytes with a part of the hash (as fast, and sweeping takes longer); four hashes and four places in a
line of the cache, searched without a branch (67); lots of 16 to 256 rows (the same).
"""

import numba
import numpy as np

from watersmeet.kernels.jit import inlined, kernel, uncounted
from watersmeet.kernels.raw import on_stack, prefetch
from watersmeet.kernels.words import last_word, word_at

DONE, FULL, ANOTHER = 0, 1, 2
EMPTY, SEVERAL = np.int64(-1), np.int64(2**63 - 1)
USED, HEAD, TAIL, FRESH = 0, 1, 2, 3  # what ``state`` has: slots that are not empty; places on the tape
HASH, START = 0, 1  # of a slot: beside each other
LOT = 128  # rows whose slots, then texts, are fetched together: the fetches overlap

SPREAD = np.uint64(0x9E3779B97F4A7C15)


@uncounted
def learn(data, offsets, hashes, row, share, shift, table, tape, state):
    """Enter the texts data[offsets[i]:offsets[i+1]], from ``row`` on, under their hashes; ``share``: those of one share.

    EMPTY: a slot is free; SEVERAL: its hash stands for no single text. Stops at the first row for which there is no room (FULL), or whose
    hash does not stand for its text (ANOTHER). Returns the row and why.
    """
    mine, slots, mask = on_stack(LOT), on_stack(LOT), table.shape[0] - 1
    around, room, tail, fresh = tape.size - 1, room_in(table.shape[0]), state[TAIL], state[FRESH]
    for first in range(row, hashes.size, LOT):
        count = those_of(share, hashes, first, mine)
        for j in range(count):
            slots[j] = np.int64((hashes[mine[j]] * SPREAD) >> shift)
            prefetch(table, 2 * slots[j])  # counted through both columns
        for j in range(count):
            slot = find(table, slots[j], np.int64(hashes[mine[j]]), mask)
            slots[j], begin = slot, table[slot, START]
            if begin != EMPTY:
                prefetch(tape, begin & around)
                prefetch(tape, (begin & around) + 5)  # the end of 36 bytes
        for j in range(count):
            i = mine[j]
            start, size = offsets[i], offsets[i + 1] - offsets[i]
            # Another row of the lot may have taken the slot meanwhile.
            slot = find(table, slots[j], np.int64(hashes[i]), mask)
            begin = table[slot, START]
            if begin >= tail:
                if begin == SEVERAL or is_other(data, start, size, tape, begin & around):
                    return i, ANOTHER
                if begin >= fresh:
                    continue
            place, words = state[HEAD], words_of(size)
            if (place & around) + words > tape.size:
                place += tape.size - (place & around)
            if state[USED] >= room or place + words - tail > tape.size:
                return i, FULL
            write(data, start, size, tape, place & around)
            state[USED] += begin == EMPTY
            state[HEAD] = place + words
            table[slot, HASH], table[slot, START] = np.int64(hashes[i]), place
    return hashes.size, DONE


@uncounted
def look_ahead(hashes, share, shift, table, tape):
    """Fetch what ``learn`` will look at, while somebody else changes it: nothing is decided by what is read."""
    around, mine, slots = tape.size - 1, on_stack(LOT), on_stack(LOT)
    for first in range(0, hashes.size, LOT):
        count = those_of(share, hashes, first, mine)
        for j in range(count):
            slots[j] = np.int64((hashes[mine[j]] * SPREAD) >> shift)
            prefetch(table, 2 * slots[j])
        for j in range(count):
            begin = table[slots[j], START]
            if begin != EMPTY:
                prefetch(tape, begin & around)


@uncounted
def those_of(share, hashes, first, mine):
    """Which of the lot from ``first`` on are of a share (the mask of the bits that tell shares apart, and what they are); how many."""
    count, mask, bits = 0, share[0], share[1]
    for i in range(first, min(first + LOT, hashes.size)):
        mine[count] = i
        count += np.int64(hashes[i] & mask == bits)
    return count


@kernel
def room_in(slots):
    """How many slots of a table may be taken."""
    return slots // 4 * 3


@inlined
def words_of(size):
    """How many words a text of so many bytes takes."""
    return 1 + ((size + 7) >> 3)


@inlined
def find(table, slot, hashed, mask):
    """Where a hash is, or would be, from a slot on."""
    while table[slot, START] != EMPTY and table[slot, HASH] != hashed:
        slot = (slot + 1) & mask
    return slot


@inlined
def is_other(data, start, size, tape, at):
    """Whether a text is not the one that is written at a place."""
    if tape[at] != np.uint64(size):
        return True
    different = np.uint64(0)
    if size:
        last = (size - 1) >> 3
        for k in range(last):
            different |= tape[at + 1 + k] ^ word_at(data, start + 8 * k)
        different |= tape[at + 1 + last] ^ last_word(data, start, size)
    return different != 0


@inlined
def write(data, start, size, tape, at):
    """Write a text to a place."""
    tape[at] = np.uint64(size)
    if size:
        last = (size - 1) >> 3
        for k in range(last):
            tape[at + 1 + k] = word_at(data, start + 8 * k)
        tape[at + 1 + last] = last_word(data, start, size)


@kernel
def sweep(table, shift, state):
    """Free the slots of forgotten texts, in place: from a free slot on, what is left of each run of slots moves up."""
    mask, used, begin = table.shape[0] - 1, 0, 0
    while table[begin, START] != EMPTY:
        begin += 1
    for i in range(begin, begin + table.shape[0]):
        hashed, start = table[i & mask, HASH], table[i & mask, START]
        if start == EMPTY:
            continue
        table[i & mask, START] = EMPTY
        if start >= state[TAIL]:
            put(table, shift, hashed, start)
            used += 1
    state[USED] = used


@kernel
def put(table, shift, hashed, start):
    """Take a slot for a hash that has none."""
    slot, mask = np.int64((np.uint64(hashed) * SPREAD) >> shift), table.shape[0] - 1
    while table[slot, START] != EMPTY:
        slot = (slot + 1) & mask
    table[slot, HASH], table[slot, START] = hashed, start


@kernel
def relearn(old, shift, table):
    """Enter the slots of a table into a larger one; the texts stay where they are."""
    for i in range(old.shape[0]):
        if old[i, START] != EMPTY:
            put(table, shift, old[i, HASH], old[i, START])


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    _quiet = np.errstate(over="ignore")
    learn, put, look_ahead = _quiet(learn), _quiet(put), _quiet(look_ahead)
