"""A manifest: all that a core knows after a batch. Batch b is a pure function of the manifests of b - 1 and its own input.

Manifests and run files lie in ``<state>/<query>/<name>/of-<cores>/core-<k>/``; their names start with their batch. A manifest names the
runs that hold its rows, and carries the few numbers that are not rows. A task that is tried again writes an
equivalent one over it.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import StateError
from watersmeet.spark.shuffle.planning import Outlook
from watersmeet.spark.spec import JoinSpec, differences
from watersmeet.spark.state.location import StateLocation, open_location
from watersmeet.spark.state.runs import Run
from watersmeet.spark.task import Task

FORMAT = 2
EMPTY = "empty"  # the folder of batches that brought nothing


@dataclass
class Manifest:
    """A core after a batch. Everything in it is JSON."""

    batch: int
    core: int
    cores: int
    join: dict[str, Any]  # the join's fingerprint
    name: str
    run: str | None  # the start of the query, and the stream_join call, that wrote it
    instance: str
    course: str  # all rows that the query has taken in up to here
    columns: list[list[str]]  # that are stored of each stream
    layouts: list[Any]  # that the stored rows lie in
    next_layouts: list[Any]  # that the next batch is spread by
    age: int
    keys: list[Any]
    counts: list[int]  # rows that have arrived of each stream, on all cores where they are counted so
    numbers: dict[str, Any]  # the engine's own: arrival numbers, clocks, sub-windows, plan
    habits: list[list[float]]
    streams: list[dict[str, Any]]  # runs, flags, rows and bytes of each
    late: list[int]  # rows of each stream that this core has refused as late, in all
    watermark: str | None  # for people
    id: str = field(default="", compare=False)  # its checksum: caches go by it

    @property
    def outlook(self) -> Outlook:
        """What the batch has left for the next one."""
        return Outlook.from_json(self.keys, self.next_layouts, self.age)

    @property
    def runs(self) -> list[list[Run]]:
        """Of each stream, where its rows lie."""
        return [[Run(*data) for data in stream["runs"]] for stream in self.streams]


def operator_folder(spec: JoinSpec, task: Task) -> str:
    return open_location(spec.state).path(task.query or "batch", spec.name)


def core_folder(spec: JoinSpec, task: Task, core: int, cores: int) -> str:
    return f"{operator_folder(spec, task)}/of-{cores:04d}/core-{core:04d}"


def manifest_name(batch: int) -> str:
    return f"{batch:012d}.json"


def write_manifest(place: StateLocation, folder: str, manifest: Manifest) -> str:
    """Write it in one step; returns its id."""
    body = {name: value for name, value in vars(manifest).items() if name != "id"}
    text = json.dumps({"format": FORMAT, **body})
    found = _digest(text)
    place.write(f"{folder}/{manifest_name(manifest.batch)}", [f"{found}\n{text}".encode()])
    return found


def read_manifest(place: StateLocation, path: str) -> Manifest | None:
    """The manifest in a file, its checksum verified; None if there is none."""
    data = place.read(path)
    if data is None:
        return None
    found, _, text = data.to_pybytes().decode(errors="replace").partition("\n")
    if _digest(text) != found:
        raise StateError(
            f"{path} is damaged: its checksum does not fit its text; do: restore it from a copy, or start with a new checkpoint and "
            "a new state location"
        )
    body = json.loads(text)
    form = body.pop("format")
    if form != FORMAT:
        raise StateError(
            f"{path} must have format {FORMAT}; got {form!r}; go on with the version of watersmeet that wrote it"
        )
    return Manifest(**body, id=found)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def find_manifest(spec: JoinSpec, task: Task, core: int, cores: int) -> Manifest | None:
    """The manifest to go on from: of this core or, where another number of cores wrote it, of the first of those."""
    last = last_batch(spec, task)
    if last is None:
        return None  # the first batch starts from nothing, whatever lies there
    own = read_last(spec, task, last, core, cores)
    if own is not None and own.run == task.run:
        return own
    others = [read_last(spec, task, last, 0, count) for count in other_sets(spec, task, last, cores)]
    found = [manifest for manifest in (own, *others) if manifest is not None]
    if not found:
        raise StateError(_missing(spec, task, last, cores))
    if any(manifest.course != found[0].course for manifest in found):
        raise StateError(_given_up(last, [manifest.cores for manifest in found], operator_folder(spec, task)))
    return found[0]


def last_batch(spec: JoinSpec, task: Task) -> int | None:
    """The batch before that brought anything; None if there was none."""
    assert task.batch is not None
    place, empty = open_location(spec.state), f"{operator_folder(spec, task)}/{EMPTY}"
    last = task.batch - 1
    marked = set(place.names(empty))
    if (
        f"{task.batch:012d}" in marked
    ):  # it was empty before the query was taken back; now it has map partitions
        place.delete(f"{empty}/{task.batch:012d}")
    while f"{last:012d}" in marked:
        last -= 1
    return None if last < 0 else last


def mark_empty(spec: JoinSpec, task: Task) -> None:
    """No map partition has sent anything, so nothing changes on any core: the state of this batch is that of the batch before.

    Said once for all cores, since a task without a single record cannot even know which core it is.
    """
    place = open_location(spec.state)
    place.write(f"{operator_folder(spec, task)}/{EMPTY}/{task.batch:012d}", [b"no map partitions"])


def read_last(spec: JoinSpec, task: Task, last: int, core: int, cores: int) -> Manifest | None:
    """The manifest of batch ``last`` of one core."""
    place = open_location(spec.state)
    found = read_manifest(place, f"{core_folder(spec, task, core, cores)}/{manifest_name(last)}")
    if found is not None and found.run == task.run and found.instance != spec.instance:
        raise StateError(same_name(spec))
    return found


def same_name(spec: JoinSpec) -> str:
    return (
        f"each join of a query must have a name of its own, as its state lies under it; got two called {spec.name!r}; do: give "
        f"stream_join(..., name=) to one of them, and start with a new checkpoint"
    )


def other_sets(spec: JoinSpec, task: Task, last: int, cores: int) -> list[int]:
    """The numbers of cores with which batch ``last`` was evaluated completely, other than ``cores``."""
    place, base = open_location(spec.state), operator_folder(spec, task)
    found = []
    for name in place.names(base):
        count = int(name.removeprefix("of-")) if name.startswith("of-") else cores
        if count != cores and not missing_cores(spec, task, last, count):
            found.append(count)
    return found


def missing_cores(spec: JoinSpec, task: Task, last: int, cores: int) -> list[int]:
    """Which of ``cores`` cores have no manifest of batch ``last``."""
    place, name = open_location(spec.state), manifest_name(last)
    return [
        core for core in range(cores) if place.size(f"{core_folder(spec, task, core, cores)}/{name}") is None
    ]


def _missing(spec: JoinSpec, task: Task, last: int, cores: int) -> str:
    folder, place = operator_folder(spec, task), open_location(spec.state)
    if not place.names(folder):
        return (
            f"join {spec.name!r} must find its state of batch {last} to go on with batch {task.batch}; got no state at all in {folder}; "
            "do: give the state= and name= that the query has had so far; a join that is new in a query needs a new checkpoint"
        )
    if missing_cores(spec, task, last, cores) == list(range(cores)):  # another number of cores was at it
        sets = [int(name.removeprefix("of-")) for name in place.names(folder) if name.startswith("of-")]
        begun = [count for count in sets if len(missing_cores(spec, task, last, count)) < count]
        cores = begun[0] if begun else cores
    return not_evaluated(spec, task, last, cores)


def not_evaluated(spec: JoinSpec, task: Task, last: int, cores: int) -> str:
    """Some of ``cores`` cores have no state of batch ``last``, which Spark has committed. What has become of it, and what to do."""
    absent = missing_cores(spec, task, last, cores)
    which = f"core{'' if len(absent) == 1 else 's'} {', '.join(map(str, absent))} of {cores}"
    return (
        f"join {spec.name!r}: batch {last} of {which} was not evaluated, so batch {task.batch} cannot go on from it (state in "
        f"{operator_folder(spec, task)}). Something looked at a part of the batch only: limit, take, show or a cancelled job in "
        "foreachBatch, for instance. do: let foreachBatch evaluate the whole batch before anything else (batch.persist(); batch.count()), "
        f"and take the query back to batch {last}: stop it, delete offsets/{task.batch} and commits/{last} (and their .crc files) in its "
        "checkpoint, start it again. (If nothing did, files have been deleted there: restore them from a copy.)"
    )


def _given_up(last: int, cores: list[int], folder: str) -> str:
    return (
        f"the state of batch {last} must come from one course of the query; got {' and '.join(f'of-{count:04d}' for count in cores)} in "
        f"{folder}, made of other rows: the query was taken back, and one of them was given up. do: delete the one that was given up"
    )


def check_same(spec_fingerprint: dict[str, Any], found: Manifest, folder: str) -> None:
    """Refuse a state that was made by another join."""
    changed = differences(found.join, spec_fingerprint)
    if changed:
        raise StateError(
            f"a query that goes on must join as before, as its stored rows were made for that; got a change: {'; '.join(changed)} "
            f"(state in {folder}); do: change it back, or start with a new checkpointLocation, from which the join begins anew (select=, "
            "index=, spread= and cores= may change at any time)"
        )
