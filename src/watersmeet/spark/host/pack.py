"""Before the shuffle: the rows of a map partition as blobs for the cores that need them, and headers for all; and the statements of a
batch, as headers."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import StateError
from watersmeet.spark.host.manifests import stand_of
from watersmeet.spark.host.spec import HostSpec, programs_of
from watersmeet.spark.host.spread import Spread, shares
from watersmeet.spark.host.wire import CONTROL, Header, told_time
from watersmeet.spark.shuffle.layout import contents
from watersmeet.spark.shuffle.wire import HEADER, Record, records
from watersmeet.spark.task import Task, current_task
from watersmeet.streams.batch import one_batch

ROWS, BYTES = 1 << 18, 1 << 25  # gathered before they are split: small blobs cost as much as large ones


class _Packer:
    """Splits batches, and keeps count of what went where."""

    def __init__(self, spec: HostSpec, k: int, partition: int, spreads: list[Spread]) -> None:
        self.k, self.partition, self.spreads = k, partition, spreads
        self.stream, self.cores = spec.setting.streams[k], spec.setting.cores
        self.schema, self.axis = spec.setting.schemas[self.stream], spec.setting.axis(self.stream)
        self.sent: list[list[tuple[str, ...]]] = [[] for _ in range(self.cores)]
        self.rows = self.content = self.timeless = self._lots = 0
        self.latest: pa.Array | None = None

    def blobs(self, gathered: list[pa.RecordBatch]) -> list[Record]:
        batch = self._timed(
            one_batch(pa.Table.from_batches(gathered).select(self.schema.names).cast(self.schema))
        )
        if batch.num_rows == 0:
            return []
        self._note(batch)
        whole: dict[int, list[str]] = {}  # spreadings by which a core gets all of it: one blob for them
        found: list[Record] = []
        for spread in self.spreads:
            for core, rows in shares(spread, self.stream, batch, self.cores, self.partition + self._lots):
                if rows is None or rows.size == batch.num_rows:
                    whole.setdefault(core, []).append(spread.id)
                else:
                    found.append(self._record(core, (spread.id,), batch.take(pa.array(rows)).serialize()))
        blob = batch.serialize() if whole else None
        found += [self._record(core, tuple(names), blob) for core, names in whole.items()]
        self._lots += 1
        return found

    def _record(self, core: int, names: tuple[str, ...], blob: pa.Buffer) -> Record:
        self.sent[core].append(names)
        return core, self.k, self.partition, len(self.sent[core]) - 1, blob

    def _timed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that have a time, if their stream has one: others are late, whenever they come."""
        without = None if self.axis is None else self.axis.timeless(0, batch)
        if without is None:
            return batch
        self.timeless += int(without.sum())
        return batch.filter(pa.array(~without))

    def _note(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.content += int(contents(batch).sum(dtype=np.uint64))
        if self.axis is not None:
            times = batch.column(str(self.axis.columns[0]))
            known = times if self.latest is None else pa.concat_arrays([times, self.latest])
            self.latest = pa.array([pc.max(known)], times.type)


def pack(
    spec: HostSpec, k: int, batches: Iterable[pa.RecordBatch], task: Callable[[], Task] = current_task
) -> Iterator[pa.RecordBatch]:
    """Stream k's rows of one map partition -> records for the shuffle."""
    now = task()
    stand = stand_of(spec, now)
    program = programs_of(spec).of(stand.version)
    packer = _Packer(spec, k, now.partition, program.spreads(spec.setting.streams[k], dict(stand.stopped)))
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        if sum(b.num_rows for b in gathered) >= ROWS or sum(b.nbytes for b in gathered) >= BYTES:
            yield from records(packer.blobs(gathered))
            gathered = []
    if any(batch.num_rows for batch in gathered):
        yield from records(packer.blobs(gathered))
    latest = None if packer.latest is None else told_time(packer.latest)
    said = (stand, packer.rows, latest, packer.content % 2**64, packer.timeless)
    headers = [Header(k, now.partition, tuple(sent), *said) for sent in packer.sent]
    yield from records([(core, k, now.partition, HEADER, one.blob()) for core, one in enumerate(headers)])


def pack_statements(
    spec: HostSpec, batches: Iterable[pa.RecordBatch], task: Callable[[], Task] = current_task
) -> Iterator[pa.RecordBatch]:
    """What the source says of the log -> a header for every core. Rows: from which statement to which."""
    now = task()
    stand = stand_of(spec, now)
    for first, last in [
        pair
        for batch in batches
        for pair in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]:
        if first != stand.version:
            raise StateError(
                f"statements must come without a gap; got those after {first} where the state has followed the log up to "
                f"{stand.version}; do: give the "
                "state= and control= that the host has had so far, or start with a new checkpoint, control folder and output"
            )
        digest = programs_of(spec).of(last).digest
        header = Header(CONTROL, now.partition, (), stand, statements=(first, last, digest))
        yield from records(
            [(core, CONTROL, now.partition, HEADER, header.blob()) for core in range(spec.setting.cores)]
        )
