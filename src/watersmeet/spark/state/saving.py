"""A core's state as files, and back: new rows become runs, small runs are merged, the manifest names them all."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.join.snapshot import DONE, EXTRA
from watersmeet.spark.shuffle.layout import Layout
from watersmeet.spark.shuffle.planning import Outlook
from watersmeet.spark.spec import GUEST, Binding
from watersmeet.spark.state.core_state import CoreState, StoredRows
from watersmeet.spark.state.location import open_location
from watersmeet.spark.state.manifests import Manifest, core_folder, write_manifest
from watersmeet.spark.state.runs import Run, RunReader, RunWriter
from watersmeet.spark.task import Task
from watersmeet.streams.payload import Payload

FANOUT = 16  # this many runs below a size become one
SIZES = (4096, 65_536)  # rows; larger runs stay as they are: a row is written three times at most
MOST = 1 << 30  # bytes of a run, about: an Arrow column of texts holds 2 GB; what merges into less is small


def save(
    bound: Binding,
    task: Task,
    core: int,
    state: CoreState,
    stored: Sequence[StoredRows],
    outlook: Outlook,
    ahead: Outlook,
    course: str,
) -> Manifest:
    """Write what is new, then the manifest: the state of a core after this task's batch.

    ``outlook`` was this batch's, ``ahead`` is the next one's; ``course``: what the query has taken in, this batch too.
    """
    spec = bound.spec
    assert task.batch is not None
    place, folder = open_location(spec.state), core_folder(spec, task, core, bound.tasks)
    writer = RunWriter(task.batch)
    streams = [save_stream(rows, runs, writer) for rows, runs in zip(stored, state.runs, strict=True)]
    writer.write(place, folder)
    manifest = Manifest(
        batch=task.batch,
        core=core,
        cores=bound.tasks,
        join=bound.fingerprint,
        name=spec.name,
        run=task.run,
        instance=spec.instance,
        course=course,
        columns=[list(names) for names in bound.columns],
        layouts=outlook.layouts_json(),
        next_layouts=ahead.layouts_json(),
        age=ahead.age,
        keys=ahead.keys_json(),
        counts=state.totals,
        numbers=state.numbers,
        habits=state.habits,
        streams=streams,
        late=state.late,
        watermark=state.watermark,
    )
    manifest.id = write_manifest(place, folder, manifest)
    return manifest


def save_stream(stored: StoredRows, written: Sequence[Run], writer: RunWriter) -> dict[str, object]:
    """The rows that no run has yet become one; runs of rows that have expired are left out."""
    first, end, payload = stored.first, stored.end, stored.payload
    runs = [run for run in written if run.end > first]
    start = max(runs[-1].end if runs else first, first)
    for size in SIZES:
        tail = runs[-(FANOUT - 1) :]
        small = all(run.rows < size and run.bytes < MOST // FANOUT for run in tail)
        if len(tail) == FANOUT - 1 and end - start < size and small:
            start = max(tail[0].first, first)
            runs = runs[: -len(tail)]
    for low, high in pairwise(_edges(payload, start, end)):
        runs.append(writer.add_rows(_with_sights(stored, low, high), low))
    flags = None if stored.done is None else writer.add_flags(stored.done, first)
    return {
        "runs": [run.to_json() for run in runs],
        "flags": None if flags is None else flags.to_json(),
        "rows": stored.rows,
        "bytes": sum(run.bytes for run in runs),
    }


def _with_sights(stored: StoredRows, start: int, stop: int) -> pa.RecordBatch:
    """Rows, with what they had seen of other streams where that must be known."""
    rows = stored.payload.rows_between(start, stop)
    for name, column in ({} if stored.seen is None else stored.seen(start, stop)).items():
        rows = rows.append_column(EXTRA + name, pa.array(column))
    return rows


def sight_fields(bound: Binding, k: int) -> list[pa.Field]:
    """The columns that ``_with_sights`` adds."""
    names = [f"{EXTRA}{what}_{j}" for j in bound.looks_back(k) for what in ("seen", "cut")]
    return [pa.field(name, pa.int64()) for name in names]


def _edges(payload: Payload, start: int, end: int) -> list[int]:
    """Where the rows [start, end) are cut into runs: between chunks, so that a run is one array a column without reaching Arrow's limit."""
    edges, size = [start], 0
    for batch, first in zip(payload.chunks.batches, payload.chunks.firsts, strict=True):
        if first + batch.num_rows > start:
            size += batch.nbytes
            if size > MOST and first > edges[-1]:
                edges.append(first)
                size = batch.nbytes
    return [*edges, end] if end > start else edges


def load(bound: Binding, task: Task, manifest: Manifest) -> tuple[CoreState, dict[int, pa.Table]]:
    """What a manifest describes, and the rows of each stream, with their flags."""
    tables = {k: stored_table(bound, task, manifest, k) for k in bound.stream_numbers}
    kept = (manifest.numbers, manifest.counts, manifest.habits, list(manifest.late), manifest.runs)
    return CoreState(*kept), tables


def stored_table(bound: Binding, task: Task, manifest: Manifest, k: int) -> pa.Table:
    """The rows of stream k in the manifest's sub-windows, in order, with their flags; copies are marked if its layout made any."""
    spec = bound.spec
    folder = core_folder(spec, task, manifest.core, manifest.cores)
    reader = RunReader(open_location(spec.state), folder)
    fields = [spec.schemas[k].field(name) for name in bound.columns[k] if name != GUEST]
    if Layout.from_json(manifest.layouts[0]).copies:
        fields.append(pa.field(GUEST, pa.bool_()))
    schema = pa.schema([*fields, *sight_fields(bound, k)])
    stream = manifest.streams[k]
    runs = manifest.runs[k]
    parts = [_fitting(reader.rows(run), schema, spec.streams[k], f"{folder}/{run.file}") for run in runs]
    whole = pa.concat_tables(parts) if parts else schema.empty_table()
    first = runs[0].first if runs else 0
    borders = manifest.numbers["subwindows"][k]
    if any(run.end != after.first for run, after in pairwise(runs)) or (
        borders and (borders[0][0] < first or borders[-1][1] > first + whole.num_rows)
    ):
        raise StateError(
            f"the runs of stream {spec.streams[k]!r} of core {manifest.core} must follow on each other up to batch {manifest.batch}; got a "
            f"gap in {folder}; do: restore it from a copy"
        )
    slices = [whole.slice(base - first, end - base) for base, end in borders]
    flags = None if stream["flags"] is None else reader.flags(Run(*stream["flags"]))
    table = pa.concat_tables(slices) if slices else schema.empty_table()
    done = np.zeros(table.num_rows, np.bool_) if flags is None else flags
    return table.append_column(DONE, pa.array(done))


def _fitting(table: pa.Table, schema: pa.Schema, stream: str, path: str) -> pa.Table:
    """Stored rows with the columns that are needed now."""
    if table.schema.equals(schema):
        return table
    columns = []
    for field in schema:
        place = table.schema.get_field_index(field.name)
        if place >= 0 and table.schema.field(place).type == field.type:
            columns.append(table.column(place))
        else:
            had = (
                f"type {table.schema.field(place).type}"
                if place >= 0
                else f"only {', '.join(table.schema.names)}"
            )
            raise StateError(
                f"select= must keep to the columns that the stored rows of stream {stream!r} have; got {field.name} ({field.type}), and "
                f"{path} "
                f"has {had}; do: leave it out, or start with a new checkpoint"
            )
    return pa.Table.from_arrays(columns, schema=schema)
