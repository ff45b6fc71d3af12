"""What a Spark worker does between tasks."""

import gc
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from watersmeet.kernels.cache import sources
from watersmeet.spark.session import daemon, worker


def looked_at(thing: object) -> bool:
    """Whether the collector still goes through it."""
    return any(other is thing for other in gc.get_objects())


def test_after_its_first_tasks_a_worker_is_left_out_of_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_done", 0)
    loaded = [object()]
    worker.task_is_over()
    assert looked_at(loaded), "this process is no worker"
    monkeypatch.setattr(worker, "in_worker", lambda: True)
    try:
        for _ in range(worker.FEW):
            loaded = [object()]
            worker.task_is_over()
            assert not looked_at(loaded)
        later = [object()]
        worker.task_is_over()
        assert looked_at(later)
    finally:
        gc.unfreeze()


def test_a_worker_ends_when_nobody_is_there_any_more() -> None:
    served = []

    def task(sock: socket.socket, authenticated: bool) -> int:
        served.append((sock.recv(1), authenticated))
        return 0

    next_task = worker.while_connected(task)
    spark, own = socket.socketpair()
    with own:
        with spark:
            for sent in (b"1", b"2"):
                spark.sendall(sent)
                assert next_task(own, True) == 0
        assert served == [(b"1", True), (b"2", True)]
        assert next_task(own, True) == 1
        assert len(served) == 2


def test_only_what_the_daemon_calls_is_changed_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.worker"), worker=looked_at)
    monkeypatch.setitem(sys.modules, "__main__", daemon)  # type: ignore[arg-type]
    worker.end_quietly()
    assert daemon.worker is looked_at
    daemon.__spec__.name = "pyspark.daemon"
    worker.end_quietly()
    changed = daemon.worker
    assert changed is not looked_at
    worker.end_quietly()
    assert daemon.worker is changed


@pytest.mark.slow
def test_idle_workers_leave_no_traceback() -> None:
    """Spark lets a worker go that has been idle for a minute, and looks every ten seconds."""
    job = (
        "import time; from watersmeet.spark import session; from watersmeet.spark.session.worker import task_is_over\n"
        "def pass_on(batches):\n    yield from batches\n    task_is_over()\n"
        "spark = session('idle', 1); spark.range(3).mapInArrow(pass_on, 'id long').count(); time.sleep(80)\n"
    )
    done = subprocess.run([sys.executable, "-c", job], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr


def test_a_fork_of_the_daemon_settles_as_its_first_task_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(daemon, "settle_anew", lambda: done.append("settled"))

    def task(sock: socket.socket, authenticated: bool) -> int:
        done.append(sock.recv(1).decode())
        return 0

    next_task = daemon.in_fork(task)
    spark, own = socket.socketpair()
    with own:
        with spark:
            for sent in (b"1", b"2"):
                spark.sendall(sent)
                assert next_task(own, True) == 0
        assert next_task(own, True) == 1
    assert done == ["settled", "1", "2"]


def test_workers_of_our_session_are_forks_that_have_everything(spark: Any) -> None:
    """And a kernel cache of their own, and none of it looked through by the collector."""

    def look(batches: Any) -> Any:
        import gc
        import sys

        import pyarrow as pa

        main = sys.modules["__main__"].__spec__.name
        numba = sys.modules.get("numba")
        kept = "" if numba is None else numba.config.CACHE_DIR
        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"main": [main], "kept": [kept], "frozen": [gc.get_freeze_count()]}
            )

    rows = spark.range(2, numPartitions=2).mapInArrow(look, "main string, kept string, frozen long").collect()
    assert {row.main for row in rows} == {"watersmeet.spark.session.daemon"}
    assert all(Path(row.kept).parent.name == sources() and row.frozen > 100_000 for row in rows)
