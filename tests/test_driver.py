"""Drivers: bounds are made of codes and row numbers alone, so that rows found by an earlier step can probe the next."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.index.base import Bounds, Index, PairBuffer, sorted_keys
from watersmeet.index.choose import INDEXES, make_index
from watersmeet.join.drivers import probing
from watersmeet.join.plan import make_plan
from watersmeet.sql.condition import Condition

ONE = "r.x BETWEEN s.x - 10 AND s.x + 10"
TWO = f"{ONE} AND r.y BETWEEN s.y - 0.5 AND s.y + 0.5"
EQUAL = "r.x = s.x AND r.k = s.k"
SOME = "r.x <> s.x"
CASES = [
    (ONE, "scan"),
    (ONE, "bi_sort"),
    (ONE, "rap_table"),
    (ONE, "wib_tree"),
    (SOME, "bi_sort"),
    (EQUAL, "hash"),
    (TWO, "grid"),
]


def rows(seed: int, count: int) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "x": random.integers(-50, 50, count),
        "y": random.normal(0, 2, count),
        "k": random.integers(0, 2, count),
    }
    return pa.record_batch(columns)


def found(index: Index, bounds: list[Bounds]) -> set[tuple[int, int]]:
    buffer = PairBuffer(64)
    pairs: set[tuple[int, int]] = set()
    for interval in bounds:
        for n in index.pairs(interval, buffer):
            pairs |= set(zip(buffer.probe[:n].tolist(), buffer.row[:n].tolist(), strict=True))
    return pairs


@pytest.mark.parametrize(("text", "kind"), CASES)
def test_gathered_codes_probe_in_any_order_and_as_often_as_they_come(text: str, kind: str) -> None:
    probes, stored = rows(1, 60), rows(2, 300)
    condition = Condition(text).bind({"r": probes.schema, "s": stored.schema})
    driver = make_plan(condition, kind, {}, 1000).driver
    index = make_index(kind, 400, None)
    for start in (0, 100, 200):
        codes, valid = driver.codes("s", stored.slice(start, 100))
        assert valid is None
        index.insert(sorted_keys(codes), start)
    codes, _ = driver.codes("r", probes)
    picked = np.random.default_rng(3).integers(0, 60, 200)  # partial results: a row may be in several of them
    positions = np.arange(200, dtype=np.int32)[::-1].copy()
    bounds = probing(driver, "r", sorted_keys(tuple(array[picked] for array in codes), positions))
    left, right = probes.to_pandas(), stored.to_pandas()
    wanted = set()
    for number, row in zip(positions.tolist(), picked.tolist(), strict=True):
        one = left.iloc[row]
        near = (right.x - one.x).abs() <= 10
        if text == EQUAL:
            near = (right.x == one.x) & (right.k == one.k)
        elif text == SOME:
            near = right.x != one.x
        elif text == TWO:
            near &= (one.y >= right.y - 0.5) & (one.y <= right.y + 0.5)
        wanted |= {(number, int(other)) for other in np.flatnonzero(near)}
    assert wanted
    assert found(index, bounds) == wanted


def test_equal_shares_of_bounds_are_the_whole() -> None:
    probes, stored = rows(1, 61), rows(2, 300)
    condition = Condition(TWO).bind({"r": probes.schema, "s": stored.schema})
    driver = make_plan(condition, "grid", {}, 1000).driver
    index = make_index("grid", 400, None)
    index.insert(sorted_keys(driver.codes("s", stored)[0]), 0)
    (bounds,) = probing(driver, "r", sorted_keys(driver.codes("r", probes)[0]))
    parts = [found(index, [bounds.share(i, 4)]) for i in range(4)]
    assert sum(map(len, parts)) == len(found(index, [bounds]))
    assert set().union(*parts) == found(index, [bounds])


@pytest.mark.parametrize("kind", INDEXES)
def test_a_successor_is_of_the_same_kind_and_only_bi_sort_has_runs_and_trims(kind: str) -> None:
    index = make_index(kind, 100, None)
    assert type(make_index(kind, 50, index)) is type(index)
    assert make_index("scan", 50, index).name == "scan"
    assert (index.sorted_run() is not None) == (kind == "bi_sort")
    assert index.trim(0) == (kind == "bi_sort")
