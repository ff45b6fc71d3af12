"""``QueryHost``: what a Spark user writes, and the DataFrame operations that it becomes."""

import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.api.state import schema_from_json
from watersmeet.errors import OptionError, listed
from watersmeet.spark.host.control import Control, HostedQuery
from watersmeet.spark.host.files import ControlFiles
from watersmeet.spark.host.pack import pack, pack_statements
from watersmeet.spark.host.program import Hosted, Programs
from watersmeet.spark.host.setting import Setting, most_cores_of
from watersmeet.spark.host.source import FORMAT, StatementSource
from watersmeet.spark.host.spec import HostSpec
from watersmeet.spark.host.tables import Commit, Output, Said, commit_of
from watersmeet.spark.host.work import SPARK_SAID, work
from watersmeet.spark.session.local import check_session
from watersmeet.spark.session.worker import task_is_over
from watersmeet.spark.shuffle.wire import SPARK_SCHEMA
from watersmeet.spark.state.location import CHECKPOINT, FOLDER, absolute, open_location
from watersmeet.spark.user.checks import core_count, state_place, windows_of
from watersmeet.spark.user.types import arrow_schema
from watersmeet.streams.clock import TimeAxis
from watersmeet.streams.schema import is_open
from watersmeet.streams.window import Window

ForEach = Callable[[str, int, DataFrame, int], None]  # name, generation, rows, batch
MOST_STREAMS = 100


class QueryHost:
    """One running Spark query that hosts many continuous SQL queries. They come, change and go by statements: see ``Control``.

    - ``streams``: streaming DataFrames by the names that queries use. Their rows of a batch arrive in this order.
    - ``windows``: of each, the window in which queries join it unless they say otherwise.
    - ``control``: the folder for statements, on any file system that ``pyarrow.fs`` knows. ``Control`` takes the same.
    - ``state``: where the state of queries lives; default: the session's checkpoint location, or that of ``start``.
    - ``cores``: tasks that share the work; default: Spark's parallelism. May be another number with every start, up to ``most_cores``.
    - ``most_cores``: how many there may ever be: queries are spread over so many, and a task is one of them, or several. Default: that of
      the first start, and there ``cores``.

    Streams, windows, schemas and ``most_cores`` stay the same for as long as the control folder is used.
    """

    def __init__(
        self,
        streams: Mapping[str, DataFrame],
        windows: Mapping[str, Window],
        control: str,
        *,
        state: str | None = None,
        cores: int | None = None,
        most_cores: int | None = None,
        name: str = "host",
    ) -> None:
        self._frames = _checked(streams, windows)
        self.spark: SparkSession = next(iter(self._frames.values())).sparkSession
        for advice in check_session(self.spark):
            warnings.warn(advice, stacklevel=2)
        held = windows_of(list(streams), windows)
        schemas = {
            stream: _known(stream, arrow_schema(frame.schema, stream)) for stream, frame in streams.items()
        }
        self._files, self._state, self.name = ControlFiles(control), state, name
        wanted = core_count(cores, self.spark)
        self.setting = Setting(held, schemas, self._most_cores(wanted, most_cores))
        self.cores = _fitting(cores, wanted, self.setting.cores)
        for stream, window in held.items():
            if window.time is not None:  # refuses windows that do not fit the time columns
                TimeAxis((stream,), (window,), (schemas[stream],))
        self.control = Control(control)
        self._output: Output | None = None

    def start(
        self,
        output: str,
        *,
        checkpoint: str,
        format: str = "parquet",
        foreach_batch: ForEach | None = None,
        skip: Sequence[int] = (),
        most_results: int | None = None,
        trigger: Mapping[str, Any] | None = None,
    ) -> StreamingQuery:
        """Start the query, or go on from its checkpoint.

        - ``output``: the folder of the tables, one a query and generation; ``results`` reads them.
        - ``foreach_batch``: called with a query's name, its generation, a DataFrame of its rows of a batch, and the number of the batch,
          once the batch is committed; again with the same rows, if the driver dies then.
        - ``skip``: numbers of statements. The queries that they have made are stopped: for one that ends the host in a way that cannot be
          caught.
        - ``most_results``: rows that a query may give in one batch on one core. One that gives more is stopped, before its columns are
          gathered: a join that was meant otherwise does not take the memory of all.
        - ``trigger``: as for Spark's ``trigger``, such as ``{"processingTime": "1 second"}``.
        """
        if format != "parquet":
            raise OptionError(
                f"format= must be 'parquet'; got {format!r}; foreach_batch= writes anything else"
            )
        if isinstance(skip, str) or not all(isinstance(one, int) and one > 0 for one in skip):
            raise OptionError(f"skip= must be numbers of statements, such as [12]; got {skip!r}")
        if most_results is not None and not (isinstance(most_results, int) and most_results > 0):
            raise OptionError(
                f"most_results= must be a whole number of at least 1, or None; got {most_results!r}"
            )
        self.setting.agree(self._files)
        spec = HostSpec(
            setting=self.setting,
            control=self._files.location,
            state=self._state_place(checkpoint),
            output=absolute(output),
            name=self.name,
            retain=int(self.spark.conf.get("spark.sql.streaming.minBatchesToRetain", "100") or 100),
            skip=tuple(skip),
            instance=uuid.uuid4().hex,
            tasks=self.cores,
            most_results=most_results,
        )
        open_location(spec.output)
        self._output = Output(spec.output)
        writer = self._assembled(spec).writeStream.foreachBatch(self._committer(foreach_batch))
        writer = writer.option("checkpointLocation", checkpoint)
        return (writer if trigger is None else writer.trigger(**trigger)).start()

    def results(self, name: str, generation: int | None = None) -> DataFrame:
        """What a query has given so far, in its own columns; of one that gives whole answers, the newest one. Default: its newest
        generation.

        A query that was dropped is found by its name as long as no other has taken it.
        """
        query = self._find(name, generation)
        arrow = schema_from_json(query.schema)
        assert arrow is not None
        columns = from_arrow_schema(arrow, prefer_timestamp_ntz=True)
        files = self.files(name, generation)
        if not files:
            return self.spark.createDataFrame([], columns)
        return self.spark.read.schema(columns).parquet(*files)

    def files(self, name: str, generation: int | None = None) -> list[str]:
        """The Parquet files that ``results`` reads: for who reads tables without Spark."""
        if self._output is None:
            raise OptionError("results() must come after start(), which says where the tables are; got none")
        return self._output.files(self._find(name, generation))

    def queries(self) -> dict[str, HostedQuery]:
        """All queries by name, as ``Control.queries``."""
        return self.control.queries()

    def explain(self) -> str:
        """The streams, their copies, and how each query lies on the cores, in words."""
        program = Programs(self._files).of(self._files.last())
        status = self._files.read("status.json") or {"stopped": {}, "figures": {}}
        lines = [
            f"host {self.name} of {listed(self.setting.streams)}, {_shown_cores(self.cores, self.setting.cores)}"
        ]
        for stream, window in self.setting.windows.items():
            spreads = program.spreads(stream, status["stopped"])
            stored = status["figures"].get(f"stored {stream}")
            rows = "" if stored is None else f", {stored} rows stored"
            lines.append(f"  stream {stream}   {window}; read in {len(spreads)} spreading(s){rows}")
            lines += [f"    {spread}" for spread in spreads]
        for query in self.queries().values():
            lines.append(
                f"  query {query.name}, generation {query.generation}: {query.state}; {query.spread}"
            )
        return "\n".join(lines)

    def _most_cores(self, cores: int, most: int | None) -> int:
        if most is None:
            return most_cores_of(self._files) or cores
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise OptionError(f"most_cores= must be a whole number of at least 1; got {most!r}")
        return most

    def _state_place(self, checkpoint: str) -> str:
        if self._state is None and not self.spark.conf.get(CHECKPOINT, None):
            return state_place(f"{absolute(checkpoint).rstrip('/')}/{FOLDER}", self.spark)
        return state_place(self._state, self.spark)

    def _find(self, name: str, generation: int | None) -> Hosted:
        programs = Programs(self._files)
        last = self._files.last()
        programs.of(last)
        for version in range(last, 0, -1):
            query = programs.of(version).queries.get(name)
            if query is not None and generation in (None, query.generation):
                return query
        wanted = f"{name!r}" if generation is None else f"generation {generation} of {name!r}"
        raise OptionError(
            f"results() must name a query that is or was there; got {wanted}; control.queries() has those that are"
        )

    # ---- as DataFrame operations --------------------------------------------------------------------------------

    def _assembled(self, spec: HostSpec) -> DataFrame:
        """pack -> shuffle -> work."""
        self.spark.dataSource.register(StatementSource)
        statements = self.spark.readStream.format(FORMAT).option("control", spec.control).load()
        packed = statements.mapInArrow(_statement_packer(spec), SPARK_SCHEMA)
        for k, (stream, frame) in enumerate(self._frames.items()):
            columns = [F.col(f"`{name}`") for name in self.setting.schemas[stream].names]
            packed = packed.unionAll(frame.select(*columns).mapInArrow(_packer(spec, k), SPARK_SCHEMA))
        shuffled = packed.repartitionById(self.cores, F.col("core") % self.cores)
        return shuffled.mapInArrow(_worker(spec), SPARK_SAID)

    def _committer(self, foreach_batch: ForEach | None) -> Callable[[DataFrame, int], None]:
        output, files = self._output, self._files
        assert output is not None

        def commit(frame: DataFrame, batch: int) -> None:
            made = commit_of(batch, [Said.read(row.said) for row in frame.collect()])
            if made is None:
                return
            counted = output.commit(made)
            status = {"batch": batch, "version": counted.version, "stopped": counted.stopped}
            status["complete"] = counted.complete
            files.write({**status, "late": counted.late, "figures": counted.figures}, "status.json")
            if foreach_batch is not None:
                self._hand_out(counted, foreach_batch)

        return commit

    def _hand_out(self, commit: Commit, foreach_batch: ForEach) -> None:
        assert self._output is not None
        program = Programs(self._files).of(commit.version)
        for query in program.queries.values():
            if query.key in commit.files:
                arrow = schema_from_json(query.schema)
                assert arrow is not None
                columns = from_arrow_schema(arrow, prefer_timestamp_ntz=True)
                paths = self._output.paths(commit.files[query.key])
                rows = self.spark.read.schema(columns).parquet(*paths)
                foreach_batch(query.name, query.generation, rows, commit.batch)


Mapper = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _statement_packer(spec: HostSpec) -> Mapper:
    def packer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from pack_statements(spec, batches)
        task_is_over()

    packer.__name__ = "watersmeet_statements"  # as Spark's plan shows it
    return packer


def _packer(spec: HostSpec, k: int) -> Mapper:
    def packer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from pack(spec, k, batches)
        task_is_over()

    packer.__name__ = f"watersmeet_pack<{spec.setting.streams[k]}>"
    return packer


def _worker(spec: HostSpec) -> Mapper:
    def worker(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from work(spec, batches)
        task_is_over()

    worker.__name__ = f"watersmeet_host<{spec.name}>"
    return worker


def _checked(streams: Mapping[str, DataFrame], windows: Mapping[str, Window]) -> Mapping[str, DataFrame]:
    if not isinstance(streams, Mapping) or not 1 <= len(streams) <= MOST_STREAMS:
        raise OptionError(
            f"streams= must be 1 to {MOST_STREAMS} streaming DataFrames by name, such as {{'trades': trades}}; got {streams!r}"
        )
    for stream, frame in streams.items():
        if type(frame).__module__.startswith("pyspark.sql.connect"):
            check_session(frame.sparkSession)
        if not isinstance(frame, DataFrame) or not frame.isStreaming:
            raise OptionError(
                f"stream {stream!r} must be a streaming DataFrame; got {type(frame).__name__}; do: read it with readStream"
            )
    if not isinstance(windows, Mapping) or set(windows) != set(streams):
        given = ", ".join(map(str, windows)) if isinstance(windows, Mapping) else repr(windows)
        raise OptionError(
            f"windows= must give a window for each of {', '.join(streams)}; got {given or 'none'}"
        )
    return dict(streams)


def _fitting(asked: int | None, cores: int, most: int) -> int:
    if asked is not None and asked > most:
        raise OptionError(
            f"cores= must be at most most_cores=, {most}, over which the queries of this control folder are spread; got {asked}; do: give "
            "fewer, or most_cores= with a new control folder, checkpoint and output"
        )
    return min(cores, most)


def _shown_cores(cores: int, most: int) -> str:
    return f"{cores} core(s)" if cores == most else f"{cores} core(s) for {most} parts of the state"


def _known(stream: str, schema: pa.Schema) -> pa.Schema:
    for column in schema:
        if is_open(column.type):
            raise OptionError(
                f"column {column.name!r} of stream {stream!r} must have a type; got void; do: cast it, or drop it"
            )
    return schema
