"""The WiB+-Tree gives every match once, keeps its shape, and does not mind keys that keep growing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index_checks import BUFFER_SIZES, CUTS, GREATEST, KEYS, LEAST, batches, bounds, check, fill
from watersmeet.index.wib_tree import WibTree
from watersmeet.kernels import wib_tree as kernels

SHAPES = st.sampled_from([(4, 3), (4, 4), (5, 3), (8, 4), (32, 64)])


def check_shape(tree: WibTree) -> list[int]:
    """Every key lies in its leaf's range, separators ascend, leaves are linked in order; return them."""
    fanout = int(tree.meta[kernels.FANOUT])
    leaves: list[int] = []

    def visit(node: int, level: int, least: int, most: int) -> None:
        if level == tree.meta[kernels.HEIGHT]:
            leaves.append(node)
            keys = leaf_keys(tree, node)
            assert all(least <= key <= most for key in keys)
            if tree.single[node]:
                assert least == most
            else:
                assert len(keys) <= tree.llat.width
            return
        size = tree.size[node]
        cuts = [int(key) for key in tree.cut[node * fanout : node * fanout + size - 1]]
        assert 1 <= size <= fanout
        assert cuts == sorted(set(cuts))
        for i, (low, high) in enumerate(zip([least, *cuts], [*(key - 1 for key in cuts), most], strict=True)):
            visit(int(tree.child[node * fanout + i]), level + 1, low, high)

    visit(int(tree.meta[kernels.ROOT]), 0, LEAST, GREATEST)
    assert [*tree.llat.after[leaves]] == [*leaves[1:], -1]
    return leaves


def leaf_keys(tree: WibTree, leaf: int) -> list[int]:
    """The keys of a leaf, with those of the entries linked to it."""
    table = tree.llat
    keys: list[int] = []
    while leaf >= 0:
        keys += table.keys[table.start[leaf] : table.start[leaf] + table.used[leaf]].tolist()
        leaf = table.link[leaf]
    return keys


@given(KEYS, CUTS, st.integers(-2, 30), st.integers(-2, 30), SHAPES, st.data())
def test_pairs_are_those_of_a_nested_loop(
    keys: list[int], cuts: list[int], below: int, above: int, shape: tuple[int, int], data: st.DataObject
) -> None:
    parts = batches(keys, cuts)
    tree = WibTree(len(keys), leaf=shape[0], fanout=shape[1])
    fill(tree, parts)
    leaves = check_shape(tree)
    assert sum(len(leaf_keys(tree, leaf)) for leaf in leaves) == len(keys)
    check(tree, parts, *bounds(data.draw(KEYS) + keys[:20], below, above), BUFFER_SIZES)


@given(st.lists(st.integers(0, 12), max_size=400), st.integers(1, 9), st.sampled_from([4, 8]))
def test_room_stays_within_its_bound(keys: list[int], size: int, leaf: int) -> None:
    tree = WibTree(len(keys), leaf=leaf, fanout=3)
    fill(tree, batches(keys, [size] * (len(keys) // size)))
    check_shape(tree)
    assert tree.llat.fresh[0] <= 7 * len(keys) / leaf + 3


def test_rows_beside_a_frequent_key_do_not_waste_leaves() -> None:
    """Each new neighbour of a key that fills a leaf could split off a leaf for itself alone."""
    keys = [0] * 31 + list(range(2000, 0, -1))
    fill(tree := WibTree(len(keys)), batches(keys, [1] * len(keys)))
    assert tree.llat.fresh[0] <= 4 * len(keys) / tree.llat.width


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_tiny_tree_works(capacity: int) -> None:
    parts = batches(range(capacity), [1] * capacity)
    lo, hi = bounds([0, 1, 2, 3], 1, 1)
    check(WibTree(capacity), [], lo, hi, [1])
    fill(tree := WibTree(capacity), parts)
    check(tree, parts, lo, hi, [1, 2])


def test_increasing_keys_fill_leaves_to_the_brim() -> None:
    parts = batches(range(0, 40_000, 2), [1000] * 20)
    fill(tree := WibTree(20_000), parts)
    check_shape(tree)
    assert tree.llat.fresh[0] == 20_000 // tree.llat.width
    check(tree, parts, *bounds(range(100, 30_000, 500), 10, 100), [7, 65_536])


def test_ends_of_int64_can_be_frequent() -> None:
    parts = batches([GREATEST, LEAST] * 50 + [0], [30])
    fill(tree := WibTree(101, leaf=4, fanout=3), parts)
    check_shape(tree)
    check(tree, parts, np.array([LEAST, LEAST, 1]), np.array([LEAST, GREATEST, GREATEST]), BUFFER_SIZES)
