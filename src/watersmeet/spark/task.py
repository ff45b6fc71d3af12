"""What a running Spark task knows of itself: the one place that asks Spark's task context.

Tests put a task of their own in its place, so that the operator runs without a session.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """Which part of which batch of which query is being worked on."""

    partition: int
    batch: int | None = None  # None: a plain batch DataFrame, outside of any streaming query
    query: str | None = None  # stays the same when a query is started again from its checkpoint
    run: str | None = None  # new with every start


def current_task() -> Task:
    """The task that this Python worker runs now."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "a join must run inside a Spark task"
    batch = context.getLocalProperty("streaming.sql.batchId")
    return Task(
        context.partitionId(),
        None if batch is None else int(batch),
        context.getLocalProperty("sql.streaming.queryId"),
        context.getLocalProperty("spark.jobGroup.id"),
    )
