"""Windows of event time over joins and derived streams: watermarks are handed on, and windows are final when no row can come any more.

The rows of each source are worked out by the tuple-at-a-time oracle, or by loops, from all that has come; its watermark is by definition
the smallest, over some streams, of (largest time - lateness - what the source holds it back by).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import aggregate_oracle
import query_interpreter as dull
import watersmeet as wm
from harness import examples
from interruptions import every_step
from oracle import Oracle, Window
from query_interpreter import Arrival, Asked, Output, Row
from strategies import in_pushes
from test_processor_state import again
from test_processor_warm import WATERMARK
from test_query_groups import SIZES, arrivals, push, shown

T_A, T_B, LATENESS = 5, 4, dull.LATENESS
SCHEMA = {"k": pa.string(), "x": pa.int64(), "y": pa.float64(), "ts": pa.int64()}
TABLE = {"k": ["a", "ß"], "name": ["A", "SZ"]}
Units = Sequence[Sequence[Arrival]]  # rows after which the watermark moves
Ticks = Sequence[tuple[str, int]]  # streams, and what they are held back by


def processor(watermark: str = "row") -> wm.Processor:
    windows = {
        "a": wm.Range(T_A, time="ts", lateness=LATENESS),
        "b": wm.Range(T_B, time="ts", lateness=LATENESS),
    }
    return wm.Processor(
        windows=windows, schemas=dict.fromkeys("ab", SCHEMA), tables={"names": TABLE}, watermark=watermark
    )


def mark(seen: Sequence[Arrival], ticks: Ticks) -> float:
    newest = {
        name: max((row["ts"] for one, row in seen if one == name), default=float("-inf")) for name in "ab"
    }
    return min(newest[name] - LATENESS - held for name, held in ticks)


def on_time(units: Units, ticks: Ticks) -> list[Row]:
    """The rows of a that were not late."""
    seen, found = list[Arrival](), list[Row]()
    for unit in units:
        now = mark(seen, ticks)
        found += [row for name, row in unit if name == "a" and row["ts"] >= now]
        seen += unit
    return found


def joined(how: str, time: Callable[[Row, Row], int], b: Window = ("range", T_B, "ts", LATENESS)) -> Any:
    """a JOIN b ON k, by the oracle."""

    def rows(units: Units, ended: bool) -> list[Row]:
        def condition(r: Row, s: Row) -> bool | None:
            return None if r["k"] is None or s["k"] is None else r["k"] == s["k"]

        oracle = Oracle(condition, ("range", T_A, "ts", LATENESS), b, how)
        pairs = [
            pair
            for unit in units
            for pair in oracle.by_push([("r" if n == "a" else "s", row) for n, row in unit])[0]
        ]
        pairs += oracle.finish().pairs if ended else []
        found = []
        for left, right in pairs:
            mine = oracle.stored["r"][left].row
            other = oracle.stored["s"][right].row if right >= 0 else {"x": None, "ts": None}
            found.append(
                {
                    "k": mine["k"],
                    "x": other["x"] if how in ("inner", "left") else mine["x"],
                    "ts": time(mine, other),
                }
            )
        return found

    return rows


def left_time(r: Row, s: Row) -> int:
    return int(r["ts"])


def distinct(units: Units, ended: bool) -> list[Row]:
    met: dict[Any, Row] = {}
    for row in on_time(units, [("a", 0)]):
        met.setdefault((row["k"], aggregate_oracle.normal(row["x"]), row["ts"]), row)
    return list(met.values())


BOTH = [("a", 0), ("a", T_A), ("b", T_A)]
INNER = Asked("a", ("k",), ("COUNT(*)",), event=("window", 3))


def united(units: Units, ended: bool) -> list[Row]:
    return [*on_time(units, BOTH), *joined("inner", left_time)(units, ended)]


def windows_by(at: int) -> Callable[[Units, bool], list[Row]]:
    def rows(units: Units, ended: bool) -> list[Row]:
        judged = [("a", {**row, "late": False}) for row in on_time(units, [("a", 0)])]
        now = mark([one for unit in units for one in unit], [("a", 0)])
        told = [row for row in INNER.answer(judged) if ended or INNER.is_over(row[1], now)]
        return [{"k": row[2], "x": row[3], "ts": row[at]} for row in told]

    return rows


# What stands in FROM, with columns k, x and ts; its rows; what moves its watermark.
SOURCES: dict[str, tuple[str, Callable[[Units, bool], list[Row]], Ticks]] = {
    "join by a": (
        "SELECT a.k, b.x, a.ts FROM a JOIN b ON a.k = b.k", joined("inner", left_time), [("a", T_A), ("b", T_A)]
    ),
    "join by b": (
        "SELECT a.k, b.x, b.ts FROM a JOIN b ON a.k = b.k", joined("inner", lambda r, s: s["ts"]), [("a", T_B), ("b", T_B)]
    ),
    "greatest": (
        "SELECT a.k, b.x, GREATEST(b.ts, a.ts) AS ts FROM a, b WHERE a.k = b.k",
        joined("inner", lambda r, s: max(r["ts"], s["ts"])), [("a", 0), ("b", 0)],
    ),
    "left": ("SELECT a.k, b.x, a.ts FROM a LEFT JOIN b ON a.k = b.k", joined("left", left_time), [("a", T_A), ("b", T_A)]),
    "semi": ("SELECT k, x, ts FROM a SEMI JOIN b ON a.k = b.k", joined("semi", left_time), [("a", T_A), ("b", T_A)]),
    "anti": ("SELECT k, x, ts FROM a ANTI JOIN b ON a.k = b.k", joined("anti", left_time), [("a", T_A), ("b", T_A)]),
    "rows": (
        "SELECT a.k, b.x, a.ts FROM a LEFT JOIN last_rows(b, 3) b ON a.k = b.k",
        joined("left", left_time, ("rows", 3)), [("a", T_A)],
    ),
    "table": (
        "SELECT a.k, x, ts FROM a JOIN names n ON a.k = n.k",
        lambda units, ended: [row for row in on_time(units, [("a", 0)]) if row["k"] in TABLE["k"]], [("a", 0)],
    ),
    "left table": (
        "SELECT a.k, x, ts FROM a LEFT JOIN names n ON a.k = n.k",
        lambda units, ended: on_time(units, [("a", 0)]), [("a", 0)],
    ),
    "distinct": ("SELECT DISTINCT k, x, ts FROM a", distinct, [("a", 0)]),
    "union": ("SELECT k, x, ts FROM a UNION ALL SELECT a.k, b.x, a.ts FROM a JOIN b ON a.k = b.k", united, BOTH),
    "ends": ("SELECT k, COUNT(*) AS x, window.end AS ts FROM a GROUP BY k, window(ts, 3)", windows_by(1), [("a", 0)]),
    "starts": ("SELECT k, COUNT(*) AS x, window.start AS ts FROM a GROUP BY k, window(ts, 3)", windows_by(0), [("a", 3)]),
}  # fmt: skip
KEYS = st.lists(st.sampled_from(["k", "x > 1", "COALESCE(x, 7)"]), max_size=2, unique=True)
AGGREGATES = st.lists(
    st.sampled_from(["COUNT(*)", "COUNT(x)", "SUM(x)", "AVG(x)", "MAX(k)"]),
    min_size=1,
    max_size=3,
    unique=True,
)


@st.composite
def windows(draw: st.DrawFn) -> Asked:
    size = draw(st.integers(1, 5))
    hop = st.integers(1, size).map(lambda slide: ("window", size, slide))
    event = draw(st.just(("window", size)) | hop | st.just(("session", size)))
    return Asked(
        "a", tuple(draw(KEYS)), tuple(draw(AGGREGATES)), draw(st.booleans()), None, event, emit="append"
    )


def told_by(asked: Asked, name: str, units: Units, ended: bool) -> Counter[Output]:
    """The windows that must have been told."""
    _, rows, ticks = SOURCES[name]
    now = mark([one for unit in units for one in unit], ticks)
    derived = [("a", {**row, "y": None, "late": False}) for row in rows(units, ended)]
    return Counter(row for row in asked.answer(derived) if ended or asked.is_over(row[1], now))


@pytest.mark.parametrize("name", SOURCES)
def test_windows_over_derived_streams_come_out_once_when_they_are_final(name: str) -> None:
    @examples(12)
    @given(windows(), arrivals(), SIZES, WATERMARK, st.integers(0, 4))
    def holds(asked: Asked, rows: list[Arrival], sizes: list[int], watermark: str, saved: int) -> None:
        sql = asked.sql.replace(" FROM a ", f" FROM ({SOURCES[name][0]}) ")
        note(sql)
        qp = processor(watermark)
        qp.create("q", sql)
        told: Counter[Output] = Counter()
        pushes = in_pushes(rows, sizes)
        for number, events in enumerate(pushes):
            result = push(qp, events)["q"]
            told += Counter(shown(result))
            units = in_units(pushes[: number + 1], watermark)
            assert told == told_by(asked, name, units, ended=False)
            if number == saved:
                qp = again(qp)
        told += Counter(shown(qp.finish()["q"]))
        assert told == told_by(asked, name, in_units(pushes, watermark), ended=True)

    holds()


def in_units(pushes: Units, watermark: str) -> Units:
    return pushes if watermark == "push" else [[row] for push in pushes for row in push]


@examples(20)
@given(
    st.sampled_from(["join by a", "greatest", "union", "distinct", "starts"]), arrivals(), SIZES, WATERMARK
)
def test_rows_of_derived_streams_are_given_in_the_order_of_their_times(
    name: str, rows: list[Arrival], sizes: list[int], watermark: str
) -> None:
    text, source, ticks = SOURCES[name]
    qp = processor(watermark)
    qp.create("q", f"SELECT ts, x FROM ({text}) ORDER BY ts, x", emit="append")
    told: list[Output] = []
    pushes = in_pushes(rows, sizes)
    for number, events in enumerate(pushes):
        told += shown(push(qp, events)["q"])
        units = in_units(pushes[: number + 1], watermark)
        now = mark([one for unit in units for one in unit], ticks)
        assert told == ordered(row for row in source(units, False) if row["ts"] < now)
    told += shown(qp.finish()["q"])
    assert told == ordered(source(in_units(pushes, watermark), True))


def ordered(rows: Any) -> list[Output]:
    return sorted(
        ((row["ts"], row["x"]) for row in rows), key=lambda row: (row[0], row[1] is not None, row[1])
    )


@examples(10)
@given(
    st.sampled_from(["join by a", "left", "union", "distinct", "ends"]),
    arrivals(),
    SIZES,
    WATERMARK,
    st.integers(0, 3),
)
def test_a_warm_query_goes_on_as_one_that_was_always_there(
    name: str, rows: list[Arrival], sizes: list[int], watermark: str, starts: int
) -> None:
    """Streams here keep all rows, so it knows everything; and its backfill is what the other has told."""
    asked = Asked("a", ("k",), ("COUNT(*)", "SUM(x)"), event=("window", 4, 2), emit="append")
    sql = asked.sql.replace(" FROM a ", f" FROM ({SOURCES[name][0]}) ")
    wide = wm.Range(1000, time="ts", lateness=LATENESS)
    there, other = (
        wm.Processor(a=wide, b=wide, schemas=dict.fromkeys("ab", SCHEMA), watermark=watermark)
        for _ in range(2)
    )
    own = {
        "windows": {
            "a": wm.Range(T_A, time="ts", lateness=LATENESS),
            "b": wm.Range(T_B, time="ts", lateness=LATENESS),
        }
    }
    options: dict[str, Any] = own if "JOIN" in sql and "UNION" not in sql else {}
    there.create("q", sql, **options)
    before: Counter[Output] = Counter()
    pushes = in_pushes(rows, sizes)
    for events in pushes[:starts]:
        before += Counter(shown(push(there, events)["q"]))
        push(other, events)
    query = other.create("q", sql, start="warm", backfill=True, **options)
    assert query.backfill is not None
    assert Counter(shown(query.backfill)) == before
    for events in pushes[starts:]:
        assert Counter(shown(push(other, events)["q"])) == Counter(shown(push(there, events)["q"]))
    assert Counter(shown(other.finish()["q"])) == Counter(shown(there.finish()["q"]))


# ---- by example -------------------------------------------------------------------------------------------------


def arrived(*rows: tuple[str, int, int]) -> dict[str, list[Any]]:
    return {
        "k": [k for k, _, _ in rows],
        "x": [x for _, x, _ in rows],
        "y": [None] * len(rows),
        "ts": [t for _, _, t in rows],
    }


def test_the_time_may_be_named_as_the_join_has_it() -> None:
    qp = processor()
    qp.create("a", "SELECT window.start, COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY window(a.ts, 5)")
    qp.create(
        "g",
        "SELECT window.start, COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY window(GREATEST(a.ts, b.ts), 5)",
    )
    qp.create(
        "s",
        "SELECT session_window.end, COUNT(*) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY session_window(a.ts, 2)",
    )
    told = []
    for time in (1, 7, 12, 40):
        results = qp.push(a=arrived(("u", 1, time)), b=arrived(("u", 2, time + 1)))
        told.append({name: shown(result) for name, result in results.items()})
    assert told == [
        {"a": [], "g": [], "s": []},
        {"a": [], "g": [(0, 1)], "s": []},
        {"a": [(0, 1)], "g": [(5, 1)], "s": [(3, 1)]},
        {"a": [(5, 1), (10, 2)], "g": [(10, 2)], "s": [(9, 1), (14, 2)]},
    ]


def test_advance_makes_windows_of_joins_final() -> None:
    qp = processor()
    qp.create(
        "q", "SELECT window.start, COUNT(*) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY window(a.ts, 5)"
    )
    assert shown(qp.push(a=arrived(("u", 1, 1)))["q"]) == []
    assert shown(qp.advance(a=30)["q"]) == []
    assert shown(qp.advance(b=30)["q"]) == [(0, 1)]


def test_an_altered_join_begins_with_a_clock_of_its_own() -> None:
    """The clock of the join before would have passed rows that the new one takes."""
    qp = processor()
    text = (
        "SELECT window.start, COUNT(*) AS n FROM a JOIN b ON a.k = b.k AND a.x < {} GROUP BY window(a.ts, 5)"
    )
    query = qp.create("q", text.format(9))
    qp.push(a=arrived(("u", 1, 50)), b=arrived(("u", 1, 50)))
    query.alter(text.format(8))
    results = [qp.push(a=arrived(("u", 1, time)), b=arrived(("u", 1, time))) for time in (5, 6, 30)]
    assert [result.stopped for result in results] == [{}] * 3
    assert [shown(result["q"]) for result in results] == [[], [], [(5, 4)]]


OVER = "window must be over a time that has a watermark; got {}, {}"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "SELECT COUNT(*) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY window(b.ts, 5)",
            OVER.format("b.ts", "which is NULL where a row has no partner; name the time of the other side"),
        ),
        (
            "SELECT COUNT(*) AS n FROM a JOIN last_rows(b, 3) ON a.k = b.k GROUP BY window(b.ts, 5)",
            OVER.format("b.ts", "of 'b', which is in the join with Rows(n=3): rows of any age may come out; give it a Range there"),
        ),
        (
            "SELECT COUNT(*) AS n FROM unbounded(a) JOIN b ON a.k = b.k GROUP BY window(a.ts, 5)",
            OVER.format("a.ts", "of 'a', which is in the join with Unbounded(): rows of any age may come out; give it a Range there"),
        ),
        (
            "SELECT COUNT(*) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY window(GREATEST(a.ts, b.ts), 5)",
            OVER.format(
                "GREATEST(a.ts, b.ts)",
                "which is GREATEST of something else than the times of all streams of an inner join, each with a Range; name those, or one "
                "time",
            ),
        ),
        (
            "SELECT COUNT(*) AS n FROM (SELECT session_window.start AS s FROM a GROUP BY session_window(ts, 2)) GROUP BY window(s, 5)",
            OVER.format("s", "the start of a session, which may be as long as it likes; name its end"),
        ),
        (
            "SELECT COUNT(*) AS n FROM (SELECT ts FROM a UNION ALL SELECT b.x FROM b) GROUP BY window(ts, 5)",
            "window must be over the time column of a stream whose own window is a Range, which says how late rows may be; got ts; name "
            "that column, or give the stream a Range",
        ),
        (
            "SELECT COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY window(a.x, 5)",
            "window must be over the time column of a stream whose own window is a Range, which says how late rows may be; got a.x; name "
            "that column, or give the stream a Range",
        ),
    ],
)  # fmt: skip
def test_what_has_no_watermark_is_refused(sql: str, said: str) -> None:
    qp = processor()
    with pytest.raises(wm.ConditionError) as caught:
        qp.create("q", sql)
    assert str(caught.value).split("\n")[0] == said
    assert not qp.queries()


def test_times_of_several_units_are_refused() -> None:
    schemas = {name: {"k": pa.int64(), "ts": pa.timestamp(unit)} for name, unit in (("a", "ms"), ("b", "us"))}
    qp = wm.Processor(a=wm.Range("5 s", time="ts"), b=wm.Range("5 s", time="ts"), schemas=schemas)
    with pytest.raises(wm.ConditionError) as caught:
        qp.create("q", "SELECT COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY window(a.ts, '5 seconds')")
    assert str(caught.value).split("\n")[0] == OVER.format(
        "a.ts", "times in timestamp[ms] and timestamp[us]; give all streams times of one type"
    )


def test_timestamps_are_held_back_in_their_own_unit() -> None:
    stamp = pa.timestamp("ms")
    qp = wm.Processor(
        a=wm.Range("2 s", time="ts"),
        b=wm.Range("1 s", time="ts"),
        schemas={name: {"ts": stamp} for name in "ab"},
    )
    qp.create("j", "SELECT COUNT(*) AS n FROM a, b GROUP BY window(a.ts, '1 second')")
    qp.create(
        "w",
        "SELECT COUNT(*) AS n FROM (SELECT window.start AS s FROM a GROUP BY window(ts, '500 ms')) GROUP BY window(s, '1 second')",
    )
    told = []
    for time in (0, 2_999, 3_000, 3_499):
        rows = {"ts": pa.array([time], stamp)}
        results = qp.push(a=rows, b=rows)
        told.append([shown(result) for result in results.values()])
    assert told == [[[], []], [[], [(1,)]], [[(1,)], []], [[], []]]


def test_an_interrupted_push_is_undone() -> None:
    def made() -> wm.Processor:
        qp = processor("push")
        for name in ("union", "left", "starts"):
            qp.create(
                name, f"SELECT window.start, COUNT(*) AS n FROM ({SOURCES[name][0]}) GROUP BY window(ts, 5)"
            )
        qp.push(a=arrived(("a", 1, 3)), b=arrived(("a", 1, 4)))
        return qp

    def operation(qp: wm.Processor) -> Any:
        return qp.push(a=arrived(("a", 2, 1), ("b", 3, 14)), b=arrived(("a", 1, 16)))

    def told(results: Any) -> Any:
        return {name: sorted(shown(result)) for name, result in results.items()}

    def rest(qp: wm.Processor) -> Any:
        return [told(qp.push(a=arrived(("a", 5, 30)), b=arrived(("a", 1, 30)))), told(qp.finish())]

    undisturbed = made()
    wanted, after = told(operation(undisturbed)), None
    after = rest(undisturbed)

    def check(qp: wm.Processor, given: Any) -> None:
        assert told(given) == wanted
        assert rest(qp) == after

    every_step(made, operation, check, at_most=15, standing=lambda qp: qp.explain())
