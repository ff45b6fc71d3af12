"""A query that starts warm goes on as one that has always been there, as far as it says; its backfill is what that one has given."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, window
from oracle import Event, Window
from strategies import in_pushes
from test_processor_properties import Asked, asked, push
from test_shared_streams import SCHEMAS, STREAMS, UNIT, Reader, readers, rows, windows
from watersmeet.streams import history

history.LEAST = 8  # so that histories of short runs are put together too

WATERMARK = st.sampled_from(["row", "push"])
Found = list[tuple[int, ...]]  # arrival numbers of results, -1 for nobody


def numbers(result: wm.Result) -> Found:
    columns = [column.tolist() for column in result.numbers().values()]
    return sorted(zip(*columns, strict=True))


def late(result: wm.Result) -> dict[str, list[int]]:
    return {name: table.column("id").to_pylist() for name, table in result.late.items()}


class Seen:
    """What a query has given, and of which streams; which row of a result came last is known from the sequence."""

    def __init__(self, streams: Sequence[str], events: Sequence[Event]) -> None:
        self.streams = streams
        self.place = {(name, row["id"]): place for place, (name, row) in enumerate(events)}

    def sure(self, found: Found, complete: dict[str, int] | None) -> Counter[tuple[int, ...]]:
        """The results that must be as if the query had always been there."""
        return Counter(row for row in found if complete is not None and self._sure(row, complete))

    def _sure(self, row: tuple[int, ...], complete: dict[str, int]) -> bool:
        there = [(name, number) for name, number in zip(self.streams, row, strict=True) if number >= 0]
        name, number = max(there, key=lambda one: self.place[one])
        return number >= complete[name]

    def known(self, found: Found, since: dict[str, int]) -> Counter[tuple[int, ...]]:
        """The results of which the query has known all rows."""
        known = [
            all(number >= since[name] for name, number in zip(self.streams, row, strict=True) if number >= 0)
            for row in found
        ]
        return Counter(row for row, all_known in zip(found, known, strict=True) if all_known)


def run(
    own: dict[str, Window],
    sql: str,
    query_windows: dict[str, Any],
    streams: Sequence[str],
    how: str,
    pushes: Sequence[Sequence[Event]],
    starts: int,
    backfill: bool,
    company: Callable[[wm.Processor], Any] = lambda qp: None,
    names: Sequence[str] = (),
    watermark: str = "row",
) -> dict[str, int] | None:
    """Push to two processors, one of which has had the query from the start; returns from where on the other's results were complete."""
    named = {name: window(spec, UNIT) for name, spec in own.items()}
    there, other = (wm.Processor(windows=named, schemas=SCHEMAS, watermark=watermark) for _ in range(2))
    there.create("q", sql, windows=query_windows)
    company(other)
    seen = Seen(streams, [event for events in pushes for event in events])
    before: Found = []
    were_late: Counter[tuple[str, int]] = Counter()
    for events in pushes[:starts]:
        result = push(there, events)["q"]
        before += numbers(result)
        were_late.update((name, row) for name, mine in late(result).items() for row in mine)
        push(other, events)
    since = {name: other._running.feed.stored_from(name) for name in STREAMS}
    warm = {"windows": query_windows, "start": "warm", "backfill": backfill}
    unknown = [
        since[stream]
        and query_windows.get(name, named[stream]).time is not None
        and named[stream].time is None
        for name, stream in zip(names or streams, streams, strict=True)
    ]
    if any(unknown):
        with pytest.raises(wm.OptionError, match="start='warm' must be by times that are known of all rows"):
            other.create("q", sql, **warm)
        return None
    query = other.create("q", sql, **warm)
    given: list[tuple[Found, Found]] = []
    for events in pushes[starts:]:
        wanted, found = push(there, events)["q"], push(other, events)["q"]
        assert late(found) == late(wanted)
        given.append((numbers(found), numbers(wanted)))
    complete = query.complete_from
    given.append((numbers(other.finish()["q"]), numbers(there.finish()["q"])))
    if query.backfill is not None:
        given.append((numbers(query.backfill), before))
        stored = Counter(one for one in were_late.elements() if one[1] >= since[one[0][:1].replace("q", "a")])
        assert Counter((name, row) for name, mine in late(query.backfill).items() for row in mine) == stored
    assert (query.backfill is not None) == backfill
    for found, wanted in given:
        assert seen.sure(found, complete) == seen.sure(wanted, complete)
        if how == "inner":
            assert Counter(found) == seen.known(wanted, since)
    return complete


def passing(events: Sequence[Event], speed: int, before: int = 0) -> list[Event]:
    """Rows whose times go on, so that some are over; ``before``: so many have come."""
    return [
        (name, {**row, "ts": row["ts"] + place * speed // 2})
        for place, (name, row) in enumerate(events, start=before)
    ]


@st.composite
def warm_runs(
    draw: st.DrawFn,
) -> tuple[dict[str, Window], Asked, list[tuple[Event, ...]], int, Reader | None]:
    sizes = draw(st.lists(st.integers(1, 30), min_size=1, max_size=4))
    events = passing(rows(draw(st.integers(4, 150)), draw(st.integers(0, 2**32))), draw(st.integers(0, 4)))
    pushes = [tuple(push) for push in in_pushes(events, sizes)]
    own = {name: draw(windows) for name in STREAMS}
    reader = draw(readers(len(pushes)))
    if draw(st.booleans()):
        reader = replace(reader, windows={name: own[name] for name in reader.windows})
    (query,) = draw(asked([reader]))
    company = draw(st.none() | readers(len(pushes)))
    return own, query, pushes, draw(st.integers(0, len(pushes))), company


@examples(40)
@given(warm_runs(), st.booleans(), WATERMARK)
def test_a_warm_query_goes_on_as_one_that_was_always_there(
    drawn: Any, backfill: bool, watermark: str
) -> None:
    own, query, pushes, starts, others = drawn
    note(query.sql)

    def company(qp: wm.Processor) -> None:
        if others is not None:
            mine = Asked(others, "where", False)
            qp.create("other", mine.sql, windows=mine.own)

    streams = list(query.reader.windows)
    how = query.reader.how
    run(own, query.sql, query.own, streams, how, pushes, starts, backfill, company, watermark=watermark)


@examples(15)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
    st.sampled_from(["JOIN", "LEFT JOIN", "FULL JOIN"]),
    st.tuples(windows, windows),
    st.integers(0, 20),
    st.booleans(),
    WATERMARK,
)
def test_so_does_a_self_join(
    seed: int, sizes: list[int], kind: str, specs: Any, starts: int, backfill: bool, watermark: str
) -> None:
    pushes = in_pushes([event for event in passing(rows(120, seed), seed % 4) if event[0] in "ab"], sizes)
    sql = f"SELECT p.id, q.id AS other FROM a p {kind} a q ON p.k = q.k AND p.x >= q.x"
    own = dict.fromkeys(STREAMS, specs[0])
    query_windows = {"q": window(specs[1], UNIT)}
    how = "inner" if kind == "JOIN" else kind
    starts = min(starts, len(pushes))
    run(own, sql, query_windows, ["a", "a"], how, pushes, starts, backfill, names="pq", watermark=watermark)


def kept(spec: Any, *pushes: int) -> tuple[wm.Processor, Any]:
    qp = wm.Processor(a=spec, b=spec, schemas={name: SCHEMAS[name] for name in "ab"})
    run = [event for event in rows(4 * sum(pushes), 3) if event[0] in "ab"]
    for events in in_pushes(run, list(pushes)):
        push(qp, [(name, {**row, "ts": row["ts"] + 9 * row["id"] // 10}) for name, row in events])
    return qp, qp._running.feed


@pytest.mark.parametrize("spec", [wm.Rows(10), wm.Range("5 s", time="ts"), wm.Unbounded()])
@pytest.mark.parametrize("start", ["now", "warm"])
def test_a_query_that_was_there_from_the_start_is_complete(spec: Any, start: str) -> None:
    qp = wm.Processor(a=spec, b=spec, schemas={name: SCHEMAS[name] for name in "ab"})
    query = qp.create("q", "SELECT a.id, b.id AS other FROM a LEFT JOIN b ON a.k = b.k", start=start)
    assert query.complete_from == {"a": 0, "b": 0}
    push(qp, [event for event in rows(80, 5) if event[0] in "ab"])
    assert query.complete_from == {"a": 0, "b": 0}


def test_within_the_streams_own_windows_a_warm_query_is_complete_at_once() -> None:
    qp, _ = kept(wm.Rows(10), 20, 20, 20)
    sql = "SELECT a.id, b.id AS other FROM a JOIN b ON a.k = b.k"
    ends = {name: qp._running.feed.arrived(name) for name in "ab"}
    complete = qp.create("warm", sql, start="warm").complete_from
    assert complete is not None
    assert all(complete[name] <= ends[name] for name in "ab")
    assert qp.create("now", sql).complete_from is None
    assert qp.create("wide", sql, start="warm", windows={"a": wm.Rows(10_000)}).complete_from is None
    assert qp.create("some", "SELECT id FROM a").complete_from == {"a": ends["a"]}
    push(qp, [event for event in rows(80, 5) if event[0] in "ab"])
    now = qp.queries()["now"].complete_from
    assert now is not None
    assert all(now[name] >= ends[name] + 10 for name in "ab")


def test_a_stream_keeps_its_own_window_though_nobody_reads_it() -> None:
    for spec, most in ((wm.Rows(10), 40), (wm.Range("15 s", time="ts", lateness="1 s"), 60)):
        qp, feed = kept(spec, *[20] * 12)
        assert 10 <= feed.stored("a") <= most < feed.arrived("a") - 10
        assert not qp.queries()
    _, feed = kept(wm.Unbounded(), *[20] * 12)
    assert feed.stored("a") == feed.arrived("a") > 100


def test_with_keep_queries_it_does_not() -> None:
    qp = wm.Processor(a=wm.Rows(10), keep="queries")
    qp.push(a={"x": [1, 2, 3]})
    assert qp.create("all", "SELECT x FROM a", start="warm", backfill=True).backfill.count == 0  # type: ignore[union-attr]
    with pytest.raises(wm.OptionError, match=r"keep= must be 'windows' or 'queries'; got 'all'"):
        wm.Processor(a=wm.Rows(10), keep="all")


def test_a_history_is_not_longer_than_what_is_stored() -> None:
    """One stream keeps everything, of which little comes; of the other, much comes, and little is kept."""
    schema = {"k": pa.int64()}
    qp = wm.Processor(few=wm.Unbounded(), many=wm.Rows(10), schemas={"few": schema, "many": schema})
    for number in range(300):
        order = ["many"] * 10 + ["few"] * (number % 50 == 0) + ["many"] * 10
        qp.push(few={"k": [1] * (number % 50 == 0)}, many={"k": list(range(20))}, order=order)
    assert qp._running.feed.history.steps().count < 40
    found = qp.create("q", "SELECT f.k FROM few f JOIN many m ON f.k = m.k", start="warm", backfill=True)
    assert found.complete_from == {"few": 6, "many": 5980}


def test_alter_may_start_warm_too() -> None:
    qp, _ = kept(wm.Rows(1000), 20)
    query = qp.create("q", "SELECT id FROM a WHERE k = 0")
    arrived = qp._running.feed.arrived("a")
    query.alter("SELECT id FROM a", start="warm", backfill=True)
    assert query.generation == 1
    assert query.backfill is not None
    assert query.backfill.to_arrow().column("id").to_pylist() == list(range(arrived))
    query.alter("SELECT id, k FROM a")
    assert query.backfill is None


def test_a_warm_join_shares_the_indexes_of_those_that_were_there() -> None:
    qp = wm.Processor(a=wm.Rows(200), b=wm.Rows(200), schemas={name: SCHEMAS[name] for name in "ab"})
    sql = "SELECT a.id, b.id AS other FROM a JOIN b ON a.x BETWEEN b.x - 1 AND b.x + 1"
    qp.create("first", sql)
    for size in range(30, 60):
        push(qp, [event for event in rows(size, size) if event[0] in "ab"])
    qp.create("second", sql, start="warm")

    def held(name: str) -> set[int]:
        root = qp._running.entries[name].root
        assert root is not None
        chains = root.inputs[0].engine.ledger.chains  # type: ignore[attr-defined]
        return {id(index) for chain in chains for sub in chain.subwindows for index in sub.indexes}

    assert held("second") <= held("first")
    results = push(qp, [event for event in rows(300, 1) if event[0] in "ab"])
    assert numbers(results["first"]) == numbers(results["second"])


def test_what_is_refused() -> None:
    qp = wm.Processor(a=wm.Rows(10), b=wm.Rows(10))
    with pytest.raises(wm.OptionError, match=r"start= must be 'now' or 'warm'; got 'hot'"):
        qp.create("q", "SELECT x FROM a", start="hot")
    with pytest.raises(wm.OptionError, match=r"backfill=True must be with start='warm'; got start='now'"):
        qp.create("q", "SELECT x FROM a", backfill=True)
    with pytest.raises(wm.OptionError, match="backfill= must be True or False; got 1"):
        qp.create("q", "SELECT x FROM a", start="warm", backfill=1)  # type: ignore[arg-type]
    with pytest.raises(wm.OptionError, match=r"'q' waits for the schema of stream 'a'; give schemas="):
        qp.create("q", "SELECT x FROM a", start="warm", backfill=True)
    assert not qp.queries()


def test_a_warm_query_that_waits_begins_with_what_is_stored_then() -> None:
    qp = wm.Processor(a=wm.Rows(10), b=wm.Rows(10))
    qp.push(a={"x": [1, 2, 3]})
    qp.create("q", "SELECT a.x FROM a JOIN b ON a.x = b.x", start="warm")
    assert sorted(qp.push(b={"x": [3, 1]})["q"].to_arrow().column("x").to_pylist()) == [1, 3]


def test_a_waiting_query_that_cannot_start_warm_is_stopped_and_no_other() -> None:
    qp = wm.Processor(a=wm.Rows(2), b=wm.Rows(10))
    timed = {"a": wm.Range(5, time="x"), "b": wm.Range(5, time="x")}
    for number in range(4):
        qp.push(a={"x": [number, number]})
    qp.create("bad", "SELECT a.x FROM a JOIN b ON a.x = b.x", start="warm", windows=timed)
    qp.create("good", "SELECT a.x FROM a JOIN b ON a.x = b.x", start="warm")
    results = qp.push(b={"x": [3]})
    assert "column 'x' of stream 'a': 6 rows of it are stored no more" in results.stopped["bad"]
    assert results["good"].count == 2
    assert qp.queries()["bad"].state == "stopped"


def test_an_error_in_the_past_refuses_the_query() -> None:
    qp = wm.Processor(a=wm.Rows(10))
    qp.push(a={"x": [1, None]})
    timed = {name: wm.Range(1, time="x") for name in "pq"}
    with pytest.raises(
        wm.DataError, match="time column 'x' of stream 'a' must hold a time in every row; got null in row 1"
    ):
        qp.create("q", "SELECT p.x FROM a p JOIN a q ON p.x = q.x", start="warm", windows=timed)
    assert not qp.queries()
    assert not qp._running.feed.shared.readers


def test_rows_that_are_stored_no_more_have_moved_the_clock() -> None:
    """Row 2 of a was late, as rows before it had shown; they are dropped by now, it is not."""
    timed = {name: wm.Range(2, time="ts") for name in "ab"}
    qp = wm.Processor(windows=timed, schemas={name: {"ts": pa.int64()} for name in "ab"})
    for a, b in (([10], [10]), ([30], [31]), ([5, 40], [5, 41])):
        qp.push(a={"ts": a}, b={"ts": b})
    assert [qp._running.feed.stored_from(name) for name in "ab"] == [2, 2]
    sql = "SELECT a.ts FROM a JOIN b ON a.ts <= b.ts"
    query = qp.create("q", sql, start="warm", backfill=True)
    assert query.backfill is not None
    assert query.backfill.to_arrow().column("ts").to_pylist() == [40]
    assert {name: rows.column("ts").to_pylist() for name, rows in query.backfill.late.items()} == {
        "a": [5],
        "b": [5],
    }
    assert query.complete_from == {"a": 2, "b": 2}


def test_statements_may_start_warm_too() -> None:
    qp, _ = kept(wm.Rows(1000), 20)
    fresh = qp.execute(
        "CREATE QUERY p START WARM AS SELECT id FROM a; create query q start warm backfill as SELECT id FROM a"
    )
    assert fresh["p"].backfill is None
    assert fresh["q"].backfill is not None
    assert fresh["q"].backfill.count == qp._running.feed.arrived("a")
    assert fresh["p"].complete_from == fresh["q"].complete_from == {"a": 0}
    with pytest.raises(wm.ConditionError, match=r"a statement must be CREATE QUERY name AS SELECT"):
        qp.execute("CREATE QUERY r START COLD AS SELECT id FROM a")


def test_a_warm_join_takes_the_threads_that_there_are() -> None:
    """One that started threads of its own would keep them for as long as its query is there."""
    rows = {"k": list(range(10_000)), "x": [1.5] * 10_000}
    join = "SELECT a.k FROM a JOIN b ON a.k = b.k AND a.x <= b.x"
    with wm.Processor(a=wm.Rows(10_000), b=wm.Rows(10_000), cores=2) as qp:
        qp.create("first", join)
        qp.push(a=rows, b=rows)
        before = set(threading.enumerate())
        warm = qp.create("warm", join.replace("<=", "="), start="warm", backfill=True)
        assert warm.backfill is not None
        assert warm.backfill.count == 10_000
        assert set(threading.enumerate()) == before
