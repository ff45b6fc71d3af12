"""Kernels of sorted runs: every way of sorting, merging and probing gives what NumPy gives."""

from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watersmeet.index import bi_sort
from watersmeet.index.base import Bounds, Keys, PairBuffer
from watersmeet.index.bi_sort import BISort
from watersmeet.index.presence import Presence
from watersmeet.index.scan import Scan
from watersmeet.kernels.merge import merge, merge_ahead, merge_sparse
from watersmeet.kernels.probe import STRIDE
from watersmeet.kernels.sort import sort_keys

INT64 = np.iinfo(np.int64)
keys = st.one_of(
    st.lists(st.integers(-20, 20), max_size=60),
    st.lists(st.integers(INT64.min, INT64.max), max_size=60),
    st.lists(st.integers(2**40, 2**40 + 2**20), max_size=200),
).map(lambda values: np.array(values, np.int64))


@given(keys)
def test_sorting_gives_the_keys_in_order_and_where_they_were(values: np.ndarray) -> None:
    ordered, order = sort_keys(values)
    assert np.array_equal(ordered, np.sort(values))
    assert np.array_equal(values[order], ordered)
    assert np.array_equal(np.sort(order), np.arange(values.size))


@pytest.mark.parametrize("rows", [2, 600, 5000])
@pytest.mark.parametrize(
    "keys",
    [
        lambda random, n: random.integers(-(2**63), 2**63 - 1, n),
        lambda random, n: random.integers(-20, 20, n),
        lambda random, n: random.normal(0, 1e6, n).astype(np.int64),
        lambda random, n: random.normal(size=n).view(np.int64),
        lambda random, n: np.append(random.integers(0, 1000, n - 1), 2**62),
        lambda random, n: np.append(random.integers(2**63 - 1000, 2**63 - 1, n - 1), -(2**63)),
    ],
    ids=["even", "few", "round a middle", "two heaps", "one far above", "one far below"],
)
def test_keys_are_dealt_out_or_sorted_as_they_lie(
    keys: Callable[[np.random.Generator, int], np.ndarray], rows: int
) -> None:
    values = keys(np.random.default_rng(3), rows)
    ordered, order = sort_keys(values)
    assert (order == np.argsort(values, kind="stable")).all()
    assert (ordered == values[order]).all()


def test_keys_that_differ_only_in_dropped_bits_are_mended() -> None:
    values = np.concatenate([np.arange(1000)[::-1], [INT64.max, INT64.min]]).astype(np.int64)
    ordered, order = sort_keys(values)
    assert np.array_equal(ordered, np.sort(values))
    assert np.array_equal(values[order], ordered)


@pytest.mark.parametrize("way", [merge, merge_ahead, merge_sparse])
@given(a=keys, b=keys)
def test_merging_gives_all_rows_in_order_of_keys(way, a: np.ndarray, b: np.ndarray) -> None:
    a, b = np.sort(a), np.sort(b)
    a_rows, b_rows = np.arange(a.size, dtype=np.int32), np.arange(b.size, dtype=np.int32) + 1000
    out, rows = np.empty(a.size + b.size, np.int64), np.empty(a.size + b.size, np.int32)
    way(a, a_rows, b, b_rows, out, rows)
    both, both_rows = np.concatenate([a, b]), np.concatenate([a_rows, b_rows])
    order = np.argsort(both, kind="stable")  # ties: a first
    assert np.array_equal(out, both[order])
    assert np.array_equal(rows, both_rows[order])


@pytest.mark.parametrize("kind", [BISort, Scan])
@given(
    stored=st.lists(keys, min_size=1, max_size=4),
    probes=keys,
    width=st.integers(0, 5),
    room=st.sampled_from([1, 2, 7, 4096]),
)
def test_probing_finds_every_key_in_the_bounds(
    kind, stored, probes: np.ndarray, width: int, room: int
) -> None:
    index = kind(1024)
    start = 0
    for batch in stored:
        ordered, order = sort_keys(batch)
        index.insert(Keys(ordered, order), start)
        start += batch.size
    if start % 2:
        index.seal()
    everything = np.concatenate(stored)
    lo = np.sort(np.clip(probes, INT64.min, INT64.max - width))
    hi = lo + width
    ids = np.arange(lo.size, dtype=np.int32)
    buffer = PairBuffer(room)
    found = []
    for n in index.pairs(Bounds(lo, hi, ids), buffer):
        found += zip(buffer.probe[:n].tolist(), buffer.row[:n].tolist(), strict=True)
    inside = (everything >= lo[:, None]) & (everything <= hi[:, None])
    assert sorted(found) == [(int(i), int(j)) for i, j in np.argwhere(inside)]


@given(stored=keys, probes=keys, width=st.integers(0, 5))
def test_ranges_hold_as_many_rows_as_there_are_matches(
    stored: np.ndarray, probes: np.ndarray, width: int
) -> None:
    run = BISort(1)
    run.adopt(*sort_keys(stored))
    lo = np.sort(np.clip(probes, INT64.min, INT64.max - width))
    start, end = run.ranges(Bounds(lo, lo + width, np.arange(lo.size, dtype=np.int32)))
    inside = (stored >= lo[:, None]) & (stored <= (lo + width)[:, None])
    assert np.array_equal(end - start, inside.sum(1))


@given(
    st.lists(st.integers(-20, 20), max_size=40),
    st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 25)), max_size=20),
    st.booleans(),
)
@example([0, 5], [(-20, 25), (-19, 0)], False)  # the upper ends do not ascend
def test_bounds_that_are_not_near_have_no_candidates(
    stored: list[int], probing: list[tuple[int, int]], buffered: bool
) -> None:
    """Of those that are left out none has a key; where there is no key among the first and the last at all, nothing is left."""
    ordered, order = sort_keys(np.array(stored, np.int64))
    index = BISort(1 << 11)
    index.insert(Keys(ordered, order), 0)
    if not buffered:
        index.flush()
    ends = [(low, low + width) for low, width in sorted(probing)]
    lo, hi = np.array(ends, np.int64).reshape(-1, 2).T.copy()
    near = index.near(Bounds(lo, hi, np.arange(lo.size, dtype=np.int32)))
    left = set() if near is None else set(near.rows.tolist())
    assert {i for i, (low, high) in enumerate(ends) if any(low <= key <= high for key in stored)} <= left
    if not buffered and stored:
        first = next((i for i, (_, high) in enumerate(ends) if high >= min(stored)), len(ends))
        assert left == {i for i, (low, _) in enumerate(ends) if i >= first and low <= max(stored)}


@given(
    steps=st.lists(st.tuples(keys, st.booleans(), keys, st.sampled_from([0, 0, 3])), min_size=1, max_size=6),
    merged=st.sampled_from([0, 1, 1 << 40]),
)
def test_batches_that_wait_and_bits_of_keys_lose_nobody(steps, merged: int) -> None:
    """However sorted batches come (behind the last key or among others), whenever they are merged, and whoever is said not to be there."""
    with mock.patch.multiple(bi_sort, MANY=1, SELDOM=0, COSTS=merged):
        index, everything, kept = BISort(0), np.empty(0, np.int64), list[tuple[np.ndarray, np.ndarray]]()
        for batch, rising, probes, width in steps:
            if rising and everything.size:
                batch = np.maximum(batch, everything.max())
            ordered, order = sort_keys(batch)
            index.insert(Keys(ordered, order), everything.size)
            everything = np.concatenate([everything, batch])
            lo = np.sort(np.clip(probes, INT64.min, INT64.max - width))
            hi = lo + width
            buffer, found = PairBuffer(7), []
            near = index.near(Bounds(lo, hi, np.arange(lo.size, dtype=np.int32)))
            for n in () if near is None else index.pairs(near, buffer):
                found += zip(buffer.probe[:n].tolist(), buffer.row[:n].tolist(), strict=True)
            inside = (everything >= lo[:, None]) & (everything <= hi[:, None])
            assert sorted(found) == [(int(i), int(j)) for i, j in np.argwhere(inside)]
            if probes.size % 3 == 0:  # who has hold of the main array sees no later rows in it
                kept.append((index.keys, index.keys.copy()))
        index.seal()
        assert np.array_equal(index.keys, np.sort(everything))
        assert np.array_equal(everything[index.rows], index.keys)
        assert np.array_equal(index.index, index.keys[::STRIDE])
        assert all(np.array_equal(held, before) for held, before in kept)


@given(stored=keys.filter(len), more=keys, probes=keys)
def test_a_key_that_is_there_is_never_said_not_to_be(
    stored: np.ndarray, more: np.ndarray, probes: np.ndarray
) -> None:
    presence, everything = Presence(np.sort(stored)), stored
    if presence.add(np.sort(more)):
        everything = np.concatenate([stored, more])
    lo = np.sort(np.concatenate([everything, probes]))
    left = presence.only(Bounds(lo, lo, np.arange(lo.size, dtype=np.int32)))
    rows = [] if left is None else left.rows.tolist()
    assert set(np.flatnonzero(np.isin(lo, everything)).tolist()) <= set(rows)
    assert rows == sorted(rows)


@pytest.mark.parametrize("spread", [1, 1000, 1 << 40])
def test_most_keys_that_are_not_there_are_known_not_to_be(spread: int) -> None:
    everything = np.unique(np.random.default_rng(5).integers(0, 50_000 * spread, 40_000))
    stored, others = everything[::2].copy(), everything[1::2].copy()
    presence = Presence(stored)
    assert presence.useful
    left = presence.only(Bounds(others, others, np.arange(others.size, dtype=np.int32)))
    assert left is None or left.lo.size < others.size / 8


def test_keys_that_crowd_together_are_not_told_apart_and_that_is_known() -> None:
    assert not Presence(np.append(np.arange(10_000), 1 << 60)).useful
