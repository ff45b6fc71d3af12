"""What a push has made is freed as soon as nobody holds it: no ring of objects keeps rows until Python looks for rings."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm

DATA = (np.ndarray, pa.Array, pa.RecordBatch, pa.Table)


def rows(random: np.random.Generator, count: int, start: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "ts": pa.array(start + np.arange(count)),
            "k": random.integers(0, 20, count),
            "sym": [f"S{i}" for i in random.integers(0, 20, count)],
            "x": random.normal(0, 10, count),
            "price": pa.array([Decimal(int(c)) / 100 for c in random.integers(0, 999, count)]),
        }
    )


@contextmanager
def nothing_left() -> Iterator[None]:
    """Nothing that is made meanwhile is left to Python's search for rings but what holds no data."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        # By the type: a proxy would be asked for what it stands for, and that may be gone.
        left = [one for one in gc.garbage if issubclass(type(one), DATA)]
        assert not left, f"{len(left)} of {[type(one).__name__ for one in gc.garbage]}"
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def push_some(push: Callable[[dict[str, pa.RecordBatch]], Any], streams: str, large: int = 2000) -> None:
    random = np.random.default_rng(1)
    for number in range(12):
        count = large if number % 2 else 50
        given = {name: rows(random, count, number * large) for name in streams}
        if number < 6:  # plans change, columns are typed
            push(given)
            continue
        with nothing_left():
            push(given)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cores": 2},
        {"how": "full"},
        {"how": "anti"},
        {"select": "q.sym, q.x + t.x AS both, q.price * t.price AS product"},
        {"select": "UPPER(q.sym) AS sym, q.price + 1 AS more"},
        {"result": "ranges"},
        {"order": "outer", "flow": "split_join", "cores": 2},
        {"flow": "handshake", "cores": 2},
        {"flow": "pan_join", "cores": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "text",
    [
        "t.sym = q.sym AND ABS(t.x - q.x) < 1",
        "t.k = q.k AND t.x * 2 + q.x < 9 AND t.sym LIKE CONCAT(q.sym, '%')",
    ],
)
def test_what_a_join_has_found(text: str, options: dict[str, Any]) -> None:
    if options.get("how") == "anti":
        options = {**options, "select": "t.*"}
    if options.get("result") == "ranges":
        text = "ABS(t.x - q.x) < 1"
    with wm.StreamJoin(text, t=wm.Rows(3000), q=wm.Range(5000), **options) as join:
        push_some(lambda given: found(join.push(given), options), "tq")


def found(result: wm.Result, options: dict[str, Any]) -> int:
    return result.count if options.get("result") == "ranges" else result.to_arrow().num_rows


@pytest.mark.parametrize("options", [{}, {"stash": 500}, {"cores": 2}], ids=str)
def test_what_a_join_of_many_streams_has_found(options: dict[str, Any]) -> None:
    text = "a.sym = b.sym AND b.k = c.k AND a.x + b.x < c.x"
    windows = dict.fromkeys("abc", wm.Rows(300))
    with wm.StreamJoin(text, windows=windows, select="a.x, b.price * c.price AS p", **options) as join:
        push_some(lambda given: join.push(given).to_arrow(), "abc", 400)


QUERIES = {
    "selection": "SELECT sym, x * 2 AS twice, price + 1 AS more FROM t WHERE x > 0",
    "join": "SELECT t.sym, t.price * q.price AS p FROM t JOIN q ON t.sym = q.sym AND ABS(t.x - q.x) < 1",
    "left join": "SELECT t.sym, q.x FROM t LEFT JOIN q ON t.k = q.k AND t.x > q.x + 5",
    "groups": "SELECT sym, COUNT(*) AS n, SUM(price) AS s, MAX(x) AS m FROM t GROUP BY sym HAVING SUM(price) > 1",
    "of a join": "SELECT t.sym, SUM(t.price * q.price) AS s FROM t JOIN q ON t.k = q.k GROUP BY t.sym",
    "top": "SELECT sym, SUM(x) AS s FROM t GROUP BY sym ORDER BY s DESC LIMIT 3",
    "union": "SELECT k FROM t UNION ALL SELECT k FROM q",
    "distinct": "SELECT DISTINCT sym, k FROM t",
    "distinct, joined": "WITH d AS (SELECT DISTINCT k FROM t) SELECT d.k FROM last_rows(d, 500) d JOIN q ON d.k = q.k",
    "a join, joined": (
        "WITH d AS (SELECT t.k FROM t JOIN q ON t.k = q.k AND t.x < q.x) "
        "SELECT d.k FROM last_rows(d, 500) d JOIN q ON d.k = q.k"
    ),
}


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_what_a_query_has_found(text: str) -> None:
    qp = wm.Processor(t=wm.Rows(3000), q=wm.Rows(3000))
    qp.create("one", text)

    def push(given: dict[str, pa.RecordBatch]) -> None:
        for one in qp.push(given).values():
            one.to_arrow()

    push_some(push, "tq", 500)
