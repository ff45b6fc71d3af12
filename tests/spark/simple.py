"""A join of two streams of numbers, for tests that look at files and layouts rather than at conditions."""

from typing import Any

import numpy as np
import pyarrow as pa

import watersmeet as wm
from watersmeet.spark.shuffle.spread import choose_spread
from watersmeet.spark.spec import JoinSpec
from watersmeet.sql.condition import Condition

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("x", pa.int64()), ("note", pa.string())])


def spec(state: Any, condition: str = "r.x = s.x", **options: Any) -> JoinSpec:
    window = options.pop("window", wm.Range(20, time="ts", lateness=5))
    asked = options.pop("spread", "auto")
    bound = Condition(condition).bind({"r": SCHEMA, "s": SCHEMA})
    return JoinSpec(
        condition,
        ("r", "s"),
        (window, window),
        (SCHEMA, SCHEMA),
        **{
            "select": "r.id AS rid, s.id AS sid",
            "spread": choose_spread(asked, bound, (window, window), None, options.get("how", "inner")),
            "cores": 2,
            "state": str(state),
            "instance": f"{state}{options}",
            "retain": 4,
            **options,
        },
    )


def rows(batch: int, count: int, keys: Any = None, seed: int = 0) -> pa.RecordBatch:
    random = np.random.default_rng([batch, seed])
    x = random.integers(0, 50, count) if keys is None else keys
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.arange(count) + batch * count),
            pa.array(random.integers(10 * batch, 10 * batch + 10, count)),
            pa.array(x),
            pa.array([f"n{i}" for i in range(count)]),
        ],
        schema=SCHEMA,
    )


def both(batch: int, count: int = 20, **options: Any) -> list[list[pa.RecordBatch]]:
    """A batch of both streams, in two map partitions each."""
    return [[rows(2 * batch + part, count, seed=k, **options) for part in (0, 1)] for k in (0, 1)]


def found(rows: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return sorted(((row["rid"], row["sid"]) for row in rows), key=repr)
