"""Aggregates in a Processor against a dull interpreter: in every split, with others that come and go, as whole answers and as changes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

import query_interpreter as dull
import watersmeet as wm
from harness import examples
from query_interpreter import Arrival, Asked, Output
from strategies import in_pushes

SCHEMA = pa.schema({"k": pa.string(), "x": pa.int64(), "y": pa.float64(), "ts": pa.int64()})
ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", "ß", None]),
        "x": st.sampled_from([None, 0, 1, 2, 3, -(2**62)]),
        "y": st.sampled_from([None, 0.1, 0.0, -0.0, 1e300, -1e300, float("nan")]),
        "ts": st.integers(0, 12),
    }
)


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    """Times move on, with some disorder."""
    found = []
    for number, (name, row) in enumerate(draw(st.lists(st.tuples(st.sampled_from("aab"), ROW), max_size=24))):
        found.append((name, {**row, "ts": row["ts"] // 3 + number}))
    return found


def processor(watermark: str = "row") -> wm.Processor:
    window = wm.Range(5, time="ts", lateness=dull.LATENESS)
    return wm.Processor(a=window, b=window, schemas={"a": SCHEMA, "b": SCHEMA}, watermark=watermark)


def judged(rows: list[Arrival], sizes: list[int], asked: Asked, watermark: str) -> list[list[Arrival]]:
    """Pushes of rows that know whether they are late."""
    if watermark == "push":
        return dull.judged_pushes(in_pushes(rows, sizes), asked.streams)
    return [list(push) for push in in_pushes(dull.judged(rows, asked.streams), sizes)]


def push(qp: wm.Processor, events: Sequence[Arrival]) -> Any:
    names = [name for name, _ in events]
    present = list(dict.fromkeys(names))
    rows = {name: [row for one, row in events if one == name] for name in present}
    batches = {
        name: pa.RecordBatch.from_pylist([{key: row[key] for key in SCHEMA.names} for row in mine], SCHEMA)
        for name, mine in rows.items()
    }
    in_turn = names == sorted(names, key=present.index)
    return qp.push(batches, **({} if in_turn else {"order": names}))


def shown(result: wm.Result) -> list[Output]:
    table = result.to_arrow()
    columns = [map(dull.shown_value, column.to_pylist()) for column in table.columns]
    found = list(zip(*columns, strict=True))
    assert result.count == len(found)
    return found


# ---- what can be asked ------------------------------------------------------------------------------------------

AGGREGATES = st.lists(st.sampled_from([*dull.AGGREGATES, *dull.TIMED]), min_size=1, max_size=4, unique=True)
KEYS = st.lists(st.sampled_from(list(dull.KEYS)), max_size=2, unique=True)
HOW = st.sampled_from(["", "DESC", "DESC NULLS FIRST", "NULLS LAST"])


@st.composite
def answers(draw: st.DrawFn) -> Asked:
    """Running and sliding aggregates."""
    source = draw(st.sampled_from(["a", "a", "where", "derived", "union", "join"]))
    sliding = None
    if source in ("a", "where"):
        sizes = st.tuples(st.sampled_from(["rows", "range"]), st.integers(1, 6))
        sliding = draw(st.none() | sizes)
    if source in ("a", "derived", "union") and sliding is None:
        sliding = draw(st.none() | st.tuples(st.just("derived"), st.integers(1, 5)))
    keys = tuple(draw(KEYS))
    asked = Asked(source, keys, tuple(draw(AGGREGATES)), draw(st.booleans()), sliding)
    emit = draw(st.sampled_from(["complete", "changelog", "update"]))
    if emit != "update" and draw(st.booleans()):
        places = st.integers(0, len(asked.names) - 1)
        order = draw(st.lists(st.tuples(places, HOW), max_size=2, unique_by=lambda pair: pair[0]))
        limit = draw(st.integers(0, 3)) if emit == "changelog" else draw(st.none() | st.integers(0, 3))
        asked = replace(asked, order=tuple(order), limit=limit)
    return replace(asked, emit=emit)


@st.composite
def windows(draw: st.DrawFn) -> Asked:
    """Windows of event time."""
    size = draw(st.integers(1, 5))
    hop = st.integers(1, size).map(lambda slide: ("window", size, slide))
    event = draw(st.just(("window", size)) | hop | st.just(("session", size)))
    source = draw(st.sampled_from(["a", "where", "derived", "union"]))
    keys = tuple(draw(KEYS))
    return Asked(source, keys, tuple(draw(AGGREGATES)), draw(st.booleans()), None, event, emit="append")


# ---- the properties ---------------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4)
WATERMARK = st.sampled_from(["row", "push"])


@examples(100)
@given(st.lists(answers(), min_size=1, max_size=3), arrivals(), SIZES, st.data())
def test_answers_are_those_of_the_interpreter_in_every_split(
    asked: list[Asked], rows: list[Arrival], sizes: list[int], data: st.DataObject
) -> None:
    """Queries begin between any two pushes. ``complete``: the answer; ``changelog``: differences; ``update``: the groups that differ."""
    pushes = in_pushes(rows, sizes)
    begins = [data.draw(st.integers(0, len(pushes)), label="begins") for _ in asked]
    note("\n".join(f"{one.emit}: {one.sql}" for one in asked))
    qp = processor()
    seen: dict[int, list[Arrival]] = {}
    known: dict[int, tuple[list[Output], dict[Output, Output]]] = {}
    for number, events in enumerate([*pushes, None]):
        for i, one in enumerate(asked):
            if begins[i] == number:
                qp.create(f"q{i}", one.sql, emit=one.emit)
                seen[i], known[i] = [], ([], {})
        results = qp.finish() if events is None else push(qp, events)
        assert not results.stopped
        for i, mine in seen.items():
            mine += events or ()
            known[i] = check(asked[i], mine, known[i], results[f"q{i}"], f"push {number}, query {i}")


def check(
    asked: Asked,
    arrivals: list[Arrival],
    known: tuple[list[Output], dict[Output, Output]],
    result: wm.Result,
    where: str,
) -> tuple[list[Output], dict[Output, Output]]:
    given, answer = shown(result), asked.answer(arrivals)
    groups = {key: row for key, (row, _) in asked.groups(arrivals).items()}
    if asked.emit == "complete":
        same = (sorted, repr) if not asked.order and asked.limit is None else (list, None)
        assert in_some_order(given, same) == in_some_order(answer, same), where
    elif asked.emit == "changelog":
        told = Counter[Output]()
        for *row, operation in given:
            told[tuple(row)] += operation
        operations = [row[-1] for row in given]
        assert operations == sorted(operations), where
        assert told == dull.difference(answer, known[0]), where
        assert sum(map(abs, told.values())) == len(given), where
    else:
        width = len(asked.names) - len(asked.aggregates)
        gone = [key for key in known[1] if key not in groups]
        differ = [row for key, row in groups.items() if known[1].get(key) != row]
        wanted = [(*known[1][key][:width], *[None] * len(asked.aggregates), -1) for key in gone]
        wanted += [(*row, 1) for row in differ]
        assert Counter(given) == Counter(wanted), where
    return answer, groups


def in_some_order(rows: list[Output], how: Any) -> list[Output]:
    return sorted(rows, key=repr) if how[1] is repr else rows


@examples(80)
@given(windows(), arrivals(), SIZES, WATERMARK)
def test_windows_of_event_time_come_out_once_when_they_are_final(
    asked: Asked, rows: list[Arrival], sizes: list[int], watermark: str
) -> None:
    note(asked.sql)
    qp = processor(watermark)
    qp.create("q", asked.sql)
    told: Counter[Output] = Counter()
    seen: list[Arrival] = []
    for events in judged(rows, sizes, asked, watermark):
        result = push(qp, events)["q"]
        seen += events
        told += Counter(shown(result))
        assert told == Counter(asked.final(seen, ended=False))
        late = [row for name, row in events if row["late"]]
        assert sum(batch.num_rows for batch in result.late.values()) == len(late)
    told += Counter(shown(qp.finish()["q"]))
    assert told == Counter(asked.final(seen, ended=True))


@examples(50)
@given(windows(), arrivals(), SIZES, st.sampled_from(["update", "changelog"]), WATERMARK)
def test_windows_of_event_time_can_be_told_before_they_are_final(
    asked: Asked, rows: list[Arrival], sizes: list[int], emit: str, watermark: str
) -> None:
    if asked.event is not None and asked.event[0] == "session":
        asked = replace(asked, event=("window", asked.event[1]))
    asked = replace(asked, emit=emit)
    note(asked.sql)
    qp = processor(watermark)
    qp.create("q", asked.sql, emit=emit)
    seen: list[Arrival] = []
    known: tuple[list[Output], dict[Output, Output]] = [], {}
    for number, events in enumerate(judged(rows, sizes, asked, watermark)):
        result = push(qp, events)["q"]
        seen += events
        known = check(asked, seen, known, result, f"push {number}")
    assert qp.finish()["q"].count == 0
