"""Who looks at a part of a batch only, or breaks it off, is told so by the next batch, or goes on right: never a wrong answer."""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from spark.batch_oracle import BatchOracle
from spark.files import Files
from watersmeet.spark import stream_join

CORES = 4  # more than the session has: some wait for others
WINDOW = (wm.Range("6 s", time="ts", lateness="8 s"), ("range", 6, "ts", 8))


def joined(spark: Any, files: Files, condition: str) -> Any:
    return stream_join(
        condition, r=files.stream(spark, "r"), s=files.stream(spark, "s"), windows={"r": WINDOW[0], "s": WINDOW[0]},
        how="full", select="r.id AS rid, s.id AS sid", state=str(files.folder / "state"), cores=CORES,
    )  # fmt: skip


def wanted(files: Files) -> list[Any]:
    oracle = BatchOracle(lambda r, s: r["x"] == s["x"], WINDOW[1], WINDOW[1], "full")
    return oracle.ids([pair for events in files.batches for pair in oracle.batch(events)[0]])


def read(spark: Any, files: Files) -> list[Any]:
    rows = spark.read.parquet(str(files.folder / "out")).collect()
    return sorted(((row.rid, row.sid) for row in rows), key=repr)


def three_batches(folder: Path) -> Files:
    files = Files(folder, seed=21)
    for _ in range(3):
        files.add(40)
    return files


def run(
    spark: Any, files: Files, look: Callable[[Any], None] | None, at: int = 1, condition: str = "r.x = s.x"
) -> str:
    """All batches to files, but one (the middle one, unless given) as ``look`` says; returns what went wrong."""

    def sink(frame: Any, number: int) -> None:
        if number == at and look is not None:
            look(frame)
        else:
            frame.write.mode("overwrite").parquet(str(files.folder / "out" / f"batch={number}"))

    writer = joined(spark, files, condition).writeStream.foreachBatch(sink)
    query = (
        writer.option("checkpointLocation", str(files.folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except Exception as error:
        return str(error)
    return ""


def evaluated(files: Files, batch: int) -> set[int]:
    """The cores that have a state of a batch."""
    return {
        int(path.parent.name.removeprefix("core-"))
        for path in (files.folder / "state").rglob(f"{batch:012d}.json")
    }


def take_back(files: Files) -> None:
    """What the message says to do."""
    for log, number in (("offsets", 2), ("commits", 1)):
        for name in (f"{number}", f".{number}.crc"):
            (files.folder / "checkpoint" / log / name).unlink(missing_ok=True)


def named(files: Files, batch: int = 1, cores: int = CORES) -> str:
    absent = sorted(set(range(cores)) - evaluated(files, batch))
    return rf"batch {batch} of cores? {', '.join(map(str, absent))} of {cores} was not evaluated"


def test_a_look_at_the_first_rows_is_noticed(spark: Any, folder: Path) -> None:
    files = three_batches(folder)
    failed = run(spark, files, lambda frame: frame.take(2))
    assert 0 < len(evaluated(files, 1)) < CORES
    assert re.search(named(files), failed)
    assert "was not evaluated, so batch 2 cannot go on" in failed
    assert not (files.folder / "out" / "batch=2" / "_SUCCESS").exists()
    take_back(files)
    assert run(spark, files, None) == ""
    assert read(spark, files) == wanted(files)


def test_a_look_before_rows_are_spread_anew_is_noticed(spark: Any, folder: Path) -> None:
    """In range buckets, whose borders move after the first batch: then cores that have a state read those of all the others."""
    files = three_batches(folder)
    failed = run(
        spark, files, lambda frame: frame.show(100), at=0, condition="r.x BETWEEN s.x - 1 AND s.x + 1"
    )
    cores = 2 * CORES  # a full join in range buckets has two sections
    assert {0, 1} <= evaluated(files, 0) < set(range(cores))  # these two are tried first
    assert re.search(named(files, 0, cores), failed)
    assert "Something looked at a part of the batch only: limit, take, show" in failed
    assert (
        "do: let foreachBatch evaluate the whole batch before anything else (batch.persist(); batch.count())"
        in failed
    )


def slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(5)
        yield batch


@pytest.mark.parametrize("caught", [True, False])
def test_a_cancelled_job_is_noticed_or_tried_again(spark: Any, folder: Path, caught: bool) -> None:
    files = three_batches(folder)

    over = threading.Event()

    def cancel() -> None:
        while not evaluated(files, 1):
            if over.wait(0.02):
                return
        (query,) = spark.streams.active
        spark.sparkContext.cancelJobGroup(query.runId)

    def look(frame: Any) -> None:
        canceller = threading.Thread(target=cancel, daemon=True)
        canceller.start()
        try:
            slow = frame.mapInArrow(slowly, frame.schema)
            slow.write.mode("overwrite").parquet(str(files.folder / "out" / "batch=1"))
        except Exception:
            if not caught:
                raise
        finally:
            over.set()
            canceller.join()

    failed = run(spark, files, look)
    assert 0 < len(evaluated(files, 1)) < CORES
    if caught:  # Spark takes the batch for done
        assert re.search(named(files), failed)
        assert "was not evaluated, so batch 2 cannot go on" in failed
        take_back(files)
    else:
        assert "cancelled" in failed
    assert not (files.folder / "out" / "batch=2" / "_SUCCESS").exists()
    assert run(spark, files, None) == ""
    assert read(spark, files) == wanted(files)
