"""``Processor``: what users write. Queries come and go between two pushes; a push goes through all of them, or through none."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.api.result import Result
from watersmeet.errors import OptionError, StateError, WatersmeetError, listed
from watersmeet.join.engine import JoinEngine
from watersmeet.join.outcome import Outcome
from watersmeet.query.block import JoinBlock
from watersmeet.query.catalog import Entry, bound_entry, read_query
from watersmeet.query.delta import Answer, side_by_side
from watersmeet.query.explain import explain_processor, explain_query
from watersmeet.query.feed import Batches, Feed, Known
from watersmeet.query.graph import Change, Graph, GraphTurn, blocks_of
from watersmeet.query.parse import parse_commands
from watersmeet.query.statement import Command
from watersmeet.streams.interleave import interleaving, order_codes
from watersmeet.streams.window import Window, named_windows

MOST_STREAMS = 100
FINISH = "finish()"
Entries = Mapping[str, Entry]
Given = TypeVar("Given")


@dataclass(frozen=True)
class Undo:
    """How everything stood before a call that has not come to its end."""

    entries: Entries
    fed: Any
    blocks: Any
    changes: list[Change] = field(default_factory=list)


@dataclass(frozen=True)
class Settle:
    """What remains to be done after a call that counts. It may be interrupted, and done again."""

    pushes: int
    changes: Sequence[Change]


class Results(dict[str, Result]):
    """What a push gives: a Result by the name of each query that runs. ``stopped``: the queries that this push has stopped, and why."""

    stopped: Mapping[str, str]


class Query:
    """A query of a processor: what ``create`` returns. It stays the same through ``alter``."""

    def __init__(self, processor: "Processor", number: int, name: str) -> None:
        self._processor, self._number, self.name = processor, number, name

    @property
    def sql(self) -> str:
        """The query's text."""
        return self._entry().asked.sql

    @property
    def state(self) -> str:
        """ "running", "waiting" (until streams have begun), "stopped" (by an error of its own) or "dropped"."""
        entry = self._processor._find(self.name, self._number)
        if entry is None:
            return "dropped"
        return "running" if entry.runs else "waiting" if entry.waits else "stopped"

    @property
    def reason(self) -> str | None:
        """What a waiting query waits for, or why a query was stopped."""
        entry = self._entry()
        return entry.waits or entry.stopped

    def alter(self, sql: str, *, windows: Mapping[str, Window] | None = None) -> None:
        """Another text, from the next push on. Joins that stay as they are keep their rows; others begin anew, as does a stopped query.

        ``windows``: as for ``create``. Default None: those that the query has.
        """
        self._processor._alter(self._entry(), sql, windows)

    def drop(self) -> None:
        """End the query; what only it has stored is let go of."""
        self._processor.drop(self._entry().name)

    def explain(self) -> str:
        """The blocks that answer the query, in words."""
        return self._processor._explain_one(self._entry())

    def _entry(self) -> Entry:
        entry = self._processor._find(self.name, self._number)
        if entry is None:
            raise StateError(f"query {self.name!r} must be there; it was dropped; create it anew")
        return entry

    def __repr__(self) -> str:
        return f"<Query {self.name!r}: {self.state}>"


class Processor:
    """Continuous SQL queries over live streams, added, changed and dropped while rows come.

    >>> import watersmeet as wm
    >>> qp = wm.Processor(trades=wm.Rows(1000), quotes=wm.Rows(1000))
    >>> big = qp.create("big", "SELECT sym, price FROM trades WHERE size > 100")
    >>> near = qp.create("near", "SELECT t.sym, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym AND t.price <= q.bid")
    >>> out = qp.push(
    ...     trades={"sym": ["A", "B"], "price": [1.0, 2.0], "size": [500, 50]}, quotes={"sym": ["A"], "bid": [1.5]}
    ... )
    >>> out["big"].to_arrow().to_pydict(), out["near"].to_arrow().to_pydict()
    ({'sym': ['A'], 'price': [1.0]}, {'sym': ['A'], 'bid': [1.5]})
    >>> big.drop()
    >>> qp.queries()
    {'near': <Query 'near': running>}

    Each stream is a keyword with its window, as for ``StreamJoin``: what a join takes unless a query says otherwise. Rows are stored once,
    however many queries read them, and only while one can still see them. The options:

    - ``windows``: ``{"trades": ...}``, in place of the keywords, for stream names that clash with an option.
    - ``schemas``: ``{"trades": schema, ...}``, Arrow schemas or dicts of Arrow types. Default: a stream's first batch has it.
    - ``cores``: on how many threads a push works, at least 1 (default). The result is the same.

    A query sees the rows that come after it was created. A query that names a stream whose schema is not known yet waits, and begins with
    the push that brings it. A query gives what it would give alone: others that come, go or fail do not change it.
    """

    def __init__(
        self,
        *,
        windows: Mapping[str, Window] | None = None,
        schemas: Mapping[str, Any] | None = None,
        cores: int = 1,
        **streams: Window,
    ) -> None:
        named = named_windows(windows, streams, OPTIONS, "Processor", 1, MOST_STREAMS)
        if isinstance(cores, bool) or not isinstance(cores, int) or cores < 1:
            raise OptionError(f"cores= must be a whole number of at least 1; got {cores!r}")
        self._feed = Feed(named, {} if schemas is None else schemas, cores)
        self._graph = Graph(self._feed)
        self.streams = tuple(named)
        self._entries: Entries = {}
        self._created = self._pushes = 0
        self._lock = threading.RLock()
        self._inside = self._finished = self._closed = False
        self._pending: Undo | Settle | None = None

    # ---- statements ---------------------------------------------------------------------------------------------

    def create(
        self, name: str, sql: str, *, windows: Mapping[str, Window] | None = None, start: str = "now"
    ) -> Query:
        """A new query, from the next push on.

        ``windows``: ``{"t": Rows(10)}``, by name in FROM, in place of the streams' own. ``start``: "now", it sees rows from then on.
        """
        if start != "now":
            raise OptionError(
                f"start= must be 'now'; got {start!r}; a start from stored rows is not supported"
            )
        number = self._in_turn("create()", self._execute, [Command("create", name, sql)], windows)[
            name
        ].number
        return Query(self, number, name)

    def drop(self, name: str) -> None:
        """End a query; what only it has stored is let go of."""
        self._in_turn("drop()", self._execute, [Command("drop", name, "")], None)

    def execute(self, statements: str) -> dict[str, Query]:
        """``CREATE QUERY name AS SELECT ...; ALTER QUERY name AS SELECT ...; DROP QUERY name``: all of them, or none if one is refused.

        Returns the queries that it has created or altered, by name.
        """
        commands = parse_commands(_text(statements))
        entries = self._in_turn("execute()", self._execute, commands, None)
        named = dict.fromkeys(command.name for command in commands)
        return {name: Query(self, entries[name].number, name) for name in named if name in entries}

    def queries(self) -> dict[str, Query]:
        """All queries by name, in the order in which they were created; also those that wait or have been stopped."""
        return {name: Query(self, entry.number, name) for name, entry in self._entries.items()}

    def _alter(self, entry: Entry, sql: str, windows: Mapping[str, Window] | None) -> None:
        self._in_turn("alter()", self._execute, [Command("alter", entry.name, sql)], windows)

    def _execute(self, commands: Sequence[Command], windows: Mapping[str, Window] | None) -> Entries:
        entries, created = dict(self._entries), self._created
        for command in commands:
            name = self._name(command, entries)
            if command.verb == "drop":
                del entries[name]
                continue
            old = entries.get(name)
            number = created if old is None else old.number
            created += old is None
            own = old.asked.windows if windows is None and old is not None else windows
            entry = Entry(number, name, read_query(command.sql, own, list(self.streams)))
            entries[name] = self._bound(entry, {} if old is None else old.starts)
        undo = self._undoable()
        self._change(entries, undo)
        self._created = created
        made = self._entries
        self._pending = Settle(self._pushes, undo.changes)
        return made

    def _name(self, command: Command, entries: Entries) -> str:
        name = command.name
        if not isinstance(name, str) or not name:
            raise OptionError(f"the name of a query must be a text; got {name!r}")
        if command.verb == "create" and name in entries:
            raise OptionError(
                f"the name of a new query must be free; got {name!r}, which is there; alter it, or drop it first"
            )
        if command.verb != "create" and name not in entries:
            there = listed([repr(one) for one in entries]) if entries else "none"
            raise OptionError(f"{command.verb} must name a query that is there: {there}; got {name!r}")
        return name

    def _bound(self, entry: Entry, kept: Mapping[Any, int]) -> Entry:
        return bound_entry(entry, self._feed.known.schemas, self._feed.windows, self._pushes, kept)

    def _change(self, entries: Entries, undo: Undo) -> None:
        """Other queries, at once."""
        kept = [entry.root for entry in entries.values() if entry.root is not None]
        fresh = [
            (entry, entry.bound)
            for entry in entries.values()
            if entry.root is None and entry.bound is not None
        ]
        plans = [(bound.plan, entry.starts) for entry, bound in fresh]
        roots = self._graph.become(kept, plans, undo.changes)
        made = {entry.name: replace(entry, root=root) for (entry, _), root in zip(fresh, roots, strict=True)}
        self._entries = {name: made.get(name, entry) for name, entry in entries.items()}

    # ---- streams in ---------------------------------------------------------------------------------------------

    def push(self, rows: Mapping[str, Any] | None = None, /, *, order: Any = None, **batches: Any) -> Results:
        """Let rows arrive, and get what every running query makes of them: Results by name of the query.

        Batches, ``order`` and errors are as for ``StreamJoin.push``: within one call the streams arrive in keyword order, unless ``order``
        says otherwise (names of streams, one per row, or a time column that all streams of the call have); a push is all or nothing; pushes
        of several threads take turns. An error inside a query stops that query: it is in ``results.stopped``, and not in later results.
        """
        if rows is not None:
            if not isinstance(rows, Mapping):
                raise OptionError(
                    f"push() takes batches by stream, such as push({self.streams[0]}=batch) or push({{{self.streams[0]!r}: batch}}); got "
                    f"{type(rows).__name__}"
                )
            batches = {**rows, **batches}
        known = self._feed.known
        arrows: dict[str, pa.RecordBatch] = {}
        for name, data in batches.items():  # runs code of the user's, before it is this push's turn
            if name not in known.readers:
                raise OptionError(
                    f"push() takes the streams {listed([repr(one) for one in self.streams])}; got {name!r}"
                )
            batch = known.readers[name].read(data)
            if batch is not None:
                arrows[name] = batch
        return self._in_turn("a push", self._push, known, arrows, order)

    def _push(self, known: Known, arrows: dict[str, pa.RecordBatch], order: Any) -> Results:
        feed = self._feed
        if known is not feed.known:  # a schema, or a type, has become known since
            read = {name: feed.known.readers[name].read(batch) for name, batch in arrows.items()}
            arrows = {name: batch for name, batch in read.items() if batch is not None}
        undo = self._undoable()
        stopped: dict[str, str] = {}
        self._learn(arrows, stopped, undo)
        feed.check_times(arrows)
        turns = [self.streams.index(name) for name in arrows]
        sequence = self._sequence(order, arrows)
        firsts = {name: feed.arrived(name) for name in arrows}
        outcomes = self._joined(arrows, sequence, turns, stopped)
        results = self._results(GraphTurn(feed.known.schemas, arrows, firsts, outcomes), stopped)
        return self._counted(results, stopped, self._pushes + 1)

    def _learn(self, arrows: Batches, stopped: dict[str, str], undo: Undo) -> None:
        """What a push makes known; queries that have waited for it begin."""
        fresh = self._feed.news(arrows)
        if fresh:
            self._feed.learn(fresh)
            entries = {
                name: self._rebound(entry, fresh.keys(), stopped) for name, entry in self._entries.items()
            }
            self._change(entries, undo)

    def _rebound(self, entry: Entry, streams: Any, stopped: dict[str, str]) -> Entry:
        if entry.stopped is not None or entry.asked.streams.isdisjoint(streams):
            return entry
        try:
            return self._bound(entry, entry.starts)
        except WatersmeetError as error:
            stopped[entry.name] = str(error)
            return entry.because(str(error))

    def _sequence(self, order: Any, arrows: Batches) -> np.ndarray | None:
        if order is None or (isinstance(order, str) and not arrows):
            return None
        names = list(arrows) if isinstance(order, str) else list(self.streams)
        sizes = [arrows[name].num_rows if name in arrows else 0 for name in names]
        codes: list[np.ndarray | None] = [None] * len(names)
        if isinstance(order, str):
            schemas = [self._feed.known.schemas[name] for name in names]
            codes = list(order_codes(order, names, schemas, [arrows[name] for name in names]))
        found = interleaving(order, names, sizes, codes)
        return np.array([self.streams.index(name) for name in names], np.uint8)[found]

    def _joined(
        self, arrows: Batches, sequence: np.ndarray | None, turns: Sequence[int], stopped: dict[str, str]
    ) -> dict[JoinEngine, Outcome]:
        """What the joins find. One that fails is stopped, with the queries that it is for, and the others begin again."""
        while True:
            try:
                return self._feed.push(arrows, sequence, turns)
            except MemoryError:
                raise
            except Exception:
                failures = dict(self._feed.shared.failures)
                if not failures:
                    raise
                self._stop_joins(failures, stopped)

    def _stop_joins(self, failures: Mapping[JoinEngine, Exception], stopped: dict[str, str]) -> None:
        """Joins that have failed end here, and stay so should the push be taken back for another reason."""
        self._feed.shared.take_back()
        undo = self._pending
        assert isinstance(undo, Undo)
        before = {name: _stopped_by(entry, failures, {}) for name, entry in undo.entries.items()}
        self._pending = undo = replace(undo, entries=before)
        failed = [
            block
            for block in self._graph.blocks.values()
            if isinstance(block, JoinBlock) and block.engine in failures
        ]
        entries = {name: _stopped_by(entry, failures, stopped) for name, entry in self._entries.items()}
        self._change(entries, undo)
        for block in failed:
            self._feed.detach(block)

    def _results(self, turn: GraphTurn, stopped: dict[str, str]) -> dict[str, Result]:
        results = {}
        for name, entry in self._entries.items():
            if entry.root is None or entry.bound is None:
                continue
            try:
                delta = turn.of(entry.root)
                matches, chunks = side_by_side(delta)
                results[name] = Result(Answer(delta, entry.bound.names), matches, chunks, delta.late)
            except MemoryError:
                raise
            except Exception as error:
                stopped[name] = _said(error)
        return results

    def _counted(self, results: dict[str, Result], stopped: dict[str, str], pushes: int) -> Results:
        """A push counts from the moment on that what remains to be done is noted: that is done before the next call."""
        undo = self._pending
        assert isinstance(undo, Undo)
        if stopped.keys() & results.keys() or any(self._entries[name].runs for name in stopped):
            entries = {
                name: entry.because(stopped[name]) if name in stopped else entry
                for name, entry in self._entries.items()
            }
            self._change(entries, undo)
        given = Results(results)
        given.stopped = stopped
        self._pending = Settle(pushes, undo.changes)
        return given

    def finish(self) -> Results:
        """End the streams: every query gives the rows that still wait for a partner. No push after it."""
        return self._in_turn(FINISH, self._finish)

    def _finish(self) -> Results:
        shared = self._feed.shared
        shared.mend()
        self._undoable()
        stopped: dict[str, str] = {}
        outcomes = {engine: engine.finish() for engine in shared.readers}
        results = self._results(GraphTurn(self._feed.known.schemas, {}, {}, outcomes), stopped)
        given = self._counted(results, stopped, self._pushes)
        self._finished = True
        return given

    # ---- all or nothing -----------------------------------------------------------------------------------------

    def _in_turn(self, call: str, do: Callable[..., Given], *args: Any) -> Given:
        """One call at a time, and all of it or nothing: whatever fails on the way, what it has changed is taken back."""
        with self._lock:
            if self._inside or self._finished or self._closed:
                raise self._refused(call)
            try:
                self._inside = True
                self._mend()
                return do(*args)
            except BaseException:
                self._mend()
                raise
            finally:
                self._inside = False

    def _undoable(self) -> Undo:
        """From here on everything that changes is taken back, unless the call counts in the end."""
        undo = Undo(self._entries, self._feed.mark(), self._graph.mark())
        self._pending = undo
        return undo

    def _mend(self) -> None:
        """What a call has left to do: to take back what it has changed, or to let go of what is not needed any more."""
        pending = self._pending
        if isinstance(pending, Undo):
            self._take_back(pending)
        elif pending is not None:
            self._pushes = pending.pushes
            self._feed.shared.commit()
            for change in pending.changes:
                self._graph.settle(change)
        self._pending = None

    def _take_back(self, undo: Undo) -> None:
        shared = self._feed.shared
        shared.take_back()
        for engine in shared.readers:
            engine.take_back()
        for change in reversed(undo.changes):
            self._graph.undo(change)
        self._feed.back_to(undo.fed)
        self._graph.back_to(undo.blocks)
        self._entries = undo.entries

    def _refused(self, what: str) -> StateError:
        if self._inside:
            return StateError(
                f"a processor must have ended one call before the next; got {what} from within a call, by a signal handler for instance; "
                "let the handler set a flag, and call when the push is over"
            )
        call = FINISH if self._finished else "close()"
        return StateError(f"the processor must be open; got {what} after {call}; make a new Processor")

    def close(self) -> None:
        """End the threads. A closed processor takes no more rows."""
        with self._lock:
            self._closed = True
            if not self._inside:
                self._mend()
            self._feed.shared.close()

    def __enter__(self) -> "Processor":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- what there is ------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """The streams, the queries and the blocks that answer them, in words."""
        with self._lock:
            if not self._inside:
                self._mend()
            return explain_processor(self._feed, self._entries)

    def _explain_one(self, entry: Entry) -> str:
        with self._lock:
            return explain_query(entry, self._entries)

    def _find(self, name: str, number: int) -> Entry | None:
        entry = self._entries.get(name)
        return None if entry is None or entry.number != number else entry

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={window}" for name, window in self._feed.windows.items())
        ended = "; finished" if self._finished else "; closed" if self._closed else ""
        return (
            f"<Processor of {held}: {listed([repr(name) for name in self._entries]) or 'no queries'}{ended}>"
        )


def _text(statements: Any) -> str:
    if not isinstance(statements, str):
        raise OptionError(f"statements must be SQL text; got {statements!r}")
    return statements


def _said(error: Exception) -> str:
    """Why a query was stopped. The push was not refused, as a join alone would have it."""
    if isinstance(error, WatersmeetError):
        return str(error).replace("the push was refused whole: ", "")
    return f"{type(error).__name__}: {error}"


def _stopped_by(entry: Entry, failures: Mapping[JoinEngine, Exception], stopped: dict[str, str]) -> Entry:
    for block in () if entry.root is None else blocks_of(entry.root):
        if isinstance(block, JoinBlock) and block.engine in failures:
            stopped[entry.name] = _said(failures[block.engine])
            return entry.because(stopped[entry.name])
    return entry


OPTIONS = tuple(
    name for name, option in signature(Processor).parameters.items() if option.kind is option.KEYWORD_ONLY
)
