"""Who arrives when within one push: the stream of each row, from ``push(order=)``."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.codes import Domain
from watersmeet.errors import OptionError, listed
from watersmeet.kernels.arrival import merge_by_time
from watersmeet.streams.clock import axis_domain


def interleaving(
    order: object, streams: Sequence[str], sizes: Sequence[int], times: Sequence[np.ndarray | None]
) -> np.ndarray:
    """The stream of each pushed row, from ``push(order=)``: stream names, or a column's codes to merge by."""
    rows = sum(sizes)
    if isinstance(order, str):
        starts = np.cumsum([0, *sizes])
        merged = np.empty(rows, np.uint8)
        codes = np.concatenate([column for column in times if column is not None])
        merge_by_time(starts[:-1], starts[1:], codes, merged)
        return merged
    names = np.asarray(order, dtype=object) if not isinstance(order, np.ndarray) else order
    if names.ndim != 1 or names.size != rows:
        raise OptionError(
            f"order= must name the stream of each of the {rows} pushed rows; got {names.size} names"
        )
    sequence, known = np.zeros(rows, np.uint8), np.zeros(rows, np.bool_)
    for k, name in enumerate(streams):
        mine = names == name
        sequence[mine] = k
        known |= mine
    if not known.all():
        where = int(np.flatnonzero(~known)[0])
        raise OptionError(
            f"order= must hold only the names {listed([repr(name) for name in streams])}; got {names[where]!r} at place {where}"
        )
    found = np.bincount(sequence, minlength=len(streams)).tolist()
    if found != list(sizes):
        wanted = [f"{name!r} {size} times" for name, size in zip(streams, sizes, strict=True)]
        raise OptionError(
            f"order= must name {listed(wanted)}, once per row; got {listed([str(count) for count in found])}"
        )
    return sequence


def order_domain(
    column: str,
    streams: Sequence[str],
    schemas: Sequence[pa.Schema | None],
    wanted: str = "stream names, one per row, or a time column",
) -> Domain:
    """How values of the column to merge by compare; the column must be in all streams. ``wanted``: what ``order=`` may be, for messages."""
    all_streams = "both streams" if len(streams) == 2 else "all streams"
    types = []
    for stream, schema in zip(streams, schemas, strict=True):
        if schema is not None and column not in schema.names:
            raise OptionError(
                f"order= must be {wanted} of {all_streams}; got {column!r}, which stream {stream!r} does not have: "
                f"its columns are {', '.join(schema.names)}"
            )
        if schema is not None:
            types.append(schema.field(column).type)
    domain = axis_domain(types)
    if domain is None:
        raise OptionError(
            f"order={column!r} must have comparable types in {all_streams}; got {listed([str(kind) for kind in types])}"
        )
    return domain


def order_codes(
    column: str,
    streams: Sequence[str],
    schemas: Sequence[pa.Schema | None],
    batches: Sequence[pa.RecordBatch | None],
    null: Callable[[str, int], Exception] | None = None,
) -> list[np.ndarray]:
    """Codes of the column to merge by. A row without a value has no place; ``null``: the error to raise for it, by stream and row."""
    domain = order_domain(column, streams, schemas)
    codes = []
    for stream, batch in zip(streams, batches, strict=True):
        if batch is None:
            codes.append(np.empty(0, np.int64))
            continue
        values, valid = domain.codes(batch.column(batch.schema.get_field_index(column)))
        if valid is not None:
            row = int(np.flatnonzero(~valid)[0])
            if null is not None:
                raise null(stream, row)
            raise OptionError(
                f"order={column!r} must not be null; got null in row {row} of the batch of stream {stream!r}"
            )
        codes.append(values)
    return codes
