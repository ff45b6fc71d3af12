"""Joins of derived streams against the dull oracle, in every split, saved and loaded anywhere; against DuckDB; refusals; interruptions."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from derived_oracle import LATENESS, TABLE, Distinct, Join, Row, Stream, UnionAll, Window, Windows, written
from harness import examples
from interruptions import every_step
from strategies import in_pushes
from test_processor_state import again
from test_processor_warm import WATERMARK

SCHEMA = pa.schema({"k": pa.string(), "x": pa.int64(), "ts": pa.int64()})
Arrival = tuple[str, Row]
OWN = {name: wm.Range(5, time="ts", lateness=LATENESS) for name in "abc"}
SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=8)


def arrivals(chance: Random, most: int = 22) -> list[Arrival]:
    """Times move on, with some disorder: some rows are late."""
    return [
        (
            chance.choice("abc"),
            {
                "k": chance.choice(["a", "a", "b", None]),
                "x": chance.choice([None, 0, 1, 2]),
                "ts": number // 2 + chance.randint(0, 6),
            },
        )
        for number in range(chance.randint(most // 2, most))
    ]


def processor(watermark: str = "row", own: Any = OWN) -> wm.Processor:
    table = pa.Table.from_pylist(TABLE, SCHEMA)
    return wm.Processor(
        windows=own, schemas=dict.fromkeys("abc", SCHEMA), tables={"t": table}, watermark=watermark
    )


def push(qp: wm.Processor, events: Sequence[Arrival]) -> Any:
    names = [name for name, _ in events]
    present = list(dict.fromkeys(names))
    batches = {
        name: pa.RecordBatch.from_pylist([row for one, row in events if one == name], SCHEMA)
        for name in present
    }
    in_turn = names == sorted(names, key=present.index)
    return qp.push(batches, **({} if in_turn else {"order": names}))


def rows_of(result: wm.Result) -> Counter[Any]:
    table = result.to_arrow()
    found = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert sum(found.values()) == result.count
    return found


# ---- what can be asked ----------------------------------------------------------------------------------------------

HOWS = ["inner", "inner", "left", "right", "full", "semi", "anti", "right semi", "right anti"]


def source(chance: Random, depth: int) -> Any:
    """A stream, or something that is made of streams."""
    return Stream(chance.choice("abc")) if depth < 0 or chance.random() < 0.4 else derived(chance, depth)


def derived(chance: Random, depth: int) -> Any:
    kind = chance.choice(["union", "distinct", "windows", *["join"] * (3 * (depth > 0))])
    below = [source(chance, depth - 1) for _ in range(2)]
    if kind == "union":
        return UnionAll(tuple(below))
    if kind == "distinct":
        return Distinct(below[0])
    if kind == "windows":
        timed = below[0] if below[0].ticks() is not None else Stream("a")
        return Windows(timed, chance.randint(1, 4))
    return join(chance, below)


def join(chance: Random, inputs: list[Any]) -> Join:
    """A join of these, and perhaps of a table or another stream, that is not refused."""
    inputs = list(inputs)
    if chance.random() < 0.2:
        inputs[1] = Stream("t")
    if chance.random() < 0.2:
        inputs.append(Stream(chance.choice("abct")))
    how = "inner" if len(inputs) > 2 else chance.choice(HOWS)
    kept = [k for k, one in enumerate(inputs) if one != Stream("t")]
    kinds = ["unbounded"]
    if all(inputs[k].ticks() is not None for k in kept):
        kinds += ["range"] * 3
    if all(inputs[k].placed for k in kept):
        kinds += ["rows"] * 2
    kind = chance.choice(kinds)
    windows: list[Window] = []
    for k in range(len(inputs)):
        if k not in kept or kind == "unbounded" or (kind == "rows" and chance.random() < 0.25):
            windows.append(("unbounded", 0))
        else:
            windows.append((kind, chance.randint(1, 5)))
    greatest = kind == "range" and len(kept) > 1 and how == "inner" and chance.random() < 0.3
    return Join(
        tuple(inputs), tuple(windows), how, chance.random() < 0.3, -1 if greatest else chance.choice(kept)
    )


def asked(chance: Random) -> Any:
    """A join of something derived, or what is made of one."""
    inputs = [derived(chance, 1), source(chance, 1)]
    chance.shuffle(inputs)
    found = join(chance, inputs) if chance.random() < 0.9 else join(chance, inputs * 2)
    if chance.random() < 0.8:
        return found
    if found.ticks() is not None and chance.random() < 0.7:
        return Windows(found, chance.randint(1, 4))
    return chance.choice([Distinct(found), UnionAll((found, Stream("a")))])


SEEDS = st.integers(0, 2**32)


def told_by(root: Any, units: Any, ended: bool) -> Counter[Any]:
    return Counter(tuple(one.row.values()) for one in root.rows(units, ended))


def in_units(pushes: Sequence[Sequence[Arrival]], watermark: str) -> Any:
    return pushes if watermark == "push" else [[row] for push in pushes for row in push]


@examples(40)
@given(SEEDS, SIZES, WATERMARK, st.integers(0, 6))
def test_joins_of_derived_streams_give_what_the_rule_says(
    seed: int, sizes: list[int], watermark: str, saved: int
) -> None:
    """After each push all that was given so far is what the rule gives for all that has come: so splits do not matter."""
    chance = Random(seed)
    root, rows = asked(chance), arrivals(chance)
    note(written(root))
    qp = processor(watermark)
    qp.create("q", written(root))
    told: Counter[Any] = Counter()
    pushes = in_pushes(rows, sizes)
    for number, events in enumerate(pushes):
        told += rows_of(push(qp, events)["q"])
        assert told == told_by(root, in_units(pushes[: number + 1], watermark), ended=False)
        if number == saved:
            qp = again(qp)
    told += rows_of(qp.finish()["q"])
    assert told == told_by(root, in_units(pushes, watermark), ended=True)


@examples(15)
@given(SEEDS, SIZES, WATERMARK, st.integers(0, 3), st.integers(0, 3))
def test_company_and_a_warm_start_change_nothing(
    seed: int, sizes: list[int], watermark: str, starts: int, dropped: int
) -> None:
    """Streams here keep all rows: a warm query knows everything, and its backfill is what the other has told."""
    chance = Random(seed)
    root, rows = asked(chance), arrivals(chance)
    sql = written(root)
    note(sql)
    wide = dict.fromkeys("abc", wm.Range(1000, time="ts", lateness=LATENESS))
    there, other = processor(watermark, wide), processor(watermark, wide)
    there.create("q", sql)
    other.create("same", sql)
    before: Counter[Any] = Counter()
    pushes = in_pushes(rows, sizes)
    for events in pushes[:starts]:
        before += rows_of(push(there, events)["q"])
        push(other, events)
    query = other.create("q", sql, start="warm", backfill=True)
    other.create("cold", sql)
    assert query.backfill is not None
    assert rows_of(query.backfill) == before
    for number, events in enumerate(pushes[starts:]):
        results, wanted = push(other, events), rows_of(push(there, events)["q"])
        assert rows_of(results["q"]) == wanted
        assert "same" not in results or rows_of(results["same"]) == wanted
        if number == dropped:
            other.drop("same")
    assert rows_of(other.finish()["q"]) == rows_of(there.finish()["q"])


@examples(10)
@given(SEEDS, SIZES, WATERMARK)
def test_a_query_that_has_waited_loses_nothing(seed: int, sizes: list[int], watermark: str) -> None:
    chance = Random(seed)
    root, rows = asked(chance), arrivals(chance)
    sql = written(root)
    note(sql)
    there = processor(watermark)
    table = pa.Table.from_pylist(TABLE, SCHEMA)
    waits = wm.Processor(windows=OWN, tables={"t": table}, watermark=watermark)
    for qp in (there, waits):
        qp.create("q", sql)
    told, wanted = Counter[Any](), Counter[Any]()
    pushes = in_pushes(rows, sizes)
    for events in pushes:
        wanted += rows_of(push(there, events)["q"])
        results = push(waits, events)
        told += rows_of(results["q"]) if "q" in results else Counter()
        assert waits.queries()["q"].state == "waiting" or told == wanted


def forever(chance: Random, depth: int) -> Any:
    """What DuckDB can be asked on finished data."""
    if depth < 0:
        return Stream(chance.choice("abc"))
    below = [forever(chance, depth - 1 - chance.randint(0, 1)) for _ in range(2)]
    kind = chance.choice(["union", "distinct", "join", "join"])
    if kind == "union":
        return UnionAll(tuple(below))
    if kind == "distinct":
        return Distinct(below[0])
    how = chance.choice(HOWS[:7])
    return Join(tuple(below), (("unbounded", 0),) * 2, how, chance.random() < 0.3, plain=True)


@examples(25)
@given(SEEDS, SIZES)
def test_a_text_without_windows_is_what_duckdb_says_of_finished_data(seed: int, sizes: list[int]) -> None:
    chance = Random(seed)
    root, rows = forever(chance, 2), arrivals(chance)
    while not isinstance(root, Join):
        root = forever(chance, 2)
    sql = written(root)
    note(sql)
    qp = processor(own=dict.fromkeys("abc", wm.Unbounded()))
    qp.create("q", sql)
    told: Counter[Any] = Counter()
    for events in in_pushes(rows, sizes):
        told += rows_of(push(qp, events)["q"])
    told += rows_of(qp.finish()["q"])
    connection = duckdb.connect()
    for name in "abc":
        connection.register(name, pa.Table.from_pylist([row for one, row in rows if one == name], SCHEMA))
    assert told == Counter(
        connection.sql(sql.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")).fetchall()
    )


# ---- interruptions --------------------------------------------------------------------------------------------------

SAMPLE, MANY = 12, 600  # steps a case, in the default suite and in the slow tests
QUERIES = {
    "of a join": "WITH d AS (SELECT a.k, b.x, a.ts FROM a JOIN b ON a.k = b.k) "
    "SELECT d.k, c.x, d.ts FROM last_range(d, 4) d LEFT JOIN c ON d.k = c.k",
    "of a union": "WITH d AS (SELECT k, x FROM a UNION ALL SELECT k, x FROM b) "
    "SELECT d.k, c.x FROM last_rows(d, 5) d FULL JOIN last_rows(c, 4) c ON d.k = c.k",
    "of distinct": "WITH d AS (SELECT DISTINCT k FROM a) SELECT b.k, b.x, b.ts FROM unbounded(b) b SEMI JOIN unbounded(d) d ON b.k = d.k",
    "of windows": "WITH d AS (SELECT k, COUNT(*) AS n, window.end AS e FROM a GROUP BY k, window(ts, 2)) "
    "SELECT window.start, SUM(n) AS n FROM (SELECT d.e, d.n FROM last_range(d, 3) d JOIN b ON d.k = b.k) GROUP BY window(e, 4)",
    "three": "WITH d AS (SELECT a.k, b.x, a.ts FROM a JOIN b ON a.k = b.k), "
    "e AS (SELECT d.k, d.ts FROM last_range(d, 4) d JOIN c ON d.k = c.k) "
    "SELECT e.k, t.x, d.x AS y FROM last_range(d, 2) d, last_range(e, 3) e, t WHERE d.k = e.k AND e.k = t.k",
}  # fmt: skip


def batch(number: int) -> list[Arrival]:
    return [
        (name, {"k": "ab"[(at + number) % 2], "x": at, "ts": number * 2 + (at + number) % 3})
        for at, name in enumerate("abcab")
    ]


def listed(results: Any) -> Any:
    return {name: sorted(map(str, result.to_arrow().to_pylist())) for name, result in results.items()}


def started() -> wm.Processor:
    qp = processor()
    for name, sql in QUERIES.items():
        qp.create(name, sql)
    for number in range(3):
        push(qp, batch(number))
    return qp


def standing(qp: wm.Processor) -> Any:
    """What the processor says of itself, and all that its blocks remember, as of calls that count."""
    qp._running.mend()
    tables = {
        key: {name: table.to_pylist() for name, table in block.snapshot().items()}
        for key, block in qp._running.graph.blocks.items()
    }
    return qp.explain(), tables


def altered(qp: wm.Processor) -> Any:
    """Another select list over the same join, another join, and a query less."""
    qp.execute(
        f"ALTER QUERY `of a join` AS {QUERIES['of a join'].replace('SELECT d.k, c.x, d.ts FROM', 'SELECT c.x FROM')}; "
        f"ALTER QUERY `of a union` AS {QUERIES['of a union'].replace('5', '3')}; DROP QUERY three"
    )
    return {}


def warmed(qp: wm.Processor) -> Any:
    query = qp.create("warm", QUERIES["three"], start="warm", backfill=True)
    return {"warm": query.backfill}


OPERATIONS: dict[str, Callable[[wm.Processor], Any]] = {
    "push": lambda qp: push(qp, batch(6)),
    "finish": lambda qp: qp.finish(),
    "alter": altered,
    "warm": warmed,
}


def interrupted(operation: str, at_most: int) -> None:
    def rest(qp: wm.Processor) -> Any:
        if operation == "finish":
            return []
        return [listed(push(qp, batch(7))), listed(push(qp, batch(9))), qp.explain(), listed(qp.finish())]

    undisturbed = started()
    wanted = listed(OPERATIONS[operation](undisturbed))
    after = rest(undisturbed)

    def check(qp: wm.Processor, given: Any) -> None:
        assert listed(given) == wanted
        assert rest(qp) == after

    every_step(started, OPERATIONS[operation], check, at_most=at_most, standing=standing)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupted_call_is_undone(operation: str) -> None:
    interrupted(operation, SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_call_interrupted_at_many_steps_is_undone(operation: str) -> None:
    interrupted(operation, MANY)
