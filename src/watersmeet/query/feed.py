"""The streams of a processor: their schemas, and their rows, stored once for all joins.

A schema is known by ``schemas=`` or by the stream's first batch. What a push has made known is forgotten again, should the push be refused.

A join that reads a stream twice has each row arrive under its first name, then under its second, before the next row. So the second name is
a stream of its own here, a *twin* with the same rows, and the push has an order in which a row's names follow one another.

Beside the rows there is the history of their arrival, so that a join can begin with rows that came before it. For that a stream keeps
its own window, also if no join reads it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
from watersmeet.streams.clock import TOP, TimeAxis, refuse_time
from watersmeet.streams.history import History, Steps
from watersmeet.streams.payload import Chunks, Payload
from watersmeet.streams.schema import given_schemas, is_open
from watersmeet.streams.window import Window

Batches = Mapping[str, pa.RecordBatch]
Times = Mapping[int, tuple[np.ndarray, pa.Array]]  # by stream: codes and values
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


@dataclass(frozen=True)
class Holds:
    """What queries that wait will be given: a value, made anew when they change."""

    rows: Mapping[str, int]  # by stream, from which row on
    moment: int  # from which moment of the history on


NOTHING_HELD = Holds({}, TOP)


class Feed:
    """Streams by name, and what the joins have stored of them."""

    def __init__(
        self,
        windows: Mapping[str, Window],
        schemas: Mapping[str, Any],
        cores: int,
        keeps_windows: bool = True,
        tables: Collection[str] = (),
        by_push: bool = False,
    ) -> None:
        """``keeps_windows``: whether a stream keeps its own window, or only what a join may still see. ``tables``: which of the streams
        are tables, whose rows all come before those of the others. ``by_push``: watermarks move once after each push."""
        self.windows, self.names, self.tables = dict(windows), list(windows), tuple(tables)
        self.history, self.keeps_windows, self.by_push = (
            History(len(windows), by_push),
            keeps_windows,
            by_push,
        )
        self.holds, self._loose = NOTHING_HELD, False
        self._looked: dict[
            int, int
        ] = {}  # by stream: how many rows had come when it was last looked at what is over
        self.added: Mapping[str, Sequence[str]] = {}  # by stream: columns that rows may lack
        self.shared = SharedStreams([_NOTHING for _ in self.names], cores)
        self.interner = Interner()  # one for all joins, so that they can share indexes of texts
        self._twins: dict[str, list[int]] = {name: [] for name in self.names}
        self.known = self._knowing({})
        self.learn(given_schemas(schemas, [name for name in self.names if name not in self.tables]))

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
                self.shared.streams[self.names.index(name)] = stream = SharedStream(schema)
                stream.kept = 0 if self.keeps_windows or name in self.tables else TOP
                stream.held = self.holds.rows.get(name, TOP)
            else:
                _retype(self._stream(name).payload, schema)
        self.known = known

    def _knowing(self, schemas: Mapping[str, pa.Schema]) -> Known:
        axes = {}
        for name, schema in schemas.items():
            window = self.windows[name]
            if window.time is not None and not _open_time(schema, window.time):
                axes[name] = TimeAxis((name,), (window,), (schema,))
        readers = {name: Reader(name, schemas.get(name), self.added.get(name, ())) for name in self.names}
        return Known(schemas, readers, axes)

    def grow(self, stream: str, columns: pa.Schema) -> None:
        """A stream has more columns; in the rows that are stored they are NULL."""
        payload = self._stream(stream).payload
        schema = pa.schema([*self.known.schemas[stream], *columns])
        batches = [
            pa.RecordBatch.from_arrays(
                [*batch.columns, *(pa.nulls(batch.num_rows, column.type) for column in columns)],
                schema=schema,
            )
            for batch in payload.chunks.batches
        ]
        chunks = Chunks(batches, list(payload.chunks.firsts))
        self.added = {**self.added, stream: [*self.added.get(stream, ()), *columns.names]}
        known = self._knowing({**self.known.schemas, stream: schema})
        payload.schema, payload.columns, payload.chunks = schema, schema.names, chunks
        self.known = known

    def mark(self) -> Any:
        """What is known, and how it is stored."""
        stored = [(stream, stream.kept, _layout(stream.payload)) for stream in self.shared.streams]
        twins = {name: list(twins) for name, twins in self._twins.items()}
        return self.known, self.added, stored, twins, self.history.mark(), self.holds

    def back_to(self, mark: Any) -> None:
        """As it was at the mark, but for rows: those are taken back by ``take_back``."""
        self.known, self.added, stored, twins, history, _ = mark
        self.history.back_to(history)
        self.shared.streams[:] = [stream for stream, _, _ in stored]
        self.keep_again(mark)
        for stream, _, (schema, columns, chunks) in stored:
            payload = stream.payload
            if payload.schema is not schema:
                payload.schema, payload.columns, payload.chunks = schema, columns, chunks
        self._twins = {name: list(places) for name, places in twins.items()}

    def keep_again(self, mark: Any) -> None:
        """Keep the rows that were kept at the mark. May be repeated."""
        _, _, stored, _, _, holds = mark
        for stream, kept, _ in stored:
            stream.kept = kept
        self.hold(holds)

    def hold(self, holds: "Holds") -> None:
        """Keep what queries that wait will be given; ``release`` drops what is not held any more."""
        self._loose |= holds != self.holds
        self.holds = holds
        for name in self.names:
            self._stream(name).held = holds.rows.get(name, TOP)

    def times(self, batches: Batches) -> Times:
        """The times of rows, of the streams whose own window is of time. They must have one, whoever reads the stream."""
        found = {}
        for g, name in enumerate(self.names):
            batch, column = batches.get(name), self.windows[name].time
            if batch is None or column is None:
                continue
            if name in self.known.axes:
                found[g] = self.known.axes[name].codes(0, batch), batch.column(column)
            elif batch.num_rows:
                raise refuse_time(column, name, "null", 0)
        return found

    def fill(self, tables: Batches) -> None:
        """The rows of tables, before all others."""
        self.learn({name: batch.schema for name, batch in tables.items()})
        for name, batch in tables.items():
            self._stream(name).payload.append(batch)
        self.remember(tables, {}, None, [self.names.index(name) for name in tables])

    # ---- who reads ----------------------------------------------------------------------------------------------

    def detach(self, block: JoinBlock) -> None:
        """A join reads no more. May be repeated."""
        self.shared.readers.pop(block.engine, None)
        for stream in self.shared.streams:
            stream.left(block.engine)

    def places(self, streams: Sequence[str]) -> list[int]:
        """Where each stream of a join is; one that is there again is a twin."""
        found: list[int] = []
        for name in streams:
            before = sum(g in found for g in self._all(name))
            if before > len(self._twins[name]):
                self._twins[name].append(len(self.shared.streams))
                self.shared.streams.append(SharedStream(self.known.schemas[name], self._stream(name)))
            found.append(self._all(name)[before])
        return found

    def streams_of(self, name: str) -> list[SharedStream]:
        """A stream and its twins, all with the same rows."""
        return [self.shared.streams[g] for g in self._all(name)]

    def _all(self, name: str) -> list[int]:
        return [self.names.index(name), *self._twins[name]]

    def payload(self, name: str) -> Payload:
        """The stored rows of a stream."""
        return self._stream(name).payload

    def _stream(self, name: str) -> SharedStream:
        return self.shared.streams[self.names.index(name)]

    @property
    def latest(self) -> str | None:
        """The latest timestamp that any stream has come to, by its own window's time; None: there is none."""
        found = [
            self.known.axes[self.names[g]].latest(np.array([code]))
            for g, (code, _) in self.history.clocks.items()
        ]
        return max((text for text in found if text is not None), default=None)

    # ---- one push -----------------------------------------------------------------------------------------------

    def arrived(self, stream: str) -> int:
        """How many rows of a stream have come."""
        return self._stream(stream).payload.end

    def stored(self, stream: str) -> int:
        """How many rows of a stream are kept."""
        payload = self._stream(stream).payload
        return payload.end - payload.first

    def stored_from(self, stream: str) -> int:
        """The number of the first row of a stream that is kept."""
        return self._stream(stream).payload.first

    def rows_of(self, stream: str) -> pa.Table:
        """The rows of a stream that are kept, in the chunks in which they will be dropped."""
        payload = self._stream(stream).payload
        return pa.Table.from_batches(payload.chunks.batches or [payload.rows_between(0, 0)])

    def restore_rows(self, stream: str, table: pa.Table, arrived: int) -> None:
        """Take back what ``rows_of`` gave, the last rows of so many."""
        payload = self._stream(stream).payload
        payload.end = arrived - table.num_rows
        for chunk in table.to_batches():
            payload.append(chunk)
        payload.end = arrived

    def restore_history(self, steps: Steps) -> None:
        """The order in which rows have come, once rows and schemas are known."""
        axes = {self.names.index(name): axis for name, axis in self.known.axes.items()}
        self.history.restore(steps, [self._stream(name).payload.first for name in self.names], axes)

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

    def advance(
        self, times: Mapping[str, pa.Array], blocks: Iterable[JoinBlock]
    ) -> dict[JoinEngine, Outcome]:
        """Streams have come to these times without a row. A join that goes by another column's times does not move."""
        latest: dict[JoinEngine, list[int | None]] = {}
        for block in blocks:
            latest[block.engine] = [
                int(block.axis.column_codes(k, times[name])[0])
                if block.axis is not None and name in times and window.time == self.windows[name].time
                else None
                for k, (name, window) in enumerate(block.windows)
            ]
        return self.shared.advance(latest)

    def remember_times(self, times: Mapping[str, pa.Array]) -> None:
        """The same, once it has happened."""
        for name, time in times.items():
            code = int(self.known.axes[name].column_codes(0, time)[0])
            self.history.advance(self.names.index(name), code, time)
        self.let_go()

    def miss(self, stream: str, rows: int, latest: pa.Array | None) -> None:
        """So many rows of a stream have come that no join here was given, the latest with this time: they count for numbers and clocks.
        None is stored then, so that numbers stay without a gap."""
        g, axis = self.names.index(stream), self.known.axes.get(stream)
        payload = self.shared.streams[g].payload
        assert not any(one.readers for one in self.streams_of(stream)), (
            "a join that reads a stream gets all of it"
        )
        payload.drop_before(payload.end)
        if axis is None or latest is None:
            self.history.miss(g, rows)
        else:
            self.history.advance(g, int(axis.column_codes(0, latest)[0]), latest, rows)
        payload.end += rows
        self.let_go()

    def remember(
        self, batches: Batches, times: Times, order: np.ndarray | None, turns: Sequence[int]
    ) -> None:
        """A push has come: note in which order, and let go of what is over."""
        sizes = [batches[name].num_rows if name in batches else 0 for name in self.names]
        payloads = [stream.payload for stream in self.shared.streams[: len(self.names)]]
        self.history.append(sizes, times, order, turns, [payload.end for payload in payloads])
        self.let_go()

    def let_go(self) -> None:
        """Drop what neither a stream's own window nor a join holds any more. Looked at when enough has come since: a few rows may wait."""
        due = [
            (g, name)
            for g, name in enumerate(self.names)
            if self.keeps_windows and name not in self.tables and self._due(g)
        ]
        for g, name in due:
            stream, payload = self.shared.streams[g], self.shared.streams[g].payload
            known = max(payload.first, min(stream.kept, payload.end))
            axis = self.known.axes.get(name)
            stream.kept = self.history.kept_from(g, self.windows[name], axis, payload.end, known)
            self._looked[g] = payload.end
            stream.drop_unseen()
        if self.history.long:
            axes = {self.names.index(name): axis for name, axis in self.known.axes.items()}
            firsts = [self._stream(name).payload.first for name in self.names]
            self.history.compact(firsts, min(self.holds.moment, self.history.moments), axes)

    def release(self) -> None:
        """Drop what nobody holds any more. May be repeated."""
        for stream in self.shared.streams if self._loose else ():
            stream.drop_unseen()
        self._loose = False

    def looks(self) -> dict[str, tuple[int, int]]:
        """By stream: from which row on its own window holds it, and when that was last looked at."""
        return {
            name: (self.shared.streams[g].kept, self._looked[g])
            for g, name in enumerate(self.names)
            if g in self._looked
        }

    def restore_looks(self, looks: Mapping[str, Sequence[int]]) -> None:
        """The same again: a loaded stream lets go of its rows when the saved one would have done."""
        for name, (kept, looked) in looks.items():
            self._stream(name).kept = kept
            self._looked[self.names.index(name)] = looked

    def _due(self, g: int) -> bool:
        payload = self.shared.streams[g].payload
        fresh = payload.end - self._looked.get(g, 0)
        return fresh > min(4096, (payload.end - payload.first) // 16)

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
