"""Whatever has the Arrow PyCapsule interface goes in, and a result goes out to it."""

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import watersmeet as wm

ROWS = {"k": [1, 2, 2], "name": ["a", "b", None], "x": [0.5, float("nan"), 2.0]}

SHAPES = {
    "dict of lists": lambda rows: rows,
    "dict of arrays": lambda rows: {**rows, "k": np.array(rows["k"]), "x": np.array(rows["x"])},
    "record batch": pa.record_batch,
    "table of chunks": lambda rows: pa.concat_tables([pa.table(rows).slice(0, 1), pa.table(rows).slice(1)]),
    "polars": pl.DataFrame,
    "pandas": pd.DataFrame,
    "duckdb": lambda rows: duckdb.from_arrow(pa.table(rows)),
    "text views": lambda rows: pa.table(rows).set_column(1, "name", pa.array(rows["name"], pa.string_view())),
    "binary views": lambda rows: pa.table(rows).set_column(
        1, "name", pa.array([n and n.encode() for n in rows["name"]], pa.binary_view())
    ),
    "dictionary": lambda rows: pa.table(rows).set_column(
        1, "name", pa.array(rows["name"]).dictionary_encode()
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_of_input_joins_the_same(shape: str) -> None:
    join = wm.StreamJoin("r.k = s.k AND r.name <= s.name", r=wm.Rows(10), s=wm.Rows(10), how="left")
    make: Any = SHAPES[shape]
    first = join.push(r=make(ROWS), s=make(ROWS))
    second = join.push(s=make(ROWS))  # the schema is known now
    assert sorted(zip(*first.pairs().values(), strict=True)) == [(0, 0), (1, 1)]
    assert sorted(zip(*second.pairs().values(), strict=True)) == [(0, 3), (1, 4)]
    assert first.to_arrow().num_rows == 2
    rest = join.finish().to_arrow()
    assert rest.column("r_k").to_pylist() == [2]
    assert rest.column("s_k").to_pylist() == [None]


def test_a_result_is_arrow_data_itself() -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(10), s=wm.Rows(10), select="r.k, s.name")
    result = join.push(r=ROWS, s=ROWS)
    assert pl.DataFrame(result).shape == (5, 2)
    assert pa.table(result).num_rows == 5
    assert len(result.to_pandas()) == 5
    assert duckdb.sql("select count(*) from result").fetchall() == [(5,)]
