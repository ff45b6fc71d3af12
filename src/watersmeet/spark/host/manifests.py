"""A host's manifests: all that a core knows after a batch, and what the next batch begins with.

They lie with the run files in ``<state>/<query>/<name>/host-<cores>/core-<k>/``. A manifest is small, as every packer reads those of all
cores: the numbers of the state itself are in an extent of a run file (``saving.py``).
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import StateError
from watersmeet.spark.host.spec import HostSpec, programs_of
from watersmeet.spark.state.location import StateLocation, open_location
from watersmeet.spark.task import Task

FORMAT = 2
EMPTY = "empty"  # the folder of batches that brought nothing
EVERY = 8  # batches between two looks for garbage
SKIPPED = "start(skip=[{}])"


@dataclass
class Manifest:
    """A core after a batch. Everything in it is JSON."""

    batch: int
    core: int
    course: str  # all rows and statements that the query has taken in up to here
    version: int  # of the program that the next batch begins with
    digest: str
    stopped: dict[str, str]  # queries that have stopped, by key, and why
    state: list[Any]  # the extent that has the numbers of the state
    files: list[str]  # all run files that it needs
    rows: int  # that are stored
    bytes: int
    id: str = field(default="", compare=False)  # its checksum: caches go by it


@dataclass(frozen=True)
class Stand:
    """What a batch begins with: the same on all cores."""

    version: int = 0
    digest: str = ""
    stopped: tuple[tuple[str, str], ...] = ()
    course: str = ""

    def to_json(self) -> list[Any]:
        return [self.version, self.digest, [list(pair) for pair in self.stopped], self.course]

    @classmethod
    def from_json(cls, data: list[Any]) -> "Stand":
        version, digest, stopped, course = data
        return cls(version, digest, tuple((key, why) for key, why in stopped), course)


def host_folder(spec: HostSpec, task: Task) -> str:
    return open_location(spec.state).path(task.query or "batch", spec.name)


def core_folder(spec: HostSpec, task: Task, core: int) -> str:
    return f"{host_folder(spec, task)}/host-{spec.setting.cores:04d}/core-{core:04d}"


def manifest_name(batch: int) -> str:
    return f"{batch:012d}.json"


def write_manifest(spec: HostSpec, task: Task, manifest: Manifest) -> str:
    """Write it in one step; returns its id."""
    body = {name: value for name, value in vars(manifest).items() if name != "id"}
    text = json.dumps({"format": FORMAT, **body})
    path = f"{core_folder(spec, task, manifest.core)}/{manifest_name(manifest.batch)}"
    open_location(spec.state).write(path, [f"{_digest(text)}\n{text}".encode()])
    return _digest(text)


def read_manifest(spec: HostSpec, task: Task, batch: int, core: int) -> Manifest | None:
    """The manifest of a batch, its checksum verified; None if there is none."""
    path = f"{core_folder(spec, task, core)}/{manifest_name(batch)}"
    return manifest_at(open_location(spec.state), path)


def manifest_at(place: StateLocation, path: str) -> Manifest | None:
    """The manifest in a file."""
    data = place.read(path)
    if data is None:
        return None
    found, _, text = data.to_pybytes().decode(errors="replace").partition("\n")
    if _digest(text) != found:
        raise StateError(
            f"{path} is damaged: its checksum does not fit its text; do: restore it from a copy, or start with a new checkpoint, control "
            "folder, output and state location"
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


def last_batch(spec: HostSpec, task: Task) -> int | None:
    """The batch before that brought anything; None if there was none."""
    if task.batch is None:
        raise StateError(
            "a host must run in a streaming query, which says which batch it is; got none; do: start it with host.start()"
        )
    place, empty = open_location(spec.state), f"{host_folder(spec, task)}/{EMPTY}"
    marked = set(place.names(empty))
    if (
        f"{task.batch:012d}" in marked
    ):  # it was empty before the query was taken back; now it has map partitions
        place.delete(f"{empty}/{task.batch:012d}")
    last = task.batch - 1
    while f"{last:012d}" in marked:
        last -= 1
    return None if last < 0 else last


def mark_empty(spec: HostSpec, task: Task) -> None:
    """No map partition has sent anything: the state of this batch is that of the batch before."""
    place = open_location(spec.state)
    place.write(f"{host_folder(spec, task)}/{EMPTY}/{task.batch:012d}", [b"no map partitions"])


def last_manifest(spec: HostSpec, task: Task, core: int) -> Manifest | None:
    """What a core goes on from; None: from nothing."""
    last = last_batch(spec, task)
    if last is None:
        return None
    found = read_manifest(spec, task, last, core)
    if found is None:
        raise StateError(
            f"host {spec.name!r}: core {core} must find its state of batch {last} to go on with batch {task.batch}; got none in "
            f"{core_folder(spec, task, core)}; do: give the state= that the host has had so far, or restore the files from a copy"
        )
    return found


def stand_of(spec: HostSpec, task: Task) -> Stand:
    """What the manifests of all cores say for this batch, in one voice."""
    found = [last_manifest(spec, task, core) for core in range(spec.setting.cores)]
    stopped: dict[str, str] = {}
    version, digest, course = 0, "", ""
    for manifest in found:
        if manifest is None:
            continue
        if manifest.core == 0:
            version, digest, course = manifest.version, manifest.digest, manifest.course
        if (manifest.version, manifest.digest, manifest.course) != (version, digest, course):
            raise StateError(
                f"all cores must go on from the same program and rows; got statement {manifest.version} ({manifest.digest}, "
                f"{manifest.course}) on core "
                f"{manifest.core} and {version} ({digest}, {course}) on core 0 after batch {manifest.batch}: the query was "
                "taken back, and then this "
                "batch was not evaluated on all cores; do: take the query back once more, to a batch before that one"
            )
        stopped |= {key: why for key, why in manifest.stopped.items() if key not in stopped}
    program = programs_of(spec).of(version)
    if program.digest != digest:
        raise StateError(
            f"the log of statements must be that which the host has followed so far: statement {version} is {program.digest} in "
            f"{spec.control}, and "
            f"{digest} in the state; do: give the control= that the host has had so far, or restore its log from a copy"
        )
    for query in program.queries.values():
        if query.statement in spec.skip:
            stopped.setdefault(query.key, SKIPPED.format(query.statement))
    # Also queries that the next program has no more, or otherwise: one that has stopped on some core is not altered, but begun anew, by
    # all.
    return Stand(version, digest, tuple(sorted(stopped.items())), course)


def collect_garbage(spec: HostSpec, task: Task, written: Manifest) -> None:
    """Delete what no restart can ask for: files older than the oldest manifest that Spark could go back to, and not named by it."""
    assert task.batch is not None
    oldest = task.batch - spec.retain
    if oldest <= 0 or (task.batch + written.core) % max(1, min(EVERY, spec.retain)):
        return
    first = read_manifest(spec, task, oldest, written.core)
    if first is None:
        return
    place, needed = open_location(spec.state), {*first.files, *written.files}
    folders = [core_folder(spec, task, written.core)]
    if written.core == 0:
        folders.append(f"{host_folder(spec, task)}/{EMPTY}")
    for folder in folders:
        for name in place.names(folder):
            batch = name.partition(".")[0].partition("-")[0]
            if batch.isdigit() and int(batch) < oldest and name not in needed:
                place.delete(f"{folder}/{name}")
