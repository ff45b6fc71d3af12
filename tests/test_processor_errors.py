"""What a Processor refuses, by its text; a refused statement changes nothing."""

import contextlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples
from refusals import place_of, refused_alike

SCHEMA = {"k": pa.int64(), "x": pa.int64(), "sym": pa.string(), "ts": pa.timestamp("us")}
NOT = "a query must be made of what is supported; got {}, which is not; {}"
LATER = "do it with the rows that the query gives"
WINDOWLESS = (
    "a query that is joined must have a window, as its streams have, or all of its rows would be kept; got {0!r} without; write WITH {0} "
    "AS (...) and, in FROM, last_rows({0}, 100), last_range({0}, INTERVAL 1 MINUTE) or unbounded({0}), or give windows={{{0!r}: ...}}"
)


def processor() -> wm.Processor:
    return wm.Processor(
        t=wm.Range("10 s"),
        q=wm.Rows(10),
        u=wm.Unbounded(),
        schemas={name: pa.schema(SCHEMA) for name in "tqu"},
    )


# The text, what is said of it, and what is underlined.
REFUSED = [
    (
        "SELECT row_number() OVER (ORDER BY k) FROM t",
        NOT.format("a window function", f"select the columns, and {LATER}"),
        "row_number() OVER (ORDER BY k)",
    ),
    (
        "SELECT (SELECT k FROM q) FROM t",
        NOT.format("a subquery in an expression", "join it in FROM; for IN write LEFT SEMI JOIN"),
        "k FROM q",
    ),
    (
        "SELECT k FROM t WHERE k IN (SELECT k FROM q)",
        NOT.format("a subquery in an expression", "join it in FROM; for IN write LEFT SEMI JOIN"),
        "k FROM q",
    ),
    (
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM q)",
        NOT.format("EXISTS", "write LEFT SEMI JOIN, or LEFT ANTI JOIN for NOT EXISTS"),
        "1 FROM q",
    ),
    ("SELECT k FROM t UNION SELECT k FROM q", NOT.format("UNION", "write UNION ALL"), "UNION"),
    ("SELECT k FROM t INTERSECT SELECT k FROM q", NOT.format("INTERSECT", "write SELECT ... FROM ..., with UNION ALL"), "INTERSECT"),
    ("SELECT t.k FROM t JOIN q USING (k)", NOT.format("USING", "write ON a.k = b.k"), "USING (k)"),
    ("SELECT t.k FROM t NATURAL JOIN q", NOT.format("NATURAL JOIN", "write JOIN ... ON ..."), "NATURAL"),
    (
        "SELECT t.k FROM t JOIN (q JOIN u ON q.k = u.k) ON t.k = q.k",
        NOT.format("a join in brackets", "write FROM a JOIN b ON ... JOIN c ON ..., without brackets"),
        "q JOIN u ON q.k = u.k",
    ),
    ("SELECT k FROM t TABLESAMPLE (10 PERCENT)", NOT.format("TABLESAMPLE", "write a condition in WHERE"), "TABLESAMPLE (10 PERCENT)"),
    ("SELECT a FROM t AS d(a, b, c, e)", NOT.format("a name in FROM with 'columns'", "leave that out"), "a, b, c, e"),
    ("SELECT k FROM db.t", NOT.format("a stream in FROM with 'db'", "leave that out"), "db"),
    ("SELECT k FROM 't'", NOT.format("a text in FROM", "write t, or `t`"), "'t'"),
    ("WITH RECURSIVE r AS (SELECT k FROM t) SELECT k FROM r", NOT.format("WITH RECURSIVE", "write WITH"), "RECURSIVE"),
    (
        "SELECT t.k FROM t LEFT JOIN q ON t.k = q.k JOIN u ON u.k = q.k",
        "a LEFT JOIN must be of two inputs; got 3; write WITH d AS (SELECT ... JOIN ...), and join d with the next one",
        "q",
    ),
    (
        "SELECT t.k FROM t JOIN (SELECT q.k FROM q JOIN u ON q.k = u.k) d ON t.k = d.k",
        WINDOWLESS.format("d"),
        "q.k FROM q JOIN u ON q.k = u.k) d",
    ),
    (
        "SELECT t.k FROM t JOIN (SELECT k FROM q UNION ALL SELECT k FROM u) d ON t.k = d.k",
        WINDOWLESS.format("d"),
        "k FROM q UNION ALL SELECT k FROM u) d",
    ),
    (
        "SELECT t.k FROM last_rows(t) JOIN q ON t.k = q.k",
        "last_rows must be written last_rows(s, 100), with a stream; got last_rows(t); write it so",
        "last_rows(t)",
    ),
    (
        "SELECT t.k FROM last_rows(t, 0) t JOIN q ON t.k = q.k",
        "last_rows must have a number of rows, as in last_rows(s, 100); got last_rows(t, 0); write it so",
        "last_rows(t, 0)",
    ),
    (
        "SELECT t.k FROM last_range(t, INTERVAL 1 MONTH) t JOIN q ON t.k = q.k",
        "last_range must have an INTERVAL of days or less, as in last_range(s, INTERVAL 1 MINUTE); got last_range(t, "
        "INTERVAL 1 MONTH); write it so",
        "last_range(t, INTERVAL 1 MONTH)",
    ),
    (
        "SELECT t.k FROM t JOIN last_range(q, INTERVAL 1 DAY) ON t.k = q.k",
        "last_range must be of a stream whose own window is a Range, which says where its times are; got 'q' with "
        "Rows(n=10); give the query windows={'q': Range(..., time=...)}",
        "last_range(q, INTERVAL 1 DAY)",
    ),
    (
        "SELECT t.k FROM first_rows(t, 1) t JOIN q ON t.k = q.k",
        "a function in FROM must be one of last_rows, last_range, unbounded; got first_rows; use one of them",
        "first_rows(t, 1)",
    ),
    (
        "SELECT t.k FROM unbounded(d) t JOIN q ON t.k = q.k",
        "unbounded must be of a stream: a stream must be one of t, q, u; got 'd'; correct the name",
        "d",
    ),
    ("SELECT k FROM trades", "a stream must be one of t, q, u; got 'trades'; correct the name", "trades"),
    ("SELECT t.k, q.y FROM t JOIN q ON t.k = q.k", "a column must be one of q.k, q.x, q.sym, q.ts; got 'y'; correct the name", "q.y"),
    ("SELECT x FROM t JOIN q ON t.k = q.k", "a column name must be of one stream; got 'x', which several have; write t.x or q.x", "x"),
    ("SELECT q.k FROM t ANTI JOIN q ON t.k = q.k", "a stream must be one of t; got 'q'; correct the name", "q.k"),
    ("SELECT t.k FROM t JOIN q ON u.k = 1 JOIN u ON u.k = q.k", "a stream must be one of t, q; got 'u'; correct the name", "u.k"),
    ("SELECT t.k FROM t, q t", "a name in FROM must stand for one input; got 't' twice; write t AS another_name", "q t"),
    ("SELECT k FROM t WHERE x", "'x' must be true or false; got t.x (int64); compare it, or CAST it AS BOOLEAN", "x"),
    (
        "SELECT k FROM t UNION ALL SELECT k, x FROM q",
        "the parts of a UNION ALL must have as many columns as each other; got 1 and 2; add NULL AS name where one is missing",
        "k, x FROM q",
    ),
    (
        "SELECT k FROM t UNION ALL SELECT sym FROM q",
        "the parts of a UNION ALL must have columns of types that go together; got int64 and string for 'k'; CAST one",
        "sym FROM q",
    ),
    (
        f"SELECT s0.k FROM {', '.join(f't s{n}' for n in range(33))}",
        "a join must have at most 32 streams; got 33; use fewer",
        "t s32",
    ),
    ("SELECT 1", "a query must have FROM; got none; name a stream in FROM", "1"),
    ("SELECT k FROM", "a query must be valid SQL; got an unexpected 'FROM'; correct the text here", "FROM"),
    ("SELECT FROM t", "a query must select columns; got none; write SELECT *", "SELECT"),
    *(
        (sql, f"a query must be valid SQL; got an unexpected {mark!r}; correct the text here", mark)
        for sql, mark in [
            ("SELECT k FROM t ?", "?"), ("SELECT k FROM t @v", "@"), ("SELECT k, FROM t", ","), ("SELECT , k FROM t", ","),
            ("FROM t", "FROM"), ("SELECT k FROM .t", "."), ("SELECT t.k FROM t LEFT JOIN q ON", "ON"),
            ("SELECT t.k FROM t *, q WHERE t.k = q.k", "*"), ("SELECT AS k FROM t", "AS"),
            ("SELECT t.k FROM t, LEFT JOIN q ON t.k = q.k", ","),
            ("SELECT + * FROM t", "+"), ("SELECT t.k FROM t, q, WHERE t.k = q.k", ","), ("SELECT k :p FROM t", ":"),
        ]
    ),
    ("DROP QUERY a", "a query must be one SELECT; got another statement, or several; statements are for execute()", "DROP QUERY a"),
    (
        "SELECT k FROM t; SELECT k FROM q",
        "a query must be one SELECT; got another statement, or several; statements are for execute()",
        "SELECT k FROM t; SELECT k FROM q",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "said", "underlined"), REFUSED, ids=[sql for sql, _, _ in REFUSED])
def test_a_text_is_refused_with_its_place_and_nothing_is_changed(
    sql: str, said: str, underlined: str
) -> None:
    text = refused_alike(processor(), "SELECT k FROM t", sql)
    assert place_of(text) == (said, underlined)


def test_whatever_is_written_is_taken_or_refused_by_our_own_error() -> None:
    words = """SELECT FROM WHERE JOIN LEFT FULL SEMI ANTI CROSS ON AND OR NOT UNION ALL WITH AS ( ) , * t q u t.k q.k x sym = < + 1 'a'
    last_rows last_range unbounded INTERVAL MINUTE DISTINCT GROUP BY ORDER LIMIT count EXISTS IN IS NULL CASE END a . ; t.* EXCEPT VALUES
    LATERAL USING NATURAL OUTER INSERT `x` "y" OVER window PIVOT CAST INT ? : { [ -> :: -- /*""".split()  # noqa: SIM905
    texts = [
        "SELECT t.k , q.x FROM t JOIN q ON t.k = q.k WHERE t.x > 1", "SELECT * FROM t", "SELECT k FROM t UNION ALL SELECT k FROM q",
        "WITH a AS ( SELECT k FROM t ) SELECT a.k FROM a LEFT JOIN q ON a.k = q.k",
        "SELECT d.k FROM ( SELECT k , x + 1 AS y FROM last_rows ( t , 5 ) ) d , last_range ( t , INTERVAL 1 MINUTE ) e WHERE d.k = e.k",
    ]  # fmt: skip

    @examples(150)
    @given(
        st.sampled_from(texts),
        st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.sampled_from(words)), max_size=4),
    )
    def holds(text: str, changes: list[tuple[int, bool, str]]) -> None:
        changed = text.split()
        for place, instead, word in changes:
            changed[place : place + instead] = [word]
        qp = processor()
        with contextlib.suppress(wm.WatersmeetError):
            qp.create("q", " ".join(changed))

    holds()


STATEMENT = "a statement must be CREATE QUERY name AS SELECT ..., ALTER QUERY name AS SELECT ... or DROP QUERY name; got "


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda qp: qp.execute("CREATE VIEW v AS SELECT k FROM t"),
            f"{STATEMENT}CREATE VIEW v AS; write it so",
        ),
        (lambda qp: qp.execute("DROP QUERY"), f"{STATEMENT}DROP QUERY; write it so"),
        (lambda qp: qp.execute(" ; "), f"{STATEMENT}an empty text; write one"),
        (
            lambda qp: qp.execute("CREATE QUERY a AS SELECT 'k"),
            "a statement must be valid SQL; got a quote or comment",
        ),
        (lambda qp: qp.execute(5), "statements must be SQL text; got 5"),
        (lambda qp: qp.drop("nobody"), "drop must name a query that is there: 'kept'; got 'nobody'"),
        (
            lambda qp: qp.create("kept", "SELECT k FROM t"),
            "the name of a new query must be free; got 'kept', which is there; alter it, or",
        ),
        (lambda qp: qp.create("", "SELECT k FROM t"), "the name of a query must be a text; got ''"),
        (lambda qp: qp.create("new", 7), "a query must be SQL text; got 7"),
        (
            lambda qp: qp.create("new", " "),
            "a query must be SQL text; got an empty text; write SELECT ... FROM ...",
        ),
        (
            lambda qp: qp.create("new", "SELECT k FROM t", start="hot"),
            "start= must be 'now' or 'warm'; got 'hot'",
        ),
        (
            lambda qp: qp.create("new", "SELECT k FROM t", windows={"q": wm.Rows(1)}),
            "windows= must name streams that the query joins",
        ),
        (
            lambda qp: qp.create("new", "SELECT k FROM t", windows={"t": 5}),
            "windows= must be a dict from a name in FROM to a window",
        ),
        (
            lambda qp: qp.create(
                "new", "SELECT t.k FROM last_rows(t, 1) JOIN q ON t.k = q.k", windows={"t": wm.Rows(1)}
            ),
            "a window must be given once; got last_rows and windows={'t': ...}; leave one out",
        ),
        (
            lambda qp: qp.create(
                "new", "SELECT t.k FROM t JOIN q ON t.k = q.k", windows={"q": wm.Range("1 s", time="when")}
            ),
            "the time column 'when' of stream 'q' must be one of its columns: k, x, sym, ts",
        ),
        (lambda qp: qp.push(trades=[]), "push() takes the streams 't', 'q' and 'u'; got 'trades'"),
        (
            lambda qp: qp.push([{"k": 1}]),
            "push() takes batches by stream, such as push(t=batch) or push({'t': batch}); got list",
        ),
        (
            lambda qp: qp.push(t=[{"k": 1}]),
            "batches of stream 't' must have the columns k, x, sym, ts; missing: x, sym, ts",
        ),
        (lambda qp: wm.Processor(), "a Processor must have one to 100 streams, each with its window"),
        (
            lambda qp: wm.Processor(t=wm.Rows(1), core=2),
            "Processor has no option 'core'; did you mean 'cores'?",
        ),
        (
            lambda qp: wm.Processor(t=wm.Rows(1), cores=0),
            "cores= must be a whole number of at least 1; got 0",
        ),
        (
            lambda qp: wm.Processor(t=wm.Rows(1), schemas={"q": {}}),
            "schemas= must name the streams 't'; got 'q'",
        ),
        (
            lambda qp: wm.Processor(t=wm.Range(1), schemas={"t": {"k": pa.int64()}}),
            "the time column 'ts' of stream 't' must be one of its columns: k",
        ),
    ],
)
def test_a_call_is_refused_and_nothing_is_changed(call: Any, said: str) -> None:
    qp = processor()
    qp.create("kept", "SELECT k FROM t")
    before = qp.explain()
    with pytest.raises(wm.WatersmeetError) as caught:
        call(qp)
    assert str(caught.value).startswith(said)
    assert qp.explain() == before
    assert list(qp.push(q={"k": [1], "x": [1], "sym": ["a"], "ts": [None]})) == ["kept"]
