"""The chooser says what the measurements say (docs/benchmarks.md), and the paper's strategy where they leave it open."""

import numpy as np
import pytest

import watersmeet as wm
from watersmeet.index.choose import Habits, choose, subwindow_size

ORDERED = ("bi_sort", "rap_table", "wib_tree")
EQUALITY = (*ORDERED, "hash")


def habits(batch: float, increasing: float = 0.0, matches: float = 1.0) -> Habits:
    return Habits(batch, batch, matches, increasing)


@pytest.mark.parametrize("batch", [1024, 32_768, 131_072])
def test_large_batches_get_bi_sort(batch: int) -> None:
    assert choose(ORDERED, habits(batch), 524_288) == "bi_sort"


@pytest.mark.parametrize("kinds", [ORDERED, EQUALITY])
def test_single_rows_get_the_index_with_the_short_way(kinds: tuple[str, ...]) -> None:
    assert choose(kinds, habits(1), 524_288) == "bi_sort"


def test_high_selectivity_gets_bi_sort() -> None:
    assert choose(ORDERED, habits(300, matches=5000), 65_536) == "bi_sort"


def test_equality_gets_the_hash_index_where_batches_are_small_beside_the_sub_window() -> None:
    assert choose(EQUALITY, habits(1024), 524_288) == "hash"
    assert choose(EQUALITY, habits(32_768), 4_194_304) == "hash"
    assert choose(EQUALITY, habits(131_072), 524_288) == "bi_sort"


@pytest.mark.parametrize("batch", [64, 1024, 32_768])
def test_increasing_keys_never_get_splitters_learnt_from_smaller_ones(batch: int) -> None:
    assert choose(ORDERED, habits(batch, increasing=1.0), 524_288) != "rap_table"


@pytest.mark.parametrize("batch", [1, 1024, 131_072])
def test_a_sub_window_is_at_most_half_a_window(batch: int) -> None:
    assert 16 <= subwindow_size(1_000_000, 0, habits(batch)) <= 500_000
    assert subwindow_size(10, 0, habits(batch)) == 16
    assert 16 <= subwindow_size(1_000_000, 0, habits(batch), (EQUALITY,)) <= 500_000
    assert subwindow_size(10, 0, habits(batch), (EQUALITY,)) == 16


def test_nothing_is_merged_into_a_hash_index_so_it_is_made_as_large_as_may_be() -> None:
    assert subwindow_size(1_000_000, 0, habits(1024), (EQUALITY,)) == 500_000
    merged = subwindow_size(1_000_000, 0, habits(1024))
    assert subwindow_size(1_000_000, 0, habits(1024), (EQUALITY, ORDERED)) == merged < 250_000
    assert subwindow_size(1_000_000, 0, habits(1), (EQUALITY,)) == subwindow_size(1_000_000, 0, habits(1))


def steady(first: int, count: int, step: int) -> dict[str, np.ndarray]:
    numbers = np.arange(first, first + count)
    return {"ts": numbers * step, "x": numbers}


def sub_windows(step: int) -> list[int]:
    """The sizes of the sub-windows of a stream in a window of 100,000 units of time that fills."""
    window = wm.Range(100_000)
    with wm.StreamJoin("r.x = s.x", r=window, s=window) as join:
        for first in range(0, 120_000, 10_000):
            join.push(r=steady(first, 10_000, step), s=steady(first, 10_000, step))
        return [sub.capacity for sub in join._engine.ledger.chains[0].subwindows]


def test_a_window_of_time_is_cut_by_the_rows_that_it_will_have_not_by_those_that_are_there() -> None:
    """A row each unit of time is a count window of 100,000 rows."""
    wanted = subwindow_size(100_000, 0, habits(10_000), (EQUALITY,))
    assert sub_windows(1) == [wanted, wanted, wanted]


def test_a_burst_of_rows_is_not_taken_for_what_a_window_has() -> None:
    rows = {"ts": np.arange(8192) // 4096, "x": np.arange(8192)}
    with wm.StreamJoin("r.x = s.x", r=wm.Range(10**9), s=wm.Range(10**9)) as join:
        join.push(r=rows, s=rows)
        (sub,) = join._engine.ledger.chains[0].subwindows
    assert sub.capacity <= 64 * 8192 // 2
