"""A host on real Spark: statements from another place, tables, a restart; against the processor in process."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.spark import Control, QueryHost

JOIN = "SELECT r.id, t.id AS other FROM r JOIN t ON r.k = t.k"
NARROW = "SELECT r.id, t.id AS other FROM r JOIN t ON r.k = t.k AND r.id < t.id"
COUNT = "SELECT k, COUNT(*) AS n FROM r GROUP BY k"
COLUMNS = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.int64())])


def rows(number: int) -> pa.Table:
    ids = list(range(6 * number, 6 * number + 6))
    made = {"id": ids, "k": [i * 7 % 3 for i in ids], "ts": [2 * number + i % 3 for i in ids]}
    return pa.table(made, schema=COLUMNS)


def test_queries_come_and_go_and_a_restart_changes_nothing(spark: Any, tmp_path: Path) -> None:
    window, control = wm.Range(4, time="ts", lateness=1), Control(str(tmp_path / "control"))
    for side in "rt":
        (tmp_path / side).mkdir()
    handed: list[tuple[str, int, int]] = []

    def run(files: range, cores: int) -> QueryHost:
        for number in files:
            for side in "rt":
                path = tmp_path / side / f"{number:03d}.parquet"
                pq.write_table(rows(number), path)
                os.utime(path, (1e9 + number, 1e9 + number))  # Spark reads files in the order of their times
        streams = {
            side: spark.readStream.schema("id long, k long, ts long")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(tmp_path / side))
            for side in "rt"
        }
        host = QueryHost(
            streams, dict.fromkeys("rt", window), str(tmp_path / "control"), cores=cores, most_cores=3
        )
        query = host.start(
            str(tmp_path / "out"),
            checkpoint=str(tmp_path / "checkpoint"),
            foreach_batch=lambda name, generation, found, batch: handed.append((name, batch, found.count())),
            trigger={"availableNow": True},
        )
        query.awaitTermination()
        return host

    control.create("pairs", JOIN, timeout=None)
    refused = control.create("bad", "SELECT nothing FROM r", timeout=None)
    run(range(0), cores=2)  # batches without rows: one reads the statement, in the next one it acts
    assert control.queries()["pairs"].state == "running"
    run(range(3), cores=2)
    control.create("count", COUNT, timeout=None)
    control.create("warm", NARROW, start="warm", timeout=None)
    host = run(range(3, 6), cores=3)
    processor = wm.Processor(r=window, t=window, schemas=dict.fromkeys("rt", COLUMNS), watermark="push")
    processor.create("pairs", JOIN)
    wanted: dict[str, list[Any]] = {"pairs": [], "count": [], "warm": []}
    for number in range(6):
        for name, result in processor.push(r=rows(number), t=rows(number)).items():
            wanted[name] += [tuple(row.values()) for row in result.to_arrow().to_pylist()]
        if number == 3:  # a statement is read with a batch, and acts in the next
            processor.create("count", COUNT)
            processor.create("warm", NARROW, start="warm")
    for name, expected in wanted.items():
        assert sorted(map(tuple, host.results(name).collect())) == sorted(expected)
        assert sum(count for one, _, count in handed if one == name) == len(expected) > 0
    assert {name: query.state for name, query in control.queries().items()} == {
        "pairs": "running",
        "count": "running",
        "warm": "running",
    }
    complete = {name: query.complete_from for name, query in control.queries().items()}
    assert complete["count"] is None  # rows had come before it
    assert complete["warm"] is not None
    assert complete["pairs"] is not None
    assert 0 < complete["pairs"] < complete["warm"]
    with pytest.raises(wm.ConditionError, match="got 'nothing'"):
        control.answer(str(refused))
