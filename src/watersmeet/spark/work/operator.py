"""After the shuffle: one core's share of a batch is joined. State first, then results.

The manifest is written before the first result leaves, so that whoever reads only a part of the results has still evaluated the core's
batch. In a worker the live core waits for the next batch under the id of the manifest that it equals: a
core that comes back to the same worker is not read from its files.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.spark.shuffle.layout import Layout, digest
from watersmeet.spark.shuffle.planning import Outlook, next_outlook, outlook_of
from watersmeet.spark.shuffle.wire import Received, receive
from watersmeet.spark.spec import Binding, JoinSpec, binding
from watersmeet.spark.state.course import check_goes_on, check_same_rows, course_after
from watersmeet.spark.state.garbage import collect_garbage
from watersmeet.spark.state.location import open_location
from watersmeet.spark.state.manifests import (
    Manifest,
    check_same,
    core_folder,
    find_manifest,
    manifest_name,
    mark_empty,
    operator_folder,
    read_manifest,
)
from watersmeet.spark.state.rebucket import rebucketed
from watersmeet.spark.state.saving import load, save
from watersmeet.spark.state.tables import read
from watersmeet.spark.task import Task, current_task
from watersmeet.spark.work.emit import emitted, metrics_row
from watersmeet.spark.work.live import BatchResult, LiveCore

_waiting: dict[str, tuple[str, int, LiveCore]] = {}  # by folder: (manifest id, batch, core)


def join(
    spec: JoinSpec, batches: Iterable[pa.RecordBatch], task: Callable[[], Task] = current_task
) -> Iterator[pa.RecordBatch]:
    """Records for one core -> result rows."""
    bound, now = binding(spec), task()
    received = receive(batches, now.partition)
    if not received.headers:
        if spec.streaming:
            mark_empty(spec, now)
        return
    if not spec.streaming:
        yield from join_once(bound, received)
        return
    live, result = advance(bound, now, received)
    yield from metrics_row(live, result)
    yield from emitted(bound, result)


def join_once(bound: Binding, received: Received) -> Iterator[pa.RecordBatch]:
    """A plain batch: everything comes at once, and then the streams end."""
    live = LiveCore(bound, received.core)
    yield from emitted(bound, live.push(received))
    yield from emitted(bound, live.finish())


def advance(bound: Binding, task: Task, received: Received) -> tuple[LiveCore, BatchResult]:
    """From the state of the batch before to that of this one, on disk and in memory."""
    spec, core = bound.spec, received.core
    if task.batch is None or task.query is None:
        raise StateError(
            "a streaming join must run in a streaming query, which says which batch it is; got none; do: start it with writeStream"
        )
    folder = core_folder(spec, task, core, bound.tasks)
    last = find_manifest(spec, task, core, bound.tasks)
    if last is not None:
        check_same(bound.fingerprint, last, operator_folder(spec, task))
    outlook = outlook_of(bound, None if last is None else last.outlook)
    _check_layout(received, outlook, core)
    check_goes_on(received, last, core)
    course = course_after(received, len(spec.streams))
    there = read_manifest(open_location(spec.state), f"{folder}/{manifest_name(task.batch)}")
    check_same_rows(there, course, spec, task, core)
    live = _take(folder, last, bound) if last is not None and _lies_so(last, outlook, bound) else None
    if live is None:
        live = _restored(bound, task, core, last, outlook)
    result = live.push(received) if spec.stores else live.pass_by(received)
    if there is None or not _is_this(there, course, outlook, bound):
        ahead = next_outlook(bound, outlook, received.headers)
        stored = [live.stored(k) for k in bound.stream_numbers]
        manifest = save(bound, task, core, live.state(), stored, outlook, ahead, course)
        live.runs = manifest.runs
        _keep(folder, manifest, live)
        collect_garbage(spec, task, manifest)
    return live, result


def _is_this(there: Manifest, course: str, outlook: Outlook, bound: Binding) -> bool:
    """Whether a manifest is what this task would write: then it stays, as somebody may have gone on from it already."""
    mine = (course, bound.fingerprint, outlook.layouts_json(), [list(names) for names in bound.columns])
    return (there.course, there.join, there.layouts, there.columns) == mine


def _restored(bound: Binding, task: Task, core: int, last: Manifest | None, outlook: Outlook) -> LiveCore:
    if last is None:
        live = LiveCore(bound, core)
        tables = {k: read(bound.spec, k) for k in bound.static}
        if tables:
            live.begin(tables, outlook.layouts)
        return live
    if _lies_so(last, outlook, bound):
        return LiveCore.restored(bound, core, *load(bound, task, last))
    return LiveCore.restored(bound, core, *rebucketed(bound, task, core, last, outlook))


def _lies_so(last: Manifest, outlook: Outlook, bound: Binding) -> bool:
    """Whether the stored rows already lie as this batch's rows are spread."""
    return (
        last.cores == bound.tasks
        and tuple(Layout.from_json(data) for data in last.layouts) == outlook.layouts
    )


def _check_layout(received: Received, outlook: Outlook, core: int) -> None:
    mine = digest(outlook.layouts)
    for header in received.headers:
        if header.layout != mine:
            raise StateError(
                f"all tasks of a batch must spread rows the same way; got {header.layout} from map partition {header.part} and {mine} "
                f"on core {core}; do: let Spark try the batch again; if it stays so, the state's files have been changed by hand"
            )


def _take(folder: str, last: Manifest, bound: Binding) -> LiveCore | None:
    """The core that equals the manifest, if this worker has it. It is not in the cache while it changes.

    A worker outlives a query: a core of an earlier start may have been made for another select list.
    """
    waiting = _waiting.get(folder)
    if waiting is None or waiting[0] != last.id or waiting[2].bound is not bound:
        return None
    return _waiting.pop(folder)[2]


def _keep(folder: str, manifest: Manifest, live: LiveCore) -> None:
    """Cores of this join that are behind by more than a batch will not be asked for again: another worker went on with them."""
    operator = folder.rsplit("/", 2)[0]
    behind = [
        name
        for name, (_, batch, _) in _waiting.items()
        if name.startswith(operator) and batch < manifest.batch - 1
    ]
    for name in behind:
        del _waiting[name]
    _waiting[folder] = (manifest.id, manifest.batch, live)
