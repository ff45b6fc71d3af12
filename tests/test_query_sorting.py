"""The first rows of an order are those of the whole order, however few are wanted: decimals of any size, NULLs, equal rows."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.query.instruction import Order
from watersmeet.query.sorting import first_in_order, in_order

WIDE = Decimal(10**20)
NUMBERS = st.integers(-3, 3).map(Decimal)


@given(st.data(), st.booleans(), st.booleans(), st.sampled_from([None, 0, 1, 3, 40]))
def test_the_first_rows_are_those_of_the_whole_order(
    data: st.DataObject, descending: bool, nulls_first: bool, limit: int | None
) -> None:
    wide = data.draw(st.booleans())
    first = st.none() | NUMBERS | st.just(WIDE) if wide else NUMBERS
    few = data.draw(st.lists(first, min_size=1, max_size=5))
    size = data.draw(st.sampled_from([5, 63, 64, 90, 300]))
    seed = data.draw(st.integers(0, 99))
    random = np.random.default_rng(seed)
    column = pa.array([few[i] for i in random.integers(0, len(few), size)], pa.decimal128(30, 0))
    rows = pa.record_batch({"a": column, "b": random.integers(0, 4, size)})
    order = (Order("a", descending, nulls_first), Order("b", False, True))
    places, equal = first_in_order(rows, order, limit)
    whole = in_order(rows, order)
    assert places.tolist() == whole[:limit].tolist()

    def key(place: int) -> tuple[object, ...]:
        return rows["a"][place].as_py(), rows["b"][place].as_py()

    near = whole if limit is None else whole[: limit + 1]
    assert equal == any(key(a) == key(b) for a, b in zip(near[1:].tolist(), near[:-1].tolist(), strict=True))
    if not descending and not nulls_first:
        known = [key(p) for p in whole.tolist() if key(p)[0] is not None]
        assert known == sorted(known)


@pytest.mark.parametrize("share", [0.79, 0.81, 0.99])
def test_most_rows_of_a_push_are_those_that_pass(share: float) -> None:
    """Rows that a filter leaves are read as stretches where they are most of a push: the same rows either way."""
    import watersmeet as wm

    x = np.random.default_rng(0).permutation(1000)
    qp = wm.Processor(s=wm.Unbounded())
    qp.create("q", f"SELECT x, t FROM s WHERE x < {int(1000 * share)}")
    batch = pa.record_batch({"x": x, "t": [None if one % 7 == 0 else f"t{one}" for one in x.tolist()]})
    for _ in range(2):
        rows = qp.push(s=batch)["q"].to_arrow().to_pylist()
        assert rows == [row for row in batch.to_pylist() if row["x"] < int(1000 * share)]
