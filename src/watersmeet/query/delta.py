"""What a push adds to a relation: rows of streams by arrival number, and the chunks they lie in. Columns are gathered when asked for.

A delta has a part for each branch of a UNION ALL, all with the same columns. Filters leave numbers out, projections say what is
computed of the rows in the end: nothing is copied until somebody wants rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.api.result import Result, Rows
from watersmeet.join.matches import NOBODY, Matches
from watersmeet.query.instruction import PRESENT
from watersmeet.sql.evaluate import evaluate
from watersmeet.sql.select import BoundSelect
from watersmeet.sql.tree import Column, Expr, columns_of
from watersmeet.streams.payload import Chunks

_NO_ROWS = Chunks([], [])
_MOST, _FEW = (
    0.8,
    256,
)  # share of a chunk's rows from which on they are most of it; rows from which on that matters
Late = Mapping[str, pa.RecordBatch]
Gathered = dict[tuple[str, str], pa.Array]  # columns of all rows of a part, by leaf and name
NOT_NOW = -1  # the place of a row that was there before, or that no arrival has caused


class Caused:
    """Where, among all that arrives in a push, the arrivals stand that have caused the rows of a leaf that are made in it: of the row with
    the number ``first``, and of those after it. Worked out when somebody asks."""

    def __init__(self, first: int, find: Callable[[], np.ndarray]) -> None:
        self.first, self._find = first, find

    @cached_property
    def places(self) -> np.ndarray:
        """By row; ``NOT_NOW``: it is not known more exactly."""
        return self._find()


class Part(NamedTuple):
    """Rows of some leaves, side by side. There may be one for every query in every push: a tuple is made in no time."""

    leaves: tuple[str, ...]
    schemas: tuple[pa.Schema, ...]
    matches: Matches
    chunks: Sequence[Chunks | None]
    select: BoundSelect | None = None  # what is computed of the rows; None: nothing yet
    streams: tuple[str, ...] = ()  # of the leaves; empty: they are no streams
    # What has been gathered of its rows, by whoever has asked first: many queries may show the same rows. None: is not kept.
    gathered: Gathered | None = None
    caused: tuple[Caused | None, ...] = ()  # of leaves whose rows are made; empty: nothing is known of them

    def where(self, predicate: Expr) -> Part:
        """The rows for which the predicate is true."""
        numbers = self.matches.columns()
        if not numbers[0].size:
            return self
        passed = evaluate(predicate, self.columns(columns_of(predicate), numbers), numbers[0].size)
        mask = passed.fill_null(False).to_numpy(zero_copy_only=False)
        if mask.all():
            return self
        return self.with_matches(Matches.of(tuple([column[mask] for column in numbers])))

    def with_matches(self, matches: Matches) -> Part:
        """Some of the rows."""
        return Part(
            self.leaves, self.schemas, matches, self.chunks, self.select, self.streams, {}, self.caused
        )

    def with_select(self, select: BoundSelect) -> Part:
        """The same rows, and what is computed of them."""
        return Part(
            self.leaves,
            self.schemas,
            self.matches,
            self.chunks,
            select,
            self.streams,
            self.gathered,
            self.caused,
        )

    def emptied(self) -> Part:
        """None of the rows."""
        nobody = Matches(streams=len(self.leaves))
        return self._replace(matches=nobody, chunks=[None] * len(self.leaves), gathered=None, caused=())

    def columns(
        self, columns: Iterable[Column], numbers: Sequence[np.ndarray]
    ) -> dict[tuple[str, str], pa.Array]:
        """What expressions read of the rows with these numbers."""
        wanted: dict[str, list[str]] = {}
        for column in dict.fromkeys(columns):
            wanted.setdefault(column.stream, []).append(column.name)
        return self._columns(wanted, self.chunks, numbers, {})

    def rows(
        self,
        chunks: Sequence[Chunks | None],
        numbers: Sequence[np.ndarray],
        gathered: Gathered | None = None,
    ) -> pa.RecordBatch:
        """The selected columns of the rows with these numbers. ``gathered``: what is known of them; what is gathered now is added."""
        assert self.select is not None
        known = {} if gathered is None else gathered
        columns = self._columns(self.select.columns, chunks, numbers, known)
        return self.select.evaluate(columns, numbers[0].size)

    def _columns(
        self,
        wanted: Mapping[str, Sequence[str]],
        chunks: Sequence[Chunks | None],
        numbers: Sequence[np.ndarray],
        gathered: Gathered,
    ) -> dict[tuple[str, str], pa.Array]:
        found: dict[tuple[str, str], pa.Array] = {}
        for leaf, schema, stored, mine in zip(self.leaves, self.schemas, chunks, numbers, strict=True):
            names = wanted.get(leaf, ())
            if PRESENT in names:
                found[leaf, PRESENT] = pa.array(mine != NOBODY)
                names = [name for name in names if name != PRESENT]
            missing = [name for name in names if (leaf, name) not in gathered]
            if missing:  # several threads may ask at once: what each gathers is the same
                batch = _taken(stored or _NO_ROWS, mine, missing, schema)
                gathered.update({(leaf, name): batch.column(at) for at, name in enumerate(missing)})
            found |= {(leaf, name): gathered[leaf, name] for name in names}
        return found


def _taken(stored: Chunks, numbers: np.ndarray, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """Columns of the rows with these numbers. All rows of one chunk are the chunk: nothing is copied. Most of them are what a mask leaves:
    Arrow copies stretches (98% of 51,000 rows, four decimals and two texts: 0.56 ms in place of 0.88; of 50% it is slower).
    """
    if len(stored.batches) == 1 and stored.batches[0].num_rows == numbers.size and numbers.size:
        first = stored.firsts[0]
        if numbers[0] == first and np.array_equal(numbers, np.arange(first, first + numbers.size)):
            return stored.batches[0].select(list(names))
    elif len(stored.batches) == 1 and numbers.size > _MOST * stored.batches[0].num_rows > _FEW:
        batch, places = stored.batches[0], numbers - stored.firsts[0]
        mask = np.zeros(batch.num_rows, np.bool_)
        if places[0] >= 0 and (places[1:] > places[:-1]).all():
            mask[places] = True
            return batch.select(list(names)).filter(pa.array(mask))
    return stored.take(numbers, names, schema)


@dataclass(frozen=True)
class Delta:
    """The rows that a push adds, and those of its streams that were late. ``watermark``: no older row will come; None: nobody knows."""

    parts: tuple[Part, ...]
    late: Late = field(default_factory=dict)
    watermark: int | None = None

    @property
    def count(self) -> int:
        return sum([part.matches.count for part in self.parts])

    def gathered(self) -> list[pa.RecordBatch]:
        """The rows of each part."""
        return [part.rows(part.chunks, part.matches.columns(), part.gathered) for part in self.parts]

    def with_parts(self, parts: tuple[Part, ...]) -> Delta:
        """Other rows, by the same push."""
        return Delta(parts, self.late, self.watermark)


@dataclass(frozen=True)
class Nothing(Delta):
    """No rows, none of them late, and no watermark. It holds nothing of a push, so that it stays from push to push."""

    @property
    def count(self) -> int:
        return 0


def late_of(deltas: Iterable[Delta]) -> dict[str, pa.RecordBatch]:
    """The rows that were late of some deltas together."""
    late: dict[str, pa.RecordBatch] = {}
    for delta in deltas:
        for stream, batch in delta.late.items():
            if stream not in late:
                late[stream] = batch
            elif late[stream] is not batch:  # the same, where a stream is there twice behind one clock
                late[stream] = pa.concat_batches([late[stream], batch])
    return late


class Answers:
    """What Results ask for the rows of a block, and the Result of no rows. It holds nothing of a push, and stays: most of many queries
    find little in most pushes, and what is not made need not be collected.
    """

    def __init__(self, part: Part) -> None:
        self.schemas, self.nothing = part.schemas, Nothing((part.emptied(),))
        self._known: dict[tuple[str, ...], tuple[Answer, Result]] = {}

    def of(self, streams: tuple[str, ...]) -> tuple[Answer, Result]:
        """``streams``: the leaves by their names in the text."""
        known = self._known.get(streams)
        if known is None:
            answer = Answer(self.nothing, streams)
            known = self._known[streams] = answer, Result(answer, *side_by_side(self.nothing), {})
        return known


@dataclass(frozen=True)
class Selected(Delta):
    """Rows of which columns are named."""

    answers: Answers = field(kw_only=True)

    def result(self, streams: tuple[str, ...], late: Late) -> Result:
        """The rows as a Result. ``streams``: the leaves by their names in the text."""
        answer, nothing = self.answers.of(streams)
        part = self.parts[0]
        if not late and not part.matches.some:
            return nothing
        return Result(answer.sharing(part.gathered, part.matches.count), part.matches, part.chunks, late)


@dataclass(frozen=True)
class Told(Delta):
    """Rows that have been made: what is told of an answer."""

    parts: tuple[Part, ...] = ()
    rows: pa.RecordBatch = field(kw_only=True)

    @property
    def count(self) -> int:
        return int(self.rows.num_rows)


class Made:
    """What a ``Result`` asks for rows that have been made."""

    mode, streams = "answer", ()

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows

    def rows(self, chunks: Sequence[Chunks | None], arrivals: Sequence[np.ndarray]) -> pa.RecordBatch:
        """The first rows, as many as there are numbers."""
        return self._rows.slice(0, arrivals[0].size)


def result_of(delta: Delta, streams: Sequence[str]) -> tuple[Rows, Matches, Sequence[Chunks | None]]:
    """What a ``Result`` is made of. ``streams``: the leaves of all parts, by their names in the text."""
    if isinstance(delta, Told):
        return Made(delta.rows), Matches([(np.arange(delta.count),)], streams=1), []
    return Answer(delta, streams), *side_by_side(delta)


class Answer:
    """What a ``Result`` asks for the rows of a delta. ``streams``: the leaves of all parts, by their names in the text."""

    mode = "pairs"

    def __init__(self, delta: Delta, streams: Sequence[str]) -> None:
        # A result may be kept for long: it need not know what has caused its rows, and hold on to that.
        self.streams = tuple(streams)
        self._parts = tuple([part._replace(caused=()) if part.caused else part for part in delta.parts])

    def sharing(self, gathered: Gathered | None, count: int) -> Answer | Sharing:
        """For the rows of one part, so many, of which others may have gathered columns."""
        return self if gathered is None else Sharing(self, gathered, count)

    def rows(
        self,
        chunks: Sequence[Chunks | None],
        arrivals: Sequence[np.ndarray],
        gathered: Gathered | None = None,
    ) -> pa.RecordBatch:
        """The rows with these arrival numbers. A row of one part has numbers in that part's columns only."""
        if len(self._parts) == 1:
            return self._parts[0].rows(chunks, arrivals, gathered)
        batches, at = [], 0
        for part in self._parts:
            end = at + len(part.leaves)
            mine = np.logical_or.reduce([column != NOBODY for column in arrivals[at:end]])
            batches.append(part.rows(chunks[at:end], [column[mine] for column in arrivals[at:end]]))
            at = end
        return pa.concat_batches(batches)


class Sharing:
    """The same, where each column is gathered once for all queries that show the same rows."""

    __slots__ = ("_answer", "_count", "_gathered")
    mode = "pairs"

    def __init__(self, answer: Answer, gathered: Gathered, count: int) -> None:
        self._answer, self._gathered, self._count = answer, gathered, count

    @property
    def streams(self) -> tuple[str, ...]:
        """The names by which numbers are listed."""
        return self._answer.streams

    def rows(self, chunks: Sequence[Chunks | None], arrivals: Sequence[np.ndarray]) -> pa.RecordBatch:
        """The rows with these arrival numbers: all, or the first few, which are gathered for themselves."""
        whole = arrivals[0].size == self._count
        return self._answer.rows(chunks, arrivals, self._gathered if whole else None)


def side_by_side(delta: Delta) -> tuple[Matches, Sequence[Chunks | None]]:
    """The numbers and chunks of all parts, each part's in columns of its own."""
    if len(delta.parts) == 1:
        return delta.parts[0].matches, delta.parts[0].chunks
    width = sum(len(part.leaves) for part in delta.parts)
    matches, chunks = Matches(streams=width), list[Chunks | None]()
    for part in delta.parts:
        numbers, before = part.matches.columns(), len(chunks)
        nobody = np.full(numbers[0].size, NOBODY, np.int64)
        after = width - before - len(numbers)
        matches.pairs.append((*[nobody] * before, *numbers, *[nobody] * after))
        chunks += part.chunks
    return matches, chunks
