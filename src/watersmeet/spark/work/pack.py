"""Before the shuffle: one stream's map partition is packed, as the manifests of the batch before say."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from watersmeet.spark.shuffle.packing import Packer
from watersmeet.spark.shuffle.planning import layouts_of
from watersmeet.spark.shuffle.wire import BEGIN
from watersmeet.spark.spec import JoinSpec, binding
from watersmeet.spark.state.manifests import find_manifest
from watersmeet.spark.task import Task, current_task


def pack(
    spec: JoinSpec,
    k: int,
    batches: Iterable[pa.RecordBatch],
    task: Callable[[], Task] = current_task,
) -> Iterator[pa.RecordBatch]:
    """Stream k's rows of one map partition -> records for the shuffle."""
    bound, now = binding(spec), task()
    # All tasks of a batch look at the same manifest, so all see the same.
    last = find_manifest(spec, now, 0, bound.tasks) if spec.streaming else None
    layouts = layouts_of(bound, None if last is None else last.outlook)
    course = BEGIN if last is None else last.course
    yield from Packer(bound, k, now.partition, layouts, course).records(batches)
