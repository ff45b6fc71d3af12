"""Stored rows by arrival number: whatever chunks they lie in, what is taken is what was put in."""

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.streams import payload as module
from watersmeet.streams.payload import Payload

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def filled(sizes: list[int]) -> Payload:
    payload, first = Payload(SCHEMA, SCHEMA.names), 0
    for size in sizes:
        numbers = np.arange(first, first + size)
        payload.append(pa.record_batch({"n": numbers, "text": [f"row {n}" for n in numbers]}, schema=SCHEMA))
        first += size
    return payload


@pytest.mark.parametrize("sparse", [0, 8])
@pytest.mark.parametrize("sizes", [[1] * 300, [70] * 150, [5000] * 20, [1, 9000, 20_000, 3, 40_000]], ids=str)
def test_rows_come_back_in_the_order_in_which_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], sparse: int
) -> None:
    monkeypatch.setattr(module, "_SPARSE", sparse)
    monkeypatch.setattr(module, "_LONG", 0 if sparse == 0 else module._LONG)
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
    assert [batch.num_rows for batch in filled([10_000] * 17).chunks.batches] == [80_000, 80_000, 10_000]
    assert len(filled([20_000] * 20).chunks.batches) == 20


def test_dropped_rows_are_gone_and_the_others_keep_their_numbers() -> None:
    payload = filled([10_000] * 20)
    payload.drop_before(120_000)
    assert 80_000 <= payload.first <= 120_000
    assert payload.take(np.array([199_999, 120_000]), ["n"]).column("n").to_pylist() == [199_999, 120_000]
