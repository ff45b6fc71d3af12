"""What travels through the shuffle: blobs of rows, each for one or more spreadings, and one header from each map partition to each core.

A header says which blobs its map partition has sent to the core, what all its rows amount to, and what it saw in the manifests. Blobs are
read in the order of (map partition, number), whichever shuffle block came first.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import StateError, listed
from watersmeet.spark.host.manifests import Stand
from watersmeet.spark.shuffle.wire import HEADER

CONTROL = -1  # in the place of a stream's number


@dataclass(frozen=True)
class Header:
    """What one map partition tells a core."""

    stream: int
    part: int
    blobs: tuple[tuple[str, ...], ...]  # of each that was sent to this core, the spreadings that it is for
    stand: Stand
    rows: int = 0  # of the partition, wherever they went
    latest: str | None = None  # its largest time, as ``told_time`` writes it
    content: int = 0  # a sum over its rows
    timeless: int = 0  # rows that had no time, and are left out
    statements: tuple[int, int, str] | None = None  # from which statement to which, and the digest of that

    def blob(self) -> bytes:
        return json.dumps([self.stream, self.part, self.blobs, self.stand.to_json(), *self._rest()]).encode()

    def _rest(self) -> list[Any]:
        return [self.rows, self.latest, self.content, self.timeless, self.statements]

    @classmethod
    def read(cls, data: bytes) -> "Header":
        stream, part, blobs, stand, rows, latest, content, timeless, statements = json.loads(data)
        spreads = tuple(tuple(one) for one in blobs)
        said = None if statements is None else (statements[0], statements[1], statements[2])
        return cls(stream, part, spreads, Stand.from_json(stand), rows, latest, content, timeless, said)


def told_time(time: pa.Array) -> str:
    """A time, alone in an array, as text."""
    return base64.b64encode(pa.record_batch([time], ["t"]).serialize().to_pybytes()).decode()


def read_time(text: str, kind: pa.DataType) -> pa.Array:
    return pa.ipc.read_record_batch(pa.py_buffer(base64.b64decode(text)), pa.schema([("t", kind)])).column(0)


@dataclass
class Received:
    """What one core got of one batch."""

    core: int
    headers: list[Header] = field(default_factory=list)
    blobs: dict[tuple[int, int, int], Any] = field(default_factory=dict)  # by stream, part and number

    def rows(self, spread: str, k: int, schema: pa.Schema) -> pa.RecordBatch | None:
        """The rows of a stream in a spreading, in arrival order; None if there are none."""
        found = []
        for header in self.headers:
            for number, spreads in enumerate(header.blobs):
                if header.stream == k and spread in spreads:
                    found.append(pa.ipc.read_record_batch(self.blobs[k, header.part, number], schema))
        # Also one blob is copied: its place in Spark's memory need not be aligned for kernels.
        return pa.concat_batches([*found, found[0].slice(0, 0)]) if found else None

    def arrived(self, k: int) -> int:
        """Rows of a stream on all cores."""
        return sum(header.rows for header in self.headers if header.stream == k)

    def latest(self, k: int, kind: pa.DataType) -> pa.Array | None:
        """The largest time of a stream on all cores."""
        times = [
            read_time(header.latest, kind) for header in self.headers if header.stream == k and header.latest
        ]
        return pa.array([pc.max(pa.concat_arrays(times))], kind) if times else None

    @property
    def stand(self) -> Stand:
        """What all map partitions saw."""
        first = self.headers[0].stand
        for header in self.headers:
            if header.stand != first:
                raise StateError(
                    f"all tasks of a batch must see the same program; got statement {header.stand.version} "
                    f"({header.stand.digest}) from map partition "
                    f"{header.part} and {first.version} ({first.digest}) from another; do: let Spark try the batch again"
                )
        return first

    @property
    def next_program(self) -> tuple[int, str]:
        """Version and digest of the program after this batch."""
        said = [header.statements for header in self.headers if header.statements is not None]
        if not said:
            return self.stand.version, self.stand.digest
        return max(last for _, last, _ in said), max(said, key=lambda one: one[1])[2]

    def course(self) -> str:
        """A short name for all rows and statements that the query has taken in, this batch too."""
        taken = []
        for k in sorted({header.stream for header in self.headers}):
            mine = [header for header in self.headers if header.stream == k]
            total = sum(header.content for header in mine) % 2**64
            taken.append([k, sum(header.rows for header in mine), total])
        text = json.dumps([self.stand.course, taken, self.next_program])
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def receive(batches: Iterable[pa.RecordBatch], cores: Sequence[int]) -> list[Received]:
    """Read everything that was sent to the cores of a task, and check that it is all there, once each. Nothing: a batch without any map
    partition."""
    found = {core: Received(core) for core in cores}
    headers: dict[tuple[int, int, int], Header] = {}
    for batch in batches:
        to, streams, parts, numbers = (column.to_pylist() for column in batch.columns[:4])
        blobs: Sequence[Any] = batch.column(4)
        for i, core in enumerate(to):
            if core not in found:
                raise StateError(
                    f"a task must get what was sent to its cores, {listed([*map(str, cores)])}; got a record for core {core}; do: let "
                    "Spark try the batch again"
                )
            if numbers[i] == HEADER:
                headers[core, streams[i], parts[i]] = Header.read(blobs[i].as_buffer().to_pybytes())
            else:
                found[core].blobs[streams[i], parts[i], numbers[i]] = blobs[i].as_buffer()
    for place in sorted(headers):
        found[place[0]].headers.append(headers[place])
    for received in found.values():
        _check_whole(received)
    return list(found.values()) if headers else []


def _check_whole(found: Received) -> None:
    sent = {(header.stream, header.part, i) for header in found.headers for i in range(len(header.blobs))}
    if sent != found.blobs.keys():
        raise StateError(
            f"core {found.core} must receive every blob that was sent to it; got {len(found.blobs)} where {len(sent)} were "
            "announced; the batch is "
            "refused: let Spark try it again"
        )
