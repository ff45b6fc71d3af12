"""What a Spark worker does between tasks."""

import gc

import pytest

from watersmeet.spark import worker


def test_after_its_first_tasks_a_worker_is_left_out_of_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_done", 0)
    worker.task_is_over()
    assert gc.get_freeze_count() == 0, "this process is no worker"
    monkeypatch.setattr(worker, "in_worker", lambda: True)
    held = []
    try:
        for _ in range(worker.FEW):
            before = gc.get_freeze_count()
            held.append([object()])
            worker.task_is_over()
            assert gc.get_freeze_count() > before
        frozen = gc.get_freeze_count()
        held.append([object()])
        worker.task_is_over()
        assert gc.get_freeze_count() == frozen, "what later tasks make is collected"
    finally:
        gc.unfreeze()
