"""Rows in an order: Spark's. NaN is the largest number, texts go by their bytes, NULL is where the text says.

Of equal rows the earlier is first.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.aggregate.values import codec
from watersmeet.codes.column import borrowed, validity
from watersmeet.codes.text import is_bytes
from watersmeet.kernels.narrow import WIDE, narrow
from watersmeet.query.instruction import Order

_INT64, _ALL = np.dtype(np.int64), np.empty(0, np.bool_)
_SHORT = 64  # rows that are sorted in less time than it takes to look for the first ones


def in_order(rows: pa.RecordBatch, order: Sequence[Order]) -> np.ndarray:
    """The places of rows, sorted."""
    return np.lexsort(_keys(rows, order)[::-1]) if order else np.arange(rows.num_rows)


def first_in_order(
    rows: pa.RecordBatch, order: Sequence[Order], limit: int | None
) -> tuple[np.ndarray, bool]:
    """The places of the first rows; and whether some are equal, so that it matters in which order they were."""
    keys = _keys(rows, order)
    places = _first_places(keys, limit)
    near = places if limit is None else places[: limit + 1]
    equal = np.ones(max(near.size - 1, 0), np.bool_)
    for key in keys:
        equal &= key[near[1:]] == key[near[:-1]]
    return places[:limit], bool(equal.any())


def _first_places(keys: Sequence[np.ndarray], limit: int | None) -> np.ndarray:
    """The places of all rows, sorted; if few are wanted, of those alone that the first key lets be among them, and of one more."""
    if limit is None or 4 * limit + _SHORT > keys[0].size:
        return np.lexsort(keys[::-1])
    last = np.partition(keys[0], limit)[limit]
    near = np.flatnonzero(keys[0] <= last)
    return near[np.lexsort([key[near] for key in keys[::-1]])]


def _keys(rows: pa.RecordBatch, order: Sequence[Order]) -> list[np.ndarray]:
    """Arrays to sort by, the first one first."""
    keys: list[np.ndarray] = []
    for one in order:
        column = rows.column(one.column)
        valid = validity(column)
        if valid is not None:
            keys.append(valid if one.nulls_first else ~valid)
        for words in _words(column, one.column):
            words = ~words if one.descending else words  # without overflow
            keys.append(words if valid is None else np.where(valid, words, 0))
    return keys


def _words(column: pa.Array, name: str) -> list[np.ndarray]:
    """int64 keys, the first of which decides first."""
    if is_bytes(column.type):
        ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
        return [ranks.to_numpy().astype(np.int64)]
    if pt.is_decimal128(column.type):
        numbers = np.empty(len(column), np.int64)
        words = borrowed(column.buffers()[1], 16 * column.offset, 2 * len(column), _INT64)
        if narrow(words, 2, _ALL, numbers) != WIDE:
            return [numbers]
    words = codec(column.type, name, "ORDER BY").encode(column)
    return [np.ascontiguousarray(words[:, at]) for at in range(words.shape[1])]
