"""Thousands of rows in batches, some retracted, against DuckDB's own aggregates of the rows that are left."""

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.spec import Aggregate, Grouping

ROWS = 6000
EXACT = {
    "n": ("count", None, "COUNT(*)"),
    "whole": ("sum", "i", "SUM(i)"),
    "money": ("sum", "d", "SUM(d)"),
    "some": ("count", "x", "COUNT(x)"),
    "days": ("count_distinct", "day", "COUNT(DISTINCT day)"),
    "words": ("count_distinct", "s", "COUNT(DISTINCT s)"),
    "least": ("min", "s", "MIN(s)"),
    "most": ("max", "s", "MAX(s)"),
    "early": ("min", "day", "MIN(day)"),
    "late": ("max", "ts", "MAX(ts)"),
    "low": ("min", "x", "MIN(x)"),
    "high": ("max", "x", "MAX(x)"),
    "first": ("first", "s", "arg_min_null(s, ts)"),
    "last": ("last", "x", "arg_max_null(x, ts)"),
}
NEAR = {
    "total": ("sum", "x", "fsum(x)"),
    "mean": ("avg", "x", "AVG(x)"),
    "spread": ("stddev_samp", "x", "STDDEV_SAMP(x)"),
    "variance": ("var_pop", "i", "VAR_POP(i)"),
}


def table() -> pa.Table:
    rng = np.random.default_rng(12)
    missing = rng.random(ROWS) < 0.1
    texts = np.array(["", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgh\0", "é", "zzzzzzzzzzzzz"], object)
    return pa.table(
        {
            "k": pa.array(texts[rng.integers(0, 8, ROWS)], mask=rng.random(ROWS) < 0.05),
            "j": pa.array(rng.integers(0, 40, ROWS), mask=rng.random(ROWS) < 0.05),
            "i": pa.array(rng.integers(-1000, 1000, ROWS), pa.int32(), mask=missing),
            "d": pa.array(
                [Decimal(int(n)).scaleb(-2) for n in rng.integers(-(10**9), 10**9, ROWS)],
                pa.decimal128(12, 2),
            ),
            "x": pa.array(rng.normal(size=ROWS), mask=missing),
            "s": pa.array(texts[rng.integers(0, 8, ROWS)], mask=rng.random(ROWS) < 0.2),
            "day": pa.array([date(2024, 1, 1) + timedelta(int(n)) for n in rng.integers(0, 9, ROWS)]),
            "ts": pa.array(
                [datetime(2024, 1, 1) + timedelta(seconds=int(n)) for n in rng.permutation(ROWS)],
                pa.timestamp("us"),
            ),
        }
    )


@pytest.mark.parametrize("keys", [(), ("k",), ("j",), ("k", "j")])
@pytest.mark.parametrize("size", [ROWS, 700, 64])
def test_aggregates_of_what_is_left_are_those_of_duckdb(keys: tuple[str, ...], size: int) -> None:
    rows = table()
    aggregates = [
        Aggregate(function, column, name, "ts" if function in ("first", "last") else None)
        for name, (function, column, _) in (EXACT | NEAR).items()
    ]
    totals = Aggregation(Grouping(keys, tuple(aggregates)), rows.schema)
    for start in range(0, ROWS, size):
        totals.add(rows.slice(start, size).combine_chunks().to_batches()[0])
    gone = np.random.default_rng(size).permutation(ROWS)[: ROWS // 2]
    for part in np.array_split(gone, max(1, gone.size // size)):
        totals.retract(rows.take(part).combine_chunks().to_batches()[0], part)
    left = rows.take(np.sort(np.setdiff1d(np.arange(ROWS), gone)))
    asked = ", ".join([*keys, *(f'{sql} AS "{name}"' for name, (_, _, sql) in (EXACT | NEAR).items())])
    query = f"SELECT {asked} FROM rows_left" + (f" GROUP BY {', '.join(keys)}" if keys else "")
    with duckdb.connect() as connection:
        connection.register("rows_left", left)
        wanted = connection.sql(query).to_arrow_table().to_pylist()
    own = _by_key(totals.answer().to_pylist(), keys)
    assert own.keys() == _by_key(wanted, keys).keys()
    for key, row in _by_key(wanted, keys).items():
        for name in EXACT:
            assert own[key][name] == row[name], (key, name)
        for name in NEAR:
            assert _near(own[key][name], row[name]), (key, name)


def _by_key(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> dict[Any, dict[str, Any]]:
    return {tuple(row[key] for key in keys): row for row in rows}


def _near(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
