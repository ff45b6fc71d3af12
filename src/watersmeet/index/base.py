"""What every index of a sub-window can do.

Keys are int64 codes whose order is the SQL order of the values (see ``codes.py``), rows are int32 offsets in the sub-window.
An index finds candidates by key alone; whether a candidate lies in the probe's validity range is the chain's business. So an index
never deletes: a sub-window is dropped whole.
"""

from collections.abc import Iterator
from typing import ClassVar, Protocol

import numpy as np

PAIRS_IN_BUFFER = 65_536


class PairBuffer:
    """Room for candidate pairs on their way from an index to the chain; two int32 columns that fit the L2 cache."""

    __slots__ = ("probe", "row")

    def __init__(self, size: int = PAIRS_IN_BUFFER) -> None:
        self.probe = np.empty(size, np.int32)
        self.row = np.empty(size, np.int32)


class Index(Protocol):
    """One structure over one sub-window. Probing keeps no state in ``self``: several threads probe at once."""

    name: ClassVar[str]

    def insert(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Add rows: ``keys`` (int64) ascending, ``rows`` (int32) their offsets in the sub-window."""

    def pairs(self, lo: np.ndarray, hi: np.ndarray, probes: np.ndarray, buffer: PairBuffer) -> Iterator[int]:
        """Yield ``n`` each time ``buffer[:n]`` holds candidates: all stored keys with ``lo <= key <= hi``.

        ``lo`` and ``hi`` are inclusive and non-decreasing; ``probes`` (int32) names the probing rows. The consumer copies
        what it needs before it resumes the iterator.
        """

    def seal(self) -> None:
        """No more rows will come."""

    @property
    def nbytes(self) -> int:
        """Bytes held by the structure."""
