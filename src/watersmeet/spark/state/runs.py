"""Run files: rows of a core, written once. One file a batch and core; an extent a stream, with a checksum each.

The file's name starts with the batch that wrote it and ends in a fresh id: a task that is tried again writes another file, and whichever
manifest names it decides. An extent that is missing or damaged is refused by name.
"""

import uuid
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.spark.state.location import StateLocation

ALIGNED = 64  # bytes


@dataclass(frozen=True)
class Run:
    """Rows of one stream with consecutive arrival numbers (of this core), in an extent of a file."""

    file: str
    offset: int
    bytes: int
    checksum: int
    first: int  # arrival number of the first row
    rows: int

    def to_json(self) -> list[Any]:
        return [self.file, self.offset, self.bytes, self.checksum, self.first, self.rows]

    @property
    def end(self) -> int:
        return self.first + self.rows


class RunWriter:
    """Gathers the extents of a file, and writes them together."""

    def __init__(self, batch: int) -> None:
        self.file = f"{batch:012d}-{uuid.uuid4().hex}.run"
        self._parts: list[Any] = []
        self._size = 0

    def add_rows(self, batch: pa.RecordBatch, first: int) -> Run:
        return self._add([batch.schema.serialize(), batch.serialize()], first, batch.num_rows)

    def add_flags(self, flags: np.ndarray, first: int) -> Run:
        return self._add([pa.py_buffer(np.packbits(flags))], first, flags.size)

    def _add(self, parts: list[pa.Buffer], first: int, rows: int) -> Run:
        size, checksum = 0, 0
        for part in parts:
            size, checksum = size + part.size, zlib.crc32(part, checksum)
        run = Run(self.file, self._size, size, checksum, first, rows)
        gap = -size % ALIGNED  # a file is mapped as it is: columns must begin where kernels can read them
        self._parts += [*parts, bytes(gap)]
        self._size += size + gap
        return run

    def write(self, place: StateLocation, folder: str) -> None:
        if self._parts:
            place.write(f"{folder}/{self.file}", self._parts)


class RunReader:
    """Reads extents; each file is opened once."""

    def __init__(self, place: StateLocation, folder: str) -> None:
        self.place, self.folder = place, folder
        self._files: dict[str, pa.Buffer] = {}

    def rows(self, run: Run) -> pa.Table:
        source = pa.BufferReader(self._extent(run))
        schema = pa.ipc.read_schema(source)
        return pa.Table.from_batches([pa.ipc.read_record_batch(pa.ipc.read_message(source), schema)])

    def flags(self, run: Run) -> np.ndarray:
        packed = np.frombuffer(self._extent(run), np.uint8)
        return np.unpackbits(packed, count=run.rows).astype(np.bool_)

    def check(self, run: Run) -> str | None:
        """What is wrong with an extent; None: nothing."""
        try:
            self._extent(run)
        except StateError as error:
            return str(error)
        return None

    def _extent(self, run: Run) -> pa.Buffer:
        path = f"{self.folder}/{run.file}"
        data = self._files.get(run.file)
        if data is None:
            data = self.place.read(path)
            if data is None:
                raise StateError(f"{path} is missing, and a manifest needs its {run.rows} rows; {_REMEDY}")
            self._files[run.file] = data
        if data.size < run.offset + run.bytes:
            raise StateError(
                f"{path} is damaged: it must have at least {run.offset + run.bytes} bytes; got {data.size}; {_REMEDY}"
            )
        extent = data.slice(run.offset, run.bytes)
        found = zlib.crc32(extent)
        if found != run.checksum:
            raise StateError(
                f"{path} is damaged: bytes {run.offset} to {run.offset + run.bytes} must have checksum {run.checksum:08x}; got "
                f"{found:08x}; {_REMEDY}"
            )
        return extent


_REMEDY = "do: restore it from a copy, or start with a new checkpoint, from which the join begins anew"
