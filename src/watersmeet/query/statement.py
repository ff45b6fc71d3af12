"""The untyped tree of a query: what was written, each part with its place in the text. Nothing here knows schemas or the SQL parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from watersmeet.sql.syntax import Span, Syntax

AGGREGATE = "aggregate"
"""The ``op`` of an aggregate. Its value is an ``AggregateCall``; its arguments are what that names."""


WINDOW, SESSION = "window", "session_window"
"""The ``op`` of a window of event time in GROUP BY. Its argument is the time, its value the lengths: timedeltas or numbers."""

START, END = "start", "end"
"""What can be taken of it, as in ``window.start``."""


@dataclass(frozen=True)
class AggregateCall:
    """What an aggregate is: a function of ``aggregate/spec.py``, and which arguments it has, in their order."""

    function: str
    of: bool  # the value; COUNT(*) has none
    by: bool = False  # MIN_BY and MAX_BY: what they go by
    where: bool = False  # FILTER (WHERE ...)
    skips_null: bool = False  # FIRST and LAST that pass over NULL


def has_aggregate(node: Syntax) -> bool:
    """Whether an expression has an aggregate in it."""
    return node.op == AGGREGATE or any(map(has_aggregate, node.args))


@dataclass(frozen=True)
class WindowCall:
    """A window that the text gives a stream: ``last_rows(s, 10)``, ``last_range(s, INTERVAL 1 MINUTE)``, ``unbounded(s)``."""

    function: str
    size: int | float | timedelta | None
    span: Span


@dataclass(frozen=True)
class StreamName:
    """A stream in FROM."""

    name: str
    alias: str
    window: WindowCall | None
    span: Span


@dataclass(frozen=True)
class Derived:
    """A query in FROM: a subquery, or the name of one that WITH has given. ``window``: which of its rows are meant."""

    query: Query
    alias: str
    span: Span
    window: WindowCall | None = None


@dataclass(frozen=True)
class Joined:
    """What is joined to the inputs before it, and how: a name that ``join_type`` knows."""

    how: str
    item: StreamName | Derived
    on: Syntax | None
    span: Span


@dataclass(frozen=True)
class Ordered:
    """An item of ORDER BY."""

    by: Syntax
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Sorting:
    """``ORDER BY items LIMIT limit``, at the end of a query; ``span``: where it is written."""

    items: tuple[Ordered, ...] = ()
    limit: int | None = None
    span: Span = (0, 0)

    def __bool__(self) -> bool:
        return bool(self.items) or self.limit is not None


@dataclass(frozen=True)
class Select:
    """``SELECT items FROM first, joined WHERE where GROUP BY group HAVING having``, and how it is sorted."""

    items: tuple[Syntax, ...]
    first: StreamName | Derived
    joined: tuple[Joined, ...]
    where: Syntax | None
    span: Span
    distinct: bool = False
    group: tuple[Syntax, ...] = ()
    having: Syntax | None = None
    sorting: Sorting = Sorting()

    @property
    def grouped(self) -> bool:
        """Whether it is about groups of rows."""
        asked = [*self.items, *(item.by for item in self.sorting.items)]
        return bool(self.group) or self.having is not None or any(map(has_aggregate, asked))

    @property
    def inputs(self) -> list[StreamName | Derived]:
        """All that stands in FROM, in its order."""
        return [self.first, *(joined.item for joined in self.joined)]


@dataclass(frozen=True)
class UnionAll:
    """All rows of several queries."""

    parts: tuple[Query, ...]
    sorting: Sorting = Sorting()


Query = Select | UnionAll


@dataclass(frozen=True)
class Command:
    """A statement of ``Processor.execute``: what to do with the query of that name; ``sql`` is its text, "" for DROP.

    ``emit``: what its results are; None: as it was, or what the text suggests.
    """

    verb: str
    name: str
    sql: str
    emit: str | None = None
    warm: bool = False  # whether the query begins with the rows that are stored
    backfill: bool = False  # whether what it makes of them is asked for
    at: int = field(default=0, compare=False)  # where ``sql`` begins in the text of the statements
