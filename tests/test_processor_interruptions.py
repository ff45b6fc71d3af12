"""A call of a Processor that is interrupted at any step is undone: the same again, and the rest, give what an undisturbed one gives."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from interruptions import every_step

SAMPLE, MANY = 40, 400  # steps a case, in the default suite and in the slow tests

SQL = {
    "inner": "SELECT a.x, b.x AS y FROM a JOIN b ON a.k = b.k",
    "outer": "SELECT a.x, b.x AS y FROM a LEFT JOIN b ON a.k = b.k AND a.x < b.x WHERE b.x IS NULL OR b.x > 2",
    "three": "SELECT a.x, b.x AS y, c.x AS z FROM a, b, c WHERE a.k = b.k AND b.x <= c.x",
    "self": "SELECT p.x, q.x AS y FROM a p JOIN a q ON p.k = q.k AND p.x <= q.x",
    "few": "SELECT x FROM a WHERE k = 1",
    "union": "SELECT x FROM a UNION ALL SELECT b.x FROM b JOIN c ON b.k = c.k",
    "table": "SELECT a.x, n.name FROM a LEFT JOIN names n ON a.k = n.k",
    "timed": "SELECT a.x, b.x AS y FROM last_range(a, 4) JOIN last_range(b, 4) ON a.k = b.k",
}
SCHEMA = pa.schema({"k": pa.int64(), "x": pa.int64(), "at": pa.int64(), "note": pa.string()})
Rows = list[tuple[Any, ...]]


def batch(number: int, note: str | None = None) -> pa.RecordBatch:
    rows = [(n % 3, n % 5, number * 4 + n // 2, note) for n in range(number, number + 8)]
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def listed(results: dict[str, wm.Result]) -> dict[str, Rows]:
    return {
        name: sorted(
            zip(*(column.to_pylist() for column in result.to_arrow().columns), strict=True), key=repr
        )
        for name, result in results.items()
    }


def push(qp: wm.Processor, number: int, **options: Any) -> dict[str, wm.Result]:
    return qp.push({name: batch(number) for name in "abc"}, **options)


def started(schemas: bool = True, pushes: int = 3) -> wm.Processor:
    windows = dict.fromkeys("abc", wm.Range(20, time="at", lateness=4))
    names = {"k": [0, 1], "name": ["zero", "one"]}
    given = dict.fromkeys("abc", SCHEMA) if schemas else None
    qp = wm.Processor(windows=windows, schemas=given, tables={"names": names})
    for number in range(pushes):
        push(qp, number)
        for name, sql in list(SQL.items())[number * 3 : number * 3 + 3]:
            qp.create(name, sql)
    return qp


def standing(qp: wm.Processor) -> Any:
    """What the processor says of itself; and how many rows the joins have taken, as of calls that count."""
    qp._running.mend()
    engines = [
        (engine.ledger.arrivals.counts.tolist(), [chain.rows for chain in engine.ledger.chains])
        for engine in qp._running.feed.shared.readers
    ]
    return qp.explain(), engines, qp._running.feed.known.schemas


def standing_of_others(qp: wm.Processor) -> Any:
    """The same, but of the query that the push stops: it may be stopped already when the push is interrupted."""
    qp._running.mend()
    return [
        query.explain() for name, query in qp.queries().items() if name != "bad"
    ], qp._running.feed.known.schemas


def interrupted(
    make: Callable[[], wm.Processor],
    operation: Callable[[wm.Processor], Any],
    at_most: int,
    standing: Callable[[wm.Processor], Any] = standing,
) -> None:
    def rest(qp: wm.Processor) -> list[Any]:
        return [listed(push(qp, 5)), listed(push(qp, 6)), qp.explain(), listed(qp.finish())]

    undisturbed = make()
    wanted = listed(operation(undisturbed))
    after = rest(undisturbed)

    def check(qp: wm.Processor, given: Any) -> None:
        assert listed(given) == wanted
        assert rest(qp) == after

    every_step(make, operation, check, at_most=at_most, standing=standing)


def waiting() -> wm.Processor:
    """Queries that wait for stream c; and a column without a type."""
    qp = started(schemas=False, pushes=0)
    for name, sql in SQL.items():
        qp.create(name, sql)
    qp.push(a=batch(0).set_column(3, "note", pa.nulls(8)), b=batch(1))
    return qp


def altered(qp: wm.Processor) -> dict[str, wm.Result]:
    qp.execute(f"DROP QUERY inner; ALTER QUERY three AS {SQL['inner']}; CREATE QUERY new AS {SQL['self']}")
    return {}


def about_to_fail() -> wm.Processor:
    """A query whose own windows have their times in a column that the next batch leaves NULL; and the others."""
    qp = started()
    qp.create("bad", SQL["outer"], windows=dict.fromkeys("ab", wm.Range(9, time="x")))
    push(qp, 3)
    return qp


def failed(qp: wm.Processor) -> dict[str, wm.Result]:
    empty = batch(4).set_column(1, "x", pa.nulls(8, pa.int64()))
    return qp.push(a=batch(4), b=empty, c=batch(4))


def warm_at_once(qp: wm.Processor) -> dict[str, wm.Result]:
    """One statement: nothing of it remains if it is interrupted."""
    query = qp.create("warm", SQL["outer"], start="warm", backfill=True)
    assert query.backfill is not None
    return {"warm": query.backfill}


CASES: dict[str, tuple[Callable[[], wm.Processor], Callable[[wm.Processor], Any]]] = {
    "push": (started, lambda qp: push(qp, 4)),
    "order": (started, lambda qp: push(qp, 4, order="at")),
    "learn": (waiting, lambda qp: qp.push(c=batch(3))),
    "type": (waiting, lambda qp: qp.push(a=batch(4, "a text"))),
    "execute": (started, altered),
    "warm": (started, warm_at_once),
}


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_call_is_undone(name: str) -> None:
    interrupted(*CASES[name], SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_call_interrupted_at_many_steps_is_undone(name: str) -> None:
    interrupted(*CASES[name], MANY)


def test_an_interrupted_push_that_stops_a_query_is_undone_for_the_others() -> None:
    undisturbed = about_to_fail()
    failed(undisturbed)
    assert undisturbed.queries()["bad"].state == "stopped"
    interrupted(about_to_fail, failed, SAMPLE, standing_of_others)


def test_an_interrupted_end_is_undone() -> None:
    wanted = listed(started().finish())

    def check(qp: wm.Processor, given: Any) -> None:
        assert listed(given) == wanted

    every_step(started, lambda qp: qp.finish(), check, at_most=SAMPLE, standing=standing)
