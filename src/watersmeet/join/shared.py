"""Streams that several joins read: each row is stored once, and an index that several joins can use is made once.

What each join remembers is its own: windows, clock, plan, flags, and a chain of sub-windows by which it sees the rows. What the chains
hold is shared: the payload always; an index where two sub-windows begin with the same row, hold the same rows, and want the same
keys. Validity ranges make that invisible: a join gives what it would give alone.

- Arrival numbers are the stream's: every row that was pushed has one. A row that is late for one join need not be late for another: who
  finds it late holds it without a key and before all times, and reports it as late.
- Joins whose windows are about as long have their sub-windows cut at the same rows; for the shortest of them. Much shorter ones are cut
  on their own: they would have to filter segments in which they see next to nothing, or cut the others' into crumbs.
- All joins take a turn of a push together: rows of one stream are stored by all, and probe, before the next stream's come.
- Each join lets go of sub-windows that it can no longer see; an index goes with the last of them, the payload with the slowest join.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from watersmeet.index.base import Index, PairBuffer
from watersmeet.join.access import PARALLEL, Access
from watersmeet.join.chain import Block, Chain, Maker, SubWindow
from watersmeet.join.coding import Coding
from watersmeet.join.engine import JoinEngine, Push
from watersmeet.join.matches import Matches
from watersmeet.join.outcome import Outcome
from watersmeet.join.pool import Pool, Task
from watersmeet.streams.arrival import Admission
from watersmeet.streams.clock import TOP
from watersmeet.streams.payload import Payload
from watersmeet.streams.window import Window

ALIKE = 8  # times: windows of which one is longer than the other by more have sub-windows of their own


class Shelf:
    """Sub-windows of one stream that several joins cut at the same rows."""

    def __init__(self, rows: int | None) -> None:
        self.rows = rows  # of the first reader's window; None: it goes by time, or has no end
        self.readers: list[tuple[JoinEngine, int]] = []  # and which of its streams this is
        # By first row and identity, for as long as a sub-window has them.
        self._indexes: WeakValueDictionary[tuple[int, Any], Index] = WeakValueDictionary()
        self._cut: tuple[int, int | None] = (-1, None)

    def suits(self, window: Window) -> bool:
        """Whether a window is about as long as those that are here."""
        if self.rows is None or window.rows is None:
            return self.rows is window.rows
        return self.rows <= ALIKE * window.rows and window.rows <= ALIKE * self.rows

    def forget(self) -> None:
        """A push was taken back: indexes may hold rows that never came, and are used by nobody any more."""
        self._indexes.clear()
        self._cut = (-1, None)

    def insert(self, chain: Chain, block: Block, indexes: Maker) -> None:
        """Store a block in a reader's chain; all readers get the same blocks, and decide alike."""
        if self._cut[0] != block.first:
            self._cut = block.first, self._size(block)
        size = self._cut[1]
        full = size is not None
        chain.insert(block, lambda: size or self._least(), indexes, lambda sub: full)

    def whole(self, engine: JoinEngine, number: int) -> int:
        """Where the sub-window begins that a row is in, of the reader that has most rows: whole ones can be shared."""
        most = self._most(engine)
        subwindows = [] if most is None else most.subwindows
        return next((sub.base for sub in subwindows if sub.base <= number < sub.end), number)

    def _most(self, engine: JoinEngine) -> Chain | None:
        others = [one.ledger.chains[j] for one, j in self.readers if one is not engine]
        return min(others, key=lambda chain: chain.first, default=None)

    def borders(self, engine: JoinEngine, k: int, first: int, end: int) -> tuple[list[int], list[int]]:
        """Where a reader that comes later cuts the rows [first, end), and the capacity of each piece: as the one that has most of them
        has cut them, and what it does not have into pieces of the size that suits the reader."""
        most = self._most(engine)
        subwindows = [] if most is None else [sub for sub in most.subwindows if first <= sub.base < end]
        capacities = {sub.base: sub.capacity for sub in subwindows}
        cuts = {first, end, *capacities, *(sub.end for sub in subwindows)}
        size = engine.planning.sizing.rows(k, end - first)
        for low, high in pairwise(sorted(cuts)):
            if low not in capacities:
                cuts.update(range(low, high, size))
        places = sorted(cuts)
        return places, [capacities.get(low, high - low) for low, high in pairwise(places)]

    def _size(self, block: Block) -> int | None:
        """How many rows new sub-windows are made for, if any reader needs a new one for the block; None: there is room."""
        newest = [(engine, engine.ledger.chains[k].subwindows[-1:]) for engine, k in self.readers]
        if any(
            not sub.takes(block) or engine.ledger.long_enough(sub) for engine, subs in newest for sub in subs
        ):
            return self._least()
        return None

    def _least(self) -> int:
        return min(engine.subwindow(k) for engine, k in self.readers)

    def indexes(
        self, access: Access, k: int, base: int, rows: int, capacity: int, previous: SubWindow | None
    ) -> list[Index]:
        """For a reader's sub-window that begins with row ``base``: those that others have made, where they are what it wants.

        ``rows``: how many it gets at once. An index that has others than these is that of another sub-window.
        """
        found = []
        for place, identity in enumerate(access.identities(k)):
            index = self._indexes.get((base, identity))
            if index is None or index.filled != rows:
                index = access.index(
                    k, place, capacity, None if previous is None else previous.indexes[place]
                )
                index.shared = True
                self._indexes[base, identity] = index
            found.append(index)
        return found


class SharedStream:
    """The rows of one stream, and the shelves on which its readers have their sub-windows.

    ``of``: the stream whose rows these are, where readers know them by another name too.
    """

    def __init__(self, schema: pa.Schema, of: "SharedStream | None" = None) -> None:
        self.payload: Payload = Payload(schema, schema.names) if of is None else of.payload
        self.names: list[SharedStream] = [] if of is None else of.names  # all that have these rows
        self.names.append(self)
        self.readers: list[tuple[JoinEngine, int]] = []
        self.kept = TOP  # rows from this number on are stored, also if nobody reads them
        self.held = TOP  # the same, for somebody who will read them
        self._shelves: list[Shelf] = []

    @property
    def owns(self) -> bool:
        """Whether the rows come under this name first."""
        return self.names[0] is self

    def joined(self, engine: JoinEngine, k: int, window: Window) -> Shelf:
        """A join reads the stream from now on; returns where joins with windows about as long have their sub-windows."""
        shelf = next((shelf for shelf in self._shelves if shelf.suits(window)), None)
        if shelf is None:
            shelf = Shelf(window.rows)
            self._shelves.append(shelf)
        for readers in (self.readers, shelf.readers):
            readers.append((engine, k))
        return shelf

    def left(self, engine: JoinEngine) -> None:
        """A join reads no more."""
        for readers in (self.readers, *(shelf.readers for shelf in self._shelves)):
            readers[:] = [reader for reader in readers if reader[0] is not engine]
        self.drop_unseen()

    def forget(self) -> None:
        for shelf in self._shelves:
            shelf.forget()

    def drop_unseen(self) -> None:
        """Let go of rows that no reader can see any more."""
        ends = [engine.ledger.chains[k].first for name in self.names for engine, k in name.readers]
        owner = self.names[0]
        self.payload.drop_before(min(*ends, owner.kept, owner.held, self.payload.end))


class _Noted:
    """Notes whose work it is that fails."""

    __slots__ = ("engine", "failures")

    def __init__(self, failures: dict[JoinEngine, Exception], engine: JoinEngine) -> None:
        self.failures, self.engine = failures, engine

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception):
            self.failures[self.engine] = error


class SharedStreams:
    """Some streams, and the joins that read them. Streams are numbered here; each join has some of them, by numbers of its own."""

    def __init__(self, schemas: Sequence[pa.Schema], cores: int = 1) -> None:
        self.streams = [SharedStream(schema) for schema in schemas]
        self.readers: dict[JoinEngine, tuple[int, ...]] = {}  # which stream is each of the join's
        self.pool = Pool(cores)
        self._before: list[Any] | None = None
        self.failures: dict[JoinEngine, Exception] = {}  # whose work has made the last push fail

    # ---- who reads ----------------------------------------------------------------------------------------------

    def add(self, engine: JoinEngine, streams: Sequence[int]) -> None:
        """A join reads these streams from now on: rows that are there already are none of its business, unless ``replay`` follows.

        It must be new; ``open`` and ``bind`` follow, with the axis of time and the condition. It is pushed to from here alone.
        """
        mine = [self.streams[g] for g in streams]
        ledger = engine.ledger
        ledger.read_rows_of([stream.payload for stream in mine])
        ledger.start_at(np.array([stream.payload.end for stream in mine]))
        engine.shelves = [
            stream.joined(engine, k, window)
            for k, (stream, window) in enumerate(zip(mine, ledger.windows, strict=True))
        ]
        engine.pool = self.pool  # a replay has the threads that there are, not some that start for it
        self.readers[engine] = tuple(streams)

    def whole(self, engine: JoinEngine, numbers: Sequence[int]) -> list[int]:
        """Numbers of rows of a reader's streams, moved back to where sub-windows of others begin."""
        return [self._shelf(engine, k).whole(engine, number) for k, number in enumerate(numbers)]

    def replay(
        self,
        engine: JoinEngine,
        batches: Sequence[pa.RecordBatch],
        firsts: Sequence[int],
        admission: Admission,
        probed: bool,
        goes_on: bool = False,
    ) -> Outcome:
        """Give a new reader rows that are stored, the first of each stream with these numbers. It counts at once.

        ``goes_on``: it stands at these numbers, and may have been given rows before them.
        """
        ledger = engine.ledger
        if not goes_on:
            ledger.start_at(np.array(firsts))
        pushed = ledger.judged(batches, admission)
        capacities: list[list[int]] = []
        for k, mine in enumerate(pushed):
            assert mine is not None
            first, rows = mine.first, mine.batch.num_rows
            places, sizes = self._shelf(engine, k).borders(engine, k, first, first + rows)
            mine.cuts = [(low - first, high - first) for low, high in pairwise(places)]
            if not rows:
                pushed[k], sizes = None, []
            capacities.append(sizes)
        outcome = engine.replay(Push(pushed, admission, Matches(streams=len(batches))), capacities, probed)
        engine.commit()
        return outcome

    def _shelf(self, engine: JoinEngine, k: int) -> Shelf:
        assert engine.shelves is not None
        shelf = engine.shelves[k]
        assert isinstance(shelf, Shelf)
        return shelf

    def remove(self, engine: JoinEngine) -> None:
        """A join reads no more; what it alone kept is let go of."""
        for g in self.readers.pop(engine):
            self.streams[g].left(engine)

    # ---- one push -----------------------------------------------------------------------------------------------

    def push(
        self, batches: Sequence[pa.RecordBatch | None], order: np.ndarray | None, turns: Sequence[int]
    ) -> dict[JoinEngine, Outcome]:
        """Join a push, for every reader. ``order``, ``turns``: as for one join, of all streams. Until ``commit`` it can be taken back."""
        self.mend()
        self.failures = {}
        for engine in self.readers:
            engine.planning.forget_texts()
        pushes: dict[JoinEngine, Push] = {}
        for engine, streams in self.readers.items():
            with self._noted(engine):
                pushes[engine] = _judged(engine, streams, batches, order, turns)
        rows = sum(batch.num_rows for batch in batches if batch is not None)
        self._cut_alike(pushes)
        coding = Coding() if len(pushes) > 1 else None
        tasks = [
            task
            for engine, push in pushes.items()
            for task in self._noting(engine, engine.preparing(push, coding))
        ]
        self._run(tasks, rows)
        self._before = [stream.payload.mark() for stream in self.streams]
        for stream, batch in zip(self.streams, batches, strict=True):
            if batch is not None and stream.owns:
                stream.payload.append(batch)
        for engine, push in pushes.items():
            with self._noted(engine):
                engine.enter(push)
        rounds = {engine: self._rounds(engine, push) for engine, push in pushes.items()}
        if order is None:
            for g in turns:
                self._round(
                    [rounds[engine] for engine, streams in self.readers.items() if g in streams], rows
                )
        while self._round(list(rounds.values()), rows):
            pass
        outcomes: dict[JoinEngine, Outcome] = {}
        for engine, push in pushes.items():
            with self._noted(engine):
                outcomes[engine] = engine.leave(push)
        for stream in self.streams:
            stream.drop_unseen()
        return outcomes

    def advance(self, latest: Mapping[JoinEngine, Sequence[int | None]]) -> dict[JoinEngine, Outcome]:
        """Streams have come to these times without a row: codes, for each reader on its own axis. Until ``commit`` it can be taken back."""
        self.mend()
        self.failures = {}
        self._before = [stream.payload.mark() for stream in self.streams]
        outcomes: dict[JoinEngine, Outcome] = {}
        for engine, streams in self.readers.items():
            with self._noted(engine):
                outcomes[engine] = engine.advance(latest.get(engine, [None] * len(streams)))
        return outcomes

    def _noted(self, engine: JoinEngine) -> "_Noted":
        return _Noted(self.failures, engine)

    def _noting(self, engine: JoinEngine, tasks: Sequence[Task]) -> list[Task]:
        return [partial(self._do, engine, task) for task in tasks]

    def _do(self, engine: JoinEngine, task: Task, buffer: PairBuffer) -> None:
        begin = perf_counter()
        with self._noted(engine):
            task(buffer)
        engine.seconds += perf_counter() - begin

    def _rounds(self, engine: JoinEngine, push: Push) -> Iterator[tuple[list[Task], list[Task]]]:
        with self._noted(engine):
            for inserts, probes in engine.rounds(push):
                yield self._noting(engine, inserts), self._noting(engine, probes)

    def _round(self, rounds: Sequence[Iterator[tuple[list[Task], list[Task]]]], rows: int) -> bool:
        """One lot of each; whether there was any. What several joins store they may store in one index: one after the other."""
        lots = [lot for lot in (next(one, None) for one in rounds) if lot is not None]
        inserts = [task for stored, _ in lots for task in stored]
        probes = [task for _, probed in lots for task in probed]

        def insert_all(buffer: PairBuffer) -> None:
            for task in inserts:
                task(buffer)

        self._run([insert_all, *probes] if inserts else probes, rows)
        return bool(lots)

    def _cut_alike(self, pushes: Mapping[JoinEngine, Push]) -> None:
        """Rows of a stream are cut into the same slices by all its readers: the finest that one of them wants."""
        for stream in self.streams:
            shares = []
            for engine, k in stream.readers:
                push = pushes[engine]
                mine = push.pushed[k]
                if mine is not None:
                    shares.append((mine, engine.cuts(mine, push.admission.interleaving is not None)))
            finest = max((cuts for _, cuts in shares), key=len, default=[])
            for mine, _ in shares:
                mine.cuts = finest

    def _run(self, tasks: list[Task], rows: int) -> None:
        self.pool.run(tasks, parallel=rows >= PARALLEL)

    # ---- all or nothing -----------------------------------------------------------------------------------------

    def commit(self) -> None:
        """What was pushed counts, for every reader: nothing is taken back any more. May be repeated."""
        self._before = None
        for engine in self.readers:
            engine.commit()

    def take_back(self) -> None:
        """Nothing was pushed."""
        if self._before is None:
            return
        for engine in self.readers:
            engine.take_back()
        # Streams that were made since are other names of these, for a join that has begun since.
        for stream, mark in zip(self.streams, self._before, strict=False):
            stream.payload.back_to(mark)
            stream.forget()
        self._before = None

    def mend(self) -> None:
        """After a push that failed: indexes that hold the rows there are."""
        self.take_back()
        for engine in self.readers:
            engine.commit()  # of a push that counts, should telling them have been interrupted
            engine.mend()

    def close(self) -> None:
        """End the threads."""
        self.pool.close()


def _judged(
    engine: JoinEngine,
    streams: Sequence[int],
    batches: Sequence[pa.RecordBatch | None],
    order: np.ndarray | None,
    turns: Sequence[int],
) -> Push:
    """A push as one join sees it: only its own streams, by its own numbers."""
    mine = [batches[g] for g in streams]
    if order is not None:
        places = np.full(max(*streams, int(order.max(initial=0))) + 1, len(streams), np.uint8)
        places[list(streams)] = np.arange(len(streams))
        order = places[order]
        order = order[order < len(streams)]
    admission = engine.ledger.admit(mine, order, [streams.index(g) for g in turns if g in streams])
    return Push(engine.ledger.judged(mine, admission), admission, Matches(streams=len(streams)))
