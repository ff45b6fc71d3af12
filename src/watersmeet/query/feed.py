"""The streams of a processor: their schemas, and their rows, stored once for all joins.

A schema is known by ``schemas=`` or by the stream's first batch. What a push has made known is forgotten again, should the push be refused.

A join that reads a stream twice has each row arrive under its first name, then under its second, before the next row. So the second name is
a stream of its own here, a *twin*, into which the same batches go, and the push has an order in which a row's names follow one another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.codes.interning import Interner
from watersmeet.join.engine import JoinEngine
from watersmeet.join.outcome import Outcome
from watersmeet.join.shared import SharedStream, SharedStreams
from watersmeet.query.block import JoinBlock
from watersmeet.streams.batch import Reader, one_batch, retyped
from watersmeet.streams.clock import TimeAxis, refuse_time
from watersmeet.streams.payload import Chunks, Payload
from watersmeet.streams.schema import given_schemas, is_open
from watersmeet.streams.window import Window

Batches = Mapping[str, pa.RecordBatch]
_NOTHING = pa.schema([])  # of a stream whose schema is not known: nobody reads it yet


@dataclass(frozen=True)
class Known:
    """What is known of the streams: a value, made anew when a schema becomes known."""

    schemas: Mapping[str, pa.Schema]
    readers: Mapping[str, Reader]
    axes: Mapping[str, TimeAxis]  # of the streams whose own window is of time

    @property
    def complete(self) -> bool:
        """Whether every type of every stream is known."""
        return len(self.schemas) == len(self.readers) and not any(
            is_open(field.type) for schema in self.schemas.values() for field in schema
        )


class Feed:
    """Streams by name, and what the joins have stored of them."""

    def __init__(self, windows: Mapping[str, Window], schemas: Mapping[str, Any], cores: int) -> None:
        self.windows, self.names = dict(windows), list(windows)
        self.shared = SharedStreams([_NOTHING for _ in self.names], cores)
        self.interner = Interner()  # one for all joins, so that they can share indexes of texts
        self._twins: dict[str, list[int]] = {name: [] for name in self.names}
        self.known = self._knowing({})
        self.learn(given_schemas(schemas, self.names))

    # ---- schemas ------------------------------------------------------------------------------------------------

    def news(self, batches: Batches) -> dict[str, pa.Schema]:
        """The schemas, or types of open columns, that a push brings."""
        if self.known.complete:
            return {}
        schemas = self.known.schemas
        return {name: batch.schema for name, batch in batches.items() if batch.schema != schemas.get(name)}

    def learn(self, fresh: Mapping[str, pa.Schema]) -> None:
        """Schemas have become known, or columns have got types. Stored rows get them too."""
        known = self._knowing({**self.known.schemas, **fresh})
        for name, schema in fresh.items():
            if name not in self.known.schemas:
                self.shared.streams[self.names.index(name)] = SharedStream(schema)
            else:
                for g in self._all(name):
                    _retype(self.shared.streams[g].payload, schema)
        self.known = known

    def _knowing(self, schemas: Mapping[str, pa.Schema]) -> Known:
        axes = {}
        for name, schema in schemas.items():
            window = self.windows[name]
            if window.time is not None and not _open_time(schema, window.time):
                axes[name] = TimeAxis((name,), (window,), (schema,))
        return Known(schemas, {name: Reader(name, schemas.get(name)) for name in self.names}, axes)

    def mark(self) -> Any:
        """What is known, and how it is stored."""
        stored = [(stream, _layout(stream.payload)) for stream in self.shared.streams]
        return self.known, stored, {name: list(twins) for name, twins in self._twins.items()}

    def back_to(self, mark: Any) -> None:
        """As it was at the mark, but for rows: those are taken back by ``take_back``."""
        self.known, stored, twins = mark
        self.shared.streams[:] = [stream for stream, _ in stored]
        for stream, (schema, columns, chunks) in stored:
            payload = stream.payload
            if payload.schema is not schema:
                payload.schema, payload.columns, payload.chunks = schema, columns, chunks
        self._twins = {name: list(places) for name, places in twins.items()}

    def check_times(self, batches: Batches) -> None:
        """Rows of a stream whose own window is of time must have one, whoever reads the stream."""
        for name, batch in batches.items():
            column = self.windows[name].time
            if column is None:
                continue
            if name in self.known.axes:
                self.known.axes[name].codes(0, batch)
            elif batch.num_rows:
                raise refuse_time(column, name, "null", 0)

    # ---- who reads ----------------------------------------------------------------------------------------------

    def attach(self, block: JoinBlock) -> None:
        """A join reads its streams from now on."""
        try:
            self.shared.add(block.engine, self._places(block.streams))
            block.begin()
        except BaseException:
            self.detach(block)
            raise

    def detach(self, block: JoinBlock) -> None:
        """A join reads no more. May be repeated."""
        self.shared.readers.pop(block.engine, None)
        for stream in self.shared.streams:
            stream.left(block.engine)

    def _places(self, streams: Sequence[str]) -> list[int]:
        """Where each stream of a join is; one that is there again is a twin."""
        found: list[int] = []
        for name in streams:
            before = sum(g in found for g in self._all(name))
            if before > len(self._twins[name]):
                self._twins[name].append(len(self.shared.streams))
                self.shared.streams.append(SharedStream(self.known.schemas[name]))
            place = self._all(name)[before]
            stream, first = self.shared.streams[place], self.shared.streams[self.names.index(name)]
            if not stream.readers:  # as far on as the stream itself, also if it was not read for a while
                stream.payload.end = first.payload.end
            found.append(place)
        return found

    def _all(self, name: str) -> list[int]:
        return [self.names.index(name), *self._twins[name]]

    # ---- one push -----------------------------------------------------------------------------------------------

    def arrived(self, stream: str) -> int:
        """How many rows of a stream have come."""
        return self.shared.streams[self.names.index(stream)].payload.end

    def stored(self, stream: str) -> int:
        """How many rows of a stream are kept."""
        payload = self.shared.streams[self.names.index(stream)].payload
        return payload.end - payload.first

    def push(
        self, batches: Batches, order: np.ndarray | None, turns: Sequence[int]
    ) -> dict[JoinEngine, Outcome]:
        """Join a push, for every reader; as ``SharedStreams.push``, over the streams by name."""
        mine: list[pa.RecordBatch | None] = [None] * len(self.shared.streams)
        read = {name: [g for g in self._twins[name] if self.shared.streams[g].readers] for name in self.names}
        for name, batch in batches.items():
            for g in (self.names.index(name), *read[name]):
                mine[g] = batch
        if any(read.values()):
            order = self._doubled(batches, order, turns, read)
        rest = [g for g in range(len(mine)) if g not in turns]
        return self.shared.push(mine, order, [*turns, *rest])

    def _doubled(
        self,
        batches: Batches,
        order: np.ndarray | None,
        turns: Sequence[int],
        twins: Mapping[str, Sequence[int]],
    ) -> np.ndarray:
        """The order in which rows arrive under all names of their stream."""
        if order is None:
            sizes = [batches[self.names[g]].num_rows if self.names[g] in batches else 0 for g in turns]
            order = np.repeat(np.array(turns, np.int64), sizes)
        places = [[g, *twins[name]] for g, name in enumerate(self.names)]
        table = np.array([[*row, *[0] * (max(map(len, places)) - len(row))] for row in places], np.uint16)
        times = np.array([len(row) for row in places])[order]
        starts = np.cumsum(times) - times
        nth = np.arange(int(times.sum())) - np.repeat(starts, times)
        return table[np.repeat(order, times), nth]


def _open_time(schema: pa.Schema, column: str) -> bool:
    place = schema.get_field_index(column)
    return place >= 0 and is_open(schema.field(place).type)


def _layout(payload: Payload) -> tuple[pa.Schema, list[str], Chunks]:
    return payload.schema, payload.columns, payload.chunks


def _retype(payload: Payload, schema: pa.Schema) -> None:
    """Stored rows in a schema in which open columns have types."""
    batches = [
        one_batch(retyped(pa.Table.from_batches([batch]), schema, schema.names))
        for batch in payload.chunks.batches
    ]
    chunks = Chunks(batches, list(payload.chunks.firsts))
    payload.schema, payload.columns, payload.chunks = schema, schema.names, chunks
