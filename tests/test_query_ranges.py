"""Counts, sums and averages over a join from ranges are, bit for bit and row for row, those of listed pairs and of the interpreter."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import test_query_groups as groups
import test_query_interruptions as interruptions
import watersmeet as wm
from harness import examples
from interruptions import every_step
from query_interpreter import Arrival, Asked
from strategies import in_pushes
from watersmeet.aggregate.aggregation import Aggregation, Folded
from watersmeet.aggregate.amounts import Amounts, Numbers
from watersmeet.aggregate.spec import Aggregate, Grouping
from watersmeet.join.access import FEW
from watersmeet.query.from_ranges import WORTH, FromRanges

EVERYTHING = 10**9


@contextmanager
def folding(worth: int, buffered: int = 0) -> Iterator[list[int]]:
    """Small runs are runs too. ``worth``: how soon ranges are folded. Gives how many rows were, a push each."""
    seen: list[int] = []
    folded = FromRanges.folded

    def noted(*args: Any) -> Any:
        found = folded(*args)
        if found is not None:
            seen.append(int(found[0].counts.sum()))
        return found

    with (
        mock.patch("watersmeet.index.bi_sort.BUFFERED", buffered),
        mock.patch("watersmeet.join.access.PARALLEL", 2),
        mock.patch("watersmeet.join.access.FEW", 0.0 if worth == EVERYTHING else FEW),
        mock.patch("watersmeet.query.from_ranges.WORTH", worth),
        mock.patch.object(FromRanges, "folded", noted),
    ):
        yield seen


def listing() -> Any:
    """All pairs are listed."""
    return mock.patch("watersmeet.query.graph.sides_of", return_value=None)


# ---- against the interpreter ------------------------------------------------------------------------------------

JOINED = ("COUNT(*)", "COUNT(x)", "SUM(x)", "SUM(y)", "AVG(x)", "COUNT(*) FILTER (WHERE x > 1)")


@st.composite
def joined(draw: st.DrawFn) -> Asked:
    keys = draw(st.lists(st.sampled_from(["k", "x > 1", "COALESCE(x, 7)", "y"]), max_size=2, unique=True))
    aggregates = draw(st.lists(st.sampled_from(JOINED), min_size=1, max_size=3, unique=True))
    asked = Asked("join", tuple(keys), tuple(aggregates), draw(st.booleans()))
    emit = draw(st.sampled_from(["complete", "changelog", "update"]))
    if emit == "complete" and draw(st.booleans()):
        order = draw(st.lists(st.tuples(st.integers(0, len(asked.names) - 1), groups.HOW), max_size=1))
        asked = replace(asked, order=tuple(order), limit=draw(st.integers(0, 3)))
    return replace(asked, emit=emit)


@examples(30)
@given(joined(), groups.arrivals(), groups.SIZES)
def test_the_answer_is_the_interpreters(asked: Asked, rows: list[Arrival], sizes: list[int]) -> None:
    note(f"{asked.emit}: {asked.sql}")
    with folding(EVERYTHING):
        qp = groups.processor()
        qp.create("q", asked.sql, emit=asked.emit)
        seen: list[Arrival] = []
        known: Any = [], {}
        for number, events in enumerate(in_pushes(rows, sizes)):
            results = groups.push(qp, events)
            assert not results.stopped
            seen += events
            known = groups.check(asked, seen, known, results["q"], f"push {number}")


# ---- against listed pairs ---------------------------------------------------------------------------------------

DECIMALS = [Decimal("0.01"), Decimal("-999.99"), Decimal("123.45")]
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [0, 1, -128, 127],
    pa.int64(): [0, 1, -(2**63), 2**63 - 1, 12345678901],
    pa.uint64(): [0, 1, 2**64 - 1],
    pa.float32(): [0.0, -0.0, 1.5, -(2.0**-149), 2.0**127],
    pa.float64(): [0.1, -0.1, 1e300, -1e300, 5e-324, -0.0, float("nan"), float("inf"), float("-inf")],
    pa.decimal128(5, 2): DECIMALS,
    pa.decimal128(38, 2): [*DECIMALS, Decimal(10**35), Decimal(-(10**35))],
    pa.decimal256(50, 2): [*DECIMALS, Decimal(10**40)],
}
NUMBERS = list(VALUES)
TEXTS = ["a", "b", "ß", "", None]
BAND = "t.p BETWEEN q.p - 2 AND q.p + 2"
CONDITIONS = (BAND, f"{BAND} AND t.v IS NOT NULL", "t.p <= q.p", "t.p = q.p", "t.p <> q.p", "t.s = q.s")
KEYS = ("", "t.s", "q.s", "t.p % 3", "q.s, q.p", "t.p, t.s", "1")
ASKED = ("COUNT(*)", "COUNT(t.v)", "COUNT(q.s)", "SUM(t.v)", "SUM(q.v)", "AVG(t.v)", "AVG(q.v)", "SUM(q.p + 1)", "SUM(2)")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A query over streams t and q: price p, text s, value v of some type, time ts."""

    types: tuple[pa.DataType, pa.DataType]
    windows: tuple[Any, Any]
    sql: str
    emit: str
    rows: tuple[tuple[str, dict[str, Any]], ...]
    sizes: tuple[int, ...]
    cores: int
    in_turn: bool  # within a push first one stream's rows come, then the other's

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        return {
            name: pa.schema({"p": pa.int64(), "s": pa.string(), "v": kind, "ts": pa.int64()})
            for name, kind in zip("tq", self.types, strict=True)
        }

    def processor(self) -> wm.Processor:
        qp = wm.Processor(
            windows=dict(zip("tq", self.windows, strict=True)), schemas=self.schemas, cores=self.cores
        )
        qp.create("asked", self.sql, emit=self.emit)
        return qp

    @property
    def pushes(self) -> Sequence[Sequence[tuple[str, dict[str, Any]]]]:
        pushes = in_pushes(list(self.rows), list(self.sizes))
        return [sorted(events, key=lambda event: event[0] * self.in_turn) for events in pushes]

    def push(self, qp: wm.Processor, events: Sequence[tuple[str, dict[str, Any]]]) -> Any:
        names = [name for name, _ in events]
        present = list(dict.fromkeys(names))
        batches = {
            one: pa.RecordBatch.from_pylist([row for name, row in events if name == one], self.schemas[one])
            for one in present
        }
        in_turn = names == sorted(names, key=present.index)
        return qp.push(batches, **({} if in_turn else {"order": names}))


def told(results: Any) -> dict[str, str]:
    """All that a push gives, bit for bit, in its order."""
    assert not results.stopped
    return {
        name: repr((result.to_arrow().to_pylist(), {k: v.to_pylist() for k, v in result.late.items()}))
        for name, result in results.items()
    }


WINDOWS = st.one_of(
    st.integers(1, 40).map(wm.Rows),
    st.builds(lambda n, late: wm.Range(n, time="ts", lateness=late), st.integers(0, 9), st.integers(0, 3)),
    st.just(wm.Unbounded()),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    types = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(NUMBERS))
    by = draw(st.sampled_from(KEYS))
    aggregates = draw(st.lists(st.sampled_from(ASKED), min_size=1, max_size=4, unique=True))
    items = ", ".join([*([by] if by else []), *(f"{text} AS a{n}" for n, text in enumerate(aggregates))])
    emit = draw(st.sampled_from(["complete", "changelog", "update"]))
    sql = f"SELECT {items} FROM t JOIN q ON {draw(st.sampled_from(CONDITIONS))}"
    sql += f" GROUP BY {by}" if by else ""
    if emit == "complete" and draw(st.booleans()):
        sql += f" LIMIT {draw(st.integers(1, 4))}"  # the first groups by their first pairs
    sizes = tuple(draw(st.lists(st.integers(1, 60), min_size=1, max_size=3)))
    rows = some_rows(types, draw(st.integers(1, 150)), draw(st.integers(0, 10**6)))
    cores, in_turn = draw(st.sampled_from([1, 2])), draw(st.booleans())
    return Case(types, (draw(WINDOWS), draw(WINDOWS)), sql, emit, tuple(rows), sizes, cores, in_turn)


def some_rows(types: Sequence[pa.DataType], count: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Times move on, with some disorder."""
    random = Random(seed)
    for number in range(count):
        k = random.randrange(2)
        value = random.choice([*VALUES[types[k]], None])
        price = None if random.random() < 0.1 else random.randrange(10)
        row = {"p": price, "s": random.choice(TEXTS), "v": value, "ts": number // 4 - random.randrange(3)}
        yield "tq"[k], row


@examples(60)
@given(cases(), st.sampled_from([EVERYTHING, EVERYTHING, 1]))
def test_the_answer_is_that_of_listed_pairs(case: Case, worth: int) -> None:
    note(f"{case.emit}: {case.sql} {case.windows}")
    with folding(worth):
        with listing():
            other = case.processor()
        qp = case.processor()
        for number, events in enumerate(case.pushes):
            assert told(case.push(qp, events)) == told(case.push(other, events)), f"push {number}"
        assert told(qp.finish()) == told(other.finish())


@examples(20)
@given(cases(), st.data())
def test_the_answer_stays_the_same_in_any_company(case: Case, data: st.DataObject) -> None:
    """Saved and loaded, begun warm, with another query that lists the same join."""
    note(f"{case.emit}: {case.sql} {case.windows}")
    condition = case.sql.partition(" FROM ")[2].partition(" GROUP ")[0].partition(" LIMIT ")[0]
    moments = [data.draw(st.integers(0, 3), label=what) for what in ("lists", "drops", "saves", "warm")]
    with folding(EVERYTHING):
        with listing():
            other = case.processor()
        qp = case.processor()
        for number, events in enumerate(case.pushes):
            if number == moments[0]:
                qp.create("pairs", f"SELECT t.p, q.p AS other FROM {condition}")
            if number == moments[0] + moments[1] + 1:
                qp.drop("pairs")
            if number == moments[2]:
                with TemporaryDirectory() as place:
                    qp.save(place)
                    qp = wm.Processor.load(place)
            if number == moments[3]:
                qp.create("warm", case.sql, emit=case.emit, start="warm")
                with listing():
                    other.create("warm", case.sql, emit=case.emit, start="warm")
            mine = told(case.push(qp, events))
            mine.pop("pairs", None)
            assert mine == told(case.push(other, events)), f"push {number}"


# ---- large runs -------------------------------------------------------------------------------------------------

LARGE = pa.schema({"p": pa.int64(), "s": pa.string(), "v": pa.float64(), "ts": pa.int64()})
QUERIES = {
    "all": f"SELECT COUNT(*) AS n, SUM(q.v) AS s, AVG(t.v) AS a FROM t JOIN q ON {BAND}",
    "by t": f"SELECT t.s, COUNT(q.v) AS n, SUM(q.v) AS total, SUM(t.v) AS a FROM t JOIN q ON {BAND} GROUP BY t.s",
    "by q": f"SELECT q.s, COUNT(*) AS n, AVG(q.v) AS mean, SUM(t.v) AS a FROM t JOIN q ON {BAND} GROUP BY q.s",
}


def large(number: int, rows: int = 800) -> dict[str, pa.RecordBatch]:
    rng = np.random.default_rng(number)

    def batch() -> pa.RecordBatch:
        values = rng.standard_normal(rows) * 10.0 ** rng.integers(-20, 20, rows)
        columns = [
            pa.array(rng.integers(0, 200, rows)),
            pa.array(rng.choice(["a", "b", "c"], rows)),
            pa.array(values, mask=rng.random(rows) < 0.1),
            pa.array(number * 100 + np.arange(rows) // 8 - rng.integers(0, 3, rows)),
        ]
        return pa.record_batch(columns, schema=LARGE)

    return {"t": batch(), "q": batch()}


def processor(window: Any, **options: Any) -> wm.Processor:
    qp = wm.Processor(t=window, q=window, schemas={"t": LARGE, "q": LARGE}, **options)
    for name, sql in QUERIES.items():
        qp.create(name, sql)
    return qp


@pytest.mark.parametrize(
    "window", [wm.Rows(2000), wm.Range(250, time="ts", lateness=1), wm.Unbounded()], ids=str
)
@pytest.mark.parametrize("order", [None, "ts"], ids=["in turn", "by time"])
def test_most_pairs_of_large_runs_are_never_listed(window: Any, order: str | None) -> None:
    """With the sizes and the choice that users have. All queries together, against each alone: those share no blocks."""
    with folding(WORTH, buffered=1024) as folded:
        with listing():
            other = processor(window, cores=1)
        qp = processor(window, cores=2)
        for number in range(5):
            options = {} if order is None else {"order": order}
            mine, theirs = qp.push(large(number), **options), other.push(large(number), **options)
            assert told(mine) == told(theirs)
        pairs = other.push(large(9))["all"].to_arrow()["n"][0].as_py()
        assert qp.push(large(9))["all"].to_arrow()["n"][0].as_py() == pairs
    assert sum(folded) > 0.5 * len(QUERIES) * pairs
    assert qp.explain().count("from ranges") == len(QUERIES)
    assert "from ranges" not in other.explain()


# ---- who lists --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "by_ranges"),
    [
        (f"SELECT COUNT(*) AS n FROM t JOIN q ON {BAND}", True),
        (f"SELECT t.s, q.s AS other, COUNT(*) AS n FROM t JOIN q ON {BAND} GROUP BY t.s, q.s", False),
        (f"SELECT SUM(t.v * q.v) AS n FROM t JOIN q ON {BAND}", False),
        (f"SELECT MAX(q.v) AS n FROM t JOIN q ON {BAND}", False),
        (f"SELECT COUNT(*) AS n FROM t LEFT JOIN q ON {BAND}", False),
        (f"SELECT COUNT(*) AS n FROM t JOIN q ON {BAND} AND t.s < q.s", False),
        (f"SELECT COUNT(*) AS n FROM t JOIN t AS q ON {BAND}", False),
    ],
)
def test_ranges_serve_where_keys_decide_and_counts_and_sums_are_asked_for(sql: str, by_ranges: bool) -> None:
    qp = wm.Processor(t=wm.Rows(100), q=wm.Rows(100), schemas={"t": LARGE, "q": LARGE})
    qp.create("asked", sql)
    qp.push(large(0, 50))
    assert ("from ranges" in qp.explain()) == by_ranges


def test_a_join_that_somebody_lists_is_listed_for_all() -> None:
    qp = processor(wm.Rows(100))
    qp.create("pairs", f"SELECT t.p FROM t JOIN q ON {BAND}")
    assert "from ranges" not in qp.explain()
    qp.drop("pairs")
    assert qp.explain().count("from ranges") == len(QUERIES)


# ---- all or nothing ---------------------------------------------------------------------------------------------


def test_an_interrupted_push_is_undone() -> None:
    def push(qp: wm.Processor, number: int) -> Any:
        return qp.push(large(number, 30))

    def started() -> wm.Processor:
        qp = processor(wm.Range(199, time="ts", lateness=1))  # rows of push 0 are seen by some of push 2
        push(qp, 0)
        push(qp, 1)
        return qp

    with folding(EVERYTHING) as folded:
        undisturbed = started()
        wanted = told(push(undisturbed, 2))
        after = [told(push(undisturbed, 3)), told(undisturbed.finish())]
        assert folded

        def check(qp: wm.Processor, given: Any) -> None:
            assert told(given) == wanted
            assert [told(push(qp, 3)), told(qp.finish())] == after

        every_step(started, lambda qp: push(qp, 2), check, at_most=12, standing=interruptions.standing)


# ---- amounts ----------------------------------------------------------------------------------------------------


@examples(60)
@given(st.sampled_from(NUMBERS), st.integers(0, 10**6))
def test_amounts_are_the_same_by_every_way(kind: pa.DataType, seed: int) -> None:
    """One by one, so many times, and as differences of running amounts; each added to others that are there."""
    random = Random(seed)
    values = [random.choice([*VALUES[kind], None]) for _ in range(random.randrange(1, 20))]
    rows = [{"g": random.randrange(3), "v": value} for value in values]
    spans = sorted(random.choices(range(len(rows) + 1), k=2) for _ in range(4))
    spans = [(min(span), max(span)) for span in spans]
    grouping = Grouping(
        ("g",), (Aggregate("sum", "v", "s"), Aggregate("avg", "v", "a"), Aggregate("count", "v", "n"))
    )
    schema = pa.schema({"g": pa.int64(), "v": kind})
    batch = pa.RecordBatch.from_pylist(rows, schema)
    numbers = Numbers.of(batch["v"], True)

    dull = Aggregation(grouping, schema)
    dull.add(batch)
    folds: list[tuple[np.ndarray, Amounts]] = []
    for group, (start, end) in enumerate(spans):  # by running amounts: all of a span into one group
        dull.add(pa.RecordBatch.from_pylist([{**row, "g": group % 3} for row in rows[start:end]], schema))
    out = numbers.amounts(3)
    starts, ends = (np.array(column, np.int32) for column in zip(*spans, strict=True))
    out.add_spans(numbers.running(np.arange(len(rows), dtype=np.int32)), starts, ends, np.arange(4) % 3)
    folds.append((np.bincount(np.arange(4) % 3, ends - starts, 3).astype(np.int64), out))
    times = np.array([random.choice([0, 1, 2, 3]) for _ in rows])
    for row, often in zip(rows, times, strict=True):
        dull.add(pa.RecordBatch.from_pylist([row] * int(often), schema))
    slots, out = np.array([row["g"] for row in rows]), numbers.amounts(3)
    numbers.add_times(slots, times, out)
    folds.append((np.bincount(slots, times, 3).astype(np.int64), out))

    mine = Aggregation(grouping, schema)
    mine.add(batch)
    for counts, amounts in folds:
        keys = pa.RecordBatch.from_pylist([{"g": group} for group in range(3)], schema.remove(1))
        there = counts > 0
        folded = Folded(keys.filter(pa.array(there)), counts[there], {"v": amounts.of(there)})
        mine.add_folded(folded, batch[:0], partial(np.arange, there.sum()))
    assert repr(sorted(mine.answer().to_pylist(), key=repr)) == repr(
        sorted(dull.answer().to_pylist(), key=repr)
    )


def test_numbers_can_be_added_very_often() -> None:
    """More often than limbs have room for without carries."""
    most = 2**31 - 1
    for kind, value in (
        (pa.int64(), 2**63 - 1),
        (pa.int64(), -(2**63)),
        (pa.float64(), 1.7e308),
        (pa.float64(), -0.1),
    ):
        numbers = Numbers.of(pa.array([value] * 2000, kind), True)
        out = numbers.amounts(1)
        numbers.add_times(np.zeros(2000, np.int64), np.full(2000, most), out)
        total = sum(int(limb) << 32 * (k + out.first) for k, limb in enumerate(out.limbs[0]))
        exact = Fraction(value) * most * 2000 * (1 if kind == pa.int64() else 2**1074)
        assert total == exact
        assert out.counts[0] == most * 2000
