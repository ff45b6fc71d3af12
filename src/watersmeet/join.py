"""``StreamJoin``: what users write. Names, SQL texts and options outside; arrival numbers and the join core inside."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.arrival import interleaving
from watersmeet.batch import to_batch
from watersmeet.clock import BOTTOM, TimeAxis, time_domain
from watersmeet.condition import Condition
from watersmeet.core import JoinCore, Outcome
from watersmeet.errors import OptionError, SchemaError, StateError
from watersmeet.explain import explain
from watersmeet.expression.select import Select
from watersmeet.flow.catalog import checked_flow
from watersmeet.flow.collecting import CollectingCore
from watersmeet.flow.driver import FlowCore
from watersmeet.flow.options import FlowOptions, uses_flow
from watersmeet.flow.stream import leaving
from watersmeet.outer import join_type
from watersmeet.plan import INDEXES
from watersmeet.result import Gatherer, Result
from watersmeet.snapshot import restore, snapshot, stored_rows
from watersmeet.state import (
    read_state,
    schema_from_json,
    schema_to_json,
    window_from_json,
    window_to_json,
    write_state,
)
from watersmeet.tally import Tally
from watersmeet.window import Range, Rows, Unbounded, Window

MODES = ("pairs", "count", "ranges")


class StreamJoin:
    """A join of two live streams within sliding windows, on any condition.

    >>> import numpy as np
    >>> join = StreamJoin("r.x BETWEEN s.a - 1 AND s.a + 1", r=Rows(1000), s=Rows(1000))
    >>> result = join.push(r={"x": np.array([1, 5, 9])}, s={"a": np.array([2, 9])})
    >>> result.count
    2
    >>> result.to_arrow().to_pydict()
    {'x': [1, 9], 'a': [2, 9]}

    ``windows={"r": ..., "s": ...}`` does the same as the keywords, for stream names that clash with an option.
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
        flow: str | None = None,
        order: str = "none",
        precision: int | None = None,
        granularity: int | None = None,
        fanout: int | None = None,
        queue: int | None = None,
        on_core_failure: str = "raise",
        target_rate: float | None = None,
        target_latency: float | None = None,
        collect: str | float | None = None,
        **streams: Window,
    ) -> None:
        named = _named_windows(windows, streams)
        self.streams = tuple(named)
        self.windows = dict(named)
        self._places = {name: k for k, name in enumerate(named)}
        self.options = _checked_options(
            condition=condition,
            how=how,
            select=select,
            index=index,
            cores=cores,
            result=result,
            subwindow=subwindow,
        )
        self._flow = FlowOptions(
            flow, cores, order, precision, granularity, fanout, queue, on_core_failure, target_rate, target_latency, collect
        )  # fmt: skip
        self.options |= checked_flow(self._flow, how, result)
        self._condition = Condition(condition)
        self._how = join_type(how)
        self._select = Select(select)
        self._schemas: list[pa.Schema | None] = [None, None]
        self._bound = False  # whether both schemas are known
        self._gatherer = Gatherer(self.streams, self._schemas, None, result)
        self._core = self._new_core()
        # A push is atomic: one at a time, in whatever order threads come. Results that a consumer takes do not wait for it.
        self._lock = threading.Lock()
        # Who only looks must not wait for a producer that waits for room: in a flow it is enough that nothing is being written down.
        self._looking = self._core.lock if isinstance(self._core, FlowCore) else self._lock
        # Two tallies, each with one writer: what pushes gave, and what left through results().
        self._pushed, self._taken = Tally(), Tally()
        self._finished = self._closed = False
        if schemas is not None:
            self._adopt(self._given(schemas))

    def _new_core(self) -> JoinCore:
        windows, options = list(self.windows.values()), self.options
        index, mode, size = options["index"], options["result"], options["subwindow"]
        if uses_flow(self._flow):
            kind = FlowCore if self._flow.collect is None else CollectingCore
            return kind(self.streams, windows, self._how, index, mode, self._flow, size)
        return JoinCore(self.streams, windows, self._how, index, mode, options["cores"], size)

    # ---- streams in ---------------------------------------------------------------------------------------------

    def push(self, rows: Mapping[str, Any] | None = None, /, *, order: Any = None, **batches: Any) -> Result:
        """Let rows arrive, and get every result that they complete.

        Within one call the rows of the streams arrive in keyword order, unless ``order`` gives the interleaving: a sequence of
        stream names, one per row, or the name of a time column to merge by. ``push({"r": ..., "s": ...})`` does the same as the
        keywords, for a stream that is called ``order``.

        A push is all or nothing. A batch that is refused is refused whole, with the others of the same call; whatever else fails
        (memory, Ctrl-C): the join goes on as if nothing had been pushed. Several threads may push: pushes are then one after the
        other, in the order in which they get their turn.
        """
        started = time.perf_counter()
        if rows is not None:
            batches = {**rows, **batches}
        with self._lock:
            if self._finished or self._closed:
                raise self._ended("a push")
            try:
                return self._push_all(batches, order, started)
            except BaseException:
                self._core.take_back()
                raise

    def _ended(self, what: str) -> StateError:
        call = "finish()" if self._finished else "close()"
        return StateError(
            f"the join must be open to be pushed to; got {what} after {call}; make a new StreamJoin"
        )

    def _push_all(self, batches: Mapping[str, Any], order: Any, started: float) -> Result:
        given: list[int] = []
        arrows: list[pa.RecordBatch | None] = [None, None]
        for name, data in batches.items():
            k = self._place(name)
            given.append(k)
            arrows[k] = to_batch(data, name, self._schemas[k])
        if not self._bound:
            fresh = [
                batch.schema if batch is not None and self._schemas[k] is None else None
                for k, batch in enumerate(arrows)
            ]
            if fresh != [None, None]:
                return self._first_push(arrows, fresh, order, given, started)
        return self._push(arrows, order, given, started)

    def _first_push(
        self,
        arrows: list[pa.RecordBatch | None],
        fresh: list[pa.Schema | None],
        order: Any,
        given: list[int],
        started: float,
    ) -> Result:
        """A push that brings a schema: should it be refused, the schema is forgotten again."""
        before = self._schemas, snapshot(self._core), stored_rows(self._core)
        try:
            self._adopt(fresh)
            return self._push(arrows, order, given, started)
        except BaseException:
            self._go_back(*before)
            raise

    def _go_back(
        self, schemas: list[pa.Schema | None], numbers: dict[str, Any], rows: dict[int, pa.Table]
    ) -> None:
        """To a state in which not all schemas were known: as if it had been saved and loaded."""
        self._core.begin()
        self._schemas = [None, None]
        self._adopt(schemas)
        restore(self._core, numbers, rows)

    def _push(
        self, arrows: list[pa.RecordBatch | None], order: Any, given: list[int], started: float
    ) -> Result:
        sequence = None if order is None else self._sequence(order, arrows)
        outcome = self._core.push(arrows, sequence, given[0] if given else 0)
        return self._give(outcome, 1, started)

    def _give(self, outcome: Outcome, pushes: int, started: float) -> Result:
        """Where a push begins to count: all that can fail comes before ``commit``; what follows it only adds numbers."""
        result, tally = self._result(outcome), self._pushed
        late = self._late_in(result) if result.late else (0, 0)
        now = time.perf_counter()
        self._core.commit()
        tally.pushes += pushes
        tally.results += result.count
        tally.seconds += now - started
        tally.late = tally.late[0] + late[0], tally.late[1] + late[1]
        return result

    def _late_in(self, result: Result) -> tuple[int, int]:
        left, right = (result.late[name].num_rows if name in result.late else 0 for name in self.streams)
        return left, right

    def _place(self, name: str, call: str = "push()") -> int:
        place = self._places.get(name)
        if place is None:
            raise OptionError(
                f"{call} takes the streams {self.streams[0]!r} and {self.streams[1]!r}; got {name!r}"
            )
        return place

    def _sequence(self, order: Any, arrows: Sequence[pa.RecordBatch | None]) -> np.ndarray:
        sizes = [0 if batch is None else batch.num_rows for batch in arrows]
        codes: list[np.ndarray | None] = [None, None]
        if isinstance(order, str):
            codes = self._order_codes(order, arrows)
        return interleaving(order, self.streams, sizes, codes)

    def _order_codes(self, column: str, arrows: Sequence[pa.RecordBatch | None]) -> list[np.ndarray | None]:
        """Codes of the column to merge by; the column must be in both streams."""
        types = []
        for stream, schema in zip(self.streams, self._schemas, strict=True):
            if schema is not None and schema.get_field_index(column) < 0:
                raise OptionError(
                    f"order= must be stream names, one per row, or a time column of both streams; got {column!r}, which "
                    f"stream {stream!r} does not have: its columns are {', '.join(schema.names)}"
                )
            if schema is not None:
                types.append(schema.field(column).type)
        domain = time_domain(types[0], types[-1])
        if domain is None:
            raise OptionError(
                f"order={column!r} must have comparable types in both streams; got {types[0]} and {types[-1]}"
            )
        codes: list[np.ndarray | None] = []
        for stream, batch in zip(self.streams, arrows, strict=True):
            if batch is None:
                codes.append(np.empty(0, np.int64))
                continue
            values, valid = domain.codes(batch.column(batch.schema.get_field_index(column)))
            if valid is not None:
                row = int(np.flatnonzero(~valid)[0])
                raise OptionError(
                    f"order={column!r} must not be null; got null in row {row} of the batch of stream {stream!r}"
                )
            codes.append(values)
        return codes

    def advance(self, clocks: Mapping[str, Any] | None = None, /, **times: Any) -> Result:
        """Move the clock of a stream that has no rows to push, and get the results that waited for it.

        ``join.advance(q="2024-05-01 12:00:05")`` says that stream q has come to that time: just as a row of q with that time would,
        it moves the watermark (by the stream's own ``lateness`` less), so that rows which can no longer match are emitted and
        forgotten. A time before the clock changes nothing. A row of q that comes later and is older than the watermark is late.
        The streams must have a ``Range`` window, and both schemas must be known: give ``schemas=`` if a stream may not begin at all.
        """
        started = time.perf_counter()
        if clocks is not None:
            times = {**clocks, **times}
        with self._lock:
            if self._finished or self._closed:
                raise self._ended("advance()")
            codes: list[int | None] = [None, None]
            for name, value in times.items():
                k = self._place(name, "advance()")
                codes[k] = self._time_code(k, name, value)
            try:
                return self._give(self._core.advance(codes), 0, started)
            except BaseException:
                self._core.take_back()
                raise

    def _time_code(self, k: int, stream: str, value: Any) -> int:
        """A time of stream k as its time column would hold it, as a code."""
        window, axis = self.windows[stream], self._core.arrivals.axis
        if not isinstance(window, Range):
            raise OptionError(
                f"advance() moves the clock of a stream with a Range window; got stream {stream!r}, whose window is {window!r}"
            )
        schema = self._schemas[k]
        if not self._bound or axis is None or schema is None:
            unknown = [name for name, one in zip(self.streams, self._schemas, strict=True) if one is None]
            raise StateError(
                f"advance() needs the schemas of both streams; that of {' and '.join(map(repr, unknown))} is not known yet; give "
                "schemas= when the join is made, or push a batch first"
            )
        field = schema.field(window.time)
        if isinstance(value, str) and pa.types.is_temporal(field.type):
            try:
                value = pa.scalar(value).cast(field.type)
            except pa.ArrowException as error:
                raise OptionError(
                    f"advance({stream}=...) must be a time of type {field.type}; got {value!r}: {error}"
                ) from error
        batch = to_batch({window.time: [value]}, stream, pa.schema([field]))
        return int(axis.codes(k, batch)[0])

    def finish(self) -> Result:
        """End the streams: rows that still wait for a partner are emitted, and the state is given back."""
        started = time.perf_counter()
        with self._lock:
            if self._finished:
                raise StateError("finish() must be called once; got a second call")
            try:
                result = self._give(self._core.finish(), 0, started)
            except BaseException:
                self._core.take_back()
                raise
            self._finished = True
            return result

    def results(self) -> Iterator[Result]:
        """Results as they leave, block by block, while another thread pushes; ends after ``finish()``.

        From this call on ``push`` does not wait: its Result has only late rows, and it blocks while the queues are full. Needs a flow.
        """
        core = self._core
        if not isinstance(core, FlowCore):
            raise OptionError(
                "results() can be iterated while another thread pushes only with a flow; got flow=None; make the join with "
                "flow='split_join', for instance"
            )
        blocks = leaving(core)
        return (self._take(outcome) for outcome in blocks)

    def _take(self, outcome: Outcome) -> Result:
        result, taken = self._result(outcome), self._taken
        left, right = self._late_in(result)
        taken.results += result.count
        taken.late = taken.late[0] + left, taken.late[1] + right
        return result

    def close(self) -> None:
        """End the threads of a flow; rows that are on their way are lost. Always returns. A closed join can still be saved."""
        self._closed = True
        if isinstance(self._core, FlowCore):  # wakes a producer that waits for room, and has the lock
            self._core.close()
        else:
            with self._lock:
                self._core.close()

    def __enter__(self) -> "StreamJoin":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- schemas ------------------------------------------------------------------------------------------------

    def _given(self, schemas: Mapping[str, Any]) -> list[pa.Schema | None]:
        listed: list[pa.Schema | None] = [None, None]
        for name, schema in schemas.items():
            if name not in self.streams:
                raise OptionError(
                    f"schemas= must name the streams {', '.join(map(repr, self.streams))}; got {name!r}"
                )
            try:
                listed[self.streams.index(name)] = (
                    schema if isinstance(schema, pa.Schema) else pa.schema(schema)
                )
            except (TypeError, ValueError, pa.ArrowException) as error:
                raise SchemaError(
                    f"the schema of stream {name!r} must be an Arrow schema; got {schema!r}: {error}"
                ) from error
        return listed

    def _adopt(self, fresh: Sequence[pa.Schema | None]) -> None:
        """Take on schemas that were not known before; with both known, bind condition and select list."""
        schemas = [new if new is not None else old for new, old in zip(fresh, self._schemas, strict=True)]
        windows = list(self.windows.values())
        axis = None
        if any(
            isinstance(window, Range) and schema is not None
            for window, schema in zip(windows, schemas, strict=True)
        ):
            axis = TimeAxis(self.streams, windows, schemas)
        bound = select = None
        if schemas[0] is not None and schemas[1] is not None:
            both = dict(zip(self.streams, schemas, strict=True))
            bound = self._condition.bind(both)
            select = self._select.bind(
                both, list(self.streams) if self._how.one_sided is None else [self._kept_stream()]
            )
        self._core.open(fresh, axis)
        self._schemas = schemas
        self._gatherer = Gatherer(self.streams, schemas, select, self.options["result"])
        self._bound = bound is not None
        if bound is not None and select is not None:
            self._core.bind(bound, [self._needed(k, bound.columns, select.columns) for k in (0, 1)])

    def _kept_stream(self) -> str:
        assert self._how.one_sided is not None
        return self.streams[self._how.one_sided]

    def _needed(self, k: int, *uses: Mapping[str, Sequence[str]]) -> list[str]:
        """The columns of stream k that must be kept; at least one, so that rows can be counted."""
        stream, window, schema = self.streams[k], self.windows[self.streams[k]], self._schemas[k]
        assert schema is not None
        needed = {name for use in uses for name in use.get(stream, ())}
        if isinstance(window, Range):
            needed.add(window.time)
        return [name for name in schema.names if name in needed] or schema.names[:1]

    # ---- results out --------------------------------------------------------------------------------------------

    def _result(self, outcome: Outcome) -> Result:
        late = {self.streams[k]: batch for k, batch in outcome.late.items()}
        missing = {self.streams[k]: rows for k, rows in outcome.missing.items()}
        return Result(self._gatherer, outcome.matches, outcome.chunks, late, outcome.punctuations, missing)

    def explain(self) -> str:
        """How the join finds its pairs: condition, driver, index, windows, sub-windows, what is checked when."""
        with self._looking:
            return explain(self._core, self.options)

    def stats(self) -> dict[str, Any]:
        """Rows, bytes, sub-windows, late rows and rates, as of now."""
        with self._looking:
            return self._stats()

    def _stats(self) -> dict[str, Any]:
        late, results, pushes, seconds = self._counters()
        arrivals, streams = self._core.arrivals, {}
        for k, name in enumerate(self.streams):
            chain, payload = self._core.chains[k], self._core.payload[k]
            index_bytes, payload_bytes = self._core.index_bytes(k), 0 if payload is None else payload.nbytes
            streams[name] = {
                "rows": chain.rows, "arrived": int(arrivals.counts[k]), "late": late[k], "subwindows": len(chain.subwindows),
                "indexes": self._core.indexes(k),
                "index_bytes": index_bytes, "payload_bytes": payload_bytes, "bytes": index_bytes + payload_bytes,
            }  # fmt: skip
        arrived = int(arrivals.counts.sum())
        axis, watermark = arrivals.axis, arrivals.watermark
        return {
            "streams": streams, "results": results, "pushes": pushes, "seconds": seconds,
            "rows_per_second": arrived / seconds if seconds else 0.0,
            "watermark": None if axis is None or watermark == BOTTOM else axis.value(watermark),
        }  # fmt: skip

    def _counters(self) -> tuple[list[int], int, int, float]:
        pushed, taken = self._pushed, self._taken
        late = [one + two for one, two in zip(pushed.late, taken.late, strict=True)]
        return late, pushed.results + taken.results, pushed.pushes, pushed.seconds

    # ---- state --------------------------------------------------------------------------------------------------

    def save(self, directory: str | PathLike[str]) -> None:
        """Write the whole state to a directory; ``StreamJoin.load`` goes on from there, exactly."""
        with self._lock:
            self._save(directory)

    def _save(self, directory: str | PathLike[str]) -> None:
        self._core.settled()
        header = {
            "options": self.options,
            "windows": {name: window_to_json(window) for name, window in self.windows.items()},
            "schemas": [schema_to_json(schema) for schema in self._schemas],
            "core": snapshot(self._core),
            "counters": [*self._counters(), self._finished],
        }
        write_state(
            directory, header, {self.streams[k]: table for k, table in stored_rows(self._core).items()}
        )

    @classmethod
    def load(cls, directory: str | PathLike[str]) -> "StreamJoin":
        """The join that was saved in ``directory``. A damaged or missing file is refused by name."""
        header, tables = read_state(directory)
        windows = {name: window_from_json(window) for name, window in header["windows"].items()}
        join = cls(windows=windows, **header["options"])
        join._adopt([schema_from_json(schema) for schema in header["schemas"]])
        restore(
            join._core, header["core"], {join.streams.index(name): table for name, table in tables.items()}
        )
        late, results, pushes, seconds, join._finished = header["counters"]
        join._pushed = Tally((late[0], late[1]), results, pushes, seconds)
        return join


def _named_windows(windows: Mapping[str, Window] | None, streams: Mapping[str, Window]) -> dict[str, Window]:
    named = {**(windows or {}), **streams}
    if windows and streams:
        raise OptionError(
            "windows are given by windows= or by one keyword per stream; got both; use one of them"
        )
    if len(named) != 2:
        raise OptionError(
            f"a StreamJoin must have two streams, each with its window, such as r=Rows(1000), s=Rows(1000); got {len(named)}: "
            f"{', '.join(named) or 'none'}"
        )
    for name, window in named.items():
        if not isinstance(window, Rows | Range | Unbounded):
            raise OptionError(
                f"the window of stream {name!r} must be Rows(n), Range(duration, time=...) or Unbounded(); got {window!r}"
                + ("" if windows else "; an unknown option is taken for a stream")
            )
    return named


def _checked_options(**options: Any) -> dict[str, Any]:
    if not isinstance(options["condition"], str):
        raise OptionError(f"the condition must be SQL text; got {options['condition']!r}")
    if not isinstance(options["select"], str):
        raise OptionError(f"select= must be a SQL select list; got {options['select']!r}")
    join_type(options["how"])
    for name, allowed in (("index", INDEXES), ("result", MODES)):
        if options[name] not in allowed:
            raise OptionError(f"{name}= must be one of {', '.join(allowed)}; got {options[name]!r}")
    for name, optional in (("cores", False), ("subwindow", True)):
        value = options[name]
        if optional and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"{name}= must be a whole number of at least 1; got {value!r}")
    return options
