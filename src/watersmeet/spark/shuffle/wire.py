"""What travels through the shuffle: blobs of rows, and one header from each map partition to each core.

A blob is one Arrow record batch of one stream's rows, as an IPC message, so that Spark's cost a row is paid a blob. A header says how
many blobs its map partition has sent to the core: a core that has not received them all refuses to join. Blobs are
read in the order of (stream, map partition, number), whichever shuffle block came first.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.streams.batch import one_batch

SCHEMA = pa.schema(
    [
        ("core", pa.int32()),
        ("stream", pa.int32()),
        ("part", pa.int32()),
        ("number", pa.int32()),
        ("blob", pa.binary()),
    ]
)
SPARK_SCHEMA = "core int, stream int, part int, number int, blob binary"
MOST = 1 << 26  # bytes of blobs a batch
HEADER = -1  # in the place of a blob's number
BEGIN = ""  # the course of a query that has taken in nothing

Record = tuple[int, int, int, int, Any]  # core, stream, part, number, blob


@dataclass(frozen=True)
class Header:
    """What one map partition tells every core."""

    stream: int
    part: int
    blobs: int  # sent to this core
    rows: int  # of the partition, wherever they went
    latest: int | None  # code of its largest event time
    keys: tuple[
        Any, ...
    ] = ()  # a few keys of its rows, evenly spaced in their order; of a grid, each after its dimension
    layout: str = ""  # by which rows were spread
    content: int = 0  # a sum over its rows
    course: str = BEGIN  # of the query before this batch, as core 0 has it

    def blob(self) -> bytes:
        said = [self.blobs, self.rows, self.latest, self.keys, self.layout, self.content, self.course]
        return json.dumps(said).encode()


def records(rows: Sequence[Record]) -> Iterator[pa.RecordBatch]:
    """Records as what Spark takes, in batches of bounded size: an Arrow column of blobs holds at most 2 GB."""
    start = size = 0
    for stop, row in enumerate(rows, 1):
        size += len(row[-1])
        if size >= MOST or stop == len(rows):
            yield _record_batch(rows[start:stop])
            start, size = stop, 0


def _record_batch(rows: Sequence[Record]) -> pa.RecordBatch:
    *numbers, blobs = zip(*rows, strict=True)
    columns = [pa.array(column, pa.int32()) for column in numbers]
    ends = np.cumsum([0, *(len(blob) for blob in blobs)], dtype=np.int32)
    data = np.concatenate([np.frombuffer(blob, np.uint8) for blob in blobs])
    packed = pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(data)])
    return pa.RecordBatch.from_arrays([*columns, packed], schema=SCHEMA)


@dataclass
class Received:
    """What one core got of one batch."""

    core: int
    headers: list[Header] = field(default_factory=list)
    blobs: dict[int, dict[tuple[int, int], pa.Buffer]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # by stream

    def stream(self, k: int, schema: pa.Schema) -> pa.RecordBatch:
        """All rows of a stream, in arrival order."""
        batches = [pa.ipc.read_record_batch(self.blobs[k][place], schema) for place in sorted(self.blobs[k])]
        empty = schema.empty_table()
        if (
            len(batches) < 2
        ):  # also one blob is copied: its place in Spark's memory need not be aligned for kernels
            batches += empty.to_batches() or [one_batch(empty)]
        return pa.concat_batches(batches) if batches else one_batch(empty)

    def latest(self, k: int) -> int | None:
        """Code of the largest event time of a stream, over all cores."""
        found = [header.latest for header in self.headers if header.stream == k and header.latest is not None]
        return max(found, default=None)

    def bytes(self) -> int:
        return sum(blob.size for blobs in self.blobs.values() for blob in blobs.values())


def receive(batches: Iterable[pa.RecordBatch], partition: int) -> Received:
    """Read everything that was sent to a core, and check that it is all there, once each.

    Which core it is, the records say: Spark may number its partitions otherwise, after ``coalesce`` or in a union. Only where no map
    partition has sent anything is the task's own number all there is.
    """
    found = Received(-1)
    headers: dict[tuple[int, int], Header] = {}
    for to, stream, part, number, blob in _records(batches):
        if found.core not in (-1, to):
            raise StateError(
                f"a join task must get what was sent to one core; got records for cores {found.core} and {to}; do: let Spark try the batch "
                "again"
            )
        found.core = to
        if number == HEADER:
            blobs, rows, latest, keys, *others = json.loads(blob.to_pybytes())
            headers[stream, part] = Header(stream, part, blobs, rows, latest, tuple(keys), *others)
        else:
            found.blobs[stream][part, number] = blob
    found.headers = [headers[place] for place in sorted(headers)]
    found.core = partition if found.core < 0 else found.core
    _check(found, found.core)
    return found


def _records(batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
    for batch in batches:
        *numbers, blobs = batch.columns
        plain = [column.to_pylist() for column in numbers]
        yield from ((*row, blobs[i].as_buffer()) for i, row in enumerate(zip(*plain, strict=True)))


def _check(found: Received, core: int) -> None:
    got: dict[tuple[int, int], int] = {}
    for stream, blobs in found.blobs.items():
        for part, _ in blobs:
            got[stream, part] = got.get((stream, part), 0) + 1
    sent = {(header.stream, header.part): header.blobs for header in found.headers}
    for place in sorted(got.keys() | sent.keys()):
        if got.get(place, 0) != sent.get(place):
            stream, part = place
            announced = "no header" if place not in sent else f"{sent[place]} blobs"
            raise StateError(
                f"core {core} must receive every blob that was sent to it; got {got.get(place, 0)} of map partition {part} of stream "
                f"{stream}, which announced {announced}; the batch is refused: let Spark try it again"
            )
