"""Joins of derived streams by example: what is refused, what is shared, who is stopped, and how it looks."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from refusals import place_of, refused_alike
from test_processor_errors import WINDOWLESS
from test_processor_errors import processor as refusing
from test_processor_state import again
from watersmeet.contract import PLAN, STATS, check
from watersmeet.query.join_of import JoinOfBlock

SCHEMA = {"k": pa.int64(), "x": pa.int64(), "ts": pa.int64()}
PAIRS = "WITH d AS (SELECT a.k, b.x, a.ts FROM a JOIN b ON a.k = b.k) "


def processor(**options: Any) -> wm.Processor:
    windows = dict.fromkeys("abc", wm.Range(5, time="ts"))
    return wm.Processor(windows=windows, schemas=dict.fromkeys("abc", SCHEMA), **options)


def rows(*some: tuple[int, int, int]) -> dict[str, list[int]]:
    return {name: [row[at] for row in some] for at, name in enumerate(SCHEMA)}


def shown(result: wm.Result) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in result.to_arrow().to_pylist())


# ---- what is refused ------------------------------------------------------------------------------------------------

# t has a Range of timestamps, q counts rows, u has no end.
TIMES = "last_range of a query must have one time that has a watermark among the query's columns; got {}"
PLACES = (
    "a join in which last rows are counted must be of rows that come at a known place; got {!r} with {}, which come somewhere within a "
    "push; give all inputs last_range, or all unbounded"
)
MIXED = (
    "a join with a query in it must have windows of time for all inputs, or for none; got {!r} with {} and {!r} with {}; give both "
    "last_range, or both last_rows or unbounded"
)
RANGE = "Range(duration='10 s', time='ts', lateness=0)"
REFUSED = [
    ("WITH d AS (SELECT t.k FROM t, u) SELECT u.k FROM d JOIN u ON d.k = u.k", WINDOWLESS.format("d"), "d"),
    (
        "WITH d AS (SELECT t.k, t.x FROM t, u) SELECT t.k FROM last_range(d, INTERVAL 1 SECOND) JOIN t ON d.k = t.k",
        TIMES.format("none; select one, or write last_rows"),
        "last_range(d, INTERVAL 1 SECOND)",
    ),
    (
        "WITH d AS (SELECT s.ts AS one, t.ts AS two FROM t, t s) SELECT k FROM last_range(d, INTERVAL 1 SECOND) JOIN t ON d.one < t.ts",
        TIMES.format("several: one and two; name one with windows={'d': Range(..., time='one')}"),
        "last_range(d, INTERVAL 1 SECOND)",
    ),
    (
        "WITH d AS (SELECT s.k, t.ts FROM t s LEFT JOIN t ON s.k = t.k) SELECT t.k FROM last_range(d, INTERVAL 1 DAY) JOIN t ON d.k = t.k",
        TIMES.format(
            "none (ts: which is NULL where a row has no partner; name the time of the other side); select one, or write last_rows"
        ),
        "last_range(d, INTERVAL 1 DAY)",
    ),
    (
        "WITH d AS (SELECT u.k, t.ts FROM unbounded(t) t, u) SELECT t.k FROM last_range(d, INTERVAL 1 DAY) JOIN t ON d.k = t.k",
        TIMES.format(
            "none (ts: of 't', which is in the join with Unbounded(): rows of any age may come out; give it a Range there); select one, or "
            "write last_rows"
        ),
        "last_range(d, INTERVAL 1 DAY)",
    ),
    (
        "WITH d AS (SELECT s.k, t.ts FROM t s JOIN t ON s.k = t.k) SELECT u.k FROM last_range(d, INTERVAL 1 DAY) JOIN u ON d.k = u.k",
        MIXED.format("d", "Range(duration='1 d', time='ts', lateness=0)", "u", "Unbounded()"),
        "u",
    ),
    (
        "WITH d AS (SELECT s.k, t.ts FROM t s JOIN t ON s.k = t.k) SELECT t.k FROM last_rows(d, 3) JOIN t ON d.k = t.k",
        MIXED.format("t", RANGE, "d", "Rows(n=3)"),
        "last_rows(d, 3)",
    ),
    (
        "WITH d AS (SELECT t.k FROM t LEFT JOIN u ON t.k = u.k) SELECT u.k FROM last_rows(d, 3) JOIN u ON d.k = u.k",
        PLACES.format("d", "rows without a partner"),
        "last_rows(d, 3)",
    ),
    (
        "WITH d AS (SELECT u.k FROM u SEMI JOIN q ON q.k = u.k), e AS (SELECT DISTINCT k FROM d) SELECT q.k FROM unbounded(e), q",
        PLACES.format("e", "rows of a SEMI JOIN"),
        "unbounded(e)",
    ),
    (
        "WITH d AS (SELECT k, window.end AS ts FROM t GROUP BY k, window(ts, '1 second')) SELECT q.k FROM unbounded(d), q WHERE d.k = q.k",
        PLACES.format("d", "windows of event time"),
        "unbounded(d)",
    ),
    (
        "WITH d AS (SELECT k FROM q UNION ALL SELECT k FROM last_rows(u, 3)) SELECT q.k FROM last_rows(d, 3), q WHERE d.k = q.k",
        "a window must be of a stream that is joined, or of an answer that changes; got last_rows around one that is not; leave it out: "
        "every row comes out once, as it arrives",
        "last_rows(u, 3)",
    ),
    (
        "WITH d AS (SELECT k, COUNT(*) AS n FROM q GROUP BY k) SELECT q.k FROM last_rows(d, 3), q WHERE d.k = q.k",
        "a query inside of another must give rows that stay; got an aggregate whose rows change; write GROUP BY window(ts, ...), or make "
        "it a query of its own",
        "k, COUNT(*) AS n FROM q GROUP BY k",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT d.ts FROM (SELECT s.k, t.ts FROM unbounded(t) s, unbounded(t) t) d JOIN u ON d.k = u.k) "
        "GROUP BY window(ts, '1 second')",
        "window must be over a time that has a watermark; got ts, of 't', which is in the join with Unbounded(): rows of any age may come "
        "out; give it a Range there",
        "ts",
    ),
    (
        "WITH d AS (SELECT s.k, t.ts FROM t s, t WHERE s.k = t.k) SELECT COUNT(*) AS n FROM unbounded(d) d JOIN u ON d.k = u.k "
        "GROUP BY window(d.ts, '1 second')",
        "window must be over a time that has a watermark; got d.ts, which is in the join with Unbounded(): rows of any age may come out; "
        "give it last_range there",
        "d.ts",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "said", "underlined"), REFUSED, ids=[sql for sql, _, _ in REFUSED])
def test_a_text_is_refused_with_its_place_and_nothing_is_changed(
    sql: str, said: str, underlined: str
) -> None:
    text = refused_alike(refusing(), "SELECT k FROM t", sql)
    assert place_of(text) == (said, underlined)


JOINED = PAIRS + "SELECT d.k FROM d JOIN c ON d.k = c.k"


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (
            wm.Range(5, time="x"),
            "windows= of a query in FROM must be by a time that has a watermark: ts; got 'x' of 'd'; name another, or give it Rows(n)",
        ),
        (
            wm.Range(5, time="ts", lateness=1),
            "windows= of a query in FROM must have no lateness, as rows that are made here are never late; got 1 of 'd'; leave it out",
        ),
        (
            wm.Range("5 s", time="ts"),
            "the duration of stream 'd' must be a number, as its time column is numeric; got '5 s'; give it in the unit of the column",
        ),
    ],
)
def test_windows_of_a_query_that_do_not_fit_are_refused(window: wm.Range, said: str) -> None:
    text = refused_alike(processor(), "SELECT k FROM a", JOINED, wm.OptionError, windows={"d": window})
    assert text == said


def test_a_window_is_given_once_and_to_what_is_joined() -> None:
    sql = JOINED.replace("FROM d", "FROM last_rows(d, 3)")
    text = refused_alike(processor(), "SELECT k FROM a", sql, windows={"d": wm.Rows(3)})
    assert (
        place_of(text)[0]
        == "a window must be given once; got last_rows and windows={'d': ...}; leave one out"
    )
    with pytest.raises(wm.OptionError, match="windows= must name streams that the query joins"):
        processor().create("q", JOINED, windows={"d": wm.Range(5), "e": wm.Rows(3)})


def test_tables_alone_are_no_stream_and_times_must_be_of_one_kind() -> None:
    qp = processor(tables={"t": {"k": [1], "x": [1]}})
    with pytest.raises(
        wm.OptionError, match=r"a query must have a stream in each FROM, whose rows come; got 't' alone"
    ):
        qp.create("q", "SELECT c.k FROM (SELECT k FROM t UNION ALL SELECT k FROM t) d JOIN c ON d.k = c.k")
    stamps = {"k": pa.int64(), "x": pa.int64(), "ts": pa.timestamp("us")}
    qp = wm.Processor(
        a=wm.Range(5), b=wm.Range(5), c=wm.Range("5 s"), schemas={"a": SCHEMA, "b": SCHEMA, "c": stamps}
    )
    with pytest.raises(wm.ConditionError, match="the times of what is joined must go together; got times in"):
        qp.create("q", JOINED, windows={"d": wm.Range(5)})


def test_a_stream_is_late_by_one_time_only() -> None:
    schemas = {name: {**SCHEMA, "other": pa.int64()} for name in "abc"}
    qp = wm.Processor(windows=dict.fromkeys("abc", wm.Range(5)), schemas=schemas)
    sql = PAIRS + "SELECT d.k FROM last_range(d, 5), c, c x WHERE d.k = c.k AND c.k = x.k"
    with pytest.raises(wm.ConditionError, match="whose rows can be late by one time only"):
        qp.create("q", sql, windows={"x": wm.Range(5, time="other")})


# ---- how it behaves -------------------------------------------------------------------------------------------------


def test_rows_of_streams_are_late_by_the_watermark_of_the_join() -> None:
    qp = processor()
    qp.create("q", PAIRS + "SELECT d.x, c.x AS y FROM last_range(d, 5) JOIN c ON d.k = c.k")
    qp.push(a=rows((1, 0, 20)), b=rows((1, 1, 20)), c=rows((1, 2, 20)))
    found = qp.push(c=rows((1, 3, 15), (1, 4, 14)))["q"]  # pairs of a and b may be 5 older than what comes
    assert shown(found) == [(1, 3)]
    assert {name: late.to_pylist() for name, late in found.late.items()} == {
        "c": [{"k": 1, "x": 4, "ts": 14}]
    }
    assert shown(qp.push(a=rows((1, 0, 40)), b=rows((1, 5, 40)), c=rows((1, 6, 36)))["q"]) == [(5, 6)]


def test_rows_without_a_partner_come_out_when_the_clock_has_passed_them() -> None:
    qp = processor()
    qp.create("q", PAIRS + "SELECT d.k, c.x FROM last_range(d, 5) LEFT JOIN c ON d.k = c.k")
    qp.push(a=rows((1, 0, 10)), b=rows((1, 1, 10)))
    assert qp.push(c=rows((2, 0, 20)))["q"].count == 0
    assert (
        shown(qp.advance(a=20, b=20)["q"]) == []
    )  # the next pair may be of time 15, and 5 younger than the one that waits
    assert shown(qp.advance(a=21, b=21, c=21)["q"]) == [(1, None)]


def test_equal_plans_are_one_block_and_stay_when_a_query_is_altered() -> None:
    qp = processor()
    sql = PAIRS + "SELECT d.x, c.x AS y FROM last_range(d, 5) d JOIN c ON d.k = c.k"
    other = "WITH e AS (SELECT a.k, b.x, a.ts FROM a, b WHERE a.k = b.k) SELECT COUNT(*) AS n FROM last_range(e, 5) f, c WHERE f.k = c.k"
    query = qp.create("one", sql)
    qp.create("two", other)
    plan = qp.describe()
    joins = [block for block in plan["blocks"] if block["kind"] == "join"]
    assert [block["queries"] for block in joins] == [["one", "two"]] * 2
    qp.push(a=rows((1, 0, 1)), b=rows((1, 7, 1)))
    query.alter(sql.replace("d.x, c.x AS y", "c.x"))
    assert shown(qp.push(c=rows((1, 9, 2)))["one"]) == [(9,)]
    query.alter(sql.replace("d.k = c.k", "d.k = c.k AND c.x > 0"))
    assert shown(qp.push(c=rows((1, 10, 2)))["one"]) == []  # it begins anew


@pytest.mark.parametrize("late", [False, True])
def test_an_error_in_it_stops_its_queries_and_no_other(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the rows have been stored already: nobody reads it any more."""
    qp = processor()
    qp.create("bad", PAIRS + "SELECT c.x FROM last_range(d, 5) d JOIN c ON d.x + 666 = c.x")
    qp.create("over", PAIRS + "SELECT COUNT(*) AS n FROM last_range(d, 5) d JOIN c ON d.x + 666 = c.x")
    qp.create("good", PAIRS + "SELECT c.x FROM last_range(d, 5) d JOIN c ON d.k = c.k")
    qp.push(a=rows((1, 0, 1)), b=rows((1, 5, 1)), c=rows((1, 2, 1)))
    push = JoinOfBlock._push

    def failing(block: JoinOfBlock, *given: Any, **options: Any) -> Any:
        if late or "666" not in block.condition.text:
            found = push(block, *given, **options)
        if "666" in block.condition.text:
            raise ArithmeticError("no such number")
        return found

    monkeypatch.setattr(JoinOfBlock, "_push", failing)
    results = qp.push(b=rows((1, 0, 1)))
    assert shown(results["good"]) == [(2,)]
    assert results.stopped == dict.fromkeys(["bad", "over"], "ArithmeticError: no such number")
    assert shown(qp.push(c=rows((1, 3, 1)))["good"]) == [(3,), (3,)]


def test_a_row_without_the_time_of_a_window_that_only_a_query_has_stops_that_query() -> None:
    schemas = {name: {**SCHEMA, "other": pa.int64()} for name in "abc"}
    qp = wm.Processor(windows=dict.fromkeys("abc", wm.Range(5)), schemas=schemas)
    for name, time in (("good", "ts"), ("bad", "other")):
        qp.create(name, JOINED, windows={"c": wm.Range(5, time=time), "d": wm.Range(5)})
    qp.push(a={**rows((1, 0, 1)), "other": [1]}, b={**rows((1, 0, 1)), "other": [1]})
    results = qp.push(c={**rows((1, 0, 1)), "other": [None]})
    assert shown(results["good"]) == [(1,)]
    assert list(results.stopped) == ["bad"]
    assert results.stopped["bad"].startswith(
        "the time column 'other' of stream 'c' must hold a time in every row"
    )


def test_what_it_is_and_holds_is_told_as_the_contract_has_it() -> None:
    qp = processor(tables={"t": {"k": [1], "x": [1]}})
    qp.create("q", PAIRS + "SELECT d.x FROM last_range(d, 5) d, c, t WHERE d.k = c.k AND c.k = t.k")
    qp.push(a=rows((1, 0, 1)), b=rows((1, 5, 1)), c=rows((1, 2, 1), (2, 2, 1)))
    plan, stats = qp.describe(), qp.stats()
    check(plan, PLAN)
    check(stats, STATS)
    (block,) = [one for one in plan["blocks"] if one["kind"] == "join" and len(one["inputs"]) == 4]
    sides = [(side["name"], side["stream"], side["window"]) for side in block["join"]["sides"]]
    assert sides == [
        ("rows", "a, b", "Range(duration=5, time='ts', lateness=0)"),
        ("c", "c", "Range(duration=5, time='ts', lateness=0)"),
        ("t", "t", "Unbounded()"),
    ]
    numbers = stats["blocks"][block["id"]]
    assert numbers["held"] == 4
    assert numbers["rows"] == 1
    assert numbers["watermark"] == "-4"
    assert [side["rows"] for side in numbers["inside"]] == [1, 2, 1]
    assert "join inner of rows Range(duration=5, time='ts', lateness=0), c" in qp.explain()
    text = again(qp).explain()
    assert text == qp.explain()


def test_a_fabric_refuses_it_by_name() -> None:
    qp = wm.Processor(
        windows=dict.fromkeys("abc", wm.Rows(5)),
        schemas=dict.fromkeys("abc", SCHEMA),
        fabric=wm.Fabric.op_chain(8),
    )
    with pytest.raises(wm.FabricError) as caught:
        qp.create("q", JOINED.replace("FROM d", "FROM last_rows(d, 3)"))
    assert str(caught.value) == (
        "a join on a fabric must be of streams, or of selections from them; got a join of rows and c, where some are queries themselves; "
        "run it in a processor without a fabric"
    )


def test_columns_without_a_type_are_left_out_for_good() -> None:
    """A column that has no type yet, and is not named, is not waited for; one that is named is."""
    schemas = {name: {**SCHEMA, "note": pa.null()} for name in "abc"}
    qp = wm.Processor(windows=dict.fromkeys("abc", wm.Range(5)), schemas=schemas)
    sql = PAIRS + "SELECT d.x, c.x AS y FROM last_range(d, 5) d JOIN c ON d.k = c.k"
    assert qp.create("q", sql).state == "running"
    assert qp.create("w", sql.replace("c.x AS y", "c.note")).state == "waiting"
    noted = {**rows((1, 2, 1)), "note": ["a text"]}
    results = qp.push(a={**rows((1, 0, 1)), "note": ["a"]}, b={**rows((1, 5, 1)), "note": ["b"]})
    assert shown(results["q"]) == []
    qp = again(qp)
    results = qp.push(c=noted)
    assert shown(results["q"]) == [(5, 2)]
    assert shown(results["w"]) == [(5, "a text")]
    assert shown(again(qp).push(c={**rows((1, 3, 1)), "note": ["b"]})["w"]) == [(5, "b")]


def test_rows_that_are_over_are_let_go() -> None:
    qp = processor()
    qp.create("q", PAIRS + "SELECT d.x, c.x AS y FROM last_range(d, 5) d JOIN c ON d.k = c.k")
    for number in range(20):
        some = rows(*((time % 50, time, 1000 * number + time) for time in range(1000)))
        assert qp.push(a=some, b=some, c=some)["q"].count == 1000
        assert qp.stats()["blocks"][held_by(qp)]["held"] <= 12_000


def held_by(qp: wm.Processor) -> str:
    return next(
        str(one["id"]) for one in qp.describe()["blocks"] if one["kind"] == "join" and len(one["inputs"]) == 3
    )


ORDERS: dict[str, Callable[[wm.Processor], wm.Result]] = {
    "in turn": lambda qp: qp.push(
        a=rows((1, 1, 1), (1, 2, 1)), b=rows((1, 5, 1)), c=rows((1, 7, 1), (1, 8, 1))
    )["q"],
    "c between": lambda qp: qp.push(
        {"a": rows((1, 1, 1), (1, 2, 1)), "b": rows((1, 5, 1)), "c": rows((1, 7, 1), (1, 8, 1))},
        order=list("accba"),
    )["q"],
}


@pytest.mark.parametrize(("name", "wanted"), [("in turn", [(5, 7), (5, 8)]), ("c between", [(5, 8), (5, 8)])])
def test_the_last_rows_are_those_at_the_arrival_that_completes_a_pair(
    name: str, wanted: list[tuple[int, int]]
) -> None:
    qp = wm.Processor(windows=dict.fromkeys("abc", wm.Unbounded()), schemas=dict.fromkeys("abc", SCHEMA))
    qp.create("q", PAIRS + "SELECT d.x, c.x AS y FROM last_rows(d, 1) d JOIN last_rows(c, 1) c ON d.k = c.k")
    assert shown(ORDERS[name](qp)) == wanted
