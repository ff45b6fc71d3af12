"""``stream_join``: what a Spark user writes, and the DataFrame operations that it becomes."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from watersmeet.join.outer import join_type
from watersmeet.spark.session.worker import task_is_over
from watersmeet.spark.shuffle.layout import Layout
from watersmeet.spark.shuffle.planning import batch_layouts, sampled
from watersmeet.spark.shuffle.spread import choose_spread
from watersmeet.spark.shuffle.wire import SPARK_SCHEMA
from watersmeet.spark.spec import Binding, JoinSpec, Table
from watersmeet.spark.state.tables import written
from watersmeet.spark.user.chaining import handed_on
from watersmeet.spark.user.checks import (
    bound_texts,
    check_options,
    core_count,
    join_name,
    session_of,
    state_place,
    stream_names,
    tables_among,
    travelling,
    windows_of,
)
from watersmeet.spark.user.types import arrow_schema, output_type
from watersmeet.spark.work.emit import METRICS
from watersmeet.spark.work.operator import join
from watersmeet.spark.work.pack import pack
from watersmeet.streams.batch import one_batch
from watersmeet.streams.window import Window


def stream_join(
    condition: str,
    *,
    windows: Mapping[str, Window],
    how: str = "inner",
    select: str = "*",
    order: str | None = None,
    index: str = "auto",
    cores: int | None = None,
    spread: str = "auto",
    state: str | None = None,
    name: str | None = None,
    late: str | None = None,
    **dataframes: DataFrame,
) -> DataFrame:
    """Join two DataFrames or more, up to 32, on any condition within sliding windows; streaming ones exactly once, batch ones in one go.

    The result is an ordinary DataFrame: go on with ``writeStream``, or join it again. (Batch DataFrames that are spread by a band are read
    once when this is called, to see where their keys lie.) ``condition`` and ``select`` are SQL over the
    keywords that name the DataFrames::

        matched = stream_join(
            "t.price BETWEEN q.bid - 0.05 AND q.ask + 0.05 AND t.sym = q.sym",
            t=trades, q=quotes,
            windows={"t": Range("1 s", time="ts", lateness="5 s"), "q": Range("10 s", time="ts", lateness="5 s")},
            how="left", select="t.*, q.bid, q.ask")

    With more than two DataFrames a combination of rows, one of each, is a result iff the condition holds and every two of them are
    within each other's windows; ``how`` is then ``inner``.

    A batch DataFrame among streaming ones is a static table: read once, when this is called, all of its rows before those of any stream; it
    needs no window. A query that goes on must find it as it was.

    Within a micro-batch the rows of the first DataFrame arrive before those of the second, and so on; with ``order="ts"`` they are merged
    by that column. The watermark moves between batches: a row is late if it lies behind the watermark of the batches
    before. Late rows are counted in the query's progress (``observedMetrics["watersmeet.<name>"]``, beside rows and bytes of state,
    results and watermark). With ``late="refused"`` the result has one more column of that name: NULL in results; in a late row the name of
    its stream, with its own columns filled and the others NULL.

    ``cores`` is the number of tasks that share the work (default: Spark's parallelism); ``spread`` is how rows get to
    them: ``hash`` (an equality of all), ``shares`` (equalities of some, of more than two), ``range`` (a band) or ``broadcast`` (anything
    else). ``state`` names a folder on any
    file system that ``pyarrow.fs`` knows; without it, state lies in the session's
    ``spark.sql.streaming.checkpointLocation``. ``name`` tells the joins of one query apart.
    """
    streams = stream_names(dataframes, windows)
    frames = [dataframes[stream] for stream in streams]
    spark = session_of(frames)
    schemas = {
        stream: arrow_schema(frame.schema, stream) for stream, frame in zip(streams, frames, strict=True)
    }
    static = tables_among(frames)
    checked = windows_of(streams, windows, static)
    bound = bound_texts(condition, select, how, checked, schemas)
    check_options(bound, schemas, order, index, late)
    chosen = [handed_on(stream, checked[stream], dataframes[stream]) for stream in streams]
    sent = [travelling(schemas[stream], bound.columns[k], order) for k, stream in enumerate(streams)]
    streaming = any(frame.isStreaming for frame in frames)
    place = state_place(state, spark) if streaming else ""
    spec = JoinSpec(
        condition=condition,
        streams=streams,
        windows=tuple(chosen),
        schemas=tuple(sent),
        how=how,
        select=select,
        order=order,
        index=index,
        spread=choose_spread(spread, bound.condition, chosen, order, join_type(how).name, static),
        cores=core_count(cores, spark),
        late=late,
        streaming=streaming,
        state=place,
        name=join_name(name, streams, frames),
        retain=int(spark.conf.get("spark.sql.streaming.minBatchesToRetain", "100") or 100),
        instance=uuid.uuid4().hex,
        tables=tuple(
            _table(frame, sent[k], place, bound.condition.columns[streams[k]]) if k in static else None
            for k, frame in enumerate(frames)
        )
        if static
        else (),
    )
    return assemble(spec, frames)


def _table(frame: DataFrame, schema: pa.Schema, state: str, used: Sequence[str]) -> Table:
    """A static table, read once and written beside the state."""
    rows = frame.select(*(F.col(f"`{name}`") for name in schema.names)).toArrow().cast(schema)
    return written(state, one_batch(rows), used)


def assemble(spec: JoinSpec, frames: list[DataFrame]) -> DataFrame:
    """pack -> shuffle -> join, as DataFrame operations."""
    narrow = [
        frame.select(*(F.col(f"`{name}`") for name in spec.schemas[k].names))
        for k, frame in enumerate(frames)
    ]
    if spec.spread == "range" and spec.cores > 1 and not spec.streaming:
        spec = replace(spec, layouts=_sampled_layouts(spec, narrow), instance=uuid.uuid4().hex)
    bound = Binding(spec)
    packed = [
        frame.mapInArrow(_packer(spec, k), SPARK_SCHEMA)
        for k, frame in enumerate(narrow)
        if k not in bound.static
    ]
    shuffled = reduce(DataFrame.unionAll, packed).repartitionById(bound.tasks, F.col("core"))
    joined = shuffled.mapInArrow(_joiner(spec), output_type(bound, [frame.schema for frame in frames]))
    if spec.streaming:
        joined = joined.observe(f"watersmeet.{spec.name}", *_figures(bound))
        joined = joined.where(F.col(METRICS).isNull()).drop(METRICS)
    joined._watersmeet = bound  # type: ignore[attr-defined]
    return joined


def _sampled_layouts(spec: JoinSpec, frames: list[DataFrame]) -> tuple[Layout, ...]:
    """A batch is there before it is joined: its own keys say where the borders should be."""

    def sampler(k: int) -> Mapper:
        return lambda batches: sampled(spec, k, batches)

    found = [
        frame.mapInArrow(sampler(k), "part int, rows long, keys array<long>")
        for k, frame in enumerate(frames)
    ]
    return batch_layouts(
        Binding(spec), [[(row.part, row.rows, row.keys) for row in frame.collect()] for frame in found]
    )


Mapper = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _packer(spec: JoinSpec, k: int) -> Mapper:
    def packer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from pack(spec, k, batches)
        task_is_over()

    packer.__name__ = f"watersmeet_pack<{spec.streams[k]}: {spec.spread}>"  # as Spark's plan shows it
    return packer


def _joiner(spec: JoinSpec) -> Mapper:
    def joiner(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from join(spec, batches)
        task_is_over()

    joiner.__name__ = f"watersmeet_join<{spec.name}>"
    return joiner


def _figures(bound: Binding) -> list[Column]:
    names = ["results", "state_rows", "state_bytes", *(f"late_{stream}" for stream in bound.spec.streams)]
    figures = [F.sum(F.col(METRICS)[name]).alias(name) for name in names]
    if bound.axis is not None:
        watermark = F.max(F.col(METRICS)["watermark"])
        moment = bound.axis.domain.unit == "us"
        figures.append((F.timestamp_micros(watermark) if moment else watermark).alias("watermark"))
    return figures
