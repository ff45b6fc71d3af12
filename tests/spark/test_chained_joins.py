"""A join that feeds a join, with time windows and rows that find nobody, across a restart with other cores."""

from pathlib import Path
from typing import Any

import watersmeet as wm
from oracle import Pair
from spark.batch_oracle import BatchOracle
from spark.files import Files
from watersmeet.spark import stream_join
from watersmeet.spark.state.command import report

NEAR = (wm.Range("4 s", time="ts", lateness="6 s"), ("range", 4, "ts", 6))
WIDE = (wm.Range("7 s", time="ts", lateness="9 s"), ("range", 7, "ts", 9))
# The same window, as the second join really takes it for what the first one gives: 4 s + max(6 s, 4 s + 6 s) behind.
HANDED_ON = ("range", 7, "ts", 14)


def chained(spark: Any, files: Files, cores: int) -> Any:
    """r left join s on a band; all of that full join s on an equality. Rows that found nobody come late; none is refused."""
    options = {"state": str(files.folder / "state"), "cores": cores}
    first = stream_join(
        "r.x BETWEEN s.x - 1 AND s.x + 1", r=files.stream(spark, "r"), s=files.stream(spark, "s"),
        windows={"r": NEAR[0], "s": NEAR[0]}, how="left", select="r.id AS rid, s.id AS sid, r.ts, r.x", **options,
    )  # fmt: skip
    return stream_join(
        "p.x = t.x", p=first, t=files.stream(spark, "s"), windows={"p": WIDE[0], "t": WIDE[0]}, how="full",
        select="p.rid, p.sid, t.id AS tid", **options,
    )  # fmt: skip


def wanted(files: Files) -> list[Any]:
    first = BatchOracle(lambda r, s: abs(r["x"] - s["x"]) <= 1, NEAR[1], NEAR[1], "left")
    second = BatchOracle(lambda p, t: p["x"] == t["x"], HANDED_ON, WIDE[1], "full")
    pairs: list[Pair] = []
    late = 0
    for events in files.batches:
        found, refused = first.batch(events)
        middle = []
        for r, s in found:
            row = first.stored["r"][r].row
            middle.append(
                ("r", {**row, "id": (row["id"], None if s < 0 else first.stored["s"][s].row["id"])})
            )
        more, again = second.batch([*middle, *(event for event in events if event[0] == "s")])
        pairs += more
        assert all(stream == "s" for stream, _ in again)
        late += len(refused) + len(again)
    assert late > 0
    assert {r < 0 for r, _ in pairs} == {s < 0 for _, s in pairs} == {True, False}
    return sorted(((*(p or (None, None)), t) for p, t in second.ids(pairs)), key=repr)


def test_chained_outer_joins_with_a_restart_equal_the_oracle(spark: Any, folder: Path) -> None:
    files = Files(folder, seed=41)
    for cores in (2, 3):
        for _ in range(3):
            files.add(16)
        writer = (
            chained(spark, files, cores).writeStream.format("parquet").option("path", str(folder / "out"))
        )
        query = (
            writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
        )
        query.awaitTermination()
    rows = spark.read.parquet(str(folder / "out")).collect()
    assert sorted(((row.rid, row.sid, row.tid) for row in rows), key=repr) == wanted(files)
    cores_found = report(str(folder / "state"))
    assert {core.name for core in cores_found} == {"r-s", "p-t"}
    assert not any(core.problems for core in cores_found)
