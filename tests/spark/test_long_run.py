"""Two hundred batches: state, files and memory stay flat once the windows are full."""

import os
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import watersmeet as wm
from spark import simple
from spark.runner import Runner
from watersmeet.spark import stream_join
from watersmeet.spark.work import operator


def test_state_and_files_stay_flat(tmp_path: Path) -> None:
    runner = Runner(simple.spec(tmp_path, "r.x BETWEEN s.x - 1 AND s.x + 1", how="left"))
    files, size = [], []
    for number in range(220):
        runner.batch(number, simple.both(number, 60))
        files.append(sum(len(names) for _, _, names in os.walk(tmp_path)))
        size.append(runner.figures[-1]["state_rows"])
    assert max(files[120:]) <= max(files[20:120]) + 2
    assert max(size[120:]) <= max(size[20:120]) * 1.2
    assert len([folder for folder in operator._waiting if folder.startswith(str(tmp_path))]) == 2


def workers_memory() -> int:
    """Resident bytes of the Python workers that this process's Spark has started."""
    parents, found = {}, 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
    for pid in parents:
        above, text = pid, ""
        while above in parents and above != os.getpid():
            above = parents[above]
        try:
            text = Path(f"/proc/{pid}/cmdline").read_text()
            if above == os.getpid() and "pyspark.worker" in text:
                found += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_two_hundred_batches_on_spark(spark: Any, folder: Path) -> None:
    kept = spark.conf.get("spark.sql.streaming.minBatchesToRetain")
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", 10)

    def source(seed: int) -> Any:
        rate = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 2000)
            .option("numPartitions", 1)
        )
        return rate.load().selectExpr(
            "timestamp AS ts", "value AS v", f"pmod(xxhash64(value, {seed}), 5000) AS x"
        )

    try:
        frame = stream_join(
            "a.x BETWEEN b.x - 1 AND b.x + 1",
            a=source(1),
            b=source(2),
            windows={name: wm.Range("10 s", time="ts") for name in "ab"},
            select="a.v AS av, b.v AS bv",
            state=str(folder / "state"),
            cores=2,
        )
    finally:
        spark.conf.set("spark.sql.streaming.minBatchesToRetain", kept)
    query = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint")).start()
    seen: dict[int, tuple[int, int, int]] = {}
    while max(seen, default=0) < 210 and query.isActive:
        query.awaitTermination(0.2)
        progress = query.lastProgress
        if progress is not None and progress.batchId not in seen:
            figures = progress.observedMetrics.get("watersmeet.a-b")
            files = sum(len(names) for _, _, names in os.walk(folder / "state"))
            seen[progress.batchId] = (figures.state_rows or 0, files, workers_memory())
    query.stop()
    assert query.exception() is None
    early = [value for batch, value in seen.items() if 40 <= batch < 110]
    late = [value for batch, value in seen.items() if batch >= 150]
    # Sub-windows are dropped whole, at moments that differ from run to run, so medians are compared. And the most that can be held:
    # - A batch is one instant, a second after the last: 2,000 rows of each stream. After it, those of the last 10 s can match: 11.
    # - A sub-window takes rows until it spans more than half of both windows together, 10 s: 12 instants. The oldest that is held has one
    #   instant of the 11, so 11 before it that nobody needs: 22 in all.
    # - A row of the stream that is not at home is copied if its band has the border between the cores inside: two keys of 5,000, so of
    #   22 * 2,000 rows 17.6 on average, with a deviation of 4.2. Eight deviations more are never seen.
    instants, copies = 11 + 11, 17.6 + 8 * 4.2
    assert median(value[0] for value in late) <= 1.1 * median(value[0] for value in early)
    assert max(value[0] for value in late) <= instants * 2 * 2_000 + copies
    for what, slack in ((1, 1.1), (2, 1.25)):
        assert max(value[what] for value in late) <= slack * max(value[what] for value in early), (what, seen)
