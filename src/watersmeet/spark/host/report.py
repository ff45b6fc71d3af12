"""``watersmeet state LOCATION``, for hosts: what their cores have stored, and whether it is whole."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from watersmeet.errors import StateError
from watersmeet.spark.host.manifests import Manifest, manifest_at, manifest_name
from watersmeet.spark.state.command import folders_called, place_of
from watersmeet.spark.state.location import StateLocation
from watersmeet.spark.state.runs import Run, RunReader


@dataclass
class HostCore:
    """One core of a host: its newest manifest, and what is wrong."""

    query: str
    name: str
    folder: str
    manifest: Manifest | None = None
    batches: list[int] = field(default_factory=list)  # that it could go on from
    files: int = 0
    bytes: int = 0
    problems: list[str] = field(default_factory=list)


def host_report(location: str) -> list[HostCore]:
    """Every core of every host under a location, all checksums verified; none if there is no host."""
    place, found = place_of(location), list[HostCore]()
    for folder in folders_called("host-", place):
        count = int(folder.rpartition("host-")[2])
        cores = [_core(place, folder, number) for number in range(count)]
        for core in cores:
            core.problems += _absent(core, cores)
        found += cores
    return found


def _core(place: StateLocation, base: str, number: int) -> HostCore:
    query, name = ["", "", *base.split("/")][-3:-1]
    found = HostCore(query, name, f"{base}/core-{number:04d}")
    told = set[str]()
    for file in place.names(found.folder):
        found.files += 1
        found.bytes += place.size(f"{found.folder}/{file}") or 0
        if not file.endswith(".json"):
            continue
        try:
            manifest = manifest_at(place, f"{found.folder}/{file}")
        except StateError as error:
            found.problems.append(str(error))
            continue
        if manifest is not None:
            found.manifest = manifest
            found.batches.append(manifest.batch)
            told.update(_damage(place, found.folder, manifest))
    found.problems += sorted(told)
    return found


def _damage(place: StateLocation, folder: str, manifest: Manifest) -> Iterator[str]:
    """What is wrong with the extents that a manifest needs."""
    reader, state = RunReader(place, folder), Run(*manifest.state)
    problem = reader.check(state)
    if problem is not None:
        yield problem
        return
    body = json.loads(reader.rows(state).column(0)[0].as_py())
    for _, _, streams, tables in body["running"]:
        runs = [run for several, _ in streams.values() for run in several]
        for run in [*runs, *tables.values()]:
            problem = reader.check(Run(*run))
            if problem is not None:
                yield problem


def _absent(core: HostCore, cores: Sequence[HostCore]) -> Iterator[str]:
    """The newest batch of any core is that of all, but for a batch that is still running or broke off."""
    last = max((batch for other in cores for batch in other.batches), default=-1)
    if last >= 0 and last not in core.batches:
        yield (
            f"{core.folder}/{manifest_name(last)} is missing, and other cores have evaluated batch {last}; do: if that batch is still "
            "running or broke off, let Spark go on with it; else restore the file from a copy"
        )


def host_lines(cores: Sequence[HostCore]) -> Iterator[str]:
    """The report for people: a table a host, and every problem by name."""
    for (query, name), group in groupby(cores, lambda core: (core.query, core.name)):
        members = list(group)
        yield f"query {query}, host {name} in {members[0].folder.rsplit('/', 4)[0]}"
        stopped: dict[str, str] = {}
        for core in members:
            yield f"  {'/'.join(core.folder.split('/')[-2:])}  {_state(core)}"
            yield from (f"    PROBLEM {problem}" for problem in core.problems)
            stopped |= {} if core.manifest is None else core.manifest.stopped
        yield from (
            f"  query {key} (number and generation) was stopped: {why}"
            for key, why in sorted(stopped.items())
        )
    if cores:
        rows = sum(core.manifest.rows for core in cores if core.manifest is not None)
        size, bad = sum(core.bytes for core in cores), sum(len(core.problems) for core in cores)
        problems = f"{bad or 'no'} problem{'' if bad == 1 else 's'}"
        yield f"{len(cores)} cores of hosts, {rows:,} rows, {size:,} bytes in files; {problems}"


def _state(core: HostCore) -> str:
    manifest = core.manifest
    if manifest is None:
        return f"no manifest: no batch has been evaluated; {core.files} files"
    kept = f"batch {max(core.batches)} (kept from {min(core.batches)})"
    return f"{kept}; {manifest.version} statements; {manifest.rows:,} rows, {manifest.bytes:,} bytes; {core.files} files"
