"""Generated and rate sources on real Spark: every way of spreading, kind of window and order equals the batch oracle."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from spark.batch_oracle import BatchOracle, arranged
from watersmeet.spark import explain, stream_join
from watersmeet.spark.sources import register_sources
from watersmeet.spark.sources.reading import SOURCES

MARKET = next(source for source in SOURCES if source.title == "watersmeet_market")
SECOND = 1_000_000
BAND = (
    "r.price BETWEEN s.bid - 2 AND s.bid + 3",
    lambda r, s: s["bid"] - 2 <= r["price"] <= s["bid"] + 3,
)
ANY = ("r.sym < s.sym AND r.price > s.ask", lambda r, s: r["sym"] < s["sym"] and r["price"] > s["ask"])
RANGE = (wm.Range("300 ms", time="ts", lateness="150 ms"), ("range", 300_000, "ts", 150_000))
ROWS = (wm.Rows(40), ("rows", 40))
UNBOUNDED = (wm.Unbounded(), ("unbounded",))
SELECT = "r.n AS rid, s.n AS sid"
RANGED = "range: buckets of keys"
SPREAD = "broadcast: every core sees every row of one stream"
COUNTED = "broadcast: every core sees every row and stores its share"
# Rows of each stream that there are at each start of the query. A start costs seconds: Python plans each source in a process of its own.
ONCE, TWICE = (200,), (140, 200)


def options(side: str, limit: int) -> dict[str, Any]:
    """Two streams that do not keep step: batches of different sizes, rows out of order, some far too late."""
    return {
        "stream": {"r": "trades", "s": "quotes"}[side], "rate": 500, "rowsPerBatch": {"r": "60,30,80", "s": "70"}[side], "limit": limit,
        "disorder": "100 ms", "lateness": "1 s", "stragglers": 0.02, "numPartitions": 2, "skew": 0.5,
    }  # fmt: skip


def market(spark: Any, side: str, limit: int) -> Any:
    register_sources(spark)
    return spark.readStream.format("watersmeet_market").options(**options(side, limit)).load()


def market_rows(side: str, limit: int) -> list[dict[str, Any]]:
    """The same rows without Spark."""
    made = MARKET({name: str(value) for name, value in options(side, limit).items()}).rows()
    rows = [row for batch in made.take(0, limit) for row in batch.to_pylist()]
    return [{**row, "id": row["n"], "ts": round(row["ts"].timestamp() * SECOND)} for row in rows]


def planned(folder: Path) -> list[list[int]]:
    """Where each batch ends in each stream, as Spark wrote it down."""
    logs = sorted((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [[json.loads(line)["row"] for line in path.read_text().splitlines()[-2:]] for path in logs]


def start(frame: Any, folder: Path, **trigger: Any) -> Any:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.option("path", str(folder / "out")).trigger(**trigger).start()


def read(spark: Any, folder: Path) -> list[Any]:
    rows = spark.read.parquet(str(folder / "out")).where("refused IS NULL").collect()
    return sorted(((row.rid, row.sid) for row in rows), key=repr)


def refused(spark: Any, folder: Path) -> list[Any]:
    rows = spark.read.parquet(str(folder / "out")).where("refused IS NOT NULL").collect()
    return sorted((row.refused, row.rid if row.refused == "r" else row.sid) for row in rows)


@pytest.mark.parametrize(
    ("condition", "windows", "how", "order", "way", "limits"),
    [
        pytest.param(BAND, (RANGE, RANGE), "full", "ts", RANGED, ONCE, id="range-outer-order"),
        pytest.param(BAND, (ROWS, ROWS), "right", "ts", COUNTED, ONCE, id="rows-outer-order"),
        pytest.param(
            ANY, (RANGE, RANGE), "left", None, SPREAD, TWICE, id="broadcast-outer", marks=pytest.mark.slow
        ),
        pytest.param(
            BAND,
            (UNBOUNDED, ROWS),
            "inner",
            None,
            COUNTED,
            TWICE,
            id="unbounded-rows",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_python_source_equals_the_oracle(
    spark: Any,
    folder: Path,
    condition: Any,
    windows: Any,
    how: str,
    order: str | None,
    way: str,
    limits: tuple[int, ...],
) -> None:
    for limit in limits:
        frame = stream_join(
            condition[0], r=market(spark, "r", limit), s=market(spark, "s", limit),
            windows={"r": windows[0][0], "s": windows[1][0]}, how=how, order=order, select=SELECT, state=str(folder / "state"),
            cores=2, late="refused",
        )  # fmt: skip
        assert way in explain(frame)
        start(frame, folder, availableNow=True).awaitTermination()
    oracle = BatchOracle(condition[1], windows[0][1], windows[1][1], how)
    rows, before = {side: market_rows(side, 200) for side in "rs"}, [0, 0]
    pairs, late = [], []
    for ends in planned(folder):
        events = [
            (side, row)
            for side, low, high in zip("rs", before, ends, strict=True)
            for row in rows[side][low:high]
        ]
        found = oracle.batch(arranged(events, order is not None))
        pairs += found[0]
        late += found[1]
        before = ends
    assert before == [200, 200]
    assert len(planned(folder)) >= 3
    assert read(spark, folder) == oracle.ids(pairs)
    assert len(pairs) > 100
    assert refused(spark, folder) == sorted((side, row["n"]) for side, row in late)
    assert bool(late) == (windows[0] is RANGE)


# ---- Spark's own rate-micro-batch source: a fixed number of rows a batch, with a clock of its own -------------------------------

PER_BATCH = 40
NEAR = ("r.x BETWEEN s.x - 2 AND s.x + 1", lambda r, s: s["x"] - 2 <= r["x"] <= s["x"] + 1)
FREE = ("(r.x + s.x) % 7 = 0", lambda r, s: (r["x"] + s["x"]) % 7 == 0)
FIVE = (wm.Range("5 s", time="ts", lateness="3 s"), ("range", 5, "ts", 3))


def factor(side: str) -> int:
    return {"r": 7919, "s": 104729}[side]


def rate(spark: Any, side: str) -> Any:
    source = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", PER_BATCH)
        .option("numPartitions", 1)
    )
    source = source.option("startTimestamp", 1_000_000).option("advanceMillisPerBatch", 4000)
    return source.load().selectExpr(
        "value AS id",
        "timestamp - make_dt_interval(0, 0, 0, value % 11) AS ts",
        f"value * {factor(side)} % 97 AS x",
    )


def rate_events(batch: int) -> list[Any]:
    numbers = range(batch * PER_BATCH, (batch + 1) * PER_BATCH)
    return [
        (side, {"id": n, "ts": 1000 + 4 * batch - n % 11, "x": n * factor(side) % 97})
        for side in "rs"
        for n in numbers
    ]


def sunk(folder: Path) -> int:
    """The last batch that the file sink has taken; commits may be one behind when a query is stopped."""
    names = [path.name.split(".")[0] for path in (folder / "out" / "_spark_metadata").iterdir()]
    return max(int(name) for name in names if name.isdigit())


@contextmanager
def running(query: Any, batch: int) -> Iterator[None]:
    """Until a batch is over; then the query is stopped, in the midst of another one as may be."""
    try:
        while (query.lastProgress or {}).get("batchId", -1) < batch and query.isActive:
            query.awaitTermination(0.1)
        yield
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("condition", "windows", "how", "order"),
    [
        (NEAR, (FIVE, FIVE), "left", "ts"),
        (FREE, (UNBOUNDED, (wm.Rows(50), ("rows", 50))), "inner", None),
    ],
    ids=["range-outer-order", "broadcast-unbounded-rows"],
)
def test_rate_source_with_a_restart_equals_the_oracle(
    spark: Any,
    folder: Path,
    condition: tuple[str, Callable[[Any, Any], bool]],
    windows: Any,
    how: str,
    order: str | None,
) -> None:
    for last in (1, 4):
        frame = stream_join(
            condition[0], r=rate(spark, "r"), s=rate(spark, "s"), windows={"r": windows[0][0], "s": windows[1][0]}, how=how, order=order,
            select="r.id AS rid, s.id AS sid", state=f"file://{folder}/state", cores=2, late="refused",
        )  # fmt: skip
        query = start(frame, folder, processingTime="0 seconds")
        with running(query, last):
            assert query.exception() is None
    oracle = BatchOracle(condition[1], windows[0][1], windows[1][1], how)
    pairs, late = [], []
    for batch in range(sunk(folder) + 1):
        found = oracle.batch(arranged(rate_events(batch), order is not None))
        pairs += found[0]
        late += found[1]
    assert read(spark, folder) == oracle.ids(pairs)
    assert refused(spark, folder) == sorted((side, row["id"]) for side, row in late)
    assert len(pairs) > 100
