"""Where state may live: any file system that pyarrow.fs knows, each with the same results; what is refused, and when."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark import simple
from spark.batch_oracle import BatchOracle
from spark.runner import Runner
from watersmeet.errors import OptionError, StateError
from watersmeet.spark.state.command import report
from watersmeet.spark.state.location import open_location
from watersmeet.spark.user.checks import state_place
from watersmeet.spark.work import operator


def expected(batches: int, how: str) -> list[list[Any]]:
    window = ("range", 20, "ts", 5)
    oracle = BatchOracle(lambda r, s: r["x"] == s["x"], window, window, how)
    found = []
    for number in range(batches):
        sides = dict(zip("rs", simple.both(number), strict=True))
        events = [(side, row) for side in "rs" for part in sides[side] for row in part.to_pylist()]
        found.append(oracle.ids(oracle.batch(events)[0]))
    return found


@pytest.mark.parametrize("scheme", ["mock", "file", "hadoop's file"])
def test_state_on_other_file_systems_gives_the_same_results(tmp_path: Path, scheme: str) -> None:
    location = {
        "mock": f"mock:///{tmp_path.name}",
        "file": f"file://{tmp_path}",
        "hadoop's file": f"file:{tmp_path}",
    }[scheme]
    runner = Runner(simple.spec(location, how="full"))
    for number, wanted in enumerate(expected(14, "full")):
        operator._waiting.clear()  # every core is read from its files
        assert simple.found(runner.batch(number, simple.both(number))) == wanted, f"batch {number}"
        if number % 4 == 3:
            runner.restart(cores=1 + number % 3)
    place = open_location(location)
    assert place.local == (scheme != "mock")
    cores = report(location)
    assert not any(core.problems for core in cores)
    assert sum(core.rows for core in cores) == runner.figures[-1]["state_rows"]
    held = next(core for core in cores if core.held and core.manifest)
    assert held.manifest is not None
    lost = f"{held.folder}/{held.manifest.streams[0]['runs'][0][0]}"
    place.delete(lost)
    assert [
        problem for core in report(location) for problem in core.problems if f"{lost} is missing" in problem
    ]
    runner.restart()
    with pytest.raises(StateError, match=r"\.run is missing, and a manifest needs its"):
        runner.batch(14, simple.both(14))


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("hdfs:/user/x", r"two slashes after its scheme; got 'hdfs:/user/x'; do: write hdfs://HOST/user/x"),
        ("gs:/bucket/x", r"two slashes after its scheme; got 'gs:/bucket/x'; do: write gs://HOST/bucket/x"),
        ("dbfs:/x", r"got 'dbfs:/x'; do: write the folder that it is mounted at, such as /dbfs/folder"),
        ("s3a://bucket/x", r"got 's3a://bucket/x'; do: write s3://, as in state=\"s3://bucket/folder\""),
        ("s3n://bucket/x", r"got 's3n://bucket/x'; do: write s3://, as in state="),
        ("nowhere://x", r"a URI that pyarrow\.fs knows \(file, hdfs, s3, gs, abfs\); got 'nowhere://x'"),
    ],
)
def test_a_location_that_workers_could_not_reach_is_refused_at_once(location: str, message: str) -> None:
    unset: Any = SimpleNamespace(conf={})
    with pytest.raises(OptionError, match=message):
        state_place(location, unset)
    session: Any = SimpleNamespace(conf={"spark.sql.streaming.checkpointLocation": location})
    with pytest.raises(OptionError, match="state= must be a folder"):
        state_place(None, session)


def test_a_path_is_made_absolute_and_a_uri_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session: Any = SimpleNamespace(conf={"spark.sql.streaming.checkpointLocation": "file:/tmp/c/"})
    assert state_place("some/state", session) == str(tmp_path / "some" / "state")
    assert state_place("./a:/b", session) == str(tmp_path / "a:" / "b")
    assert state_place(f"file://{tmp_path}", session) == f"file://{tmp_path}"
    assert state_place(None, session) == "file:/tmp/c/_watersmeet"


def test_what_the_file_system_refuses_is_told_clearly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    place = open_location(str(tmp_path / "file"))
    assert place.read(place.path("a")) is None
    assert place.names(place.path("a")) == []
    assert place.size(place.path("a")) is None

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.path.getsize", refuse)
    monkeypatch.setattr("os.listdir", refuse)
    for look in (place.read, place.names):
        with pytest.raises(
            StateError,
            match=r"must be readable; got .*Permission denied for .*; do: make room or give access",
        ):
            look(place.path("a"))
