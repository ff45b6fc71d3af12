"""What was told of groups: rows of a log by place, and the groups that were touched, found either way."""

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.aggregate import told
from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.spec import Aggregate, Grouping


@pytest.mark.parametrize("sizes", [[], [5], [100, 40, 3, 1], [1] * 40, [64, 1, 0, 7]])
def test_a_log_gives_rows_by_place_in_any_order(sizes: list[int]) -> None:
    schema, log, count = pa.schema({"n": pa.int64(), "text": pa.string()}), told.Log(()), 0
    for size in sizes:
        numbers = range(count, count + size)
        log = log.followed_by(
            pa.record_batch({"n": pa.array(numbers, pa.int64()), "text": [f"t{n}" for n in numbers]})
        )
        count += size
    rng = np.random.default_rng(1)
    for wanted in (np.arange(count), rng.permutation(count), rng.permutation(count)[:4], np.arange(0)):
        found = log.take(wanted, schema)
        assert found.schema == schema
        assert found["n"].to_pylist() == wanted.tolist()
        assert found["text"].to_pylist() == [f"t{n}" for n in wanted]
    assert len(log) == count


@pytest.mark.parametrize("seed", range(4))
def test_touched_groups_are_the_same_by_flags_and_by_sorting(seed: int) -> None:
    """Also groups that were let go, and given again, between two questions."""
    schema = pa.schema({"k": pa.int64(), "v": pa.int64()})
    grouping = Grouping(("k",), (Aggregate("sum", "v", "total"), Aggregate("count", None, "n")))
    answers = []
    for sparse in (0, 1 << 40):
        rng = np.random.default_rng(seed)
        groups, held, given = Aggregation(grouping, schema, changes=True), [], []
        with patch.object(told, "SPARSE", sparse):
            for step in range(30):
                batch = pa.record_batch(
                    {
                        "k": pa.array(rng.integers(0, 200, 20)),
                        "v": pa.array(rng.integers(-2, 3, 20)),
                    },
                    schema=schema,
                )
                groups.add(batch)
                held.append(batch)
                if len(held) > 3:
                    groups.retract(held.pop(0))
                if step % 7 == 6:
                    groups.skip_changes()
                elif step % 3 == 2:
                    given.append(groups.changes(skipped=step % 7 == 5).changelog())
        assert sum(table.num_rows for table in given) > 100
        answers.append((given, groups.answer()))
    assert answers[0] == answers[1]
