"""``Processor``: what users write. Queries come and go between two pushes; a push goes through all of them, or through none."""

import threading
from collections.abc import Callable, Mapping
from inspect import signature
from os import PathLike
from time import perf_counter
from typing import Any

import pyarrow as pa

from watersmeet.api.result import Result
from watersmeet.api.state import read_state, write_state
from watersmeet.errors import DataError, OptionError, StateError, listed
from watersmeet.fabric.fabric import Fabric, FabricAssignment
from watersmeet.query.catalog import Entry
from watersmeet.query.describe import describe_processor
from watersmeet.query.explain import block_readers, explain_processor, explain_query
from watersmeet.query.feed import Feed
from watersmeet.query.parse import parse_commands
from watersmeet.query.placed import Placing
from watersmeet.query.running import Ending, Given, Results, Running, dropped
from watersmeet.query.saving import restored, running_state
from watersmeet.query.statement import Command
from watersmeet.query.stats import processor_stats
from watersmeet.query.tables import read_tables
from watersmeet.streams.moment import moment, refused
from watersmeet.streams.schema import added_columns
from watersmeet.streams.window import Unbounded, Window, named_windows

MOST_STREAMS = 100
FINISH = "finish()"
KIND = "Processor"  # of a saved state


class Query:
    """A query of a processor: what ``create`` returns. It stays the same through ``alter``."""

    def __init__(
        self, processor: "Processor", number: int, name: str, backfill: Result | None = None
    ) -> None:
        self._processor, self._number, self.name = processor, number, name
        self.backfill = backfill
        """What the query makes of the rows that were stored, if ``create`` or ``alter`` were called with ``backfill=True``; else None."""

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

    @property
    def complete_from(self) -> dict[str, int] | None:
        """By stream, the arrival number from which on results are complete: what a row with that number or a later one adds is all that
        it would have added, had the query always been there. None: not yet; rows may still match some that the query does not know.
        """
        return self._entry().complete_from

    @property
    def number(self) -> int:
        """Which query of its processor it is, from 0 on; a query that is dropped and created again has another."""
        return self._number

    @property
    def generation(self) -> int:
        """How often the query was altered."""
        return self._entry().generation

    def alter(
        self,
        sql: str,
        *,
        windows: Mapping[str, Window] | None = None,
        start: str = "now",
        backfill: bool = False,
        emit: str | None = None,
    ) -> None:
        """Another text, from the next push on. Joins and aggregates that stay as they are keep what they have; others begin anew, as does a
        stopped query.

        ``windows``, ``emit``: as for ``create``. Default None: those that the query was given. ``start``, ``backfill``: as for ``create``,
        for what begins anew; with ``backfill=True`` that is everything.
        """
        command = Command("alter", self.name, sql, emit, *_start(start, backfill))
        self.backfill = self._processor._change_one(self._number, command, windows)

    def drop(self) -> None:
        """End the query; what only it has stored is let go of."""
        self._processor._change_one(self._number, Command("drop", self.name, ""), None)

    def explain(self) -> str:
        """The blocks that answer the query, in words."""
        return self._processor._explain_one(self._entry())

    def _entry(self) -> Entry:
        entry = self._processor._find(self.name, self._number)
        if entry is None:
            raise dropped(self.name)
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
    however many queries read them: a stream keeps its own window, and more while a query can still see it. The options:

    - ``windows``: ``{"trades": ...}``, in place of the keywords, for stream names that clash with an option.
    - ``schemas``: ``{"trades": schema, ...}``, Arrow schemas or dicts of Arrow types. Default: a stream's first batch has it.
    - ``cores``: on how many threads a push works, at least 1 (default). The result is the same.
    - ``fabric``: a ``Fabric`` of blocks that the queries are assigned to; a query that does not fit it is refused. The result is the same.
    - ``keep``: "windows" (default), a stream keeps its own window even if no query reads it, for queries that start warm; "queries", only
      what queries may still see.
    - ``watermark``: "row" (default), it moves with every row, so that results do not depend on how rows are pushed; "push", once after each
      push, as Spark moves it after each batch: no row is late by rows that come with it.
    - ``tables``: ``{"symbols": data, ...}``, anything that ``push`` takes: rows that queries may name in FROM and join with streams. They
      were there before the first row, stay as they are, and are stored once.

    A query sees the rows that come after it was created. A query that names a stream whose schema is not known yet waits, and begins with
    the push that brings it: with all rows that came since it was created, which are kept until then. A query gives what it would give
    alone: others that come, go or fail do not change it.
    """

    def __init__(
        self,
        *,
        windows: Mapping[str, Window] | None = None,
        schemas: Mapping[str, Any] | None = None,
        cores: int = 1,
        fabric: Fabric | None = None,
        keep: str = "windows",
        watermark: str = "row",
        tables: Mapping[str, Any] | None = None,
        **streams: Window,
    ) -> None:
        named = named_windows(windows, streams, OPTIONS, "Processor", 1, MOST_STREAMS)
        if isinstance(cores, bool) or not isinstance(cores, int) or cores < 1:
            raise OptionError(f"cores= must be a whole number of at least 1; got {cores!r}")
        if keep not in ("windows", "queries"):
            raise OptionError(f"keep= must be 'windows' or 'queries'; got {keep!r}")
        if watermark not in ("row", "push"):
            raise OptionError(f"watermark= must be 'row' or 'push'; got {watermark!r}")
        filled = read_tables(tables, named)
        held = {**named, **dict.fromkeys(filled, Unbounded())}
        given = {} if schemas is None else schemas
        feed = Feed(held, given, cores, keep == "windows", filled, watermark == "push")
        feed.fill(filled)
        self._run(Running(feed, Placing(fabric, {name: table.num_rows for name, table in filled.items()})))

    def _run(self, running: Running) -> None:
        feed = running.feed
        self._running, self.streams = running, tuple(name for name in feed.names if name not in feed.tables)
        self._lock = threading.RLock()
        self._watchers: tuple[Callable[[Results], None], ...] = ()
        self._inside = self._finished = self._closed = False
        self.seconds = 0.0
        """What calls have taken so far, by the clock, also those that were refused; since it was made or loaded."""

    # ---- statements ---------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        sql: str,
        *,
        windows: Mapping[str, Window] | None = None,
        start: str = "now",
        backfill: bool = False,
        emit: str | None = None,
    ) -> Query:
        """A new query, from the next push on.

        - ``windows``: ``{"t": Rows(10)}``, by name in FROM, in place of the streams' own.
        - ``start``: "now", it sees rows from then on; "warm", it goes on as if it had been there when the rows came that are still stored.
        - ``backfill``: with ``start="warm"``, also what it would have given for those rows, as ``query.backfill``. Default False.
        - ``emit``: what a push gives: "append", rows that are final, each once; "update", the groups that differ; "complete", the whole
          answer; "changelog", rows that go and come. Default: "append" where rows are final, "complete" with ORDER BY, LIMIT or without
          GROUP BY, else "update".

        ``query.complete_from`` says from which arrival number of each stream on its results are complete.
        """
        command = Command("create", name, sql, emit, *_start(start, backfill))
        return self._in_turn(
            "create()",
            self._running.execute,
            [command],
            windows,
            None,
            lambda entries, past: self._handle(entries[name], past.get(name)),
        )

    def drop(self, name: str) -> None:
        """End a query; what only it has stored is let go of."""
        self._in_turn("drop()", self._running.execute, [Command("drop", name, "")])

    def execute(self, statements: str) -> dict[str, Query]:
        """``CREATE QUERY name AS SELECT ...; ALTER QUERY name AS SELECT ...; DROP QUERY name``: all of them, or none if one is refused.
        ``CREATE QUERY name EMIT complete AS SELECT ...`` is ``emit="complete"``, also with ALTER.

        ``CREATE QUERY name START WARM AS ...``, ``... START WARM BACKFILL AS ...``: as ``start="warm"`` and ``backfill=True``.

        Returns the queries that it has created or altered, by name.
        """
        commands = parse_commands(_text(statements))
        named = dict.fromkeys(command.name for command in commands)

        def shown(entries: Mapping[str, Entry], past: Mapping[str, Result]) -> dict[str, Query]:
            return {name: self._handle(entries[name], past.get(name)) for name in named if name in entries}

        return self._in_turn("execute()", self._running.execute, commands, None, None, shown)

    def alter_stream(self, stream: str, *, add: Mapping[str, pa.DataType] | pa.Schema) -> None:
        """A stream has more columns from the next push on: ``qp.alter_stream("trades", add={"venue": pa.string()})``.

        They are NULL in the rows that are stored, and in those of batches that leave them out. Queries keep their columns, also where they
        have ``*``; those that are created or altered from now on see the new ones.
        """
        self._in_turn("alter_stream()", self._grow, stream, add)

    def _grow(self, stream: str, add: Any, ending: Ending) -> None:
        if stream not in self.streams:
            raise OptionError(
                f"alter_stream() takes one of the streams {listed([repr(one) for one in self.streams])}; got {stream!r}"
            )
        known = self._running.feed.known.schemas.get(stream)
        if known is None:
            raise StateError(
                f"alter_stream() needs the schema of stream {stream!r}, which is not known yet; give schemas=, or push a batch first"
            )
        self._running.grow(stream, added_columns(stream, add, known), ending)

    def queries(self) -> dict[str, Query]:
        """All queries by name, in the order in which they were created; also those that wait or have been stopped."""
        return {name: self._handle(entry) for name, entry in self._running.entries.items()}

    def _handle(self, entry: Entry, past: Result | None = None) -> Query:
        return Query(self, entry.number, entry.name, past)

    def _change_one(
        self, number: int, command: Command, windows: Mapping[str, Window] | None
    ) -> Result | None:
        return self._in_turn(
            f"{command.verb}()",
            self._running.execute,
            [command],
            windows,
            number,
            lambda entries, past: past.get(command.name),
        )

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
        known = self._running.feed.known
        arrows: dict[str, pa.RecordBatch] = {}
        for name, data in batches.items():  # runs code of the user's, before it is this push's turn
            if name not in self.streams:
                raise OptionError(
                    f"push() takes the streams {listed([repr(one) for one in self.streams])}; got {name!r}"
                )
            batch = known.readers[name].read(data)
            if batch is not None:
                arrows[name] = batch
        return self._in_turn("a push", self._running.push, known, arrows, order)

    def advance(self, clocks: Mapping[str, Any] | None = None, /, **times: Any) -> Results:
        """Move the clocks of streams that have no rows to push, and get the results that waited for it.

        ``qp.advance(quotes="2024-05-01 12:00:05")``, as ``StreamJoin.advance``: to every query it is as if a row with that time had come
        that matches nothing. The stream's own window must be a ``Range``, whose column the time is of.
        """
        if clocks is not None and not isinstance(clocks, Mapping):
            raise OptionError(
                f"advance() takes times by stream, such as advance({self.streams[0]}=time); got {type(clocks).__name__}"
            )
        return self._in_turn("advance()", self._advance, {**(clocks or {}), **times})

    def _advance(self, times: Mapping[str, Any], ending: Ending) -> Results:
        return self._running.advance(
            {name: self._moment(name, value) for name, value in times.items()}, ending
        )

    def _moment(self, stream: str, value: Any) -> pa.Array:
        if stream not in self.streams:
            raise OptionError(
                f"advance() takes the streams {listed([repr(one) for one in self.streams])}; got {stream!r}"
            )
        feed = self._running.feed
        window, axis = feed.windows[stream], feed.known.axes.get(stream)
        if window.time is None:
            raise OptionError(
                f"advance() moves the clock of a stream with a Range window; got stream {stream!r}, whose window is {window!r}"
            )
        if axis is None:
            raise StateError(
                f"advance() needs the schema of stream {stream!r}, which is not known yet; give schemas= when the processor is made, or "
                "push a batch first"
            )
        field = feed.known.schemas[stream].field(window.time)
        time = moment(stream, field, value, feed.latest)
        try:
            axis.column_codes(0, time)
        except DataError as error:
            raise refused(stream, field, value) from error
        return time

    def finish(self) -> Results:
        """End the streams: every query gives the rows that still wait for a partner. No push after it."""
        return self._in_turn(FINISH, self._running.finish)

    def watch(self, watcher: Callable[[Results], None]) -> Callable[[], None]:
        """Have the results of every push, ``advance`` and ``finish`` shown to somebody else too, within the call; returns what ends it.

        ``watcher`` must only take note: what it takes the push takes, and what it raises refuses the push. Results gather rows when they
        are asked for them, which can be later and elsewhere.
        """
        with self._lock:
            self._watchers = (*self._watchers, watcher)

        def end() -> None:
            with self._lock:
                self._watchers = tuple(one for one in self._watchers if one is not watcher)

        return end

    # ---- all or nothing -----------------------------------------------------------------------------------------

    def _in_turn(self, call: str, do: Callable[..., Given], *args: Any) -> Given:
        """One call at a time, and all of it or nothing: whatever fails on the way, what it has changed is taken back.

        Whoever watches is shown what is given, and the time is taken, before the call counts: after that nothing is called.
        """
        with self._lock:
            if self._inside or self._finished or self._closed:
                raise self._refused(call)
            begin, seconds = perf_counter(), self.seconds

            def ending(given: Any) -> None:
                nonlocal seconds
                for watcher in self._watchers if isinstance(given, Results) else ():
                    watcher(given)
                seconds += perf_counter() - begin

            try:
                self._inside = True
                self._running.mend()
                given = do(*args, ending=ending)
                self.seconds, self._finished = seconds, call == FINISH
                return given
            except BaseException:
                self._running.mend()
                self.seconds += perf_counter() - begin
                raise
            finally:
                self._inside = False

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
                self._running.mend()
            self._running.feed.shared.close()

    def __enter__(self) -> "Processor":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- state --------------------------------------------------------------------------------------------------

    def save(self, directory: str | PathLike[str]) -> None:
        """Write the whole state to a directory, rows, queries and what they remember; ``Processor.load`` goes on from there, exactly."""
        with self._lock:
            if self._inside:
                raise self._refused("save()")
            self._running.mend()
            header, tables = running_state(self._running)
            write_state(directory, {"kind": KIND, "finished": self._finished, **header}, tables)

    @classmethod
    def load(cls, directory: str | PathLike[str]) -> "Processor":
        """The processor that was saved in ``directory``. A damaged or missing file is refused by name."""
        header, tables = read_state(directory, KIND)
        processor = cls.__new__(cls)
        processor._run(restored(header, tables))
        processor._finished = header["finished"]
        return processor

    # ---- what there is ------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """The streams, the queries and the blocks that answer them, in words."""
        with self._lock:
            if not self._inside:
                self._running.mend()
            running = self._running
            return explain_processor(running.feed, running.entries, running.graph.rules, running.assigned)

    def stats(self) -> dict[str, Any]:
        """Rows, bytes and seconds, as of now: plain data, as ``watersmeet.contract.STATS`` has it.

        - ``streams``, by name of the stream or table: ``rows`` held, ``arrived``, ``joins`` that read it, ``payload_bytes`` (rows are held
          once), ``index_bytes`` (of all joins; an index that several share counts once), ``bytes`` (both), ``late`` rows, the ``newest``
          time and the ``watermark``, by its own window.
        - ``blocks``, by their ids in ``describe()``: ``rows`` given, ``seconds`` of work, what is ``held``, its ``bytes``, ``late`` rows by
          stream, the ``watermark``; ``inside``: of a join, the sub-windows of each stream.
        - ``queries``, by name: ``rows`` that their last block has given. ``pushes``: how many there were;
          ``seconds``: what all calls have taken.
        """
        with self._lock:
            if not self._inside:
                self._running.mend()
            return {"seconds": self.seconds, **processor_stats(self._running)}

    def describe(self) -> dict[str, Any]:
        """The plan as plain data, as ``watersmeet.contract.PLAN`` has it: ``streams``, the ``blocks`` that read them and one another, each
        with its instruction and whom it is for, ``queries``, and the ``fabric`` with its assignment. What a push changes is in ``stats()``.
        """
        with self._lock:
            if not self._inside:
                self._running.mend()
            ended = "finished" if self._finished else "closed" if self._closed else ""
            return describe_processor(self._running, ended)

    def fabric_assignment(self) -> FabricAssignment:
        """Where the queries stand in the fabric, and the instructions that program it."""
        with self._lock:
            if not self._inside:
                self._running.mend()
            if self._running.assigned is None:
                raise OptionError(
                    "fabric_assignment() is of a processor with a fabric; got one without; make it with Processor(fabric=...)"
                )
            return FabricAssignment(self._running.assigned)

    def _explain_one(self, entry: Entry) -> str:
        with self._lock:
            running = self._running
            return explain_query(entry, block_readers(running.entries), running.graph.rules, running.assigned)

    def _find(self, name: str, number: int) -> Entry | None:
        entry = self._running.entries.get(name)
        return None if entry is None or entry.number != number else entry

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={self._running.feed.windows[name]}" for name in self.streams)
        ended = "; finished" if self._finished else "; closed" if self._closed else ""
        return f"<Processor of {held}: {listed([repr(name) for name in self._running.entries]) or 'no queries'}{ended}>"


def _start(start: Any, backfill: Any) -> tuple[bool, bool]:
    """Whether a query starts warm, and whether its past is asked for."""
    if start not in ("now", "warm"):
        raise OptionError(f"start= must be 'now' or 'warm'; got {start!r}")
    if not isinstance(backfill, bool):
        raise OptionError(f"backfill= must be True or False; got {backfill!r}")
    if backfill and start != "warm":
        raise OptionError(
            "backfill=True must be with start='warm'; got start='now', which does not look back"
        )
    return start == "warm", backfill


def _text(statements: Any) -> str:
    if not isinstance(statements, str):
        raise OptionError(f"statements must be SQL text; got {statements!r}")
    return statements


OPTIONS = tuple(
    name for name, option in signature(Processor).parameters.items() if option.kind is option.KEYWORD_ONLY
)
