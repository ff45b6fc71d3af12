"""Results of many streams that are kept as products of lists: written out, they are what the oracle finds, whatever the lots."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples
from multiway import Run, check, runs
from watersmeet.join import steps
from watersmeet.join.matches import Lists, Matches, Product, count_of


@examples(60)
@given(runs(st.integers(3, 5)), st.sampled_from([1, 5, 1 << 21]))
def test_lists_of_any_length_give_what_the_oracle_gives(run: Run, listed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "MANY", 0.0)
        patch.setattr(steps, "LISTED", listed)
        check(replace(run, few=-1))


lengths = st.lists(st.lists(st.integers(1, 5), min_size=3, max_size=3), min_size=1, max_size=6)


def one_product(of_each: list[list[int]]) -> tuple[Product, list[tuple[int, ...]]]:
    """Of streams 3, 0 and 2, with rows of stream 1; and the results, in order."""
    columns = np.array(of_each, np.int64)
    there, lists, wanted = np.arange(len(of_each)) * 7, [], []
    for place, stream in enumerate((3, 0, 2)):
        length = columns[:, place]
        numbers = np.arange(length.sum()) * 10 + stream
        lists.append(Lists(stream, np.cumsum(length) - length, length, numbers))
    for i, row in enumerate(there.tolist()):
        parts = [one.numbers[one.start[i] : one.start[i] + one.length[i]].tolist() for one in lists]
        wanted += [(b, row, c, a) for a, b, c in product(*parts)]
    return Product({1: there}, lists, len(wanted)), wanted


@given(lengths, lengths, st.integers(0, 200))
def test_products_are_written_out_in_order_whole_or_the_first_of_them(
    one: list[list[int]], other: list[list[int]], limit: int
) -> None:
    made = [one_product(one), one_product(other)]
    matches = Matches(streams=4)
    matches.pairs.append(tuple(np.array([k]) for k in range(4)))
    matches.products += [made[0][0], made[1][0]]
    wanted = [(0, 1, 2, 3), *made[0][1], *made[1][1]]
    assert matches.count == len(wanted)
    assert [*zip(*(column.tolist() for column in matches.first(limit)), strict=True)] == wanted[:limit]
    assert [*zip(*(column.tolist() for column in matches.columns()), strict=True)] == wanted
    assert matches.columns()[0] is matches.columns()[0]  # once
    matches.products.append(made[0][0])
    assert matches.columns()[0].size == len(wanted) + len(made[0][1])


def test_more_combinations_than_an_integer_holds_are_counted_and_the_first_are_shown() -> None:
    assert count_of([np.array([1 << 40, 3])] * 2) == (1 << 80) + 9
    rows = {"k": np.zeros(64, np.int64)}
    names = [f"s{k}" for k in range(12)]
    same = " AND ".join(f"s0.k = {name}.k" for name in names[1:])
    join = wm.StreamJoin(same, windows={name: wm.Rows(64) for name in names})
    for name in names[1:]:
        join.push(**{name: rows})
    seen = join.push(s0={"k": [0] * 64})
    assert seen.count == 64**12
    assert "4,722,366,482,869,645,213,696 rows" in seen._repr_html_()


def test_a_push_with_many_results_keeps_lists_and_no_more() -> None:
    rows = {"k": np.arange(100) % 2}
    join = wm.StreamJoin("a.k = b.k AND b.k = c.k", a=wm.Rows(100), b=wm.Rows(100), c=wm.Rows(100))
    join.push(a=rows, b=rows)
    for _ in range(2):
        result = join.push(c=rows)
    held = result._matches
    assert result.count == 100 * 50 * 50 == len(result.numbers()["a"])
    assert not held.pairs
    assert sum(one.numbers.size for some in held.products for one in some.lists) <= 2 * 100 * 50
