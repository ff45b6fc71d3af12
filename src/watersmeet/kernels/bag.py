"""Multisets of values by group: counted entries, whose smallest and largest one in each group stay known as entries come and go.

Entries are slots of a table of words: the group, then the words that put values in order. Entries of a group hang in a pairing heap
(Fredman, Sedgewick, Sleator, Tarjan 1986), one for the smallest and one for the largest: an entry costs O(1) to hang in, amortised
O(log n) to take from the top. An entry whose count has fallen to 0 is *dead*, and stays where it hangs until it is met, or comes back to
life. So the top of a heap is always alive, once ``settle`` has been called.

Links are entry + 1, and 0 is nobody. An entry's node has its first child, its next sibling, a copy of its first word, and whether it
hangs, and alive: half a cache line, all that a comparison needs. A group's top has the root, the root's first child and the root's word: an
entry that is not the first hangs itself under the root without looking at it. ``largest`` turns the order round. ``numbers``: the
word is a text's number, which the dictionary's ``entries`` and ``arena`` put in order.

Left aside: sorted runs that are merged with each batch. A push of ten rows would cost as much as the window is long. Links and words in
arrays apart, and children at the root itself: 0.6 of the speed, with half a million entries.
"""

import numpy as np

from watersmeet.kernels.dictionary import text_before
from watersmeet.kernels.jit import kernel

CHILD, SIBLING, WORD, HANGING = 0, 1, 2, 3  # of a node
ROOT = 3  # of a top, beside CHILD and WORD
TOP = 4
ALIVE, DEAD = 1, 2  # how an entry hangs


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
def precedes(left, right, nodes, words, largest, numbers, entries, arena):
    """Whether one entry is before another, both of one group."""
    if largest:
        left, right = right, left
    if numbers:
        return text_before(nodes[left, WORD], nodes[right, WORD], entries, arena)
    if nodes[left, WORD] != nodes[right, WORD]:
        return nodes[left, WORD] < nodes[right, WORD]
    for j in range(2, words.shape[1]):
        if words[left, j] != words[right, j]:
            return words[left, j] < words[right, j]
    return False


@kernel
def hang(slots, nodes, tops, words, largest, numbers, entries, arena):
    """Hang entries that do not hang yet into the heaps of their groups."""
    for slot in slots:
        if nodes[slot, HANGING]:
            nodes[slot, HANGING] = ALIVE
            continue
        group, word = words[slot, 0], words[slot, 1]
        nodes[slot, HANGING], nodes[slot, WORD] = ALIVE, word
        nodes[slot, CHILD] = nodes[slot, SIBLING] = 0
        root = tops[group, ROOT]
        if root == 0:
            tops[group, ROOT], tops[group, WORD] = slot + 1, word
            continue
        if numbers or word == tops[group, WORD]:
            before = precedes(slot, root - 1, nodes, words, largest, numbers, entries, arena)
        else:  # the common case does not look at the root
            before = (word < tops[group, WORD]) != largest
        if before:
            nodes[root - 1, CHILD], nodes[root - 1, SIBLING] = tops[group, CHILD], 0
            tops[group, ROOT], tops[group, CHILD], tops[group, WORD] = slot + 1, root, word
        else:
            nodes[slot, SIBLING] = tops[group, CHILD]
            tops[group, CHILD] = slot + 1


@kernel
def meld(left, right, nodes, words, largest, numbers, entries, arena):
    """Hang one tree (a link) under another; returns which is on top."""
    if left == 0:
        return right
    if precedes(right - 1, left - 1, nodes, words, largest, numbers, entries, arena):
        left, right = right, left
    nodes[right - 1, SIBLING] = nodes[left - 1, CHILD]
    nodes[left - 1, CHILD] = right
    return left


@kernel
def meld_all(first, nodes, words, largest, numbers, entries, arena, popped, count):
    """One tree of siblings: melded in pairs, then the pairs from the last one on. Returns who is on top, and how many were let go.

    Entries without count are let go on the way, and their children take their place.
    """
    paired, single = np.int64(0), np.int64(0)
    while first != 0:
        node, first = first, nodes[first - 1, SIBLING]
        nodes[node - 1, SIBLING] = 0
        if nodes[node - 1, HANGING] == DEAD:
            nodes[node - 1, HANGING] = 0
            popped[count] = node - 1
            count += 1
            child = nodes[node - 1, CHILD]
            if child != 0:
                last = child
                while nodes[last - 1, SIBLING] != 0:
                    last = nodes[last - 1, SIBLING]
                nodes[last - 1, SIBLING] = first
                first = child
        elif single == 0:
            single = node
        else:
            node = meld(single, node, nodes, words, largest, numbers, entries, arena)
            nodes[node - 1, SIBLING] = paired
            paired, single = node, np.int64(0)
    result = single
    while paired != 0:
        rest = nodes[paired - 1, SIBLING]
        nodes[paired - 1, SIBLING] = 0
        result = meld(result, paired, nodes, words, largest, numbers, entries, arena)
        paired = rest
    return result, count


@kernel
def settle(groups, nodes, tops, words, largest, numbers, entries, arena, popped):
    """Take entries without count from the tops of these groups' heaps. Returns how many were let go."""
    count = 0
    for group in groups:
        root = tops[group, ROOT]
        if root == 0 or nodes[root - 1, HANGING] != DEAD:
            continue
        nodes[root - 1, HANGING] = 0
        popped[count] = root - 1
        root, count = meld_all(
            tops[group, CHILD], nodes, words, largest, numbers, entries, arena, popped, count + 1
        )
        tops[group, ROOT] = root
        tops[group, CHILD] = 0
        if root != 0:
            tops[group, CHILD], tops[group, WORD] = nodes[root - 1, CHILD], nodes[root - 1, WORD]
    return count


@kernel
def bury(slots, nodes):
    """Entries have no count any more. They hang until they are met."""
    for slot in slots:
        nodes[slot, HANGING] = DEAD


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
