"""Watersmeet: joins of live data streams on any condition, within sliding windows, exactly."""

from watersmeet.api.result import Result
from watersmeet.api.stream_join import StreamJoin
from watersmeet.errors import (
    ConditionError,
    CoreFailed,
    DataError,
    OptionError,
    ResultError,
    SchemaError,
    StateError,
    WatersmeetError,
)
from watersmeet.flow.order import Punctuation
from watersmeet.streams.window import Range, Rows, Unbounded

__version__ = "0.1.0"

__all__ = [
    "ConditionError",
    "CoreFailed",
    "DataError",
    "OptionError",
    "Punctuation",
    "Range",
    "Result",
    "ResultError",
    "Rows",
    "SchemaError",
    "StateError",
    "StreamJoin",
    "Unbounded",
    "WatersmeetError",
    "__version__",
]
