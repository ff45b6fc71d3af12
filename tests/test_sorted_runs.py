"""Kernels of sorted runs: every way of sorting, merging and probing gives what NumPy gives."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watersmeet.index.base import Bounds, Keys, PairBuffer
from watersmeet.index.bi_sort import BISort
from watersmeet.index.scan import Scan
from watersmeet.kernels.merge import merge, merge_ahead, merge_sparse
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
