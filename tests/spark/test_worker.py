"""What a Spark worker does between tasks."""

import gc
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from watersmeet.spark.session import worker


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
