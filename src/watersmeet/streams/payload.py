"""The rows of one stream by arrival number, for as long as they may be needed: for output, for residual conditions, for rebuilding.

Chunks are immutable. The list of chunks only grows; dropping or compacting makes a new list, so that a lazy result keeps the list that it
was born with and can still gather its rows after they have left the window.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from watersmeet.streams.gathering import Gathering, Layout, places

# So many chunks of at least so many rows, and fewer than that, become one. Larger ones stay as they are: merging them would hold up
# a push for too long, and kernels read many chunks as fast as few (10,000 rows a push of four columns: merging took 6% of the push).
# Only columns that Arrow has to gather are the faster for it.
_MERGED = ((64, 0, 64), (64, 0, 4096))
_FOR_ARROW = (8, 4096, 16_384)
FANOUT, _, _FEW = _MERGED[0]
# So few rows are cut out one by one: 2 rows of 64 chunks take 9 µs in place of 290, 32 rows 70 in place of 330; of a single chunk 8 rows
# take as long either way. Of a single chunk so many are taken by Arrow (four columns, CPU time: 64 rows 37 µs in place of 58, 1,000 rows
# 62 in place of 85; of 4,000 it is no faster).
_SINGLE, _FROM_MANY, _FROM_ONE = 8, 32, 1024


Maker = Callable[[], pa.Array]  # of a column


class Chunks:
    """An append-only list of record batches with the arrival number of each one's first row."""

    __slots__ = ("_places", "batches", "firsts")

    def __init__(
        self, batches: list[pa.RecordBatch], firsts: list[int], places: dict[str, np.ndarray] | None = None
    ) -> None:
        self.batches, self.firsts = batches, firsts
        # By column: where it lies in the oldest chunks, as far as somebody has asked. Replaced, never changed: several threads may ask.
        self._places = {} if places is None else places

    def without(self, gone: int) -> "Chunks":
        """All but the oldest ``gone`` chunks."""
        known = {name: table[:, gone:] for name, table in list(self._places.items())}
        return Chunks(self.batches[gone:], self.firsts[gone:], known)

    def with_merged(self, newest: int, merged: pa.RecordBatch) -> "Chunks":
        """The same with so many of the newest chunks as one."""
        kept = len(self.batches) - newest
        known = {name: table[:, :kept] for name, table in list(self._places.items())}
        return Chunks([*self.batches[:kept], merged], self.firsts[: kept + 1], known)

    def take(self, arrivals: np.ndarray, columns: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
        """The rows with these arrival numbers, in this order; -1 gives a row of nulls."""
        found = self._gathered(arrivals, columns, schema)
        if isinstance(found, pa.RecordBatch):
            return found
        fields, makers = found
        return pa.RecordBatch.from_arrays([make() for make in makers], schema=pa.schema(fields))

    def columns(self, arrivals: np.ndarray, columns: Sequence[str], schema: pa.Schema) -> list[Maker]:
        """The same, a column at a time: each is made when it is called for, and by any thread."""
        found = self._gathered(arrivals, columns, schema)
        if isinstance(found, pa.RecordBatch):
            return [partial(found.column, i) for i in range(len(columns))]
        return found[1]

    def _gathered(
        self, arrivals: np.ndarray, columns: Sequence[str], schema: pa.Schema
    ) -> pa.RecordBatch | tuple[list[pa.Field], list[Maker]]:
        """The rows, where there are few or none; else which fields the columns are of, and who makes them."""
        if arrivals.size == 0 or not columns:
            return _blank(arrivals.size, columns, schema)
        low, high = int(arrivals.min()), int(arrivals.max())
        if high < 0:
            return _blank(arrivals.size, columns, schema)
        absent = low < 0
        if absent:
            low = int(arrivals[arrivals >= 0].min())
        start = bisect_right(self.firsts, low) - 1
        stop = bisect_right(self.firsts, high)
        if not absent and arrivals.size <= (_FROM_ONE if stop - start == 1 else _FROM_MANY):
            return self._few(arrivals, columns, start, stop)
        fields = [self.batches[start].schema.field(name) for name in columns]
        if absent:
            fields = [field.with_nullable(True) for field in fields]
        found = Gathering(arrivals, self.firsts[start:stop], high + 1, absent)
        return fields, [partial(self._column, found, field, start, stop) for field in fields]

    def _column(self, found: Gathering, field: pa.Field, start: int, stop: int) -> pa.Array:
        layout = Layout.of(field.type)
        if layout is not None:
            column = found.column(field.type, layout, self._lies(field.name, stop)[:, start:stop])
            if column is not None:
                return column
        chunks = pa.chunked_array([batch.column(field.name) for batch in self.batches[start:stop]])
        return chunks.take(found.offsets()).combine_chunks()

    def _lies(self, name: str, stop: int) -> np.ndarray:
        """Where a column lies in at least the first ``stop`` chunks."""
        table = self._places.get(name)
        known = 0 if table is None else table.shape[1]
        if table is None or known < stop:
            more = places([batch.column(name) for batch in self.batches[known:stop]])
            self._places[name] = table = more if table is None else np.hstack((table, more))
        return table

    def _few(self, arrivals: np.ndarray, columns: Sequence[str], start: int, stop: int) -> pa.RecordBatch:
        """A few rows of the chunks [start, stop), each cut out of its chunk; or more of a single one."""
        if stop - start == 1 and arrivals.size > _SINGLE:
            return self.batches[start].select(columns).take(pa.array(arrivals - self.firsts[start]))
        rows = []
        for arrival in arrivals.tolist():
            chunk = bisect_right(self.firsts, arrival) - 1
            rows.append(self.batches[chunk].slice(arrival - self.firsts[chunk], 1))
        return pa.concat_batches(rows).select(columns)


def _blank(rows: int, columns: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    if not columns:  # a batch without columns still knows how many rows it has
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    fields = [schema.field(name) for name in columns]
    fields = [field.with_nullable(True) for field in fields]
    return pa.RecordBatch.from_arrays(
        [pa.nulls(rows, field.type) for field in fields], schema=pa.schema(fields)
    )


class Payload:
    """The stored rows of one stream."""

    def __init__(self, schema: pa.Schema, columns: Sequence[str]) -> None:
        self.schema = schema
        self._have(columns)
        self.chunks = Chunks([], [])
        self.end = 0  # arrival number of the next row
        self._small = 0  # small chunks since the last time that was looked after

    def _have(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)
        kinds = [self.schema.field(name).type for name in columns]
        by_arrow = any(Layout.of(kind) is None for kind in kinds)
        self._merged = (*_MERGED, _FOR_ARROW) if by_arrow else _MERGED  # which chunks become one

    def append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        chunks = self.chunks
        chunks.batches.append(batch)
        chunks.firsts.append(self.end)
        self.end += batch.num_rows
        self._small = self._small + 1 if batch.num_rows < _FEW else FANOUT
        if self._small >= FANOUT and len(chunks.batches) >= _FOR_ARROW[0]:
            self._small = 0
            self._compact()

    def _compact(self) -> None:
        """Merge the newest chunks when enough of one size class or below have gathered: each row is copied a few times at most."""
        for fanout, least, limit in self._merged:
            batches = self.chunks.batches
            newest = batches[-fanout:]
            if len(newest) == fanout and all(least <= batch.num_rows < limit for batch in newest):
                try:
                    merged = pa.concat_batches(newest)
                except pa.ArrowInvalid:  # more text than one array has room for: chunks may stay as they are
                    return
                self.chunks = self.chunks.with_merged(fanout, merged)

    def drop_before(self, arrival: int) -> None:
        """Forget the chunks whose rows all came before ``arrival``."""
        chunks = self.chunks
        gone = 0
        while gone < len(chunks.firsts) and chunks.firsts[gone] + chunks.batches[gone].num_rows <= arrival:
            gone += 1
        if gone:
            self.chunks = chunks.without(gone)

    def mark(self) -> tuple[Chunks, int, int]:
        """Where the rows stand: what ``back_to`` goes back to."""
        return self.chunks, len(self.chunks.firsts), self.end

    def back_to(self, mark: tuple[Chunks, int, int]) -> None:
        """As it was at the mark, also if chunks have been dropped or merged since: those lists were left as they were."""
        chunks, length, end = mark
        self.chunks, self.end = Chunks(chunks.batches[:length], chunks.firsts[:length]), end
        self._small = FANOUT

    def drop_from(self, arrival: int) -> None:
        """Forget the rows from ``arrival`` on: a push that failed is undone."""
        batches, firsts = [], []
        for batch, first in zip(self.chunks.batches, self.chunks.firsts, strict=True):
            if first < arrival:
                batches.append(batch.slice(0, arrival - first))
                firsts.append(first)
        self.chunks, self.end = Chunks(batches, firsts), arrival

    def keep_columns(self, columns: Sequence[str]) -> None:
        """Narrow the rows to what is needed, once that is known."""
        self._have(columns)
        self.chunks = Chunks(
            [batch.select(self.columns) for batch in self.chunks.batches], list(self.chunks.firsts)
        )

    def take(self, arrivals: np.ndarray, columns: Sequence[str]) -> pa.RecordBatch:
        return self.chunks.take(arrivals, columns, self.schema)

    def rows_between(self, start: int, stop: int) -> pa.RecordBatch:
        """The stored rows [start, stop), in arrival order, without copying where one chunk has them."""
        parts = []
        for batch, first in zip(self.chunks.batches, self.chunks.firsts, strict=True):
            low, high = max(start, first), min(stop, first + batch.num_rows)
            if low < high:
                parts.append(batch.slice(low - first, high - low))
        if not parts:
            return _blank(0, self.columns, self.schema)
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    @property
    def first(self) -> int:
        return self.chunks.firsts[0] if self.chunks.firsts else self.end

    @property
    def nbytes(self) -> int:
        return sum(batch.nbytes for batch in self.chunks.batches)
