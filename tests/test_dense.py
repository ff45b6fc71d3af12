"""The index of dense keys gives what sorted runs give, in a table or without one, whatever keys come and in whatever batches."""

import gc

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
from watersmeet.index.base import Bounds, Keys, PairBuffer
from watersmeet.index.bi_sort import BISort
from watersmeet.index.dense import FLOOR, SPAN, Dense
from watersmeet.join.engine import JoinEngine
from watersmeet.query.processor import Processor
from watersmeet.streams.window import Unbounded

FAR = 10 * FLOOR
# Keys that begin dense, or do not, and then may lie far away.
JUMPS = st.lists(st.integers(0, 300).map(lambda key: key if key < 280 else key * FAR), max_size=150)


def in_table(index: Dense) -> bool:
    return index.any_order()


@given(st.one_of(KEYS, JUMPS), CUTS, KEYS, st.lists(st.sampled_from(BUFFER_SIZES), min_size=1, max_size=2))
def test_all_pairs_are_found(keys: list[int], cuts: list[int], probes: list[int], sizes: list[int]) -> None:
    parts = batches(keys, cuts)
    index = Dense(len(keys) + 1)
    fill(index, parts)
    lo, hi = bounds([*probes, *keys], 0, 0)
    if keys:
        check(index, parts, lo, hi, sizes)


@given(KEYS, CUTS, KEYS, st.randoms(use_true_random=False))
def test_keys_and_probes_may_come_in_any_order(
    keys: list[int], cuts: list[int], probes: list[int], random: object
) -> None:
    """And rows that come between two probes are found by the second."""
    dense, sorted_ = Dense(len(keys) + 1), BISort(len(keys) + 1)
    for part, rows in batches(keys, cuts):
        sorted_.insert(Keys(part, rows), 0)
        places = np.arange(part.size)
        random.shuffle(places)  # type: ignore[attr-defined]
        dense.insert(Keys(part[places], rows[places], unordered=True), 0)
        lo = np.sort(np.array([*probes, *part.tolist()], np.int64))
        wanted = found(sorted_, lo, lo, 64)
        if not in_table(dense):
            np.testing.assert_array_equal(found(dense, lo, lo, 64), wanted)
            continue
        order = np.arange(lo.size)
        random.shuffle(order)  # type: ignore[attr-defined]
        buffer, pairs = PairBuffer(64), []
        for n in dense.pairs(Bounds(lo[order], lo[order], (order + 5).astype(np.int32)), buffer):
            pairs += list(zip(buffer.probe[:n].tolist(), buffer.row[:n].tolist(), strict=True))
        assert sorted(pairs) == list(map(tuple, wanted.tolist()))


def batch(keys: np.ndarray, first: int) -> Keys:
    return Keys(np.sort(keys), (first + np.arange(keys.size)).astype(np.int32))


def test_it_is_a_table_once_there_are_rows_enough_for_the_keys() -> None:
    index, wide = Dense(1 << 20), SPAN * 4 * FLOOR
    keys = np.arange(0, wide, wide // FLOOR)
    index.insert(batch(keys, 0), 0)
    assert not in_table(index)
    between = np.setdiff1d(np.arange(0, wide, wide // (8 * FLOOR)), keys)
    index.insert(batch(between, keys.size), 0)
    assert in_table(index)
    every = np.sort(np.concatenate([keys, between]))
    assert len(found(index, every, every, 65_536)) == every.size
    assert index.nbytes <= (SPAN * 4.2 + 4) * every.size + 8 * FLOOR


@pytest.mark.parametrize("far", [GREATEST, LEAST, 1 << 40])
def test_a_key_that_lies_far_away_ends_the_table_for_good(far: int) -> None:
    index, keys = Dense(1 << 20), np.arange(-5000, 5000)
    index.insert(batch(keys, 0), 0)
    assert in_table(index)
    index.insert(batch(np.array([far]), keys.size), 0)
    assert not in_table(index)
    index.insert(batch(keys, keys.size + 1), 0)
    assert not in_table(index)
    every = np.sort(np.append(keys, far))
    pairs = found(index, every, every, 1024)
    assert len(pairs) == 2 * keys.size + 1
    assert sorted(pairs[:, 1]) == list(range(2 * keys.size + 1))


def test_a_table_grows_on_both_sides_and_loses_nobody() -> None:
    index, first = Dense(1 << 20), 0
    for step in range(40):
        keys = np.arange(step * 1000, step * 1000 + 1000) * (-1) ** step
        index.insert(batch(keys, first), 0)
        first += 1000
        assert in_table(index)
    probes = np.arange(-40_000, 40_000)
    pairs = found(index, probes, probes, 1024)
    assert sorted(pairs[:, 1]) == list(range(first))


def test_ranges_are_refused() -> None:
    index = Dense(100)
    index.insert(batch(np.arange(10), 0), 0)
    assert in_table(index)
    with pytest.raises(ConditionError, match="must be probed with single keys; got a range"):
        found(index, np.array([1]), np.array([2]), 16)
    assert len(found(index, np.array([2]), np.array([1]), 16)) == 0


@given(JUMPS, CUTS)
def test_what_nobody_has_looked_for_is_found_after_the_end(keys: list[int], cuts: list[int]) -> None:
    parts, index = batches(keys, cuts), Dense(len(keys) + 1)
    fill(index, parts)
    index.seal()
    lo, hi = bounds(keys, 0, 0)
    np.testing.assert_array_equal(found(index, lo, hi, 7), expected(parts, lo, hi))


def joins() -> list[JoinEngine]:
    return [one for one in gc.get_objects() if isinstance(one, JoinEngine)]


KEY_OF = {"a": ("x",), "b": ("x", "y"), "c": ("y",)}


@pytest.mark.parametrize("far", [1, 10**9])
@pytest.mark.parametrize("splits", [1, 7])
def test_a_join_of_unbounded_streams_looks_in_tables_and_has_the_same_results(far: int, splits: int) -> None:
    """Also where keys turn out to lie too far apart, in the middle of the streams."""
    random = np.random.default_rng(splits)
    rows = {
        name: {column: random.integers(0, 40, 140) for column in columns} for name, columns in KEY_OF.items()
    }
    for columns in rows.values():
        for values in columns.values():
            values[70:] *= far
    wanted = sorted(
        (a, b, c)
        for a in range(140)
        for b in np.flatnonzero(rows["b"]["x"] == rows["a"]["x"][a])
        for c in np.flatnonzero(rows["c"]["y"] == rows["b"]["y"][b])
    )
    before = joins()
    qp = Processor(windows={name: Unbounded() for name in KEY_OF})
    query = "SELECT a.n AS i, b.n AS j, c.n AS k FROM a, b, c WHERE a.x = b.x AND b.y = c.y"
    got: list[tuple[int, ...]] = []
    for number, places in enumerate(np.array_split(np.arange(140), splits)):
        push = {
            name: {"n": places, **{key: values[places] for key, values in columns.items()}}
            for name, columns in rows.items()
        }
        if not number:
            qp.create("q", query)
        got += [tuple(row.values()) for row in qp.push(push)["q"].to_arrow().to_pylist()]
    assert sorted(got) == wanted
    (engine,) = (join for join in joins() if join not in before)
    assert {name for k in range(3) for name in engine.indexes(k)} == {"dense"}
    in_tables = {
        index.any_order()
        for chain in engine.ledger.chains
        for sub in chain.subwindows
        for index in sub.indexes
    }
    assert in_tables == {far == 1}
