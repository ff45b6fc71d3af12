"""``watersmeet state LOCATION``: what lies in a state location, and whether it is whole."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from watersmeet.errors import OptionError, StateError
from watersmeet.spark.garbage import named_runs
from watersmeet.spark.manifests import Manifest, read_manifest
from watersmeet.spark.runs import RunReader
from watersmeet.spark.state_location import StateLocation, open_location


@dataclass
class CoreReport:
    """One core: its newest manifest, and what is wrong."""

    query: str
    name: str
    folder: str
    manifest: Manifest | None = None
    batches: list[int] = field(default_factory=list)  # that it could go on from
    files: int = 0
    bytes: int = 0
    problems: list[str] = field(default_factory=list)


def report(location: str) -> list[CoreReport]:
    """Every core under a location, all checksums verified."""
    place = open_location(location)
    found = [_core(place, *where) for where in _cores(place)]
    if not found:
        raise OptionError(
            f"a state location must hold folders like <query>/<name>/of-0002/core-0000; got none in {location}; name the state= of a "
            "stream_join, or the session's checkpoint location"
        )
    return found


def _cores(place: StateLocation) -> Iterator[tuple[str, str, str]]:
    """(query, name, folder) of each core; the location may also be a checkpoint location, or any folder below it."""
    waiting = [(place.root, 0)]
    while waiting:
        folder, depth = waiting.pop(0)
        for name in place.names(folder):
            path = f"{folder}/{name}"
            if name.startswith("core-"):
                query, operator, _ = path.split("/")[-4:-1]
                yield query, operator, path
            elif depth < 4 and "." not in name:
                waiting.append((path, depth + 1))


def _core(place: StateLocation, query: str, name: str, folder: str) -> CoreReport:
    found = CoreReport(query, name, folder)
    reader = RunReader(place, folder)
    for file in place.names(folder):
        found.files += 1
        found.bytes += place.size(f"{folder}/{file}") or 0
        if not file.endswith(".json"):
            continue
        try:
            manifest = read_manifest(place, f"{folder}/{file}")
        except StateError as error:
            found.problems.append(str(error))
            continue
        if manifest is not None:
            found.manifest = manifest
            found.batches.append(manifest.batch)
            found.problems += [
                problem
                for run in named_runs(manifest.streams)
                if (problem := reader.check(run)) is not None and problem not in found.problems
            ]
    return found


def lines(cores: list[CoreReport]) -> Iterator[str]:
    """The report for people: a table a join, and every problem by name."""
    shown = None
    for core in cores:
        if (core.query, core.name) != shown:
            shown = (core.query, core.name)
            yield f"query {core.query}, join {core.name}"
            if core.manifest is not None:
                yield f"  {core.manifest.join['condition']}  ({core.manifest.join['how']})"
        yield f"  {_place(core)}  {_state(core)}"
        yield from (f"    DAMAGED {problem}" for problem in core.problems)
    rows = sum(_rows(core) for core in cores)
    bad = sum(len(core.problems) for core in cores)
    size = sum(core.bytes for core in cores)
    yield f"{len(cores)} cores, {rows:,} rows, {size:,} bytes in files; {bad or 'no'} problem{'' if bad == 1 else 's'}"


def _place(core: CoreReport) -> str:
    return "/".join(core.folder.split("/")[-2:])


def _rows(core: CoreReport) -> int:
    return 0 if core.manifest is None else sum(stream["rows"] for stream in core.manifest.streams)


def _state(core: CoreReport) -> str:
    manifest = core.manifest
    if manifest is None:
        return "no manifest: no batch has been evaluated"
    parts = [
        f"{stream} {data['rows']:,} rows in {len(data['runs'])} runs, {data['bytes']:,} bytes"
        for stream, data in zip(manifest.join["streams"], manifest.streams, strict=True)
    ]
    first, last = min(core.batches), max(core.batches)
    late = ", ".join(map(str, manifest.late))
    kept = f"batch {last} (kept from {first}); {'; '.join(parts)}"
    return f"{kept}; watermark {manifest.watermark or 'none'}; late {late}; {core.files} files"
