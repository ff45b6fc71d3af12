"""Kernels of the WiB+-Tree: descent along sorted keys, insertion of a sorted batch, splitting of leaves and
nodes.

A node ``v`` has ``size[v]`` children, ``child[v * fanout + t]``, and between them ascending separators
without duplicates: ``cut[v * fanout + t]`` is the least key that may lie under child t + 1. The tree has
``meta[HEIGHT]`` levels of nodes, at least one; the children of the lowest are leaves, each named by its first
entry in the LLAT. All rows with one key are in one leaf. A leaf holds at most ``width`` rows in one entry,
unless it is ``single``: then its range is one key alone, and it goes on in linked entries as far as it must.

A path gives, for each level, the node, the number of the child taken, and the greatest key that may lie under
that child.
"""

import numpy as np

from watersmeet.kernels.jit import kernel
from watersmeet.kernels.llat import append
from watersmeet.kernels.search import rebound

ROOT, HEIGHT, NODES, FANOUT, META_SIZE = 0, 1, 2, 3, 4
LONGEST_PATH = 64
LEAST = np.iinfo(np.int64).min
GREATEST = np.iinfo(np.int64).max


@kernel
def descend(key, level, meta, cut, child, size, path_node, path_slot, path_most):
    """Follow ``key`` down from the path's node at ``level``, no child before the path's own; return the
    leaf.
    """
    fanout = meta[FANOUT]
    most = GREATEST
    if level > 0:
        most = path_most[level - 1]
    while True:
        base = path_node[level] * fanout
        last = base + size[path_node[level]] - 1
        place = rebound(cut, base + path_slot[level], last, key)
        if place < last:
            most = cut[place] - 1
        path_slot[level] = place - base
        path_most[level] = most
        level += 1
        if level == meta[HEIGHT]:
            return child[place]
        path_node[level] = child[place]
        path_slot[level] = 0


@kernel
def from_root(key, meta, cut, child, size, path_node, path_slot, path_most):
    """Return the leaf of ``key``, and set the path to it."""
    path_node[0] = meta[ROOT]
    path_slot[0] = 0
    return descend(key, 0, meta, cut, child, size, path_node, path_slot, path_most)


@kernel
def onwards(key, meta, cut, child, size, path_node, path_slot, path_most):
    """Return the leaf of a key beyond the path's leaf: up to the first node that covers it, then down."""
    level = meta[HEIGHT] - 1
    while level > 0 and key > path_most[level - 1]:
        level -= 1
    return descend(key, level, meta, cut, child, size, path_node, path_slot, path_most)


@kernel
def find_leaves(keys, meta, cut, child, size, path_node, path_slot, path_most, target):
    """Write the leaf of each of the ascending ``keys``, of which there is at least one."""
    leaf = from_root(keys[0], meta, cut, child, size, path_node, path_slot, path_most)
    bottom = meta[HEIGHT] - 1
    most = path_most[bottom]
    for i in range(len(keys)):
        if keys[i] > most:
            leaf = onwards(keys[i], meta, cut, child, size, path_node, path_slot, path_most)
            most = path_most[bottom]
        target[i] = leaf


@kernel
def find_targets(lo, hi, meta, cut, child, size, path_node, path_slot, path_most, low, up):
    """Write each probe's target leaves; one that wants nothing gets one target, where nothing will match."""
    if len(lo) > 0:
        find_leaves(lo, meta, cut, child, size, path_node, path_slot, path_most, low)
        find_leaves(hi, meta, cut, child, size, path_node, path_slot, path_most, up)
    for i in range(len(lo)):
        if lo[i] > hi[i]:
            up[i] = low[i]


@kernel
def least_of_leaf(level, fanout, cut, path_node, path_slot):
    """Return the least key that may lie in the path's leaf: the nearest separator to the left of the path."""
    while level >= 0:
        if path_slot[level] > 0:
            return cut[path_node[level] * fanout + path_slot[level] - 1]
        level -= 1
    return LEAST


@kernel
def sort_rows(keys, rows, begin, end):
    """Sort a leaf's rows by key, in place. Insertion sort: leaves are short and made of a few ascending
    runs.
    """
    for i in range(begin + 1, end):
        key = keys[i]
        row = rows[i]
        j = i
        while j > begin and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            rows[j] = rows[j - 1]
            j -= 1
        keys[j] = key
        rows[j] = row


@kernel
def put_child(node, slot, key, below, fanout, cut, child, size):
    """Give a node that has room a child after child ``slot``, with ``key`` as the separator between the
    two.
    """
    base = node * fanout
    count = size[node]
    for i in range(count - 1, slot, -1):
        child[base + i + 1] = child[base + i]
        cut[base + i] = cut[base + i - 1]
    child[base + slot + 1] = below
    cut[base + slot] = key
    size[node] = count + 1


@kernel
def add_child(key, below, meta, cut, child, size, path_node, path_slot):
    """Add a child right of the path at the lowest level, splitting full nodes on the way up. The path is
    then void.
    """
    fanout = meta[FANOUT]
    half = fanout // 2
    for level in range(meta[HEIGHT] - 1, -1, -1):
        node = path_node[level]
        slot = path_slot[level]
        if size[node] < fanout:
            put_child(node, slot, key, below, fanout, cut, child, size)
            return
        other = meta[NODES]
        meta[NODES] += 1
        middle = cut[node * fanout + half - 1]
        for i in range(half, fanout):
            child[other * fanout + i - half] = child[node * fanout + i]
            cut[other * fanout + i - half] = cut[node * fanout + i]
        size[node] = half
        size[other] = fanout - half
        if slot < half:
            put_child(node, slot, key, below, fanout, cut, child, size)
        else:
            put_child(other, slot - half, key, below, fanout, cut, child, size)
        key = middle
        below = other
    root = meta[NODES]
    meta[NODES] += 1
    child[root * fanout] = meta[ROOT]
    size[root] = 1
    put_child(root, 0, key, below, fanout, cut, child, size)
    meta[ROOT] = root
    meta[HEIGHT] += 1


@kernel
def move_tail(leaf, at, after, keys, rows, start, used, fresh):
    """Move a leaf's rows from slot ``at`` on to a new leaf behind it; return the new leaf."""
    other = fresh[0]
    fresh[0] += 1
    begin = start[leaf]
    place = start[other]
    for i in range(at, used[leaf]):
        keys[place + i - at] = keys[begin + i]
        rows[place + i - at] = rows[begin + i]
    used[other] = used[leaf] - at
    used[leaf] = at
    after[other] = after[leaf]
    after[leaf] = other
    return other


@kernel
def split(
    key,
    leaf,
    meta,
    cut,
    child,
    size,
    path_node,
    path_slot,
    path_most,
    single,
    after,
    keys,
    rows,
    start,
    used,
    fresh,
):
    """Split the path's leaf, which is full and into which ``key`` wants; the path is then void. At most 2 new
    leaves.

    By sorting, then cutting below or above the middle key, if that leaves a quarter of the rows or more on
    either side. If it does not, more than half of the rows have the middle key: it gets a leaf for itself,
    and the rows below and above it one each. The last leaf is not cut if ``key`` is beyond all its rows: the
    new leaf starts empty, so ever-increasing keys fill leaves to the brim, one after the other, and sort
    nothing twice.
    """
    begin = start[leaf]
    width = used[leaf]
    sort_rows(keys, rows, begin, begin + width)
    if after[leaf] < 0 and key > keys[begin + width - 1]:
        other = move_tail(leaf, width, after, keys, rows, start, used, fresh)
        add_child(key, other, meta, cut, child, size, path_node, path_slot)
        return
    middle = keys[begin + width // 2]
    below = width // 2
    while below > 0 and keys[begin + below - 1] == middle:
        below -= 1
    above = width // 2 + 1
    while above < width and keys[begin + above] == middle:
        above += 1
    quarter = max(1, width // 4)
    if below >= quarter or width - above >= quarter:
        at = below if below >= quarter else above
        other = move_tail(leaf, at, after, keys, rows, start, used, fresh)
        add_child(keys[start[other]], other, meta, cut, child, size, path_node, path_slot)
        return
    bottom = meta[HEIGHT] - 1
    least = least_of_leaf(bottom, meta[FANOUT], cut, path_node, path_slot)
    if middle < path_most[bottom]:
        other = move_tail(leaf, above, after, keys, rows, start, used, fresh)
        add_child(middle + 1, other, meta, cut, child, size, path_node, path_slot)
        from_root(middle, meta, cut, child, size, path_node, path_slot, path_most)
    if least < middle:
        leaf = move_tail(leaf, below, after, keys, rows, start, used, fresh)
        add_child(middle, leaf, meta, cut, child, size, path_node, path_slot)
    single[leaf] = 1


@kernel
def insert(
    new_keys, new_rows, done, meta, cut, child, size, path_node, path_slot, path_most, single, after,
    width, keys, rows, start, used, link, last, fresh,
):  # fmt: skip
    """Store a batch sorted by key from row ``done`` on; return how many rows are in. Fewer than all:
    entries or nodes ran out.
    """
    count = len(new_keys)
    leaf = from_root(new_keys[done], meta, cut, child, size, path_node, path_slot, path_most)
    while done < count:
        key = new_keys[done]
        if key > path_most[meta[HEIGHT] - 1]:
            leaf = onwards(key, meta, cut, child, size, path_node, path_slot, path_most)
        most = path_most[meta[HEIGHT] - 1]
        limit = count if single[leaf] else min(count, done + width - used[leaf])
        end = done
        while end < limit and new_keys[end] <= most:
            end += 1
        if end > done:
            if single[leaf] and len(used) - fresh[0] <= (end - done) // width:
                return done
            append(new_keys, new_rows, done, end, leaf, width, keys, rows, start, used, link, last, fresh)
            done = end
            continue
        if len(used) - fresh[0] < 2 or len(size) - meta[NODES] < 2 * meta[HEIGHT] + 3:
            return done
        split(
            key, leaf, meta, cut, child, size, path_node, path_slot, path_most,
            single, after, keys, rows, start, used, fresh,
        )  # fmt: skip
        leaf = from_root(key, meta, cut, child, size, path_node, path_slot, path_most)
    return done
