"""What a Spark worker does between tasks."""

import gc

import pytest

from watersmeet.spark import worker


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
