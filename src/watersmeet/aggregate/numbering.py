"""Rows by what they hold: the same number for equal ones."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulators import Accumulators
from watersmeet.aggregate.rows import Rows
from watersmeet.aggregate.spec import Grouping


def numbered(rows: pa.RecordBatch, columns: Sequence[str]) -> np.ndarray:
    """A number for each row, from 0 on, in the order in which what they hold in some columns is first met.

    >>> numbered(pa.record_batch({"x": [0.0, 1.0, -0.0, None]}), ["x"]).tolist()
    [0, 1, 0, 2]
    """
    if not columns:
        return np.zeros(rows.num_rows, np.int64)
    state = Accumulators(Grouping(tuple(columns), ()), rows.schema, False)
    slots, _ = state.groups.enter(Rows(rows, np.empty(0, np.int64)).keys(tuple(columns), state.keys))
    return slots
