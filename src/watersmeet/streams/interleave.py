"""Who arrives when within one push: the stream of each row, from ``push(order=)``."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.kernels.arrival import merge_by_time
from watersmeet.streams.clock import time_domain


def interleaving(
    order: object, streams: Sequence[str], sizes: Sequence[int], times: Sequence[np.ndarray | None]
) -> np.ndarray:
    """The stream (0 or 1) of each pushed row, from ``push(order=)``: stream names, or a column's codes to merge by."""
    if isinstance(order, str):
        left, right = times
        assert left is not None
        assert right is not None
        merged = np.empty(sizes[0] + sizes[1], np.uint8)
        merge_by_time(left, right, merged)
        return merged
    names = np.asarray(order, dtype=object) if not isinstance(order, np.ndarray) else order
    if names.ndim != 1 or names.size != sizes[0] + sizes[1]:
        raise OptionError(
            f"order= must name the stream of each of the {sizes[0] + sizes[1]} pushed rows; got {names.size} names"
        )
    right_rows = names == streams[1]
    unknown = ~(right_rows | (names == streams[0]))
    if unknown.any():
        where = int(np.flatnonzero(unknown)[0])
        raise OptionError(
            f"order= must hold only the names {streams[0]!r} and {streams[1]!r}; got {names[where]!r} at place {where}"
        )
    found = int(right_rows.sum())
    if found != sizes[1]:
        raise OptionError(
            f"order= must name {streams[0]!r} {sizes[0]} times and {streams[1]!r} {sizes[1]} times, once per row; "
            f"got {names.size - found} and {found}"
        )
    return right_rows.astype(np.uint8)


def order_codes(
    column: str,
    streams: Sequence[str],
    schemas: Sequence[pa.Schema | None],
    batches: Sequence[pa.RecordBatch | None],
) -> list[np.ndarray]:
    """Codes of the column to merge by; the column must be in both streams."""
    types = []
    for stream, schema in zip(streams, schemas, strict=True):
        if schema is not None and schema.get_field_index(column) < 0:
            raise OptionError(
                f"order= must be stream names, one per row, or a time column of both streams; got {column!r}, which "
                f"stream {stream!r} does not have: its columns are {', '.join(schema.names)}"
            )
        if schema is not None:
            types.append(schema.field(column).type)
    domain = time_domain(types[0], types[-1])
    if domain is None:
        raise OptionError(
            f"order={column!r} must have comparable types in both streams; got {types[0]} and {types[-1]}"
        )
    codes = []
    for stream, batch in zip(streams, batches, strict=True):
        if batch is None:
            codes.append(np.empty(0, np.int64))
            continue
        values, valid = domain.codes(batch.column(batch.schema.get_field_index(column)))
        if valid is not None:
            row = int(np.flatnonzero(~valid)[0])
            raise OptionError(
                f"order={column!r} must not be null; got null in row {row} of the batch of stream {stream!r}"
            )
        codes.append(values)
    return codes
