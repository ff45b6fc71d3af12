"""The queries of a processor as they run: everything that a call does, all of it or nothing.

Before the first change an ``Undo`` notes how everything stands. A call counts from the assignment on that puts a ``Settle`` in its place.
Either is dealt with before the next call, so that whatever interrupts a call, or that, leaves nothing half done.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.api.result import Result
from watersmeet.errors import ConditionError, OptionError, StateError, WatersmeetError, listed
from watersmeet.fabric.assignment import Assignment
from watersmeet.join.engine import JoinEngine
from watersmeet.join.outcome import Outcome
from watersmeet.query.answer import Bound
from watersmeet.query.block import JoinBlock
from watersmeet.query.catalog import Entry, bound_entry, read_query
from watersmeet.query.delta import Late, Selected, result_of
from watersmeet.query.feed import Batches, Feed, Known
from watersmeet.query.graph import (
    AT_ONCE,
    COLD,
    WARM,
    Change,
    Graph,
    QueryFailedError,
    Start,
    Starts,
    blocks_of,
)
from watersmeet.query.idle import Idle
from watersmeet.query.past import Found, something_came
from watersmeet.query.placed import Placing
from watersmeet.query.statement import Command
from watersmeet.query.turn import GraphTurn
from watersmeet.query.waiting import ended, held, late_turns, past_turn
from watersmeet.streams.interleave import interleaving, order_codes
from watersmeet.streams.window import Window

Entries = Mapping[str, Entry]
Past = Mapping[str, Result]  # by query
Given = TypeVar("Given")
# Who has called is shown what it will be given; what this raises is a call that fails.
Ending = Callable[[Any], None]


def _nothing_more(given: Any) -> None:
    pass


@dataclass(frozen=True)
class Undo:
    """How everything stood before a call that has not come to its end."""

    entries: Entries
    fed: Any
    blocks: Any
    assigned: Assignment | None
    changes: list[Change] = field(default_factory=list)


@dataclass(frozen=True)
class Settle:
    """What remains to be done after a call that counts. It may be interrupted, and done again."""

    pushes: int
    changes: Sequence[Change]


class Results(dict[str, Result]):
    """What a push gives: a Result by the name of each query that runs. ``stopped``: the queries that this push has stopped, and why."""

    stopped: Mapping[str, str]


class Running:
    """Queries by name, the blocks that answer them, and the streams that these read."""

    def __init__(self, feed: Feed, placing: Placing) -> None:
        self.feed, self.graph = feed, Graph(feed)
        self.placing, self.assigned = placing, placing.start()
        self.entries: Entries = {}
        self._created = self._pushes = 0
        self._serial = WARM  # tells starts apart that nobody shares
        self._pending: Undo | Settle | None = None
        self._idle: Idle | None = None  # of the queries that the last push has asked

    def execute(
        self,
        commands: Sequence[Command],
        windows: Mapping[str, Window] | None = None,
        only: int | None = None,
        shown: Callable[[Entries, Past], Any] = lambda entries, past: None,
        ending: Ending = _nothing_more,
    ) -> Any:
        """Do all statements. ``windows``: of the query that they are about; ``only``: the number that it must have.

        ``shown``: what to make of the queries, and of the past where that was asked for, for who has called; also if that fails nothing
        is changed.
        """
        entries, created = dict(self.entries), self._created
        for command in commands:
            name = self._name(command, entries, only)
            if command.verb == "drop":
                del entries[name]
                continue
            old = entries.get(name)
            number = created if old is None else old.number
            created += old is None
            own = old.asked.windows if windows is None and old is not None else windows
            emit = old.asked.emit if command.emit is None and old is not None else command.emit
            try:
                entry = Entry(
                    number,
                    name,
                    read_query(command.sql, own, self.feed.names, emit),
                    generation=0 if old is None else old.generation + 1,
                    warm=command.warm,
                    backfill=command.backfill,
                )
                entries[name] = entry = self._bound(entry, {} if old is None else old.starts)
            except ConditionError as error:
                raise error.moved(command.at) from None
            if entry.waits is not None:
                entries[name] = replace(entry, moment=self.feed.history.now, since=self._first_rows(entry))
            if entry.backfill and entry.waits is not None:
                raise OptionError(
                    f"backfill=True must be of a query that can run at once; {name!r} waits for {entry.waits}; give schemas= when the "
                    "processor is made, or create the query later"
                )
        undo = self._undoable()
        if any(entry.moment == self.feed.history.now for entry in entries.values()):
            self.feed.history.note()
        try:
            past = self._change(entries, undo)
        except QueryFailedError as failed:
            raise failed.error from None
        self._created = created
        return self._counts(shown(self.entries, past), self._pushes, undo, ending)

    def _name(self, command: Command, entries: Entries, only: int | None) -> str:
        name = command.name
        if not isinstance(name, str) or not name:
            raise OptionError(f"the name of a query must be a text; got {name!r}")
        if only is not None and (name not in entries or entries[name].number != only):
            raise dropped(name)
        if command.verb == "create" and name in entries:
            raise OptionError(
                f"the name of a new query must be free; got {name!r}, which is there; alter it, or drop it first"
            )
        if command.verb != "create" and name not in entries:
            there = listed([repr(one) for one in entries]) if entries else "none"
            raise OptionError(f"{command.verb} must name a query that is there: {there}; got {name!r}")
        return name

    def _bound(self, entry: Entry, kept: Starts) -> Entry:
        feed = self.feed
        self._serial += 1
        moment = AT_ONCE
        if entry.moment is not None and something_came(feed, entry.asked.streams, entry.moment):
            moment = entry.moment
        now = Start(self._pushes, self._serial if entry.warm else COLD, moment)
        bound = bound_entry(entry, feed.known.schemas, feed.windows, feed.tables, now, kept)
        if entry.runs or not bound.runs or moment != AT_ONCE:
            return bound
        return replace(bound, since=self._first_rows(entry), moment=None)

    def _first_rows(self, entry: Entry) -> dict[str, int]:
        """By stream, the first row that a query gets if it begins now."""
        feed = self.feed
        return {
            name: feed.stored_from(name) if entry.warm else feed.arrived(name)
            for name in feed.names
            if name in entry.asked.streams and name not in feed.tables
        }

    def _change(self, entries: Entries, undo: Undo) -> Past:
        """Other queries, at once. Returns what those that have asked for it make of the past, and what those that have waited make of
        all that came meanwhile."""
        self.assigned = self.placing.assigned(self.assigned, entries)
        kept = [entry.root for entry in entries.values() if entry.root is not None]
        fresh = [
            (entry, entry.bound)
            for entry in entries.values()
            if entry.root is None and entry.bound is not None
        ]
        plans = [(entry.name, bound.plan, entry.starts) for entry, bound in fresh]
        found, old = Found(), set(self.graph.blocks.values())
        roots = self.graph.become(kept, plans, undo.changes, found)
        made = {entry.name: replace(entry, root=root) for (entry, _), root in zip(fresh, roots, strict=True)}
        past = {
            name: self._first_result(entry, past_turn(self.feed, entry, found.past))
            for name, entry in made.items()
            if entry.looks_back
        }
        given = {name: result for name, result in past.items() if made[name].backfill}
        late = [entry for entry in made.values() if entry.moment is not None]
        for entry, turn in late_turns(self.feed, late, found.since, old):
            given[entry.name] = self._first_result(entry, turn)
        for name, entry in made.items():
            made[name] = replace(entry, backfill=False, looks_back=False, moment=None)
        self.entries = {name: made.get(name, entry) for name, entry in entries.items()}
        self.feed.hold(held(self.entries.values()))
        return given

    def _first_result(self, entry: Entry, turn: GraphTurn) -> Result:
        """What a query that begins makes of rows that are stored."""
        try:
            return self._result(entry, turn)
        except MemoryError:
            raise
        except Exception as error:
            raise QueryFailedError(entry.name, error) from error

    def grow(self, stream: str, columns: pa.Schema, ending: Ending = _nothing_more) -> None:
        """A stream has more columns from now on. Queries go on with those that they know."""
        undo = self._undoable()
        self.feed.grow(stream, columns)
        self._counts(None, self._pushes, undo, ending)

    # ---- one push -----------------------------------------------------------------------------------------------

    def push(
        self, known: Known, arrows: dict[str, pa.RecordBatch], order: Any, ending: Ending = _nothing_more
    ) -> Results:
        """Let rows arrive, which were read with what was known then."""
        feed = self.feed
        if known is not feed.known:  # a schema, or a type, has become known since
            read = {name: feed.known.readers[name].read(batch) for name, batch in arrows.items()}
            arrows = {name: batch for name, batch in read.items() if batch is not None}
        undo = self._undoable()
        stopped: dict[str, str] = {}
        late = self._learn(arrows, stopped, undo)
        times = feed.times(arrows)
        turns = [self.feed.names.index(name) for name in arrows]
        sequence = self._sequence(order, arrows)
        firsts = {name: feed.arrived(name) for name in arrows}
        outcomes = self._joined(lambda: feed.push(arrows, sequence, turns), stopped)
        feed.remember(arrows, times, sequence, turns)
        turn = GraphTurn(
            feed.known.schemas, arrows, firsts, outcomes, feed.names, sequence, rules=self.graph.rules
        )
        results = self._results(turn, stopped)
        if late:
            entries = self.placing.fitting(self.assigned, {**self.entries, **late}, stopped)
            results |= self._begun(entries, stopped, undo)
            results = {name: results[name] for name in self.entries if name in results}
        return self._told(results, stopped, self._pushes + 1, ending)

    def _learn(self, arrows: Batches, stopped: dict[str, str], undo: Undo) -> Entries:
        """What a push makes known; queries that have waited for it, and of whose streams nothing has come, begin. Returns the others: they
        can be bound now, and begin when the push has come."""
        fresh = self.feed.news(arrows)
        if not fresh:
            return {}
        self.feed.learn(fresh)
        entries = {name: self._rebound(entry, fresh.keys(), stopped) for name, entry in self.entries.items()}
        entries = self.placing.fitting(self.assigned, entries, stopped)
        late = {name: entry for name, entry in entries.items() if entry.runs and entry.moment is not None}
        self._begun({**entries, **{name: self.entries[name] for name in late}}, stopped, undo)
        return late

    def _begun(self, entries: dict[str, Entry], stopped: dict[str, str], undo: Undo) -> Past:
        """Other queries; one that cannot begin is stopped, and the others begin again."""
        before = len(undo.changes)
        while True:
            try:
                return self._change(entries, undo)
            except QueryFailedError as failed:
                stopped[failed.query] = reason = _said(failed.error)
                entries[failed.query] = entries[failed.query].because(reason)
                for change in reversed(undo.changes[before:]):
                    self.graph.undo(change)
                del undo.changes[before:]

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
        names = list(arrows) if isinstance(order, str) else list(self.feed.names)
        sizes = [arrows[name].num_rows if name in arrows else 0 for name in names]
        codes: list[np.ndarray | None] = [None] * len(names)
        if isinstance(order, str):
            schemas = [self.feed.known.schemas[name] for name in names]
            codes = list(order_codes(order, names, schemas, [arrows[name] for name in names]))
        found = interleaving(order, names, sizes, codes)
        return np.array([self.feed.names.index(name) for name in names], np.uint8)[found]

    def _joined(
        self, push: Callable[[], dict[JoinEngine, Outcome]], stopped: dict[str, str]
    ) -> dict[JoinEngine, Outcome]:
        """What the joins find. One that fails is stopped, with the queries that it is for, and the others begin again."""
        while True:
            try:
                return push()
            except MemoryError:
                raise
            except Exception:
                failures = dict(self.feed.shared.failures)
                if not failures:
                    raise
                self._stop_joins(failures, stopped)

    def _stop_joins(self, failures: Mapping[JoinEngine, Exception], stopped: dict[str, str]) -> None:
        """Joins that have failed end here, and stay so should the push be taken back for another reason."""
        self.feed.shared.take_back()
        undo = self._pending
        assert isinstance(undo, Undo)
        before = {name: _stopped_by(entry, failures, {}) for name, entry in undo.entries.items()}
        self._pending = undo = replace(undo, entries=before)
        failed = [block for block in self._joins() if block.engine in failures]
        entries = {name: _stopped_by(entry, failures, stopped) for name, entry in self.entries.items()}
        self._change(entries, undo)
        for block in failed:
            self.feed.detach(block)

    def _results(self, turn: GraphTurn, stopped: dict[str, str]) -> dict[str, Result]:
        idle = self._idle
        if idle is None or idle.entries is not self.entries or idle.rules is not turn.rules:
            idle = self._idle = Idle(self.entries, turn.rules)
        results, asked = idle.asked(turn)
        for entry in asked:
            try:
                results[entry.name] = self._result(entry, turn)
            except MemoryError:
                raise
            except Exception as error:
                stopped[entry.name] = _said(error)
        return {name: result for name, result in results.items() if result is not None}

    def _result(self, entry: Entry, turn: GraphTurn) -> Result:
        assert entry.root is not None
        assert entry.bound is not None
        delta = turn.of(entry.root)
        late = self._late(delta.late, entry.bound)
        if isinstance(delta, Selected):
            return delta.result(entry.bound.names, late)
        return Result(*result_of(delta, entry.bound.names), late)

    def _late(self, late: Late, bound: Bound) -> Late:
        """Late rows by stream; of a stream that is read again, by its name in the text."""
        if not late:
            return late
        names = dict(zip(bound.plan.leaves, bound.names, strict=True))
        return {
            leaf if leaf in self.feed.windows else names.get(leaf, leaf): batch
            for leaf, batch in late.items()
        }

    def _told(
        self, results: dict[str, Result], stopped: dict[str, str], pushes: int, ending: Ending
    ) -> Results:
        """What a push gives, with the queries that it has stopped; it counts from then on."""
        undo = self._pending
        assert isinstance(undo, Undo)
        if any(self.entries[name].stopped is None for name in stopped):
            entries = {
                name: entry.because(stopped[name]) if name in stopped else entry
                for name, entry in self.entries.items()
            }
            self._change(entries, undo)
        given = Results(results)
        given.stopped = stopped
        return self._counts(given, pushes, undo, ending)

    def advance(self, times: Mapping[str, pa.Array], ending: Ending = _nothing_more) -> Results:
        """Streams have come to these times without a row."""
        self._undoable()
        stopped: dict[str, str] = {}
        outcomes = self._joined(lambda: self.feed.advance(times, self._joins()), stopped)
        self.feed.remember_times(times)
        turn = GraphTurn(self.feed.known.schemas, {}, {}, outcomes, clocks=times)
        return self._told(self._results(turn, stopped), stopped, self._pushes + 1, ending)

    def _joins(self) -> list[JoinBlock]:
        return [block for block in self.graph.blocks.values() if isinstance(block, JoinBlock)]

    def finish(self, ending: Ending = _nothing_more) -> Results:
        """End the streams."""
        shared = self.feed.shared
        shared.mend()
        self._undoable()
        stopped: dict[str, str] = {}
        outcomes = {engine: engine.finish() for engine in shared.readers}
        turn = GraphTurn(self.feed.known.schemas, {}, {}, outcomes, ending=True)
        results = self._results(turn, stopped)
        stopped |= {name: ended(entry) for name, entry in self.entries.items() if entry.waits is not None}
        return self._told(results, stopped, self._pushes, ending)

    # ---- the saved state ----------------------------------------------------------------------------------------

    @property
    def pushes(self) -> int:
        """How many pushes have counted. That of a call just ended counts before the next."""
        return self._pushes

    @property
    def counters(self) -> list[int]:
        """What numbers queries, pushes and starts."""
        return [self._created, self._pushes, self._serial]

    @counters.setter
    def counters(self, numbers: Sequence[int]) -> None:
        self._created, self._pushes, self._serial = numbers

    def begin_again(self, entries: Sequence[Entry]) -> None:
        """Queries of a saved state, with blocks that remember nothing yet."""
        running = [(entry, entry.bound) for entry in entries if entry.bound is not None]
        plans = [(entry.name, bound.plan, entry.starts) for entry, bound in running]
        try:
            roots = self.graph.become([], plans, [], None)
        except QueryFailedError as failed:
            raise failed.error from None
        made = {
            entry.name: replace(entry, root=root) for (entry, _), root in zip(running, roots, strict=True)
        }
        self.entries = {entry.name: made.get(entry.name, entry) for entry in entries}
        self.feed.hold(held(entries))

    # ---- all or nothing -----------------------------------------------------------------------------------------

    def _undoable(self) -> Undo:
        """From here on everything that changes is taken back, unless the call counts in the end."""
        undo = Undo(self.entries, self.feed.mark(), self.graph.mark(), self.assigned)
        self._pending = undo
        return undo

    def _counts(self, given: Given, pushes: int, undo: Undo, ending: Ending) -> Given:
        """A call counts from the moment on that what remains to be done is noted: that is done before the next call. After this nothing
        may fail on the way to who has called."""
        ending(given)
        self._pending = Settle(pushes, undo.changes)
        return given

    def mend(self) -> None:
        """What a call has left to do: to take back what it has changed, or to let go of what is not needed any more."""
        pending = self._pending
        if self._idle is not None and self._idle.entries is not self.entries:
            self._idle = None  # queries that are gone must be let go of
        if isinstance(pending, Undo):
            self._take_back(pending)
        elif pending is not None:
            self._pushes = pending.pushes
            self.feed.shared.commit()
            for change in pending.changes:
                self.graph.settle(change)
            self.feed.release()
        self._pending = None

    def _take_back(self, undo: Undo) -> None:
        shared = self.feed.shared
        shared.take_back()
        for engine in shared.readers:
            engine.take_back()
        self.feed.keep_again(undo.fed)  # before joins end, whose rows others may need
        for change in reversed(undo.changes):
            self.graph.undo(change)
        self.feed.back_to(undo.fed)
        self.graph.back_to(undo.blocks)
        # A join that was stopped on the way stays so.
        self.graph.keep([entry.root for entry in undo.entries.values() if entry.root is not None])
        self.entries = undo.entries
        self.assigned = undo.assigned


def dropped(name: str) -> StateError:
    """What to say of a query that is not there any more."""
    return StateError(f"query {name!r} must be there; it was dropped; create it anew")


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
