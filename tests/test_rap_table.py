"""The RaP-Table gives every match once, and balances any distribution within three adjustments."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index_checks import BUFFER_SIZES, CUTS, GREATEST, KEYS, LEAST, batches, bounds, check, fill
from watersmeet.bench.convergence import Distribution, convergence, distributions, plot, view_counts
from watersmeet.index.rap_table import RapTable
from watersmeet.kernels.rap_table import adjust, between, quantiles


@given(
    KEYS, CUTS, st.integers(-2, 30), st.integers(-2, 30), st.sampled_from([None, 1, 2, 3, 7, 40]), st.data()
)
def test_pairs_are_those_of_a_nested_loop(
    keys: list[int], cuts: list[int], below: int, above: int, partitions: int | None, data: st.DataObject
) -> None:
    parts = batches(keys, cuts)
    lo, hi = bounds(data.draw(KEYS) + keys[:20], below, above)
    table = RapTable(len(keys), partitions=partitions)
    fill(table, parts)
    check(table, parts, lo, hi, BUFFER_SIZES)
    follower = RapTable(len(keys), table, partitions=data.draw(st.sampled_from([None, 1, 5])))
    fill(follower, parts)
    check(follower, parts, lo, hi, BUFFER_SIZES[1:])


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_tiny_table_works(capacity: int) -> None:
    parts = batches(range(capacity), [1] * capacity)
    table = RapTable(capacity)
    lo, hi = bounds([0, 1, 2, 3], 1, 1)
    check(table, [], lo, hi, [1])
    fill(table := RapTable(capacity), parts)
    check(table, parts, lo, hi, [1, 2])


def test_the_whole_range_of_int64_is_one_band() -> None:
    parts = batches([LEAST, GREATEST, 0, 0, 5, -5], [3])
    fill(table := RapTable(6, partitions=4), parts)
    check(table, parts, *bounds([0, 0], GREATEST, GREATEST), BUFFER_SIZES)
    check(table, parts, np.array([LEAST]), np.array([GREATEST]), BUFFER_SIZES)


@given(KEYS.filter(len), st.integers(1, 30), st.integers(1, 30))
def test_splitters_never_descend(keys: list[int], before: int, now: int) -> None:
    fill(table := RapTable(len(keys), partitions=before), batches(keys, []))
    splitters = np.empty(now - 1, np.int64)
    adjust(table.counts, table.least, table.greatest, splitters)
    for some in (splitters, table.splitters):
        assert (some[1:] >= some[:-1]).all()
    if now > 1:
        assert splitters[0] >= min(keys)


def test_a_splitter_is_counted_from_the_partitions_least_key() -> None:
    """The paper prints the formula without min_i; four rows in [1000, 1100] show the difference."""
    splitters = np.empty(3, np.int64)
    adjust(np.array([0, 4]), np.array([0, 1000]), np.array([0, 1100]), splitters)
    assert splitters.tolist() == [1025, 1050, 1075]


def test_the_papers_worst_case_comes_out_as_printed() -> None:
    splitters = np.empty(3, np.int64)
    adjust(np.array([16, 0, 0, 0]), np.zeros(4, np.int64), np.array([1024, 0, 0, 0]), splitters)
    assert splitters.tolist() == [256, 512, 768]


@given(st.integers(LEAST, GREATEST), st.integers(LEAST, GREATEST), st.floats(0, 1))
def test_a_key_between_two_lies_between_them(a: int, b: int, fraction: float) -> None:
    low, high = np.int64(min(a, b)), np.int64(max(a, b))
    key = int(between(low, high, fraction))
    assert low <= key <= high
    assert abs((key - int(low)) - fraction * (int(high) - int(low))) <= 1 + 2.0**-50 * (int(high) - int(low))


def test_narrow_ranges_far_from_zero_keep_every_digit() -> None:
    """Nanoseconds of our days are beyond float64's whole numbers."""
    now = 1_700_000_000_000_000_001
    keys = np.arange(now, now + 100, dtype=np.int64)
    splitters = np.empty(9, np.int64)
    quantiles(keys, splitters)
    assert np.diff(np.concatenate(([now], splitters))).tolist() == pytest.approx([10] * 9, abs=1)
    adjust(np.array([100]), keys[:1].copy(), keys[-1:].copy(), splitters)
    assert np.diff(np.concatenate(([now], splitters))).tolist() == pytest.approx([10] * 9, abs=1)


def test_a_frequent_key_gets_a_partition_for_itself() -> None:
    rng = np.random.default_rng(3)
    keys = np.where(rng.random(4096) < 0.5, 500, rng.integers(0, 1000, 4096))
    table: RapTable | None = None
    for _ in range(4):
        table = RapTable(4096, table)
        fill(table, batches(keys, [1000]))
    assert table is not None
    part = np.searchsorted(table.splitters, 500, "right")
    assert table.least[part] == table.greatest[part] == 500


def test_single_rows_teach_a_table_as_well_as_a_batch_does() -> None:
    keys = np.random.default_rng(5).permutation(4096)
    fill(table := RapTable(4096), batches(keys, [1] * 4096))
    assert table.counts.max() < 200


def test_a_predecessor_with_few_rows_is_no_teacher() -> None:
    fill(sparse := RapTable(4096), batches([1, 2, 3], []))
    fill(table := RapTable(4096, sparse), batches(np.random.default_rng(4).permutation(4096), [2048]))
    assert table.counts.max() <= 64


@pytest.mark.parametrize("partitions", [256, 1024, 4096])
@pytest.mark.parametrize("distribution", distributions(), ids=lambda distribution: distribution.name)
def test_three_adjustments_are_enough(distribution: Distribution, partitions: int) -> None:
    curve = convergence(distribution, partitions, 64 * partitions)
    assert curve.adjustments <= 3
    assert curve.errors[3] <= 1.1 * curve.floor + 0.1


def test_view_counts_are_as_skewed_as_the_papers() -> None:
    views = np.sort(view_counts().draw(np.random.default_rng(2), 1_000_000))
    common = views[int(0.99 * len(views))]
    assert common <= 0.0101 * (views[-1] - views[0])
    assert common <= 0.000101 * 2**32


def test_the_convergence_plot_is_written(tmp_path: Path) -> None:
    plot([convergence(d, 64, 2048) for d in distributions()], tmp_path / "convergence.png")
    assert (tmp_path / "convergence.png").stat().st_size > 10_000
