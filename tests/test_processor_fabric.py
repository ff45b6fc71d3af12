"""A processor with a fabric: queries that fit give what they give without one; what does not fit is refused whole, by its reason."""

import json
import re
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from fabric_machine import check
from watersmeet.query.graph import Graph

SCHEMAS = {
    "a": {"k": pa.int32(), "x": pa.int64(), "name": pa.string()},
    "b": {"k": pa.int32(), "y": pa.float64()},
    "c": {"k": pa.int32(), "z": pa.decimal128(10, 2)},
}
WINDOWS = {"a": wm.Rows(4), "b": wm.Rows(6), "c": wm.Rows(3)}
TEXTS = (
    "SELECT * FROM a",
    "SELECT k, x FROM a WHERE x > 2 AND name = 'n1'",
    "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k",
    "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k WHERE a.x > 2",
    "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k AND b.y <= 3.5 WHERE a.x > 2 AND a.k <> 1",
    "SELECT t.x, u.x AS other FROM a t JOIN a u ON t.k = u.k AND t.x > u.x WHERE u.x > 2",
    "SELECT a.x, b.y, c.z FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND c.z > 1.5",
    "SELECT x FROM a WHERE x > 2 UNION ALL SELECT k FROM b WHERE y > 1.0",
    "SELECT a.x * 2 AS twice FROM a JOIN b ON a.k = b.k",
    "SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k",
)


def fabrics() -> list[wm.Fabric]:
    block = [wm.Unit("s", "selection"), wm.Unit("p", "op_block", 8)]
    processor = [wm.Unit("cpu", "processor", 100, memory=100, computes=True)]
    return [
        wm.Fabric.op_chain(6, window=4),
        wm.Fabric.parallel_fqp(2, 3, window=4, computes=True),
        wm.Fabric.split_join(6, window=3),
        wm.Fabric.ssp([[block, block], [block, [wm.Unit("m", "join", 8, ways=3)]]]),
        wm.Fabric.ssp([[processor]]),
    ]


def rows(random: Random, stream: str, count: int) -> pa.RecordBatch:
    def value(type_: pa.DataType) -> Any:
        number = random.randrange(5)
        if pa.types.is_decimal(type_):
            return Decimal(number)
        return f"n{number}" if pa.types.is_string(type_) else number

    schema = pa.schema(list(SCHEMAS[stream].items()))
    columns = [pa.array([value(field.type) for _ in range(count)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def answers(results: Any) -> dict[str, list[dict[str, Any]]]:
    return {name: result.to_arrow().to_pylist() for name, result in results.items()}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_results_are_the_same_with_a_fabric_as_without(seed: int) -> None:
    random = Random(seed)
    fabric = random.choice(fabrics())
    known = SCHEMAS if random.randrange(2) else None
    with (
        wm.Processor(windows=WINDOWS, schemas=known, fabric=fabric) as on,
        wm.Processor(windows=WINDOWS, schemas=known) as off,
    ):
        off.push({name: rows(random, name, 0) for name in WINDOWS})
        on.push({name: rows(random, name, 0) for name in WINDOWS})
        for _ in range(8):
            verb, name, text = (
                random.choice(["create", "create", "alter", "drop"]),
                random.choice("pqr"),
                random.choice(TEXTS),
            )
            there = name in on.queries()
            if there == (verb == "create"):
                continue
            before = str(on.fabric_assignment())
            statement = f"{verb.upper()} QUERY {name}" + ("" if verb == "drop" else f" AS {text}")
            try:
                on.execute(statement)
            except wm.FabricError:
                assert verb != "drop"
                assert str(on.fabric_assignment()) == before
                continue
            off.execute(statement)
            check(on.fabric_assignment().assignment)
            batches = {name: rows(random, name, random.randrange(4)) for name in WINDOWS}
            assert answers(on.push(batches)) == answers(off.push(batches))
        assert answers(on.finish()) == answers(off.finish())


def processor(**options: Any) -> wm.Processor:
    return wm.Processor(windows=WINDOWS, schemas=SCHEMAS, fabric=wm.Fabric.op_chain(2, window=6), **options)


JOIN = "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k"
OTHER = "SELECT a.x FROM a JOIN c ON a.k = c.k"


@pytest.mark.parametrize(
    "change",
    [
        lambda qp: qp.create("more", "SELECT b.y FROM b JOIN c ON b.k = c.k"),
        lambda qp: qp.queries()["p"].alter("SELECT a.x, b.y FROM last_rows(a, 7) a JOIN b ON a.k = b.k"),
        lambda qp: qp.execute(
            f"DROP QUERY q; CREATE QUERY q AS {OTHER}; CREATE QUERY r AS {OTHER.replace('=', '<')}"
        ),
    ],
)
def test_a_refused_statement_changes_nothing(change: Any) -> None:
    qp = processor()
    qp.create("p", JOIN)
    qp.create("q", OTHER)
    batches = {"a": {"k": [1], "x": [5], "name": ["n"]}, "b": {"k": [1], "y": [2.0]}}
    qp.push(batches)
    before = (
        qp.explain(),
        str(qp.fabric_assignment()),
        {name: query.sql for name, query in qp.queries().items()},
    )
    with pytest.raises(wm.FabricError, match="must fit the fabric"):
        change(qp)
    assert before == (
        qp.explain(),
        str(qp.fabric_assignment()),
        {name: query.sql for name, query in qp.queries().items()},
    )
    assert answers(qp.push(batches)) == {"p": [{"x": 5, "y": 2.0}] * 3, "q": []}


def test_whatever_interrupts_a_statement_the_assignment_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    qp = processor()
    qp.create("p", JOIN)
    before = str(qp.fabric_assignment())
    with monkeypatch.context() as broken:
        broken.setattr(Graph, "become", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            qp.create("q", OTHER)
        with pytest.raises(ZeroDivisionError):
            qp.drop("p")
    assert str(qp.fabric_assignment()) == before
    qp.create("q", OTHER)
    assert set(qp.fabric_assignment().placements) == {"p", "q"}


def test_dropping_a_query_makes_room() -> None:
    qp = processor()
    qp.create("p", JOIN)
    qp.create("q", OTHER)
    with pytest.raises(
        wm.FabricError, match=re.escape("block1: taken by inner join of a, b on a.k = b.k of p; block2: ")
    ):
        qp.create("r", "SELECT b.y FROM b JOIN c ON b.k = c.k")
    qp.drop("p")
    qp.create("r", "SELECT b.y FROM b JOIN c ON b.k = c.k")


def test_a_query_that_waits_and_turns_out_not_to_fit_is_stopped_and_no_other() -> None:
    qp = wm.Processor(windows=WINDOWS, fabric=wm.Fabric.op_chain(1, window=6))
    first = qp.create("first", JOIN)
    second = qp.create("second", OTHER)
    empty = {name: rows(Random(0), name, 0) for name in WINDOWS}
    out = qp.push({"a": empty["a"], "b": empty["b"]})
    assert (first.state, second.state, out.stopped) == ("running", "waiting", {})
    out = qp.push({"c": empty["c"]})
    assert (first.state, second.state) == ("running", "stopped")
    assert "query 'second' must fit the fabric beside the others" in out.stopped["second"]
    assert second.reason == out.stopped["second"]
    assert set(qp.fabric_assignment().placements) == {"first"}
    first.drop()
    second.alter(OTHER)
    assert second.state == "running"


def test_equal_joins_that_begin_at_other_moments_have_blocks_of_their_own() -> None:
    qp = processor()
    qp.create("p", JOIN)
    qp.create("same", "SELECT b.y FROM b, a WHERE a.k = b.k")
    with pytest.raises(wm.FabricError):
        qp.create("third", OTHER)
    qp.drop("same")
    qp.create("same", JOIN)
    assert len({slots for one in qp.fabric_assignment().placements.values() for _, slots in one}) == 1
    qp.push(a={"k": [1], "x": [5], "name": ["n"]})
    qp.create("later", JOIN)
    assert len({slots for one in qp.fabric_assignment().placements.values() for _, slots in one}) == 2


def test_a_time_window_holds_as_many_rows_as_the_fabric_was_told() -> None:
    window = wm.Range("1 s", time="ts")
    schemas = {name: {"ts": pa.timestamp("us"), "k": pa.int32()} for name in ("trades", "quotes")}
    text = "SELECT t.k FROM trades t JOIN quotes q ON t.k = q.k"
    chain = wm.Fabric.op_chain(2, window=100)
    qp = wm.Processor(trades=window, quotes=window, schemas=schemas, fabric=chain)
    with pytest.raises(wm.FabricError, match=r"or say with fabric\.holding"):
        qp.create("q", text)
    qp = wm.Processor(
        trades=window, quotes=window, schemas=schemas, fabric=chain.holding(trades=150, quotes=80)
    )
    qp.create("q", text)
    assert qp.fabric_assignment().assignment.slots == 2


def test_what_is_shown_can_be_read_by_programs() -> None:
    qp = processor()
    qp.create("p", JOIN + " WHERE a.x > 3 AND a.name = 'O''Brien'")
    shown = qp.fabric_assignment()
    data = json.loads(shown.to_json())
    assert (data["slots"], data["proven"], list(data["results"])) == (2, True, ["p"])
    assert {one["name"] for one in data["inputs"]} == {"a", "b"}
    assert all(0 <= word < 1 << 80 for word in shown.words())
    assert "a.name = 'O\\'Brien'" in str(shown)
    assert "* join (p)" in shown.draw()


def test_options_are_checked() -> None:
    with pytest.raises(
        wm.OptionError, match=r"fabric= must be a Fabric, such as Fabric.op_chain\(8\); got 'chain'"
    ):
        wm.Processor(a=wm.Rows(1), fabric="chain")  # type: ignore[arg-type]
    with pytest.raises(
        wm.OptionError, match=r"fabric_assignment\(\) is of a processor with a fabric; got one without"
    ):
        wm.Processor(a=wm.Rows(1)).fabric_assignment()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT k FROM a WHERE x > -3", "a.x > -3"),
        ("SELECT k FROM a WHERE 3.5 < x", "a.x > 3.5"),
        ("SELECT k FROM c WHERE z = 1.25", "c.z = 1.25"),
        ("SELECT k FROM a WHERE name <> 'é'", "a.name <> 'é'"),
        ("SELECT a.k FROM a JOIN b ON b.y BETWEEN a.x - 1 AND a.x + 2", "b.y <= a.x + 2"),
        ("SELECT a.k FROM a JOIN b ON a.x - 1 <= b.y", "b.y >= a.x + -1"),
        ("SELECT k FROM a WHERE name LIKE 'n%'", "a.name 'n%' like"),
        ("SELECT k FROM a WHERE x IS NULL OR x IN (1, 2)", "is_null"),
        ("SELECT CAST(x AS DOUBLE) AS d FROM a", "cast:double"),
    ],
)
def test_expressions_become_comparisons_or_code(text: str, words: str) -> None:
    fabric = wm.Fabric.op_chain(1, window=6, memory=100, computes=True)
    qp = wm.Processor(windows=WINDOWS, schemas=SCHEMAS, fabric=fabric)
    qp.create("q", text)
    assert words in str(qp.fabric_assignment())
    check(qp.fabric_assignment().assignment)


def test_a_saved_processor_stands_in_its_fabric_as_before(tmp_path: Path) -> None:
    fabric = wm.Fabric.op_chain(4, window=6)
    qp = wm.Processor(windows=WINDOWS, schemas=SCHEMAS, fabric=fabric)
    qp.create("first", OTHER)
    qp.create("p", JOIN + " WHERE a.x > 3")
    qp.create("q", "SELECT b.y FROM b JOIN c ON b.k = c.k WHERE b.y > 1.0")
    qp.drop("first")
    batches = {"a": {"k": [1], "x": [5], "name": ["n"]}, "b": {"k": [1], "y": [2.0]}}
    qp.push(batches)
    qp.save(tmp_path / "state")
    loaded = wm.Processor.load(tmp_path / "state")
    assert str(loaded.fabric_assignment()) == str(qp.fabric_assignment())
    assert answers(loaded.push(batches)) == answers(qp.push(batches))
    refused = "SELECT a.x FROM last_rows(a, 20) a JOIN last_rows(b, 20) b ON a.x = b.y"
    for one in (qp, loaded):
        with pytest.raises(wm.FabricError, match="must fit the fabric beside the others"):
            one.create("more", refused)


def test_a_table_takes_as_many_rows_as_it_has(tmp_path: Path) -> None:
    table = {"k": pa.array(range(9), pa.int32()), "note": [f"n{k}" for k in range(9)]}
    text = "SELECT a.x, names.note FROM a JOIN names ON a.k = names.k"
    for blocks in (1, 2):
        qp = wm.Processor(
            windows=WINDOWS,
            schemas=SCHEMAS,
            tables={"names": table},
            fabric=wm.Fabric.op_chain(blocks, window=5),
        )
        if blocks == 1:
            with pytest.raises(wm.FabricError, match="a join of 2 streams within 9 rows"):
                qp.create("q", text)
    qp.create("q", text)
    qp.save(tmp_path / "state")
    assert str(wm.Processor.load(tmp_path / "state").fabric_assignment()) == str(qp.fabric_assignment())
