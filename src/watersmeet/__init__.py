"""Watersmeet: joins of live data streams on any condition, within sliding windows, exactly."""

from watersmeet.api.result import Result
from watersmeet.api.stream_join import StreamJoin
from watersmeet.errors import (
    ConditionError,
    CoreFailed,
    DataError,
    FabricError,
    OptionError,
    ResultError,
    SchemaError,
    StateError,
    WatersmeetError,
)
from watersmeet.fabric.components import Unit
from watersmeet.fabric.fabric import Fabric
from watersmeet.flow.options import (
    CircularMJ,
    Handshake,
    LinearMJ,
    LowLatencyHandshake,
    PanJoin,
    ParallelMJ,
    SplitJoin,
    StashedMJ,
    ThreeStep,
)
from watersmeet.flow.order import Punctuation
from watersmeet.page.show import page
from watersmeet.query.processor import Processor
from watersmeet.streams.window import Range, Rows, Unbounded

__version__ = "0.1.0"

__all__ = [
    "CircularMJ",
    "ConditionError",
    "CoreFailed",
    "DataError",
    "Fabric",
    "FabricError",
    "Handshake",
    "LinearMJ",
    "LowLatencyHandshake",
    "OptionError",
    "PanJoin",
    "ParallelMJ",
    "Processor",
    "Punctuation",
    "Range",
    "Result",
    "ResultError",
    "Rows",
    "SchemaError",
    "SplitJoin",
    "StashedMJ",
    "StateError",
    "StreamJoin",
    "ThreeStep",
    "Unbounded",
    "Unit",
    "WatersmeetError",
    "__version__",
    "page",
]
