"""A real Spark Connect session is refused, whatever its DataFrames are; a classic one needs nothing that only Connect needs.

What stays true: Connect changes a whole process (``pyspark.sql.functions`` then makes Connect's columns), so it runs in one of its own.
That process is this file: a classic session of ours that also serves Connect, a client of it, and a line of JSON with what was said.
"""

import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import __version__ as spark_version
from pyspark.sql import DataFrame, SparkSession

from watersmeet import Rows
from watersmeet.spark import check_session, session, stream_join

PATIENCE = 100  # seconds; the client alone would try for ten minutes
CONNECT_ONLY = ("grpc", "grpc_status", "google.rpc", "zstandard")  # what pyspark[connect] adds to pyspark


def test_a_connect_session_is_refused(tmp_path: Path) -> None:
    """By one test, as the sessions take most of its time; in an environment that asks for Connect where nothing else is said."""
    environment = {
        "SPARK_API_MODE": "connect",
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": uuid.uuid4().hex,  # of server and client: nobody else gets in
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # starts in half the time
    }
    found = json.loads(run_python(str(Path(__file__)), folder=tmp_path, **environment).splitlines()[-1])
    assert found["remote"] == ["pyspark.sql.connect.session", spark_version]
    assert found["streaming"] == {"stream": True, "batch": False}
    for case, (kind, text) in found["said"].items():
        assert kind == "OptionError", (case, text)
        must, got, do = text.split("; ")
        assert must == "stream_join must have a classic Spark session", case
        assert got.startswith("got a Spark Connect session"), case
        assert do.startswith("do: run the job on the driver"), case
    # What it says to do does not end in the same refusal.
    assert "with watersmeet.spark.session()" in do
    assert found["classic"] == "pyspark.sql.session"
    # What docs/spark.md says of Connect: the ids reach the workers; plans, cores and settings do not reach the client.
    batch, query = found["ids"]
    assert (batch, len(query)) == ("0", 36)
    assert found["missing"] == ["_jdf", "sparkContext"]


def test_a_classic_session_needs_nothing_of_connect(tmp_path: Path) -> None:
    without = f"import sys; sys.modules.update(dict.fromkeys({CONNECT_ONLY}))"
    program = f"{without}; import watersmeet.spark; print('pyspark.sql.connect.session' in sys.modules)"
    assert run_python("-c", program, folder=tmp_path).strip() == "False"


def run_python(*arguments: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def serve_and_join() -> dict[str, Any]:
    """What the two sessions are, and the class and text of every refusal."""
    port = free_port()
    serving: dict[str, Any] = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.memory": "512m",
    }
    classic = session("watersmeet connect test", 1, **serving)
    remote = SparkSession.builder.remote(f"sc://localhost:{port}").create()  # by another name it wants TLS
    here, there = frames_of(classic), frames_of(remote)
    found = {
        "classic": type(classic).__module__,
        "remote": [type(remote).__module__, remote.version],
        "streaming": {kind: frame.isStreaming for kind, frame in there.items()},
        "said": {
            "session": refusal(lambda: check_session(remote)),
            "streams": refusal(lambda: join(there["stream"], there["stream"])),
            "batches": refusal(lambda: join(there["batch"], there["batch"])),
            "streams, the right one classic": refusal(lambda: join(there["stream"], here["stream"])),
            "batches, the left one classic": refusal(lambda: join(here["batch"], there["batch"])),
        },
    }
    found["ids"] = ids_in_a_worker(remote)
    found["missing"] = [
        name for name, has in (("_jdf", there["batch"]), ("sparkContext", remote)) if not asks(has, name)
    ]
    remote.stop()
    classic.stop()
    return found


def ids_in_a_worker(remote: SparkSession) -> list[str]:
    """Batch and query, as a task of a streaming query of Connect's knows them."""

    def ids(batches: Any) -> Any:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        known = [
            context.getLocalProperty(name) for name in ("streaming.sql.batchId", "sql.streaming.queryId")
        ]
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"batch": known[:1], "query": known[1:]})

    stream = remote.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    writer = stream.mapInArrow(ids, "batch string, query string").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", os.path.abspath("connect-checkpoint"))
    query = writer.trigger(once=True).start(os.path.abspath("connect-out"))
    query.awaitTermination()
    row = remote.read.parquet(os.path.abspath("connect-out")).collect()[0]
    return [row.batch, row.query]


def asks(of: Any, name: str) -> bool:
    try:
        getattr(of, name)
    except Exception:
        return False
    return True


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def frames_of(spark: SparkSession) -> dict[str, DataFrame]:
    return {"stream": spark.readStream.format("rate").load(), "batch": spark.range(5).toDF("value")}


def join(left: DataFrame, right: DataFrame) -> None:
    stream_join("a.value = b.value", a=left, b=right, windows={"a": Rows(5), "b": Rows(5)})


def refusal(act: Callable[[], object]) -> tuple[str, str]:
    try:
        act()
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing", ""


if __name__ == "__main__":
    print(json.dumps(serve_and_join()))
