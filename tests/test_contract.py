"""``Processor.describe()`` and ``stats()`` are plain data as the contract has it, whatever the plan; messages that are not are refused."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.contract import ASSIGNMENT, FABRIC, KINDS, MESSAGES, PLAN, STATS, check, check_message

SCHEMAS = {
    "trades": {"ts": pa.timestamp("us"), "sym": pa.string(), "price": pa.float64(), "size": pa.int64()},
    "quotes": {"ts": pa.timestamp("us"), "sym": pa.string(), "bid": pa.float64(), "ask": pa.float64()},
}
QUERIES = {
    "large": "SELECT sym, price FROM trades WHERE size > 10",
    "hits": "SELECT t.sym, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym AND t.price BETWEEN q.bid AND q.ask",
    "again": "SELECT t.price FROM trades t JOIN quotes q ON t.sym = q.sym AND t.price BETWEEN q.bid AND q.ask",
    "top": "SELECT sym, SUM(size) AS n FROM last_rows(trades, 5) GROUP BY sym ORDER BY n DESC LIMIT 2",
    "seconds": "SELECT window.start, sym, COUNT(*) AS n FROM trades GROUP BY window(ts, '1 second'), sym",
    "open": "SELECT window.start, COUNT(*) AS n FROM trades GROUP BY window(ts, '1 second')",
    "sessions": "SELECT session_window.start, sym, COUNT(*) AS n FROM trades GROUP BY session_window(ts, '1 second'), sym",
    "once": "SELECT DISTINCT sym FROM trades",
    "both": "SELECT sym FROM trades UNION ALL SELECT sym FROM quotes",
    "newest": "SELECT sym, ts FROM trades ORDER BY ts DESC LIMIT 3",
    "three": "SELECT a.sym FROM trades a, quotes b, trades c WHERE a.sym = b.sym AND b.sym = c.sym",
}
EMITS = {"open": "update", "newest": "complete"}


def processor(**options: object) -> wm.Processor:
    window = wm.Range("10 s", time="ts", lateness="1 s")
    return wm.Processor(trades=window, quotes=window, schemas=SCHEMAS, **options)  # type: ignore[arg-type]


def rows(second: int, count: int = 4) -> dict[str, dict[str, list[object]]]:
    start = datetime(2023, 11, 14, 22, 13, 20) + timedelta(seconds=second)
    times: list[object] = [start + timedelta(microseconds=k) for k in range(count)]
    syms: list[object] = [f"S{k % 3}" for k in range(count)]
    return {
        "trades": {"ts": times, "sym": syms, "price": [1.5] * count, "size": list(range(8, 8 + count))},
        "quotes": {"ts": times, "sym": syms, "bid": [1.0] * count, "ask": [2.0] * count},
    }


def filled() -> wm.Processor:
    qp = processor()
    for name, sql in QUERIES.items():
        qp.create(name, sql, emit=EMITS.get(name))
    for second in (0, 5, 7):
        qp.push(rows(second))
    return qp


def test_every_kind_of_block_is_described_as_the_contract_has_it() -> None:
    qp = filled()
    plan, stats = qp.describe(), qp.stats()
    check(plan, PLAN)
    check(stats, STATS)
    assert json.loads(json.dumps(plan)) == plan
    assert json.loads(json.dumps(stats)) == stats
    assert {block["kind"] for block in plan["blocks"]} == set(KINDS) - {"release"}
    assert {block["id"] for block in plan["blocks"]} == set(stats["blocks"])
    for block in plan["blocks"]:
        assert set(block["inputs"]) <= set(stats["blocks"])
    assert set(stats["queries"]) == set(QUERIES)


def test_the_plan_says_what_is_shared_and_by_whom_it_is_read() -> None:
    plan = filled().describe()
    (join,) = [one for one in plan["blocks"] if one["kind"] == "join" and len(one["join"]["sides"]) == 2]
    assert join["queries"] == ["hits", "again"]
    assert join["streams"] == ["trades", "quotes"]
    assert "trades.sym = quotes.sym" in join["join"]["condition"]
    readers = [one for one in plan["blocks"] if join["id"] in one["inputs"]]
    assert sorted(query for one in readers for query in one["queries"]) == ["again", "hits"]
    roots = {query["name"]: query["root"] for query in plan["queries"]}
    assert {one["id"] for one in readers} == {roots["hits"], roots["again"]}


def test_ids_of_blocks_stay_while_others_come_and_go() -> None:
    qp = filled()
    before = {block["id"]: block["instruction"] for block in qp.describe()["blocks"]}
    qp.drop("top")
    qp.create("small", "SELECT sym FROM trades WHERE size < 3")
    after = {block["id"]: block["instruction"] for block in qp.describe()["blocks"]}
    assert all(after[one] == before[one] for one in before.keys() & after.keys())
    assert len(after.keys() - before.keys()) >= 1
    assert max(map(int, after)) > max(map(int, before))


def test_numbers_are_those_of_the_rows() -> None:
    qp = filled()
    plan, stats = qp.describe(), qp.stats()
    assert stats["pushes"] == 3
    assert stats["streams"]["trades"]["arrived"] == 12
    assert stats["streams"]["trades"]["watermark"].startswith("2023-11-14T22:13:26")
    (hits,) = [one for one in plan["blocks"] if one["kind"] == "join" and one["queries"] == ["hits", "again"]]
    inside = stats["blocks"][hits["id"]]["inside"]
    assert [side["rows"] for side in inside] == [12, 12]
    assert stats["blocks"][hits["id"]]["held"] == 24
    assert stats["blocks"][hits["id"]]["seconds"] > 0
    assert all(side["indexes"] and side["subwindows"] >= 1 for side in inside)
    roots = {query["name"]: query["root"] for query in plan["queries"]}
    assert stats["queries"]["hits"]["rows"] == stats["blocks"][roots["hits"]]["rows"] > 0
    groups = next(one["id"] for one in plan["blocks"] if one["kind"] == "groups")
    assert stats["blocks"][groups]["held"] == 3  # symbols


def test_late_rows_are_counted_once_and_a_refused_push_counts_nothing() -> None:
    qp = filled()
    late = rows(1, 2)
    qp.push(late)
    stats = qp.stats()
    assert (stats["streams"]["trades"]["late"], stats["streams"]["quotes"]["late"]) == (2, 2)
    with pytest.raises(wm.SchemaError):
        qp.push(trades={"ts": [None], "sym": [1.5], "price": ["x"], "size": [0]})
    after = qp.stats()
    assert [one["late"] for one in after["streams"].values()] == [2, 2]
    assert after["pushes"] == 4


def test_a_waiting_and_a_stopped_query_are_described_with_the_reason() -> None:
    qp = wm.Processor(trades=wm.Rows(10), quotes=wm.Rows(10), schemas={"trades": SCHEMAS["trades"]})
    qp.create("waits", "SELECT bid FROM quotes")
    qp.create("fails", "SELECT 1 / size AS x, CAST(sym AS INT) AS y FROM trades")
    plan = qp.describe()
    check(plan, PLAN)
    state = {query["name"]: (query["state"], query["reason"]) for query in plan["queries"]}
    assert state["waits"] == ("waiting", "the schema of stream 'quotes'")
    assert plan["streams"][1]["schema"] is None


def test_with_a_fabric_the_plan_has_topology_and_assignment() -> None:
    window = wm.Rows(512)
    qp = wm.Processor(trades=window, quotes=window, schemas=SCHEMAS, fabric=wm.Fabric.op_chain(3, window=512))
    qp.create("hits", "SELECT t.sym, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym WHERE t.size > 3")
    plan = qp.describe()
    check(plan, PLAN)
    check(plan["fabric"]["topology"], FABRIC)
    check(plan["fabric"]["assignment"], ASSIGNMENT)
    assert wm.Fabric.from_json(plan["fabric"]["topology"]) == wm.Fabric.op_chain(3, window=512)


def test_results_are_shown_to_who_watches_and_no_more_after_the_end() -> None:
    qp = processor()
    qp.create("large", QUERIES["large"])
    seen: list[int] = []
    end = qp.watch(lambda results: seen.append(results["large"].count))
    qp.push(rows(0))
    end()
    qp.push(rows(1))
    assert seen == [1]


CALLS: dict[str, Callable[[wm.Processor], wm.Result]] = {
    "push": lambda qp: qp.push(rows(1))["large"],
    "advance": lambda qp: qp.advance(trades=datetime(2023, 11, 14, 22, 14))["large"],
    "finish": lambda qp: qp.finish()["large"],
}


@pytest.mark.parametrize("call", CALLS)
def test_what_a_watcher_raises_refuses_the_call(call: str) -> None:
    """Nothing has come, and the same call again gives what it would have given."""

    def stands(qp: wm.Processor) -> tuple[object, ...]:
        stats = qp.stats()
        clocks = [(stream["newest"], stream["watermark"]) for stream in stats["streams"].values()]
        return stats["pushes"], stats["queries"], clocks, qp.explain()

    def refuse(results: object) -> None:
        raise OSError("nobody listens")

    qp, undisturbed = filled(), filled()
    before, end = stands(qp), qp.watch(refuse)
    with pytest.raises(OSError, match="nobody listens"):
        CALLS[call](qp)
    assert stands(qp) == before
    end()
    assert CALLS[call](qp).to_arrow() == CALLS[call](undisturbed).to_arrow()
    assert stands(qp) == stands(undisturbed)


def test_a_refused_statement_knows_its_place_in_the_whole_text() -> None:
    qp = processor()
    text = "CREATE QUERY a AS SELECT sym FROM trades;\nCREATE QUERY b AS SELECT sym, prize FROM trades"
    with pytest.raises(wm.ConditionError) as refused:
        qp.execute(text)
    assert refused.value.span is not None
    assert text[slice(*refused.value.span)] == "prize"
    with pytest.raises(wm.ConditionError) as syntax:
        qp.execute("CREATE QUERY a AS SELECT sym FROM trades WHERE AND")
    assert syntax.value.span is not None
    assert qp.queries() == {}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ([], "a message must be an object whose do is one of execute"),
        ({"do": "eval", "id": 1}, "got 'eval'"),
        ({"do": "execute", "id": 1}, "execute must have 'sql'"),
        ({"do": "execute", "id": 1, "sql": 3}, "execute.sql must be of type string; got 3"),
        ({"do": "execute", "id": True, "sql": ""}, "execute.id must be of type integer; got True"),
        (
            {"do": "execute", "id": 1, "sql": "", "code": "1"},
            "execute must have no field but do, id, sql; got 'code'",
        ),
        ({"do": "execute", "id": 1, "sql": "x" * 100_001}, "execute.sql must keep maxLength 100,000"),
        ({"do": "pace", "id": 1, "cycles": -1}, "pace.cycles must keep minimum 0"),
        (
            {"do": "run", "id": 1, "fabric": {}, "streams": "", "sql": "", "how": "software"},
            "run.fabric must have 'version'",
        ),
    ],
)
def test_messages_that_are_not_of_the_contract_are_refused(message: object, said: str) -> None:
    with pytest.raises(wm.OptionError, match=said.replace("(", r"\(")):
        check_message(message)


def test_every_message_has_a_verb_and_a_number() -> None:
    for verb, schema in MESSAGES.items():
        assert schema["required"][:2] == ["do", "id"], verb


def test_a_job_tells_its_plan_and_numbers_as_the_contract_has_them(tmp_path: Path) -> None:
    from watersmeet.cli.job import Outputs, Queries

    queries = Queries(filled(), Outputs(tmp_path, "csv", ".csv"))
    check(json.loads(queries.told("SHOW PLAN;")), PLAN)
    check(json.loads(queries.told("show  stats")), STATS)
    assert queries.told("SHOW QUERIES").startswith("stream trades")
