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
from watersmeet.flow.options import Handshake, LowLatencyHandshake, PanJoin, SplitJoin, ThreeStep
from watersmeet.flow.order import Punctuation
from watersmeet.streams.window import Range, Rows, Unbounded

__version__ = "0.1.0"

__all__ = [
    "ConditionError",
    "CoreFailed",
    "DataError",
    "Handshake",
    "LowLatencyHandshake",
    "OptionError",
    "PanJoin",
    "Punctuation",
    "Range",
    "Result",
    "ResultError",
    "Rows",
    "SchemaError",
    "SplitJoin",
    "StateError",
    "StreamJoin",
    "ThreeStep",
    "Unbounded",
    "WatersmeetError",
    "__version__",
]
