"""The untyped tree of a query: what was written, each part with its place in the text. Nothing here knows schemas or the SQL parser."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from watersmeet.sql.syntax import Span, Syntax


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
    """A query in FROM: a subquery, or the name of one that WITH has given."""

    query: Query
    alias: str
    span: Span


@dataclass(frozen=True)
class Joined:
    """What is joined to the inputs before it, and how: a name that ``join_type`` knows."""

    how: str
    item: StreamName | Derived
    on: Syntax | None
    span: Span


@dataclass(frozen=True)
class Select:
    """``SELECT items FROM first, joined WHERE where``."""

    items: tuple[Syntax, ...]
    first: StreamName | Derived
    joined: tuple[Joined, ...]
    where: Syntax | None
    span: Span

    @property
    def inputs(self) -> list[StreamName | Derived]:
        """All that stands in FROM, in its order."""
        return [self.first, *(joined.item for joined in self.joined)]


@dataclass(frozen=True)
class UnionAll:
    """All rows of several queries."""

    parts: tuple[Query, ...]


Query = Select | UnionAll


@dataclass(frozen=True)
class Command:
    """A statement of ``Processor.execute``: what to do with the query of that name; ``sql`` is its text, "" for DROP."""

    verb: str
    name: str
    sql: str
    warm: bool = False  # whether the query begins with the rows that are stored
    backfill: bool = False  # whether what it makes of them is asked for
