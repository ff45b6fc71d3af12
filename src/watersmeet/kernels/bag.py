"""Multisets of values by group: counted entries, whose smallest and largest one in each group stay known as entries come and go.

Entries are slots of a table of words: the group, then the words that put values in order. Entries of a group hang in a pairing heap
(Fredman, Sedgewick, Sleator, Tarjan 1986), one for the smallest and one for the largest: an entry costs O(1) to hang in, amortised
O(log n) to take from the top. An entry whose count has fallen to 0 stays where it hangs until it comes to the top, or comes back to
life. So the top of a heap is always alive, once ``settle`` has been called.

Links are entry + 1, and 0 is nobody. ``largest`` turns the order round. ``numbers``: the word is a text's number, which the
dictionary's ``entries`` and ``arena`` put in order.

Left aside: sorted runs that are merged with each batch. A push of ten rows would cost as much as the window is long.
"""

import numpy as np

from watersmeet.kernels.dictionary import text_before
from watersmeet.kernels.jit import kernel


@kernel
def count_entries(slots, groups, sign, counts, distinct, turned):
    """Count each row in its entry, and the entries that are there in their groups.

    ``turned`` has the entries that began or ceased to be. Returns how many, and the least count.
    """
    count, least = 0, np.int64(0)
    for i in range(slots.size):
        before = counts[slots[i]]
        after = before + sign
        counts[slots[i]] = after
        least = min(least, after)
        if before == 0 or after == 0:
            distinct[groups[i]] += sign
            turned[count] = slots[i]
            count += 1
    return count, least


@kernel
def precedes(left, right, words, largest, numbers, entries, arena):
    """Whether one entry is before another, both of one group."""
    if largest:
        left, right = right, left
    if numbers:
        return text_before(words[left, 1], words[right, 1], entries, arena)
    for j in range(1, words.shape[1]):
        if words[left, j] != words[right, j]:
            return words[left, j] < words[right, j]
    return False


@kernel
def meld(left, right, links, words, largest, numbers, entries, arena):
    """Hang one top (a link) under another; returns which is on top. ``links``: first child, next sibling."""
    if left == 0:
        return right
    if precedes(right - 1, left - 1, words, largest, numbers, entries, arena):
        left, right = right, left
    links[right - 1, 1] = links[left - 1, 0]
    links[left - 1, 0] = right
    return left


@kernel
def hang(slots, links, hanging, roots, words, largest, numbers, entries, arena):
    """Hang entries that do not hang yet into the heaps of their groups."""
    for slot in slots:
        if not hanging[slot]:
            hanging[slot] = True
            group = words[slot, 0]
            roots[group] = meld(roots[group], slot + 1, links, words, largest, numbers, entries, arena)


@kernel
def pop(top, links, words, largest, numbers, entries, arena):
    """Take the top (a link) away; returns who is on top then. Children are melded in pairs, then the pairs from the last one on."""
    first, paired = links[top - 1, 0], np.int64(0)
    links[top - 1, 0] = 0
    while first != 0:
        left, right = first, links[first - 1, 1]
        first = np.int64(0)
        links[left - 1, 1] = 0
        if right != 0:
            first = links[right - 1, 1]
            links[right - 1, 1] = 0
            left = meld(left, right, links, words, largest, numbers, entries, arena)
        links[left - 1, 1] = paired
        paired = left
    result = np.int64(0)
    while paired != 0:
        rest = links[paired - 1, 1]
        links[paired - 1, 1] = 0
        result = meld(result, paired, links, words, largest, numbers, entries, arena)
        paired = rest
    return result


@kernel
def settle(groups, counts, links, hanging, roots, words, largest, numbers, entries, arena, popped):
    """Take entries without count from the tops of these groups' heaps. Returns how many there were."""
    count = 0
    for group in groups:
        top = roots[group]
        while top != 0 and counts[top - 1] == 0:
            hanging[top - 1] = False
            popped[count] = top - 1
            count += 1
            top = pop(top, links, words, largest, numbers, entries, arena)
        roots[group] = top
    return count


@kernel
def improve(slots, rows, payload, valid, best, kept, known, largest, numbers, entries, arena):
    """Of each slot, keep the words and the payload of the row that is first (``largest``: last) in order, of equal ones the earlier."""
    everywhere = valid.size == 0
    for i in range(slots.size):
        if not everywhere and not valid[i]:
            continue
        slot, better = slots[i], False
        if known[slot] == 0:
            better = True
        elif numbers:
            if largest:
                better = text_before(best[slot, 0], rows[i, 0], entries, arena)
            else:
                better = text_before(rows[i, 0], best[slot, 0], entries, arena)
        else:
            for j in range(rows.shape[1]):
                if rows[i, j] != best[slot, j]:
                    better = (rows[i, j] < best[slot, j]) != largest
                    break
        if better:
            known[slot] = 1
            for j in range(rows.shape[1]):
                best[slot, j] = rows[i, j]
            for j in range(payload.shape[1]):
                kept[slot, j] = payload[i, j]
