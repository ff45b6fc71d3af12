"""A time that a user gives, as a stream's time column would hold it."""

from typing import Any

import pyarrow as pa

from watersmeet.errors import DataError, OptionError, SchemaError
from watersmeet.streams.batch import Reader


def moment(stream: str, field: pa.Field, value: Any) -> pa.Array:
    """``advance(stream=value)``: the time, alone in an array of the column's type; refused if the column cannot hold it."""
    try:
        if isinstance(value, str) and pa.types.is_temporal(field.type):
            value = pa.scalar(value).cast(field.type)
        one = pa.array([value], value.type) if isinstance(value, pa.Scalar) else [value]
        batch = Reader(stream, pa.schema([field])).read({field.name: one})
        assert batch is not None
        return batch.column(0)
    except (pa.ArrowException, UnicodeError, SchemaError, DataError) as error:
        raise refused(stream, field, value) from error


def refused(stream: str, field: pa.Field, value: Any) -> OptionError:
    """The error for what is no time of the stream."""
    zone = getattr(field.type, "tz", None)
    hint = f"; write the zone, as in '2024-05-01 12:00:00+00:00' (the column's is {zone})" if zone else ""
    return OptionError(
        f"advance({stream}=...) must be a time that column {field.name!r} can hold, {field.type}; got {value!r}{hint}"
    )
