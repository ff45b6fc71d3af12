"""After the shuffle: one core's share of a batch goes through its queries. Files of results, then state, then word to the driver.

In a worker the live core waits for the next batch under the id of the manifest that it equals, as the operator's do.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.spark.host.core import Found, LiveCore
from watersmeet.spark.host.manifests import (
    Manifest,
    collect_garbage,
    core_folder,
    last_manifest,
    mark_empty,
    read_manifest,
)
from watersmeet.spark.host.saving import load, save
from watersmeet.spark.host.spec import HostSpec, programs_of
from watersmeet.spark.host.tables import Said, write_file
from watersmeet.spark.host.wire import Received, receive
from watersmeet.spark.task import Task, current_task

SAID = pa.schema([("core", pa.int32()), ("said", pa.string())])
SPARK_SAID = "core int, said string"
_waiting: dict[str, tuple[str, int, str, LiveCore]] = {}  # by folder: (manifest id, batch, start, core)


def work(
    spec: HostSpec, batches: Iterable[pa.RecordBatch], task: Callable[[], Task] = current_task
) -> Iterator[pa.RecordBatch]:
    """Records for the cores of a task -> a row a core: what it says of the batch."""
    now = task()
    received = receive(batches, spec.cores_of(now.partition))
    if not received:
        mark_empty(spec, now)
    for one in received:
        said = advance(spec, now, one)
        yield pa.RecordBatch.from_pydict({"core": [said.core], "said": [said.text()]}, schema=SAID)


def advance(spec: HostSpec, task: Task, received: Received) -> Said:
    """From the state of the batch before to that of this one, on disk and in memory."""
    core, stand = received.core, received.stand
    last = last_manifest(spec, task, core)
    _check_goes_on(last, received)
    assert task.batch is not None
    programs, program = programs_of(spec), programs_of(spec).of(stand.version)
    if program.digest != stand.digest:
        raise StateError(
            f"all tasks of a batch must follow the same log; got {stand.digest} for statement {stand.version} and "
            f"{program.digest} on core {core}; do: "
            "restore the log of statements from a copy"
        )
    course = received.course()
    live = _take(spec, task, core, last)
    if live is None:
        live = _restored(spec, task, core, last)
    live.follow(programs, stand.version, dict(stand.stopped), task.batch)
    found = live.push(received, program, spec.most_results)
    there = read_manifest(spec, task, task.batch, core)
    stopped = live.stopped if there is None or there.course != course else {**there.stopped, **live.stopped}
    files = {}
    for key, table in sorted(found.tables.items()):
        query = program.of_key(key)
        if query is not None and key not in stopped:
            files[key] = write_file(spec.output, query, task.batch, core, table)
    if there is None or there.course != course or there.stopped != stopped:
        live.stopped = dict(stopped)
        manifest = save(spec, task, live, course, received.next_program)
        _keep(spec, task, manifest, live)
        collect_garbage(spec, task, manifest)
    figures = _figures(live, received)
    return Said(
        core,
        task.query or "",
        course,
        stand.version,
        files,
        stopped,
        _late(found),
        figures,
        live.complete,
    )


def _check_goes_on(last: Manifest | None, received: Received) -> None:
    """A core goes on from what the rows were sent for."""
    mine = (0, "", "") if last is None else (last.version, last.digest, last.course)
    stand = received.stand
    if mine != (stand.version, stand.digest, stand.course):
        raise StateError(
            f"a core must go on from what its rows were sent for; got statement {stand.version} ({stand.digest}, "
            f"{stand.course}) from the packers, and core "
            f"{received.core} stands at {mine[0]} ({mine[1]}, {mine[2]}); do: let Spark try the batch again"
        )


def _late(found: Found) -> dict[str, int]:
    return {key: rows for key, rows in found.late.items() if key not in found.stopped}


def _figures(live: LiveCore, received: Received) -> dict[str, int]:
    """What can be added up over the cores."""
    figures = {"timeless": sum(header.timeless for header in received.headers) if live.core == 0 else 0}
    figures["rows_in"] = sum(header.rows for header in received.headers) if live.core == 0 else 0
    for _, stream, rows in live.held():
        figures[f"stored {stream}"] = figures.get(f"stored {stream}", 0) + rows
    return figures


def _restored(spec: HostSpec, task: Task, core: int, last: Manifest | None) -> LiveCore:
    if last is None:
        return LiveCore(spec.setting, core)
    before = programs_of(spec).of(last.version)
    skipped = {query.name: query.key for query in before.queries.values() if query.statement in spec.skip}
    return load(spec, task, last, skipped)


def _take(spec: HostSpec, task: Task, core: int, last: Manifest | None) -> LiveCore | None:
    """The core that equals the manifest, if this worker has it. It is not in the cache while it changes."""
    folder = core_folder(spec, task, core)
    waiting = _waiting.get(folder)
    if last is None or waiting is None or (waiting[0], waiting[2]) != (last.id, spec.instance):
        return None
    return _waiting.pop(folder)[3]


def _keep(spec: HostSpec, task: Task, manifest: Manifest, live: LiveCore) -> None:
    """Cores of this host that are behind by more than a batch will not be asked for again: another worker went on with them."""
    folder = core_folder(spec, task, manifest.core)
    host = folder.rsplit("/", 1)[0]
    for name in [
        name
        for name, (_, batch, _, _) in _waiting.items()
        if name.startswith(host) and batch < manifest.batch - 1
    ]:
        del _waiting[name]
    _waiting[folder] = (manifest.id, manifest.batch, spec.instance, live)
