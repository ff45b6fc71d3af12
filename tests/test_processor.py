"""What a Processor does, by hand: statements, names, windows, schemas that come late, sharing, errors that stay inside a query, threads."""

import gc
import threading
import weakref
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.query import delta as delta_module
from watersmeet.query.block import JoinBlock

TRADES = pa.schema({"sym": pa.string(), "price": pa.int64(), "size": pa.int64()})
QUOTES = pa.schema({"sym": pa.string(), "bid": pa.int64()})
JOIN = "SELECT t.price, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym"


def processor(**options: Any) -> wm.Processor:
    schemas = {"trades": TRADES, "quotes": QUOTES}
    return wm.Processor(trades=wm.Rows(100), quotes=wm.Rows(100), **{"schemas": schemas, **options})


def trades(*rows: tuple[str | None, int, int]) -> list[dict[str, Any]]:
    return [{"sym": sym, "price": price, "size": size} for sym, price, size in rows]


def quotes(*rows: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"sym": sym, "bid": bid} for sym, bid in rows]


def listed(result: wm.Result) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in result.to_arrow().columns), strict=True), key=repr)


# ---- statements -------------------------------------------------------------------------------------------------


def test_a_query_sees_the_rows_that_come_after_it() -> None:
    qp = processor()
    qp.push(trades=trades(("A", 1, 10)), quotes=quotes(("A", 7)))
    join = qp.create("join", JOIN)
    all_trades = qp.create("all", "SELECT price FROM trades")
    out = qp.push(trades=trades(("A", 2, 10)))
    assert listed(out["join"]) == []
    assert listed(out["all"]) == [(2,)]
    out = qp.push(quotes=quotes(("A", 8)))
    assert listed(out["join"]) == [(2, 8)]
    assert out["join"].numbers() == {"t": [1], "q": [1]}
    join.drop()
    assert list(qp.push(quotes=quotes(("A", 9)))) == ["all"]
    assert (join.state, all_trades.state) == ("dropped", "running")


def test_alter_keeps_the_rows_of_a_join_that_stays_as_it_is() -> None:
    qp = processor()
    query = qp.create("join", JOIN)
    qp.push(trades=trades(("A", 1, 10)))
    query.alter("SELECT q.bid * 2 AS twice FROM trades t JOIN quotes q ON t.sym = q.sym")
    assert listed(qp.push(quotes=quotes(("A", 8)))["join"]) == [(16,)]
    query.alter(f"{JOIN} AND t.price > 0")
    assert listed(qp.push(quotes=quotes(("A", 9)))["join"]) == []
    assert query.sql.endswith("t.price > 0")


def test_alter_keeps_windows_unless_others_are_given() -> None:
    qp = processor()
    query = qp.create("q", JOIN, windows={"t": wm.Rows(1)})
    query.alter(f"{JOIN} AND t.size > 0")
    qp.push(trades=trades(("A", 1, 10), ("A", 2, 10)))
    assert listed(qp.push(quotes=quotes(("A", 8)))["q"]) == [(2, 8)]
    query.alter(f"{JOIN} AND t.size > 0", windows={})
    qp.push(trades=trades(("A", 3, 10), ("A", 4, 10)))
    assert listed(qp.push(quotes=quotes(("A", 8)))["q"]) == [(3, 8), (4, 8)]


def test_execute_does_all_statements_or_none() -> None:
    qp = processor()
    qp.create("old", "SELECT sym FROM trades")
    made = qp.execute(
        "CREATE QUERY big AS SELECT price FROM trades WHERE sym <> ';'; ALTER QUERY old AS SELECT size FROM trades; "
        "CREATE QUERY gone AS SELECT sym FROM quotes; DROP QUERY gone;"
    )
    assert list(made) == ["big", "old"]
    assert list(qp.queries()) == ["old", "big"]
    out = qp.push(trades=trades(("A", 1, 10)))
    assert (listed(out["old"]), listed(out["big"])) == ([(10,)], [(1,)])
    before = qp.explain()
    with pytest.raises(wm.OptionError, match="drop must name a query that is there"):
        qp.execute("DROP QUERY big; CREATE QUERY more AS SELECT sym FROM trades; DROP QUERY nobody")
    with pytest.raises(wm.ConditionError, match="got 'volume'"):
        qp.execute("DROP QUERY big; CREATE QUERY more AS SELECT volume FROM trades")
    assert qp.explain() == before


def test_a_handle_is_of_its_query_not_of_the_next_one_with_that_name() -> None:
    qp = processor()
    first = qp.create("q", "SELECT sym FROM trades")
    qp.execute("DROP QUERY q; CREATE QUERY q AS SELECT size FROM trades")
    assert first.state == "dropped"
    with pytest.raises(wm.StateError, match="query 'q' must be there; it was dropped"):
        first.alter("SELECT price FROM trades")
    assert qp.queries()["q"].sql == "SELECT size FROM trades"


# ---- windows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "windows"),
    [
        ("SELECT t.price, q.bid FROM last_rows(trades, 2) t JOIN quotes q ON t.sym = q.sym", None),
        (JOIN, {"t": wm.Rows(2)}),
        (JOIN, {"trades": wm.Rows(2)}),
        (
            "SELECT d.price, q.bid FROM (SELECT * FROM last_rows(trades, 2)) d JOIN quotes q ON d.sym = q.sym",
            None,
        ),
    ],
)
def test_a_query_may_have_windows_of_its_own(sql: str, windows: Any) -> None:
    qp = processor()
    qp.create("wide", JOIN)
    qp.create("narrow", sql, windows=windows)
    qp.push(trades=trades(("A", 1, 10), ("A", 2, 10), ("A", 3, 10)))
    out = qp.push(quotes=quotes(("A", 5)))
    assert listed(out["wide"]) == [(1, 5), (2, 5), (3, 5)]
    assert listed(out["narrow"]) == [(2, 5), (3, 5)]


def test_last_range_takes_time_and_lateness_from_the_stream() -> None:
    schemas = dict.fromkeys("ab", pa.schema({"at": pa.int64(), "k": pa.int64()}))
    windows = dict.fromkeys("ab", wm.Range(100, time="at", lateness=5))
    qp = wm.Processor(windows=windows, schemas=schemas)
    qp.create("all", "SELECT a.at, b.at AS then FROM a JOIN b ON a.k = b.k")
    qp.create(
        "near", "SELECT a.at, b.at AS then FROM last_range(a, 10) JOIN last_range(b, 10) b ON a.k = b.k"
    )
    qp.push(a={"at": [50, 72], "k": [1, 1]})
    out = qp.push(b={"at": [80, 40], "k": [1, 1]})
    assert listed(out["all"]) == [(50, 80), (72, 80)]
    assert listed(out["near"]) == [(72, 80)]
    assert out["near"].late["b"].to_pydict() == {"at": [40], "k": [1]}


# ---- schemas that come late -------------------------------------------------------------------------------------


def test_a_query_waits_for_its_streams_and_begins_with_the_push_that_brings_the_last() -> None:
    qp = processor(schemas=None)
    one, both = qp.create("one", "SELECT price FROM trades"), qp.create("both", JOIN)
    assert (one.reason, both.reason) == ("the schema of stream 'trades'", "the schema of stream 'quotes'")
    out = qp.push(trades=trades(("A", 1, 10)))
    assert list(out) == ["one"]
    out = qp.push(quotes=quotes(("A", 5)), trades=trades(("A", 2, 10)))
    assert listed(out["both"]) == [(1, 5), (2, 5)]  # the first trade came after it was created
    assert both.state == "running"


def test_a_query_that_does_not_fit_the_schemas_is_stopped_when_they_become_known() -> None:
    qp = processor(schemas=None)
    wrong, right = (
        qp.create("wrong", "SELECT volume FROM trades"),
        qp.create("right", "SELECT size FROM trades"),
    )
    out = qp.push(trades=trades(("A", 1, 10)))
    assert listed(out["right"]) == [(10,)]
    assert list(out.stopped) == ["wrong"]
    assert wrong.state == "stopped"
    assert wrong.reason is not None
    assert wrong.reason.startswith(
        "a column must be one of trades.sym, trades.price, trades.size; got 'volume'"
    )
    assert list(qp.push(trades=trades(("A", 1, 11)))) == ["right"]
    wrong.alter("SELECT size AS volume FROM trades")
    assert listed(qp.push(trades=trades(("A", 1, 12)))["wrong"]) == [(12,)]
    assert right.state == "running"


def test_a_refused_push_makes_no_schema_known() -> None:
    qp = wm.Processor(a=wm.Range(10, time="at"), b=wm.Rows(5))
    query = qp.create("q", "SELECT a.k FROM a JOIN b ON a.k = b.k")
    with pytest.raises(wm.DataError, match="must hold a time in every row; got null in row 1"):
        qp.push(b={"k": [1]}, a={"at": [1, None], "k": [1, 2]})
    assert query.reason == "the schema of stream 'a'"
    out = qp.push(b={"k": ["text"]}, a={"at": [1.5], "k": ["text"]})
    assert listed(out["q"]) == [("text",)]


def test_columns_without_a_type_hold_up_only_joins_that_compare_them() -> None:
    qp = processor(schemas=None)
    everything = qp.create("everything", "SELECT * FROM trades")
    plain = qp.create("plain", "SELECT t.price, t.size, q.bid FROM trades t JOIN quotes q ON t.price = q.bid")
    compared = qp.create("compared", "SELECT t.price FROM trades t JOIN quotes q ON upper(t.sym) = q.sym")
    out = qp.push(trades=trades((None, 1, 10)), quotes=quotes(("A", 1)))
    assert (everything.state, plain.state) == ("running", "running")
    assert compared.reason == "the type of column trades.sym"
    assert listed(out["plain"]) == [(1, 10, 1)]
    assert out["everything"].schema.field("sym").type == pa.null()
    out = qp.push(trades=trades(("a", 1, 20)))
    assert out["everything"].schema.field("sym").type == pa.string()
    assert listed(out["plain"]) == [(1, 20, 1)]
    assert compared.state == "running"
    out = qp.push(quotes=quotes(("A", 1)))
    assert listed(out["plain"]) == [(1, 10, 1), (1, 20, 1)]
    assert listed(out["compared"]) == [(1,)]


def test_a_type_that_a_refused_push_has_brought_is_forgotten() -> None:
    qp = processor(schemas=None)
    qp.create("q", "SELECT t.sym, q.bid FROM trades t JOIN quotes q ON t.price = q.bid")
    qp.push(trades=trades((None, 1, 10)), quotes=quotes(("A", 7)))
    with pytest.raises(wm.OptionError, match="order= must name the stream of each"):
        qp.push(trades=trades(("text", 2, 10)), order=["trades", "trades"])
    out = qp.push(trades={"sym": [5], "price": [3], "size": [10]}, quotes=quotes(("A", 1), ("A", 3)))
    assert listed(out["q"]) == [(5, 3), (None, 1)]


# ---- what is shared ---------------------------------------------------------------------------------------------


def engines(qp: wm.Processor) -> list[Any]:
    return [block.engine for block in qp._running.graph.blocks.values() if isinstance(block, JoinBlock)]


def test_equal_plans_of_several_queries_are_the_same_blocks() -> None:
    qp = processor()
    qp.create("one", "SELECT t.price FROM trades t JOIN quotes q ON t.sym = q.sym WHERE t.size > 5")
    qp.create("two", "SELECT x.sym, y.bid FROM trades x, quotes y WHERE x.sym = y.sym AND x.size > 5")
    assert len(engines(qp)) == 1
    assert "join inner of trades Rows(n=100), quotes Rows(n=100) (0 rows; shared)" in qp.explain()
    qp.push(trades=trades(("A", 1, 10)))
    qp.create("three", "SELECT t.price FROM trades t JOIN quotes q ON t.sym = q.sym WHERE t.size > 5")
    assert len(engines(qp)) == 2  # it has begun later
    out = qp.push(quotes=quotes(("A", 5)))
    assert [out[name].count for name in ("one", "two", "three")] == [1, 1, 0]
    qp.drop("one")
    assert [out.count for out in qp.push(quotes=quotes(("A", 6))).values()] == [1, 0]


def test_joins_that_compare_the_same_texts_hold_the_same_indexes() -> None:
    qp = processor()
    qp.create("one", JOIN)
    qp.create("two", f"{JOIN} AND t.price > 5")
    qp.create("other", f"{JOIN} AND q.bid > 5")
    qp.push(trades=trades(("A", 1, 10), ("B", 9, 1)), quotes=quotes(("A", 5)))

    def held(engine: Any, k: int) -> set[int]:
        return {id(index) for sub in engine.ledger.chains[k].subwindows for index in sub.indexes}

    one, two, other = engines(qp)
    assert held(one, 1) == held(two, 1) != set()
    assert held(one, 0) == held(other, 0) != set()
    assert not held(one, 0) & held(two, 0)  # its filter leaves rows out
    out = qp.push(trades=trades(("A", 7, 1)))
    assert [result.count for result in out.values()] == [1, 1, 0]


def test_queries_that_show_the_same_rows_gather_each_column_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is asked first, and also if only the first rows of one were shown before."""
    lists = ["t.price, q.bid", "q.bid * 2 AS twice, t.sym", "t.price + q.bid AS both", "q.*, t.size"]
    sources = {
        "join": "FROM trades t LEFT JOIN quotes q ON t.sym = q.sym",
        "filter": "FROM trades t WHERE t.price % 2 = 1 AND t.size <> 13",
    }
    texts = {
        f"{name}{n}": f"SELECT {listed.replace('q.*', 't.sym').replace('q.bid', 't.size') if name == 'filter' else listed} {source}"
        for name, source in sources.items()
        for n, listed in enumerate(lists)
    }
    rows = [("ABCDE"[k % 5], k, k % 15) for k in range(60)]
    pushed = {"trades": trades(*rows), "quotes": quotes(*[("ABC"[k % 3], k) for k in range(20)])}
    gathered: list[tuple[int, str]] = []
    taken = delta_module._taken

    def counted(stored: Any, numbers: Any, names: Any, schema: pa.Schema) -> Any:
        gathered.extend((len(numbers), f"{name} of {schema.names[1]}") for name in names)
        return taken(stored, numbers, names, schema)

    wanted = {}
    for name, text in texts.items():
        alone = processor()
        alone.create(name, text)
        wanted[name] = [alone.push(pushed)[name].to_arrow(), alone.finish()[name].to_arrow()]
    for names in (list(texts), list(texts)[::-1]):
        qp = processor()
        for name, text in texts.items():
            qp.create(name, text)
        out = qp.push(pushed)
        monkeypatch.setattr(delta_module, "_taken", counted)
        gathered.clear()
        shown = {name: out[name]._repr_html_() for name in names[::3]}
        assert all("row" in text for text in shown.values())
        gathered.clear()
        found = {name: out[name].to_arrow() for name in names}
        monkeypatch.undo()
        assert len(set(gathered)) == len(gathered) == 5 + 3
        ended = qp.finish()
        for name in names:
            assert [found[name], ended[name].to_arrow()] == wanted[name], name
    assert found["join0"].num_rows > 100


def test_zero_and_minus_zero_are_not_the_same_plan() -> None:
    qp = processor()
    qp.create("plus", "SELECT CAST(0e0 AS STRING) AS zero FROM trades")
    qp.create("minus", "SELECT CAST(-0e0 AS STRING) AS zero FROM trades")
    out = qp.push(trades=trades(("A", 1, 10)))
    assert (listed(out["plus"]), listed(out["minus"])) == ([("0.0",)], [("-0.0",)])


def test_selections_store_no_rows_and_dropped_joins_give_theirs_back() -> None:
    qp = processor(keep="queries")
    qp.create("all", "SELECT * FROM trades")
    qp.push(trades=trades(("A", 1, 10)))
    assert "1 row arrived, 0 stored" in qp.explain()
    join = qp.create("join", JOIN)
    qp.push(trades=trades(("A", 2, 10), ("A", 3, 10)))
    assert "3 rows arrived, 2 stored" in qp.explain()
    held = weakref.ref(engines(qp)[0])
    join.drop()
    assert "3 rows arrived, 0 stored" in qp.explain()
    gc.collect()
    assert held() is None


# ---- errors -----------------------------------------------------------------------------------------------------


def test_an_error_in_a_filter_stops_that_query_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    qp = processor()
    bad = qp.create("bad", "SELECT price FROM trades WHERE size > 666")
    qp.create("good", "SELECT price FROM trades WHERE size > 5")
    qp.create("join", JOIN)
    evaluate = delta_module.evaluate

    def failing(expr: Any, *given: Any) -> Any:
        if "666" in str(expr):
            raise ArithmeticError("no such number")
        return evaluate(expr, *given)

    monkeypatch.setattr(delta_module, "evaluate", failing)
    out = qp.push(trades=trades(("A", 1, 10)), quotes=quotes(("A", 5)))
    assert list(out) == ["good", "join"]
    assert out.stopped == {"bad": "ArithmeticError: no such number"}
    assert listed(out["join"]) == [(1, 5)]
    assert (bad.state, bad.reason) == ("stopped", "ArithmeticError: no such number")
    assert "query bad: stopped: ArithmeticError: no such number" in qp.explain()
    assert not qp.push(trades=trades(("A", 1, 10))).stopped


def test_an_error_in_a_join_stops_the_queries_that_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"at": pa.int64(), "other": pa.int64(), "k": pa.int64()}
    qp = wm.Processor(
        a=wm.Range(10, time="at"), b=wm.Range(10, time="at"), schemas=dict.fromkeys("ab", schema)
    )
    sql = "SELECT a.at, b.at AS then FROM a JOIN b ON a.k = b.k"
    good = qp.create("good", sql)
    bad = qp.create("bad", sql, windows=dict.fromkeys("ab", wm.Range(10, time="other")))
    also = qp.create("also", f"{sql} WHERE a.at > 0", windows=dict.fromkeys("ab", wm.Range(10, time="other")))
    rows = {"at": [1, 2], "other": [1, 2], "k": [1, 1]}
    assert [len(result) for result in qp.push(a=rows).values()] == [0, 0, 0]
    out = qp.push(b={"at": [3], "other": [None], "k": [1]})
    assert listed(out["good"]) == [(1, 3), (2, 3)]
    assert list(out.stopped) == ["bad", "also"]
    assert bad.reason is not None
    assert bad.reason.startswith(
        "the time column 'other' of stream 'b' must hold a time in every row; got null in row 0 of the batch;"
    )
    assert (good.state, bad.state, also.state) == ("running", "stopped", "stopped")
    assert listed(qp.push(b={"at": [4], "other": [None], "k": [1]})["good"]) == [(1, 4), (2, 4)]
    with pytest.raises(wm.DataError, match="column 'at'"):  # the stream's own time: the push is refused
        qp.push(b={"at": [None], "other": [1], "k": [1]})
    assert listed(qp.push(b={"at": [5], "other": [5], "k": [1]})["good"]) == [(1, 5), (2, 5)]


def test_an_error_in_a_select_list_comes_where_rows_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    qp = processor()
    query = qp.create("q", "SELECT price FROM trades")
    out = qp.push(trades=trades(("A", 1, 10)))
    part = delta_module.Part.rows

    def failing(*given: Any) -> Any:
        raise ArithmeticError

    monkeypatch.setattr(delta_module.Part, "rows", failing)
    with pytest.raises(ArithmeticError):
        out["q"].to_arrow()
    monkeypatch.setattr(delta_module.Part, "rows", part)
    assert query.state == "running"
    assert listed(out["q"]) == [(1,)]


# ---- calls ------------------------------------------------------------------------------------------------------


def test_results_are_lazy_and_outlive_their_rows() -> None:
    qp = processor()
    qp.create("q", "SELECT t.price + q.bid AS sum FROM trades t JOIN quotes q ON t.sym = q.sym")
    qp.create("both", "SELECT price FROM trades UNION ALL SELECT bid FROM quotes")
    out = qp.push(trades=trades(("A", 1, 10)), quotes=quotes(("A", 5)))
    qp.drop("q")
    qp.push(trades=trades(*[("B", 1, 1)] * 500))
    assert listed(out["q"]) == [(6,)]
    assert repr(out["both"]) == "<Result of 2 rows>"
    assert listed(out["both"]) == [(1,), (5,)]
    assert {name: list(numbers) for name, numbers in out["both"].numbers().items()} == {
        "trades": [0, -1],
        "quotes": [-1, 0],
    }
    assert "<td>5</td>" in out["both"]._repr_html_()


def test_many_streams_may_be_read_many_times() -> None:
    names = [f"s{n}" for n in range(100)]
    schemas = {name: pa.schema({"k": pa.int64()}) for name in names}
    qp = wm.Processor(windows=dict.fromkeys(names, wm.Rows(5)), schemas=schemas)
    for name in names:
        qp.create(name, f"SELECT a.k FROM {name} a, {name} b, {name} c WHERE a.k = b.k AND b.k = c.k")
    out = qp.push({name: {"k": [1, 2]} for name in names})
    assert [result.count for result in out.values()] == [2] * 100


def test_a_processor_that_has_ended_takes_no_more() -> None:
    with processor() as qp:
        query = qp.create("left", "SELECT t.price, q.bid FROM trades t LEFT JOIN quotes q ON t.sym = q.sym")
        qp.push(trades=trades(("A", 1, 10)))
        assert listed(qp.finish()["left"]) == [(1, None)]
        with pytest.raises(
            wm.StateError, match=r"must be open; got a push after finish\(\); make a new Processor"
        ):
            qp.push(trades=[])
        with pytest.raises(wm.StateError, match=r"got alter\(\) after finish"):
            query.alter(JOIN)
    assert repr(qp) == "<Processor of trades=Rows(n=100), quotes=Rows(n=100): 'left'; finished>"
    closed = processor()
    closed.close()
    with pytest.raises(wm.StateError, match=r"got create\(\) after close"):
        closed.create("q", JOIN)


def test_threads_push_and_change_queries_in_turns() -> None:
    qp = wm.Processor(
        trades=wm.Unbounded(), quotes=wm.Unbounded(), schemas={"trades": TRADES, "quotes": QUOTES}, cores=2
    )
    qp.create("join", JOIN)
    found: list[int] = []
    errors: list[BaseException] = []

    def work(which: int) -> None:
        try:
            for i in range(20):
                qp.create(f"{which} {i}", f"SELECT price FROM trades WHERE size > {which}")
                out = qp.push(trades=trades(("A", 1, 9)), quotes=quotes(("A", 5)))
                found.append(out["join"].count)
                assert out[f"{which} {i}"].count == 1
                qp.drop(f"{which} {i}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sum(found) == 80 * 80
    assert list(qp.queries()) == ["join"]


def test_a_call_from_within_a_push_is_refused() -> None:
    qp = processor()
    heard: list[str] = []

    def tell() -> None:
        try:
            qp.create("inner", JOIN)
        except wm.StateError as error:
            heard.append(str(error))

    query = qp.create("q", JOIN)
    push = qp._running.feed.push

    def pushing(*given: Any) -> Any:
        tell()
        return push(*given)

    qp._running.feed.push = pushing  # type: ignore[method-assign]
    qp.push(trades=trades(("A", 1, 10)))
    assert heard[0].startswith(
        "a processor must have ended one call before the next; got create() from within a call"
    )
    assert query.state == "running"
