"""Joins of many streams on real Spark: files in, files out, nothing lost and nothing twice; tables among the streams."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from spark.files import Files
from spark.many import ManyOracle
from spark.test_on_spark import run
from watersmeet.cli import main
from watersmeet.errors import OptionError
from watersmeet.spark import explain, stream_join

Rows = dict[str, dict[str, Any]]
RANGE = (wm.Range("6 s", time="ts", lateness="8 s"), ("range", 6, "ts", 8))
CONDITIONS: dict[str, tuple[str, Callable[[Rows], bool]]] = {
    "hash": (
        "a.k = b.k AND b.k = c.k AND a.x < c.x",
        lambda r: r["a"]["k"] == r["b"]["k"] == r["c"]["k"] and r["a"]["x"] < r["c"]["x"],
    ),
    "shares": (
        "a.k = b.k AND b.x = c.x",
        lambda r: r["a"]["k"] == r["b"]["k"] and r["b"]["x"] == r["c"]["x"],
    ),
    "range": (
        "a.x BETWEEN b.x - 1 AND b.x + 1 AND c.x BETWEEN b.x - 1 AND b.x + 1",
        lambda r: abs(r["a"]["x"] - r["b"]["x"]) <= 1 and abs(r["c"]["x"] - r["b"]["x"]) <= 1,
    ),
}


def joined(spark: Any, files: Files, text: str, folder: Path, tables: str = "", **options: Any) -> Any:
    frames = {side: (files.table if side in tables else files.stream)(spark, side) for side in files.sides}
    select = ", ".join(f"{side}.id AS {side}_id" for side in files.sides)
    windows = {side: RANGE[0] for side in files.sides if side not in tables}
    return stream_join(
        text, **frames, **{"windows": windows, "select": select, "state": str(folder / "state"), **options}
    )


def read(spark: Any, folder: Path, sides: str = "abc") -> list[tuple[int, ...]]:
    rows = spark.read.parquet(str(folder / "out")).collect()
    return sorted(tuple(row[f"{side}_id"] for side in sides) for row in rows)


def wanted(files: Files, condition: Callable[[Rows], bool], tables: str = "") -> list[tuple[int, ...]]:
    windows = {side: ("unbounded",) if side in tables else RANGE[1] for side in files.sides}
    oracle = ManyOracle(condition, windows)
    oracle.batch([event for events in files.batches for event in events if event[0] in tables])
    batches = [[event for event in events if event[0] not in tables] for events in files.batches]
    return sorted(one for events in batches for one in oracle.batch(events)[0])


@pytest.mark.parametrize("spread", CONDITIONS)
def test_files_to_files_with_restarts_equal_the_oracle(
    spark: Any, folder: Path, spread: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = Files(folder, seed=len(spread), sides="abc")
    for cores in (2, 3):  # each round is a new start of the query; the second with another number of cores
        files.add(20)
        files.add(15)
        frame = joined(spark, files, CONDITIONS[spread][0], folder, cores=cores)
        assert f"spread     {spread}" in explain(frame)
        query = run(frame, folder)
        assert query.exception() is None
    found = read(spark, folder)
    assert found == wanted(files, CONDITIONS[spread][1])
    assert len(found) > 20
    figures = query.recentProgress[-1].observedMetrics["watersmeet.a-b-c"]
    assert {"results", "state_rows", "state_bytes", "late_a", "late_b", "late_c", "watermark"} == set(
        figures.asDict()
    )
    monkeypatch.setattr("sys.argv", ["watersmeet", "state", str(folder / "state")])
    with pytest.raises(SystemExit) as exit:
        main()
    assert exit.value.code == 0
    shown = capsys.readouterr().out
    assert "join a-b-c" in shown
    assert "no problems" in shown


def test_tables_among_streams_and_all_in_one_go(spark: Any, folder: Path) -> None:
    files = Files(folder, seed=3, sides="abc")
    files.add(20)
    files.add(15)
    text, condition = CONDITIONS["hash"]
    run(joined(spark, files, text, folder, tables="c", cores=2), folder)
    assert read(spark, folder) == wanted(files, condition, tables="c")
    files.add(5)
    with pytest.raises(Exception, match=r"must join as before.*the table 'c' had 35 rows and now has 40"):
        run(joined(spark, files, text, folder, tables="c", cores=2), folder)
    windows = dict.fromkeys("abc", RANGE[0])
    batch = joined(spark, files, text, folder, tables="abc", cores=2, windows=windows)
    rows = sorted(tuple(row) for row in batch.collect())
    oracle = ManyOracle(condition, dict.fromkeys("abc", RANGE[1]))
    assert (
        rows
        == oracle.batch([e for side in "abc" for events in files.batches for e in events if e[0] == side])[0]
    )


def test_a_table_of_two(spark: Any, folder: Path) -> None:
    """A band join of a stream with a table, which Spark would do row by row."""
    files = Files(folder, seed=4, sides="ab")
    files.add(20)
    files.add(20)
    text = "a.x BETWEEN b.x - 1 AND b.x + 1"
    run(joined(spark, files, text, folder, tables="b", cores=2), folder)
    found = read(spark, folder, "ab")
    assert found == wanted(files, lambda r: abs(r["a"]["x"] - r["b"]["x"]) <= 1, tables="b")
    assert found
    with pytest.raises(OptionError, match="a static table among streams, must be Unbounded"):
        joined(spark, files, text, folder, tables="b", windows=dict.fromkeys("ab", RANGE[0]))
