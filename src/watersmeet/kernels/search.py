"""Rebounding binary search: find the next place in a sorted table, starting from the last one found.

A sorted batch asks for places that never go back, so each search starts where the one before it ended
(PanJoin, section III.E): the steps double forwards until they pass the key, then halve backwards. A step of d
places costs O(log d), so a batch of B keys over P places costs O(B log(P/B)) and never more than a plain
binary search for each key.
"""

from watersmeet.kernels.jit import kernel


@kernel
def rebound(table, first, last, key):
    """Return the smallest i in [first, last] with i == last or table[i] > key; table[first:last] ascends."""
    low = first
    step = 1
    while low + step <= last and table[low + step - 1] <= key:
        low += step
        step += step
    high = min(low + step - 1, last)
    while low < high:
        middle = (low + high) >> 1
        if table[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def rebound_below(table, first, last, key):
    """Return the smallest i in [first, last] with i == last or table[i] >= key; table[first:last] ascends."""
    low = first
    step = 1
    while low + step <= last and table[low + step - 1] < key:
        low += step
        step += step
    high = min(low + step - 1, last)
    while low < high:
        middle = (low + high) >> 1
        if table[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low
