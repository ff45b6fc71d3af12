"""What ``stream_join`` checks before a query starts: everything that can be known then is refused then."""

import re
import warnings
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import OptionError
from watersmeet.join.outer import How, join_type
from watersmeet.join.plan import INDEXES, make_plan
from watersmeet.spark.session import check_session
from watersmeet.spark.spec import stored_columns
from watersmeet.spark.state_location import absolute, open_location
from watersmeet.sql.condition import BoundCondition, Condition
from watersmeet.sql.select import BoundSelect, Select
from watersmeet.streams.clock import TimeAxis, time_domain
from watersmeet.streams.window import Window

CHECKPOINT = "spark.sql.streaming.checkpointLocation"
FOLDER = "_watersmeet"  # in the session's checkpoint location, beside the checkpoints of its queries
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FUNCTION = re.compile(r"watersmeet_join<([^>]*)>")


def stream_names(dataframes: Mapping[str, Any], windows: Any) -> tuple[str, str]:
    if len(dataframes) != 2:
        raise OptionError(
            "stream_join must have two DataFrames, each under the name that the condition uses, such as t=trades, q=quotes; got "
            f"{len(dataframes)}: {', '.join(dataframes) or 'none'}"
        )
    for stream, frame in dataframes.items():
        if type(frame).__module__.startswith("pyspark.sql.connect"):
            check_session(frame.sparkSession)
        if not isinstance(frame, DataFrame):
            raise OptionError(
                f"{stream}= must be a Spark DataFrame; got {type(frame).__name__}; an unknown option is taken for a stream"
            )
    if not isinstance(windows, Mapping) or set(windows) != set(dataframes):
        given = ", ".join(map(str, windows)) if isinstance(windows, Mapping) else repr(windows)
        raise OptionError(
            f"windows= must give a window for each of {', '.join(dataframes)}, such as windows={{'t': Range('1 s', time='ts'), 'q': "
            f"Rows(1000)}}; got {given or 'none'}"
        )
    left, right = dataframes
    return left, right


def session_of(frames: list[DataFrame]) -> SparkSession:
    spark = frames[0].sparkSession
    for advice in check_session(spark):
        warnings.warn(advice, stacklevel=3)
    if frames[0].isStreaming != frames[1].isStreaming:
        raise OptionError(
            "both DataFrames must be streaming, or both batch; got one of each; do: read the batch one with readStream, or use Spark's own "
            "join, which takes a stream with a table"
        )
    return spark


def bound_texts(
    condition: str, select: str, how: str, streams: tuple[str, str], schemas: dict[str, pa.Schema]
) -> tuple[BoundCondition, BoundSelect]:
    for what, text in (("the condition", condition), ("select=", select)):
        if not isinstance(text, str):
            raise OptionError(f"{what} must be SQL text; got {text!r}")
    kind: How = join_type(how)
    kept = list(streams) if kind.one_sided is None else [streams[kind.one_sided]]
    return Condition(condition).bind(schemas), Select(select).bind(schemas, kept)


def windows_of(streams: tuple[str, str], windows: Mapping[str, Window]) -> list[Window]:
    for stream in streams:
        if not isinstance(windows[stream], Window):
            raise OptionError(
                f"the window of stream {stream!r} must be Rows(n), Range(duration, time=...) or Unbounded(); got {windows[stream]!r}"
            )
    return [windows[stream] for stream in streams]


def check_options(
    bound: BoundCondition,
    windows: list[Window],
    schemas: dict[str, pa.Schema],
    order: str | None,
    index: str,
    late: str | None,
    select: BoundSelect,
) -> None:
    if any(window.timed for window in windows):
        TimeAxis(list(schemas), windows, list(schemas.values()))
    if index not in INDEXES:
        raise OptionError(f"index= must be one of {', '.join(INDEXES)}; got {index!r}")
    make_plan(bound, index, {}, 65_536)
    if late is not None and (not isinstance(late, str) or late in select.schema.names):
        raise OptionError(
            f"late= must be a new column's name; got {late!r} beside the columns {', '.join(select.schema.names)}"
        )
    if order is not None:
        _check_order(order, schemas)


def _check_order(order: str, schemas: dict[str, pa.Schema]) -> None:
    for stream, schema in schemas.items():
        if not isinstance(order, str) or order not in schema.names:
            raise OptionError(
                f"order= must be a time column of both streams; got {order!r}, which stream {stream!r} does not have: its columns are "
                f"{', '.join(schema.names)}"
            )
    types = [schema.field(order).type for schema in schemas.values()]
    if time_domain(*types) is None:
        raise OptionError(
            f"order={order!r} must have comparable types in both streams; got {types[0]} and {types[1]}"
        )


def travelling(
    stream: str,
    window: Window,
    schema: pa.Schema,
    condition: BoundCondition,
    select: BoundSelect,
    order: str | None,
) -> pa.Schema:
    names = {*stored_columns(stream, window, schema, condition, select), *([order] if order else [])}
    return pa.schema([field for field in schema if field.name in names])


def core_count(cores: int | None, spark: SparkSession) -> int:
    if cores is None:
        return max(1, min(spark.sparkContext.defaultParallelism, 1024))
    if isinstance(cores, bool) or not isinstance(cores, int) or not 1 <= cores <= 4096:
        raise OptionError(f"cores= must be a whole number from 1 to 4096; got {cores!r}")
    return cores


def state_place(state: str | None, spark: SparkSession) -> str:
    if state is None:
        checkpoint = spark.conf.get(CHECKPOINT, None)
        if not checkpoint:
            raise OptionError(
                "a streaming join must know where its state is to live; got neither state= nor the session's checkpoint location; do: "
                f'spark.conf.set("{CHECKPOINT}", "/some/folder"), or stream_join(..., state="/some/folder")'
            )
        state = f"{checkpoint.rstrip('/')}/{FOLDER}"
    if not isinstance(state, str) or not state:
        raise OptionError(f"state= must name a folder; got {state!r}")
    place = absolute(state)
    open_location(place)
    return place


def join_name(name: str | None, streams: tuple[str, str], frames: list[DataFrame]) -> str:
    """The given name; or the streams' names, with a number if a join of that name already feeds this one."""
    if name is not None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise OptionError(
                f"name= must be letters, digits, '.', '_' or '-', as a folder is called by it; got {name!r}"
            )
        return name
    plans = [frame._jdf.queryExecution().logical().toString() for frame in frames]
    taken = {found for plan in plans for found in _FUNCTION.findall(plan)}
    base = "-".join(streams)
    number, derived = 1, base
    while derived in taken:
        number += 1
        derived = f"{base}-{number}"
    return derived
