"""Rows without a time in the stream of a range window: late, as they can be in no window.

In process push() refuses them. A file cannot be asked to mend them, and one must not end a job of hours.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def with_times(
    batches: "Iterator[pa.RecordBatch]", column: str, put: "Callable[[pa.RecordBatch], None]"
) -> "Iterator[pa.RecordBatch]":
    """The rows that have a time in ``column``; those where it is NULL or NaN are given to ``put``."""
    import pyarrow.compute as pc

    for batch in batches:
        without = pc.is_null(batch.column(column), nan_is_null=True)
        if pc.any(without).as_py():
            put(batch.filter(without))
            batch = batch.filter(pc.invert(without))
        if batch.num_rows:
            yield batch
