"""``Processor(watermark="push")``: the watermark moves once after each push, as the tuple-at-a-time oracle with pushes as units has it.

The Spark operator is held to the same oracle, with batches as pushes (``tests/spark/batch_oracle.py``). Windows of event time, warm starts,
queries that have waited and saved states draw this setting in the tests of those.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, window
from interruptions import every_step
from oracle import Event, MultiwayOracle, Oracle, under_all_names
from strategies import column, in_pushes
from test_processor_properties import Asked, asked, names_and_order, push
from test_processor_state import again
from test_processor_warm import late, numbers, passing
from test_shared_streams import SCHEMAS, STREAMS, UNIT, Reader, readers, rows

Found = list[tuple[int, ...]]


class Expected:
    """What the oracle says, by the ids of rows; -1 for nobody."""

    def __init__(self, names: Sequence[str], windows: Sequence[Any], predicate: Any, how: str) -> None:
        self.names, self.two = list(names), len(names) == 2
        if self.two:
            first, second = names
            self.sides = dict(zip(names, "rs", strict=True))
            self.oracle: Any = Oracle(lambda r, s: predicate({first: r, second: s}), *windows, how)
        else:
            self.sides = dict(zip(names, names, strict=True))
            self.oracle = MultiwayOracle(predicate, dict(zip(names, windows, strict=True)))

    def push(self, events: Sequence[Event]) -> tuple[Found, dict[str, list[int]]]:
        mine = [(self.sides[name], row) for name, row in events if name in self.sides]
        found, late = self.oracle.by_push(mine)
        by_name = {name: [row["id"] for one, row in late if one == side] for name, side in self.sides.items()}
        return self.ids(found), {name: ids for name, ids in by_name.items() if ids}

    def finish(self) -> Found:
        return self.ids(self.oracle.finish().pairs) if self.two else []

    def advance(self, name: str, time: int) -> Found:
        return self.ids(self.oracle.advance(self.sides[name], time).pairs)

    def ids(self, found: Sequence[tuple[int, ...]]) -> Found:
        stored = [self.oracle.stored[side] for side in self.sides.values()]
        return sorted(
            tuple(-1 if n < 0 else mine[n].row["id"] for n, mine in zip(one, stored, strict=True))
            for one in found
        )


def expected(reader: Reader) -> Expected:
    return Expected(
        list(reader.windows), list(reader.windows.values()), reader.condition.predicate, reader.how
    )


@st.composite
def companies(draw: st.DrawFn) -> tuple[list[Asked], list[tuple[Event, ...]]]:
    sizes = draw(st.lists(st.integers(1, 30), min_size=1, max_size=5))
    events = passing(rows(draw(st.integers(4, 80)), draw(st.integers(0, 2**32))), draw(st.integers(0, 3)))
    pushes = list(in_pushes(events, sizes))
    return draw(asked([draw(readers(len(pushes))) for _ in range(2)])), pushes


@examples(50)
@given(companies(), st.integers(0, 6))
def test_joins_are_those_of_the_oracle_whose_watermark_moves_after_each_push(drawn: Any, saved: int) -> None:
    """Also after the processor was saved and loaded."""
    company, pushes = drawn
    note("\n".join(query.sql for query in company))
    qp = wm.Processor(
        windows=dict.fromkeys(STREAMS, wm.Range("4 s", time="ts")), schemas=SCHEMAS, watermark="push"
    )
    there: dict[int, Expected] = {}
    for number, events in enumerate(pushes):
        for i, query in enumerate(company):
            if query.reader.joins == number:
                qp.create(f"q{i}", query.sql, windows=query.own)
                there[i] = expected(query.reader)
        results = push(qp, events)
        for i, alone in there.items():
            result = results[f"q{i}"]
            assert (numbers(result), late(result)) == alone.push(events), f"push {number}, query {i}"
        if number == saved:
            qp = again(qp)
    ended = qp.finish()
    for i, alone in there.items():
        assert numbers(ended[f"q{i}"]) == alone.finish()


RANGES = st.builds(lambda t, late: ("range", t, "ts", late), st.integers(0, 12), st.integers(0, 5))
SIZES = st.lists(st.integers(1, 20), min_size=1, max_size=4)


@examples(20)
@given(st.integers(0, 2**32), SIZES, st.tuples(RANGES, RANGES), st.sampled_from(["inner", "left", "full"]))
def test_so_are_self_joins(seed: int, sizes: list[int], specs: Any, how: str) -> None:
    events = [event for event in passing(rows(150, seed), 1) if event[0] == "a"]
    windows = {name: window(spec, UNIT) for name, spec in zip("pq", specs, strict=True)}
    kind = "" if how == "inner" else how.upper()
    qp = wm.Processor(a=wm.Rows(5), schemas={"a": SCHEMAS["a"]}, watermark="push")
    qp.create("q", f"SELECT p.id, q.id AS other FROM a p {kind} JOIN a q ON p.k = q.k", windows=windows)
    alone = Expected(
        "pq",
        specs,
        lambda both: (
            both["p"]["k"] == both["q"]["k"] if None not in (both["p"]["k"], both["q"]["k"]) else None
        ),
        how,
    )
    for part in in_pushes(events, sizes):
        found, behind = alone.push(under_all_names([row for _, row in part], "pq"))
        result = push(qp, part)["q"]
        assert numbers(result) == found
        assert late(result) == {{"p": "a"}.get(name, name): ids for name, ids in behind.items()}
    assert numbers(qp.finish()["q"]) == alone.finish()


@examples(20)
@given(
    st.integers(0, 2**32),
    SIZES,
    st.tuples(RANGES, RANGES),
    st.sampled_from(["inner", "left", "full"]),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 90)), max_size=8),
)
def test_advance_moves_the_watermark_as_a_push_of_its_own(
    seed: int, sizes: list[int], specs: Any, how: str, moves: list[tuple[str, int]]
) -> None:
    windows = {name: window(spec, UNIT) for name, spec in zip("ab", specs, strict=True)}
    kind = "" if how == "inner" else how.upper()
    qp = wm.Processor(windows=windows, schemas={name: SCHEMAS[name] for name in "ab"}, watermark="push")
    qp.create("q", f"SELECT a.id, b.id AS other FROM a {kind} JOIN b ON a.x <= b.x")

    def holds(both: Any) -> bool | None:
        left, right = both["a"]["x"], both["b"]["x"]
        return None if left is None or right is None else left <= right

    alone = Expected("ab", specs, holds, how)
    events = [event for event in passing(rows(80, seed), 1) if event[0] in "ab"]
    for number, part in enumerate(in_pushes(events, sizes)):
        result = push(qp, part)["q"]
        assert (numbers(result), late(result)) == alone.push(part)
        if number < len(moves):
            stream, time = moves[number]
            value = column([{"ts": time}], SCHEMAS[stream].field("ts"), UNIT)[0]
            assert numbers(qp.advance({stream: value})["q"]) == alone.advance(stream, time)
    assert numbers(qp.finish()["q"]) == alone.finish()


# ---- by example -------------------------------------------------------------------------------------------------

SCHEMA = {"x": pa.int64(), "ts": pa.int64()}


def processor(watermark: str) -> wm.Processor:
    spec = wm.Range(5, time="ts", lateness=1)
    return wm.Processor(a=spec, b=spec, schemas=dict.fromkeys("ab", SCHEMA), watermark=watermark)


def values(result: wm.Result) -> list[Any]:
    return [tuple(row.values()) for row in result.to_arrow().to_pylist()]


def arrived(*times: int) -> dict[str, list[int]]:
    return {"x": list(times), "ts": list(times)}


def test_no_row_is_late_by_rows_of_its_own_push() -> None:
    texts = {
        "windows": "SELECT window.start, COUNT(*) AS n FROM a GROUP BY window(ts, 5)",
        "order": "SELECT x FROM a ORDER BY ts",
        "sessions": "SELECT session_window.start, COUNT(*) AS n FROM a GROUP BY session_window(ts, 3)",
    }
    wanted = {
        "row": {"windows": [(0, 1)], "order": [(3,)], "sessions": [(3, 1)]},
        "push": {"windows": [(0, 2)], "order": [(1,), (3,)], "sessions": [(1, 2)]},
    }
    for watermark, told in wanted.items():
        qp = processor(watermark)
        for name, sql in texts.items():
            qp.create(name, sql)
        results = qp.push(a=arrived(3, 9, 1))
        assert {name: values(result) for name, result in results.items()} == told
        many = {"row": 1, "push": 0}[watermark]
        assert [sum(map(len, result.late.values())) for result in results.values()] == [many] * 3
        results = qp.push(a=arrived(7, 20, 8))
        assert [result.late["a"].column("x").to_pylist() for result in results.values()] == [
            [7] + [8] * many
        ] * 3


def test_the_setting_is_shown_and_saved() -> None:
    assert "watermarks move once after each push" in processor("push").explain()
    assert "watermarks" not in processor("row").explain()
    loaded = again(processor("push"))
    assert loaded.explain() == processor("push").explain()
    for watermark in ("rows", None, True):
        with pytest.raises(wm.OptionError) as caught:
            processor(watermark)  # type: ignore[arg-type]
        assert str(caught.value) == f"watermark= must be 'row' or 'push'; got {watermark!r}"


def test_a_warm_query_knows_with_which_push_rows_came_that_are_gone() -> None:
    """Row 5 of b came with rows of a that are not stored any more, and are newer: it was not late."""
    spec = wm.Range(2, time="ts")
    for watermark, late_rows in (("push", 0), ("row", 1)):
        qp = wm.Processor(
            a=wm.Range(2, time="ts"),
            b=wm.Range(100, time="ts"),
            schemas=dict.fromkeys("ab", SCHEMA),
            watermark=watermark,
        )
        qp.push(b=arrived(0), a=arrived(0))
        qp.push({"b": arrived(30, 5), "a": arrived(30)}, order=["b", "a", "b"])
        qp.push(a=arrived(60))
        qp.push(a=arrived(90))
        assert (qp._running.feed.stored_from("a"), qp._running.feed.stored_from("b")) == (3, 0)
        timed = {"a": spec, "b": spec}
        query = qp.create(
            "q", "SELECT b.x FROM a JOIN b ON a.x = b.x", windows=timed, start="warm", backfill=True
        )
        assert query.backfill is not None
        assert sum(map(len, query.backfill.late.values())) == late_rows


def test_an_interrupted_call_is_undone() -> None:
    """The history knows pushes by their numbers: those of a call that is taken back are given again."""

    def made() -> wm.Processor:
        qp = processor("push")
        qp.create("q", "SELECT window.start, COUNT(*) AS n FROM a GROUP BY window(ts, 5)")
        qp.create("j", "SELECT a.x, b.x AS y FROM a LEFT JOIN b ON a.x = b.x")
        qp.push(a=arrived(1, 2), b=arrived(1))
        return qp

    def operation(qp: wm.Processor) -> Any:
        present, order = names_and_order([("a", {}), ("b", {}), ("a", {})])
        assert present == ["a", "b"]
        return qp.push({"a": arrived(9, 3), "b": arrived(8)}, **order)

    def rest(qp: wm.Processor) -> Any:
        warm = qp.create("w", "SELECT a.x FROM a JOIN b ON a.x <= b.x", start="warm", backfill=True)
        results = [qp.push(a=arrived(4, 12), b=arrived(12)), qp.finish()]
        return values(warm.backfill), [  # type: ignore[arg-type]
            {name: sorted(values(one), key=repr) for name, one in result.items()} for result in results
        ]

    def shown(results: Any) -> Any:
        return {name: values(one) for name, one in results.items()}

    undisturbed = made()
    wanted = shown(operation(undisturbed))
    after = rest(undisturbed)

    def check(qp: wm.Processor, given: Any) -> None:
        assert shown(given) == wanted
        assert rest(qp) == after

    every_step(made, operation, check, at_most=15, standing=lambda qp: qp.explain())
