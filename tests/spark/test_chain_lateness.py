"""A join of a join waits as long as the first one's rows need, so that none is refused as late: all rows, by plain loops."""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from spark.runner import Runner
from watersmeet.errors import OptionError
from watersmeet.spark import stream_join
from watersmeet.spark.shuffle.spread import choose_spread
from watersmeet.spark.spec import Binding, JoinSpec
from watersmeet.spark.user import chaining
from watersmeet.sql.condition import Condition
from watersmeet.sql.select import Select

Row = dict[str, Any]
ROW = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("x", pa.int64())])
FLUSH = -1  # the key of rows that only move the clocks on


def lateness_of(bound: Binding, text: str) -> Any:
    schemas = dict(zip(bound.spec.streams, bound.spec.schemas, strict=True))
    (expr,) = Select(text).bind(schemas).expressions
    return (chaining.metadata(bound, expr) or {}).get(chaining.KEY, {})


class Level:
    """One join of a chain: p, what the joins before gave, with the next stream; its time is ``time`` of the two."""

    def __init__(
        self, folder: Any, number: int, how: str, left: wm.Range, right: wm.Range, time: str
    ) -> None:
        self.how, self.windows, self.time = how, (left, right), time
        condition = "p.x BETWEEN q.x - 1 AND q.x + 1"
        select = f"p.id AS pid, q.id AS qid, p.ts AS pts, q.ts AS qts, {time} AS ts, p.x"
        bound = Condition(condition).bind({"p": ROW, "q": ROW})
        self.spec = JoinSpec(
            condition, ("p", "q"), self.windows, (ROW, ROW), how, select, spread=choose_spread("auto", bound, self.windows, None, how),
            cores=2, state=str(folder), name=f"level-{number}", instance=f"{folder}/{number}",
        )  # fmt: skip
        self.runner = Runner(self.spec)
        self.found: list[Row] = []  # each with the id that the next level knows it by

    @property
    def needed(self) -> int:
        return int(lateness_of(Binding(self.spec), self.time)["lateness"])

    def batch(self, number: int, left: list[Row], right: list[Row]) -> list[Row]:
        sides = [[pa.RecordBatch.from_pylist(rows, schema=ROW)] for rows in (left, right)]
        rows = self.runner.batch(number, sides)
        given = [{**row, "id": len(self.found) + i} for i, row in enumerate(rows)]
        self.found += given
        return given

    @property
    def late(self) -> int:
        return sum(figures["late_p"] + figures["late_q"] for figures in self.runner.figures)

    def wanted(self, left: list[Row], right: list[Row]) -> Iterator[tuple[Any, Any]]:
        """All pairs, whenever they came."""
        (t_p, t_q) = (window.duration for window in self.windows)
        for p in left:
            some = [
                q
                for q in right
                if abs(p["x"] - q["x"]) <= 1 and p["ts"] - t_q <= q["ts"] <= p["ts"] + t_p  # type: ignore[operator]
            ]
            yield from ((p["id"], q["id"]) for q in some)
            if not some and self.how == "left":
                yield p["id"], None


def stream(chance: random.Random, batches: int, lateness: int) -> list[list[Row]]:
    """Batches of rows that are never late by themselves; the stream begins, runs and pauses as it likes."""
    newest, made, number = chance.randrange(12), [], 0
    for _ in range(batches):
        rows = []
        for _ in range(chance.randrange(5)):
            ts = max(0, chance.randrange(newest - lateness, newest + chance.choice((1, 3, 14))))
            rows.append({"id": number, "ts": ts, "x": chance.randrange(6)})
            number += 1
        newest = max([newest, *(row["ts"] for row in rows)])
        made.append(rows)
    return made


def flush(number: int) -> list[Row]:
    return [{"id": -number, "ts": 1000 * number, "x": FLUSH * 10}]


@pytest.mark.parametrize("seed", range(16))
def test_a_chain_loses_nobody(tmp_path: Any, seed: int) -> None:
    chance = random.Random(seed)
    joins = 2 + seed % 2
    lateness = [chance.choice((0, 3, 8)) for _ in range(joins + 1)]
    streams = [stream(chance, 14, late) + [flush(n) for n in range(1, 6)] for late in lateness]
    levels: list[Level] = []
    for i in range(joins):
        left = wm.Range(chance.choice((1, 3, 6)), time="ts", lateness=levels[-1].needed if i else lateness[0])
        right = wm.Range(chance.choice((1, 3, 6)), time="ts", lateness=lateness[i + 1])
        how, time = chance.choice(("inner", "left")), chance.choice(("p.ts", "GREATEST(p.ts, q.ts)"))
        levels.append(Level(tmp_path, i, how, left, right, time))
    for number in range(len(streams[0])):
        rows = streams[0][number]
        for level, other in zip(levels, streams[1:], strict=True):
            rows = [
                {"id": row["id"], "ts": row["ts"], "x": row["x"]}
                for row in level.batch(number, rows, other[number])
            ]
    assert [level.late for level in levels] == [0] * joins
    left = [row for rows in streams[0] for row in rows]
    for level, other in zip(levels, streams[1:], strict=True):
        right = [row for rows in other for row in rows]
        found = [(row["pid"], row["qid"]) for row in level.found if row["x"] >= 0]
        wanted = list(level.wanted([row for row in left if row["x"] >= 0], right))
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
        left = level.found
    assert any(row["x"] >= 0 for row in levels[0].found)


@pytest.mark.parametrize(
    ("time", "how", "rows", "needed"),
    [
        # r has been seen up to 104, as s = 100 may have partners so late; s = 94 is not late, and r = 90 is still there for it.
        ("p.ts", "inner", [([90, 100], [100]), ([104], []), ([], [94])], 14),
        # s runs ahead: r = 94 is not late, and meets s = 90.
        ("q.ts", "inner", [([100], [90, 100]), ([], [104]), ([94], [])], 14),
        # The later one of a pair is never below the watermark, 94.
        ("GREATEST(p.ts, q.ts)", "inner", [([90, 100], [100]), ([104], []), ([], [94])], 10),
        # A row that finds nobody has waited for the watermark, 94, to come: r = 90.
        ("GREATEST(p.ts, q.ts)", "left", [([90, 100], [100]), ([104], []), ([], [103])], 14),
    ],
)  # fmt: skip
def test_the_lateness_is_no_longer_than_it_must_be(
    tmp_path: Any, time: str, how: str, rows: list[Any], needed: int
) -> None:
    window = wm.Range(4, time="ts", lateness=6)
    level = Level(tmp_path, 0, how, window, window, time)
    assert level.needed == needed
    newest, behind = -1000, 0
    for number, sides in enumerate(rows):
        given = [
            [{"id": ts, "ts": ts, "x": 0 if ts != 90 or how == "inner" else 50} for ts in side]
            for side in sides
        ]
        found = [row["ts"] for row in level.batch(number, *given)]
        behind = max([behind, *(newest - ts for ts in found)])
        newest = max([newest, *found])
    assert level.late == 0
    assert behind == needed


def test_opposite_a_stream_without_time_it_is_the_longer_of_window_and_lateness() -> None:
    for duration, late in ((4, 6), (9, 6)):
        windows = (wm.Unbounded(), wm.Range(duration, time="ts", lateness=late))
        bound = Binding(JoinSpec("p.x = q.x", ("p", "q"), windows, (ROW, ROW)))
        assert lateness_of(bound, "q.ts") == {"lateness": max(duration, late)}
        assert lateness_of(bound, "p.ts") == lateness_of(bound, "GREATEST(p.ts, q.ts)") == {}


def test_lateness_is_given_in_the_unit_of_the_column() -> None:
    for kind, duration, lateness, wanted in (
        (pa.timestamp("us", "UTC"), "5 s", "1 s", "11 s"),
        (pa.timestamp("us"), "1500 ms", "1 us", "3000001 us"),
        (pa.date32(), "2 days", "1 day", "5 d"),
        (pa.float64(), 0.5, 0.25, 1.25 * (1 + 2.0**-20)),
    ):
        schema = pa.schema([("ts", kind), ("x", pa.int64())])
        window = wm.Range(duration, time="ts", lateness=lateness)
        bound = Binding(JoinSpec("r.x = s.x", ("r", "s"), (window, window), (schema, schema)))
        assert lateness_of(bound, "r.ts") == {"lateness": wanted}


# ---- as Spark carries it -----------------------------------------------------------------------------------------

NEAR = wm.Range("5 s", time="ts", lateness="1 s")


def source(spark: Any) -> Any:
    return spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value AS x")


def first(
    spark: Any, folder: Any, how: str = "inner", select: str = "r.ts, s.ts AS sts, r.x", **windows: Any
) -> Any:
    windows = {"r": NEAR, "s": NEAR, **windows}
    frames = {"r": source(spark), "s": source(spark)}
    return stream_join("r.x = s.x", **frames, windows=windows, how=how, select=select, state=str(folder))


def second(spark: Any, folder: Any, frame: Any, window: Any = NEAR) -> Any:
    """The window that the second join really has."""
    windows = {"p": window, "t": NEAR}
    made = stream_join(
        "p.x = t.x", p=frame, t=source(spark), windows=windows, select="p.x", state=str(folder)
    )
    return made._watersmeet.spec.windows[0]


def test_what_a_join_needs_is_carried_to_the_next(spark: Any, folder: Any) -> None:
    joined = first(spark, folder)
    table = spark.range(5).withColumnRenamed("id", "x")
    for frame in (
        joined,
        joined.alias("a").select("a.x", "a.ts").where("x > 1"),
        joined.withColumnRenamed("ts", "at").withColumn("y", joined.x + 1).withColumnRenamed("at", "ts"),
        joined.join(table, "x").repartition(3),
        joined.dropDuplicates(["x"]),
    ):
        assert second(spark, folder, frame) == wm.Range("5 s", time="ts", lateness="11 s")
    assert second(spark, folder, joined, wm.Range("5 s", time="ts", lateness="20 s")).lateness == "20 s"
    greatest = first(spark, folder, select="GREATEST(r.ts, s.ts) AS ts, r.x")
    assert second(spark, folder, greatest).lateness == "6 s"
    table = spark.range(3).selectExpr("current_timestamp() AS ts", "id AS x")
    past = stream_join("r.x = s.x", r=table, s=table, windows={"r": NEAR, "s": NEAR}, select="r.x", cores=1)
    for frame in (
        source(spark),
        source(spark).join(past, "x"),
        source(spark).union(source(spark)).join(past, "x"),
    ):
        assert second(spark, folder, frame) == NEAR


def test_a_time_that_may_come_as_late_as_it_likes_is_refused(spark: Any, folder: Any) -> None:
    joined = first(spark, folder)
    for frame, why in (
        (joined.selectExpr("ts + INTERVAL 1 SECOND AS ts", "x"), "which is no time of that join's windows as it was"),
        (first(spark, folder, r=wm.Unbounded()), "which is no time of that join's windows as it was"),
        (first(spark, folder, "full"), "which is NULL in rows of 's' that have found nobody"),
        (joined.select("ts", "x").union(source(spark)), "after Union, of which nothing is known"),
        (joined.withWatermark("ts", "1 second").groupBy("ts", "x").count(), "after Aggregate, of which nothing is known"),
    ):  # fmt: skip
        with pytest.raises(
            OptionError,
            match="the time of stream 'p', which comes from another join, must have a known lateness",
        ) as told:
            second(spark, folder, frame)
        assert f"got p.ts, {why}; do: " in str(told.value)
        assert ".withWatermark('ts', '1 minute') on the DataFrame that is given as p=" in str(told.value)


def test_with_watermark_says_how_late_a_time_may_be(spark: Any, folder: Any) -> None:
    mixed = first(spark, folder).select("ts", "x").union(source(spark))
    assert second(spark, folder, mixed.withWatermark("ts", "30 seconds")).lateness == "30000 ms"
    below = first(spark, folder).select("ts", "x").withWatermark("ts", "30 seconds").union(source(spark))
    with pytest.raises(OptionError, match="after Union, of which nothing is known"):
        second(spark, folder, below)
