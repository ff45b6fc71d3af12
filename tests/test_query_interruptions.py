"""A call that is interrupted at any step leaves aggregates as they were: the same again, and the rest, give what is given undisturbed."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from interruptions import every_step

SAMPLE, MANY = 25, 600  # steps a case, in the default suite and in the slow tests
QUERIES = {
    "update": ("SELECT k, COUNT(*) AS n, SUM(y) AS s FROM a GROUP BY k", None),
    "changelog": ("SELECT k, MAX(x) AS m FROM last_rows(a, 5) GROUP BY k HAVING COUNT(*) > 1", "changelog"),
    "top": ("SELECT k, COUNT(DISTINCT x) AS n FROM last_range(a, 4) GROUP BY k ORDER BY n DESC LIMIT 2", "complete"),
    "told": ("SELECT k, COUNT(*) AS n FROM last_rows(a, 6) GROUP BY k ORDER BY n DESC LIMIT 2", "changelog"),
    "windows": ("SELECT window.start, k, COUNT(*) AS n, FIRST(x) AS f FROM a GROUP BY window(at, 3), k", None),
    "open": ("SELECT window.start, k, MAX(x) AS m FROM a GROUP BY window(at, 4, 2), k", "update"),
    "sessions": ("SELECT session_window.end, SUM(x) AS s FROM a GROUP BY session_window(at, 1), k", None),
    "distinct": ("SELECT DISTINCT x, note FROM a", None),
    "rows": ("SELECT x, at FROM last_rows(a, 4) ORDER BY x", None),
    "first": ("SELECT x, at FROM a ORDER BY x, at DESC LIMIT 3", None),
    "in order": ("SELECT x, at FROM a ORDER BY at", None),
    "joined": ("SELECT a.k, COUNT(*) AS n, MIN(b.x) AS m FROM a JOIN b ON a.k = b.k AND a.x < b.x GROUP BY a.k", None),
    "few": ("SELECT x FROM a LIMIT 12", None),
}  # fmt: skip
SCHEMA = pa.schema(
    {"k": pa.int64(), "x": pa.int64(), "y": pa.float64(), "at": pa.int64(), "note": pa.string()}
)


def batch(number: int) -> pa.RecordBatch:
    rows = [
        {"k": n % 3, "x": n * 7 % 5, "y": n / 3, "at": number * 3 + n % 4, "note": "ab"[n % 2] * (n % 3)}
        for n in range(number, number + 7)
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def listed(results: dict[str, wm.Result]) -> dict[str, Any]:
    return {name: result.to_arrow().to_pylist() for name, result in results.items()}


def push(qp: wm.Processor, number: int) -> dict[str, wm.Result]:
    return qp.push(a=batch(number), b=batch(number + 1))


def started() -> wm.Processor:
    windows = dict.fromkeys("ab", wm.Range(20, time="at", lateness=1))
    qp = wm.Processor(windows=windows, schemas=dict.fromkeys("ab", SCHEMA))
    for name, (sql, emit) in QUERIES.items():
        qp.create(name, sql, emit=emit)
    push(qp, 0)
    push(qp, 1)
    return qp


def standing(qp: wm.Processor) -> Any:
    """What the processor says of itself, and all that its blocks remember, as of calls that count."""
    qp._running.mend()
    blocks = qp._running.graph.blocks
    tables = {
        key: {name: table.to_pylist() for name, table in block.snapshot().items()}
        for key, block in blocks.items()
    }
    return qp.explain(), tables


def altered(qp: wm.Processor) -> dict[str, wm.Result]:
    """Another select list over the same groups, other groups, and a query less."""
    qp.execute(
        "ALTER QUERY update AS SELECT k, SUM(y) / COUNT(*) AS mean, COUNT(*) AS n, SUM(y) AS s FROM a GROUP BY k; DROP QUERY top; "
        "ALTER QUERY changelog AS SELECT x, COUNT(*) AS n FROM last_rows(a, 3) GROUP BY x"
    )
    return {}


OPERATIONS: dict[str, Callable[[wm.Processor], Any]] = {
    "push": lambda qp: push(qp, 2),
    "finish": lambda qp: qp.finish(),
    "alter": altered,
}


def interrupted(operation: str, at_most: int) -> None:
    def rest(qp: wm.Processor) -> list[Any]:
        if operation == "finish":
            return []
        return [listed(push(qp, 5)), listed(push(qp, 6)), qp.explain(), listed(qp.finish())]

    undisturbed = started()
    wanted = listed(OPERATIONS[operation](undisturbed))
    after = rest(undisturbed)

    def check(qp: wm.Processor, given: Any) -> None:
        assert listed(given) == wanted
        assert rest(qp) == after

    every_step(started, OPERATIONS[operation], check, at_most=at_most, standing=standing)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupted_call_is_undone(operation: str) -> None:
    interrupted(operation, SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupted_call_is_undone_at_many_steps(operation: str) -> None:
    interrupted(operation, MANY)
