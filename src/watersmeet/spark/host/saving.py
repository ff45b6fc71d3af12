"""A host's core as files, and back.

Rows of streams become runs, as those of ``stream_join``: each is written a few times at most. What queries remember (tables of
``query/saving.py``) and all numbers are written whole with every batch, into the same file.
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.query.saving import restored, running_state
from watersmeet.spark.host.came import Came
from watersmeet.spark.host.core import LiveCore
from watersmeet.spark.host.manifests import Manifest, core_folder, write_manifest
from watersmeet.spark.host.spec import HostSpec
from watersmeet.spark.state.core_state import StoredRows
from watersmeet.spark.state.location import open_location
from watersmeet.spark.state.runs import Run, RunReader, RunWriter
from watersmeet.spark.state.saving import save_stream
from watersmeet.spark.task import Task
from watersmeet.streams.batch import one_batch
from watersmeet.streams.payload import Payload

ROWS = "rows "


def save(spec: HostSpec, task: Task, live: LiveCore, course: str, following: tuple[int, str]) -> Manifest:
    """Write what is new, then the manifest. ``following``: version and digest of the next batch's program."""
    assert task.batch is not None
    writer, parts, runs = RunWriter(task.batch), [], {}
    for spread, running in sorted(live.running.items()):
        running.mend()
        header, tables = running_state(running)
        streams = {}
        for name in live.setting.streams:
            stored = _stored(tables.pop(f"{ROWS}{name}"), header["arrived"][name])
            saved = save_stream(stored, live.runs.get((spread, name), []), writer)
            runs[spread, name] = [Run(*data) for data in _listed(saved["runs"])]
            streams[name] = [saved["runs"], stored.first]
        extents = {name: writer.add_rows(one_batch(table), 0).to_json() for name, table in tables.items()}
        parts.append([spread, header, streams, extents])
    known = {"version": live.version, "came": live.came.to_json(), "complete": live.complete}
    body = json.dumps({**known, "running": parts}).encode()
    extent = writer.add_rows(pa.record_batch([pa.array([body], pa.large_binary())], ["state"]), 0)
    place, folder = open_location(spec.state), core_folder(spec, task, live.core)
    writer.write(place, folder)
    files = sorted({writer.file, *(run.file for several in runs.values() for run in several)})
    rows = sum(count for _, _, count in live.held())
    size = sum(run.bytes for several in runs.values() for run in several)
    manifest = Manifest(
        task.batch, live.core, course, *following, live.stopped, extent.to_json(), files, rows, size
    )
    manifest.id = write_manifest(spec, task, manifest)
    live.runs = runs
    return manifest


def _stored(table: pa.Table, arrived: int) -> StoredRows:
    payload = Payload(table.schema, table.schema.names)
    payload.end = arrived - table.num_rows
    for batch in table.to_batches():
        payload.append(batch)
    return StoredRows(arrived - table.num_rows, arrived, table.num_rows, payload, None)


def _listed(data: object) -> list[Any]:
    return data if isinstance(data, list) else []


def load(spec: HostSpec, task: Task, manifest: Manifest, without: Mapping[str, str]) -> LiveCore:
    """The core that a manifest describes. ``without``: names of queries that are not made again, as they are skipped."""
    folder = core_folder(spec, task, manifest.core)
    reader = RunReader(open_location(spec.state), folder)
    body = json.loads(reader.rows(Run(*manifest.state)).column(0)[0].as_py())
    live = LiveCore(spec.setting, manifest.core)
    live.version, live.stopped = body["version"], dict(manifest.stopped)
    live.came, live.complete = Came(*body["came"]), body["complete"]
    for spread, header, streams, extents in body["running"]:
        tables = {name: reader.rows(Run(*data)) for name, data in extents.items()}
        for name, (data, first) in streams.items():
            runs = live.runs[spread, name] = [Run(*one) for one in data]
            tables[f"{ROWS}{name}"] = _rows(reader, runs, first, header["arrived"][name], spec, name, folder)
        header["queries"] = [query for query in header["queries"] if query["name"] not in without]
        live.running[spread] = restored(header, tables)
    return live


def _rows(
    reader: RunReader, runs: list[Run], first: int, arrived: int, spec: HostSpec, name: str, folder: str
) -> pa.Table:
    """The rows [first, arrived) of a stream."""
    if not runs:
        whole, base = spec.setting.schemas[name].empty_table(), first
    else:
        whole, base = pa.concat_tables([reader.rows(run) for run in runs]), runs[0].first
    if base > first or base + whole.num_rows != arrived:
        raise StateError(
            f"the runs of stream {name!r} must follow on each other up to row {arrived}; got rows {base} to "
            f"{base + whole.num_rows} in {folder}; do: "
            "restore it from a copy"
        )
    return whole.slice(first - base)
