"""``StreamJoin``: what users write. Names, SQL texts and options outside; arrival numbers and the join core inside."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.arrival import interleaving
from watersmeet.batch import Reader, retyped
from watersmeet.clock import BOTTOM, TimeAxis, refuse_time, time_domain
from watersmeet.condition import BoundCondition, Condition
from watersmeet.core import JoinCore, Outcome
from watersmeet.errors import OptionError, SchemaError, StateError
from watersmeet.explain import explain
from watersmeet.expression.select import Select
from watersmeet.flow.catalog import checked_flow
from watersmeet.flow.collecting import CollectingCore
from watersmeet.flow.driver import FlowCore
from watersmeet.flow.options import FlowOptions, uses_flow
from watersmeet.flow.stream import leaving
from watersmeet.guess import bind_open
from watersmeet.outer import join_type
from watersmeet.plan import INDEXES
from watersmeet.result import Gatherer, Result
from watersmeet.schema import is_open, stored_schema
from watersmeet.snapshot import restore, snapshot, stored_rows
from watersmeet.state import (
    read_state,
    schema_from_json,
    schema_to_json,
    window_from_json,
    window_to_json,
    write_state,
)
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
        self._readers = [Reader(name, None) for name in self.streams]
        self._complete = False  # whether both schemas are known, with the type of every column
        self._gatherer = Gatherer(self.streams, self._schemas, None, result)
        self._core = self._new_core()
        self._late = [0, 0]
        self._results = self._pushes = 0
        self._seconds = 0.0
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
        keywords, for a stream that is called ``order``. A batch that is refused is refused whole, with the others of the same
        call: the join goes on as if nothing had been pushed.
        """
        started = time.perf_counter()
        if self._finished:
            raise StateError(
                "the join must not be finished to be pushed to; got a push after finish(); make a new StreamJoin"
            )
        if self._closed:
            raise StateError(
                "the join must be open to be pushed to; got a push after close(); make a new StreamJoin"
            )
        if rows is not None:
            batches = {**rows, **batches}
        given: list[int] = []
        arrows: list[pa.RecordBatch | None] = [None, None]
        for name, data in batches.items():
            k = self._place(name)
            batch = self._readers[k].read(data)
            if batch is not None:
                given.append(k)
                arrows[k] = batch
        if not self._complete:
            fresh = [
                None if batch is None or batch.schema == self._schemas[k] else batch.schema
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
        """A push that brings a schema, or types that were open: should it be refused, they are forgotten again."""
        self._let_collected_through()
        core = self._core
        waiting = core.collector.together() if isinstance(core, CollectingCore) else None
        before = self._schemas, snapshot(core), stored_rows(core), waiting
        try:
            self._learn(fresh, *before)
            return self._push(arrows, order, given, started)
        except BaseException:
            self._go_back(*before)
            raise

    def _let_collected_through(self) -> None:
        """While a consumer takes results, it may let collected rows through at any time: they go first."""
        core = self._core
        if isinstance(core, FlowCore) and core.streaming:
            if isinstance(core, CollectingCore) and core.collector.rows:
                outcome = core.push([None, None], None, 0)
                core.asides.append(outcome)  # late rows: the consumer gets them, as with any collected push
            core.settled()

    def _learn(
        self,
        fresh: Sequence[pa.Schema | None],
        known: Sequence[pa.Schema | None],
        numbers: dict[str, Any],
        rows: dict[int, pa.Table],
        waiting: Any,
    ) -> None:
        """Take on schemas that have become known, or have got types. Stored rows get the types first.

        A stream whose time column was open has no rows. It joins the axis of time last, as if it had just begun.
        """
        changed = [
            old if new is None or old is None or self._timeless(k, old) else new
            for k, (old, new) in enumerate(zip(known, fresh, strict=True))
        ]
        if changed != list(known):
            self._go_back(changed, numbers, rows, waiting)
        rest = [None if new == now else new for new, now in zip(fresh, self._schemas, strict=True)]
        if rest != [None, None]:
            with self._still():
                self._adopt(rest)

    def _go_back(
        self,
        schemas: Sequence[pa.Schema | None],
        numbers: dict[str, Any],
        rows: dict[int, pa.Table],
        waiting: Any,
    ) -> None:
        """To a state with these schemas, as if it had been saved and loaded. The rows may have had other, open types."""
        core = self._core
        with self._still():
            core.begin()
            self._schemas = [None, None]
            self._adopt(schemas)
            restore(core, numbers, {k: self._retyped(k, table) for k, table in rows.items()})
            if isinstance(core, CollectingCore) and waiting is not None:
                batches, order, first = waiting
                again = [
                    None if batch is None else self._readers[k].read(batch) for k, batch in enumerate(batches)
                ]
                if any(batch is not None for batch in again):
                    core.collector.add(again, order, first)

    def _retyped(self, k: int, table: pa.Table) -> pa.Table:
        schema, payload = self._schemas[k], self._core.payload[k]
        assert schema is not None
        assert payload is not None
        return retyped(table, schema, payload.columns)

    @contextmanager
    def _still(self) -> Iterator[None]:
        """Nothing else moves meanwhile: a flow's consumer looks at rows, too."""
        core = self._core
        if not isinstance(core, FlowCore):
            yield
            return
        with core.pushing, core.lock:
            yield

    def _push(
        self, arrows: list[pa.RecordBatch | None], order: Any, given: list[int], started: float
    ) -> Result:
        if not self._complete:
            arrows = [None if self._lacks_time(k, batch) else batch for k, batch in enumerate(arrows)]
        sequence = None if order is None else self._sequence(order, arrows)
        outcome = self._core.push(arrows, sequence, given[0] if given else 0)
        self._pushes += 1
        return self._result(outcome, started)

    def _place(self, name: str) -> int:
        place = self._places.get(name)
        if place is None:
            raise OptionError(
                f"push() takes the streams {self.streams[0]!r} and {self.streams[1]!r}, and order=; got {name!r}"
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

    def finish(self) -> Result:
        """End the streams: rows that still wait for a partner are emitted, and the state is given back."""
        started = time.perf_counter()
        if self._finished:
            raise StateError("finish() must be called once; got a second call")
        outcome = self._core.finish()
        self._finished = True
        return self._result(outcome, started)

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
        return (self._result(outcome, time.perf_counter()) for outcome in blocks)

    def close(self) -> None:
        """End the threads of a flow; rows that are on their way are lost. Always returns. A closed join can still be saved."""
        self._closed = True
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
                arrow = schema if isinstance(schema, pa.Schema) else pa.schema(schema)
            except (TypeError, ValueError, pa.ArrowException) as error:
                raise SchemaError(
                    f"the schema of stream {name!r} must be an Arrow schema; got {schema!r}: {error}"
                ) from error
            listed[self.streams.index(name)] = stored_schema(arrow, name)
        return listed

    def _adopt(self, fresh: Sequence[pa.Schema | None]) -> None:
        """Take on schemas that were not known before; with both known, bind condition and select list."""
        schemas = [new if new is not None else old for new, old in zip(fresh, self._schemas, strict=True)]
        windows = list(self.windows.values())
        axis = None
        known = [
            None if schema is None or self._timeless(k, schema) else schema
            for k, schema in enumerate(schemas)
        ]
        if any(
            isinstance(window, Range) and schema is not None
            for window, schema in zip(windows, known, strict=True)
        ):
            axis = TimeAxis(self.streams, windows, known)
        bound = select = None
        if known[0] is not None and known[1] is not None:
            both = dict(zip(self.streams, known, strict=True))
            shown = list(self.streams) if self._how.one_sided is None else [self._kept_stream()]
            bound = bind_open(self._condition.bind, both, self._condition.names)
            select = bind_open(lambda types: self._select.bind(types, shown), both, self._select.names)
        self._core.open(fresh, axis)
        self._schemas = schemas
        self._gatherer = Gatherer(self.streams, known, select, self.options["result"])
        self._readers = [Reader(name, schema) for name, schema in zip(self.streams, schemas, strict=True)]
        self._complete = bound is not None and not any(
            is_open(kind) for schema in known if schema is not None for kind in schema.types
        )
        if bound is not None and select is not None:
            self._bind(bound, [self._needed(k, bound.columns, select.columns) for k in (0, 1)])

    def _bind(self, condition: BoundCondition, columns: Sequence[Sequence[str]]) -> None:
        """Let the core join. An index that needs types which are still open has to wait for them."""
        core = self._core
        core.index = self.options["index"]
        try:
            core.bind(condition, columns)
        except OptionError:
            named = (field for schema in self._schemas if schema is not None for field in schema)
            if not any(
                is_open(field.type) and field.name.lower() in self._condition.names for field in named
            ):
                raise
            core.index = "auto"
            core.bind(condition, columns)

    def _timeless(self, k: int, schema: pa.Schema) -> bool:
        """Whether the stream's time column is open. No row can have come: a row without a time is refused."""
        window = self.windows[self.streams[k]]
        place = schema.get_field_index(window.time) if isinstance(window, Range) else -1
        return place >= 0 and is_open(schema.field(place).type)

    def _lacks_time(self, k: int, batch: pa.RecordBatch | None) -> bool:
        """Whether the batch is of a stream whose time column is open; then it must be empty."""
        schema, window = self._schemas[k], self.windows[self.streams[k]]
        if batch is None or schema is None or not self._timeless(k, schema):
            return False
        if batch.num_rows:
            assert isinstance(window, Range)
            raise refuse_time(window.time, self.streams[k], "null", 0)
        return True

    def _kept_stream(self) -> str:
        assert self._how.one_sided is not None
        return self.streams[self._how.one_sided]

    def _needed(self, k: int, *uses: Mapping[str, Sequence[str]]) -> list[str]:
        """The columns of stream k that must be kept; at least one, so that rows can be counted."""
        stream, window, schema = self.streams[k], self.windows[self.streams[k]], self._schemas[k]
        assert schema is not None
        needed = {name for use in uses for name in use.get(stream, ())}
        if (
            not self._complete
        ):  # an open column binds as NULL, and others that are needed later may have gone with it
            named = self._condition.names | self._select.names
            needed |= {name for name in schema.names if "*" in named or name.lower() in named}
        if isinstance(window, Range):
            needed.add(window.time)
        return [name for name in schema.names if name in needed] or schema.names[:1]

    # ---- results out --------------------------------------------------------------------------------------------

    def _result(self, outcome: Outcome, started: float) -> Result:
        late = {}
        for k, batch in outcome.late.items():
            self._late[k] += batch.num_rows
            late[self.streams[k]] = batch
        missing = {self.streams[k]: rows for k, rows in outcome.missing.items()}
        result = Result(self._gatherer, outcome.matches, outcome.chunks, late, outcome.punctuations, missing)
        self._results += result.count
        self._seconds += time.perf_counter() - started
        return result

    def explain(self) -> str:
        """How the join finds its pairs: condition, driver, index, windows, sub-windows, what is checked when."""
        return explain(self._core, self.options)

    def stats(self) -> dict[str, Any]:
        """Rows, bytes, sub-windows, late rows and rates, as of now."""
        arrivals, streams = self._core.arrivals, {}
        for k, name in enumerate(self.streams):
            chain, payload = self._core.chains[k], self._core.payload[k]
            index_bytes, payload_bytes = self._core.index_bytes(k), 0 if payload is None else payload.nbytes
            streams[name] = {
                "rows": chain.rows, "arrived": int(arrivals.counts[k]), "late": self._late[k], "subwindows": len(chain.subwindows),
                "indexes": self._core.indexes(k),
                "index_bytes": index_bytes, "payload_bytes": payload_bytes, "bytes": index_bytes + payload_bytes,
            }  # fmt: skip
        arrived = int(arrivals.counts.sum())
        axis, watermark = arrivals.axis, arrivals.watermark
        return {
            "streams": streams, "results": self._results, "pushes": self._pushes, "seconds": self._seconds,
            "rows_per_second": arrived / self._seconds if self._seconds else 0.0,
            "watermark": None if axis is None or watermark == BOTTOM else axis.value(watermark),
        }  # fmt: skip

    # ---- state --------------------------------------------------------------------------------------------------

    def save(self, directory: str | PathLike[str]) -> None:
        """Write the whole state to a directory; ``StreamJoin.load`` goes on from there, exactly."""
        self._core.settled()
        header = {
            "options": self.options,
            "windows": {name: window_to_json(window) for name, window in self.windows.items()},
            "schemas": [schema_to_json(schema) for schema in self._schemas],
            "core": snapshot(self._core),
            "counters": [self._late, self._results, self._pushes, self._seconds, self._finished],
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
        join._late, join._results, join._pushes, join._seconds, join._finished = header["counters"]
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
