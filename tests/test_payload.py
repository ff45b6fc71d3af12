"""Stored rows by arrival number: whatever chunks they lie in, what is taken is what was put in."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.streams.payload import Chunks, Payload

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def filled(sizes: list[int]) -> Payload:
    payload, first = Payload(SCHEMA, SCHEMA.names), 0
    for size in sizes:
        numbers = np.arange(first, first + size)
        payload.append(pa.record_batch({"n": numbers, "text": [f"row {n}" for n in numbers]}, schema=SCHEMA))
        first += size
    return payload


@pytest.mark.parametrize("sizes", [[1] * 300, [70] * 150, [5000] * 20, [1, 9000, 20_000, 3, 40_000]], ids=str)
def test_rows_come_back_in_the_order_in_which_they_are_asked_for(sizes: list[int]) -> None:
    payload, random = filled(sizes), np.random.default_rng(1)
    for count in (1, 7, 500):
        wanted = random.integers(0, sum(sizes), count)
        found = payload.take(wanted, ["text", "n"])
        assert found.column("n").to_pylist() == wanted.tolist()
        assert found.column("text").to_pylist() == [f"row {n}" for n in wanted]
    some = np.array([3, -1, 0, -1])
    assert payload.take(some, ["n"]).column("n").to_pylist() == [3, None, 0, None]


def test_chunks_are_merged_but_no_row_again_and_again() -> None:
    assert len(filled([1] * 10_000).chunks.batches) < 200
    assert len(filled([10_000] * 17).chunks.batches) == 17
    assert len(filled([20_000] * 20).chunks.batches) == 20


def test_larger_chunks_are_merged_where_arrow_has_to_gather_a_column() -> None:
    schema = pa.schema([("n", pa.int64()), ("flag", pa.bool_())])
    payload = Payload(schema, schema.names)
    for _ in range(17):
        payload.append(
            pa.record_batch({"n": np.arange(10_000), "flag": np.zeros(10_000, bool)}, schema=schema)
        )
    assert [batch.num_rows for batch in payload.chunks.batches] == [80_000, 80_000, 10_000]


def test_what_is_known_of_chunks_follows_them_when_they_are_merged_or_dropped() -> None:
    """Rows are taken before each change, so that addresses are known of all chunks that it changes."""
    payload, random, end = Payload(SCHEMA, SCHEMA.names), np.random.default_rng(3), 0
    for size in [70] * 200 + [9000] * 12:
        numbers = np.arange(end, end + size)
        payload.append(pa.record_batch({"n": numbers, "text": [f"row {n}" for n in numbers]}, schema=SCHEMA))
        end += size
        if size == 9000:
            payload.drop_before(end - 60_000)
        wanted = random.integers(payload.first, end, 50)
        found = payload.take(wanted, ["n", "text"])
        assert found.column("n").to_pylist() == wanted.tolist()
        assert found.column("text").to_pylist() == [f"row {n}" for n in wanted]


def test_dropped_rows_are_gone_and_the_others_keep_their_numbers() -> None:
    payload = filled([10_000] * 20)
    payload.drop_before(120_000)
    assert 80_000 <= payload.first <= 120_000
    assert payload.take(np.array([199_999, 120_000]), ["n"]).column("n").to_pylist() == [199_999, 120_000]


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [1, -128, 127]),
    "uint16": (pa.uint16(), [0, 65_535, 7]),
    "float32": (pa.float32(), [0.5, float("inf"), -0.0]),
    "float64": (pa.float64(), [0.1, -1e300, 5e-324]),
    "bool": (pa.bool_(), [True, False, True]),
    "date32": (pa.date32(), [0, 20_000, -5]),
    "timestamp": (pa.timestamp("us", "UTC"), [0, 1, -1]),
    "duration": (pa.duration("ns"), [0, 1, -1]),
    "decimal128": (pa.decimal128(38, 2), [Decimal("1.25"), Decimal("-9" * 1 + ".99"), Decimal(10**30)]),
    "decimal256": (pa.decimal256(60, 0), [Decimal(10**50), Decimal(-1), Decimal(0)]),
    "string": (pa.string(), ["", "ä", "a longer text than most of them"]),
    "large_string": (pa.large_string(), ["", "ä", "a longer text"]),
    "binary": (pa.binary(), [b"", b"\0\0", b"abc"]),
    "fixed binary of words": (pa.binary(16), [b"0123456789abcdef", bytes(16), b"\xff" * 16]),
    "fixed binary": (pa.binary(3), [b"abc", bytes(3), b"\xff" * 3]),
    "list": (pa.list_(pa.int64()), [[1, 2], [], [3]]),
    "struct": (pa.struct([("x", pa.int64())]), [{"x": 1}, {"x": None}, {"x": 3}]),
    "null": (pa.null(), [None, None, None]),
}


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("nulls", [0.0, 0.3])
@pytest.mark.parametrize("name", VALUES)
def test_every_type_is_taken_as_arrow_takes_it(name: str, nulls: float, absent: bool) -> None:
    kind, values = VALUES[name]
    random, batches, firsts, end = np.random.default_rng(3), [], [], 10
    for size in (1, 40, 3, 700, 2, 2):
        # A slice of a longer column: values, offsets and bits begin in the middle of their buffers.
        picked = [None if random.random() < nulls else values[k] for k in random.integers(0, 3, size + 5)]
        if not batches:
            picked = [values[0]] * len(picked)  # one chunk without NULL beside others
        batches.append(pa.record_batch({"x": pa.array(picked, kind)}).slice(3, size))
        firsts.append(end)
        end += size
    numbers = random.integers(10, end, 200)
    if absent:
        numbers[random.random(200) < 0.2] = -1
    chunks, whole = Chunks(batches, firsts), pa.Table.from_batches(batches)
    for some in (numbers, numbers[numbers < 0], np.repeat(numbers[:1], 50)):
        found = chunks.take(some, ["x"], batches[0].schema)
        found.validate(full=True)
        wanted = whole.column("x").take(pa.array(some - 10, mask=some < 0)).to_pylist()
        assert found.column("x").to_pylist() == wanted


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.float64(), pa.decimal128(30, 2)], ids=str)
def test_buffers_may_begin_at_any_address(kind: pa.DataType) -> None:
    values = [Decimal(n) if pa.types.is_decimal(kind) else n for n in range(100)]
    content = pa.array(values, kind).buffers()[1].to_pybytes()
    odd = pa.py_buffer(b"." + content).slice(1)
    batch = pa.record_batch({"x": pa.Array.from_buffers(kind, 100, [None, odd])})
    numbers = np.random.default_rng(1).integers(0, 100, 60)
    found = Chunks([batch], [0]).take(numbers, ["x"], batch.schema)
    assert found.column("x").to_pylist() == [values[n] for n in numbers]
