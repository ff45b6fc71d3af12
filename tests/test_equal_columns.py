"""Columns that the condition makes equal are gathered once, and are what they would be if each had been gathered by itself."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet.api.equal_columns as equal_columns
import watersmeet.streams.payload as payload
from watersmeet import Rows, StreamJoin, Unbounded
from watersmeet.streams.gathering import only_where

KINDS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "text": (pa.string(), ["", "a", "äöü", None, "long enough not to be one word"]),
    "large text": (pa.large_string(), ["x", "y", None, "z", ""]),
    "binary": (pa.binary(), [b"\x00", b"", None, b"\xff" * 20, b"a"]),
    "int32": (pa.int32(), [1, -1, None, 7, 0]),
    "uint64": (pa.uint64(), [0, 2**64 - 1, None, 2**63, 5]),
    "decimal": (
        pa.decimal128(20, 2),
        [Decimal("1.25"), None, Decimal("-3.00"), Decimal("0.00"), Decimal("7")],
    ),
    "timestamp": (pa.timestamp("us"), [0, 1, None, 10**15, -5]),
}


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which columns kernels, or Arrow, have gathered; also where there are few rows."""
    names: list[str] = []
    plain = payload.Chunks._column

    def noted(self: Any, found: Any, field: pa.Field, start: int, stop: int) -> pa.Array:
        names.append(field.name)
        return plain(self, found, field, start, stop)

    monkeypatch.setattr(payload.Chunks, "_column", noted)
    monkeypatch.setattr(payload, "_FROM_MANY", 0)
    monkeypatch.setattr(payload, "_FROM_ONE", 0)
    monkeypatch.setattr(equal_columns, "MANY", 1)
    return names


def rows_of(join: StreamJoin, sources: dict[str, pa.RecordBatch]) -> list[dict[str, Any]]:
    tables = [
        join.push(**{name: batch.slice(at, 3) for name, batch in sources.items()}).to_arrow() for at in (0, 3)
    ]
    tables.append(join.finish().to_arrow())
    return [row for table in tables for row in table.to_pylist()]


def batch(kind: pa.DataType, values: Sequence[Any], seed: int) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    picked = [values[i] for i in random.integers(0, len(values), 6)]
    return pa.record_batch({"k": pa.array(picked, kind), "n": np.arange(6)})


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_the_same_as_if_each_column_was_gathered(
    kind: str, how: str, gathered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(4):
        sources = {name: batch(*KINDS[kind], 10 * seed + k) for k, name in enumerate("rs")}
        found = rows_of(StreamJoin("r.k = s.k", how=how, r=Rows(4), s=Rows(4)), sources)
        with monkeypatch.context() as patch:
            patch.setattr(equal_columns, "MANY", 10**9)
            wanted = rows_of(StreamJoin("r.k = s.k", how=how, r=Rows(4), s=Rows(4)), sources)
        assert found == wanted
        assert any(row["r_k"] is not None and row["r_k"] == row["s_k"] for row in found) or seed


def pushed(condition: str, **columns: pa.Array) -> pa.Table:
    join = StreamJoin(condition, windows=dict.fromkeys(columns, Unbounded()))
    return join.push({name: pa.record_batch({"k": column}) for name, column in columns.items()}).to_arrow()


def test_equal_columns_are_gathered_once(gathered: list[str]) -> None:
    found = pushed("r.k = s.k", r=pa.array(["a", "b", "b"]), s=pa.array(["b", "a", "c"]))
    assert gathered == ["k"]
    assert sorted(found["r_k"].to_pylist()) == ["a", "b", "b"]
    assert found["r_k"].equals(found["s_k"])


@pytest.mark.parametrize(
    "condition", ["a.k = b.k AND b.k = c.k", "b.k = c.k AND a.k = b.k", "a.k = c.k AND b.k = c.k"]
)
def test_of_many_streams_too(condition: str, gathered: list[str]) -> None:
    text = pa.array(["x", "y", "y", "z"])
    found = pushed(condition, a=text, b=text, c=text)
    assert len(gathered) < 3
    assert sorted(found["a_k"].to_pylist()) == ["x"] + ["y"] * 8 + ["z"]
    assert found["a_k"].equals(found["b_k"])
    assert found["b_k"].equals(found["c_k"])


@pytest.mark.parametrize(
    ("condition", "left", "right", "values"),
    [
        (
            "r.k = s.k",
            pa.array([0.0, -0.0, 1.0]),
            pa.array([-0.0, 2.0]),
            {"0.0", "-0.0"},
        ),  # equal, but not the same
        ("r.k = s.k", pa.array([1, 2], pa.int64()), pa.array([1, 3], pa.int32()), {"1"}),  # another type
        ("r.k <=> s.k", pa.array(["a", None]), pa.array([None, "b"]), {"None"}),
        ("r.k = s.k + 1", pa.array([1, 2]), pa.array([0, 5]), {"0", "1"}),
    ],
    ids=["floats", "types", "null-safe", "computed"],
)
def test_columns_that_need_not_be_the_same_are_gathered_each(
    condition: str, left: pa.Array, right: pa.Array, values: set[str], gathered: list[str]
) -> None:
    found = pushed(condition, r=left, s=right)
    assert gathered[-2:] == ["k", "k"]  # a residual may have asked for them too
    assert {str(value) for name in ("r_k", "s_k") for value in found[name].to_pylist()} == values


def test_nulls_are_put_over_a_column_that_begins_anywhere() -> None:
    column = pa.array(["a", "bb", "", "dddd", "e"]).slice(1)
    found = only_where(column, np.array([True, False, True, False]))
    assert found.to_pylist() == ["bb", None, "dddd", None]
    assert found.null_count == 2
    found.validate(full=True)
