"""The hash index gives every row of an equal key once, however many there are, wherever the key ended up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index_checks import (
    BUFFER_SIZES,
    CUTS,
    GREATEST,
    KEYS,
    LEAST,
    batches,
    bounds,
    check,
    expected,
    fill,
    found,
)
from watersmeet.errors import ConditionError
from watersmeet.index.base import Bounds, PairBuffer
from watersmeet.index.hash import HashIndex, _mixed
from watersmeet.kernels import hash as kernels


def key_of(mixed: int) -> int:
    """The key that mixes to ``mixed``: the finaliser backwards."""
    word = 2**64
    key = mixed % word
    for factor in (kernels.FACTOR_2, kernels.FACTOR_1):
        key ^= key >> 33
        key = key * pow(int(factor), -1, word) % word
    key ^= key >> 33
    key ^= int(kernels.SEED)
    return key - word if key >= word // 2 else key


@given(KEYS, CUTS, st.data())
def test_pairs_are_those_of_a_nested_loop(keys: list[int], cuts: list[int], data: st.DataObject) -> None:
    parts = batches(keys, cuts)
    wanted = data.draw(KEYS) + keys[::3]
    fill(index := HashIndex(len(keys)), parts)
    check(index, parts, *bounds(wanted, 0, 0), BUFFER_SIZES)
    check(index, parts, *bounds(wanted, 0, -1), BUFFER_SIZES[-1:])


def test_bands_that_hold_nothing_may_stand_between_those_that_do() -> None:
    parts = batches([3, 3, 3, 4, 5, 5], [2])
    fill(index := HashIndex(6), parts)
    check(index, parts, np.array([3, 3, 3, 4, 5, 5]), np.array([2, 3, 3, 3, 4, 5]), BUFFER_SIZES)


@given(st.integers(LEAST, GREATEST))
def test_mixing_loses_nothing(key: int) -> None:
    assert key_of(int(_mixed(np.array([key], np.int64))[0])) == key


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_tiny_index_works(capacity: int) -> None:
    parts = batches(range(capacity), [1] * capacity)
    lo, hi = bounds([0, 1, 2, 3], 0, 0)
    check(HashIndex(capacity), [], lo, hi, [1])
    fill(index := HashIndex(capacity), parts)
    check(index, parts, lo, hi, [1, 2])


def test_keys_that_all_hash_alike_go_to_the_overflow_buffer() -> None:
    """Both halves of these mixed keys choose bucket 0; so does the key whose mixed form marks a free slot."""
    keys = [key_of((high << 32) | low) for high in range(9) for low in range(9)]
    parts = batches([*keys, *keys[::2], *keys[:3]], [30, 30])
    fill(index := HashIndex(len(keys) + 50), parts)
    assert index.used[kernels.IN_OVERFLOW] == len(keys) - kernels.WAYS
    assert key_of(kernels.EMPTY) in keys
    check(index, parts, *bounds([*keys, 1, 2, 3], 0, 0), BUFFER_SIZES)


def test_a_full_table_moves_keys_before_it_overflows() -> None:
    rng = np.random.default_rng(7)
    parts = batches(rng.integers(LEAST, GREATEST, 50_000), [5_000] * 10)
    fill(index := HashIndex(50_000), parts)
    assert index.used[kernels.IN_OVERFLOW] < 10
    in_second = sum(
        int(kernels.first_bucket(key, index.buckets)) != place // kernels.LINE * kernels.LINE
        for place, key in enumerate(index.slots)
        if place % kernels.LINE < kernels.WAYS and key != kernels.EMPTY
    )
    assert in_second > 100
    keys = np.sort(np.concatenate([keys for keys, _ in parts]))
    assert len(found(index, keys, keys, 65_536)) == 50_000


@pytest.mark.parametrize("distinct", [1, 3, 40])
def test_frequent_keys_take_one_slot_each(distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    parts = batches(rng.integers(0, distinct, 20_000), [1, 1, 1, 700, 1, 9000])
    fill(index := HashIndex(20_000), parts)
    index.seal()
    assert (
        np.count_nonzero(index.slots[np.arange(len(index.slots)) % kernels.LINE < kernels.WAYS]) == distinct
    )
    assert index.chunks.nbytes <= 16 * 20_000
    lo, hi = bounds([0, 0, distinct // 2, distinct], 0, 0)
    np.testing.assert_array_equal(found(index, lo, hi, 1000), expected(parts, lo, hi))


def test_a_band_is_refused() -> None:
    with pytest.raises(ConditionError, match="must be probed with single keys"):
        wanted = Bounds(np.array([1]), np.array([2]), np.zeros(1, np.int32))
        next(HashIndex(4).pairs(wanted, PairBuffer()))
