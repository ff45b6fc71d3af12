"""Rows in an order: Spark's. NaN is the largest number, texts go by their bytes, NULL is where the text says.

Of equal rows the earlier is first.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregate.values import codec
from watersmeet.codes.column import validity
from watersmeet.codes.text import is_bytes
from watersmeet.query.instruction import Order


def in_order(rows: pa.RecordBatch, order: Sequence[Order]) -> np.ndarray:
    """The places of rows, sorted."""
    if not order:
        return np.arange(rows.num_rows)
    keys: list[np.ndarray] = []
    for one in order:
        column = rows.column(one.column)
        valid = validity(column)
        if valid is not None:
            keys.append(valid if one.nulls_first else ~valid)
        for words in _words(column, one.column):
            words = ~words if one.descending else words  # without overflow
            keys.append(words if valid is None else np.where(valid, words, 0))
    return np.lexsort(keys[::-1])


def _words(column: pa.Array, name: str) -> list[np.ndarray]:
    """int64 keys, the first of which decides first."""
    if is_bytes(column.type):
        ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
        return [ranks.to_numpy().astype(np.int64)]
    words = codec(column.type, name, "ORDER BY").encode(column)
    return [np.ascontiguousarray(words[:, at]) for at in range(words.shape[1])]
