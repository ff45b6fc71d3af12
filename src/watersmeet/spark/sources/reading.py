"""The generated streams as Spark data sources, for ``readStream`` and ``read``.

What stays true: an offset is a row number, and rows depend on nothing else; so Spark gets the same rows for the same
offsets however often it asks. Only how far a micro-batch goes depends on the clock, and Spark writes that down.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from watersmeet.errors import OptionError
from watersmeet.spark.session.worker import end_quietly
from watersmeet.spark.sources.options import options_of
from watersmeet.spark.sources.rows import (
    MARKET_STREAMS,
    TPCH_STREAMS,
    WORKLOAD_STREAMS,
    GeneratedStream,
    market_rows,
    tpch_rows,
    workload_rows,
)

end_quietly()  # Spark's planners import this module too, and are idle when they have asked it


class GeneratedSource(DataSource):
    """What the formats have in common; each says its name, its streams and how to make them."""

    title: ClassVar[str]
    streams: ClassVar[tuple[str, ...]]
    extra: ClassVar[tuple[str, ...]] = ()
    make: ClassVar[Any]  # from Options to a GeneratedStream

    def __init__(self, options: Mapping[str, str]) -> None:
        self.given = options_of(options, self.streams, self.extra)

    @classmethod
    def name(cls) -> str:
        """What goes into ``format(...)``."""
        return cls.title

    def rows(self) -> GeneratedStream:
        """The stream of these options."""
        made: GeneratedStream = type(self).make(self.given)
        return made

    def schema(self) -> StructType:
        """The stream's columns, in Spark's types."""
        return from_arrow_schema(self.rows().schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``: all rows up to the limit."""
        return BatchReader(self)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, Spark's name
        """For ``spark.readStream``."""
        return StreamReader(self)


class BatchReader(DataSourceReader):
    """All rows of a stream that ends."""

    def __init__(self, source: GeneratedSource) -> None:
        self._source = source
        if not source.given.limit:
            raise OptionError(
                f"{source.title} must have an end to be read as a batch; got no limit; do: .option('limit', 100000)"
            )

    def partitions(self) -> list[InputPartition]:
        """The rows, in as many parts as asked for."""
        return parts(0, self._source.given.limit, self._source.given.num_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        return self._source.rows().take(*partition.value)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A live stream: so many rows a micro-batch, or as many as the clock says."""

    def __init__(self, source: GeneratedSource) -> None:
        self._source = source
        self._per_second = source.rows().per_second
        self._began: tuple[float, int] | None = None  # the clock and the row when this reader began
        self._by_clock = not source.given.rows_per_batch

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The first row's number."""
        return {"row": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """How far the next micro-batch goes."""
        options, row = self._source.given, start["row"]
        if self._by_clock:
            self._began = self._began or (time.monotonic(), row)
            end = self._began[1] + int((time.monotonic() - self._began[0]) * self._per_second)
        else:
            end = batch_end(row, options.rows_per_batch or (options.limit,))
        return {"row": max(row, min(end, options.limit) if options.limit else end)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """All there is must be finite; the clock then does not matter."""
        if not self._source.given.limit:
            raise OptionError(
                f"{self._source.title} must have an end for trigger(availableNow=True); got no limit; "
                "do: .option('limit', 100000)"
            )
        self._by_clock = False

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The rows of one micro-batch, in as many parts as asked for, in order."""
        return parts(start["row"], end["row"], self._source.given.num_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        return self._source.rows().take(*partition.value)


def batch_end(row: int, sizes: tuple[int, ...]) -> int:
    """Where the micro-batch that begins at ``row`` ends, if batches have these sizes, the last one again and again."""
    end = 0
    for size in sizes:
        end += size
        if end > row:
            return end
    return end + ((row - end) // sizes[-1] + 1) * sizes[-1]


def parts(start: int, end: int, number: int) -> list[InputPartition]:
    """Rows ``start`` to ``end - 1`` in at most ``number`` parts, none empty."""
    edges = [start + (end - start) * part // number for part in range(number + 1)]
    return [InputPartition((low, high)) for low, high in pairwise(edges) if low < high]


class WorkloadSource(GeneratedSource):
    """The streams r and s of a benchmark workload; SplitJoin's, unless another is named."""

    title, streams, extra = "watersmeet_workload", WORKLOAD_STREAMS, ("workload", "window")
    make = staticmethod(workload_rows)


class MarketSource(GeneratedSource):
    """Trades and quotes."""

    title, streams, make = "watersmeet_market", MARKET_STREAMS, staticmethod(market_rows)


class TpchSource(GeneratedSource):
    """Orders and line items."""

    title, streams, make = "watersmeet_tpch", TPCH_STREAMS, staticmethod(tpch_rows)


SOURCES: tuple[type[GeneratedSource], ...] = (WorkloadSource, MarketSource, TpchSource)
