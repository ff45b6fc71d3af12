"""Runs large enough for many sub-windows, full pair buffers and all threads, against DuckDB.

Each row carries its place in the common order of arrival and how many rows of the other stream came before
it: with those the window rule is a plain SQL condition between two rows.
"""

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm

ROWS = 12_000
BAND = "r.x BETWEEN s.x - 20 AND s.x + 20"
SQUARE = f"{BAND} AND r.y BETWEEN s.y - 300 AND s.y + 300"
MANY = "(r.x BETWEEN s.x - 20 AND s.x - 10 OR r.x BETWEEN s.x + 5 AND s.x + 15)"
EQUAL = "r.k = s.k AND r.g = s.g"
IN_COUNT = "CASE WHEN r.place > s.place THEN s.id >= r.seen - {s} ELSE r.id >= s.seen - {r} END"
IN_TIME = "s.ts BETWEEN r.ts - {s} AND r.ts + {r}"


def streams(seed: int, increasing: bool = False) -> tuple[dict[str, pa.Table], list[str]]:
    """Two streams and their interleaving."""
    random = np.random.default_rng(seed)
    order = random.permutation(np.repeat(["r", "s"], ROWS))
    tables = {}
    for stream in "rs":
        place = np.flatnonzero(order == stream)
        x = random.integers(0, 5000, ROWS)
        tables[stream] = pa.table(
            {
                "id": np.arange(ROWS),
                "place": place,
                "seen": np.cumsum(order != stream)[place],
                "ts": place + random.integers(-50, 50, ROWS),
                "x": np.sort(x) if increasing else x,
                "y": random.normal(0, 1000, ROWS).astype(np.int64),
                "k": random.zipf(1.5, ROWS) % 1000,
                "g": random.integers(0, 4, ROWS).astype(np.int32),
            }
        )
    return tables, order.tolist()


def by_duckdb(tables: dict[str, pa.Table], condition: str) -> np.ndarray:
    with duckdb.connect() as connection:
        connection.register("rows_r", tables["r"])
        connection.register("rows_s", tables["s"])
        found = connection.execute(
            f"SELECT r.id AS r, s.id AS s FROM rows_r r JOIN rows_s s ON ({condition})"
        ).fetchnumpy()
    return packed(found)


def packed(pairs: dict[str, np.ndarray]) -> np.ndarray:
    return np.sort(pairs["r"].astype(np.int64) << 32 | pairs["s"])


def pushed(join: wm.StreamJoin, tables: dict[str, pa.Table], order: list[str], size: int) -> list[Any]:
    """Results of pushing everything, ``size`` rows of both streams together at a time."""
    results, taken = [], {"r": 0, "s": 0}
    for start in range(0, len(order), size):
        turn = order[start : start + size]
        batches = {stream: tables[stream].slice(taken[stream], turn.count(stream)) for stream in "rs"}
        for stream in "rs":
            taken[stream] += turn.count(stream)
        results.append(join.push(**batches, order=turn))
    return results


def same(got: np.ndarray, wanted: np.ndarray) -> None:
    if np.array_equal(got, wanted):
        return
    missing, extra = (np.setdiff1d(a, b)[:10] for a, b in ((wanted, got), (got, wanted)))
    show = [[(int(p >> 32), int(p & 0xFFFFFFFF)) for p in pairs] for pairs in (missing, extra)]
    raise AssertionError(f"{got.size} pairs for {wanted.size}: missing {show[0]}; extra {show[1]}")


CASES = [
    ("scan", BAND),
    ("bi_sort", BAND),
    ("rap_table", BAND),
    ("wib_tree", BAND),
    ("grid", SQUARE),
    ("auto", SQUARE),
    ("bi_sort", SQUARE),
    ("hash", EQUAL),
    ("bi_sort", EQUAL),
    ("auto", EQUAL),
    ("bi_sort", MANY),
    ("wib_tree", MANY),
    ("rap_table", "r.x > s.x + 4800"),
    ("bi_sort", "r.x <> s.x AND r.k = s.k AND r.g < s.g"),
]


@pytest.mark.parametrize(("index", "condition"), CASES)
@pytest.mark.parametrize("cores", [1, 2])
def test_count_windows_of_thousands_of_rows(index: str, condition: str, cores: int) -> None:
    tables, order = streams(seed=1)
    join = wm.StreamJoin(condition, r=wm.Rows(5000), s=wm.Rows(3000), index=index, cores=cores)
    results = pushed(join, tables, order, size=7000 if cores == 2 else 2500)
    found = {side: np.concatenate([result.pairs()[side] for result in results]) for side in "rs"}
    same(packed(found), by_duckdb(tables, f"({condition}) AND {IN_COUNT.format(r=5000, s=3000)}"))


@pytest.mark.parametrize("index", ["bi_sort", "wib_tree", "rap_table", "auto"])
def test_time_windows_over_rows_out_of_order(index: str) -> None:
    tables, order = streams(seed=2, increasing=True)
    r, s = (wm.Range(length, time="ts", lateness=300) for length in (4000, 2000))
    join = wm.StreamJoin(BAND, r=r, s=s, index=index, cores=2)
    results = pushed(join, tables, order, size=3000)
    assert not any(rows.num_rows for result in results for rows in result.late.values())
    found = {side: np.concatenate([result.pairs()[side] for result in results]) for side in "rs"}
    same(packed(found), by_duckdb(tables, f"{BAND} AND {IN_TIME.format(r=4000, s=2000)}"))
    for side, length in (("r", 4000), ("s", 2000)):  # rows arrive half a unit of time apart
        assert join.stats()["streams"][side]["rows"] < length / 2 + 4000


@pytest.mark.parametrize("mode", ["count", "ranges"])
def test_counts_agree_where_nothing_is_written_out(mode: str) -> None:
    tables, order = streams(seed=3)
    join = wm.StreamJoin(BAND, r=wm.Rows(5000), s=wm.Rows(3000), index="bi_sort", result=mode, cores=2)
    total = sum(result.count for result in pushed(join, tables, order, size=4000))
    assert total == by_duckdb(tables, f"{BAND} AND {IN_COUNT.format(r=5000, s=3000)}").size


def test_a_probe_with_more_matches_than_a_buffer_holds_finds_them_all() -> None:
    one = pa.table({"x": np.zeros(700, np.int64), "y": np.zeros(700, np.int64)})
    for index, condition in (
        ("hash", "r.x = s.x"),
        ("grid", SQUARE),
        *((i, BAND) for i in ("scan", "bi_sort")),
    ):
        join = wm.StreamJoin(condition, r=wm.Rows(1000), s=wm.Rows(1000), index=index)
        assert join.push(r=one, s=one).count == 490_000, index
    for index in ("rap_table", "wib_tree"):
        assert (
            wm.StreamJoin(BAND, r=wm.Rows(1000), s=wm.Rows(1000), index=index).push(r=one, s=one).count
            == 490_000
        )
