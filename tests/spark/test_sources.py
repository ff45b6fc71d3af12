"""The generated sources: the same offsets always give the same rows, and the options do what they say."""

import datetime as dt
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import OptionError
from watersmeet.spark.sources.options import Options, options_of
from watersmeet.spark.sources.reading import SOURCES, GeneratedSource, StreamReader, parts
from watersmeet.spark.sources.rows import BLOCK, power_law

STREAMS = [(source, stream) for source in SOURCES for stream in source.streams]
TITLES = {source.title: source for source in SOURCES}


def rows_of(source: type[GeneratedSource], low: int, high: int, **options: Any) -> pa.Table:
    stream = source({name: str(value) for name, value in options.items()}).rows()
    return pa.Table.from_batches(stream.take(low, high), stream.schema)


def column(table: pa.Table, name: str) -> np.ndarray:
    return np.asarray(table.column(name).combine_chunks())


def micros(table: pa.Table) -> np.ndarray:
    return column(table.set_column(0, "ts", table.column("ts").cast(pa.int64())), "ts")


@pytest.mark.parametrize(("source", "stream"), STREAMS, ids=lambda value: getattr(value, "title", value))
def test_a_range_of_rows_is_the_same_however_it_is_asked_for(
    source: type[GeneratedSource], stream: str
) -> None:
    options = {"stream": stream, "disorder": "50 ms", "lateness": "2 s", "skew": 0.7}
    whole = rows_of(source, 0, 2 * BLOCK + 100, **options)
    edges = [0, 1, 17, BLOCK - 1, BLOCK, BLOCK + 500, 2 * BLOCK + 100]
    pieces = [rows_of(source, low, high, **options) for low, high in pairwise(edges)]
    assert pa.concat_tables(pieces).combine_chunks().equals(whole.combine_chunks())
    assert not rows_of(source, 0, 100, **options, seed=2).equals(whole.slice(0, 100))


def test_times_follow_the_rate_and_go_astray_as_asked() -> None:
    source = TITLES["watersmeet_market"]
    start = int(dt.datetime(2026, 3, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
    plain = micros(rows_of(source, 0, 20_000, rate=1000, start="2026-03-01T00:00:00"))
    assert plain[0] == start
    assert plain[-1] == start + 19_999_000
    assert (np.diff(plain) == 1000).all()
    astray = rows_of(
        source, 0, 20_000, rate=1000, start="2026-03-01", disorder="40 ms", lateness="3 s", stragglers=0.01
    )
    behind = plain - micros(astray)
    assert (behind >= 0).all()
    late = behind >= 3_000_000
    assert 100 < late.sum() < 300
    assert behind[~late].max() <= 40_000
    assert behind[~late].max() > 39_000


def test_skew_makes_few_keys_frequent() -> None:
    source = TITLES["watersmeet_market"]
    even, skewed = (
        Counter(rows_of(source, 0, 10_000, skew=skew).column("sym").to_pylist()) for skew in (0, 1.2)
    )
    assert max(even.values()) < 300
    assert max(skewed.values()) > 2000
    for exponent in (0.0, 0.8, 1.0, 2.0):
        drawn = power_law(np.linspace(0, 1, 10_001)[:-1], 50, exponent)
        assert drawn.min() == 0
        assert drawn.max() == 49


def test_trades_hit_quotes_and_line_items_have_orders() -> None:
    market, tpch = TITLES["watersmeet_market"], TITLES["watersmeet_tpch"]
    trades = rows_of(market, 0, 2000, stream="trades").to_pylist()
    quotes = rows_of(market, 0, 2000, stream="quotes").to_pylist()
    hits = sum(
        t["sym"] == q["sym"] and q["bid"] <= t["price"] <= q["ask"] for t in trades[::20] for q in quotes
    )
    assert hits > 20
    orders = rows_of(tpch, 0, 5000, stream="orders", rate=1000)
    lines = rows_of(tpch, 0, 20_000, stream="lineitem", rate=1000)
    counted = np.bincount(column(lines, "l_orderkey"), minlength=5000)
    assert counted.size <= 5001
    assert counted[:4990].min() >= 1
    assert counted.max() <= 7
    apart = micros(lines) - micros(orders)[np.minimum(column(lines, "l_orderkey"), 4999)]
    assert np.abs(apart).max() < 20_000
    assert lines.schema.field("l_extendedprice").type == pa.decimal128(15, 2)
    assert str(lines.column("l_discount")[0].as_py()).startswith("0.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": "5"}, "an option must be one of stream, rate, rowsPerBatch"),
        ({"stream": "bids"}, "must be one of trades, quotes; got 'bids'"),
        ({"rate": "0"}, "rate must be rows a second, more than 0; got '0'"),
        ({"rowsPerBatch": "10,0"}, "rowsPerBatch must be rows, or several"),
        ({"limit": "-1"}, "limit must be a whole number of at least 0; got '-1'"),
        ({"disorder": "fast"}, "disorder must be a duration such as '50 ms'; got 'fast'"),
        ({"stragglers": "2"}, "a share from 0 to 1"),
        ({"workload": "band-1"}, "an option must be one of"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        options_of(options, ("trades", "quotes"))


def test_options_are_read_in_any_case() -> None:
    given = {"ROWSPERBATCH": "10", "numpartitions": "2", "Rate": "5", "lateness": "2 s"}
    assert options_of(given, ("r", "s")) == Options(
        stream="r", rows_per_batch=(10,), num_partitions=2, rate=5.0, lateness=2_000_000
    )


def test_a_micro_batch_goes_as_far_as_its_options_say() -> None:
    def reader(**options: Any) -> StreamReader:
        return StreamReader(TITLES["watersmeet_tpch"]({name: str(v) for name, v in options.items()}))

    fixed = reader(rowsPerBatch=100, limit=250)
    ends = [fixed.latestOffset({"row": row}, None)["row"] for row in (0, 100, 200, 250)]
    assert ends == [100, 200, 250, 250]
    changing = reader(rowsPerBatch="100,50,10")
    ends = [changing.latestOffset({"row": row}, None)["row"] for row in (0, 100, 150, 160, 165)]
    assert ends == [100, 150, 160, 170, 170]
    live = reader(rate=1_000_000_000)
    assert live.latestOffset({"row": 500}, None)["row"] >= 500  # from where the checkpoint stands
    assert live.latestOffset({"row": 500}, None)["row"] > 1000
    with pytest.raises(OptionError, match="must have an end for trigger"):
        live.prepareForTriggerAvailableNow()
    ended = reader(rate=1, limit=70)
    ended.prepareForTriggerAvailableNow()
    assert ended.latestOffset({"row": 0}, None) == {"row": 70}
    assert [part.value for part in parts(3, 8, 2)] == [(3, 5), (5, 8)]
    assert [part.value for part in parts(3, 4, 3)] == [(3, 4)]
    assert parts(3, 3, 3) == []


def test_spark_reads_every_stream_as_a_batch(spark: Any) -> None:
    from watersmeet.spark.sources import register_sources

    register_sources(spark)
    for source, stream in STREAMS:
        frame = spark.read.format(source.title).option("stream", stream).option("limit", 300)
        found = frame.option("numPartitions", 2).load()
        expected = rows_of(source, 0, 300, stream=stream)
        assert found.toArrow().sort_by("ts").select(expected.schema.names).equals(expected.combine_chunks())
    with pytest.raises(Exception, match="must have an end to be read as a batch"):
        spark.read.format("watersmeet_tpch").load().count()


def test_a_stream_goes_on_where_its_checkpoint_stands(spark: Any, tmp_path: Path) -> None:
    from watersmeet.spark.sources import register_sources

    register_sources(spark)

    def run(limit: int) -> None:
        frame = (
            spark.readStream.format("watersmeet_market").option("limit", limit).option("rowsPerBatch", 400)
        )
        query = (
            frame.load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()

    run(1000)
    run(1500)
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    ends = [json.loads(path.read_text().splitlines()[-1])["row"] for path in offsets]
    assert ends == [400, 800, 1000, 1200, 1500]  # a schedule has its borders, wherever a run ends
    found = spark.read.parquet(str(tmp_path / "out")).toArrow().sort_by("n")
    assert found.equals(rows_of(TITLES["watersmeet_market"], 0, 1500).combine_chunks())
