"""What ``stream_join`` checks before a query starts: everything that can be known then is refused then."""

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import OptionError
from watersmeet.join.binding import BoundTexts, Texts
from watersmeet.join.orders import Orders
from watersmeet.join.outer import join_type
from watersmeet.join.plan import INDEXES, Plan, make_plan
from watersmeet.join.planner import Planner
from watersmeet.spark.session.local import check_session
from watersmeet.spark.state.location import CHECKPOINT, FOLDER, absolute, open_location
from watersmeet.sql.condition import BoundCondition
from watersmeet.streams.interleave import order_domain
from watersmeet.streams.window import MOST_STREAMS, Unbounded, Window

TRIAL_ROWS = 65_536  # of a sub-window: what a plan is tried with before a row has come
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FUNCTION = re.compile(r"watersmeet_join<([^>]*)>")


def stream_names(dataframes: Mapping[str, Any], windows: Any) -> tuple[str, ...]:
    if not 2 <= len(dataframes) <= MOST_STREAMS:
        raise OptionError(
            f"stream_join must have two DataFrames, or more, up to {MOST_STREAMS}, each under the name that the condition uses, such as "
            f"t=trades, q=quotes; got {len(dataframes)}: {', '.join(dataframes) or 'none'}"
        )
    for stream, frame in dataframes.items():
        if type(frame).__module__.startswith("pyspark.sql.connect"):
            check_session(frame.sparkSession)
        if not isinstance(frame, DataFrame):
            raise OptionError(
                f"{stream}= must be a Spark DataFrame; got {type(frame).__name__}; an unknown option is taken for a stream"
            )
    tables = {stream for stream, frame in dataframes.items() if not frame.isStreaming}
    tables = set() if len(tables) == len(dataframes) else tables
    if not isinstance(windows, Mapping) or set(windows) - tables != set(dataframes) - tables:
        given = ", ".join(map(str, windows)) if isinstance(windows, Mapping) else repr(windows)
        raise OptionError(
            f"windows= must give a window for each of {', '.join(dataframes)}, such as windows={{'t': Range('1 s', time='ts'), 'q': "
            f"Rows(1000)}}; got {given or 'none'}"
        )
    return tuple(dataframes)


def session_of(frames: list[DataFrame]) -> SparkSession:
    spark = frames[0].sparkSession
    for advice in check_session(spark):
        warnings.warn(advice, stacklevel=3)
    return spark


def tables_among(frames: Sequence[DataFrame]) -> list[int]:
    """Which DataFrames are static tables among streams; of batch DataFrames alone, none."""
    tables = [k for k, frame in enumerate(frames) if not frame.isStreaming]
    return [] if len(tables) == len(frames) else tables


def windows_of(
    streams: Sequence[str], windows: Mapping[str, Window], tables: Collection[int] = ()
) -> dict[str, Window]:
    """By stream. A table among streams needs none: all of it stays joinable."""
    found: dict[str, Window] = {}
    for k, stream in enumerate(streams):
        given = windows.get(stream, Unbounded()) if k in tables else windows[stream]
        if not isinstance(given, Window):
            raise OptionError(
                f"the window of stream {stream!r} must be Rows(n), Range(duration, time=...) or Unbounded(); got {given!r}"
            )
        if k in tables and given != Unbounded():
            raise OptionError(
                f"the window of {stream!r}, a static table among streams, must be Unbounded(), or be left out, as all of its rows are "
                f"there before the first row of a stream; got {given!r}; do: leave it out, or filter the table"
            )
        found[stream] = given
    return found


def bound_texts(
    condition: str, select: str, how: str, windows: Mapping[str, Window], schemas: Mapping[str, pa.Schema]
) -> BoundTexts:
    for what, text in (("the condition", condition), ("select=", select)):
        if not isinstance(text, str):
            raise OptionError(f"{what} must be SQL text; got {text!r}")
    if len(windows) > 2 and join_type(how).name != "inner":
        raise OptionError(
            f"how={how!r} must have two DataFrames; got {len(windows)}; do: join two of them, and the result with the next: a chain of "
            "joins loses nothing"
        )
    return Texts(windows, condition, select, join_type(how)).bind_for_good(list(schemas.values()))


def check_options(
    bound: BoundTexts, schemas: Mapping[str, pa.Schema], order: str | None, index: str, late: str | None
) -> None:
    if index not in INDEXES:
        raise OptionError(f"index= must be one of {', '.join(INDEXES)}; got {index!r}")
    trial_plan(bound.condition, index)
    names = bound.select.schema.names
    if late is not None and (not isinstance(late, str) or late in names):
        raise OptionError(
            f"late= must be a new column's name; got {late!r} beside the columns {', '.join(names)}"
        )
    if order is not None:
        order_domain(order, list(schemas), list(schemas.values()), "a time column")


def trial_plan(condition: BoundCondition, index: str) -> Plan | Orders:
    """The plan of a core that knows nothing of its rows yet."""
    if len(condition.streams) == 2:
        return make_plan(condition, index, {}, TRIAL_ROWS)
    rows = [TRIAL_ROWS for _ in condition.streams]
    return Planner(condition, condition.streams, index).orders(rows, {}, {}, {})


def travelling(schema: pa.Schema, stored: Sequence[str], order: str | None) -> pa.Schema:
    """What of a stream goes through the shuffle: what is stored, and what says when a row comes."""
    return pa.schema([field for field in schema if field.name in stored or field.name == order])


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


def join_name(name: str | None, streams: Sequence[str], frames: list[DataFrame]) -> str:
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
