"""``watersmeet page --spark``: what cores and Spark have written, as the contract has it; batches, cores, skew, and hosted queries."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from watersmeet.contract import SPARK, check
from watersmeet.page.spark import SparkView
from watersmeet.spark.state.location import open_location
from watersmeet.spark.state.manifests import Manifest, write_manifest

QUERY = "11111111-2222-3333-4444-555555555555"


def manifest(batch: int, core: int, rows: int) -> Manifest:
    """As a core writes it; what is not shown is empty."""
    nothing: dict[str, Any] = {
        "run": None, "instance": "", "course": "", "columns": [], "layouts": [], "next_layouts": [], "age": 0, "keys": [], "habits": [],
    }  # fmt: skip
    return Manifest(
        batch=batch,
        core=core,
        cores=2,
        join={"streams": ["t", "q"], "condition": "t.k = q.k", "how": "inner", "more": 1},
        name="t-q",
        counts=[100 * (batch + 1), 200 * (batch + 1)],
        numbers={"counts": [50, 100]},
        streams=[{"rows": rows, "bytes": 10 * rows, "runs": []}, {"rows": 5, "bytes": 50, "runs": []}],
        late=[batch, 0],
        watermark="2026-01-05 09:10:00",
        **nothing,
    )


def written(root: Path) -> Path:
    """A state of three batches on two cores, and the checkpoint of its query beside it."""
    for batch in range(3):
        for core in range(2):
            folder = root / "state" / QUERY / "t-q" / "of-0002" / f"core-{core:04d}"
            write_manifest(
                open_location(str(root / "state")), str(folder), manifest(batch, core, 10 + 30 * core)
            )
    checkpoint = root / "checkpoint"
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": QUERY}))
    for batch in range(3):
        begun = 1_767_604_200_000 + 1000 * batch
        (checkpoint / "offsets" / str(batch)).write_text(
            "v1\n" + json.dumps({"batchTimestampMs": begun}) + "\n{}"
        )
        commit = checkpoint / "commits" / str(batch)
        commit.write_text("v1\n{}")
        os.utime(commit, (begun / 1000 + 0.75, begun / 1000 + 0.75))
    return checkpoint


@pytest.mark.parametrize("place", ["checkpoint", "state"])
def test_batches_cores_and_skew_from_the_checkpoint_or_the_state(tmp_path: Path, place: str) -> None:
    written(tmp_path)
    view = SparkView(str(tmp_path / place))
    found = view.read()
    check(found, SPARK)
    (one,) = found["operators"]
    assert (one["kind"], one["query"], one["name"], one["condition"], one["last"]) == (
        "join",
        QUERY,
        "t-q",
        "t.k = q.k",
        2,
    )
    assert [core["rows"] for core in one["cores"]] == [15, 45]
    assert [batch["batch"] for batch in one["batches"]] == [0, 1, 2]
    newest = one["batches"][-1]
    assert newest["arrived"] == {"t": 300, "q": 600}  # all cores count the same rows: not added up
    assert (newest["rows"], newest["bytes"], newest["late"], newest["skew"]) == (60, 600, 4, 1.5)
    assert newest["seconds"] == pytest.approx(0.75)
    assert newest["begun"] == pytest.approx(1_767_604_202.0)


def test_a_new_batch_is_seen_and_nothing_is_written(tmp_path: Path) -> None:
    written(tmp_path)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    view = SparkView(str(tmp_path / "state"))
    view.read()
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    folder = tmp_path / "state" / QUERY / "t-q" / "of-0002" / "core-0000"
    write_manifest(open_location(str(tmp_path / "state")), str(folder), manifest(3, 0, 12))
    (one,) = view.read()["operators"]
    assert (one["last"], one["cores"][0]["rows"], one["cores"][1]["batch"]) == (3, 17, 2)
    assert one["batches"][-1]["seconds"] is None  # Spark has not committed it


def test_a_folder_without_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        wm.OptionError, match="--spark must name a query's checkpoint, or the state= of a join or host; got"
    ):
        SparkView(str(tmp_path))


def test_a_host_with_its_control_folder(tmp_path: Path) -> None:
    """A host's manifest as its core writes it, and the control folder of a host that has answered nothing yet."""
    folder = tmp_path / "state" / QUERY / "host" / "host-0001" / "core-0000"
    folder.mkdir(parents=True)
    body = {
        "format": 1,
        "batch": 4,
        "core": 0,
        "course": "",
        "version": 0,
        "digest": "",
        "stopped": {},
        "state": [],
        "files": [],
        "rows": 7,
        "bytes": 70,
    }
    (folder / "000000000004.json").write_text("x\n" + json.dumps(body))
    found = SparkView(str(tmp_path / "state"), str(tmp_path / "control")).read()
    check(found, SPARK)
    (one,) = found["operators"]
    assert (one["kind"], one["last"], one["cores"][0]["rows"], found["queries"]) == ("host", 4, 7, [])
