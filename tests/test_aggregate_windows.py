"""Windows around aggregates: what they hold and give depends on the rows that came, not on how they were pushed."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aggregate_oracle as oracle
from harness import examples
from test_aggregate import check, expected, found, plain
from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.event_time import Hop, Hopping, Session, Sessions
from watersmeet.aggregate.sliding import Expiry, Sliding
from watersmeet.aggregate.spec import Aggregate, Grouping
from watersmeet.errors import DataError, OptionError, SchemaError, StateError
from watersmeet.streams.window import Range, Rows, Unbounded, Window

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64()), ("t", pa.int64())])
ASKED = (
    Aggregate("count", None, "n"),
    Aggregate("sum", "x", "total"),
    Aggregate("max", "x", "most"),
    Aggregate("count_distinct", "x", "different"),
    Aggregate("first", "x", "first", "t"),
    Aggregate("last", "x", "last", "t"),
)
BY_KEY = Grouping(("k",), ASKED)
GROUPINGS = [BY_KEY, Grouping((), ASKED[:1])]  # the latter reads no column at all
ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "x": st.sampled_from([0.1, 1e300, -1e300, None, 3.0]),
        "t": st.integers(-30, 30),
    }
)
PUSHES = st.lists(st.lists(ROW, max_size=6), min_size=1, max_size=6)


def batch(rows: list[oracle.Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema)


def in_window(rows: list[oracle.Row], window: Window) -> list[tuple[int, oracle.Row]]:
    numbered = list(enumerate(rows))
    if isinstance(window, Rows):
        return numbered[-window.n :]
    if isinstance(window, Range):
        assert isinstance(window.duration, int)
        return [pair for pair in numbered if pair[1]["t"] >= max(row["t"] for row in rows) - window.duration]
    return numbered


WINDOWS = (
    st.integers(1, 9).map(Rows) | st.integers(0, 20).map(lambda n: Range(n, time="t")) | st.just(Unbounded())
)


@given(pushes=PUSHES, window=WINDOWS, data=st.data(), grouping=st.sampled_from(GROUPINGS))
@examples(120)
def test_a_sliding_window_has_the_rows_that_it_should(
    pushes: list[Any], window: Window, data: st.DataObject, grouping: Grouping
) -> None:
    expiry, sliding = Expiry(window, SCHEMA), Sliding(Aggregation(grouping, SCHEMA))
    rows: list[oracle.Row] = []
    for push in pushes:
        mark = sliding.mark()
        if data.draw(st.booleans()):
            sliding.push(batch(push), np.full(len(push), 10**6), 10**6)
            sliding.back_to(mark)
        rows += push
        keys = expiry.keys(batch(push))
        sliding.push(batch(push), keys, expiry.come(keys))
        held = in_window(rows, window)
        check(sliding.aggregation, held)
        assert len(sliding) == len(held)
        if data.draw(st.integers(0, 3)) == 0:
            sliding = Sliding(Aggregation(grouping, SCHEMA)).restored(sliding.snapshot())
            check(sliding.aggregation, held)


def test_long_windows_of_short_pushes_are_kept_in_few_chunks() -> None:
    expiry, sliding = Expiry(Range(5000, time="t"), SCHEMA), Sliding(Aggregation(Grouping((), ASKED), SCHEMA))
    order = np.random.default_rng(5).permuted(np.arange(8000).reshape(-1, 100), axis=1).reshape(-1)
    rows = [{"k": None, "x": float(t % 97), "t": int(t)} for t in order]
    for start in range(0, 8000, 10):
        push = batch(rows[start : start + 10])
        keys = expiry.keys(push)
        sliding.push(push, keys, expiry.come(keys))
    check(sliding.aggregation, [(number, row) for number, row in enumerate(rows) if row["t"] >= 7999 - 5000])
    assert len(sliding._chunks) < 20


def windows_of(rows: list[oracle.Row], hop: Hop) -> list[tuple[int, oracle.Row]]:
    """Each row in each of its windows."""
    found = []
    for number, row in enumerate(rows):
        for start in range(-1000, 1000):
            if start % hop.slide == 0 and start <= row["t"] < start + hop.size:
                found.append((number, {**row, "window_start": start, "window_end": start + hop.size}))
    return found


def sessions_of(rows: list[oracle.Row], gap: int) -> list[tuple[int, oracle.Row]]:
    """Each row in its session."""
    out: list[tuple[int, oracle.Row]] = []
    for key in {row["k"] for row in rows}:
        members = sorted(
            ((n, row) for n, row in enumerate(rows) if row["k"] == key), key=lambda pair: pair[1]["t"]
        )
        session: list[tuple[int, oracle.Row]] = []
        for pair in [*members, None]:
            if session and (pair is None or pair[1]["t"] > session[-1][1]["t"] + gap):
                ends = {"window_start": session[0][1]["t"], "window_end": session[-1][1]["t"] + gap}
                out += [(number, {**row, **ends}) for number, row in session]
                session = []
            if pair is not None:
                session.append(pair)
    return sorted(out, key=lambda pair: pair[0])


def answers(rows: list[tuple[int, oracle.Row]]) -> Any:
    keys = ("window_start", "window_end", "k")
    schema = pa.schema([*SCHEMA, ("window_start", pa.int64()), ("window_end", pa.int64())])
    return plain(expected(rows, Aggregation(Grouping(keys, ASKED), schema)))


def not_late(pushes: list[Any], data: st.DataObject) -> list[tuple[list[oracle.Row], int]]:
    """Pushes without rows older than the watermark, each with the watermark after it."""
    watermark, found = -(10**6), []
    for push in pushes:
        rows = [row for row in push if row["t"] >= watermark]
        watermark = max(watermark, data.draw(st.integers(-40, 60)))
        found.append((rows, watermark))
    return found


@given(pushes=PUSHES, data=st.data(), size=st.integers(1, 12), slide=st.integers(1, 12))
@examples(80)
def test_a_hopping_window_is_given_once_when_it_is_final(
    pushes: list[Any], data: st.DataObject, size: int, slide: int
) -> None:
    hop = Hop("t", size, min(size, slide))
    hopping, rows = Hopping(BY_KEY, SCHEMA, hop), list[oracle.Row]()
    given: dict[Any, Any] = {}
    for push, watermark in not_late(pushes, data):
        rows += push
        mark = hopping.mark()
        for again in [True] * data.draw(st.integers(0, 1)) + [False]:
            hopping.push(batch(push))
            final = hopping.advance(watermark)
            if again:
                hopping.back_to(mark)
        if data.draw(st.integers(0, 3)) == 0:
            tables = hopping.snapshot()
            hopping = Hopping(BY_KEY, SCHEMA, hop)
            hopping.restore(tables)
        come = plain(found(final, 3))
        assert not set(come) & set(given)
        given |= come
        everything = answers(windows_of(rows, hop))
        assert given == {key: row for key, row in everything.items() if key[1] <= watermark}
        still = plain(found(hopping.with_end(hopping.aggregation.answer()), 3))
        assert still == {key: row for key, row in everything.items() if key[1] > watermark}


@given(pushes=PUSHES, data=st.data(), gap=st.integers(1, 10))
@examples(80)
def test_a_session_is_given_once_when_it_is_final(pushes: list[Any], data: st.DataObject, gap: int) -> None:
    sessions, rows = Sessions(BY_KEY, SCHEMA, Session("t", gap)), list[oracle.Row]()
    given: dict[Any, Any] = {}
    for push, watermark in not_late(pushes, data):
        rows += push
        mark = sessions.mark()
        for again in [True] * data.draw(st.integers(0, 1)) + [False]:
            sessions.push(batch(push))
            final = sessions.advance(watermark)
            if again:
                sessions.back_to(mark)
        if data.draw(st.integers(0, 3)) == 0:
            tables = sessions.snapshot()
            sessions = Sessions(BY_KEY, SCHEMA, Session("t", gap))
            sessions.restore(tables)
        come = plain(found(final, 3))
        assert not set(come) & set(given)
        given |= come
        everything = answers(sessions_of(rows, gap))
        assert given == {key: row for key, row in everything.items() if key[1] < watermark}


def test_windows_of_moments_and_changes() -> None:
    schema = pa.schema([("ts", pa.timestamp("us")), ("x", pa.int64())])
    hopping = Hopping(
        Grouping((), (Aggregate("sum", "x", "total"),)),
        schema,
        Hop("ts", 10_000_000, 10_000_000),
        changes=True,
    )
    moments = pa.array([0, 9_999_999, 10_000_000], pa.timestamp("us"))
    hopping.push(pa.record_batch([moments, pa.array([1, 2, 3])], schema=schema))
    assert hopping.aggregation.changes().come.num_rows == 2
    final = hopping.advance(10_000_000)
    assert final.schema.types == [pa.timestamp("us"), pa.timestamp("us"), pa.int64()]
    assert [str(value) for value in final.to_pylist()[0].values()] == [
        "1970-01-01 00:00:00",
        "1970-01-01 00:00:10",
        "3",
    ]
    assert hopping.aggregation.changes().changelog().num_rows == 0


def test_windows_that_are_given_leave_nothing_behind() -> None:
    grouping = Grouping(
        ("k",), (Aggregate("count", None, "n"), Aggregate("count_distinct", "x", "different"))
    )
    hopping = Hopping(grouping, SCHEMA, Hop("t", 10, 10), changes=True)
    for start in range(0, 6000, 100):
        hopping.push(batch([{"k": str(i), "x": float(i), "t": i} for i in range(start, start + 100)]))
        assert hopping.aggregation.changes().come.num_rows == 100
        assert hopping.advance(start + 100).num_rows == 100
    assert hopping.aggregation.answer().num_rows == 0
    assert {name: table.num_rows for name, table in hopping.aggregation.snapshot().items()} == {
        "groups": 0,
        "told": 0,
        "bag 0": 0,
        "texts of k": 0,
    }
    assert len(hopping.aggregation._told._log) < 2000


def test_what_windows_cannot_do_is_refused() -> None:
    for make in (lambda: Hop("t", 5, 6), lambda: Hop("t", 5, 0), lambda: Session("t", 0)):
        with pytest.raises(OptionError):
            make()
    with pytest.raises(OptionError, match="retracts=True"):
        Sliding(Aggregation(BY_KEY, SCHEMA, retracts=False))
    with pytest.raises(SchemaError, match="timestamps or integers"):
        Sessions(BY_KEY, SCHEMA, Session("x", 5))
    with pytest.raises(SchemaError, match="in the schema once"):
        Hopping(BY_KEY, SCHEMA, Hop("nope", 5, 5))
    hopping = Hopping(BY_KEY, SCHEMA, Hop("t", 5, 5))
    hopping.advance(7)
    for t, message in [(6, "older than the watermark"), (None, "no NULL"), (2**62 + 1, r"2\*\*62")]:
        with pytest.raises(DataError, match=message):
            hopping.push(batch([{"k": "a", "x": 1.0, "t": t}]))
    with pytest.raises(StateError, match="'watermark'"):
        Sessions(BY_KEY, SCHEMA, Session("t", 5)).restore({})
