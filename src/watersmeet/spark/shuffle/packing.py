"""The rows of one stream's map partition, as blobs for the cores that need them.

Every core also gets a header, whether it gets rows or not: so it knows what was sent, and all cores move one watermark.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.spark.shuffle.layout import Layout, Router, contents, digest
from watersmeet.spark.shuffle.planning import key_points
from watersmeet.spark.shuffle.wire import HEADER, Header, Record, records
from watersmeet.spark.spec import GUEST, Binding
from watersmeet.streams.batch import one_batch
from watersmeet.streams.clock import BOTTOM

ROWS, BYTES = 1 << 18, 1 << 25  # gathered before they are split: small blobs cost as much as large ones


class Packer:
    """Splits batches, and keeps count of what went where."""

    def __init__(
        self, bound: Binding, k: int, partition: int, layouts: tuple[Layout, ...], course: str
    ) -> None:
        self.bound, self.k, self.partition = bound, k, partition
        self.layouts, self.course = layouts, course
        self.schema = bound.spec.schemas[k]
        self.router = Router(bound, layouts)
        self.sent = [0] * bound.tasks
        self.rows = 0
        self.latest: int | None = None
        self.keys: list[Any] = []
        self.content = 0

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Everything that the partition sends: the batches as blobs, then the headers."""
        gathered: list[pa.RecordBatch] = []
        for batch in batches:
            gathered.append(batch)
            if sum(b.num_rows for b in gathered) >= ROWS or sum(b.nbytes for b in gathered) >= BYTES:
                yield from records(self.blobs(gathered))
                gathered = []
        if any(batch.num_rows for batch in gathered):
            yield from records(self.blobs(gathered))
        yield from records(self.headers())

    def blobs(self, gathered: list[pa.RecordBatch]) -> list[Record]:
        batch = one_batch(pa.Table.from_batches(gathered).select(self.schema.names).cast(self.schema))
        self._note(batch)
        found: list[Record] = []
        if batch.num_rows == 0:
            return found
        whole: pa.Buffer | None = None
        blob: pa.Buffer | None = None
        written: tuple[Any, Any] = (None, None)  # of what the last blob is
        for core, rows, copies in self.router.shares(self.k, batch):
            if rows is None:  # all of it, perhaps to many cores: written once
                whole = self._blob(batch, None) if whole is None else whole
                blob = whole
            elif blob is None or written[0] is not rows or written[1] is not copies:
                blob, written = self._blob(batch.take(pa.array(rows)), copies), (rows, copies)
            found.append((core, self.k, self.partition, self.sent[core], blob))
            self.sent[core] += 1
        return found

    def _blob(self, batch: pa.RecordBatch, copies: np.ndarray | None) -> pa.Buffer:
        if self.bound.copies:
            guests = np.zeros(batch.num_rows, np.bool_) if copies is None else copies
            batch = batch.append_column(pa.field(GUEST, pa.bool_()), pa.array(guests))
        return batch.serialize()

    def _note(self, batch: pa.RecordBatch) -> None:
        """What the headers will say."""
        self.rows += batch.num_rows
        axis = self.bound.axis
        if axis is not None and axis.columns[self.k] is not None:
            codes = axis.codes(self.k, self._timed(batch))
            if codes.size:
                self.latest = max(int(codes.max()), BOTTOM if self.latest is None else self.latest)
        self.keys += key_points(self.bound, self.k, batch)
        if self.bound.spec.streaming:
            self.content += content_sum(self.bound, self.k, batch)

    def _timed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that have a time. A batch DataFrame has no metrics to count the others in: they are handed out, or refused."""
        spec, axis = self.bound.spec, self.bound.axis
        without = None if axis is None else axis.timeless(self.k, batch)
        if without is None:
            return batch
        if not spec.streaming and spec.late is None:
            assert self.bound.axis is not None
            stream, column = spec.streams[self.k], self.bound.axis.columns[self.k]
            raise DataError(
                f"the time column {column!r} of {stream!r} must hold a time in every row of a batch DataFrame; got NULL (or NaN) in "
                f"{int(without.sum())} of {batch.num_rows} rows; do: {stream}={stream}.where({f'{column} IS NOT NULL'!r}), or "
                "late='refused', which hands such rows out"
            )
        return batch.filter(pa.array(~without))

    def headers(self) -> list[Record]:
        keys, layout = tuple(self.keys), digest(self.layouts)
        said = (self.rows, self.latest, keys, layout, self.content % 2**64, self.course)
        headers = [Header(self.k, self.partition, sent, *said) for sent in self.sent]
        return [(core, self.k, self.partition, HEADER, header.blob()) for core, header in enumerate(headers)]


def content_sum(bound: Binding, k: int, batch: pa.RecordBatch) -> int:
    """A sum over the rows of stream k that no order changes: over all that condition and window look at."""
    used = list(bound.fingerprint["types"][bound.spec.streams[k]])
    return int(contents(batch.select(used)).sum(dtype=np.uint64)) if used else 0
