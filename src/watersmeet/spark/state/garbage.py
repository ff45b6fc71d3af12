"""Old files are deleted late: only when no manifest that a restart could ask for names them.

Spark can go back ``minBatchesToRetain`` batches. Let ``oldest`` be the first manifest that it could still ask for. Runs enter a manifest
when they are written and never come back once they have left, so a run that is older than ``oldest`` and not named by it is named by
no later one either. That also finds what no manifest ever named: files of tasks that were tried twice, or died.
"""

from watersmeet.spark.spec import JoinSpec
from watersmeet.spark.state.location import StateLocation, open_location
from watersmeet.spark.state.manifests import (
    EMPTY,
    Manifest,
    core_folder,
    manifest_name,
    operator_folder,
    read_manifest,
)
from watersmeet.spark.state.runs import Run
from watersmeet.spark.task import Task

EVERY = 8  # batches between two looks at a folder


def collect_garbage(spec: JoinSpec, task: Task, written: Manifest) -> None:
    """Delete what this core's folder no longer needs; the first core also looks after folders of other numbers of cores.

    ``written``: the manifest of this batch. What it names is kept too: of two tries of one batch the later may have written over a
    manifest from which the query had gone on.
    """
    assert task.batch is not None
    core, cores = written.core, written.cores
    every = max(1, min(EVERY, spec.retain))
    if (task.batch + core) % every:
        return
    place, oldest = open_location(spec.state), task.batch - spec.retain
    if oldest <= 0:
        return
    folder = core_folder(spec, task, core, cores)
    first = read_manifest(place, f"{folder}/{manifest_name(oldest)}")
    if first is None:  # an empty batch, or other cores: whoever goes on from further back needs all there is
        return
    needed = {run.file for manifest in (first, written) for run in named_runs(manifest.streams)}
    _sweep(place, folder, oldest, needed)
    if core == 0:
        base = operator_folder(spec, task)
        _sweep_others(place, base, f"of-{cores:04d}", oldest)
        _sweep(place, f"{base}/{EMPTY}", oldest, set())


def named_runs(streams: list[dict[str, object]]) -> list[Run]:
    """All extents that a manifest names."""
    found = []
    for stream in streams:
        for data in [*_listed(stream["runs"]), *([stream["flags"]] if stream["flags"] else [])]:
            found.append(Run(*data))  # type: ignore[misc]
    return found


def _listed(data: object) -> list[object]:
    return data if isinstance(data, list) else []


def _sweep(place: StateLocation, folder: str, oldest: int, needed: set[str]) -> None:
    for name in place.names(folder):
        batch = name.partition(".")[0].partition("-")[0]
        if batch.isdigit() and int(batch) < oldest and name not in needed:
            place.delete(f"{folder}/{name}")


def _sweep_others(place: StateLocation, base: str, own: str, oldest: int) -> None:
    """Other numbers of cores: a set that still has a manifest a restart could ask for is left alone."""
    for name in place.names(base):
        if name == own or not name.startswith("of-"):
            continue
        folders = [f"{base}/{name}/{core}" for core in place.names(f"{base}/{name}")]
        manifests = [file for folder in folders for file in place.names(folder) if file.endswith(".json")]
        if all(int(file.removesuffix(".json")) < oldest for file in manifests):
            for folder in folders:
                _sweep(place, folder, oldest, set())
