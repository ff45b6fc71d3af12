"""Every way of spreading with every pair of windows and every join type, on keys so few that every border is met; restarts between."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from spark.batch_oracle import BatchOracle, arranged
from spark.runner import Runner
from watersmeet.join.outer import join_type
from watersmeet.spark.shuffle.spread import choose_spread
from watersmeet.spark.spec import JoinSpec
from watersmeet.sql.condition import Condition

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("x", pa.int64())])
CONDITIONS = {
    "hash": ("r.x = s.x", lambda r, s: r["x"] == s["x"]),
    "range": ("r.x BETWEEN s.x - 1 AND s.x + 2", lambda r, s: s["x"] - 1 <= r["x"] <= s["x"] + 2),
    "broadcast": ("r.x * s.x % 5 = 2", lambda r, s: r["x"] * s["x"] % 5 == 2),
}
WINDOWS: dict[str, tuple[Any, Any]] = {
    "range": (wm.Range(6, time="ts", lateness=3), ("range", 6, "ts", 3)),
    "unbounded": (wm.Unbounded(), ("unbounded",)),
    "rows": (wm.Rows(9), ("rows", 9)),
}
SELECTS = {"left_semi": "r.id AS rid, NULL AS sid", "right_semi": "NULL AS rid, s.id AS sid"}
SELECTS |= {"left_anti": SELECTS["left_semi"], "right_anti": SELECTS["right_semi"]}
HOWS = ("inner", "left", "right", "full", "left_semi", "right_semi", "left_anti", "right_anti")


def table(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def null_safe(condition: Any) -> Any:
    """NULL matches nothing."""
    return lambda r, s: r["x"] is not None and s["x"] is not None and condition(r, s)


@pytest.mark.parametrize("right", WINDOWS)
@pytest.mark.parametrize("left", WINDOWS)
@pytest.mark.parametrize("spread", CONDITIONS)
def test_matrix(tmp_path: Path, spread: str, left: str, right: str) -> None:
    text, condition = CONDITIONS[spread]
    windows = (WINDOWS[left][0], WINDOWS[right][0])
    bound = Condition(text).bind({"r": SCHEMA, "s": SCHEMA})
    for number, how in enumerate(HOWS):
        rng = random.Random(f"{spread}{left}{right}{how}")
        order = "ts" if number % 3 == 1 else None
        chosen = choose_spread("auto", bound, windows, order, join_type(how).name)
        spec = JoinSpec(
            text, ("r", "s"), windows, (SCHEMA, SCHEMA), how=how, order=order, spread=chosen, cores=3, late="late",
            select=SELECTS.get(how, "r.id AS rid, s.id AS sid"), state=str(tmp_path / how), instance=f"{tmp_path}{how}",
        )  # fmt: skip
        runner = Runner(spec, seed=number)
        oracle = BatchOracle(null_safe(condition), WINDOWS[left][1], WINDOWS[right][1], how)
        ids = {"r": 0, "s": 0}
        for batch in range(6):
            rows: dict[str, list[dict[str, Any]]] = {"r": [], "s": []}
            for _ in range(24):
                side = rng.choice("rs")
                x = None if rng.random() < 0.06 else rng.randrange(12)
                ts = max(0, 3 * batch + rng.randrange(3) - (rng.randrange(12) if rng.random() < 0.2 else 0))
                rows[side].append({"id": ids[side], "ts": ts, "x": x})
                ids[side] += 1
            events = arranged([(side, row) for side in "rs" for row in rows[side]], order is not None)
            pairs, late = oracle.batch(events)
            half = {side: len(rows[side]) // 2 for side in "rs"}
            found = runner.batch(
                batch, [[table(rows[side][: half[side]]), table(rows[side][half[side] :])] for side in "rs"]
            )
            got = sorted(((row["rid"], row["sid"]) for row in found if row["late"] is None), key=repr)
            assert got == oracle.ids(pairs), f"{how}, {chosen}, batch {batch}"
            refused = sorted(row["late"] for row in found if row["late"] is not None)
            assert refused == sorted(stream for stream, _ in late), (
                f"{how}, {chosen}, late rows of batch {batch}"
            )
            if batch == 2:
                runner.restart(cores=2 + number % 3)
