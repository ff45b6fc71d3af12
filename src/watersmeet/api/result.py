"""What a push gives back: numbers at once, rows on demand.

A result holds arrival numbers and the immutable chunks its rows lie in. Payload is gathered when it is asked for, once; that works
also after the rows have left their windows.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol
from weakref import ref

import numpy as np
import pyarrow as pa

from watersmeet.api.equal_columns import EqualColumns
from watersmeet.api.show import SHOWN, result_html, result_line
from watersmeet.errors import ResultError
from watersmeet.extras import need
from watersmeet.join.matches import Matches
from watersmeet.join.pool import Pool
from watersmeet.sql.condition import BoundCondition
from watersmeet.sql.select import BoundSelect
from watersmeet.streams.payload import Chunks, Maker

_NO_ROWS = Chunks([], [])  # of a stream that has not begun
SHARED = 8192  # rows from which on threads are worth waking
_NONE_MISSING: Mapping[str, np.ndarray] = MappingProxyType(
    {}
)  # one for all: a push may give a thousand results


class Latest:
    """The newest gatherer of a join. Results of a time when not all schemas were known get their rows from it."""

    gatherer: "Gatherer"


class Gatherer:
    """Rows from arrival numbers: what a join's results share."""

    def __init__(
        self,
        streams: Sequence[str],
        schemas: Sequence[pa.Schema | None],
        select: BoundSelect | None,
        mode: str,
        latest: Latest | None = None,
        pool: Pool | None = None,
        condition: BoundCondition | None = None,
    ) -> None:
        """``pool``: threads that may help. A result does not keep them alive. ``condition``: which columns are equal in all rows."""
        self._pool = None if pool is None else ref(pool)
        self._equal = EqualColumns(streams, schemas, None if select is None else select.columns, condition)
        self.streams, self.schemas, self.select, self.mode = tuple(streams), tuple(schemas), select, mode
        self.latest = latest
        self._nothing: pa.RecordBatch | None = None  # what a push without a result gives: most small ones do

    def rows(self, chunks: Sequence[Chunks | None], arrivals: Sequence[np.ndarray]) -> pa.RecordBatch:
        """The select list's columns for the results with these arrival numbers."""
        select = self.select
        latest = None if self.latest is None else self.latest.gatherer
        if select is None and latest is not None and latest.select is not None:
            return latest.rows(chunks, arrivals)
        if select is None and not arrivals[0].size:  # no rows, of columns that nobody can name yet
            return pa.RecordBatch.from_struct_array(pa.array([], pa.struct([])))
        if select is None:
            missing = [
                name for name, schema in zip(self.streams, self.schemas, strict=True) if schema is None
            ]
            raise ResultError(
                f"rows can be given out once the schema of {' and '.join(map(repr, missing))} is known; push a batch of it first, "
                "or give schemas="
            )
        if self._nothing is not None and not arrivals[0].size:
            return self._nothing
        copies = self._equal.copies(arrivals)
        keys: list[tuple[str, str]] = []
        makers: list[Maker] = []
        for stream, schema, stored, wanted in zip(self.streams, self.schemas, chunks, arrivals, strict=True):
            names = select.columns.get(stream, [])
            if copies:
                names = [name for name in names if (stream, name) not in copies]
            if names and schema is not None:
                keys += [(stream, name) for name in names]
                makers += (stored or _NO_ROWS).columns(wanted, names, schema)
        columns = dict(zip(keys, self._made(makers, arrivals[0].size), strict=True))
        for key, copy in copies.items():
            columns[key] = copy.made(columns)
        rows = select.evaluate(columns, arrivals[0].size)
        if not rows.num_rows:
            self._nothing = rows
        return rows

    def _made(self, makers: Sequence[Maker], rows: int) -> list[pa.Array]:
        """All columns, on several threads where there is enough to do."""
        pool = None if self._pool is None or rows < SHARED else self._pool()
        return [make() for make in makers] if pool is None else pool.all_of(makers)


class Rows(Protocol):
    """What a result asks for its rows: a join's ``Gatherer``, or what a query makes of them."""

    @property
    def streams(self) -> tuple[str, ...]:
        """The names by which numbers are listed."""

    @property
    def mode(self) -> str:
        """What is kept: pairs, ranges or a count; or that rows are an "answer", and not of any stream."""

    def rows(self, chunks: Sequence[Chunks | None], arrivals: Sequence[np.ndarray]) -> pa.RecordBatch:
        """The rows of the results with these arrival numbers."""


class Result:
    """The pairs that one push has found; lazy.

    ``count`` and ``late`` are there at once. ``to_arrow()``, ``to_pandas()`` and ``to_polars()`` gather the rows, ``pairs()`` lists arrival
    numbers. Anything that takes Arrow data (pyarrow, polars, pandas, duckdb) takes a result itself: ``polars.DataFrame(result)``.

    >>> from watersmeet import StreamJoin, Unbounded
    >>> join = StreamJoin("r.x = s.a", r=Unbounded(), s=Unbounded())
    >>> join.push(r={"x": [1, 2]}, s={"a": [2, 2, 3]})
    <Result of 2 rows>
    """

    def __init__(
        self,
        gatherer: Rows,
        matches: Matches,
        chunks: Sequence[Chunks | None],
        late: Mapping[str, pa.RecordBatch],
        punctuations: Any = (),
        missing: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self._gatherer, self._matches, self._chunks = gatherer, matches, chunks
        self._pairs: dict[str, np.ndarray] | None = None
        self._rows: pa.RecordBatch | None = None
        self._table: pa.Table | None = None
        self.count = matches.count
        """How many result rows there are; also ``len(result)``."""
        self.late = late
        """Rows refused as late, by stream; a stream without late rows is not in it."""
        self.punctuations = punctuations
        """With ``order=``: marks that say how far the output is complete; a sequence of ``Punctuation``."""
        self.missing = missing or _NONE_MISSING
        """With ``on_core_failure="continue"``: by stream, the arrival numbers of stored rows that were lost with a core while this
        push ran. Pairs of these rows with rows of this push may be missing; nothing else is."""

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return result_line(self.count, self.late)

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows. Nothing else is gathered."""
        return result_html(self.count, self.late, self._first_rows(SHOWN))

    def _first_rows(self, limit: int) -> pa.RecordBatch | str:
        if self._gatherer.mode == "count":
            return "result='count' keeps no rows"
        try:
            return self._gatherer.rows(self._chunks, self._matches.first(limit))
        except ResultError as error:
            return str(error)

    def numbers(self) -> dict[str, np.ndarray]:
        """Arrival numbers of the rows of each result, by stream; -1 where a row has no partner. ``pairs()`` is the same."""
        return self.pairs()

    def pairs(self) -> dict[str, np.ndarray]:
        """Arrival numbers of the rows of each pair, by stream; -1 where a row has no partner. ``numbers()`` is the same."""
        if self._gatherer.mode == "count":
            raise ResultError(
                "pairs must be kept to be listed; got result='count', which only counts them; "
                f"make the join with result='pairs'{' or ' + repr('ranges') if len(self._gatherer.streams) == 2 else ''}"
            )
        if self._gatherer.mode == "answer":
            raise ResultError(
                "arrival numbers must be of rows of streams; got an answer, whose rows are made of many; select what you need of them"
            )
        if self._pairs is None:
            self._pairs = dict(zip(self._gatherer.streams, self._matches.columns(), strict=True))
        return self._pairs

    def ranges(self) -> list[dict[str, Any]]:
        """Results as ranges, for ``result="ranges"``: one entry per sorted run that was probed.

        Each has ``stream`` (the probing stream), ``probe`` (arrival numbers), ``start`` and ``end``: the matches of ``probe[i]`` are
        the other stream's arrival numbers ``run()[start[i]:end[i]]``. ``run`` is written out only when it is called.
        """
        if self._gatherer.mode != "ranges":
            raise ResultError(
                f"ranges are kept only with result='ranges'; got result={self._gatherer.mode!r}; make the join with result='ranges'"
            )
        listed = [
            {
                "stream": self._gatherer.streams[r.side],
                "probe": r.probe,
                "start": r.start,
                "end": r.end,
                "run": r.arrivals,
            }
            for r in self._matches.ranges
        ]
        # An outer, semi or anti join, or a condition that must be checked pair by pair, gives pairs: each is a range of one.
        for left, right in self._matches.pairs:
            place = np.arange(left.size, dtype=np.int64)
            listed.append(
                {
                    "stream": self._gatherer.streams[0],
                    "probe": left,
                    "start": place,
                    "end": place + 1,
                    "run": lambda run=right: run,
                }
            )
        return listed

    def to_arrow(self) -> pa.Table:
        """The result rows, with the columns of ``select=``; gathered on the first call.

        While the schema of a stream is not known, a table without rows has no columns either: ``schemas=`` makes them known.
        """
        if self._table is None:
            self._table = pa.Table.from_batches([self._gathered()])
        return self._table

    def _gathered(self) -> pa.RecordBatch:
        if self._rows is None:
            answer = self._gatherer.mode == "answer"
            numbers = self._matches.columns() if answer else list(self.pairs().values())
            self._rows = self._gatherer.rows(self._chunks, numbers)
        return self._rows

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result rows, as an Arrow schema."""
        return self._gathered().schema

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """The result rows as a pandas DataFrame. Needs pandas: ``pip install 'watersmeet[pandas]'``."""
        need("to_pandas()", "pandas", "pandas", "; or take the rows with to_arrow()")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The result rows as a polars DataFrame. Needs polars: ``pip install 'watersmeet[polars]'``."""
        need("to_polars()", "polars", "polars", "; or take the rows with to_arrow()")
        import polars

        return polars.DataFrame(self)
