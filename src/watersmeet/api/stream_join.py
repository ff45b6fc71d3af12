"""``StreamJoin``: what users write. Names, SQL texts and options outside; arrival numbers and the join engine inside."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from inspect import signature
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.api.describe import describe
from watersmeet.api.explain import explain, stats
from watersmeet.api.options import JoinOptions
from watersmeet.api.result import Gatherer, Latest, Result
from watersmeet.api.show import join_html, join_line
from watersmeet.api.state import (
    read_state,
    schema_from_json,
    schema_to_json,
    write_state,
)
from watersmeet.api.tally import Tally
from watersmeet.errors import DataError, OptionError, StateError, listed
from watersmeet.flow.catalog import spelled_out
from watersmeet.flow.driver.engine import FlowEngine
from watersmeet.flow.options import FlowModel
from watersmeet.join.binding import Known, Schemas, Texts
from watersmeet.join.engine import JoinEngine
from watersmeet.join.interface import Engine
from watersmeet.join.outcome import Outcome
from watersmeet.join.planner import checked_orders
from watersmeet.join.snapshot import restore, snapshot, stored_rows
from watersmeet.streams.batch import Reader, retyped
from watersmeet.streams.clock import refuse_time
from watersmeet.streams.interleave import interleaving, order_codes
from watersmeet.streams.moment import moment, refused
from watersmeet.streams.window import Window, named_windows, window_from_json

FINISH = "finish()"


class StreamJoin:
    """A join of live streams, two to 32, within sliding windows, on any condition.

    >>> import numpy as np
    >>> join = StreamJoin("r.x BETWEEN s.a - 1 AND s.a + 1", r=Rows(1000), s=Rows(1000))
    >>> result = join.push(r={"x": np.array([1, 5, 9])}, s={"a": np.array([2, 9])})
    >>> result.count
    2
    >>> result.to_arrow().to_pydict()
    {'x': [1, 9], 'a': [2, 9]}

    The first argument is the condition: what would stand after ON in SQL, over the streams' names. Each stream is a keyword with
    its window: ``Rows(n)``, ``Range(duration, time=, lateness=)`` or ``Unbounded()``. The options:

    - ``windows``: ``{"r": ..., "s": ...}``, in place of the keywords, for stream names that clash with an option.
    - ``how``: "inner" (default), "left", "right", "full"; "semi" and "anti" of the first stream; "right_semi" and "right_anti" of
      the second. A row without a partner comes out once, when it can no longer find one.
    - ``select``: a SQL select list over the streams' names, such as "r.x, s.a + 1 AS next". Default "*": all columns; those that
      more than one stream has get the stream's name in front.
    - ``index``: "auto" (default: picked for each sub-window), "scan", "hash", "bi_sort", "rap_table", "wib_tree" or "grid".
    - ``cores``: on how many threads a push works, at least 1 (default). The result is the same.
    - ``result``: what a result keeps: "pairs" (default), "ranges" (one record for all the neighbouring matches of a row, so the cost
      does not grow with them) or "count" (only how many).
    - ``schemas``: ``{"r": schema, ...}``, Arrow schemas or dicts of Arrow types. Default: a stream's first batch has it. With the
      schemas of all streams a condition that does not fit them is refused at once.
    - ``subwindow``: rows in a sub-window, at least 1. Default None: worked out from the windows and the batches.
    - ``probe_order``: with three streams or more: ``{"a": ["c", "b"]}``, in which order rows of a stream look for partners in the others.
      Default None: chosen by what is seen, and changed while the join runs. The result is the same.
    - ``stash``: with three streams or more: how many pairs of two streams are kept, indexed, for the stream that arrives most often, or
      "auto". Default None: no intermediate result is stored. The result is the same.

    How rows reach the cores and how results leave (docs/flows.md):

    - ``flow``: "three_step", "split_join", "pan_join", "low_latency_handshake" or "handshake", of more than two streams "circular_mj",
      "linear_mj", "stashed_mj" (three) or "parallel_mj"; or a value that has the flow's own options with it, such as
      ``SplitJoin(cores=2, fanout=4)``. Default None: no flow, the fastest.
    - ``order``: the order of the results: "none" (default), "outer", "inner" or "adaptive". Needs result="pairs".
    - ``precision``: with order "outer" or "inner": a punctuation after every so many rows, at least 1 (default: strict order).
    - ``target_rate``, ``target_latency``: with order "adaptive", one of them: rows a second, or seconds a push. Default None.
    - ``granularity``: most rows of a message between cores, at least 1. Default None: 8,192; 65,536 for "pan_join".
    - ``fanout``: of the tree of "split_join" or "parallel_mj", at least 2. Default None: 4.
    - ``queue``: messages that a queue holds, at least 1. Default None: 16, or more where messages are small.
    - ``on_core_failure``: "raise" (default) or "continue" without that engine ("split_join" and "pan_join").
    - ``collect``: with "pan_join": how long rows may wait for a batch to fill, such as "10 ms" or a number of seconds. Default None: a
      push waits for nothing.

    ``push`` lets rows arrive and gives their results; ``finish`` ends the streams; ``explain`` and ``stats`` say how it goes; ``save``
    and ``load`` keep the state. As a context manager, the join closes itself.
    """

    def __init__(
        self,
        condition: str,
        *,
        windows: Mapping[str, Window] | None = None,
        how: str = "inner",
        select: str = "*",
        index: str = "auto",
        cores: int = 1,
        result: str = "pairs",
        schemas: Mapping[str, Any] | None = None,
        subwindow: int | None = None,
        flow: str | FlowModel | None = None,
        order: str = "none",
        precision: int | None = None,
        granularity: int | None = None,
        fanout: int | None = None,
        queue: int | None = None,
        on_core_failure: str = "raise",
        target_rate: float | None = None,
        target_latency: float | None = None,
        collect: str | float | None = None,
        probe_order: Mapping[str, Sequence[str]] | None = None,
        stash: str | int | None = None,
        **streams: Window,
    ) -> None:
        named = named_windows(windows, streams, OPTIONS)
        flow_options = {
            "cores": cores, "order": order, "precision": precision, "granularity": granularity, "fanout": fanout, "queue": queue,
            "on_core_failure": on_core_failure, "target_rate": target_rate, "target_latency": target_latency, "collect": collect,
            "stash": stash,
        }  # fmt: skip
        options = JoinOptions(
            condition=condition,
            how=how,
            select=select,
            index=index,
            result=result,
            subwindow=subwindow,
            probe_order=probe_order,
            **spelled_out(flow, flow_options),
        )
        self._set_up(named, options)
        if schemas is not None:
            self._adopt(self._texts.given(schemas))

    def _set_up(self, windows: Mapping[str, Window], options: JoinOptions) -> None:
        self.windows, self.options = dict(windows), options
        self.streams = tuple(windows)
        options.check_streams(self.streams)
        self._nothing: Schemas = (None,) * len(self.streams)
        # Who comes when: of a push of one stream, or of two in all, by the first one.
        self._turns = tuple(
            (k, *(j for j in range(len(self.streams)) if j != k)) for k in range(len(self.streams))
        )
        self._places = {name: k for k, name in enumerate(self.streams)}
        self._texts = Texts(self.windows, options.condition, options.select, options.kind)
        self._latest = Latest()
        self._engine: Engine = self._new_engine()
        self._know(self._texts.bind(self._nothing))
        # A push is atomic: one at a time, in whatever order threads come. Results that a consumer takes do not wait for it.
        self._lock = threading.RLock()
        self._inside = (
            False  # whether a call has its turn: it must not be interrupted by another of the same thread
        )
        # All that a push which brings a schema may change, until the push counts or is undone.
        self._before: tuple[Schemas, dict[str, Any], dict[int, pa.Table], Any] | None = None
        # Who only looks must not wait for a producer that waits for room: in a flow it is enough that nothing is being written down.
        self._looking = self._engine.lock or self._lock
        # Two tallies, each with one writer: what pushes gave, and what left through results().
        self._pushed, self._taken = Tally([0] * len(self.streams)), Tally([0] * len(self.streams))
        self._finished = self._closed = False

    def _new_engine(self) -> Engine:
        windows, options = list(self.windows.values()), self.options
        how, index, mode, size = options.kind, options.index, options.result, options.subwindow
        orders = checked_orders(options.probe_order, self.streams)
        if options.model is not None:
            return FlowEngine(self.streams, windows, how, index, mode, options.model, size, orders)
        return JoinEngine(self.streams, windows, how, index, mode, options.cores, size, orders, options.stash)

    # ---- streams in ---------------------------------------------------------------------------------------------

    def push(self, rows: Mapping[str, Any] | None = None, /, *, order: Any = None, **batches: Any) -> Result:
        """Let rows arrive, and get every result that they complete.

        A batch is Arrow data (pyarrow, polars, duckdb, anything with the Arrow PyCapsule interface), a pandas DataFrame, a dict of
        lists or arrays, or a list of row dicts: ``push(r=..., s=...)``, or one stream alone. A stream's first batch fixes its columns,
        the first value of a column its type; a value that the type cannot hold exactly is refused. Rows that come too late for
        their window are in ``result.late``.

        Within one call the rows of the streams arrive in keyword order, unless ``order`` gives the interleaving: a sequence of
        stream names, one per row, or the name of a time column to merge by. ``push({"r": ..., "s": ...})`` does the same as the
        keywords, for a stream that is called ``order``.

        A push is all or nothing. A batch that is refused is refused whole, with the others of the same call; whatever else fails
        (memory, Ctrl-C): the join goes on as if nothing had been pushed. Several threads may push: pushes are then one after the
        other, in the order in which they get their turn.
        """
        started = time.perf_counter()
        if rows is not None:
            if not isinstance(rows, Mapping):
                raise OptionError(
                    f"push() takes batches by stream, such as push({self.streams[0]}=batch) or push({{{self.streams[0]!r}: batch}}); got "
                    f"{type(rows).__name__}"
                )
            batches = {**rows, **batches}
        # Before it is this push's turn: reading runs code of the user's, which may take its time, or ask this join.
        readers = self._readers
        given: list[int] = []
        arrows: list[pa.RecordBatch | None] = [None] * len(readers)
        for name, data in batches.items():
            k = self._place(name)
            batch = readers[k].read(data)
            if batch is not None:
                given.append(k)
                arrows[k] = batch
        return self._in_turn("a push", self._push_all, readers, arrows, order, given, started)

    def _in_turn(self, call: str, do: Callable[..., Result], *args: Any) -> Result:
        """One call at a time, and all of it or nothing: whatever fails on the way, what it has changed is taken back."""
        with self._lock:
            if self._inside or self._finished or (self._closed and call != FINISH):
                raise self._refused(call)
            try:
                self._inside = True
                if self._before is not None:
                    self._mend()
                return do(*args)
            except BaseException:
                self._engine.take_back()
                raise
            finally:
                self._inside = False

    def _refused(self, what: str) -> StateError:
        if self._inside:
            return StateError(
                f"a join must have ended one push before the next call; got {what} from within a push, by a signal handler for instance; "
                "let the handler set a flag, and call when the push is over"
            )
        if what == FINISH:
            return StateError("finish() must be called once; got a second call")
        call = FINISH if self._finished else "close()"
        return StateError(
            f"the join must be open to be pushed to; got {what} after {call}; make a new StreamJoin"
        )

    def _mend(self) -> None:
        """Should going back have failed itself, it is repeated before anything else is done."""
        if self._before is not None:
            self._go_back(*self._before)
            self._before = None

    def _push_all(
        self,
        readers: list[Reader],
        arrows: list[pa.RecordBatch | None],
        order: Any,
        given: list[int],
        started: float,
    ) -> Result:
        if readers is not self._readers:  # a schema, or a type, has become known since
            arrows = [
                None if batch is None else self._readers[k].read(batch) for k, batch in enumerate(arrows)
            ]
        if not self._known.complete:
            fresh = tuple(
                None if batch is None or batch.schema == self._known.schemas[k] else batch.schema
                for k, batch in enumerate(arrows)
            )
            if fresh != self._nothing:
                return self._first_push(arrows, fresh, order, given, started)
        return self._push(arrows, order, given, started)

    def _first_push(
        self,
        arrows: list[pa.RecordBatch | None],
        fresh: Schemas,
        order: Any,
        given: list[int],
        started: float,
    ) -> Result:
        """A push that brings a schema, or types that were open: should it be refused, they are forgotten again."""
        engine, waiting = self._engine, self._engine.held_back()
        before = self._known.schemas, snapshot(engine), stored_rows(engine), waiting
        self._before = before
        try:
            self._learn(fresh, *before)
            result = self._push(arrows, order, given, started)
        except BaseException:
            self._mend()
            raise
        self._before = None
        return result

    def _learn(
        self,
        fresh: Schemas,
        known: Schemas,
        numbers: dict[str, Any],
        rows: dict[int, pa.Table],
        waiting: Any,
    ) -> None:
        """Take on schemas that have become known, or have got types. Stored rows get the types first.

        A stream whose time column was open has no rows. It joins the axis of time last, as if it had just begun.
        """
        changed = tuple(
            old if new is None or old is None or self._texts.timeless(k, old) else new
            for k, (old, new) in enumerate(zip(known, fresh, strict=True))
        )
        if changed != known:
            self._go_back(changed, numbers, rows, waiting)
        rest = tuple(None if new == now else new for new, now in zip(fresh, self._known.schemas, strict=True))
        if rest != self._nothing:
            with self._engine.still():
                self._adopt(rest)

    def _go_back(
        self,
        schemas: Schemas,
        numbers: dict[str, Any],
        rows: dict[int, pa.Table],
        waiting: Any,
    ) -> None:
        """To a state with these schemas, as if it had been saved and loaded. The rows may have had other, open types."""
        engine = self._engine
        with engine.still():
            engine.begin()
            self._know(self._texts.bind(self._nothing))
            self._adopt(schemas)
            restore(engine, numbers, {k: self._retyped(k, table) for k, table in rows.items()})
            if waiting is not None:
                batches, order, turns = waiting
                again = [
                    None if batch is None else self._readers[k].read(batch) for k, batch in enumerate(batches)
                ]
                if any(batch is not None for batch in again):
                    engine.hold_back((again, order, turns))

    def _retyped(self, k: int, table: pa.Table) -> pa.Table:
        schema, payload = self._known.schemas[k], self._engine.ledger.payload[k]
        assert schema is not None
        assert payload is not None
        return retyped(table, schema, payload.columns)

    def _push(
        self, arrows: list[pa.RecordBatch | None], order: Any, given: list[int], started: float
    ) -> Result:
        if not self._known.complete:
            arrows = [None if self._lacks_time(k, batch) else batch for k, batch in enumerate(arrows)]
        unordered = order is None or (isinstance(order, str) and all(batch is None for batch in arrows))
        sequence = None if unordered else self._sequence(order, arrows)
        turns = self._turns[given[0] if given else 0]
        if len(given) > 2 or (len(given) == 2 and len(turns) > 2):
            turns = (*given, *(k for k in turns if k not in given))
        outcome = self._engine.arrive(arrows, sequence, turns)
        return self._give(outcome, 1, started)

    def _give(self, outcome: Outcome, pushes: int, started: float) -> Result:
        """Where a push begins to count: all that can fail comes before ``commit``; what follows it only adds numbers."""
        result, tally = self._result(outcome), self._pushed
        late = tally.late_with(self._late_in(result)) if result.late else tally.late
        now = time.perf_counter()
        self._engine.commit()
        tally.pushes += pushes
        tally.results += result.count
        tally.seconds += now - started
        tally.late = late
        return result

    def _late_in(self, result: Result) -> list[int]:
        return [result.late[name].num_rows if name in result.late else 0 for name in self.streams]

    def _place(self, name: str, call: str = "push()") -> int:
        place = self._places.get(name)
        if place is None:
            raise OptionError(
                f"{call} takes the streams {listed([repr(stream) for stream in self.streams])}; got {name!r}"
            )
        return place

    def _sequence(self, order: Any, arrows: Sequence[pa.RecordBatch | None]) -> np.ndarray:
        sizes = [0 if batch is None else batch.num_rows for batch in arrows]
        codes: list[np.ndarray | None] = [None] * len(sizes)
        if isinstance(order, str):
            codes = list(order_codes(order, self.streams, self._known.schemas, arrows))
        return interleaving(order, self.streams, sizes, codes)

    def advance(self, clocks: Mapping[str, Any] | None = None, /, **times: Any) -> Result:
        """Move the clock of a stream that has no rows to push, and get the results that waited for it.

        ``join.advance(q="2024-05-01 12:00:05")`` says that stream q has come to that time: just as a row of q with that time would,
        it moves the watermark (by the stream's own ``lateness`` less), so that rows which can no longer match are emitted and
        forgotten. A time of day alone (``q="12:00:05"``) is the one nearest to the latest time of any stream. A time before the clock
        changes nothing. A row of q that comes later and is older than the watermark is late.
        The streams must have a ``Range`` window, and both schemas must be known: give ``schemas=`` if a stream may not begin at all.
        """
        started = time.perf_counter()
        if clocks is not None:
            if not isinstance(clocks, Mapping):
                raise OptionError(
                    f"advance() takes times by stream, such as advance({self.streams[0]}=time); got {type(clocks).__name__}"
                )
            times = {**clocks, **times}
        return self._in_turn("advance()", self._advance, times, started)

    def _advance(self, times: Mapping[str, Any], started: float) -> Result:
        codes: list[int | None] = [None] * len(self.streams)
        for name, value in times.items():
            k = self._place(name, "advance()")
            codes[k] = self._time_code(k, name, value)
        return self._give(self._engine.advance(codes), 0, started)

    def _time_code(self, k: int, stream: str, value: Any) -> int:
        """A time of stream k as its time column would hold it, as a code."""
        window, axis = self.windows[stream], self._engine.ledger.arrivals.axis
        if not window.timed:
            raise OptionError(
                f"advance() moves the clock of a stream with a Range window; got stream {stream!r}, whose window is {window!r}"
            )
        known = self._known
        schema = known.schemas[k]
        if known.condition is None or axis is None or schema is None:
            unknown = [name for name, one in zip(self.streams, known.usable, strict=True) if one is None]
            raise StateError(
                f"advance() needs the schemas of {'both' if len(self.streams) == 2 else 'all'} streams; that of "
                f"{' and '.join(map(repr, unknown))} is not known yet; give "
                "schemas= when the join is made, or push a batch first"
            )
        field = schema.field(window.time)
        time = moment(stream, field, value, axis.latest(self._engine.ledger.arrivals.latest))
        try:
            return int(axis.column_codes(k, time)[0])
        except DataError as error:
            raise refused(stream, field, value) from error

    def finish(self) -> Result:
        """End the streams: rows that still wait for a partner are emitted, and the state is given back.

        Called once; no push after it. An inner join without a flow needs it only to free memory.
        """
        return self._in_turn(FINISH, self._finish, time.perf_counter())

    def _finish(self, started: float) -> Result:
        result = self._give(self._engine.finish(), 0, started)
        self._finished = True
        return result

    def results(self) -> Iterator[Result]:
        """Results as they leave, block by block, while another thread pushes; ends after ``finish()``.

        From this call on ``push`` does not wait: its Result has only late rows, and it blocks while the queues are full. Needs a flow.
        """
        blocks = self._engine.leaving()
        return (self._take(outcome) for outcome in blocks)

    def _take(self, outcome: Outcome) -> Result:
        result, taken = self._result(outcome), self._taken
        taken.results += result.count
        taken.late = taken.late_with(self._late_in(result))
        return result

    def close(self) -> None:
        """End the threads of a flow; rows that are on their way are lost. Always returns. A closed join can still be saved."""
        self._closed = True
        # A flow has a lock of its own: this wakes a producer that waits for room, and has ours.
        with self._lock if self._engine.lock is None else nullcontext():
            self._engine.close()

    def __enter__(self) -> "StreamJoin":
        return self

    def __repr__(self) -> str:
        with self._looking:
            rows = [chain.rows for chain in self._engine.ledger.chains]
        held = {name: (window, rows[k]) for k, (name, window) in enumerate(self.windows.items())}
        return join_line(held, self.options, self._pushed.results + self._taken.results, self._ended())

    def _repr_html_(self) -> str:
        """What a notebook shows: the streams, their windows and what they hold."""
        facts = self.describe()
        streams = {
            name: {**facts["streams"][name], "window": window} for name, window in self.windows.items()
        }
        return join_html(streams, self.options, facts["results"], facts["ended"])

    def _ended(self) -> str:
        return "finished" if self._finished else "closed" if self._closed else ""

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- schemas ------------------------------------------------------------------------------------------------

    def _know(self, known: Known) -> None:
        self._known = known
        self._readers = [
            Reader(name, schema) for name, schema in zip(self.streams, known.schemas, strict=True)
        ]
        self._gatherer = Gatherer(
            self.streams,
            known.usable,
            known.select,
            self.options.result,
            self._latest,
            self._engine.pool,
            known.condition,
        )
        self._latest.gatherer = self._gatherer

    def _adopt(self, fresh: Schemas) -> None:
        """Take on schemas that were not known before; with all known, the engine can join."""
        before = self._known.schemas
        known = self._texts.bind(
            tuple(new if new is not None else old for new, old in zip(fresh, before, strict=True))
        )
        engine = self._engine
        engine.open(fresh, known.axis)
        self._know(known)
        if known.condition is None:
            return
        try:
            engine.bind(known.condition, known.columns)
        except OptionError:  # an index that needs types which are still open has to wait for them
            if not known.guessed:
                raise
            engine.bind(known.condition, known.columns, "auto")

    def _lacks_time(self, k: int, batch: pa.RecordBatch | None) -> bool:
        """Whether the batch is of a stream whose time column has no type yet; then it must be empty."""
        known, window = self._known, self.windows[self.streams[k]]
        if batch is None or known.schemas[k] is None or known.usable[k] is not None:
            return False
        if batch.num_rows:
            assert window.time is not None
            raise refuse_time(window.time, self.streams[k], "null", 0)
        return True

    # ---- results out --------------------------------------------------------------------------------------------

    def _result(self, outcome: Outcome) -> Result:
        # Most have neither; a comprehension over nothing is a call all the same.
        late = {self.streams[k]: batch for k, batch in outcome.late.items()} if outcome.late else {}
        missing = {self.streams[k]: rows for k, rows in outcome.missing.items()} if outcome.missing else {}
        return Result(self._gatherer, outcome.matches, outcome.chunks, late, outcome.punctuations, missing)

    def describe(self) -> dict[str, Any]:
        """All that is known of the join now, as plain data that ``json.dumps`` takes: what ``explain`` and ``stats`` show, and more.

        - ``options``: all that the join was told, as ``save`` writes it.
        - ``flow``: None, or the flow's ``name``, ``cores`` that are left, ``granularity``, ``order`` now, whether that is ``tuned``, and
          ``collect`` with how many rows wait.
        - ``plan``: None while a schema is missing; then the ``indexes`` to choose from, the condition's ``drivers``, ``checks``
          (each a ``text`` with its estimated ``selectivity``, if known), ``filters`` by stream and ``residual``.
        - ``streams``: by name, ``window``, ``schema`` (types by column, or None) and what ``stats`` has.
        - ``watermark``: None, or its ``value`` and its ``text``.
        - ``results``, ``pushes``, ``seconds``, ``rows_per_second``; ``ended``: "", "finished" or "closed".
        """
        with self._looking:
            return describe(
                self._engine, self.options, self._known.schemas, self._pushed.plus(self._taken), self._ended()
            )

    def explain(self) -> str:
        """How the join finds its pairs, in words: condition, driver, index, windows, sub-windows, what is checked when."""
        return explain(self.describe())

    def stats(self) -> dict[str, Any]:
        """Rows, bytes, sub-windows, late rows and rates, as of now.

        ``streams`` has, by name: ``rows`` held, ``arrived``, ``late``, ``subwindows``, ``indexes``, ``bytes`` (of index and payload).
        Beside it: ``results``, ``pushes``, ``seconds`` spent in pushes, ``rows_per_second``, and the ``watermark``
        (None without time windows).
        """
        return stats(self.describe())

    # ---- state --------------------------------------------------------------------------------------------------

    def save(self, directory: str | PathLike[str]) -> None:
        """Write the whole state to a directory; ``StreamJoin.load`` goes on from there, exactly."""
        with self._lock:
            if self._inside:
                raise self._refused("save()")
            self._mend()
            self._save(directory)

    def _save(self, directory: str | PathLike[str]) -> None:
        self._engine.settled()
        total = self._pushed.plus(self._taken)
        header = {
            "options": self.options.to_json(),
            "windows": {name: window.to_json() for name, window in self.windows.items()},
            "schemas": [schema_to_json(schema) for schema in self._known.schemas],
            "core": snapshot(self._engine),
            "counters": [list(total.late), total.results, total.pushes, total.seconds, self._finished],
        }
        write_state(
            directory, header, {self.streams[k]: table for k, table in stored_rows(self._engine).items()}
        )

    @classmethod
    def load(cls, directory: str | PathLike[str]) -> "StreamJoin":
        """The join that was saved in ``directory``. A damaged or missing file is refused by name."""
        header, tables = read_state(directory)
        windows = {name: window_from_json(window) for name, window in header["windows"].items()}
        join = cls.__new__(cls)
        join._set_up(windows, JoinOptions.from_json(header["options"]))
        join._adopt(tuple(schema_from_json(schema) for schema in header["schemas"]))
        restore(
            join._engine, header["core"], {join.streams.index(name): table for name, table in tables.items()}
        )
        late, results, pushes, seconds, join._finished = header["counters"]
        join._pushed = Tally(list(late), results, pushes, seconds)
        return join


OPTIONS = tuple(
    name for name, option in signature(StreamJoin).parameters.items() if option.kind is option.KEYWORD_ONLY
)
