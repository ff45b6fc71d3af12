"""Aggregates, DISTINCT, ORDER BY and LIMIT in a Processor, by example; and on finished data against DuckDB."""

from collections import Counter
from collections.abc import Sequence
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
from test_shared_streams import SCHEMAS, batch, rows

SCHEMA = {"k": pa.string(), "x": pa.int64(), "y": pa.float64(), "ts": pa.int64()}
Row = tuple[Any, ...]


def processor(**options: Any) -> wm.Processor:
    return wm.Processor(
        t=wm.Range(10, time="ts", lateness=1), q=wm.Rows(5), schemas={"t": SCHEMA, "q": SCHEMA}, **options
    )


def arrived(*rows: Row) -> pa.RecordBatch:
    """Rows (k, x, ts)."""
    made = [{"k": k, "x": x, "y": None if x is None else x / 2, "ts": ts} for k, x, ts in rows]
    return pa.RecordBatch.from_pylist(made, pa.schema(SCHEMA))


def shown(result: wm.Result) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in result.to_arrow().columns), strict=True))


def run(sql: str, *pushes: list[Row], emit: str | None = None, **options: Any) -> list[list[Row]]:
    """What each push, and the end, give."""
    qp = processor()
    qp.create("q", sql, emit=emit, **options)
    found = [shown(qp.push(t=arrived(*rows))["q"]) for rows in pushes]
    return [*found, shown(qp.finish()["q"])]


FIRST, SECOND = [("a", 1, 1), ("b", 5, 2), ("a", 3, 3)], [("b", None, 4), ("c", 2, 9)]


# ---- what a push gives ------------------------------------------------------------------------------------------


def test_groups_are_given_as_updates() -> None:
    assert run("SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k", FIRST, SECOND) == [
        [("a", 2, 4, 1), ("b", 1, 5, 1)],
        [("b", 2, 5, 1), ("c", 1, 2, 1)],
        [],
    ]


def test_without_groups_or_with_an_order_the_whole_answer_is_given() -> None:
    assert run("SELECT COUNT(*) AS n, SUM(x) / COUNT(*) AS mean FROM t", FIRST, SECOND) == [
        [(3, 3.0)],
        [(5, 2.2)],
        [(5, 2.2)],
    ]
    assert run("SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY n DESC, k LIMIT 2", FIRST, SECOND) == [
        [("a", 2), ("b", 1)],
        [("a", 2), ("b", 2)],
        [("a", 2), ("b", 2)],
    ]
    assert run("SELECT x FROM t ORDER BY x DESC LIMIT 2", FIRST, SECOND) == [[(5,), (3,)]] * 3


def test_a_group_that_is_gone_comes_with_its_key() -> None:
    assert run("SELECT COUNT(*) AS n, k FROM last_rows(t, 3) GROUP BY k", FIRST, SECOND) == [
        [(2, "a", 1), (1, "b", 1)],
        [(1, "a", 1), (1, "c", 1)],
        [],
    ]
    assert run("SELECT COUNT(*) AS n, k FROM last_rows(t, 2) GROUP BY k", FIRST, SECOND)[1] == [
        (None, "a", -1),
        (1, "c", 1),
    ]
    passing = "SELECT k, MAX(x) AS m FROM t GROUP BY k HAVING COUNT(*) < 2"
    assert run(passing, FIRST, SECOND)[:2] == [[("b", 5, 1)], [("b", None, -1), ("c", 2, 1)]]


def test_a_changelog_has_what_goes_before_what_comes() -> None:
    sql = "SELECT k, SUM(x) AS s FROM t GROUP BY k"
    assert run(sql, FIRST, [("b", 1, 5), ("a", 0, 5)], emit="changelog")[:2] == [
        [("a", 4, 1), ("b", 5, 1)],
        [("b", 5, -1), ("b", 6, 1)],
    ]
    assert run("SELECT x FROM t ORDER BY x DESC LIMIT 1", FIRST, [("c", 7, 5)], emit="changelog")[:2] == [
        [(5, 1)],
        [(5, -1), (7, 1)],
    ]
    assert run("SELECT x FROM last_rows(t, 2)", FIRST, SECOND, emit="changelog")[:2] == [
        [(5, 1), (3, 1)],
        [(5, -1), (3, -1), (None, 1), (2, 1)],
    ]
    assert run("SELECT x FROM t", FIRST, emit="changelog")[0] == [(1, 1), (5, 1), (3, 1)]


def test_a_group_is_told_only_if_what_is_selected_has_changed() -> None:
    assert run("SELECT k, COUNT(*) > 1 AS many FROM t GROUP BY k", FIRST, FIRST) == [
        [("a", True, 1), ("b", False, 1)],
        [("b", True, 1)],
        [],
    ]


def test_distinct_rows_come_once() -> None:
    assert run("SELECT DISTINCT k FROM t", FIRST, SECOND) == [[("a",), ("b",)], [("c",)], []]
    assert run("SELECT DISTINCT k FROM last_rows(t, 2)", FIRST, SECOND)[:2] == [
        [("b", 1), ("a", 1)],
        [("a", -1), ("c", 1)],
    ]
    assert run("SELECT DISTINCT COUNT(*) AS n FROM t GROUP BY k", FIRST, SECOND)[:2] == [
        [(2,), (1,)],
        [(2,), (1,)],
    ]
    assert run("SELECT COUNT(*) AS n FROM (SELECT DISTINCT k FROM t)", FIRST, SECOND) == [
        [(2,)],
        [(3,)],
        [(3,)],
    ]


def test_rows_are_given_in_the_order_of_their_times_as_the_watermark_passes_them() -> None:
    rows = [("a", 1, 3), ("b", 2, 1), ("c", 3, 4)]
    assert run("SELECT k FROM t ORDER BY ts", [("a", 1, 2), ("b", 2, 1), ("c", 3, 4)], [("d", 4, 3)]) == [
        [("b",), ("a",)],
        [],
        [("d",), ("c",)],
    ]
    assert run("SELECT k FROM t ORDER BY x DESC", rows, emit="append") == [[], [("c",), ("b",), ("a",)]]
    assert run("SELECT k FROM t LIMIT 4", rows, rows) == [[("a",), ("b",), ("c",)], [("a",)], []]
    ordered = "SELECT window.start, COUNT(*) AS n FROM t GROUP BY window(ts, 2) ORDER BY window.start"
    assert run(ordered, [("a", 1, 2), ("b", 2, 1), ("c", 3, 4)], [("d", 4, 3)]) == [
        [(0, 1)],
        [],
        [(2, 2), (4, 1)],
    ]


def test_windows_are_given_when_they_are_final() -> None:
    sql = "SELECT window.start, window.end, k, COUNT(*) AS n FROM t GROUP BY k, window(ts, 5)"
    assert run(sql, FIRST, SECOND) == [[], [(0, 5, "a", 2), (0, 5, "b", 2)], [(5, 10, "c", 1)]]
    hopping = "SELECT window.start, SUM(x) AS s FROM t GROUP BY window(ts, 4, 2)"
    assert run(hopping, FIRST, SECOND)[:2] == [[(-2, 1)], [(0, 9), (2, 8), (4, None)]]
    sessions = (
        "SELECT session_window.start, session_window.end, LAST(k) AS k FROM t GROUP BY session_window(ts, 2)"
    )
    assert run(sessions, FIRST, SECOND) == [[], [(1, 6, "b")], [(9, 11, "c")]]


def test_windows_can_be_told_before_they_are_final() -> None:
    sql = "SELECT window.start, COUNT(*) AS n FROM t GROUP BY window(ts, 5)"
    assert run(sql, FIRST, SECOND, emit="update") == [[(0, 3, 1)], [(0, 4, 1), (5, 1, 1)], []]
    assert run(sql, FIRST, SECOND, emit="changelog")[1] == [(0, 3, -1), (0, 4, 1), (5, 1, 1)]


def test_times_of_windows_are_timestamps_where_the_stream_has_timestamps() -> None:
    qp = wm.Processor(t=wm.Range("1 min", lateness="1 s"), schemas={"t": {"ts": pa.timestamp("ms")}})
    qp.create("q", "SELECT window.start AS at, COUNT(*) AS n FROM t GROUP BY window(ts, '10 seconds')")
    qp.push(t={"ts": pa.array([1_000, 12_000], pa.timestamp("ms"))})
    table = qp.finish()["q"].to_arrow()
    assert table.column("at").type == pa.timestamp("ms")
    assert table.column("n").to_pylist() == [1]


def test_late_rows_are_handed_back_where_time_decides() -> None:
    qp = processor()
    qp.create("windows", "SELECT COUNT(*) AS n FROM t GROUP BY window(ts, 5)")
    qp.create("all", "SELECT COUNT(*) AS n FROM t")
    results = qp.push(t=arrived(("a", 1, 9), ("b", 2, 3)))
    assert results["windows"].late["t"].column("k").to_pylist() == ["b"]
    assert not results["all"].late
    assert shown(results["all"]) == [(2,)]


def test_aggregates_over_windows_of_event_time() -> None:
    sql = "SELECT MAX(n) AS most, COUNT(*) AS windows FROM (SELECT COUNT(*) AS n FROM t GROUP BY window(ts, 5)) WHERE n > 1"
    assert run(sql, FIRST, SECOND) == [[(None, 0)], [(4, 1)], [(4, 1)]]


# ---- names, places, expressions ---------------------------------------------------------------------------------


def test_group_by_takes_places_and_names_and_expressions() -> None:
    wanted = [(False, 2, 1), (True, 1, 1)]
    for group in ("1", "big", "x > 3"):
        (first, *_) = run(f"SELECT x > 3 AS big, COUNT(*) AS n FROM t GROUP BY {group}", FIRST)
        assert sorted(first) == wanted
    (first, *_) = run("SELECT COUNT(*) AS x FROM t GROUP BY x", FIRST)  # a column before a name
    assert len(first) == 3


def test_columns_without_a_name_are_called_by_their_text() -> None:
    qp = processor()
    qp.create("q", "SELECT t.k, COUNT(*), SUM(x) / COUNT( * ), MIN_BY(x, y) FROM t GROUP BY k")
    names = qp.push(t=arrived(*FIRST))["q"].to_arrow().column_names
    assert names == ["k", "COUNT(*)", "SUM(x) / COUNT( * )", "MIN_BY(x, y)", "operation"]


def test_having_and_order_by_may_name_what_is_selected_and_what_is_not() -> None:
    sql = "SELECT k, SUM(x) AS s FROM t GROUP BY k HAVING s > 2 AND MIN(x) < 9 ORDER BY COUNT(*) DESC, s"
    assert run(sql, FIRST, SECOND)[1] == [("a", 4), ("b", 5)]
    assert run("SELECT k FROM t GROUP BY k ORDER BY MAX(y) NULLS LAST LIMIT 1", SECOND)[0] == [("c",)]


def test_first_and_last_go_by_time_or_else_by_arrival() -> None:
    rows = [("a", 1, 5), ("b", 2, 4), ("c", None, 4)]
    assert run("SELECT FIRST(k) AS f, LAST(k) AS l, FIRST(x) AS x FROM t", rows)[0] == [("b", "a", 2)]
    assert run("SELECT LAST(x) AS x, LAST(x) IGNORE NULLS AS y FROM (SELECT x, ts AS at FROM t)", rows)[
        0
    ] == [(1, 1)]
    assert run("SELECT FIRST(k) AS f, LAST(x) AS l FROM (SELECT k, x FROM t)", rows)[0] == [("a", None)]
    assert run("SELECT MIN_BY(k, x) AS f, MAX_BY(k, x) FILTER (WHERE x < 2) AS l FROM t", rows)[0] == [
        ("a", "a")
    ]


def test_a_derived_stream_has_windows_of_its_own_rows() -> None:
    few = "WITH d AS (SELECT x, ts FROM t WHERE x > 1)"
    assert run(f"{few} SELECT SUM(x) AS s FROM last_rows(d, 2)", FIRST, SECOND) == [[(8,)], [(5,)], [(5,)]]
    assert run(f"{few} SELECT SUM(x) AS s FROM last_range(d, 6)", FIRST, SECOND) == [[(8,)], [(5,)], [(5,)]]
    assert run(f"{few} SELECT x FROM last_range(d, 6) ORDER BY x", FIRST, SECOND)[1] == [(2,), (3,)]
    assert run("SELECT SUM(x) AS s FROM (SELECT x FROM last_rows(t, 2) WHERE x > 1)", FIRST, SECOND)[1] == [
        (2,)
    ]
    assert run("SELECT SUM(x) AS s FROM t", FIRST, windows={"t": wm.Rows(2)})[0] == [(8,)]


# ---- queries come, change and fail ------------------------------------------------------------------------------


def test_an_aggregate_that_stays_as_it_is_keeps_its_state() -> None:
    qp = processor()
    query = qp.create("q", "SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    qp.push(t=arrived(*FIRST))
    query.alter("SELECT UPPER(k) AS k, COUNT(*) AS many FROM t GROUP BY k ORDER BY many DESC LIMIT 1")
    assert shown(qp.push(t=arrived(("b", 1, 4)))["q"]) == [("A", 2)]
    query.alter("SELECT k, COUNT(*) AS n FROM t GROUP BY k", emit="changelog")
    assert shown(qp.push(t=arrived(("b", 1, 5)))["q"]) == [("a", 2, 1), ("b", 3, 1)]
    assert shown(qp.push(t=arrived(("b", 1, 5)))["q"]) == [("b", 3, -1), ("b", 4, 1)]
    query.alter("SELECT k, COUNT(*) AS n FROM t WHERE x > 1 GROUP BY k")
    assert shown(qp.push(t=arrived(("b", 2, 5)))["q"]) == [("b", 1, 1)]


def test_equal_aggregates_that_begin_together_are_one_block() -> None:
    qp = processor()
    qp.create("one", "SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    qp.create("two", "SELECT COUNT(*) AS many, s.k AS key FROM t s GROUP BY s.k ORDER BY many LIMIT 2")
    assert "aggregate count(*) AS n0 by c0 (0 rows; shared)" in qp.explain()
    qp.push(t=arrived(*FIRST))
    qp.create("three", "SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    results = qp.push(t=arrived(("a", 1, 4)))
    assert shown(results["one"]) == [("a", 3, 1)]
    assert shown(results["two"]) == [(1, "b"), (3, "a")]
    assert shown(results["three"]) == [("a", 1, 1)]


def test_an_error_inside_an_aggregate_stops_its_queries_and_no_other() -> None:
    qp = wm.Processor(t=wm.Rows(5), schemas={"t": {"k": pa.int64(), "at": pa.int64()}})
    bad = {"t": wm.Range(5, time="at")}
    qp.create("bad", "SELECT COUNT(*) AS n FROM t", windows=bad)
    qp.create("worse", "SELECT COUNT(*) AS n FROM t LIMIT 1", windows=bad)
    qp.create("good", "SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    qp.push(t={"k": [1], "at": [1]})
    results = qp.push(t={"k": [1, 2], "at": [1, None]})
    assert set(results.stopped) == {"bad", "worse"}
    assert results.stopped["bad"].startswith("the time column 'at' of stream")
    assert shown(results["good"]) == [(1, 2, 1), (2, 1, 1)]
    assert shown(qp.push(t={"k": [1], "at": [1]})["good"]) == [(1, 3, 1)]


def test_a_query_waits_for_the_types_of_what_it_remembers() -> None:
    qp = wm.Processor(t=wm.Rows(5))
    sums = qp.create("sums", "SELECT SUM(x) AS s FROM t")
    counts = qp.create("counts", "SELECT COUNT(*) AS n FROM t")
    results = qp.push(t={"k": [1], "x": [None]})
    assert (sums.state, sums.reason) == ("waiting", "the type of column t.x")
    assert (counts.state, shown(results["counts"])) == ("running", [(1,)])
    results = qp.push(t={"k": [1], "x": [3]})
    assert (shown(results["sums"]), shown(results["counts"])) == ([(3,)], [(2,)])


def test_statements_say_how_to_give_results() -> None:
    qp = processor()
    qp.execute(
        "CREATE QUERY c EMIT complete AS SELECT k FROM t GROUP BY k; ALTER QUERY c EMIT changelog AS SELECT k FROM t"
    )
    assert shown(qp.push(t=arrived(("a", 1, 1)))["c"]) == [("a", 1)]
    with pytest.raises(wm.OptionError) as caught:
        qp.execute("CREATE QUERY d EMIT whole AS SELECT k FROM t")
    assert (
        str(caught.value) == "emit= must be one of 'append', 'update', 'complete', 'changelog'; got 'whole'"
    )
    qp.drop("c")
    qp.execute(
        "CREATE QUERY n AS SELECT k, COUNT(*) AS n FROM t GROUP BY k; CREATE QUERY m AS SELECT MAX(x) AS m FROM t"
    )
    results = qp.push(t=arrived(*FIRST))
    assert shown(results["n"]) == [("a", 2, 1), ("b", 1, 1)]
    assert shown(results["m"]) == [(5,)]


def test_blocks_go_on_from_their_snapshots() -> None:
    texts = [
        ("SELECT k, COUNT(*) AS n, MAX(y) AS m FROM t GROUP BY k", "changelog"),
        ("SELECT k, COUNT(DISTINCT x) AS n FROM last_rows(t, 3) GROUP BY k", "update"),
        ("SELECT k, SUM(x) AS s FROM last_range(t, 4) GROUP BY k ORDER BY s DESC LIMIT 1", "changelog"),
        ("SELECT window.start, COUNT(*) AS n FROM t GROUP BY window(ts, 3)", None),
        ("SELECT session_window.start, k, COUNT(*) AS n FROM t GROUP BY session_window(ts, 2), k", None),
        ("SELECT window.start, COUNT(*) AS n FROM t GROUP BY window(ts, 3)", "changelog"),
        ("SELECT DISTINCT k FROM t", None),
        ("SELECT x FROM t ORDER BY x LIMIT 3", None),
        ("SELECT x FROM last_rows(t, 3)", "changelog"),
        ("SELECT x FROM t ORDER BY ts", None),
        ("SELECT x FROM t LIMIT 4", None),
    ]

    def made() -> wm.Processor:
        qp = processor()
        for number, (sql, emit) in enumerate(texts):
            qp.create(f"q{number}", sql, emit=emit)
        return qp

    old, new = made(), made()
    old.push(t=arrived(*FIRST))
    new.push()
    blocks = old._running.graph.blocks
    for key, block in new._running.graph.blocks.items():
        block.restore(blocks[key].snapshot())
    for pushed in (SECOND, [("a", 4, 14), ("d", None, 15)]):
        wanted, found = (qp.push(t=arrived(*pushed)) for qp in (old, new))
        for name in wanted:
            assert shown(found[name]) == shown(wanted[name]), name
    wanted, found = old.finish(), new.finish()
    assert {name: shown(one) for name, one in found.items()} == {
        name: shown(one) for name, one in wanted.items()
    }


# ---- the same text in DuckDB ------------------------------------------------------------------------------------

QUERIES = [
    "SELECT k, COUNT(*) AS n, COUNT(x) AS m, SUM(x) AS s, MIN(name) AS low, MAX(y) AS high FROM a GROUP BY k",
    "SELECT COUNT(*) AS n, COUNT(DISTINCT name) AS names, AVG(x) AS mean, MAX(f) AS most FROM a WHERE x > 0",
    "SELECT x + y AS s, COUNT(*) AS n FROM a GROUP BY x + y HAVING COUNT(*) > 1",
    "SELECT x % 2 AS odd, VAR_SAMP(y) AS v, STDDEV_POP(y) AS d, VAR_POP(x) AS p FROM a GROUP BY 1",
    "SELECT k, name, SUM(price) AS total, COUNT(*) FILTER (WHERE x > 1) AS some FROM a GROUP BY k, name",
    "SELECT SUM(x) * 2 - COUNT(*) AS z, COALESCE(MAX(y), 0) AS m FROM a WHERE k = 7",
    "SELECT DISTINCT k, name FROM a",
    "SELECT DISTINCT COUNT(*) AS n FROM a GROUP BY name",
    "SELECT a.k, COUNT(*) AS n, SUM(b.x) AS s FROM a JOIN b ON a.k = b.k AND a.x <= b.x GROUP BY a.k",
    "SELECT a.name, COUNT(b.id) AS n FROM a LEFT JOIN b ON a.x = b.x AND a.y < b.y GROUP BY a.name",
    "SELECT a.k, b.name, COUNT(*) AS n FROM a, b, c WHERE a.k = b.k AND b.x = c.x GROUP BY a.k, b.name",
    "SELECT z, COUNT(*) AS n FROM (SELECT x AS z FROM a UNION ALL SELECT k FROM b WHERE y > 0) GROUP BY z",
    "SELECT COUNT(*) AS n, SUM(d) AS s FROM (SELECT DISTINCT x * 2 AS d FROM a)",
    "WITH d AS (SELECT k, x * 2 AS double FROM a WHERE y > 0) SELECT k, MAX(double) AS m FROM d GROUP BY k HAVING MAX(double) > 2",
    "SELECT id, x FROM a ORDER BY x DESC NULLS LAST, id LIMIT 5",
    "SELECT name, COUNT(*) AS n FROM a GROUP BY name ORDER BY n DESC, name NULLS FIRST LIMIT 2",
    "SELECT id FROM a UNION ALL SELECT id FROM b ORDER BY id DESC LIMIT 7",
]  # fmt: skip


@pytest.mark.parametrize("sql", QUERIES)
def test_an_answer_is_that_of_the_sql_query_on_the_finished_data(sql: str) -> None:
    @examples(3)
    @given(
        st.integers(0, 2**32),
        st.lists(st.integers(1, 40), min_size=1, max_size=4),
        st.sampled_from(["complete", "changelog"]),
    )
    def holds(seed: int, sizes: list[int], emit: str) -> None:
        events = [event for event in rows(90, seed) if event[0] in "abc"]
        streams = {name: wm.Unbounded() for name in "abc"}
        qp = wm.Processor(windows=streams, schemas={name: SCHEMAS[name] for name in "abc"})
        qp.create("query", sql, emit=emit)
        results = [push(qp, part)["query"] for part in in_pushes(events, sizes)]
        results.append(qp.finish()["query"])
        with duckdb.connect() as connection:
            for name in "abc":
                connection.register(name, pa.Table.from_batches([batch(events, name)]))
            wanted = connection.execute(sql).fetchall()
        assert found(results, emit) == Counter(map(rounded, wanted))

    def found(results: Sequence[wm.Result], emit: str) -> Counter[Row]:
        if emit == "complete":
            return Counter(map(rounded, shown(results[-1])))
        told: Counter[Row] = Counter()
        for result in results:
            for *row, operation in shown(result):
                told[rounded(row)] += operation
        return Counter({row: count for row, count in told.items() if count})

    def rounded(row: Sequence[Any]) -> Row:
        return plain([float(one) if isinstance(one, int | float) and one is not True else one for one in row])

    holds()
