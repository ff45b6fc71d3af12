"""``watersmeet state LOCATION``: what lies in a state location, and whether it is whole.

The location may also be the checkpoint of a query. Its state lies elsewhere, in a folder that is called by the query's id: near by it is
found; else the message says what to look for, and where.

A join's rows are held by one set of cores: that which has evaluated the newest batch. A set of another number of cores beside it is
kept only for a restart from an older batch; its rows are not counted, since the newest set has them too.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from watersmeet.errors import OptionError, StateError
from watersmeet.spark.state.garbage import named_runs
from watersmeet.spark.state.location import CHECKPOINT, FOLDER, StateLocation, open_location
from watersmeet.spark.state.manifests import Manifest, manifest_name, read_manifest
from watersmeet.spark.state.runs import Run, RunReader

MOST_FOLDERS = 1000  # that are looked through for the state of a query
SPARKS_OWN = ("offsets", "commits", "sources")  # folders of a checkpoint; "state" may also be ours


@dataclass
class CoreReport:
    """One core: its newest manifest, and what is wrong."""

    query: str
    name: str
    folder: str
    number: int
    manifest: Manifest | None = None
    batches: list[int] = field(default_factory=list)  # that it could go on from
    files: int = 0
    bytes: int = 0
    held: bool = True  # False: of a number of cores that the join no longer has, kept for a restart
    problems: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows that the join holds here."""
        return sum(stream["rows"] for stream in self.manifest.streams) if self.manifest and self.held else 0


def place_of(location: str) -> StateLocation:
    """The folder with the state that a location means."""
    place = open_location(location)
    query = query_of(place)
    return place if query is None else state_of(place, query, location)


def report(location: str, needed: bool = True) -> list[CoreReport]:
    """Every core of a join under a location, all checksums verified. ``needed``: that there is none is an error."""
    place, found = place_of(location), list[CoreReport]()
    for _, sets in groupby(folders_called("of-", place), lambda path: path.rpartition("/")[0]):
        found += _join([_set(place, path) for path in sets])
    if not found and needed:
        raise OptionError(
            f"a state location must hold folders like <query>/<name>/of-0002/core-0000; got none in {location}; name the state= of a "
            "stream_join, or the session's checkpoint location"
        )
    return found


def query_of(place: StateLocation) -> str | None:
    """The id of the query whose checkpoint this folder is; None if it is none."""
    metadata = place.read(place.path("metadata"))
    if metadata is None or not {"offsets", "commits"} & set(place.names(place.root)):
        return None
    try:
        return str(json.loads(metadata.to_pybytes())["id"])
    except (ValueError, TypeError, KeyError):
        return None


def state_of(place: StateLocation, query: str, location: str) -> StateLocation:
    """Where the state of a query is, by its checkpoint: the folders beside the checkpoint are looked through, and those beside these."""
    beside = place.root.rpartition("/")[0]
    waiting, looked = [(beside, 0), (beside.rpartition("/")[0], 0)], 0
    while waiting and looked < MOST_FOLDERS:
        folder, depth = waiting.pop(0)
        names = place.folders(folder)
        looked += 1
        if query in names:
            return StateLocation(place.files, f"{folder}/{query}")
        if depth < 2:
            waiting += [(f"{folder}/{name}", depth + 1) for name in names if name not in SPARKS_OWN]
    raise OptionError(
        f"a state location must hold folders like <query>/<name>/of-0002/core-0000; got {location}, which is the checkpoint of query "
        f"{query}; its state is in a folder of that name, in the state= of its stream_join or, where that was not given, in {FOLDER} in "
        f"the session's {CHECKPOINT} (explain(joined) shows it); do: watersmeet state THAT_FOLDER/{query}"
    )


def folders_called(kind: str, place: StateLocation) -> Iterator[str]:
    """The folder of each set of cores, join by join; the location may also be a checkpoint location, or any folder below it."""
    waiting = [(place.root, 0)]
    while waiting:
        folder, depth = waiting.pop(0)
        name = folder.rpartition("/")[2]
        if name.startswith(kind) and name.removeprefix(kind).isdigit():
            yield folder
        elif depth < 4:
            waiting += [(f"{folder}/{name}", depth + 1) for name in place.folders(folder)]


def _join(sets: list[list[CoreReport]]) -> list[CoreReport]:
    """The sets of one join: which of them is the newest, and whether that one is whole. Emptied ones are left out."""
    sets = [cores for cores in sets if any(core.files for core in cores)] or sets[:1]
    newest = max(sets, key=lambda cores: (_last(cores), _last(cores) in _whole(cores)))
    others = [cores for cores in sets if cores is not newest]
    for cores in others:
        for core in cores:
            core.held = False
    elsewhere = set().union(*map(_whole, others))
    for core in newest:
        core.problems += _absent(core, newest, elsewhere)
    return [core for cores in sets for core in cores]


def _last(cores: list[CoreReport]) -> int:
    return max((batch for core in cores for batch in core.batches), default=-1)


def _whole(cores: list[CoreReport]) -> set[int]:
    """The batches that all cores of a set have evaluated."""
    return set.intersection(*(set(core.batches) for core in cores))


def _absent(core: CoreReport, cores: list[CoreReport], elsewhere: set[int]) -> Iterator[str]:
    """Batches that other cores of the set have and this one has not. Cores forget old ones at different times; those do not count."""
    known = max((min(other.batches) for other in cores if other.batches), default=0)
    batches = {batch for other in cores for batch in other.batches if batch >= known} - elsewhere
    for batch in sorted(batches.difference(core.batches)):
        path = f"{core.folder}/{manifest_name(batch)}"
        if not any(path in problem for problem in core.problems):  # damaged, which has been told
            yield (
                f"{path} is missing, and other cores have evaluated batch {batch}; do: if that batch is still running or broke off, let "
                "Spark go on with it; if foreachBatch looked at a part of it only (show, take, limit), let it evaluate the whole batch "
                f"before anything else, stop the query, delete offsets/{batch + 1} and commits/{batch} (and their .crc files) in its "
                "checkpoint, and start it again; else restore the file from a copy"
            )


def _set(place: StateLocation, folder: str) -> list[CoreReport]:
    cores = int(folder.rpartition("of-")[2])
    return [_core(place, folder, number) for number in range(cores)]


def _core(place: StateLocation, base: str, number: int) -> CoreReport:
    folder = f"{base}/core-{number:04d}"
    query, name = ["", "", *base.split("/")][-3:-1]
    found = CoreReport(query, name, folder, number)
    runs: dict[Run, str] = {}  # and the newest manifest that names each
    for file in place.names(folder):
        path = f"{folder}/{file}"
        found.files += 1
        found.bytes += place.size(path) or 0
        if not file.endswith(".json"):
            continue
        try:
            manifest = read_manifest(place, path)
        except StateError as error:
            found.problems.append(str(error))
            continue
        if manifest is not None:
            found.manifest = manifest
            found.batches.append(manifest.batch)
            runs |= dict.fromkeys(named_runs(manifest.streams), path)
    found.problems += _damage(place, folder, runs)
    return found


def _damage(place: StateLocation, folder: str, runs: dict[Run, str]) -> Iterator[str]:
    """What is wrong with the extents that manifests name. Each is read once, a file at a time."""
    for _, extents in groupby(sorted(runs, key=lambda run: (run.file, run.offset)), lambda run: run.file):
        reader, told = RunReader(place, folder), set[str]()
        for run in extents:
            problem = reader.check(run)
            # A run may go while we look; its manifest goes with it.
            if problem is not None and problem not in told and place.size(runs[run]) is not None:
                told.add(problem)
                yield problem


def lines(cores: list[CoreReport]) -> Iterator[str]:
    """The report for people: a table a join, and every problem by name."""
    for (query, name), group in groupby(cores, lambda core: (core.query, core.name)):
        members = list(group)
        yield f"query {query}, join {name} in {members[0].folder.rsplit('/', 4)[0]}"
        yield from (f"  {text}" for text in _condition(members))
        for core in members:
            yield f"  {'/'.join(core.folder.split('/')[-2:])}  {_state(core)}"
            yield from (f"    PROBLEM {problem}" for problem in core.problems)
    held = [core for core in cores if core.held]
    rows, bad = sum(core.rows for core in held), sum(len(core.problems) for core in cores)
    size, kept = (sum(core.bytes for core in cores if core.held is held) for held in (True, False))
    yield (
        f"{len(held)} cores, {rows:,} rows, {size:,} bytes in files{f' and {kept:,} kept for a restart' if kept else ''}; "
        f"{bad or 'no'} problem{'' if bad == 1 else 's'}"
    )


def _condition(cores: Iterable[CoreReport]) -> list[str]:
    known = [core.manifest.join for core in cores if core.manifest is not None and core.held]
    return [f"{join['condition']}  ({join['how']})" for join in known[:1]]


def _state(core: CoreReport) -> str:
    manifest = core.manifest
    if manifest is None:
        return f"no manifest: no batch has been evaluated; {core.files} files"
    parts = [
        f"{stream} {data['rows']:,} rows in {len(data['runs'])} runs, {data['bytes']:,} bytes"
        for stream, data in zip(manifest.join["streams"], manifest.streams, strict=True)
    ]
    first, last = min(core.batches), max(core.batches)
    late = ", ".join(map(str, manifest.late))
    kept = f"batch {last} (kept from {first}); {'; '.join(parts)}"
    for_restart = "" if core.held else "kept for a restart: "
    return f"{for_restart}{kept}; watermark {manifest.watermark or 'none'}; late {late}; {core.files} files"
