"""The join on real Spark: files in, files out, nothing lost and nothing twice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from spark.batch_oracle import BatchOracle
from spark.files import Files
from watersmeet.cli import main
from watersmeet.errors import OptionError
from watersmeet.spark import explain, stream_join

CONDITIONS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "hash": ("r.k = s.k AND r.x < s.x + 2", lambda r, s: r["k"] == s["k"] and r["x"] < s["x"] + 2),
    "range": ("r.x BETWEEN s.x - 1 AND s.x + 1", lambda r, s: abs(r["x"] - s["x"]) <= 1),
    "broadcast": ("(r.x + s.x) % 7 = 0", lambda r, s: (r["x"] + s["x"]) % 7 == 0),
}
RANGE = (wm.Range("6 s", time="ts", lateness="8 s"), ("range", 6, "ts", 8))
ROWS = (wm.Rows(25), ("rows", 25))
SELECT = "r.id AS rid, s.id AS sid"


def wanted(files: Files, condition: Callable[[Any, Any], bool], window: Any, how: str) -> list[Any]:
    oracle = BatchOracle(condition, window, window, how)
    pairs = [pair for events in files.batches for pair in oracle.batch(events)[0]]
    return oracle.ids(pairs)


def read(spark: Any, out: Path) -> list[Any]:
    return sorted(((row.rid, row.sid) for row in spark.read.parquet(str(out)).collect()), key=repr)


def run(frame: Any, folder: Path, **options: Any) -> Any:
    """Everything that is there, to files; returns the finished query."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.option("path", str(folder / "out")).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def joined(spark: Any, files: Files, spread: str, window: Any, how: str, folder: Path, **options: Any) -> Any:
    return stream_join(
        CONDITIONS[spread][0],
        r=files.stream(spark, "r"),
        s=files.stream(spark, "s"),
        windows={"r": window, "s": window},
        **{"how": how, "select": SELECT, "state": str(folder / "state"), **options},
    )


@pytest.mark.parametrize(
    ("spread", "window", "how"),
    [
        ("hash", RANGE, "left"),
        ("range", RANGE, "full"),
        ("broadcast", RANGE, "inner"),
        ("hash", ROWS, "right"),
    ],
    ids=["hash", "range", "broadcast", "rows"],
)
def test_files_to_files_with_restarts_equal_the_oracle(
    spark: Any, folder: Path, spread: str, window: Any, how: str
) -> None:
    files = Files(folder, seed=len(spread))
    for cores in (
        2,
        2,
        3,
    ):  # each round is a new start of the query; the last one with another number of cores
        files.add(20)
        files.add(15)
        frame = joined(spark, files, spread, window[0], how, folder, cores=cores)
        assert frame.columns == ["rid", "sid"]
        query = run(frame, folder)
        assert query.exception() is None
    assert read(spark, folder / "out") == wanted(files, CONDITIONS[spread][1], window[1], how)


def test_an_idle_stream_does_not_stop_the_join_and_late_rows_are_told(spark: Any, folder: Path) -> None:
    files = Files(folder, seed=5)
    window = (wm.Range("6 s", time="ts", lateness="1 s"), ("range", 6, "ts", 1))
    files.add(20)
    files.add(20, "r")
    files.add(20, "s")
    files.add(25)
    query = run(joined(spark, files, "hash", window[0], "inner", folder, cores=2, late="refused"), folder)
    oracle = BatchOracle(CONDITIONS["hash"][1], window[1], window[1])
    # The file source gives each stream its next file: batches are not as they were added.
    sides = {side: [[e for e in events if e[0] == side] for events in files.batches] for side in "rs"}
    turns = {side: [events for events in sides[side] if events] for side in "rs"}
    pairs, late = [], []
    for i in range(max(map(len, turns.values()))):
        found = oracle.batch(
            [event for side in "rs" for event in (turns[side][i] if i < len(turns[side]) else [])]
        )
        pairs += found[0]
        late += found[1]
    rows = spark.read.parquet(str(folder / "out")).collect()
    assert sorted(((r.rid, r.sid) for r in rows if r.refused is None), key=repr) == oracle.ids(pairs)
    told = sorted((r.refused, r.rid if r.refused == "r" else r.sid) for r in rows if r.refused is not None)
    assert told == sorted((stream, row["id"]) for stream, row in late)
    figures = [progress.observedMetrics["watersmeet.r-s"] for progress in query.recentProgress]
    assert sum(f.late_r + f.late_s for f in figures if f.late_r is not None) == len(late) > 0


def test_batch_dataframes_are_joined_in_one_go(spark: Any, folder: Path) -> None:
    files = Files(folder, seed=7)
    for _ in range(3):
        files.add(20)
    for spread in ("hash", "range"):
        text, condition = CONDITIONS[spread]
        frame = stream_join(
            text,
            r=files.table(spark, "r"),
            s=files.table(spark, "s"),
            windows={"r": RANGE[0], "s": RANGE[0]},
            how="full",
            select=SELECT,
            cores=2,
        )
        oracle = BatchOracle(condition, RANGE[1], RANGE[1], "full")
        pairs = oracle.batch(
            [e for side in "rs" for events in files.batches for e in events if e[0] == side]
        )[0]
        pairs += oracle.finish().pairs
        assert sorted(((row.rid, row.sid) for row in frame.collect()), key=repr) == oracle.ids(pairs)


def test_types_come_out_as_they_went_in(spark: Any, folder: Path) -> None:
    columns = {
        "i": "CAST(id AS INT)", "b": "id % 2 = 0", "d": "DATE'2024-01-01' + CAST(id AS INT)", "dec": "CAST(id AS DECIMAL(30,4)) / 3",
        "bin": "CAST(CAST(id AS STRING) AS BINARY)", "tz": "TIMESTAMP'2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, id)",
        "ntz": "TIMESTAMP_NTZ'2024-01-01 00:00:00'", "f": "CAST(id AS FLOAT)", "arr": "array(id, NULL)", "m": "map('a', id)",
        "st": "named_struct('p', id, 'q', array('x'))", "txt": "IF(id = 2, NULL, 'é')",
    }  # fmt: skip
    left = spark.range(6).selectExpr("id", *(f"{sql} AS {name}" for name, sql in columns.items()))
    left.write.parquet(str(folder / "left"))
    spark.range(2, 8).toDF("id").write.parquet(str(folder / "right"))
    streams = {
        side: spark.readStream.schema(spark.read.parquet(str(folder / side)).schema).parquet(
            str(folder / side)
        )
        for side in ("left", "right")
    }
    window = wm.Unbounded()
    frame = stream_join(
        "l.id = r.id",
        l=streams["left"],
        r=streams["right"],
        windows={"l": window, "r": window},
        select="l.*, r.id + 1 AS more",
        state=str(folder / "state"),
    )
    kinds = {field.name: field.dataType for field in streams["left"].schema.fields}
    assert {f.name: f.dataType for f in frame.schema.fields if f.name != "more"} == kinds
    assert frame.schema["more"].dataType.simpleString() == "bigint"
    run(frame, folder)
    got = spark.read.parquet(str(folder / "out")).drop("more").orderBy("id").collect()
    assert got == left.where("id >= 2").orderBy("id").collect()


def test_the_result_of_a_join_feeds_another(spark: Any, folder: Path) -> None:
    files = Files(folder, seed=9)
    window = wm.Unbounded()
    for _ in range(2):
        files.add(10)
        first = stream_join(
            "r.x = s.x", r=files.stream(spark, "r"), s=files.stream(spark, "s"), windows={"r": window, "s": window},
            select="r.id AS rid, s.id AS sid, r.x AS x", state=str(folder / "state"), cores=2,
        )  # fmt: skip
        both = stream_join(
            "r.x = s.x", r=first, s=files.stream(spark, "s"), windows={"r": window, "s": window},
            select="r.rid, s.id AS sid", state=str(folder / "state"), cores=1,
        )  # fmt: skip
        run(both, folder)
    rows = {
        side: [row for events in files.batches for stream, row in events if stream == side] for side in "rs"
    }
    expected = [
        (r["id"], t["id"])
        for r in rows["r"]
        for s in rows["s"]
        for t in rows["s"]
        if r["x"] == s["x"] == t["x"]
    ]
    assert read(spark, folder / "out") == sorted(expected, key=repr)
    (query,) = (folder / "state").iterdir()
    assert sorted(path.name for path in query.iterdir()) == ["r-s", "r-s-2"]


def test_looking_at_a_batch_twice_is_fine_and_at_a_part_of_it_is_noticed(spark: Any, folder: Path) -> None:
    files = Files(folder, seed=11)
    for _ in range(3):
        files.add(40)
    counts: list[int] = []
    partial = {"batch": 1}

    def sink(frame: Any, number: int) -> None:
        if number == partial["batch"]:
            frame.limit(1).collect()
        else:
            counts.append(frame.count())  # evaluated here, and once more below
            frame.write.mode("overwrite").parquet(str(folder / "out" / f"batch={number}"))

    def start() -> Any:
        frame = joined(spark, files, "hash", RANGE[0], "inner", folder, cores=2)
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        with pytest.raises(Exception, match=r".*") if partial["batch"] >= 0 else _nothing():
            query.awaitTermination()
        return query

    failed = str(start().exception())
    assert "batch 1 of core" in failed
    assert "was not evaluated" in failed
    # What the message says to do.
    for log, number in (("offsets", 2), ("commits", 1)):
        (folder / "checkpoint" / log / f"{number}").unlink()
        (folder / "checkpoint" / log / f".{number}.crc").unlink(missing_ok=True)
    partial["batch"] = -1
    start()
    assert read(spark, folder / "out") == wanted(files, CONDITIONS["hash"][1], RANGE[1], "inner")


class _nothing:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...


def test_rate_source_and_processing_time_trigger(spark: Any, folder: Path) -> None:
    def source(offset: int) -> Any:
        rate = (
            spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).option("numPartitions", 2)
        )
        return rate.load().selectExpr("timestamp AS ts", f"value + {offset} AS v")

    frame = stream_join(
        "a.v = b.v",
        a=source(0),
        b=source(10),
        windows={name: wm.Range("10 min", time="ts") for name in "ab"},
        select="a.v AS v",
        state=str(folder / "state"),
    )
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.option("path", str(folder / "out")).trigger(processingTime="100 milliseconds").start()
    while (query.lastProgress or {}).get("batchId", 0) < 3 and query.isActive:
        query.awaitTermination(0.2)
    query.stop()
    assert query.exception() is None
    # The sink's own log: a query may be stopped after its sink has taken a batch, and before Spark has noted that.
    log = (path.name for path in (folder / "out" / "_spark_metadata").iterdir() if path.name[0].isdigit())
    done = max(int(name.partition(".")[0]) for name in log)
    values = sorted(row.v for row in spark.read.parquet(str(folder / "out")).collect())
    assert values == list(range(10, 50 * (done + 1)))


def test_state_command_lists_and_verifies(
    spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = Files(folder, seed=13)
    files.add(10)
    run(joined(spark, files, "hash", RANGE[0], "left", folder, cores=2), folder)
    monkeypatch.setattr("sys.argv", ["watersmeet", "state", str(folder / "state")])
    with pytest.raises(SystemExit) as exit:
        main()
    shown = capsys.readouterr().out
    assert exit.value.code == 0
    assert "of-0002/core-0001" in shown
    assert "no problems" in shown
    victim = next((folder / "state").rglob("*.run"))
    data = bytearray(victim.read_bytes())
    data[100] ^= 1
    victim.write_bytes(bytes(data))
    with pytest.raises(SystemExit) as exit:
        main()
    assert exit.value.code == 1
    assert f"{victim} is damaged" in capsys.readouterr().out.replace("\n", "")


def test_what_is_refused_before_a_query_starts(spark: Any, folder: Path) -> None:
    files = Files(folder)
    files.add(2)
    window = wm.Range("1 s", time="ts")
    streams = {side: files.stream(spark, side) for side in "rs"}
    tables = {side: files.table(spark, side) for side in "rs"}
    windows = dict.fromkeys("rs", window)

    def refused(text: str, **options: Any) -> None:
        with pytest.raises((OptionError, wm.WatersmeetError), match=text):
            stream_join(**{"condition": "r.x = s.x", "windows": windows, **streams, **options})

    refused(r"neither state= nor .* checkpoint location; do: spark\.conf\.set")
    refused("the window of 'r', a static table among streams, must be Unbounded", r=tables["r"], state="x")
    refused("windows= must give a window for each of r, s, q", q=streams["r"], state="x")
    many = {f"q{i}": streams["r"] for i in range(31)}
    refused("two DataFrames, or more, up to 32, .* got 33", state="x", windows={}, **many)
    three = {"q": streams["r"], "windows": dict.fromkeys("rsq", window), "state": "x"}
    refused("how='left' must have two DataFrames; got 3; do: join two of them", how="left", **three)
    refused("spread='hash' needs equalities that make one value of all", spread="hash", **three)
    refused("windows= must give a window", windows={"r": window})
    refused("spread= must be one of", spread="wide", state="x")
    refused("needs a band with two ends", spread="range", condition="r.x < s.x", state="x")
    refused(
        "must not need the order of all rows",
        spread="hash",
        windows={side: wm.Rows(3) for side in "rs"},
        state="x",
    )
    refused("order= must be a time column of both", order="zz", state="x")
    refused("late= must be a new column's name", late="r_id", state="x")
    refused("name= must be letters", name="a/b", state="x")
    refused("cores= must be a whole number", cores=0, state="x")
    shown = explain(stream_join("r.x = s.x", windows=windows, state=str(folder), **streams))
    assert "hash: a row goes to the one core" in shown
    assert "spread by  r.x = s.x" in shown
    assert json.dumps(shown)
