"""A live core as files, and back: new rows become runs, small runs are merged, the manifest names them all."""

from itertools import pairwise

import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.spark.layout import Layout
from watersmeet.spark.live import LiveCore, with_flags
from watersmeet.spark.manifests import Manifest, core_folder, write_manifest
from watersmeet.spark.planning import Outlook
from watersmeet.spark.runs import Run, RunReader, RunWriter
from watersmeet.spark.spec import GUEST, Binding
from watersmeet.spark.state_location import open_location
from watersmeet.spark.task import Task
from watersmeet.streams.payload import Payload

FANOUT = 16  # this many runs below a size become one
SIZES = (4096, 65_536)  # rows; larger runs stay as they are: a row is written three times at most
MOST = 1 << 30  # bytes of a run, about: an Arrow column of texts holds 2 GB; what merges into less is small


def save(live: LiveCore, task: Task, outlook: Outlook, ahead: Outlook, course: str) -> Manifest:
    """Write what is new, then the manifest: the state after this task's batch.

    ``outlook`` was this batch's, ``ahead`` is the next one's; ``course``: what the query has taken in, this batch too.
    """
    spec, bound = live.bound.spec, live.bound
    assert task.batch is not None
    place, folder = open_location(spec.state), core_folder(spec, task, live.number, bound.tasks)
    writer = RunWriter(task.batch)
    streams = [_save_stream(live, k, writer) for k in (0, 1)]
    writer.write(place, folder)
    manifest = Manifest(
        batch=task.batch,
        core=live.number,
        cores=bound.tasks,
        join=bound.fingerprint,
        name=spec.name,
        run=task.run,
        instance=spec.instance,
        course=course,
        columns=[list(names) for names in bound.columns],
        layouts=[layout.to_json() for layout in outlook.layouts],
        next_layouts=[layout.to_json() for layout in ahead.layouts],
        age=ahead.age,
        keys=[list(map(list, sketch)) for sketch in ahead.keys],
        counts=live.arrivals.totals.tolist(),
        numbers=live.numbers(),
        habits=live.habits(),
        streams=streams,
        late=list(live.late),
        watermark=live.watermark,
    )
    manifest.id = write_manifest(place, folder, manifest)
    return manifest


def _save_stream(live: LiveCore, k: int, writer: RunWriter) -> dict[str, object]:
    chain, payload = live.core.chains[k], live.core.payload[k]
    assert payload is not None
    end = int(live.core.arrivals.counts[k])
    runs = [run for run in live.runs[k] if run.end > chain.first]
    start = max(runs[-1].end if runs else chain.first, chain.first)
    for size in SIZES:
        tail = runs[-(FANOUT - 1) :]
        small = all(run.rows < size and run.bytes < MOST // FANOUT for run in tail)
        if len(tail) == FANOUT - 1 and end - start < size and small:
            start = max(tail[0].first, chain.first)
            runs = runs[: -len(tail)]
    for low, high in pairwise(_edges(payload, start, end)):
        runs.append(writer.add_rows(payload.rows_between(low, high), low))
    live.runs[k] = runs
    done = live.done(k)
    flags = None if done is None else writer.add_flags(done, chain.first)
    return {
        "runs": [run.to_json() for run in runs],
        "flags": None if flags is None else flags.to_json(),
        "rows": chain.rows,
        "bytes": sum(run.bytes for run in runs),
    }


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


def load(bound: Binding, task: Task, manifest: Manifest) -> LiveCore:
    """The core that a manifest describes."""
    live = LiveCore(bound, manifest.core)
    tables = {k: stored_table(bound, task, manifest, k) for k in (0, 1)}
    live.restore(manifest.numbers, manifest.counts, tables, manifest.habits)
    live.runs = [[Run(*data) for data in stream["runs"]] for stream in manifest.streams]
    live.late = list(manifest.late)
    return live


def stored_table(bound: Binding, task: Task, manifest: Manifest, k: int) -> pa.Table:
    """The rows of stream k in the manifest's sub-windows, in order, with their flags; copies are marked if its layout made any."""
    spec = bound.spec
    folder = core_folder(spec, task, manifest.core, manifest.cores)
    reader = RunReader(open_location(spec.state), folder)
    fields = [spec.schemas[k].field(name) for name in bound.columns[k] if name != GUEST]
    if Layout.from_json(manifest.layouts[0]).copies:
        fields.append(pa.field(GUEST, pa.bool_()))
    schema = pa.schema(fields)
    stream = manifest.streams[k]
    runs = [Run(*data) for data in stream["runs"]]
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
    return with_flags(pa.concat_tables(slices) if slices else schema.empty_table(), flags)


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
