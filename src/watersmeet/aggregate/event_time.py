"""Windows of event time: tumbling, hopping, and sessions. A window is final, and given, once the watermark has passed its end.

Rows that come are not older than the watermark (whoever feeds the rows has put late ones aside), so a row never meets a window that was
given: what is given depends on the rows and the watermark alone. Windows begin at whole multiples of the slide since 1970, as in Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.aggregation import Mark as AggregationMark
from watersmeet.aggregate.numbering import numbered
from watersmeet.aggregate.spec import Grouping
from watersmeet.aggregate.values import Coded
from watersmeet.errors import DataError, OptionError, SchemaError, StateError
from watersmeet.kernels.code import INT_MIN
from watersmeet.kernels.sort import sort_keys

WATERMARK, ROWS = "watermark", "rows"
FARTHEST = 2**62  # time codes beyond this are refused: sums with sizes must not wrap


@dataclass(frozen=True)
class Hop:
    """Windows of ``size`` that begin every ``slide``, in units of the time column ``time``; as long as its slide: tumbling.

    ``start`` and ``end`` name the columns that say when a window begins and ends.
    """

    time: str
    size: int
    slide: int
    start: str = "window_start"
    end: str = "window_end"

    def __post_init__(self) -> None:
        if not 0 < self.slide <= self.size < FARTHEST:
            raise OptionError(
                f"a window must have 0 < slide <= size; got size {self.size} and slide {self.slide}"
            )


@dataclass(frozen=True)
class Session:
    """Rows of a group of which each is at most ``gap`` after the one before it; a session ends ``gap`` after its last row."""

    time: str
    gap: int
    start: str = "window_start"
    end: str = "window_end"

    def __post_init__(self) -> None:
        if not 0 < self.gap < FARTHEST:
            raise OptionError(f"a session's gap must be positive; got {self.gap}")


NEVER = 2 * FARTHEST
Mark = tuple[AggregationMark, int, int]


class Times:
    """The time column of rows, which are not older than the watermark."""

    def __init__(self, column: str, schema: pa.Schema) -> None:
        if schema.get_field_index(column) < 0:
            raise SchemaError(
                f"the time column must be in the schema once; got {column!r}; there are: {', '.join(schema.names)}"
            )
        kind = schema.field(column).type
        if not (pt.is_integer(kind) or pt.is_timestamp(kind)) or pt.is_uint64(kind):
            raise SchemaError(
                f"windows of event time must be over timestamps or integers; column {column!r} is {kind}; cast it"
            )
        self._column, self._read = column, Coded(kind)
        self.type = (
            pa.int64() if pt.is_integer(kind) else kind
        )  # of a window's ends, which may be beyond the column's
        self._write = Coded(self.type)
        self.watermark = INT_MIN

    def codes(self, batch: pa.RecordBatch) -> np.ndarray:
        """Of rows that come; a row that cannot be is refused."""
        column = batch.column(self._column)
        codes = self._read.encode(column)[:, 0]
        if column.null_count:
            raise DataError(
                f"the time column {self._column!r} must have no NULL; got {column.null_count}; leave those rows out"
            )
        if codes.size and max(int(codes.max()), -int(codes.min())) > FARTHEST:
            raise DataError(
                f"times of windows must be within 2**62 units of 1970; got one beyond in {self._column!r}"
            )
        if codes.size and int(codes.min()) < self.watermark:
            raise DataError(
                "rows must not be older than the watermark, by which windows are final; got one that is; put late rows aside"
            )
        return codes

    def values(self, codes: np.ndarray) -> pa.Array:
        """Codes as times."""
        return self._write.decode(codes.reshape(-1, 1))

    def back(self, values: pa.Array) -> np.ndarray:
        """Times as codes."""
        return self._write.encode(values)[:, 0]


class Hopping:
    """The aggregates of a grouping in each window, tumbling or hopping.

    The windows that are open are the aggregation's answer. Its changes, where they are asked for, must be asked before windows are closed.
    """

    def __init__(self, grouping: Grouping, schema: pa.Schema, hop: Hop, *, changes: bool = False) -> None:
        self._hop, self._times = hop, Times(hop.time, schema)
        inner = Grouping((hop.start, *grouping.keys), grouping.aggregates)
        schema = pa.schema([*schema, pa.field(hop.start, self._times.type)])
        self.aggregation = Aggregation(inner, schema, retracts=False, changes=changes)
        self._due = NEVER  # when the next window ends

    @property
    def held(self) -> int:
        """How many windows of groups are open."""
        return self.aggregation.groups

    @property
    def nbytes(self) -> int:
        return self.aggregation.nbytes

    def push(self, batch: pa.RecordBatch) -> None:
        """Rows have come: each is added to all its windows."""
        codes, hop = self._times.codes(batch), self._hop
        starts = codes - codes % hop.slide
        if hop.slide < hop.size:
            rows, starts = _windows(codes, starts, hop)
            batch = batch.take(pa.array(rows))
        due = min(self._due, int(starts.min()) + hop.size) if starts.size else self._due
        self.aggregation.add(batch.append_column(hop.start, self._times.values(starts)))
        self._due = due

    def advance(self, watermark: int) -> pa.RecordBatch:
        """The watermark (a code) has moved: the windows that are final by it, in the order of their first rows."""
        watermark = max(self._times.watermark, watermark)

        def pass_by() -> pa.RecordBatch:
            if watermark < self._due:
                found, due = _nothing(self.aggregation.schema), self._due
            else:
                found = self.aggregation.release(watermark - self._hop.size + 1)
                due = self._first_end()
            found = self.with_end(found)
            self._times.watermark, self._due = watermark, due
            return found

        return self.aggregation.atomically(pass_by)

    def _first_end(self) -> int:
        least = self.aggregation.least()
        return NEVER if least is None else least + self._hop.size

    def with_end(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the aggregation, with a column that says when each window ends."""
        ends = self._times.values(self._times.back(rows.column(0)) + self._hop.size)
        return rows.add_column(1, pa.field(self._hop.end, self._times.type), ends)

    def mark(self) -> Mark:
        return self.aggregation.mark(), self._times.watermark, self._due

    def back_to(self, mark: Mark) -> None:
        """As it was at the mark. May be repeated."""
        self.aggregation.back_to(mark[0])
        _, self._times.watermark, self._due = mark

    def commit(self) -> None:
        self.aggregation.commit()

    def snapshot(self) -> dict[str, pa.Table]:
        """The whole state as Arrow tables by name."""
        return {**self.aggregation.snapshot(), WATERMARK: _saved(self._times)}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Go on from a snapshot."""
        self.aggregation = self.aggregation.restored(tables)
        self._times.watermark = _loaded(tables)
        self._due = self._first_end()


def _windows(codes: np.ndarray, last: np.ndarray, hop: Hop) -> tuple[np.ndarray, np.ndarray]:
    """Each row as often as there are windows that it is in, in the order of rows: the row, and when the window begins."""
    back = np.arange(-(-hop.size // hop.slide)) * hop.slide
    starts = last[:, None] - back
    inside = starts + hop.size > codes[:, None]
    return np.nonzero(inside)[0], starts[inside]


class Sessions:
    """The aggregates of a grouping in each session of a group.

    Rows are kept until their session is over: a row that comes may join two sessions, or lengthen one.
    """

    def __init__(self, grouping: Grouping, schema: pa.Schema, session: Session) -> None:
        self._session, self._times = session, Times(session.time, schema)
        self._columns = list(dict.fromkeys([*grouping.columns, session.time]))
        ends = [pa.field(name, self._times.type) for name in (session.start, session.end)]
        self._grouping = Grouping((session.start, session.end, *grouping.keys), grouping.aggregates)
        self._input = pa.schema([*(schema.field(name) for name in self._columns), *ends])
        self._keys = grouping.keys
        self._chunks: tuple[pa.RecordBatch, ...] = ()
        self._due = NEVER  # no session is over before this
        self.schema = self._close(_nothing(self._input)).schema

    @property
    def held(self) -> int:
        """How many rows wait for the end of their session."""
        return sum(chunk.num_rows for chunk in self._chunks)

    @property
    def nbytes(self) -> int:
        return sum(chunk.nbytes for chunk in self._chunks)

    def push(self, batch: pa.RecordBatch) -> None:
        """Rows have come."""
        codes = self._times.codes(batch)
        if codes.size:
            due = min(self._due, int(codes.min()) + self._session.gap)
            self._chunks, self._due = (*self._chunks, batch.select(self._columns)), due

    def advance(self, watermark: int) -> pa.RecordBatch:
        """The watermark (a code) has moved: the sessions that are final by it, in the order of their first rows.

        A row at the very end of a session still belongs to it, as in Spark, so the watermark must have passed the end.
        """
        watermark, times = max(self._times.watermark, watermark), self._times
        if watermark <= self._due or not self._chunks:
            found, chunks, due = _nothing(self.schema), self._chunks, self._due
        else:
            rows = pa.concat_batches(self._chunks)
            starts, ends = self._sessions(rows)
            final = ends < watermark
            over = rows.filter(pa.array(final))
            for name, codes in ((self._session.start, starts), (self._session.end, ends)):
                over = over.append_column(name, times.values(codes[final]))
            found, chunks, due = self._close(over), (), NEVER
            if not final.all():
                chunks, due = (rows.filter(pa.array(~final)),), int(ends[~final].min())
        times.watermark, self._chunks, self._due = watermark, chunks, due
        return found

    def _sessions(self, rows: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """When each row's session begins and ends, by the rows that are there."""
        codes = self._times.back(rows.column(self._session.time).cast(self._times.type))
        groups = numbered(rows, self._keys)
        order = _by_group_and_time(groups, codes)
        times, own = codes[order], groups[order]
        first = np.ones(times.size, np.bool_)
        first[1:] = (own[1:] != own[:-1]) | (times[1:] > times[:-1] + self._session.gap)
        session, begins = np.cumsum(first) - 1, np.flatnonzero(first)
        last = np.append(begins[1:], times.size) - 1
        starts, ends = np.empty_like(codes), np.empty_like(codes)
        starts[order], ends[order] = times[begins][session], times[last][session] + self._session.gap
        return starts, ends

    def _close(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        aggregation = Aggregation(self._grouping, self._input, retracts=False)
        aggregation.add(rows)
        return aggregation.answer()

    def mark(self) -> tuple[tuple[pa.RecordBatch, ...], int, int]:
        return self._chunks, self._times.watermark, self._due

    def back_to(self, mark: tuple[tuple[pa.RecordBatch, ...], int, int]) -> None:
        self._chunks, self._times.watermark, self._due = mark

    def snapshot(self) -> dict[str, pa.Table]:
        """The whole state as Arrow tables by name."""
        schema = pa.schema([self._input.field(name) for name in self._columns])
        return {ROWS: pa.Table.from_batches(self._chunks, schema), WATERMARK: _saved(self._times)}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Go on from a snapshot."""
        watermark = _loaded(tables)
        self._times.watermark, self._chunks, self._due = INT_MIN, (), NEVER
        for chunk in tables[ROWS].to_batches():
            self.push(chunk)
        self._times.watermark = watermark


def _by_group_and_time(groups: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The order of rows by group, then time; in one sort where both fit one word."""
    least, span = int(codes.min()), int(codes.max()) - int(codes.min()) + 1
    if (int(groups.max()) + 1) * span >= FARTHEST:
        return np.lexsort((codes, groups))
    return sort_keys(groups * span + (codes - least))[1]


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def _saved(times: Times) -> pa.Table:
    return pa.table({WATERMARK: pa.array([times.watermark], pa.int64())})


def _loaded(tables: Mapping[str, pa.Table]) -> int:
    if WATERMARK not in tables:
        raise StateError(f"a snapshot must have a table {WATERMARK!r}; got {', '.join(tables) or 'nothing'}")
    return int(tables[WATERMARK].column(0)[0].as_py())
