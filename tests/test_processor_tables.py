"""Tables beside streams: rows that were there before the first row, for ever, in joins of every kind."""

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples
from strategies import in_pushes
from test_processor_properties import plain, push
from test_processor_state import again
from test_shared_streams import SCHEMAS, batch, rows

SYMBOLS = pa.table({"sym": ["A", "B", "B", None], "name": ["Alpha", "Beta", "Bravo", "none"]})


def processor(**options: Any) -> wm.Processor:
    schemas = {"trades": {"sym": pa.string(), "size": pa.int64()}}
    return wm.Processor(trades=wm.Rows(2), tables={"symbols": SYMBOLS}, schemas=schemas, **options)


def found(result: wm.Result) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in result.to_arrow().columns), strict=True), key=repr)


def test_every_row_of_a_stream_meets_the_whole_table() -> None:
    qp = processor()
    qp.create("named", "SELECT t.size, s.name FROM trades t JOIN symbols s ON t.sym = s.sym")
    qp.create("outer", "SELECT t.size, s.name FROM trades t LEFT JOIN symbols s ON t.sym = s.sym")
    qp.create("unknown", "SELECT t.size FROM trades t LEFT ANTI JOIN symbols s ON t.sym = s.sym")
    results = qp.push(trades={"sym": ["A", "B", "C", None], "size": [1, 2, 3, 4]})
    named = [(1, "Alpha"), (2, "Beta"), (2, "Bravo")]
    assert found(results["named"]) == named
    assert found(results["outer"]) == [*named, (3, None), (4, None)]  # at once: nobody comes later
    assert found(results["unknown"]) == [(3,), (4,)]
    assert "table symbols: 4 rows" in qp.explain()
    later = qp.create("later", "SELECT t.size, s.name FROM trades t JOIN symbols s ON t.sym = s.sym")
    assert found(qp.push(trades={"sym": ["B"], "size": [5]})["later"]) == [(5, "Beta"), (5, "Bravo")]
    assert later.complete_from == {"trades": 4}
    assert [result.count for result in qp.finish().values()] == [0, 0, 0, 0]


def test_rows_of_a_table_that_nobody_has_met_come_out_at_the_end() -> None:
    qp = processor()
    qp.create("all", "SELECT t.size, s.name FROM trades t FULL JOIN symbols s ON t.sym = s.sym")
    qp.create("met", "SELECT s.name FROM symbols s SEMI JOIN trades t ON t.sym = s.sym")
    results = qp.push(trades={"sym": ["A", "A"], "size": [1, 2]})
    assert found(results["all"]) == [(1, "Alpha"), (2, "Alpha")]
    assert found(results["met"]) == [("Alpha",)]
    ended = qp.finish()
    assert found(ended["all"]) == [(None, "Beta"), (None, "Bravo"), (None, "none")]
    assert ended["met"].count == 0


def test_watermarks_do_not_wait_for_a_table() -> None:
    timed = wm.Range(5, time="at")
    qp = wm.Processor(a=timed, b=timed, tables={"names": {"k": [1], "name": ["one"]}})
    sql = "SELECT a.at, b.at AS other, name FROM a, b, names n WHERE a.k = b.k AND n.k = a.k"
    qp.create("three", sql)
    qp.create("named", "SELECT at, name FROM a LEFT JOIN names n ON a.k = n.k")
    qp.push(a={"k": [1, 1], "at": [1, 20]}, b={"k": [1], "at": [2]})
    results = qp.push(b={"k": [1, 1], "at": [19, 3]}, a={"k": [1], "at": [3]})
    assert found(results["three"]) == [(20, 19, "one")]
    assert set(results["three"].late) == {"a", "b"}
    assert found(results["named"]) == [(3, "one")]  # there is nothing that it could be too late for


def test_warm_starts_and_saved_states_have_tables_too() -> None:
    qp = processor()
    qp.push(trades={"sym": ["A", "B", "B"], "size": [1, 2, 3]})
    sql = "SELECT t.size, s.name FROM trades t JOIN symbols s ON t.sym = s.sym"
    query = qp.create("warm", sql, start="warm", backfill=True)
    assert query.backfill is not None
    assert found(query.backfill) == [(1, "Alpha"), (2, "Beta"), (2, "Bravo"), (3, "Beta"), (3, "Bravo")]
    qp.create("full", sql.replace("JOIN", "FULL JOIN"))
    loaded = again(qp)
    assert loaded.explain() == qp.explain()
    for one in (qp, loaded):
        one.create("more", sql)
        results = one.push(trades={"sym": ["A"], "size": [4]})
        assert [found(result) for result in results.values()] == [[(4, "Alpha")]] * 3
        assert found(one.finish()["full"]) == [(None, "Beta"), (None, "Bravo"), (None, "none")]


QUERIES = [
    "SELECT a.id, c.id FROM a JOIN c ON a.k = c.k AND a.x <= c.x",
    "SELECT a.id, c.id FROM c LEFT JOIN a ON a.x = c.x",
    "SELECT a.id, c.id FROM a FULL JOIN c ON a.x = c.x AND a.y < c.y WHERE a.k = 0 OR a.k IS NULL",
    "SELECT a.id, b.id, c.id FROM a JOIN b ON a.k = b.k JOIN c ON c.x = b.x AND c.y > a.y",
    "SELECT a.id, p.id, q.id FROM c p, a, c q WHERE p.x = a.x AND a.k = q.k",
    "SELECT a.id, d.z FROM a LEFT JOIN (SELECT k, x + 1 AS z FROM c WHERE y > 0) d ON a.k = d.k AND d.z > a.x",
    "SELECT id FROM c ANTI JOIN a ON a.x = c.x",
    "SELECT id, x FROM a UNION ALL SELECT a.id, c.k FROM a JOIN c ON a.x = c.x",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_over_streams_and_tables_is_the_sql_query(sql: str) -> None:
    @examples(3)
    @given(st.integers(0, 2**32), st.lists(st.integers(1, 40), min_size=1, max_size=4), st.booleans())
    def holds(seed: int, sizes: list[int], saved: bool) -> None:
        events = rows(90, seed)
        streams = [event for event in events if event[0] in "ab"]
        qp = wm.Processor(
            a=wm.Unbounded(), b=wm.Unbounded(), tables={"c": batch(events, "c")},
            schemas={name: SCHEMAS[name] for name in "ab"},
        )  # fmt: skip
        qp.create("query", sql)
        tables = []
        for part in in_pushes(streams, sizes):
            tables.append(push(qp, part)["query"].to_arrow())
            qp = again(qp) if saved else qp
        tables.append(qp.finish()["query"].to_arrow())
        with duckdb.connect() as connection:
            for name in "abc":
                connection.register(name, pa.Table.from_batches([batch(events, name)]))
            wanted = connection.execute(sql).fetchall()
        given = [row for table in tables for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
        assert sorted(map(plain, given)) == sorted(map(plain, wanted))

    holds()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: processor().create("q", "SELECT * FROM symbols"),
            "a query must have a stream in each FROM, whose rows come; got 'symbols' alone: tables that stay as they are",
        ),
        (
            lambda: processor().create("q", "SELECT p.name FROM symbols p JOIN symbols q ON p.sym = q.sym"),
            "a query must have a stream in each FROM, whose rows come; got 'symbols' and 'symbols' alone",
        ),
        (
            lambda: processor().create("q", "SELECT size FROM trades JOIN last_rows(symbols, 2) s ON s.sym = trades.sym"),
            "a window must be of a stream; got last_rows around the table 'symbols', which stays as it is",
        ),
        (
            lambda: processor().create(
                "q", "SELECT size FROM trades t JOIN symbols s ON s.sym = t.sym", windows={"s": wm.Rows(1)}
            ),
            "windows= must name streams; got 's', a table, which stays as it is; leave it out",
        ),
        (lambda: processor().push(symbols=SYMBOLS), "push() takes the streams 'trades'; got 'symbols'"),
        (lambda: wm.Processor(a=wm.Rows(1), tables=[1]), "tables= must be a dict from a name to data"),
        (lambda: wm.Processor(a=wm.Rows(1), tables={"a": SYMBOLS}), "got 'a', which is a stream; choose another"),
        (lambda: wm.Processor(a=wm.Rows(1), tables={"": SYMBOLS}), "the name of a table must be a text; got ''"),
        (lambda: wm.Processor(a=wm.Rows(1), tables={"t": []}), "the table 't' must have columns; got []"),
        (
            lambda: wm.Processor(a=wm.Rows(1), tables={str(i): SYMBOLS for i in range(101)}),
            "a Processor must have at most 100 tables; got 101",
        ),
        (
            lambda: wm.Processor(a=wm.Rows(1), tables={"t": SYMBOLS}, schemas={"t": SYMBOLS.schema}),
            "schemas= must name the streams 'a'; got 't'",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(call: Any, said: str) -> None:
    with pytest.raises(wm.WatersmeetError) as caught:
        call()
    assert said in str(caught.value)
