"""In which order the rows of several inputs arrive: side by side, or merged by a time column."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING

from watersmeet.errors import OptionError, listed

if TYPE_CHECKING:
    import pyarrow as pa


BOTTOM = -(2**63)  # below every code of a time


def pushes(
    readers: "Mapping[str, Iterator[pa.RecordBatch]]", schemas: "Mapping[str, pa.Schema]", order: str | None
) -> "Iterator[dict[str, pa.Table | pa.RecordBatch]]":
    """The streams side by side, a batch of each a push; with ``order``, merged by that time column."""
    if order is not None:
        yield from _merged(readers, schemas, order)
        return
    for batches in zip_longest(*readers.values()):
        yield {stream: rows for stream, rows in zip(readers, batches, strict=True) if rows is not None}


def check_order(schemas: "Mapping[str, pa.Schema]", order: str) -> None:
    """Refuse a column that not all files have, or that cannot be compared between them."""
    from watersmeet.streams.clock import axis_domain

    both = "both" if len(schemas) == 2 else "all"
    for stream, schema in schemas.items():
        if order not in schema.names:
            raise OptionError(
                f"--order must name a column of {both} files; got {order!r}, not in {stream}, whose columns are "
                f"{', '.join(schema.names)}"
            )
    types = {stream: schema.field(order).type for stream, schema in schemas.items()}
    if axis_domain(list(types.values())) is None:
        how = "--types-r and --types-s" if list(types) == ["r", "s"] else "--types"
        raise OptionError(
            f"--order must name a column that can be compared between the files; got {order!r}, "
            f"{listed([f'{kind} in {stream}' for stream, kind in types.items()])}; choose another, or give its type by {how}"
        )


def check_times(schemas: "Mapping[str, pa.Schema]", columns: Mapping[str, str]) -> None:
    """Refuse range windows whose times cannot be compared, and say which option helps."""
    import pyarrow as pa

    from watersmeet.streams.clock import time_domain

    for stream, column in columns.items():
        place = schemas[stream].get_field_index(column)
        if place >= 0 and pa.types.is_null(schemas[stream].field(place).type):
            raise OptionError(
                f"the time column of a range window must have a type; got {column!r} of {stream}, which has no value in the first rows; "
                f"give it by --types-{stream} '{column}:timestamp[us]', for instance"
            )
    if len(columns) < 2 or any(column not in schemas[stream].names for stream, column in columns.items()):
        return  # nothing to compare; a column that is not there is the join's to refuse
    left, right = (schemas[stream].field(column).type for stream, column in columns.items())
    if time_domain(left, right) is None:
        raise OptionError(
            f"the time columns of r and s must be comparable; got {columns['r']} {left} and {columns['s']} {right}; give a "
            f"csv or ndjson file the other's type, by --types-r or --types-s: '{columns['r']}:timestamp[us]' reads "
            f"times with a zone as UTC, '{columns['r']}:timestamp[us, UTC]' takes those without one for UTC"
        )


def in_order(stream: str, batches: "Iterator[pa.RecordBatch]", order: str) -> "Iterator[pa.RecordBatch]":
    """The same batches; a null in the column to merge by is refused by its row."""
    import pyarrow.compute as pc

    before = 0
    for batch in batches:
        if batch.column(order).null_count:
            row = before + pc.index(pc.is_null(batch.column(order)), True).as_py()
            raise OptionError(
                f"--order must name a column without nulls; got null in {order!r} in row {row} of {stream}, counted from 0; "
                "leave the row out, or choose another column"
            )
        before += batch.num_rows
        yield batch


def _merged(
    readers: "Mapping[str, Iterator[pa.RecordBatch]]", schemas: "Mapping[str, pa.Schema]", order: str
) -> "Iterator[dict[str, pa.Table]]":
    """Push what lies before the horizon, the least of the streams' newest times: no later row belongs there.

    So the arrivals are the same for every batch size, equal times included. Times are compared by their codes, as the join compares them.
    """
    import numpy as np
    import pyarrow as pa

    from watersmeet.streams.clock import axis_domain

    domain = axis_domain([schema.field(order).type for schema in schemas.values()])
    assert domain is not None  # check_order
    held: dict[str, pa.Table] = {}
    codes = {stream: np.empty(0, np.int64) for stream in schemas}
    newest: dict[str, int] = {}  # of the streams that are not at their end
    unread, slowest = dict(readers), list(readers)
    while unread:
        for stream in slowest:
            rows = next(unread[stream], None)
            if rows is None:
                del unread[stream]
                newest.pop(stream, None)
                continue
            parts = [held[stream]] if stream in held else []
            held[stream] = pa.concat_tables([*parts, pa.Table.from_batches([rows])])
            codes[stream] = np.concatenate((codes[stream], domain.codes(rows.column(order))[0]))
            newest[stream] = int(codes[stream].max(initial=newest.get(stream, BOTTOM)))
        horizon = min(newest.values(), default=None)
        slowest = [stream for stream in unread if newest[stream] == horizon]
        push = {}
        for stream in [stream for stream in readers if stream in held]:
            after = np.flatnonzero(codes[stream] >= horizon) if horizon is not None else codes[stream][:0]
            end = int(after[0]) if after.size else codes[stream].size
            push[stream] = held[stream].slice(0, end)
            held[stream], codes[stream] = held[stream].slice(end), codes[stream][end:]
        yield {stream: rows for stream, rows in push.items() if rows.num_rows}
