"""Queries that share streams give what a StreamJoin alone, or DuckDB on the finished data, would give: in whatever company and splits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, window
from oracle import Event
from strategies import in_pushes
from test_shared_streams import SCHEMAS, STREAMS, UNIT, Alone, Reader, batch, rows, runs

Rows = list[tuple[Any, ...]]
_JOINS = {"left": "LEFT", "right": "RIGHT", "full": "FULL", "semi": "LEFT SEMI", "anti": "LEFT ANTI"}


def names_and_order(events: Sequence[Event]) -> tuple[list[str], dict[str, Any]]:
    """The streams of a push in keyword order, and ``order=`` where that does not say it all."""
    names = [name for name, _ in events]
    present = list(dict.fromkeys(names))
    return present, {} if names == sorted(names, key=present.index) else {"order": names}


def push(qp: wm.Processor, events: Sequence[Event]) -> Any:
    present, order = names_and_order(events)
    return qp.push({name: batch(events, name) for name in present}, **order)


# ---- joins against a StreamJoin ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A reader's join as SQL, and the windows that are not in the text."""

    reader: Reader
    form: str  # how an inner join is written
    in_text: bool  # windows of rows, and without end, in the text

    @property
    def shown(self) -> list[str]:
        names = list(self.reader.windows)
        return names[:1] if self.reader.how in ("semi", "anti") else names

    def _from(self, name: str) -> str:
        spec = self.reader.windows[name]
        if self.in_text and spec[0] == "rows":
            return f"last_rows({name}, {spec[1]}) {name}"
        return f"unbounded({name}) {name}" if self.in_text and spec[0] == "unbounded" else name

    @property
    def sql(self) -> str:
        inputs, text = [self._from(name) for name in self.reader.windows], self.reader.condition.text
        select = ", ".join(f"{name}.id AS {name}" for name in self.shown)
        if self.reader.how != "inner":
            return f"SELECT {select} FROM {inputs[0]} {_JOINS[self.reader.how]} JOIN {inputs[1]} ON {text}"
        if self.form == "where":
            return f"SELECT {select} FROM {', '.join(inputs)} WHERE {text}"
        if self.form == "on":
            return f"SELECT {select} FROM {' JOIN '.join(inputs)} ON {text}"
        last = inputs.pop()
        return f"SELECT {select} FROM {' CROSS JOIN '.join(inputs)} JOIN {last} ON {text}"

    @property
    def own(self) -> dict[str, Any]:
        return {
            name: window(spec, UNIT)
            for name, spec in self.reader.windows.items()
            if not self.in_text or spec[0] == "range"
        }


def asked(company: Sequence[Reader]) -> st.SearchStrategy[list[Asked]]:
    forms = st.tuples(st.sampled_from(["where", "on", "cross"]), st.booleans())
    return st.tuples(*(forms for _ in company)).map(
        lambda drawn: [Asked(reader, *how) for reader, how in zip(company, drawn, strict=True)]
    )


@st.composite
def companies(draw: st.DrawFn) -> tuple[list[Asked], list[tuple[Event, ...]]]:
    company, pushes = draw(runs())
    return draw(asked(company)), pushes


def same_rows(result: wm.Result, wanted: Rows, query: Asked, where: str) -> None:
    """Both the rows that are gathered and the numbers: a stream's ids are its arrival numbers."""
    table = result.to_arrow()
    found = [[-1 if one is None else one for one in column.to_pylist()] for column in table.columns]
    width = len(query.shown)
    assert sorted(zip(*found, strict=True)) == sorted(row[:width] for row in wanted), where
    numbers = list(result.numbers().values())
    assert sorted(zip(*(column.tolist() for column in numbers), strict=True)) == wanted, where


@examples(60)
@given(companies(), st.sampled_from([1, 2]), st.booleans())
def test_a_query_gives_what_a_stream_join_alone_would_give(
    run: tuple[list[Asked], list[tuple[Event, ...]]], cores: int, declared: bool
) -> None:
    """From its creation on; where schemas are not given, what it owes comes with the push that brings the last of them."""
    company, pushes = run
    note("\n".join(query.sql for query in company))
    qp = wm.Processor(
        windows=dict.fromkeys(STREAMS, wm.Rows(7)), schemas=SCHEMAS if declared else None, cores=cores
    )
    there: dict[int, Alone] = {}
    owed: dict[int, tuple[Rows, dict[str, list[int]]]] = {}
    known = set(STREAMS) if declared else set()
    for number, events in enumerate(pushes):
        for i, query in enumerate(company):
            if query.reader.joins == number:
                qp.create(f"q{i}", query.sql, windows=query.own)
                there[i], owed[i] = Alone(query.reader), ([], {})
            if query.reader.leaves == number and i in there:
                qp.drop(f"q{i}")
                del there[i]
        results = push(qp, events)
        known |= {name for name, _ in events}
        running = [i for i in there if known >= company[i].reader.windows.keys()]
        assert list(results) == [f"q{i}" for i in running]
        for i, alone in there.items():
            found, refused_now = alone.push(events)
            owed[i][0].extend(found)
            for name, ids in refused_now.items():
                owed[i][1].setdefault(name, []).extend(ids)
        for i in running:
            wanted, late = owed[i]
            owed[i] = [], {}
            where = f"push {number}, query {i}"
            same_rows(results[f"q{i}"], sorted(wanted), company[i], where)
            refused = {name: rows.column("id").to_pylist() for name, rows in results[f"q{i}"].late.items()}
            assert refused == late, where
    ended = qp.finish()
    for i, alone in there.items():
        if f"q{i}" not in ended:
            assert not known >= company[i].reader.windows.keys()
            continue
        same_rows(ended[f"q{i}"], alone.finish(), company[i], f"the end, query {i}")


# ---- a stream under two names -----------------------------------------------------------------------------------


@examples(30)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
    st.sampled_from(["inner", "left", "full", "semi", "anti"]),
    st.tuples(*[st.sampled_from([("rows", 3), ("rows", 40), ("range", 6, "ts", 2), ("unbounded",)])] * 2),
    st.booleans(),
)
def test_a_self_join_takes_each_row_under_both_names(
    seed: int, sizes: list[int], how: str, specs: tuple[Any, Any], company: bool
) -> None:
    condition = "p.k = q.k AND p.x >= q.x"
    windows = {"p": window(specs[0], UNIT), "q": window(specs[1], UNIT)}
    kind = "JOIN" if how == "inner" else f"{_JOINS[how]} JOIN"
    shown = "p.id" if how in ("semi", "anti") else "p.id, q.id AS other"
    qp = wm.Processor(a=wm.Rows(5), b=wm.Rows(5), schemas={name: SCHEMAS[name] for name in "ab"})
    if company:
        qp.create("other", "SELECT a.id AS a, b.id AS b FROM a JOIN b ON a.k = b.k")
    pushes = in_pushes([event for event in rows(120, seed) if event[0] in "ab"], sizes)
    half = len(pushes) // 2
    alone = wm.StreamJoin(condition, windows=windows, how=how, schemas=dict.fromkeys("pq", SCHEMAS["a"]))
    other = wm.StreamJoin("a.k = b.k", a=wm.Rows(5), b=wm.Rows(5), schemas={n: SCHEMAS[n] for n in "ab"})
    for number, events in enumerate(pushes):
        if number == half:
            qp.create("self", f"SELECT {shown} FROM a p {kind} a q ON {condition}", windows=windows)
        results = push(qp, events)
        if number >= half:
            mine = batch(events, "a")
            wanted = alone.push(p=mine, q=mine, order=["p", "q"] * mine.num_rows)
            assert listed(results["self"]) == listed(wanted)
            late = {name: rows.column("id").to_pylist() for name, rows in results["self"].late.items()}
            alone_late = {name: rows.column("id").to_pylist() for name, rows in wanted.late.items()}
            assert late == {{"p": "a"}.get(name, name): ids for name, ids in alone_late.items()}
        if company:
            present, order = names_and_order(events)
            lone = other.push({name: batch(events, name) for name in present}, **order)
            assert results["other"].count == lone.count
    if pushes[half:]:
        assert listed(qp.finish()["self"]) == listed(alone.finish())


def listed(result: wm.Result) -> Rows:
    """Rows by their ids; a StreamJoin's by the columns of the same streams."""
    table = result.to_arrow()
    ids = [name for name in table.column_names if name in ("id", "other", "p_id", "q_id")]
    return sorted(zip(*(table.column(name).to_pylist() for name in ids), strict=True), key=repr)


# ---- the same text in DuckDB ------------------------------------------------------------------------------------

QUERIES = [
    "SELECT * FROM a",
    "SELECT id, x + y AS sum, upper(name) AS name FROM a WHERE x > 0 OR name = 'a'",
    "SELECT a.id, b.id FROM a JOIN b ON a.k = b.k WHERE a.x <= b.x",
    "SELECT a.id, b.id FROM a, b WHERE a.x BETWEEN b.x - 1 AND b.x + 1 AND a.k = 0",
    "SELECT a.id, b.id, c.id FROM a JOIN b ON a.k = b.k JOIN c ON c.x = b.x AND c.y > a.y",
    "SELECT a.id, b.id FROM a CROSS JOIN b WHERE a.name = b.name",
    "SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND a.x > b.x",
    "SELECT a.id, b.id, b.x FROM a LEFT JOIN b ON a.k = b.k AND a.x > b.x WHERE b.x IS NULL OR b.x > 0",
    "SELECT a.id, b.id FROM a RIGHT JOIN b ON a.x = b.x AND b.k = 0 WHERE coalesce(a.x, 1) = 1",
    "SELECT a.id, b.id FROM a FULL JOIN b ON a.x = b.x AND a.y < b.y WHERE a.id IS NULL OR b.id IS NULL OR a.k = b.k",
    "SELECT id FROM a SEMI JOIN b ON a.x = b.x WHERE a.y > 0",
    "SELECT id FROM a ANTI JOIN b ON a.x = b.x AND a.y > b.y WHERE a.k = 0",
    "SELECT id, x FROM a UNION ALL SELECT id, k FROM b WHERE k > 0 UNION ALL SELECT a.id, c.k FROM a JOIN c ON a.x = c.x",
    "WITH few AS (SELECT id, x * 2 AS double, k FROM a WHERE x > 0), fewer AS (SELECT * FROM few WHERE double < 6) "
    "SELECT fewer.id, double, b.id FROM fewer JOIN b ON fewer.k = b.k AND double >= b.x",
    "SELECT d.z, b.id FROM b LEFT JOIN (SELECT k, coalesce(x, 7) AS z, 1 AS one FROM a WHERE y > 0) d ON d.k = b.k "
    "WHERE one IS NULL OR z > 1",
    "SELECT d.z, e.id FROM (SELECT k, coalesce(x, 7) AS z FROM a WHERE y > 0) d FULL JOIN (SELECT * FROM b WHERE x > 0) e ON d.k = e.k",
    "SELECT d.k FROM (SELECT k, x FROM a WHERE y > 0) d ANTI JOIN (SELECT x FROM b WHERE k = 0) e ON d.x = e.x",
    "SELECT s + 1 AS t FROM (SELECT a.x + b.x AS s FROM a LEFT JOIN b ON a.k = b.k AND a.y = b.y) WHERE s IS NULL OR s > 1",
    "SELECT n FROM (SELECT name AS n FROM a UNION ALL SELECT name FROM b) WHERE n <> ''",
    "SELECT p.id, q.id FROM a p JOIN a q ON p.x = q.x AND p.id < q.id",
    "SELECT p.id, q.id, b.id FROM a p, b, a q WHERE p.x = b.x AND b.k = q.k AND p.y < q.y",
]  # fmt: skip


def plain(row: Sequence[Any]) -> tuple[str, ...]:
    """Values as texts that sort, NULL too; a number as itself, whatever its type."""
    return tuple(repr(value) if not isinstance(value, float) else f"{value:g}" for value in row)


@pytest.mark.parametrize("sql", QUERIES)
def test_with_unbounded_windows_a_query_is_the_sql_query(sql: str) -> None:
    @examples(4)
    @given(st.integers(0, 2**32), st.lists(st.integers(1, 40), min_size=1, max_size=4), st.booleans())
    def holds(seed: int, sizes: list[int], in_company: bool) -> None:
        events = [event for event in rows(90, seed) if event[0] in "abc"]
        streams = {name: wm.Unbounded() for name in "abc"}
        qp = wm.Processor(windows=streams, schemas={name: SCHEMAS[name] for name in "abc"})
        if in_company:
            for i, other in enumerate(QUERIES):
                qp.create(f"other {i}", other)
        query = qp.create("query", sql)
        tables = []
        for number, part in enumerate(in_pushes(events, sizes)):
            if in_company and number == 1:
                qp.drop("other 2")
            tables.append(push(qp, part)["query"].to_arrow())
        tables.append(qp.finish()["query"].to_arrow())
        assert query.state == "running"
        found = [row for table in tables for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
        with duckdb.connect() as connection:
            for name in "abc":
                connection.register(name, pa.Table.from_batches([batch(events, name)]))
            wanted = connection.execute(sql).fetchall()
        assert sorted(map(plain, found)) == sorted(map(plain, wanted))

    holds()
