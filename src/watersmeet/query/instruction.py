"""Instructions: what programs a block, as frozen plain data. An instruction has those of its inputs in it, so it is a plan, and equal
instructions are equal plans.

Columns are named by *leaf*: the stream they come from, or ``stream#2`` where a join reads a stream a second time. Names that a text gives
its inputs are not in an instruction: ``FROM trades t`` and ``FROM trades x`` are the same.

``remembers``: whether the block has state of its own between pushes. Such blocks are the same only if they have also begun alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from watersmeet.aggregate.event_time import Hop, Session
from watersmeet.aggregate.spec import Grouping
from watersmeet.sql.tree import Expr
from watersmeet.streams.window import Duration, Range, Window

PRESENT = (
    "\0present"  # a column that every leaf has: whether a row of it is there; in an outer join it may not be
)


class _Over:
    """What instructions with one input have in common."""

    input: Instruction

    @property
    def leaves(self) -> tuple[str, ...]:
        return self.input.leaves

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Scan:
    """All rows of a stream, as they come. Nothing is stored."""

    remembers: ClassVar[bool] = False
    stream: str

    @property
    def leaves(self) -> tuple[str, ...]:
        return (self.stream,)

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        return ()

    def __str__(self) -> str:
        return f"scan {self.stream}"


@dataclass(frozen=True)
class Join:
    """A join of streams within windows."""

    remembers: ClassVar[bool] = True
    streams: tuple[str, ...]
    leaves: tuple[str, ...]
    windows: tuple[Window, ...]
    how: str
    condition: Expr

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        return ()

    def __str__(self) -> str:
        return _join_text(self.how, self.leaves, self.windows, self.condition)


@dataclass(frozen=True)
class JoinOf:
    """A join of rows that only come, within windows over those: of joins, unions and the like, and of streams beside them.

    Each input has a leaf of its own, whose columns (``fields``) are those of its rows. ``clock``: the watermark, where windows are of
    time; rows of streams that are late by it are left out below. The rows of a table come before all others.
    """

    remembers: ClassVar[bool] = True
    rows: tuple[Rows, ...]
    leaves: tuple[str, ...]
    windows: tuple[Window, ...]
    how: str
    condition: Expr
    fields: tuple[Fields, ...]
    clock: Clock | None = None

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        return (*self.rows, *(() if self.clock is None else (self.clock,)))

    def __str__(self) -> str:
        return _join_text(self.how, self.leaves, self.windows, self.condition)


@dataclass(frozen=True)
class Tick:
    """A stream that moves a clock: by its largest time, less the lateness of the window, less what it is ``held`` back by.

    ``judged``: the stream's own rows are late by the clock.
    """

    stream: str
    window: Range
    held: tuple[Duration, ...] = ()
    judged: bool = False

    def __str__(self) -> str:
        return f"{self.stream} {self.window}" + "".join(f" less {length}" for length in self.held)


@dataclass(frozen=True)
class Clock:
    """The watermark of some streams, by their time columns, and who is late by it. Of a stream that is there twice the one comes first by
    which its rows are judged.

    ``over``: the joins, and windows of event time, whose rows it is to be the watermark of: it begins when they do.
    """

    remembers: ClassVar[bool] = True
    ticks: tuple[Tick, ...]
    over: tuple[Join | JoinOf | Windows, ...] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(tick.stream for tick in self.ticks)

    @property
    def leaves(self) -> tuple[str, ...]:
        return ()

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        return ()

    def __str__(self) -> str:
        return f"clock of {', '.join(map(str, self.ticks))}"


@dataclass(frozen=True)
class Punctual(_Over):
    """The rows of a source, with the watermark of a clock. ``stream``: its rows that are late by it are left out; None: none can be."""

    remembers: ClassVar[bool] = False
    input: Source
    clock: Clock
    stream: str | None

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        return (self.input, self.clock)

    def __str__(self) -> str:
        return "by the clock" if self.stream is None else f"late rows of {self.stream} aside"


@dataclass(frozen=True)
class Filter(_Over):
    """The rows for which a predicate is true."""

    remembers: ClassVar[bool] = False
    input: Source
    predicate: Expr

    def __str__(self) -> str:
        return f"filter {self.predicate}".replace("\0", "")


@dataclass(frozen=True)
class Project(_Over):
    """Named columns, computed from each row."""

    remembers: ClassVar[bool] = False
    input: Source | Filter
    names: tuple[str, ...]
    exprs: tuple[Expr, ...]

    def __str__(self) -> str:
        columns = (f"{expr} AS {name}" for name, expr in zip(self.names, self.exprs, strict=True))
        return f"project {', '.join(columns) or 'nothing'}".replace("\0", "")


@dataclass(frozen=True)
class Union:
    """All rows of several plans."""

    remembers: ClassVar[bool] = False
    inputs: tuple[Project, ...]

    @property
    def leaves(self) -> tuple[str, ...]:
        return tuple(leaf for one in self.inputs for leaf in one.leaves)

    def __str__(self) -> str:
        return f"union of {len(self.inputs)}"


Rows = Project | Union
Fields = tuple[tuple[str, pa.DataType], ...]


@dataclass(frozen=True)
class Sliding:
    """A sliding window over rows: of a stream (``stream``; rows that a filter leaves out count), or of the rows themselves, by the names
    of their columns.
    """

    window: Window
    stream: str | None

    def by(self, column: str) -> Sliding:
        """The same, of rows whose time is in another column."""
        assert isinstance(self.window, Range)
        return replace(self, window=replace(self.window, time=column))

    def __str__(self) -> str:
        return f" in {self.window} of {self.stream or 'its rows'}"


@dataclass(frozen=True)
class Groups(_Over):
    """Aggregates of groups, over all rows so far, or those in a sliding window. What it gives is an answer, which changes."""

    remembers: ClassVar[bool] = True
    input: Rows
    grouping: Grouping
    sliding: Sliding | None
    fields: Fields  # of the answer

    def __str__(self) -> str:
        return f"aggregate {_grouped(self.grouping)}{self.sliding or ''}"


@dataclass(frozen=True)
class Windows(_Over):
    """Aggregates of groups in windows of event time: each is given once it is final, as a row of the leaf."""

    remembers: ClassVar[bool] = True
    input: Rows
    grouping: Grouping
    by: Hop | Session
    leaf: str
    fields: Fields

    @property
    def leaves(self) -> tuple[str, ...]:
        return (self.leaf,)

    def __str__(self) -> str:
        by = self.by
        kind = (
            f"windows of {by.size} every {by.slide}" if isinstance(by, Hop) else f"sessions of gap {by.gap}"
        )
        return f"aggregate {_grouped(self.grouping)} in {kind} by {by.time}"


@dataclass(frozen=True)
class Open(_Over):
    """Aggregates of groups in windows of event time, as an answer: also before they are final."""

    remembers: ClassVar[bool] = True
    input: Rows
    grouping: Grouping
    by: Hop
    fields: Fields

    def __str__(self) -> str:
        return f"aggregate {_grouped(self.grouping)} in open windows of {self.by.size} every {self.by.slide} by {self.by.time}"


@dataclass(frozen=True)
class Distinct(_Over):
    """Each row once, when it first comes, as a row of the leaf."""

    remembers: ClassVar[bool] = True
    input: Rows
    leaf: str
    fields: Fields

    @property
    def leaves(self) -> tuple[str, ...]:
        return (self.leaf,)

    def __str__(self) -> str:
        return "distinct"


@dataclass(frozen=True)
class Order:
    """A column to sort by."""

    column: str
    descending: bool
    nulls_first: bool

    def __str__(self) -> str:
        return f"{self.column}{' DESC' * self.descending} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


@dataclass(frozen=True)
class Keep(_Over):
    """Rows themselves: all so far, or those in a sliding window; of all so far only the first ``limit`` in an order, if that is given."""

    remembers: ClassVar[bool] = True
    input: Rows
    sliding: Sliding | None
    order: tuple[Order, ...]
    limit: int | None
    fields: Fields

    def __str__(self) -> str:
        first = (
            ""
            if self.limit is None
            else f" the first {self.limit} by {', '.join(map(str, self.order)) or 'arrival'}"
        )
        return f"keep{first or ' rows'}{self.sliding or ''}".replace("\0", "")


@dataclass(frozen=True)
class Top(_Over):
    """What is told of an answer: which of its rows (``having``), what of them, each once (``distinct``), in which order, how many, and
    whether whole or as differences (``emit``).

    Columns are of the leaf ``ANSWER``; ``order`` is by the columns of the result, and those of ``extra``, which are only sorted by.
    """

    remembers: ClassVar[bool] = True
    input: Groups | Open | Keep
    having: Expr | None
    names: tuple[str, ...]
    exprs: tuple[Expr, ...]
    extra: tuple[Expr, ...]
    distinct: bool
    order: tuple[Order, ...]
    limit: int | None
    emit: str

    def __str__(self) -> str:
        columns = ", ".join(f"{expr} AS {name}" for name, expr in zip(self.names, self.exprs, strict=True))
        parts = [
            f"{self.emit} {'distinct ' * self.distinct}{columns}",
            *([] if self.having is None else [f"having {self.having}"]),
            *([f"order by {', '.join(map(str, self.order))}"] if self.order else []),
            *([] if self.limit is None else [f"limit {self.limit}"]),
        ]
        return " ".join(parts).replace("\0", "")


@dataclass(frozen=True)
class Release(_Over):
    """Rows that come out in an order, and perhaps only the first ``limit`` of them; each once, when it is its turn.

    ``turn``: "now", those of a push among themselves; "passed", when the watermark has passed the column that ``order`` begins with; "end",
    at the end of the streams.
    """

    remembers: ClassVar[bool] = True
    input: Rows
    order: tuple[Order, ...]
    turn: str
    limit: int | None
    extra: int  # so many of the last columns are only sorted by

    def __str__(self) -> str:
        when = {"now": "", "passed": " as the watermark passes", "end": " at the end"}[self.turn]
        order = f" in the order of {', '.join(map(str, self.order))}{when}" if self.order else ""
        return f"append{order}{'' if self.limit is None else f' limit {self.limit}'}".replace("\0", "")


def _join_text(how: str, leaves: Sequence[str], windows: Sequence[Window], condition: Expr) -> str:
    within = ", ".join(f"{leaf} {window}" for leaf, window in zip(leaves, windows, strict=True))
    return f"join {how} of {within}\n  on {condition}".replace("\0", "")


def _grouped(grouping: Grouping) -> str:
    asked = []
    for one in grouping.aggregates:
        by = "" if one.by is None else f" by {one.by}"
        asked.append(f"{one.function}({one.column or '*'}{by}) AS {one.name}")
    keys = f"by {', '.join(grouping.keys)}" if grouping.keys else "of all rows"
    return f"{', '.join(asked)} {keys}".lstrip()


ANSWER = "answer"
Source = Scan | Join | JoinOf | Punctual | Windows | Distinct
Instruction = Source | Clock | Filter | Project | Union | Groups | Open | Keep | Top | Release


def streams_of(plan: Instruction) -> frozenset[str]:
    """The streams that a plan reads."""
    own = plan.streams if isinstance(plan, Join | Clock) else (plan.stream,) if isinstance(plan, Scan) else ()
    return frozenset(own).union(*map(streams_of, plan.inputs))
