"""A core of a host while it is alive: for each spreading what a ``Processor`` has inside, with the queries that are spread so.

The same statements in the same order give every core the same queries, each with its share of the rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa

from watersmeet.api.result import Result
from watersmeet.errors import WatersmeetError, listed
from watersmeet.query.block import JoinBlock
from watersmeet.query.catalog import Entry
from watersmeet.query.instruction import Join
from watersmeet.query.running import Entries, Past, Results, Running
from watersmeet.query.statement import Command
from watersmeet.spark.host.came import Came, times_of
from watersmeet.spark.host.judge import windows_of
from watersmeet.spark.host.program import Hosted, Program, Programs
from watersmeet.spark.host.setting import Setting
from watersmeet.spark.host.spread import Spread
from watersmeet.spark.host.warm import NotHeldError, held_by_any, is_complete, joins_under, lacks_nothing
from watersmeet.spark.host.wire import Received
from watersmeet.spark.state.runs import Run

Given = TypeVar("Given")
MOST_NAMED = 20  # queries in a message


@dataclass
class Found:
    """What a batch has given on this core."""

    tables: dict[str, pa.Table] = field(default_factory=dict)  # by key of the query
    late: dict[str, int] = field(default_factory=dict)  # rows that came too late for a query
    stopped: dict[str, str] = field(default_factory=dict)  # queries that this batch has stopped here, and why


class LiveCore:
    """One core. ``version``: how far it has followed the log."""

    def __init__(self, setting: Setting, core: int) -> None:
        self.setting, self.core, self.version = setting, core, 0
        self.running: dict[str, Running] = {}  # by spreading
        self.stopped: dict[str, str] = {}
        self.came = Came()
        # By key of the query: from which batch on it gives what it would give had it always been there; None: it does not yet.
        self.complete: dict[str, int | None] = {}
        self.runs: dict[tuple[str, str], list[Run]] = {}  # by spreading and stream: where rows lie in files

    # ---- statements ---------------------------------------------------------------------------------------------

    def follow(self, programs: Programs, version: int, stopped: Mapping[str, str], batch: int) -> None:
        """Let go of queries that have stopped on any core, then do the statements up to ``version``. What a batch begins with."""
        before = programs.of(self.version)
        for key in stopped.keys() - self.stopped.keys():
            query = before.of_key(key)
            if query is not None:
                self._drop(query)
        self.stopped = dict(stopped)
        while self.version < version:
            after = programs.of(self.version + 1)
            self._do(before, after, programs.entry(self.version + 1)["name"])
            before, self.version = after, self.version + 1
        there = {query.key for query in before.queries.values()}
        self.stopped = {key: why for key, why in self.stopped.items() if key in there}
        self.complete = {
            query.key: self._complete_from(query, entry, batch) for query, entry in self._hosted(before)
        }

    def _hosted(self, program: Program) -> Iterator[tuple[Hosted, Entry]]:
        """The queries that run on this core."""
        for query in program.queries.values():
            running = self.running.get(query.spread.id)
            entry = None if running is None else running.entries.get(query.name)
            if entry is not None:
                yield query, entry

    def _complete_from(self, query: Hosted, entry: Entry, batch: int) -> int | None:
        """Before the rows of a batch: those of all before it have come."""
        known = self.complete.get(query.key)
        if known is not None:
            return known
        if query.key not in self.complete and not self.came.any_of(query.streams):
            return batch
        # What else remembers may remember rows that it was never given.
        if not all(isinstance(one, Join) for one in entry.starts):
            return None
        return batch if all(map(is_complete, joins_under(entry.root))) else None

    def _do(self, before: Program, after: Program, name: str) -> None:
        old, new = before.queries.get(name), after.queries.get(name)
        runs = old is not None and old.key not in self.stopped
        if new is None or new.key in self.stopped or not new.spread.is_on(self.core):
            if old is not None and runs:
                self._drop(old)
            return
        try:
            if old is not None and runs and old.number == new.number and old.spread == new.spread:
                self._execute(new.spread, _command("alter", new), new)
                return
            if old is not None and runs:
                self._drop(old)
            self._execute(new.spread, _command("create", new), new)
        except MemoryError:
            raise
        except (
            Exception
        ) as error:  # it was planned before it got its number; what it does here must not stop others
            self.stopped[new.key] = _said(error)
            self._drop(new)

    def _of(self, spread: Spread) -> Running:
        """The queries of a spreading. Rows that came before it was there count as rows that are gone: for numbers, and for who is late."""
        if spread.id not in self.running:
            running = self.setting.running()
            for stream, rows in self.came.rows.items():
                if rows:
                    running.feed.miss(stream, rows, self.came.time(stream, self.setting))
            self.running[spread.id] = running
        return self.running[spread.id]

    def _execute(self, spread: Spread, command: Command, query: Hosted) -> None:
        """Begin, or alter, a query; warm if the rows for that are certain to be here, else with those that come."""
        running, windows = self._of(spread), windows_of(query.windows)
        there = [block for block in running.graph.blocks.values() if isinstance(block, JoinBlock)]

        def begin(command: Command) -> None:
            def check(entries: Entries, past: Past) -> None:
                fresh = [block for block in joins_under(entries[command.name].root) if block not in there]
                self._check_beginning(fresh, there, command.warm, spread)

            whole(running, lambda: running.execute([command], windows, shown=check))

        try:
            begin(command)
        except NotHeldError:
            begin(replace(command, warm=False))

    def _check_beginning(
        self, fresh: Sequence[JoinBlock], there: Sequence[JoinBlock], warm: bool, spread: Spread
    ) -> None:
        """Joins say what they lack, by what all cores know alike."""
        for block in fresh:
            if warm and not held_by_any(there, block, self.setting):
                raise NotHeldError
            if warm:
                lacks_nothing(block)
            elif spread.shares:
                block.lacks(*self.came.unknown_to(block, self.setting))
                block.look()

    def _drop(self, query: Hosted) -> None:
        """What only this query has stored is let go of; with the last query of a spreading, its copies of the streams."""
        running = self.running.get(query.spread.id)
        if running is None:
            return
        if query.name in running.entries:  # one that is skipped was not made again
            whole(running, lambda: running.execute([Command("drop", query.name, "")]))
        if not running.entries:
            running.mend()
            running.feed.shared.close()
            del self.running[query.spread.id]
            self.runs = {place: runs for place, runs in self.runs.items() if place[0] != query.spread.id}

    # ---- rows ---------------------------------------------------------------------------------------------------

    def push(self, received: Received, program: Program, most: int | None = None) -> Found:
        """This core's share of a batch, through all its queries. ``most``: rows that a query may give."""
        found, streams = Found(), self.setting.streams
        if not any(received.arrived(k) for k in range(len(streams))):
            return found
        latest = times_of(received, self.setting)
        moved = {name: time for name, time in latest.items() if time is not None}
        for spread, running in sorted(self.running.items()):
            known = running.feed.known
            rows = {name: received.rows(spread, k, known.schemas[name]) for k, name in enumerate(streams)}
            arrows = {name: batch for name, batch in rows.items() if batch is not None and batch.num_rows}
            try:
                given = [whole(running, lambda: running.push(known, arrows, None))]  # noqa: B023, called at once
                kind = Spread.from_id(spread)
                if kind.shares and moved:
                    given.append(whole(running, lambda: running.advance(moved)))  # noqa: B023
                for k, name in enumerate(streams):
                    if kind.is_whole and name not in arrows and received.arrived(k):
                        running.mend()
                        running.feed.miss(name, received.arrived(k), latest[name])
                self._note(found, kind, given, program, most)
            except MemoryError as error:
                raise _too_large(
                    self.core, [program.queries[name] for name in running.entries], error
                ) from error
        for key in found.stopped:
            query = program.of_key(key)
            assert query is not None
            self._drop(query)
        self.stopped |= found.stopped
        self.came = self.came.after(received, self.setting)
        return found

    def _note(
        self, found: Found, spread: Spread, given: list[Results], program: Program, most: int | None
    ) -> None:
        for results in given:
            for name, why in results.stopped.items():
                found.stopped[program.queries[name].key] = why
        for name in given[0]:
            key = program.queries[name].key
            mine = [results[name] for results in given if name in results]
            count = sum(result.count for result in mine)
            if most is not None and count > most:
                found.stopped.setdefault(
                    key,
                    f"a query must give at most {most:,} rows in a batch on a core (most_results=); got {count:,}; do: alter it, or "
                    "start the host with another bound",
                )
                continue
            try:
                shown = mine[-1:] if program.queries[name].complete else [one for one in mine if one.count]
                tables = [result.to_arrow() for result in shown]
            except MemoryError:
                raise
            except Exception as error:  # of the select list, which is computed when rows are asked for
                found.stopped.setdefault(key, _said(error))
                continue
            if tables:
                found.tables[key] = pa.concat_tables(tables)
            late = sum(self._late(spread, result) for result in mine)
            if late:
                found.late[key] = late
        for key in found.stopped:
            found.tables.pop(key, None)

    def _late(self, spread: Spread, result: Result) -> int:
        """Late rows that this core reports: of a stream that is on all cores, the first one does."""
        return sum(
            batch.num_rows
            for stream, batch in result.late.items()
            if spread.kind != "broadcast" or stream == spread.home or self.core == 0
        )

    # ---- figures ------------------------------------------------------------------------------------------------

    def held(self) -> Iterator[tuple[str, str, int]]:
        """Spreading, stream, rows that are stored."""
        for spread, running in sorted(self.running.items()):
            for stream in self.setting.streams:
                yield spread, stream, running.feed.stored(stream)


def whole(running: Running, do: Callable[[], Given]) -> Given:
    """One call, all of it or nothing."""
    running.mend()
    try:
        return do()
    except BaseException:
        running.mend()
        raise


def _too_large(core: int, queries: Sequence[Hosted], error: MemoryError) -> MemoryError:
    """Which query it was nobody can say: they share a worker."""
    some = [f"{query.name!r} (statement {query.statement})" for query in queries[:MOST_NAMED]]
    more = len(queries) - len(some)
    return MemoryError(
        f"a batch must fit into the memory of a worker; it ran out on core {core} at the queries {listed(some)}"
        f"{f' and {more} more' if more else ''} ({error or 'no more is known'}); do: give workers more memory, make batches smaller, or "
        "start(skip=[number]) with the statement of the query that is too large"
    )


def _command(verb: str, query: Hosted) -> Command:
    return Command(verb, query.name, query.sql, query.emit, query.warm)


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, WatersmeetError) else f"{type(error).__name__}: {error}"
