"""Answers that change: what a block knows of one during a push, and what is told of it.

A ``Relation`` can say all its rows, and, if it was asked to keep account of that, which have gone and come. Either is computed when it is
asked for, in the push itself: later the state has moved on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.numbering import numbered
from watersmeet.aggregate.told import Changes
from watersmeet.query.delta import Delta, Part


@dataclass(frozen=True)
class Relation(Delta):
    """An answer at the end of a push. ``changed``: whether it may be another one than before."""

    parts: tuple[Part, ...] = ()
    answer: Callable[[], pa.RecordBatch] = field(kw_only=True)  # in any order
    in_sequence: Callable[[], pa.RecordBatch] = field(kw_only=True)  # in the order of their (first) rows
    changes: Changes | None = None  # of groups; None: nobody keeps account of them
    changed: bool = True
    taken: int = 0  # rows that the push has brought

    @property
    def count(self) -> int:
        return self.taken


def differences(old: pa.RecordBatch, new: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """What is only in ``old``, and what is only in ``new``, as often as it is; each in its order."""
    both = pa.concat_batches([old, new])
    numbers = numbered(both, both.schema.names)
    mine, others = numbers[: old.num_rows], numbers[old.num_rows :]
    return old.filter(pa.array(_more(mine, others))), new.filter(pa.array(_more(others, mine)))


def _more(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which of some numbers, from the first on, are there more often than among others."""
    most = int(max(some.max(initial=-1), others.max(initial=-1))) + 1
    there = np.bincount(others, minlength=most)
    order = np.argsort(some, kind="stable")
    ordered = some[order]
    starts = np.searchsorted(ordered, ordered)
    nth = np.arange(some.size) - starts
    found = np.empty(some.size, np.bool_)
    found[order] = nth >= there[ordered]
    return found
