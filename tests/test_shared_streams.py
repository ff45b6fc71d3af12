"""Joins that read the same stored streams: each gives what it would give alone, in whatever company."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from harness import window
from interruptions import every_step
from multiway_conditions import NAMES, Condition, column_type, conditions
from oracle import Event, Window
from strategies import TIMES, column, in_pushes
from watersmeet.codes import interning
from watersmeet.join.binding import Texts
from watersmeet.join.engine import JoinEngine
from watersmeet.join.outcome import Outcome
from watersmeet.join.outer import join_type
from watersmeet.join.shared import SharedStreams

STREAMS = NAMES[:4]
UNIT = "s"
# What rows are made of: few values, so that many match.
SOME: dict[str, list[Any]] = {
    "k": [0, 0, 0, 1, None],
    "x": [0, 1, 2, 3, None],
    "y": [-1, 0, 1, 2, None],
    "name": ["", "a", "a", "A", None],
    "price": [Decimal(cents) / 100 for cents in (0, 5, 5, 10)],
    "f": [0.0, -0.0, 0.1, 0.2, 0.1 + 0.2, np.nan],
}
_counts = st.integers(1, 40).map(lambda n: ("rows", n))
_ranges = st.builds(lambda t, late: ("range", t, "ts", late), st.integers(0, 25), st.integers(0, 12))
windows = st.one_of(_counts, _counts, _ranges, _ranges, st.just(("unbounded",)))


def schema_of(stream: str) -> pa.Schema:
    fields = [(name, column_type(stream, name)) for name in SOME]
    return pa.schema([("id", pa.int64()), ("ts", TIMES[UNIT][0]), *fields])


SCHEMAS = {stream: schema_of(stream) for stream in STREAMS}


@dataclass(frozen=True)
class Reader:
    """One join, and between which pushes it is there."""

    condition: Condition
    windows: dict[str, Window]  # by stream, in its own order
    how: str
    index: str
    subwindow: int | None
    mode: str
    joins: int
    leaves: int

    @property
    def named(self) -> dict[str, Any]:
        return {name: window(spec, UNIT) for name, spec in self.windows.items()}

    def alone(self) -> wm.StreamJoin:
        return wm.StreamJoin(
            self.condition.text, windows=self.named, how=self.how, index=self.index, subwindow=self.subwindow,
            schemas={name: SCHEMAS[name] for name in self.windows},
        )  # fmt: skip

    def core(self, shared: SharedStreams) -> JoinEngine:
        kind = join_type(self.how)
        texts = Texts(self.named, self.condition.text, "*", kind)
        known = texts.bind(tuple(SCHEMAS[name] for name in self.windows))
        assert known.condition is not None
        core = JoinEngine(
            list(self.windows), list(self.named.values()), kind, self.index, self.mode, 1, self.subwindow
        )
        shared.add(core, [STREAMS.index(name) for name in self.windows])
        core.open([None] * len(self.windows), known.axis)
        core.bind(known.condition, known.columns)
        return core


@st.composite
def readers(draw: st.DrawFn, pushes: int) -> Reader:
    names = draw(st.permutations(STREAMS))[: draw(st.integers(2, 3))]
    condition = draw(conditions(names, None, None))
    how = "inner"
    if len(names) == 2:
        how = draw(st.sampled_from(["inner", "inner", "left", "full", "semi", "anti"]))
    joins = draw(st.one_of(st.just(0), st.just(0), st.integers(0, pushes)))
    return Reader(
        condition,
        {name: draw(windows) for name in names},
        how,
        draw(st.sampled_from(("auto", "auto", "scan", *condition.indexes))),
        draw(st.sampled_from([None, None, 2, 3, 8])),
        draw(st.sampled_from(["pairs", "pairs", "count"])) if how == "inner" else "pairs",
        joins,
        draw(st.sampled_from([pushes + 1, pushes + 1, pushes // 2])),
    )


def rows(count: int, seed: int) -> list[Event]:
    """Rows of all streams, made up from a seed: many matches need many rows, more than a strategy likes to draw."""
    random = np.random.default_rng(seed)
    now, seen, found = 0, dict.fromkeys(STREAMS, 0), []
    for stream in random.choice(STREAMS, count).tolist():
        now = max(0, now + int(random.choice([0, 0, 1, 1, 2, 3, -1, -3, -7])))
        values = {name: some[random.integers(len(some))] for name, some in SOME.items()}
        found.append((stream, {"id": seen[stream], "ts": now, **values}))
        seen[stream] += 1
    return found


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Reader], list[tuple[Event, ...]]]:
    sizes = draw(st.lists(st.integers(1, 50), min_size=1, max_size=5))
    pushes = [
        tuple(push) for push in in_pushes(rows(draw(st.integers(4, 150)), draw(st.integers(0, 2**32))), sizes)
    ]
    if draw(st.booleans()):  # one stream after the other
        pushes = _in_blocks(pushes)
    company = [draw(readers(len(pushes))) for _ in range(draw(st.integers(1, 4)))]
    if company and draw(st.booleans()):  # somebody asks the same, in windows of another length
        first = company[0]
        company.append(
            Reader(
                first.condition, {name: draw(windows) for name in first.windows}, first.how, first.index,
                first.subwindow, first.mode, draw(st.integers(0, len(pushes))), len(pushes) + 2,
            )
        )  # fmt: skip
    return company, pushes


def _in_blocks(pushes: Sequence[Sequence[Event]]) -> list[tuple[Event, ...]]:
    seen, blocks = dict.fromkeys(STREAMS, 0), []
    for push in pushes:
        fresh = []
        for stream, row in sorted(push, key=lambda event: event[0]):
            fresh.append((stream, {**row, "id": seen[stream]}))
            seen[stream] += 1
        blocks.append(tuple(fresh))
    return blocks


def batch(events: Sequence[Event], stream: str) -> pa.RecordBatch:
    mine = [row for name, row in events if name == stream]
    schema = SCHEMAS[stream]
    return pa.RecordBatch.from_arrays([column(mine, field, UNIT) for field in schema], schema=schema)


def push_shared(shared: SharedStreams, events: Sequence[Event]) -> dict[JoinEngine, Outcome]:
    names = [name for name, _ in events]
    present = list(dict.fromkeys(names))
    turns = [*present, *(name for name in STREAMS if name not in present)]
    batches = [batch(events, name) if name in present else None for name in STREAMS]
    order = None
    if names != sorted(names, key=turns.index):
        order = np.array([STREAMS.index(name) for name in names], np.uint8)
    return shared.push(batches, order, [STREAMS.index(name) for name in turns])


def push_alone(join: wm.StreamJoin, events: Sequence[Event]) -> wm.Result:
    mine = [event for event in events if event[0] in join.streams]
    names = [name for name, _ in mine]
    present = list(dict.fromkeys(names))
    order = {} if names == sorted(names, key=present.index) else {"order": names}
    return join.push({name: batch(mine, name) for name in present}, **order)


class Alone:
    """A join by itself, which counts only the rows that it has accepted: their ids by arrival number."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.join = reader, reader.alone()
        self.ids: dict[str, list[int]] = {name: [] for name in reader.windows}

    def push(self, events: Sequence[Event]) -> tuple[list[tuple[int, ...]], dict[str, list[int]]]:
        result = push_alone(self.join, events)
        late = {name: rows.column("id").to_pylist() for name, rows in result.late.items() if rows.num_rows}
        for name in self.ids:
            mine = [row["id"] for stream, row in events if stream == name]
            self.ids[name] += [one for one in mine if one not in late.get(name, [])]
        return self._named(result), late

    def finish(self) -> list[tuple[int, ...]]:
        return self._named(self.join.finish())

    def _named(self, result: wm.Result) -> list[tuple[int, ...]]:
        names = list(self.ids)
        numbers = result.numbers()
        columns = [[-1 if n < 0 else self.ids[name][n] for n in numbers[name].tolist()] for name in names]
        return sorted(zip(*columns, strict=True))


def check(company: Sequence[Reader], pushes: Sequence[Sequence[Event]], cores: int = 1) -> SharedStreams:
    shared = SharedStreams(list(SCHEMAS.values()), cores)
    there: dict[int, tuple[JoinEngine, Alone]] = {}
    for number, events in enumerate(pushes):
        for i, reader in enumerate(company):
            if reader.joins == number:
                there[i] = reader.core(shared), Alone(reader)
            if reader.leaves == number and i in there:
                shared.remove(there.pop(i)[0])
        outcomes = push_shared(shared, events)
        shared.commit()
        for i, (core, alone) in there.items():
            wanted, late = alone.push(events)
            same(outcomes[core], wanted, company[i], f"push {number}, reader {i}")
            refused = {
                core.streams[k]: rows.column("id").to_pylist() for k, rows in outcomes[core].late.items()
            }
            assert refused == late, f"push {number}, reader {i}"
    for i, (core, alone) in there.items():
        same(core.finish(), alone.finish(), company[i], f"the end, reader {i}")
    return shared


def same(outcome: Outcome, wanted: list[tuple[int, ...]], reader: Reader, where: str) -> None:
    if reader.mode == "count":
        assert outcome.matches.count == len(wanted), where
    else:
        found = sorted(zip(*(one.tolist() for one in outcome.matches.columns()), strict=True))
        assert found == wanted, where


@given(runs(), st.sampled_from([1, 2]))
def test_joins_that_share_streams_give_what_they_would_give_alone(
    run: tuple[list[Reader], list[tuple[Event, ...]]], cores: int
) -> None:
    company, pushes = run
    note("\n".join(map(str, company)))
    check(company, pushes, cores)


# ---- what is shared ---------------------------------------------------------------------------------------------

NEAR = Condition("a.x BETWEEN b.x - 1 AND b.x + 1", lambda row: None, ("a.x", "b.x"))


def near(rows_seen: int, **given: Any) -> Reader:
    windows = dict.fromkeys("ab", ("rows", rows_seen))
    return Reader(
        **{
            "condition": NEAR, "windows": windows, "how": "inner", "index": "auto", "subwindow": None, "mode": "pairs",
            "joins": 0, "leaves": 99, **given,
        }
    )  # fmt: skip


def some_pushes(count: int, size: int = 60) -> list[tuple[Event, ...]]:
    events = [event for event in rows(count * size * 3, 7) if event[0] in "ab"]
    return _in_blocks([tuple(push) for push in in_pushes(events, [size])][:count])


def held(core: JoinEngine) -> set[int]:
    return {id(index) for chain in core.ledger.chains for sub in chain.subwindows for index in sub.indexes}


def shared_by(*readers: Reader, pushes: Sequence[Sequence[Event]]) -> tuple[SharedStreams, list[JoinEngine]]:
    shared = SharedStreams(list(SCHEMAS.values()))
    cores = [reader.core(shared) for reader in readers]
    for events in pushes:
        push_shared(shared, events)
        shared.commit()
    return shared, cores


def test_rows_are_stored_once_and_so_are_indexes_that_are_the_same() -> None:
    narrow, wide = near(300), near(500)
    other = near(300, condition=Condition("a.y = b.y", lambda row: None, ("a.y", "b.y")))
    shared, cores = shared_by(narrow, wide, other, pushes=some_pushes(20))
    assert all(core.ledger.payload[0] is shared.streams[0].payload for core in cores)
    assert held(cores[0])
    assert held(cores[0]) < held(cores[1])
    assert not held(cores[2]) & held(cores[1])


def test_much_shorter_windows_have_sub_windows_of_their_own() -> None:
    _, (few, many) = shared_by(near(10), near(5_000), pushes=some_pushes(40))
    assert not held(few) & held(many)
    assert len(many.ledger.chains[0].subwindows) < 10


def test_a_stream_keeps_what_its_widest_reader_may_still_see() -> None:
    shared, (few, many) = shared_by(near(50), near(400), pushes=some_pushes(30))
    payload = shared.streams[0].payload
    assert payload.first <= payload.end - 400
    assert few.ledger.chains[0].first > payload.first
    shared.remove(many)
    assert payload.first >= payload.end - 200
    shared.remove(few)
    assert payload.first == payload.end


def test_rows_that_leave_a_short_window_within_their_push_are_there_for_a_longer_one() -> None:
    """A join alone gives them no key. The short one comes first, and makes the index."""
    check([near(9), near(40)], some_pushes(20, size=50))


def test_a_join_that_comes_later_shares_from_the_next_sub_window_on() -> None:
    pushes = some_pushes(20)
    shared, (first,) = shared_by(near(200, subwindow=64), pushes=pushes[:10])
    second = near(200, subwindow=64).core(shared)
    assert not held(second)
    for events in pushes[10:]:
        push_shared(shared, events)
        shared.commit()
    assert held(first) & held(second)


def test_texts_that_no_reader_stores_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "SLACK", 100)
    shared = SharedStreams(list(SCHEMAS.values()))
    reader = near(50, condition=Condition("a.name = b.name", lambda row: None, ("a.name", "b.name")))
    core = reader.core(shared)
    for at in range(60):
        rows = [{**row, "name": f"name {at} {i}"} for i, (_, row) in enumerate(some_pushes(1)[0][:20])]
        push_shared(shared, [(stream, row) for stream in "ab" for row in rows])
        shared.commit()
    condition = core.planning.condition
    assert condition is not None
    assert condition.interner is not None
    assert len(condition.interner) < 500


@pytest.mark.parametrize("flow", ["blocks", "interleaved"])
def test_a_push_that_fails_anywhere_is_undone_for_every_join(flow: str) -> None:
    company = [near(30), near(40, how="left"), near(12, index="scan")]
    pushes = some_pushes(6, size=20)
    if flow == "interleaved":
        pushes = [tuple(event for event in rows(20, n) if event[0] in "ab") for n in range(6)]

    def make() -> tuple[SharedStreams, list[JoinEngine]]:
        return shared_by(*company, pushes=pushes[:4])

    def operation(made: tuple[SharedStreams, list[JoinEngine]]) -> list[Any]:
        shared, cores = made
        try:
            outcomes = push_shared(shared, pushes[4])
            given = [found(outcomes[core]) for core in cores]
            shared.commit()
        except BaseException:
            shared.take_back()
            raise
        return given

    def standing(made: tuple[SharedStreams, list[JoinEngine]]) -> Any:
        shared, cores = made
        ends = [(stream.payload.end, stream.payload.first) for stream in shared.streams]
        return ends, [
            (core.ledger.arrivals.counts.tolist(), [chain.rows for chain in core.ledger.chains])
            for core in cores
        ]

    undisturbed = make()
    wanted = operation(undisturbed)
    after = [found(one) for one in push_shared(undisturbed[0], pushes[5]).values()]

    def check_rest(made: tuple[SharedStreams, list[JoinEngine]], given: list[Any]) -> None:
        assert given == wanted
        assert [found(one) for one in push_shared(made[0], pushes[5]).values()] == after

    every_step(make, operation, check_rest, at_most=60, standing=standing)


def found(outcome: Outcome) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in outcome.matches.columns()), strict=True))
