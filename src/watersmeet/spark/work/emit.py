"""What leaves a core: result rows, late rows where they are wanted, and first one row of figures for the query's metrics.

The row of figures has a map in the column ``METRICS``, where all other rows have NULL; it is read by ``observe`` and
filtered out before anybody else sees it.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.api.result import Gatherer
from watersmeet.spark.spec import Binding
from watersmeet.spark.work.live import BatchResult, LiveCore
from watersmeet.streams.clock import BOTTOM

METRICS = "__watersmeet"
METRICS_TYPE = pa.map_(pa.string(), pa.int64())
ROWS = 1 << 16  # result rows a batch on their way back to Spark


def output_schema(bound: Binding) -> pa.Schema:
    """Of the batches that a core gives."""
    fields = list(bound.select.schema)
    if bound.spec.late is not None:
        fields.append(pa.field(bound.spec.late, pa.string()))
    if bound.spec.streaming:
        fields.append(pa.field(METRICS, METRICS_TYPE))
    return pa.schema(fields)


def emitted(bound: Binding, result: BatchResult) -> Iterator[pa.RecordBatch]:
    """Result rows, then late rows."""
    gatherer = Gatherer(bound.spec.streams, bound.spec.schemas, bound.select, "pairs")
    columns = in_order(*result.matches.columns())
    for start in range(0, columns[0].size, ROWS):
        numbers = [column[start : start + ROWS] for column in columns]
        yield _completed(bound, gatherer.rows(result.chunks, numbers), None)
    if bound.spec.late is not None:
        for k, late in enumerate(result.late):
            if late.num_rows:
                yield _completed(bound, _late_rows(bound, k, late), bound.spec.streams[k])


def in_order(*columns: np.ndarray) -> tuple[np.ndarray, ...]:
    """Results by arrival: in an order that does not depend on how they were found.

    A core that was read from its files finds its results in another order than one that lived on, and what follows may count rows: a Rows
    window of a join that takes these results. Sorting packed numbers costs a percent of a large batch.
    """
    if columns[0].size < 2:
        return columns
    firsts = [column.min() for column in columns]
    bits = [int(column.max() - first).bit_length() for column, first in zip(columns, firsts, strict=True)]
    if sum(bits) > 63:
        order = np.lexsort(columns[::-1])
        return tuple(column[order] for column in columns)
    packed = np.zeros(columns[0].size, np.int64)
    for column, first, width in zip(columns, firsts, bits, strict=True):
        packed = packed << width | (column - first)
    packed.sort()
    found = []
    for first, width in zip(firsts[::-1], bits[::-1], strict=True):
        found.append((packed & ((1 << width) - 1)) + first)
        packed = packed >> width
    return tuple(found[::-1])


def _late_rows(bound: Binding, k: int, late: pa.RecordBatch) -> pa.RecordBatch:
    """Late rows as the select list shows a row without a partner."""
    columns = {}
    for i, stream in enumerate(bound.spec.streams):
        for name in bound.select.columns.get(stream, ()):
            kind = bound.spec.schemas[i].field(name).type
            place = late.schema.get_field_index(name)
            columns[stream, name] = late.column(place) if i == k else pa.nulls(late.num_rows, kind)
    return bound.select.evaluate(columns, late.num_rows)


def _completed(bound: Binding, rows: pa.RecordBatch, late: str | None) -> pa.RecordBatch:
    schema, columns = output_schema(bound), list(rows.columns)
    if bound.spec.late is not None:
        columns.append(pa.array([late] * rows.num_rows if late else pa.nulls(rows.num_rows, pa.string())))
    if bound.spec.streaming:
        columns.append(pa.nulls(rows.num_rows, METRICS_TYPE))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def metrics_row(live: LiveCore, result: BatchResult) -> Iterator[pa.RecordBatch]:
    """The one row that tells how the core stands."""
    bound = live.bound
    figures = {
        "results": result.matches.count,
        "state_rows": sum(chain.rows for chain in live.engine.ledger.chains),
        "state_bytes": sum(run.bytes for runs in live.runs for run in runs),
    }
    figures |= {
        f"late_{stream}": late.num_rows for stream, late in zip(bound.spec.streams, result.late, strict=True)
    }
    watermark = live.engine.ledger.arrivals.watermark
    if bound.axis is not None and watermark > BOTTOM:
        figures["watermark"] = int(bound.axis.value(watermark))
    schema = output_schema(bound)
    columns = [pa.nulls(1, field.type) for field in schema][:-1]
    columns.append(pa.array([list(figures.items())], METRICS_TYPE))
    yield pa.RecordBatch.from_arrays(columns, schema=schema)
