"""Workloads of N streams are what they say: seeded, of the stated selectivity and shares, recounted without the engine."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from oracle import run_multiway
from watersmeet.errors import OptionError
from watersmeet.workloads.multiway import (
    MultiwayFeed,
    MultiwayWorkload,
    chain,
    count_results,
    interleaved,
    mostly_last,
    normal,
    one_key,
    steps,
)

SMALL = [
    one_key(2, 0.05, 20),
    one_key(3, 0.1, 12),
    one_key(4, 0.2, 8, mostly_last(4, 0.7)),
    chain(3, 0.1, 12),
    chain(4, 0.25, 6),
    steps(5, 2, 4),
]
MIXED = [
    interleaved(one_key(n, 0.2, 10, shares)) for n, shares in ((2, None), (3, mostly_last(3, 0.6)), (4, None))
]


def named(work: MultiwayWorkload) -> str:
    return work.name


@pytest.mark.parametrize("work", SMALL, ids=named)
def test_a_recount_equals_every_combination_tried(work: MultiwayWorkload) -> None:
    feed = MultiwayFeed(work)
    feed.pushes(work.window, 2)
    windows = {name: feed.held(name) for name in work.streams}
    for stream in work.streams:
        rows = {name: windows[name].to_pylist() for name in work.streams}
        tried = (dict(zip(rows, one, strict=True)) for one in itertools.product(*rows.values()))
        holds = sum(
            all(
                one[equality.left][equality.left_column] == one[equality.right][equality.right_column]
                for equality in work.equalities
            )
            for one in tried
        )
        others = {name: table for name, table in windows.items() if name != stream}
        assert count_results(work, stream, windows[stream], others) == holds


@pytest.mark.parametrize("work", [*SMALL, *MIXED], ids=named)
def test_the_expected_number_of_a_push_is_the_oracles(work: MultiwayWorkload) -> None:
    feed = MultiwayFeed(work)
    pushes, expected = [], []
    for batch in (3, 5, 1, 4, 4):
        push = feed.pushes(batch, 1)[0]
        events = [(name, row) for name, rows in push.items() for row in rows.to_pylist()]
        pushes.append(sorted(events, key=lambda event: event[1]["t"]))  # stable: blocks stay as they are
        expected.append(feed.expected(push))
    outcome = run_multiway(
        pushes,
        lambda rows: all(
            rows[equality.left][equality.left_column] == rows[equality.right][equality.right_column]
            for equality in work.equalities
        ),
        dict.fromkeys(work.streams, ("rows", work.window)),
    )
    assert [len(found) for found in outcome.combinations] == expected


@pytest.mark.parametrize("work", [one_key(3, 1e-2, 400), chain(3, 1e-2, 400), steps(4, 2, 500)], ids=named)
def test_the_selectivity_is_as_stated(work: MultiwayWorkload) -> None:
    feed = MultiwayFeed(work)
    feed.pushes(work.window, 1)
    found = rows = 0
    for _ in range(10):
        push = feed.pushes(work.window, 1)[0]
        found += feed.expected(push)
        rows += sum(batch.num_rows for batch in push.values())
    assert found / rows == pytest.approx(work.selectivity, rel=0.1)


def test_the_same_seed_gives_the_same_rows_however_they_are_taken() -> None:
    work = one_key(3, 1e-3, 100)
    one, two = MultiwayFeed(work, seed=7), MultiwayFeed(work, seed=7)
    many = two.pushes(5, 4)
    for push in one.pushes(5, 4):
        assert push == many.pop(0)
    assert one.pushes(5, 1) != MultiwayFeed(work, seed=8).pushes(5, 1)


def test_every_stream_brings_its_share() -> None:
    work = one_key(3, 1e-5, shares=mostly_last(3, 0.9))
    assert work.sizes(1000) == {"s1": 150, "s2": 150, "s3": 2700}
    assert one_key(3, 1e-5).sizes(1000) == {"s1": 1000, "s2": 1000, "s3": 1000}


def test_origins_by_a_normal_distribution_have_their_mean() -> None:
    shares = normal(6, 2, 1)
    assert sum(shares) == pytest.approx(1)
    assert shares[1] == max(shares)
    assert shares[0] == pytest.approx(shares[2])


def test_interleaved_rows_come_in_the_order_of_their_own_numbers() -> None:
    push = MultiwayFeed(interleaved(one_key(3, 0.1, 10))).pushes(20, 2)[1]
    places = [batch.column("t").to_pylist() for batch in push.values()]
    assert sorted(itertools.chain.from_iterable(places)) == list(range(60, 120))
    assert all(of_stream == sorted(of_stream) for of_stream in places)


def test_blocks_are_numbered_in_order_of_arrival() -> None:
    feed = MultiwayFeed(one_key(3, 0.1, 10))
    first, second = feed.pushes(2, 2)
    assert [batch.column("t").to_pylist() for batch in first.values()] == [[0, 0], [1, 1], [2, 2]]
    assert [batch.column("t").to_pylist() for batch in second.values()] == [[3, 3], [4, 4], [5, 5]]
    assert np.asarray(second["s1"].column("v")).tolist() == [2, 3]


def test_the_thesis_tuples_have_a_key_and_a_value_of_32_bits() -> None:
    batch = MultiwayFeed(one_key(6, 1e-6)).pushes(4, 1)[0]["s6"]
    assert (batch.schema.field("k").type, batch.schema.field("v").type) == (pa.int32(), pa.int32())


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(OptionError, match="at least two streams; got 1"):
        one_key(1, 1e-3)
    with pytest.raises(OptionError, match="greater than 0 and at most 1; got 0"):
        chain(3, 0)
    with pytest.raises(OptionError, match="only streams on one key"):
        interleaved(chain(3, 0.1))
    with pytest.raises(OptionError, match="3 numbers with the sum 1"):
        one_key(3, 1e-3, shares=[0.5, 0.5])
