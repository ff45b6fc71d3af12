"""A hash table from rows of int64 words to slots: groups by their keys, or counted values by group and value.

Open addressing with linear probing. A place of ``table`` is a hash and a slot, beside each other as one cache line has both;
slot EMPTY: it is free. ``words`` has the words of each slot, and decides. Removal moves what follows back, so there are no
tombstones and a probe ends at the first free place.

``room`` says what the caller has allocated and used: FRESH, the first slot that was never given; FREED, how many slots wait
in ``freed`` to be given again; HELD, how many slots the table holds.
"""

import numba
import numpy as np

from watersmeet.kernels.code import PRIME1, scramble
from watersmeet.kernels.jit import kernel

EMPTY = -1
HASH, SLOT = 0, 1
FRESH, FREED, HELD = 0, 1, 2
NOBODY = -1


@kernel
def hash_words(words, row):
    """A hash of one row of words."""
    result = np.uint64(0)
    for j in range(words.shape[1]):
        result = scramble(result * PRIME1 + np.uint64(words[row, j]))
    return result


@kernel
def same_words(rows, i, words, slot):
    """Whether a row has the words of a slot."""
    different = np.int64(0)
    for j in range(rows.shape[1]):
        different |= rows[i, j] ^ words[slot, j]
    return different == 0


@kernel
def find(rows, table, shift, words, out):
    """The slot of each row; NOBODY where the table has none."""
    mask = table.shape[0] - 1
    for i in range(rows.shape[0]):
        hash = hash_words(rows, i)
        code, place = np.int64(hash), np.int64(hash >> shift)
        while table[place, SLOT] != EMPTY and not (
            table[place, HASH] == code and same_words(rows, i, words, table[place, SLOT])
        ):
            place = (place + 1) & mask
        out[i] = table[place, SLOT]


@kernel
def enter(rows, row, table, shift, words, freed, room, out, made):
    """The slot of each row from ``row`` on, a new one where there was none; ``made`` has the rows for which one was made.

    Stops where the table or the slots are full. Returns how far it came, and how many slots it made.
    """
    mask, most, count = table.shape[0] - 1, table.shape[0] // 2, 0
    for i in range(row, rows.shape[0]):
        hash = hash_words(rows, i)
        code, place = np.int64(hash), np.int64(hash >> shift)
        while table[place, SLOT] != EMPTY and not (
            table[place, HASH] == code and same_words(rows, i, words, table[place, SLOT])
        ):
            place = (place + 1) & mask
        slot = table[place, SLOT]
        if slot == EMPTY:
            if room[HELD] >= most or (room[FREED] == 0 and room[FRESH] >= words.shape[0]):
                return i, count
            if room[FREED] > 0:
                room[FREED] -= 1
                slot = freed[room[FREED]]
            else:
                slot = room[FRESH]
                room[FRESH] += 1
            room[HELD] += 1
            for j in range(rows.shape[1]):
                words[slot, j] = rows[i, j]
            table[place, HASH] = code
            table[place, SLOT] = slot
            made[count] = i
            count += 1
        out[i] = slot
    return rows.shape[0], count


@kernel
def remove(slots, table, shift, words, freed, room):
    """Take slots out of the table, and let them be given again."""
    mask = table.shape[0] - 1
    for slot in slots:
        place = np.int64(hash_words(words, slot) >> shift)
        while table[place, SLOT] != slot:
            place = (place + 1) & mask
        hole = place
        while True:  # whoever would be found no more behind the hole moves into it
            place = (place + 1) & mask
            if table[place, SLOT] == EMPTY:
                break
            home = np.int64(np.uint64(table[place, HASH]) >> shift)
            if ((place - home) & mask) >= ((place - hole) & mask):
                table[hole, HASH], table[hole, SLOT] = table[place, HASH], table[place, SLOT]
                hole = place
        table[hole, SLOT] = EMPTY
        freed[room[FREED]] = slot
        room[FREED] += 1
        room[HELD] -= 1


@kernel
def place_all(alive, fresh, table, shift, words, freed, room):
    """Fill an empty table with all slots that are alive; the others below ``fresh`` may be given again."""
    mask = table.shape[0] - 1
    room[FRESH], room[FREED], room[HELD] = fresh, 0, 0
    for slot in range(fresh):
        if not alive[slot]:
            freed[room[FREED]] = slot
            room[FREED] += 1
            continue
        hash = hash_words(words, slot)
        place = np.int64(hash >> shift)
        while table[place, SLOT] != EMPTY:
            place = (place + 1) & mask
        table[place, HASH] = np.int64(hash)
        table[place, SLOT] = slot
        room[HELD] += 1


@kernel
def first_met(slots, stamps, stamp, out):
    """The slots that do not have the stamp yet, each once; they get it. Returns how many."""
    count = 0
    for slot in slots:
        if stamps[slot] != stamp:
            stamps[slot] = stamp
            out[count] = slot
            count += 1
    return count


@kernel
def count_rows(slots, valid, sign, counts):
    """Count each row that is valid (an empty mask: all are) in its slot. Returns the least count that a slot had on the way."""
    least, everywhere = np.int64(0), valid.size == 0
    for i in range(slots.size):
        if everywhere or valid[i]:
            counts[slots[i]] += sign
            least = min(least, counts[slots[i]])
    return least


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    _quiet = np.errstate(over="ignore")
    hash_words = _quiet(hash_words)
