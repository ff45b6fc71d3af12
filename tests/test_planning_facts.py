"""What was measured of two streams serves the next join over them, for a while; it chooses plans, so nothing else may depend on it."""

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.join import planning

JOIN = "SELECT t.k, q.x FROM t JOIN q ON t.k = q.k AND t.x BETWEEN q.x AND q.y WHERE t.x > {least}"
WINDOW = 4 * planning.SAMPLE


def rows(random: np.random.Generator, count: int) -> dict[str, pa.RecordBatch]:
    x = random.integers(0, 1000, count)
    k = random.integers(0, 20, count)
    return {"t": pa.record_batch({"k": k, "x": x}), "q": pa.record_batch({"k": k, "x": x, "y": x + 5})}


@pytest.mark.parametrize(
    ("stored", "since", "again"),
    [
        (WINDOW, 0, False),
        (WINDOW, WINDOW, False),
        (WINDOW, (2 * planning.LONG) * WINDOW, True),
        (planning.SAMPLE - 1, 0, True),  # too few rows to go by
    ],
)
def test_the_next_join_over_the_same_streams_is_measured_only_if_that_was_long_ago(
    stored: int, since: int, again: bool
) -> None:
    random = np.random.default_rng(7)
    with wm.Processor(t=wm.Rows(WINDOW), q=wm.Rows(WINDOW)) as processor:
        processor.push(rows(random, stored))
        processor.create("first", JOIN.format(least=1))
        processor.drop("first")
        for _ in range(since // planning.SAMPLE):  # by and by: what one push brings is stored whole
            processor.push(rows(random, planning.SAMPLE))
        with mock.patch.object(planning, "measured", wraps=planning.measured) as measured:
            processor.create("second", JOIN.format(least=2))
        assert bool(measured.call_count) == again
        come = rows(random, 50)
        found = processor.push(come)["second"].to_arrow().num_rows
    t, q = come["t"].to_pandas(), come["q"].to_pandas()
    both = t.merge(q, on="k", suffixes=("", "_q"))
    assert found == int(((both.x >= both.x_q) & (both.x <= both.y) & (both.x > 2)).sum())
