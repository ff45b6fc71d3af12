"""A time that a user gives, as a stream's time column would hold it.

A time of day alone is the one nearest to the latest time that any stream has come to: never more than half a day on, so that at worst a
clock stays where it is.
"""

from datetime import time
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError, OptionError, SchemaError
from watersmeet.streams.batch import Reader


def moment(stream: str, field: pa.Field, value: Any, now: str | None) -> pa.Array:
    """``advance(stream=value)``: the time, alone in an array of the column's type; refused if the column cannot hold it.

    ``now``: the latest time that any stream has come to, as a timestamp; None: there is none.
    """
    try:
        if _is_plain(field.type) and (of_day := _of_day(value)) is not None:
            value = None if now is None else _nearest(of_day, np.datetime64(now))
            if value is None:
                raise _undated(stream, of_day)
        if isinstance(value, str) and pa.types.is_temporal(field.type):
            value = pa.scalar(value).cast(field.type)
        one = pa.array([value], value.type) if isinstance(value, pa.Scalar) else [value]
        batch = Reader(stream, pa.schema([field])).read({field.name: one})
        assert batch is not None
        return batch.column(0)
    except (pa.ArrowException, UnicodeError, SchemaError, DataError) as error:
        raise refused(stream, field, value) from error


def _is_plain(kind: pa.DataType) -> bool:
    """Whether a column has timestamps without a zone: those with one want it written."""
    return pa.types.is_timestamp(kind) and kind.tz is None


def _of_day(value: Any) -> time | None:
    """A time of day; None: it is something else."""
    if isinstance(value, str) and ":" in value and value[:1].isdigit():
        try:
            value = time.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, time) and value.tzinfo is None else None


def _nearest(of_day: time, now: np.datetime64) -> str:
    seconds = 3600 * of_day.hour + 60 * of_day.minute + of_day.second
    past = np.timedelta64(1_000_000 * seconds + of_day.microsecond, "us")
    days = [now.astype("datetime64[D]") + np.timedelta64(day, "D") + past for day in (-1, 0, 1)]
    return str(min(days, key=lambda one: abs(one - now)))


def _undated(stream: str, of_day: time) -> OptionError:
    return OptionError(
        f"advance({stream}=...) must have a date as long as no stream has come to a time; got {of_day.isoformat()!r}; give the date too"
    )


def refused(stream: str, field: pa.Field, value: Any) -> OptionError:
    """The error for what is no time of the stream."""
    zone = getattr(field.type, "tz", None)
    hint = f"; write the zone, as in '2024-05-01 12:00:00+00:00' (the column's is {zone})" if zone else ""
    return OptionError(
        f"advance({stream}=...) must be a time that column {field.name!r} can hold, {field.type}; got {value!r}{hint}"
    )
