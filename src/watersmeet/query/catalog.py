"""The queries of a processor as values: what was asked, what it means by now, and whether it runs, waits or has been stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from watersmeet.errors import ConditionError, OptionError
from watersmeet.query.answer import Bound, bind_query, check_emit
from watersmeet.query.block import Block, JoinBlock
from watersmeet.query.graph import AT_ONCE, WARM, Start, Starts, blocks_of, joins_of, remembering
from watersmeet.query.instruction import Join, JoinOf
from watersmeet.query.parse import parse_query
from watersmeet.query.setting import Setting
from watersmeet.query.statement import Derived, Query, Select, StreamName
from watersmeet.sql.syntax import Source
from watersmeet.streams.clock import TimeAxis
from watersmeet.streams.schema import is_open
from watersmeet.streams.window import Window


@dataclass(frozen=True)
class Asked:
    """The text of a query and its own windows, read."""

    sql: str
    windows: Mapping[str, Window]
    source: Source
    tree: Query
    emit: str | None = None  # None: what the text suggests

    @property
    def streams(self) -> set[str]:
        """The streams that it names."""
        return set(_streams(self.tree))


def read_query(
    sql: str, windows: Mapping[str, Window] | None, streams: list[str], emit: str | None = None
) -> Asked:
    """A query's text, its syntax and the names of its streams checked."""
    if not isinstance(sql, str):
        raise OptionError(f"a query must be SQL text; got {sql!r}")
    own = dict(windows or {}) if isinstance(windows, Mapping | None) else None
    if own is None or not all(isinstance(window, Window) for window in own.values()):
        raise OptionError(
            f"windows= must be a dict from a name in FROM to a window, such as {{'t': Rows(100)}}; got {windows!r}"
        )
    check_emit(emit)
    return Asked(sql, own, *parse_query(sql, streams), emit)


def _streams(query: Query) -> Iterator[str]:
    if not isinstance(query, Select):
        for part in query.parts:
            yield from _streams(part)
        return
    for item in query.inputs:
        if isinstance(item, StreamName):
            yield item.name
        else:
            yield from _streams(item.query)


@dataclass(frozen=True)
class Entry:
    """A query of a processor, as it stands between two pushes."""

    number: int  # no two have the same, also of queries that are gone
    name: str
    asked: Asked
    bound: Bound | None = None
    starts: Starts = field(default_factory=dict)  # of all that remembers
    since: Mapping[str, int] = field(
        default_factory=dict
    )  # by stream: the first row that it was given, or will be
    # The moment of the history at which it was created or altered, if it had to wait then; None: it has begun.
    moment: int | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by stream: those that it may name
    generation: int = 0  # how often it was altered
    warm: bool = False  # whether it begins with the rows that are stored
    backfill: bool = False  # whether what it makes of them is asked for
    # Whether its blocks still have to be given the past: what they make of it is asked for, or they remember it, and are no joins.
    looks_back: bool = False
    root: Block | None = None
    waits: str | None = None  # for what, until it can be bound
    stopped: str | None = None  # why

    @property
    def runs(self) -> bool:
        return self.bound is not None

    @property
    def complete_from(self) -> dict[str, int] | None:
        """By stream, from which row on its results are complete; None: not yet, not known, or it does not run."""
        if self.root is None:
            return None
        found = dict(self.since)
        for block in blocks_of(self.root):
            if isinstance(block, JoinBlock):
                complete = block.complete_from
                if complete is None:
                    return None
                found = {stream: max(number, complete.get(stream, 0)) for stream, number in found.items()}
        if any(found.values()) and not all(isinstance(one, Join) for one in self.starts):
            return None  # what else remembers may remember rows that it was never given
        return found

    def because(self, reason: str) -> Entry:
        """The same, stopped."""
        return replace(self, bound=None, starts={}, root=None, waits=None, moment=None, stopped=reason)


def bound_entry(
    entry: Entry,
    schemas: Mapping[str, pa.Schema],
    windows: Mapping[str, Window],
    tables: Collection[str],
    now: Start,
    kept: Starts,
) -> Entry:
    """A query with what is known by now: it runs, or waits for what is not known. What does not fit is refused. It names the columns that
    its streams had when it began: others may have been added since.

    ``now``: how blocks begin that are new. ``kept``: what it had before that remembers, which goes on, unless the past of it is asked for.
    A warm query shares new ones with others, if their past is not asked for.
    """
    asked = entry.asked
    unknown = sorted(asked.streams - schemas.keys())
    if unknown:
        return _waiting(entry, f"the schema of stream {unknown[0]!r}")
    columns = entry.columns or {stream: schemas[stream].names for stream in sorted(asked.streams)}
    known = schemas
    schemas = {
        stream: pa.schema([known[stream].field(name) for name in names]) for stream, names in columns.items()
    }
    try:
        setting = Setting(schemas, windows, asked.windows, asked.emit, tables)
        bound = bind_query(asked.source, asked.tree, setting)
    except ConditionError:
        open_columns = [
            f"{stream}.{name}" for stream in sorted(asked.streams) for name in _open(schemas[stream])
        ]
        if not open_columns:
            raise
        return _waiting(entry, f"the type of column {open_columns[0]}")
    for column in _compared_columns(asked, bound, schemas):
        return _waiting(entry, f"the type of column {column}")
    if any(isinstance(one, JoinOf) for one in remembering(bound.plan)) and any(map(_open, schemas.values())):
        # It keeps whole rows of streams: those columns it does not name, and can do without for good.
        columns = {
            stream: [name for name in names if name not in _open(schemas[stream])]
            for stream, names in columns.items()
        }
        return bound_entry(replace(entry, columns=columns), known, windows, tables, now, kept)
    for join in joins_of(bound.plan):
        if any(window.timed for window in join.windows):  # refuses windows that do not fit the time columns
            TimeAxis(join.leaves, join.windows, [schemas[stream] for stream in join.streams])
    stateful = list(remembering(bound.plan))
    looks_back = entry.backfill or (
        entry.warm
        and (now.moment != AT_ONCE or any(not isinstance(one, Join) and one not in kept for one in stateful))
    )
    if looks_back:
        kept = {}
    elif entry.warm:
        now = now._replace(warm=WARM)
    starts = {one: kept.get(one, now) for one in stateful}
    if bound == entry.bound and starts == entry.starts:
        return entry
    return replace(
        entry, bound=bound, starts=starts, columns=columns, root=None, waits=None, looks_back=looks_back
    )


def _waiting(entry: Entry, what: str) -> Entry:
    return replace(entry, bound=None, starts={}, root=None, waits=what)


def _open(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if is_open(field.type)]


def _compared_columns(asked: Asked, bound: Bound, schemas: Mapping[str, pa.Schema]) -> Iterator[str]:
    """The columns without a type by which a join may compare rows, or that are remembered: what is stored would have to be coded anew when
    they get one."""
    joins = list(joins_of(bound.plan))
    remembers = any(not isinstance(part, Join) for part in remembering(bound.plan))
    if not joins and not remembers:
        return
    times = {
        (stream, window.time)
        for join in joins
        for stream, window in zip(join.streams, join.windows, strict=True)
    }
    names = _compared_names(asked.tree, outermost=not remembers)
    for stream in sorted(asked.streams):
        for name in _open(schemas[stream]):
            if name.lower() in names or (remembers and "*" in names) or (stream, name) in times:
                yield f"{stream}.{name}"


def _compared_names(query: Query, outermost: bool) -> set[str]:
    """Names in all conditions, and in what queries inside of it select: conditions may be about that."""
    if not isinstance(query, Select):
        return set().union(*(_compared_names(part, outermost) for part in query.parts))
    nodes = [joined.on for joined in query.joined if joined.on is not None]
    nodes += [query.where] if query.where is not None else []
    nodes += [] if outermost else [*query.items, *query.group, *(item.by for item in query.sorting.items)]
    nodes += [query.having] if query.having is not None else []
    inner = [
        _compared_names(item.query, outermost=False) for item in query.inputs if isinstance(item, Derived)
    ]
    return set().union(*(node.names() for node in nodes), *inner)
