"""A query that waits for a schema or a type loses nothing: in sum it gives what it gives in a processor that knew all from the start.

One processor is told the schemas, the other is not; both get the same statements and rows. What the second gives in the push in which a
query begins stands for all pushes since the query was created; from there on the two must agree push by push.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples
from interruptions import every_step
from test_processor_interruptions import standing
from test_processor_state import again
from test_processor_warm import WATERMARK
from watersmeet.query.processor import Query
from watersmeet.query.running import Results
from watersmeet.streams import history

history.LEAST = 8  # so that histories of short runs are put together too

SCHEMA = {"id": pa.int64(), "k": pa.int64(), "x": pa.int64(), "at": pa.int64()}
TABLE = {"k": [0, 1, 2], "name": ["zero", "one", "one"]}
WIDE = {"windows": {"a": wm.Rows(40), "b": wm.Unbounded()}}
OWN = {"windows": {"a": wm.Range(3, time="id"), "b": wm.Range(5, time="id", lateness=1)}}

# The text, and what else ``create`` is told. Each waits for the schema of b, or for the type of a.x.
QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "union": ("SELECT id, k FROM a WHERE k > 0 UNION ALL SELECT id, k FROM b", {}),
    "inner": ("SELECT a.id, b.id AS other FROM a JOIN b ON a.k = b.k", {}),
    "by x": ("SELECT a.id, b.id AS other FROM a JOIN b ON a.k = b.k AND (a.x >= b.x OR a.x IS NULL)", {}),
    "left": ("SELECT a.id, b.id AS other FROM a LEFT JOIN b ON a.k = b.k AND a.id < b.id", {}),
    "full": ("SELECT a.id, b.id AS other FROM a FULL JOIN b ON a.k = b.k AND a.id < b.id", {}),
    "anti": ("SELECT b.id FROM b LEFT ANTI JOIN a ON a.k = b.k", {}),
    "wide": ("SELECT a.id, b.id AS other FROM a LEFT JOIN b ON a.k = b.k", WIDE),
    "own": ("SELECT a.id, b.id AS other FROM a LEFT JOIN b ON a.k = b.k", OWN),
    "self": ("SELECT p.id, q.id AS other, b.id AS third FROM a p, a q, b WHERE p.k = q.k AND q.id <= b.id", {}),
    "twice": ("SELECT p.id, q.id AS other FROM a p JOIN a q ON p.x = q.x", {}),
    "table": ("SELECT a.id, b.id AS other, n.name FROM a, b, names n WHERE a.k = n.k AND b.k = n.k", {}),
    "named": ("SELECT a.id, n.name FROM a LEFT JOIN names n ON a.x = n.k", {}),
    "running": ("SELECT k, COUNT(*) AS n, SUM(x) AS s FROM a GROUP BY k", {}),
    "changes": ("SELECT k, COUNT(*) AS n, SUM(x) AS s FROM a GROUP BY k", {"emit": "changelog"}),
    "joined": ("SELECT a.k, COUNT(*) AS n, MAX(b.id) AS m FROM a JOIN b ON a.k = b.k GROUP BY a.k", {}),
    "whole": ("SELECT COUNT(*) AS n, SUM(x) AS s FROM a", {}),
    "last rows": ("SELECT k, COUNT(*) AS n, SUM(x) AS s FROM last_rows(a, 3) GROUP BY k", {"emit": "complete"}),
    "last range": ("SELECT k, COUNT(*) AS n, SUM(x) AS s FROM last_range(a, 4) GROUP BY k", {}),
    "slides": ("SELECT k, SUM(x) AS s FROM last_range(a, 4) GROUP BY k", {"emit": "changelog"}),
    "windows": ("SELECT window.start, COUNT(*) AS n, SUM(x) AS s FROM a GROUP BY window(at, 5)", {}),
    "open": ("SELECT window.start, COUNT(*) AS n, SUM(x) AS s FROM a GROUP BY window(at, 5)", {"emit": "update"}),
    "sessions": ("SELECT session_window.start, COUNT(*) AS n, SUM(x) AS s FROM a GROUP BY session_window(at, 2)", {}),
    "both": (
        "SELECT window.start, COUNT(*) AS n FROM (SELECT at FROM a UNION ALL SELECT at FROM b) u GROUP BY window(at, 5)",
        {},
    ),
    "distinct": ("SELECT DISTINCT k, x FROM a", {}),
    "by time": ("SELECT at, id, x FROM a ORDER BY at, x, id", {"emit": "append"}),
    "first": ("SELECT id, x FROM a LIMIT 7", {}),
    "top": ("SELECT id, x FROM a ORDER BY x DESC, id LIMIT 3", {}),
    "moved": ("SELECT id, x FROM a ORDER BY x DESC, id LIMIT 3", {"emit": "changelog"}),
    "late": ("SELECT b.id, b.x FROM b ORDER BY b.at, b.id", {"emit": "append"}),
}  # fmt: skip

STEPS = 40  # at which the push in which queries begin is interrupted
Row = tuple[Any, ...]
Event = tuple[str, dict[str, Any]]  # stream and row


class Told:
    """What a query has told in sum."""

    def __init__(self, emit: str | None, ordered: bool = False) -> None:
        self.emit, self.ordered, self.rows = emit, ordered, list[Row]()
        self.late: Counter[tuple[str, int]] = Counter()

    def take(self, result: wm.Result) -> None:
        table = result.to_arrow()
        rows = [tuple(row.values()) for row in table.to_pylist()]
        self.late.update(
            (name, n) for name, batch in result.late.items() for n in batch.column("id").to_pylist()
        )
        self.rows = rows if self.emit == "complete" else self.rows + rows

    @property
    def sum(self) -> Any:
        """The last answer; the rows in order, or in any; what is left of rows that came and went; what was last said of each group."""
        if self.emit == "in order" or (self.emit == "complete" and self.ordered):
            return self.rows
        if self.emit == "changelog":
            net: Counter[Row] = Counter()
            for *row, operation in self.rows:
                net[tuple(row)] += operation
            return {row: n for row, n in net.items() if n}
        if self.emit == "update":
            groups: dict[Any, Row] = {}
            for key, *rest in self.rows:
                groups[key] = tuple(rest)
            return {key: rest for key, rest in groups.items() if rest[-1] > 0}
        return Counter(self.rows)


def told(name: str) -> Told:
    sql, options = QUERIES[name]
    emit = options.get("emit")
    if name in ("by time", "first", "late"):
        return Told("in order")
    if name in ("top", "whole"):
        return Told("complete", "ORDER BY" in sql)
    if name in ("running", "joined", "last range"):
        return Told("update")
    return Told(emit)


def processor(schemas: bool, keep: str = "windows", watermark: str = "row") -> wm.Processor:
    given = dict.fromkeys("ab", SCHEMA) if schemas else None
    windows = {"a": wm.Range(6, time="at", lateness=2), "b": wm.Range(8, time="at", lateness=1)}
    return wm.Processor(
        windows=windows, schemas=given, tables={"names": TABLE}, keep=keep, watermark=watermark
    )


def push(qp: wm.Processor, events: Sequence[Event]) -> Any:
    order = [stream for stream, _ in events]
    rows = {name: [row for stream, row in events if stream == name] for name in dict.fromkeys(order)}
    batches = {
        name: {column: [row[column] for row in mine] for column in SCHEMA} for name, mine in rows.items()
    }
    return qp.push(batches, **({} if order == sorted(order) else {"order": order}))


def sequence(seed: int, rows: int, b_from: int, x_from: int) -> list[Event]:
    """Rows of a and b; those of b from a place on, x of a from a place on."""
    random = np.random.default_rng(seed)
    found, count = list[Event](), Counter[str]()
    for place in range(rows):
        stream = "b" if place >= b_from and random.random() < 0.5 else "a"
        x = None if (stream == "a" and place < x_from) or random.random() < 0.2 else int(random.integers(4))
        at = max(0, place // 2 + int(random.integers(-3, 3)))
        found.append((stream, {"id": count[stream], "k": int(random.integers(3)), "x": x, "at": at}))
        count[stream] += 1
    return found


def cut(events: Sequence[Event], sizes: Sequence[int]) -> list[list[Event]]:
    pushes, at = list[list[Event]](), 0
    while at < len(events):
        size = sizes[len(pushes) % len(sizes)]
        pushes.append(list(events[at : at + size]))
        at += size
    return pushes


def compare(
    names: Sequence[str],
    pushes: Sequence[Sequence[Event]],
    created: int,
    *,
    keep: str = "windows",
    ticks: Mapping[int, int] | None = None,
    loaded: int = -1,
    start: str = "now",
    watermark: str = "row",
    company: Callable[[wm.Processor], Any] = lambda qp: None,
) -> tuple[dict[str, Query], dict[str, str]]:
    """Both processors, query by query. ``ticks``: after which push the clock of a moves to which time. Returns the queries of the one that
    was not told the schemas, and which of them were stopped in the end."""
    wanted, found = processor(True, keep, watermark), processor(False, keep, watermark)
    sums = {name: (told(name), told(name)) for name in names}
    queries: dict[str, Query] = {}
    begun: set[str] = set()

    def take(wants: Results, gives: Results) -> None:
        assert not wants.stopped
        for name, result in gives.items():
            if name in begun:
                one, other = told(name), told(name)
                one.take(wants[name])
                other.take(result)
                assert (
                    other.rows == one.rows
                    if one.emit == "in order"
                    else Counter(other.rows) == Counter(one.rows)
                )
        for name in queries:
            want, give = sums[name]
            want.take(wants[name])
            if name in gives:
                give.take(gives[name])
                begun.add(name)
            if name in begun:
                note(f"{name}: wanted {want.sum}, found {give.sum}")
                assert (give.sum, give.late) == (want.sum, want.late), name

    company(found)
    for number, events in enumerate(pushes):
        if number == created:
            for name in names:
                sql, options = QUERIES[name]
                wanted.create(name, sql, start=start, **options)
                queries[name] = found.create(name, sql, start=start, **options)
        take(push(wanted, events), push(found, events))
        if ticks and number in ticks and any(stream == "a" for stream, _ in events):
            take(wanted.advance(a=ticks[number]), found.advance(a=ticks[number]))
        if number == loaded:
            found = again(found)
            queries = {name: found.queries()[name] for name in queries}
    for name in (
        begun
    ):  # rows that are final are counted as if the query had not waited; of others, more pushes tell more
        if sums[name][0].emit in (None, "in order"):
            assert queries[name].explain() == wanted.queries()[name].explain()
    ended = found.finish()
    for name in begun:
        assert queries[name].state == "running", queries[name].reason
    take(wanted.finish(), ended)
    return queries, dict(ended.stopped)


@pytest.mark.parametrize("name", QUERIES)
@examples(4)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(0, 25),
    st.integers(0, 25),
    st.sampled_from(["windows", "queries"]),
    st.dictionaries(st.integers(0, 8), st.integers(0, 25), max_size=3),
    st.integers(-1, 8),
    WATERMARK,
)
def test_a_query_that_has_waited_gives_in_sum_what_one_gives_that_has_not(
    name: str,
    seed: int,
    sizes: list[int],
    created: int,
    b_from: int,
    x_from: int,
    keep: str,
    ticks: dict[int, int],
    loaded: int,
    watermark: str,
) -> None:
    pushes = cut(sequence(seed, 45, b_from, x_from), sizes)
    compare([name], pushes, created, keep=keep, ticks=ticks, loaded=loaded, watermark=watermark)


WARM = [
    "inner",
    "left",
    "self",
    "named",
    "changes",
    "whole",
    "slides",
    "windows",
    "both",
    "distinct",
    "by time",
    "top",
    "moved",
]


@examples(6)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(4, 25),
    st.integers(4, 25),
    st.sampled_from(WARM),
    st.dictionaries(st.integers(0, 8), st.integers(0, 25), max_size=3),
    WATERMARK,
)
def test_so_does_one_that_starts_warm(
    seed: int,
    sizes: list[int],
    created: int,
    b_from: int,
    x_from: int,
    name: str,
    ticks: dict[int, int],
    watermark: str,
) -> None:
    """It has known what was stored when it was created, and tells nothing of it."""
    pushes = cut(sequence(seed, 45, b_from, x_from), sizes)
    compare([name], pushes, created, ticks=ticks, start="warm", watermark=watermark)


@examples(3)
@given(
    st.integers(0, 2**32), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 3), WATERMARK
)
def test_so_do_all_of_them_together(seed: int, sizes: list[int], created: int, watermark: str) -> None:
    compare(list(QUERIES), cut(sequence(seed, 45, 12, 18), sizes), created, watermark=watermark)


def rows(*of: tuple[int, int | None], at: int = 0) -> dict[str, list[Any]]:
    """Rows by k and x."""
    return {"id": [*range(len(of))], "k": [k for k, _ in of], "x": [x for _, x in of], "at": [at] * len(of)}


def stored(qp: wm.Processor, stream: str) -> int:
    return qp._running.feed.stored(stream)


JOIN, SUM = "SELECT a.x, b.k FROM a JOIN b ON a.k = b.k", "SELECT COUNT(*) AS n, SUM(x) AS s FROM a"


def small(keep: str = "windows") -> wm.Processor:
    return wm.Processor(a=wm.Rows(2), b=wm.Rows(2), keep=keep)


def listed(result: wm.Result) -> list[Row]:
    return sorted((tuple(row.values()) for row in result.to_arrow().to_pylist()), key=repr)


@pytest.mark.parametrize("keep", ["windows", "queries"])
def test_rows_are_kept_while_a_query_waits_and_let_go_when_it_begins_or_is_dropped(keep: str) -> None:
    qp = small(keep)
    qp.create("sum", SUM)
    qp.create("pairs", JOIN)
    for _ in range(20):
        qp.push(a=rows((1, None), (2, None)))
    assert stored(qp, "a") == 40
    assert listed(qp.push(a=rows((1, 5)))["sum"]) == [(41, 5)]
    assert stored(qp, "a") == 41  # the join still waits
    qp.drop("pairs")
    qp.push()
    assert stored(qp, "a") < 4  # whole batches
    assert listed(qp.push(a=rows((1, 5)))["sum"]) == [(42, 10)]


def test_a_query_sees_no_row_from_before_it_was_created() -> None:
    qp = small()
    qp.push(a=rows((1, None)))
    query = qp.create("pairs", JOIN)
    qp.push(a=rows((1, 7), (2, 8), (1, 9)))
    out = qp.push(b=rows((1, 0)))
    assert listed(out["pairs"]) == [(9, 1)]  # of the last two
    assert query.complete_from == {"a": 4, "b": 1}
    assert qp.queries()["pairs"].complete_from == query.complete_from


def test_alter_makes_a_query_that_waits_begin_there() -> None:
    qp = small()
    query = qp.create("sum", SUM)
    qp.push(a=rows((1, None), (1, None)))
    query.alter("SELECT COUNT(*) AS n, MAX(x) AS m FROM a")
    qp.push(a=rows((1, None)))
    assert listed(qp.push(a=rows((1, 5)))["sum"]) == [(2, 5)]
    query.alter(JOIN)
    qp.push(a=rows((1, 6)))
    assert listed(qp.push(b=rows((1, 1)))["sum"]) == [(6, 1)]
    assert query.generation == 2


def test_a_stopped_query_holds_no_rows() -> None:
    qp = small()
    qp.create("wrong", "SELECT a.x, b.volume FROM a JOIN b ON a.k = b.k")
    qp.create("right", JOIN)
    for _ in range(5):
        qp.push(a=rows((1, 4)))
    out = qp.push(b=rows((1, 1)))
    assert list(out.stopped) == ["wrong"]
    assert listed(out["right"]) == [(4, 1), (4, 1)]
    for _ in range(5):
        qp.push(a=rows((1, 4)))
    assert stored(qp, "a") < 6  # streams drop whole batches, joins whole sub-windows


def test_an_error_in_what_came_meanwhile_stops_that_query_and_no_other() -> None:
    qp = small()
    timed = {name: wm.Range(9, time="x") for name in "ab"}
    qp.create("bad", JOIN, windows=timed)
    qp.create("sum", "SELECT COUNT(*) AS n FROM a JOIN b ON a.k = b.k", emit="complete")
    qp.create("last", "SELECT COUNT(*) AS n FROM last_range(a, 3), b", windows={"a": wm.Range(3, time="x")})
    qp.create("good", JOIN)
    qp.push(a=rows((1, 5), (1, None)))
    out = qp.push(b=rows((1, 1)))
    assert set(out.stopped) == {"bad", "last"}
    assert (
        "time column 'x' of stream 'a' must hold a time in every row; got null in row 1" in out.stopped["bad"]
    )
    assert (listed(out["good"]), listed(out["sum"])) == ([(5, 1), (None, 1)], [(2,)])
    assert qp.queries()["bad"].state == "stopped"
    assert listed(qp.push(b=rows((1, 2)))["good"]) == [(5, 1), (None, 1)]


def test_a_query_that_waits_when_the_streams_end_is_stopped_with_the_reason() -> None:
    qp = small()
    query = qp.create("pairs", JOIN)
    qp.push(a=rows((1, 5)))
    out = qp.finish()
    assert not out
    assert out.stopped == {
        "pairs": "query 'pairs' must have begun before the streams end; it still waits for the schema of stream 'b'; give schemas= when "
        "the processor is made"
    }
    assert (query.state, query.reason) == ("stopped", out.stopped["pairs"])


def test_queries_of_one_moment_share_their_blocks() -> None:
    qp = small()
    for name in ("one", "two"):
        qp.create(name, JOIN)
    qp.push(a=rows((1, 5)))
    qp.create("later", JOIN)
    qp.push(a=rows((1, 6)))
    out = qp.push(b=rows((1, 1)))
    assert [listed(out[name]) for name in ("one", "two", "later")] == [
        [(5, 1), (6, 1)],
        [(5, 1), (6, 1)],
        [(6, 1)],
    ]
    assert len(qp._running.feed.shared.readers) == 2
    assert "join inner of a Rows(n=2), b Rows(n=2) (2 rows; shared)" in qp.queries()["one"].explain()


def test_a_moment_keeps_its_place_when_the_history_is_put_together() -> None:
    """The clock had moved before the query was created, and moves again while it waits: only that counts for it."""
    qp = processor(schemas=False)
    qp.push(a=rows((1, None), at=0))
    qp.advance(a=50)
    qp.create("windows", QUERIES["windows"][0])
    for at in range(20):
        qp.push(a=rows((1, None), at=at))
    qp.advance(a=30)
    qp.push(a=rows((1, None), at=10))
    out = again(qp).push(a=rows((1, 2), at=40))["windows"]
    assert listed(out) == [(start, 5, None) for start in (0, 10, 15, 5)]
    assert out.late["a"].column("at").to_pylist() == [10]


def about_to_begin() -> wm.Processor:
    """Queries of all kinds that wait for the type of a.x and the schema of b, and some that run, with a clock that has moved."""
    qp = processor(schemas=False)
    qp.create("runs", "SELECT k, COUNT(*) AS n FROM a GROUP BY k")
    for name in ("union", "by x", "full", "self", "twice", "table"):
        qp.create(name, QUERIES[name][0])
    push(qp, sequence(1, 6, 99, 99))
    qp.advance(a=4)
    for name in ("running", "slides", "windows", "distinct", "by time", "top"):
        qp.create(name, QUERIES[name][0], emit=QUERIES[name][1].get("emit"))
    qp.create("warm", QUERIES["left"][0], start="warm")
    qp.create("bad", JOIN, windows={name: wm.Range(9, time="x") for name in "ab"})
    push(qp, sequence(2, 9, 99, 99))
    return qp


def begin(qp: wm.Processor) -> Results:
    return push(qp, sequence(3, 12, 0, 0))


def test_an_interrupted_push_in_which_queries_begin_is_undone() -> None:
    def rest(qp: wm.Processor) -> list[Any]:
        results = [push(qp, sequence(number, 9, 0, 0)) for number in (4, 5)]
        text = qp.explain()
        return [{name: listed(one) for name, one in given.items()} for given in [*results, qp.finish()]] + [
            text
        ]

    undisturbed = about_to_begin()
    given_first = begin(undisturbed)
    assert list(given_first.stopped) == ["bad"]
    assert len(given_first) == 14
    wanted, after = {name: listed(one) for name, one in given_first.items()}, rest(undisturbed)

    def check(qp: wm.Processor, given: Results) -> None:
        assert {name: listed(one) for name, one in given.items()} == wanted
        assert rest(qp) == after

    every_step(about_to_begin, begin, check, at_most=STEPS, standing=standing)
