"""A dictionary of texts: equal texts have one number, numbers are compared as their texts are.

Open addressing by a text's hash; the bytes decide, so that two texts with one hash are two entries. An entry is a row of
``entries``: its hash, where its bytes begin and end in ``arena``, and its first eight bytes as a word in byte order.
``room``: FRESH, the first number that was never given; FREED, how many wait in ``freed``; BYTES of the arena in use.
"""

import numba
import numpy as np

from watersmeet.kernels.code import FLIP, PRIME1, S8
from watersmeet.kernels.jit import inlined, kernel
from watersmeet.kernels.words import last_word, word_at

HASH, START, END, PREFIX = 0, 1, 2, 3
FRESH, FREED, BYTES = 0, 1, 2
EMPTY = -1
SHORT = 7  # bytes that fit a word beside their number
S56 = np.uint64(56)
RECENT, NEAR = (
    1 << 10,
    np.uint64(64 - 10),
)  # texts that are recalled: 16 KB, half of what the nearest cache has


@inlined
def same_text(data, start, size, entries, number, arena):
    """Whether an entry has these bytes."""
    begin = entries[number, START]
    if entries[number, END] - begin != size:
        return False
    different = np.uint64(0)
    if size >= 8:
        for j in range(0, size - 8, 8):
            different |= word_at(arena, begin + j) ^ word_at(data, start + j)
        different |= word_at(arena, begin + size - 8) ^ word_at(data, start + size - 8)
    else:
        for j in range(size):
            different |= np.uint64(arena[begin + j] ^ data[start + j])
    return different == 0


@inlined
def short_key(data, start, size):
    """A text of at most SHORT bytes as a word: its bytes, and how many above them."""
    return last_word(data, start, size) | (np.uint64(size) << S56)


@kernel
def recall(data, offsets, valid, recent, out, missed):
    """The number of each short text that was met lately; 0 for NULL. ``missed`` gets the rows of the others. Returns how many those are.

    ``recent`` has a place for each of some hashes: the key that was there last, and its number. A row that is found costs 2.5 ns
    (3 texts of 1 byte), and needs neither its hash nor its entry.
    """
    count, everywhere = 0, valid.size == 0
    for i in range(out.size):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        out[i] = 0
        if not everywhere and not valid[i]:
            continue
        if size <= SHORT:
            key = short_key(data, start, size)
            place = np.int64((key * PRIME1) >> NEAR)
            if recent[place, 0] == np.int64(key):
                out[i] = recent[place, 1]
                continue
        missed[count] = i
        count += 1
    return count


@kernel
def number_texts(data, offsets, hashes, rows, at, table, shift, entries, arena, freed, room, recent, out):
    """The number of the texts data[offsets[i]:offsets[i+1]] of ``rows[at:]``. Stops where there is no room; returns how far it came.

    10,000 texts of 12 bytes take 29 ns each with their hashes. Texts are compared in place: a function that is handed the arrays costs
    more than the comparison, as they are counted.
    """
    mask = table.size - 1
    for k in range(at, rows.size):
        i = rows[k]
        start, size, code = offsets[i], offsets[i + 1] - offsets[i], np.int64(hashes[i])
        place = np.int64(hashes[i] >> shift)
        while table[place] != EMPTY and not (
            entries[table[place], HASH] == code and same_text(data, start, size, entries, table[place], arena)
        ):
            place = (place + 1) & mask
        number = table[place]
        if number == EMPTY:
            if (room[FREED] == 0 and room[FRESH] >= entries.shape[0]) or room[BYTES] + size > arena.size:
                return k
            if room[FREED] > 0:
                room[FREED] -= 1
                number = freed[room[FREED]]
            else:
                number = room[FRESH]
                room[FRESH] += 1
            begin, prefix = room[BYTES], np.uint64(0)
            for j in range(size):
                arena[begin + j] = data[start + j]
            for j in range(8):
                prefix <<= S8
                if j < size:
                    prefix |= np.uint64(data[start + j])
            entries[number, HASH], entries[number, START], entries[number, END] = code, begin, begin + size
            entries[number, PREFIX] = np.int64(prefix ^ FLIP)
            room[BYTES] += size
            table[place] = number
        if size <= SHORT:
            key = short_key(data, start, size)
            near_by = np.int64((key * PRIME1) >> NEAR)
            recent[near_by, 0], recent[near_by, 1] = np.int64(key), number
        out[i] = number
    return rows.size


@kernel
def find_texts(data, offsets, hashes, valid, table, shift, entries, arena, out):
    """The number of each text data[offsets[i]:offsets[i+1]]; EMPTY where there is none."""
    mask, everywhere = table.size - 1, valid.size == 0
    for i in range(hashes.size):
        out[i] = EMPTY
        if everywhere or valid[i]:
            start, size, code = offsets[i], offsets[i + 1] - offsets[i], np.int64(hashes[i])
            place = np.int64(hashes[i] >> shift)
            while table[place] != EMPTY and not (
                entries[table[place], HASH] == code
                and same_text(data, start, size, entries, table[place], arena)
            ):
                place = (place + 1) & mask
            out[i] = table[place]


@kernel
def place_texts(used, table, shift, entries, arena, freed, room, fresh_arena):
    """Enter all numbers in use into an empty table, and their bytes into another arena; the others may be given again."""
    mask = table.size - 1
    room[FREED] = room[BYTES] = 0
    for number in range(room[FRESH]):
        if not used[number]:
            freed[room[FREED]] = number
            room[FREED] += 1
            continue
        place = np.int64(np.uint64(entries[number, HASH]) >> shift)
        while table[place] != EMPTY:
            place = (place + 1) & mask
        table[place] = number
        begin, start, size = (
            room[BYTES],
            entries[number, START],
            entries[number, END] - entries[number, START],
        )
        fresh_arena[begin : begin + size] = arena[start : start + size]
        entries[number, START], entries[number, END] = begin, begin + size
        room[BYTES] += size


@kernel
def text_before(left, right, entries, arena):
    """Whether the text of one number is before that of another, in byte order."""
    if left == right:
        return False
    if entries[left, PREFIX] != entries[right, PREFIX]:
        return entries[left, PREFIX] < entries[right, PREFIX]
    i, j = entries[left, START], entries[right, START]
    while i < entries[left, END] and j < entries[right, END]:
        if arena[i] != arena[j]:
            return arena[i] < arena[j]
        i += 1
        j += 1
    return entries[left, END] - entries[left, START] < entries[right, END] - entries[right, START]


@kernel
def text_offsets(numbers, entries, offsets):
    """Where each text begins, and the last one ends, once they lie one after the other."""
    offsets[0] = 0
    for i in range(numbers.size):
        offsets[i + 1] = offsets[i] + entries[numbers[i], END] - entries[numbers[i], START]


@kernel
def gather_texts(numbers, entries, arena, offsets, data):
    """The bytes of the texts, one after the other."""
    for i in range(numbers.size):
        start = entries[numbers[i], START]
        for j in range(offsets[i + 1] - offsets[i]):
            data[offsets[i] + j] = arena[start + j]


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    _quiet = np.errstate(over="ignore")
    recall, number_texts = _quiet(recall), _quiet(number_texts)
