"""Static tables among the streams of a join: read once when the join is made, written beside its state, and found there by every core.

Their rows come before all others, and stay. After the first batch they are rows of the cores' state like any other; the file is asked for
only by a query that begins. What a table held is part of the join's fingerprint: a query that goes on with another table is refused.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.codes import mix
from watersmeet.errors import StateError
from watersmeet.spark.shuffle.layout import contents
from watersmeet.spark.spec import JoinSpec, Table
from watersmeet.spark.state.location import open_location
from watersmeet.streams.batch import one_batch

FOLDER = "tables"


def written(state: str, rows: pa.RecordBatch, used: Sequence[str]) -> Table:
    """A table beside the state. Its name is that of its bytes: what is there already is it."""
    place = open_location(state)
    parts = [rows.schema.serialize(), rows.serialize()]
    name = hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()
    path = place.path(FOLDER, f"{name}.arrow")
    if place.size(path) is None:
        place.write(path, parts)
    return Table(name, rows.num_rows, sums(rows, used))


def sums(rows: pa.RecordBatch, used: Sequence[str]) -> Mapping[str, str]:
    """By column, a sum over the rows that no order of them changes: over the column beside those that the condition uses."""
    base = contents(rows.select(list(used))).view(np.int64) if used else np.zeros(rows.num_rows, np.int64)
    found = {}
    for name in rows.schema.names:
        column = contents(_plain(rows.select([name]))).view(np.int64)
        total = int(mix([base, column]).view(np.uint64).sum(dtype=np.uint64))
        found[name] = f"{total:016x}"
    return found


def _plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    """A column of lists, maps or structs as texts."""
    (kind,), (name,) = rows.schema.types, rows.schema.names
    if not pa.types.is_nested(kind):
        return rows
    return pa.RecordBatch.from_pydict({name: [repr(value) for value in rows.column(0).to_pylist()]})


def read(spec: JoinSpec, k: int) -> pa.RecordBatch:
    """The rows of stream k, which is a table."""
    table = spec.tables[k]
    assert table is not None
    place = open_location(spec.state)
    path = place.path(FOLDER, f"{table.file}.arrow")
    data = place.read(path)
    if data is None or hashlib.blake2b(data, digest_size=16).hexdigest() != table.file:
        what = "no such file" if data is None else "other bytes than its name says"
        raise StateError(
            f"the table {spec.streams[k]!r} must be in {path}, where stream_join has written it; got {what}; do: start the query again"
        )
    schema = pa.ipc.read_schema(source := pa.BufferReader(data))
    return one_batch(pa.Table.from_batches([pa.ipc.read_record_batch(pa.ipc.read_message(source), schema)]))
