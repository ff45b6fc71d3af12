"""Conditions become the normal form that fixtures/conditions.txt writes, and what a band promises holds."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import ConditionError
from watersmeet.sql.condition import BoundCondition, Condition

NAMES = {
    "x": pa.int64(),
    "i": pa.int32(),
    "u": pa.uint64(),
    "f": pa.float64(),
    "g": pa.float32(),
    "m": pa.decimal128(10, 2),
    "w": pa.decimal128(38, 10),
    "n": pa.string(),
    "c": pa.dictionary(pa.int32(), pa.string()),
    "y": pa.binary(),
    "b": pa.bool_(),
    "d": pa.date32(),
    "t": pa.timestamp("us"),
    "v": pa.timestamp("s"),
    "l": pa.duration("ms"),
}
SCHEMAS = {"r": pa.schema(NAMES), "s": pa.schema(NAMES)}
FIXTURES = Path(__file__).parent / "fixtures" / "conditions.txt"


def bound(text: str) -> BoundCondition:
    return Condition(text).bind(SCHEMAS)


def described(condition: BoundCondition) -> str:
    """The normal form as the fixtures write it: each band with its domain and whether its codes decide it."""
    lines = []
    for band in condition.bands:
        kind = "equality" if band.equality else f"width {band.width:g}" if band.width is not None else "open"
        lines.append(
            f"band      {band.text}  [{band.domain.name}, {kind}{'' if band.exact else ', re-checked'}]"
        )
    rest = [line for line in str(condition).splitlines() if not line.startswith("band")]
    return "\n".join(lines + rest)


def fixtures() -> list[tuple[str, str]]:
    """Pairs of text (lines that start with ``>``) and normal form (the lines up to the next blank one)."""
    blocks = FIXTURES.read_text().split("\n\n")
    pairs = []
    for block in blocks:
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        text = "\n".join(line[2:] for line in lines if line.startswith("> "))
        if text:
            pairs.append((text, "\n".join(line for line in lines if not line.startswith("> "))))
    return pairs


@pytest.mark.parametrize(("text", "expected"), fixtures(), ids=[text for text, _ in fixtures()])
def test_a_condition_has_its_normal_form(text: str, expected: str) -> None:
    assert described(bound(text)) == expected


def test_only_the_columns_that_the_condition_reads_are_needed() -> None:
    condition = bound("r.x = s.i + s.x AND r.f > 0 AND r.n LIKE s.n")
    assert condition.columns == {"r": ["f", "n", "x"], "s": ["n", "i", "x"]}
    assert bound("1 = 1").columns == {"r": [], "s": []}


def test_the_first_stream_is_the_left_one() -> None:
    band = Condition("r.x <= s.x + 3").bind({"s": SCHEMAS["s"], "r": SCHEMAS["r"]}).bands[0]
    assert (str(band.left), str(band.right)) == ("s.x", "r.x")
    keys = np.array([10], np.int64)
    assert band.bounds("s", keys)[0][1].tolist() == [13]
    assert band.bounds("r", keys)[0][0].tolist() == [7]


def test_keys_of_a_plain_int64_column_are_its_own_memory() -> None:
    batch = pa.record_batch({"x": np.arange(1000)})
    schemas = {"r": batch.schema, "s": batch.schema}
    keys, valid = Condition("r.x < s.x").bind(schemas).bands[0].keys("r", batch)
    assert valid is None
    assert keys.__array_interface__["data"][0] == batch.column("x").buffers()[1].address


def test_null_keys_are_marked() -> None:
    batch = pa.record_batch({"x": pa.array([1, None, 3])})
    schemas = {"r": batch.schema, "s": batch.schema}
    for text in ("r.x = s.x", "r.x + 1 = s.x", "r.x < s.x + 1"):
        keys, valid = Condition(text).bind(schemas).bands[0].keys("r", batch)
        assert valid is not None
        assert valid.tolist() == [True, False, True], text
        assert keys.dtype == np.int64


def test_null_safe_equality_gives_nulls_a_key_and_checks_again() -> None:
    batch = pa.record_batch({"x": pa.array([1, None])})
    condition = Condition("r.x <=> s.x").bind({"r": batch.schema, "s": batch.schema})
    band = condition.bands[0]
    keys, valid = band.keys("r", batch)
    assert valid is None
    assert (band.equality, band.exact) == (True, False)
    assert keys[0] != keys[1]
    assert condition.holds(batch, batch).tolist() == [True, True]


def test_passes_is_none_without_a_filter() -> None:
    batch = pa.record_batch({"x": pa.array([1, None, 3])})
    condition = Condition("r.x < s.x AND r.x > 1").bind({"r": batch.schema, "s": batch.schema})
    assert condition.passes("s", batch) is None
    mask = condition.passes("r", batch)
    assert mask is not None
    assert (mask.dtype, mask.tolist()) == (np.bool_, [False, False, True])


def test_holds_is_true_without_a_residual() -> None:
    batch = pa.record_batch({"x": pa.array([1, None, 3])})
    condition = Condition("r.x < s.x").bind({"r": batch.schema, "s": batch.schema})
    assert condition.holds(batch, batch).tolist() == [True, True, True]


def test_a_batch_may_hold_only_the_needed_columns_in_any_order() -> None:
    condition = bound("r.x = s.x AND r.f < s.f + r.x AND r.i > 0")
    left = pa.record_batch({"f": [1.0], "i": pa.array([1], pa.int32()), "x": [1]})
    right = pa.record_batch({"x": [1], "f": [1.0]})
    assert condition.bands[0].keys("r", left)[0].tolist() == [1]
    assert condition.passes("r", left) is not None
    assert condition.holds(left, right).tolist() == [True]


def test_empty_batches_have_empty_keys_and_bounds() -> None:
    empty = pa.RecordBatch.from_pylist([], schema=SCHEMAS["r"])
    for text, _ in fixtures():
        condition = bound(text)
        assert condition.holds(empty, empty).tolist() == []
        for stream in ("r", "s"):
            mask = condition.passes(stream, empty)
            assert mask is None or mask.size == 0
            for band in condition.bands:
                keys, _ = band.keys(stream, empty)
                assert keys.size == 0
                assert all(lo.size == hi.size == 0 for lo, hi in band.bounds(stream, keys))


def test_columns_of_nulls_match_nothing() -> None:
    nulls = pa.RecordBatch.from_arrays([pa.nulls(3, kind) for kind in NAMES.values()], names=list(NAMES))
    condition = bound("r.x + 1 < s.x AND r.n = s.n AND r.d < s.d + 1 AND r.f > s.f AND r.n || 'x' < s.n")
    for band in condition.bands:
        _, valid = band.keys("r", nulls)
        assert valid is not None
        assert not valid.any()
    assert not condition.holds(nulls, nulls).any()


def test_a_join_has_two_streams_or_more() -> None:
    with pytest.raises(ConditionError, match="must have at least two streams; got 1"):
        Condition("TRUE").bind({"r": SCHEMAS["r"]})


def test_parts_of_a_condition_over_many_streams_go_where_their_streams_are() -> None:
    text = "a.x = b.x AND c.x BETWEEN b.x - 5 AND b.x + 5 AND a.x + b.x > c.x AND c.x > 0 AND (a.x = 1 OR c.x = 2)"
    bound = Condition(text).bind({name: pa.schema({"x": pa.int64()}) for name in "abc"})
    assert [band.streams for band in bound.bands] == [("a", "b"), ("b", "c")]
    assert list(bound.filters) == ["c"]
    assert [residual.streams for residual in bound.residuals] == [("a", "c"), ("a", "b", "c")]
    rows = [pa.record_batch({"x": [1, 1]}), pa.record_batch({"x": [1, 1]}), pa.record_batch({"x": [1, 5]})]
    assert bound.holds(*rows).tolist() == [True, False]


def test_a_condition_can_be_bound_again_to_other_schemas() -> None:
    condition = Condition("r.x < s.x + 0.5")
    names = [
        condition.bind({"r": pa.schema({"x": kind}), "s": pa.schema({"x": kind})}).bands[0].domain.name
        for kind in (pa.int64(), pa.float64(), pa.decimal128(5, 1))
    ]
    assert names == ["int", "float64", "decimal(1)"]
