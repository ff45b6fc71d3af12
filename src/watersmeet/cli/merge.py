"""In which order the rows of two inputs arrive: side by side, or merged by a time column."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from watersmeet.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa


def pushes(
    readers: "Mapping[str, Iterator[pa.RecordBatch]]", order: str | None = None
) -> "Iterator[dict[str, pa.Table | pa.RecordBatch]]":
    """The streams side by side, a batch of each a push; with ``order``, merged by that time column."""
    if order is not None:
        yield from _merged(readers, order)
        return
    for batches in zip_longest(*readers.values()):
        yield {stream: rows for stream, rows in zip(readers, batches, strict=True) if rows is not None}


def check_order(schemas: "Mapping[str, pa.Schema]", order: str) -> None:
    """Refuse a column that not both files have, or that cannot be compared between them."""
    from watersmeet.clock import time_domain

    for stream, schema in schemas.items():
        if order not in schema.names:
            raise OptionError(
                f"--order must name a column of both files; got {order!r}, not in {stream}, whose columns are "
                f"{', '.join(schema.names)}"
            )
    left, right = (schema.field(order).type for schema in schemas.values())
    if time_domain(left, right) is None:
        raise OptionError(
            f"--order must name a column that can be compared between the files; got {order!r}, {left} in r and "
            f"{right} in s; choose another, or give its type by --types-r and --types-s"
        )


def _merged(readers: "Mapping[str, Iterator[pa.RecordBatch]]", order: str) -> "Iterator[dict[str, pa.Table]]":
    """Push what lies before the horizon, the least of the streams' newest times: no later row belongs there.

    So the arrivals are the same for every batch size, equal times included.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    held: dict[str, pa.Table] = {}
    newest: dict[str, Any] = {}
    unread, slowest = dict(readers), list(readers)
    while unread:
        for stream in slowest:
            rows = next(unread[stream], None)
            if rows is None:
                del unread[stream]
                newest.pop(stream, None)
                continue
            _check_times(stream, rows, order)
            parts = [held[stream]] if stream in held else []
            held[stream] = pa.concat_tables([*parts, pa.Table.from_batches([rows])])
            newest[stream] = pc.max(held[stream].column(order))
        horizon = pc.min_element_wise(*newest.values()) if newest else None
        slowest = [stream for stream in unread if pc.equal(newest[stream], horizon).as_py()]
        push = {stream: _before(held[stream], order, horizon) for stream in readers if stream in held}
        held = {stream: held[stream].slice(rows.num_rows) for stream, rows in push.items()}
        yield {stream: rows for stream, rows in push.items() if rows.num_rows}


def _check_times(stream: str, rows: "pa.RecordBatch", order: str) -> None:
    if rows.column(order).null_count:
        raise OptionError(f"--order must name a column without nulls; got {order!r} with nulls in {stream}")


def _before(rows: "pa.Table", order: str, horizon: Any) -> "pa.Table":
    import pyarrow.compute as pc

    if horizon is None:
        return rows
    end = pc.index(pc.greater_equal(rows.column(order), horizon), True).as_py()
    return rows if end < 0 else rows.slice(0, end)
