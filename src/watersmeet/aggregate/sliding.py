"""Sliding windows: rows are added as they come and retracted as they go.

A row has an *expiry key*, and is in the window as long as the key is not below the window's *bound*: for the last n rows the key is the
arrival number, for the last T of time the time's code; the bound never falls. So what the window holds depends on the rows that have
come and not on how they were pushed, whatever the order of their times.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.aggregation import Mark as AggregationMark
from watersmeet.aggregate.numbering import numbered
from watersmeet.errors import OptionError, StateError
from watersmeet.kernels.sort import is_sorted
from watersmeet.streams.clock import BOTTOM, TimeAxis
from watersmeet.streams.window import Window

LONG = 1 << 15  # rows of a chunk that need not be joined with others
HELD, KEY, NUMBER = "held", "__key", "__number"


class Expiry:
    """Keys and bound of one stream's window. Filters come after: the rows that they leave out count, and move the clock."""

    def __init__(self, window: Window, schema: pa.Schema) -> None:
        self._window = window
        self._axis = TimeAxis(["rows"], [window], [schema]) if window.timed else None
        self.seen, self.clock = 0, BOTTOM

    def keys(self, batch: pa.RecordBatch) -> np.ndarray:
        """The expiry keys of rows that come next. Nothing is changed."""
        if self._axis is not None:
            return self._axis.codes(0, batch)
        return np.arange(self.seen, self.seen + batch.num_rows)

    def come(self, keys: np.ndarray) -> int:
        """Rows with these keys have come. Returns the bound."""
        seen, clock = self.seen + keys.size, max(self.clock, int(keys.max()) if keys.size else BOTTOM)
        bound = self._bound(seen, clock)
        self.seen, self.clock = seen, clock
        return bound

    def advance(self, times: pa.Array) -> int:
        """The clock has come to some times without a row. Returns the bound."""
        if self._axis is not None:
            self.clock = max(self.clock, int(self._axis.column_codes(0, times).max()))
        return self._bound(self.seen, self.clock)

    def _bound(self, seen: int, clock: int) -> int:
        if self._axis is None:
            return int(self._window.lowest(seen))
        return self._axis.earliest(0, clock) if clock > BOTTOM else BOTTOM

    def mark(self) -> tuple[int, int]:
        return self.seen, self.clock

    def back_to(self, mark: tuple[int, int]) -> None:
        self.seen, self.clock = mark


@dataclass(frozen=True)
class Chunk:
    """Rows in the order of their expiry keys, with the arrival numbers that the aggregation gave them."""

    rows: pa.RecordBatch
    keys: np.ndarray
    numbers: np.ndarray

    def part(self, start: int, stop: int) -> "Chunk":
        return Chunk(self.rows.slice(start, stop - start), self.keys[start:stop], self.numbers[start:stop])

    def in_order(self) -> "Chunk":
        if is_sorted(self.keys):
            return self
        order = np.argsort(self.keys, kind="stable")
        return Chunk(self.rows.take(pa.array(order)), self.keys[order], self.numbers[order])


Mark = tuple[AggregationMark, tuple[Chunk, ...]]


class Sliding:
    """The rows of a sliding window, and their aggregates."""

    def __init__(self, aggregation: Aggregation) -> None:
        if not aggregation.retracts:
            raise OptionError("a sliding window must have an aggregation with retracts=True; got one without")
        self.aggregation = aggregation
        self._chunks: tuple[Chunk, ...] = ()

    def __len__(self) -> int:
        return sum(chunk.keys.size for chunk in self._chunks)

    def push(self, batch: pa.RecordBatch, keys: np.ndarray, bound: int) -> None:
        """Rows come with their keys; then all whose key is below the bound go."""
        batch = batch.select(self.aggregation.grouping.columns)
        if (keys < bound).any():  # over as they come
            stay = keys >= bound
            batch, keys = batch.filter(pa.array(stay)), keys[stay]
        first = self.aggregation.arrived
        come = Chunk(batch, keys, np.arange(first, first + keys.size)).in_order()
        gone, left = _split(self._chunks, bound)
        chunks = _with(left, come)

        def slide() -> None:
            if keys.size:
                self.aggregation.add(batch)
            if gone is not None:
                self.aggregation.retract(gone.rows, gone.numbers)
            self._chunks = chunks

        self.aggregation.atomically(slide)

    def first_rows(self, answer: pa.RecordBatch) -> np.ndarray:
        """Of each group of an answer, the arrival number of the first of its rows that are held. All rows are looked at."""
        keys = list(self.aggregation.grouping.keys)
        rows = [answer.select(keys), *(chunk.rows.select(keys) for chunk in self._chunks)]
        groups = numbered(pa.concat_batches(rows), keys)[answer.num_rows :]
        numbers = np.concatenate([np.empty(0, np.int64), *(chunk.numbers for chunk in self._chunks)])
        last_first = np.argsort(-numbers)
        found = np.empty(answer.num_rows, np.int64)
        found[groups[last_first]] = numbers[last_first]
        return found

    def mark(self) -> Mark:
        return self.aggregation.mark(), self._chunks

    def back_to(self, mark: Mark) -> None:
        """As it was at the mark. May be repeated."""
        self.aggregation.back_to(mark[0])
        self._chunks = mark[1]

    def commit(self) -> None:
        self.aggregation.commit()

    def snapshot(self) -> dict[str, pa.Table]:
        """The whole state as Arrow tables by name."""
        tables = [
            pa.Table.from_batches([chunk.rows])
            .append_column(KEY, pa.array(chunk.keys))
            .append_column(NUMBER, pa.array(chunk.numbers))
            for chunk in self._chunks
        ]
        held = {HELD: pa.concat_tables(tables)} if tables else {}
        return {**self.aggregation.snapshot(), **held}

    def restored(self, tables: Mapping[str, pa.Table]) -> "Sliding":
        """A window like this one, with the state of a snapshot."""
        fresh = Sliding(self.aggregation.restored(tables))
        if HELD in tables:
            held = tables[HELD].combine_chunks().to_batches()[0]
            names, wanted = held.schema.names[:-2], self.aggregation.grouping.columns
            if names != wanted:
                raise StateError(
                    f"a snapshot's rows must have the columns {', '.join(wanted)}; got {', '.join(names)}"
                )
            keys, numbers = (held.column(name).to_numpy() for name in (KEY, NUMBER))
            fresh._chunks = (Chunk(held.select(names), keys, numbers).in_order(),)
        return fresh


def _split(chunks: tuple[Chunk, ...], bound: int) -> tuple[Chunk | None, tuple[Chunk, ...]]:
    """The rows whose key is below the bound, and the chunks without them."""
    gone, left = [], []
    for chunk in chunks:
        count = int(np.searchsorted(chunk.keys, bound)) if chunk.keys[0] < bound else 0
        if count:
            gone.append(chunk.part(0, count))
        if count < chunk.keys.size:
            left.append(chunk.part(count, chunk.keys.size) if count else chunk)
    return _joined(gone) if gone else None, tuple(left)


def _with(chunks: tuple[Chunk, ...], come: Chunk) -> tuple[Chunk, ...]:
    """One chunk more. Short ones are joined, unless they are more than twice as long as what follows: a row is copied O(log LONG) times."""
    if not come.keys.size:
        return chunks
    start, size = len(chunks), come.keys.size
    while start and size < LONG and chunks[start - 1].keys.size <= 2 * size:
        start -= 1
        size += chunks[start].keys.size
    return (*chunks[:start], _joined([*chunks[start:], come]).in_order())


def _joined(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    rows = pa.concat_batches([chunk.rows for chunk in chunks])
    keys, numbers = ([getattr(chunk, name) for chunk in chunks] for name in ("keys", "numbers"))
    return Chunk(rows, np.concatenate(keys), np.concatenate(numbers))
