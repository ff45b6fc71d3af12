"""What is refused of aggregates, order and emit modes, by its text; a refused statement changes nothing."""

import pyarrow as pa
import pytest

import watersmeet as wm
from refusals import place_of, refused_alike
from test_processor_errors import NOT, WINDOWLESS, processor

KINDS = "COUNT, COUNT_IF, SUM, AVG, MIN, MAX, VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP, FIRST, LAST, MIN_BY, MAX_BY"
HERE = "write it in SELECT, HAVING or ORDER BY, and not inside of another"
# The text, what is said of it, and what is underlined.
REFUSED = [
    (
        "SELECT approx_count_distinct(x) FROM t",
        f"an aggregate must be one of {KINDS} (what is here is exact); got APPROX_COUNT_DISTINCT; use one of them",
        "approx_count_distinct(x)",
    ),
    ("SELECT median(x) FROM t", f"an aggregate must be one of {KINDS}; got MEDIAN; use one of them", "median(x)"),
    ("SELECT any_value(x) FROM t", f"an aggregate must be one of {KINDS}; got ANY_VALUE; use one of them", "any_value(x)"),
    ("SELECT SUM(SUM(x)) FROM t", NOT.format("an aggregate here", HERE), "SUM(x)"),
    ("SELECT k FROM t WHERE COUNT(*) > 1", NOT.format("an aggregate here", HERE), "COUNT(*)"),
    ("SELECT t.k FROM t JOIN q ON SUM(t.k) = q.k", NOT.format("an aggregate here", HERE), "SUM(t.k)"),
    ("SELECT k FROM t GROUP BY MAX(k)", NOT.format("an aggregate here", HERE), "MAX(k)"),
    (
        "SELECT COUNT(*) AS n FROM t GROUP BY n",
        "GROUP BY must be of rows; got the aggregate COUNT(*); group by columns",
        "COUNT(*)",
    ),
    (
        "SELECT k, COUNT(*) FROM t GROUP BY 2",
        "GROUP BY must be of rows; got the aggregate COUNT(*); group by columns",
        "COUNT(*)",
    ),
    (
        "SELECT k FROM t GROUP BY 3",
        "a place in the select list must be from 1 to 1; got 3; correct it, or name the column",
        "3",
    ),
    (
        "SELECT k FROM t ORDER BY 0",
        "a place in the select list must be from 1 to 1; got 0; correct it, or name the column",
        "0",
    ),
    (
        "SELECT k, x FROM t GROUP BY k",
        "a column over groups must be in GROUP BY, or inside an aggregate; got 'x'; add it to GROUP BY, or write MAX(x) or FIRST(x)",
        "x",
    ),
    (
        "SELECT k FROM t GROUP BY k HAVING x > 1",
        "a column over groups must be in GROUP BY, or inside an aggregate; got 'x'; add it to GROUP BY, or write MAX(x) or FIRST(x)",
        "x",
    ),
    (
        "SELECT COUNT(*) FROM t ORDER BY sym",
        "a column over groups must be in GROUP BY, or inside an aggregate; got 'sym'; add it to GROUP BY, or write MAX(sym) "
        "or FIRST(sym)",
        "sym",
    ),
    ("SELECT * FROM t GROUP BY k", "a query of groups must name what it selects; got *; list the columns of GROUP BY", "*"),
    ("SELECT y FROM t GROUP BY k", "a column must be one of t.k, t.x, t.sym, t.ts; got 'y'; correct the name", "y"),
    ("SELECT k, SUM(x) AS k FROM t GROUP BY k", "a select list must give each column its own name; got 'k' twice; use AS", "SUM(x) AS k"),
    (
        "SELECT SUM(sym) FROM t",
        "SUM(sym) must be of numbers; got string; CAST it",
        "SUM(sym)",
    ),
    (
        "SELECT MAX_BY(x, sym) FROM t",
        "MAX_BY(x, sym) must be of a number or a time to go by; got string; CAST it",
        "MAX_BY(x, sym)",
    ),
    (
        "SELECT window FROM t GROUP BY window(ts, '1 s')",
        "a window must be taken by its ends; got window; write window.start, window.end",
        "window",
    ),
    (
        "SELECT SUM(DISTINCT x) FROM t",
        "DISTINCT must be in COUNT, MIN or MAX, of one expression; got SUM(DISTINCT x); select DISTINCT columns, and push them into a "
        "stream of their own",
        "SUM(DISTINCT x)",
    ),
    (
        "SELECT APPROX_PERCENTILE(x, 0.5) FROM t",
        f"an aggregate must be one of {KINDS} (what is here is exact); got PERCENTILE_APPROX; use one of them",
        "x, 0.5",
    ),
    ("SELECT MAX(k, x) FROM t", "an aggregate must have one argument; got MAX(k, x); write an aggregate for each", "MAX(k, x)"),
    ("SELECT COUNT(k, x) FROM t", "an aggregate must have one argument; got COUNT(k, x); write an aggregate for each", "COUNT(k, x)"),
    ("SELECT SUM(*) FROM t", "only COUNT is of *; got SUM(*); name a column", "SUM(*)"),
    (
        "SELECT SUM(x) IGNORE NULLS FROM t",
        "IGNORE NULLS must be of FIRST or LAST; got SUM(x); leave it out: others pass over NULL",
        "SUM(x)",
    ),
    ("SELECT k FROM t GROUP BY ALL", NOT.format("GROUP BY ALL", "name the columns"), "GROUP BY"),
    ("SELECT k FROM t GROUP BY ROLLUP(k)", NOT.format("ROLLUP", "make a query for each"), "k"),
    ("SELECT k FROM t LIMIT x", "LIMIT must be a number of rows; got LIMIT x; write LIMIT 10", "LIMIT x"),
    ("SELECT k FROM t SORT BY k", NOT.format("SORT BY", "write ORDER BY"), "SORT BY k"),
    ("SELECT DISTINCT ON (k) k FROM t", NOT.format("DISTINCT with 'on'", "leave that out"), "ON (k)"),
    (
        "SELECT window(ts, '1 m') FROM t",
        NOT.format("window() here", "write it in GROUP BY, and window.start and window.end elsewhere"),
        "window(ts, '1 m')",
    ),
    (
        "SELECT window(ts, '1 second').start FROM t GROUP BY window(ts, '2 seconds')",
        NOT.format("window() here", "write it in GROUP BY, and window.start and window.end elsewhere"),
        "window(ts, '1 second')",
    ),
    (
        "SELECT window(ts, '1 second').begin FROM t GROUP BY window(ts, '1 second')",
        "a window must be taken by its ends; got window(ts, '1 second').begin; write window.start, window.end",
        "window(ts, '1 second').begin",
    ),
    (
        "SELECT k FROM t GROUP BY window(ts, 'a while')",
        "window must be written window(ts, '10 seconds') or window(ts, '10 seconds', '5 seconds'); got window(ts, 'a while'); write it so",
        "window(ts, 'a while')",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY session_window(ts, '1 s', '2 s')",
        "session_window must be written session_window(ts, '5 minutes'); got session_window(ts, '1 s', '2 s'); write it so",
        "session_window(ts, '1 s', '2 s')",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY window(ts, '1 second', '2 seconds')",
        "a window must be as long as its slide, or longer; got window(ts, '1 second', '2 seconds'); correct it",
        "window(ts, '1 second', '2 seconds')",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY window(ts, 5)",
        "the lengths of window must be positive, in whole us; got window(ts, 5); correct them",
        "window(ts, 5)",
    ),
    (
        "SELECT COUNT(*) FROM q GROUP BY window(ts, '5 seconds')",
        "window must be over the time column of a stream whose own window is a Range, which says how late rows may be; got ts; name that "
        "column, or give the stream a Range",
        "ts",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY window(x, '5 seconds')",
        "window must be over the time column of a stream whose own window is a Range, which says how late rows may be; got x; name that "
        "column, or give the stream a Range",
        "x",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY window(ts, '5 seconds'), session_window(ts, '5 seconds')",
        "a query must have one window of event time; got session_window(ts, '5 seconds') too; make two queries",
        "session_window(ts, '5 seconds')",
    ),
    (
        "SELECT COUNT(*) FROM last_rows(t, 5) GROUP BY window(ts, '5 seconds')",
        "a query must have one window; got window and one in FROM; leave one out",
        "window(ts, '5 seconds')",
    ),
    (
        "SELECT n FROM (SELECT COUNT(*) AS n FROM t)",
        "a query inside of another must give rows that stay; got an aggregate whose rows change; write GROUP BY window(ts, ...), or make "
        "it a query of its own",
        "COUNT(*) AS n FROM t",
    ),
    (
        "SELECT x FROM (SELECT x FROM t ORDER BY x LIMIT 5)",
        "a query inside of another must have no order; got ORDER BY x LIMIT 5; write it at the end of the outer one",
        "ORDER BY x LIMIT 5",
    ),
    (
        "SELECT x FROM (SELECT DISTINCT x FROM last_rows(t, 5))",
        "a window must be of a stream that is joined, or of an answer that changes; got last_rows around one that is not; leave it out: "
        "every row comes out once, as it arrives",
        "last_rows(t, 5)",
    ),
    (
        "WITH d AS (SELECT x FROM t) SELECT COUNT(*) FROM last_range(d, INTERVAL 1 SECOND)",
        "last_range of a query must have one stream under it, with a Range as its own window, and that one's time column among its "
        "columns; got 'd' without; select the time column, or write last_rows",
        "last_range(d, INTERVAL 1 SECOND)",
    ),
    (
        "WITH d AS (SELECT k, ts FROM last_rows(t, 3)) SELECT q.k FROM q JOIN last_rows(d, 5) ON q.k = d.k",
        "a window must be of a stream that is joined, or of an answer that changes; got last_rows around one that is not; leave it out: "
        "every row comes out once, as it arrives",
        "last_rows(t, 3)",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT x FROM last_rows(t, 5) UNION ALL SELECT x FROM q)",
        "a window must be of all rows; got last_rows of a part of a UNION ALL; write WITH d AS (SELECT ... UNION ALL ...) SELECT ... FROM "
        "last_rows(d, 100)",
        "last_rows(t, 5)",
    ),
    (
        "SELECT DISTINCT k FROM t ORDER BY x",
        "ORDER BY of SELECT DISTINCT must be by what is selected; got something else; select it too",
        "ORDER BY x",
    ),
    (
        "SELECT t.k FROM t JOIN (SELECT DISTINCT k FROM q) d ON t.k = d.k",
        WINDOWLESS.format("d"),
        "k FROM q) d",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "said", "underlined"), REFUSED, ids=[sql for sql, _, _ in REFUSED])
def test_a_text_is_refused_with_its_place_and_nothing_is_changed(
    sql: str, said: str, underlined: str
) -> None:
    text = refused_alike(processor(), "SELECT k, COUNT(*) AS n FROM t GROUP BY k", sql)
    assert place_of(text) == (said, underlined)


CHANGES = "use emit='update', 'complete' or 'changelog', or GROUP BY window(ts, ...)"
# The text, emit=, and what is said of them together.
EMITS = [
    ("SELECT k FROM t", "whole", "emit= must be one of 'append', 'update', 'complete', 'changelog'; got 'whole'"),
    (
        "SELECT COUNT(*) FROM t",
        "append",
        f"emit='append' must be of rows that stay; got an answer that changes; {CHANGES}",
    ),
    (
        "SELECT DISTINCT k FROM last_rows(t, 5)",
        "append",
        f"emit='append' must be of rows that stay; got an answer that changes; {CHANGES}",
    ),
    (
        "SELECT k FROM t",
        "update",
        "emit='update' must be of groups, which change; got a query whose rows only come; use emit='append'",
    ),
    (
        "SELECT k FROM last_rows(t, 5)",
        "update",
        "emit='update' must be of groups; got a query of rows; use emit='complete' or emit='changelog'",
    ),
    (
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY n LIMIT 3",
        "update",
        "emit='update' must be of groups, one by one; got ORDER BY n LIMIT 3; leave it out, or use emit='complete' or 'changelog'",
    ),
    (
        "SELECT DISTINCT COUNT(*) AS n FROM t GROUP BY k",
        "update",
        "emit='update' must be of groups, one by one; got DISTINCT; leave it out, or use emit='complete' or 'changelog'",
    ),
    (
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY n",
        "changelog",
        "emit='changelog' must go without an order; got ORDER BY n; leave it out, add LIMIT, or use emit='complete'",
    ),
    (
        "SELECT COUNT(*) AS operation FROM t",
        "changelog",
        "emit='changelog' adds a column 'operation'; got one of that name in the select list; write AS another_name",
    ),
    (
        "SELECT COUNT(*) AS n FROM t GROUP BY window(ts, '1 second')",
        "complete",
        "emit='complete' must be of an answer that stays small and keeps its groups; got windows of event time, of which there are ever "
        "more; use emit='append'",
    ),
    (
        "SELECT COUNT(*) AS n FROM t GROUP BY session_window(ts, '1 second')",
        "update",
        "emit='update' must be of an answer that stays small and keeps its groups; got sessions; use emit='append'",
    ),
    (
        "SELECT COUNT(*) AS n FROM t GROUP BY window(ts, '1 second') LIMIT 3",
        "changelog",
        "emit='changelog' of windows of event time must go without an order; got LIMIT 3; leave it out, or use emit='append'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "emit", "said"), EMITS, ids=[f"{emit}: {sql}" for sql, emit, _ in EMITS])
def test_what_cannot_be_given_so_is_refused(sql: str, emit: str, said: str) -> None:
    assert refused_alike(processor(), "SELECT k FROM t", sql, wm.OptionError, emit=emit) == said


def test_a_window_over_rows_that_only_come_is_refused_where_they_are_appended() -> None:
    with pytest.raises(
        wm.ConditionError, match="a window must be of a stream that is joined, or of an answer"
    ):
        processor().create("q", "SELECT k FROM last_rows(t, 5)", emit="append")


def test_an_answer_has_no_arrival_numbers() -> None:
    qp = processor()
    qp.create("n", "SELECT COUNT(*) AS n FROM t")
    result = qp.push()["n"]
    with pytest.raises(wm.ResultError) as caught:
        result.numbers()
    assert str(caught.value) == (
        "arrival numbers must be of rows of streams; got an answer, whose rows are made of many; select what you need of them"
    )


def test_columns_that_cannot_be_compared_are_not_sorted_or_told_apart() -> None:
    qp = wm.Processor(t=wm.Rows(5), schemas={"t": {"k": pa.int64(), "some": pa.list_(pa.int64())}})
    kinds = "numbers, booleans, texts, binary, dates, times or timestamps"
    for sql, said in {
        "SELECT k FROM t ORDER BY some LIMIT 1": f"ORDER BY must be by {kinds}; got list<item: int64>; CAST it, or leave it out",
        "SELECT DISTINCT some FROM t": f"groups must be by {kinds}; got list<item: int64>; CAST it",
        "SELECT MAX(some) AS m FROM t": "MAX(some) must be of numbers, texts, booleans, dates or times; got list<item: int64>; CAST it",
    }.items():
        with pytest.raises(wm.ConditionError) as caught:
            qp.create("q", sql)
        assert str(caught.value).split("\n")[0] == said
    with pytest.raises(wm.OptionError) as refused:
        qp.create("q", "SELECT some FROM last_rows(t, 2)", emit="changelog")
    assert str(refused.value) == (
        f"emit='changelog' must be of columns that can be compared: {kinds}; got 'some', list<item: int64>; leave it out, or use "
        "emit='complete'"
    )
    qp.create("q", "SELECT some FROM last_rows(t, 2)")
