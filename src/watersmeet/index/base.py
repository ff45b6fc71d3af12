"""What every index of a sub-window can do.

Keys are int64 codes whose order is the SQL order of the values (see ``codes``), rows are int32 offsets in the sub-window.
An index finds candidates by key alone; whether a candidate lies in the probe's validity range is the chain's business. So an index
never deletes: a sub-window is dropped whole.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np

from watersmeet.kernels.sort import sort_keys

PAIRS_IN_BUFFER = 65_536

# By row: the key, and what an index keeps beside it (the grid: both codes).
Codes = tuple[np.ndarray, ...]
# By row: the inclusive ends of what is looked for among the stored keys, and what an index needs beside them.
Ends = Sequence[np.ndarray]


class PairBuffer:
    """Room for candidate pairs on their way from an index to the chain; two int32 columns that fit the L2 cache."""

    __slots__ = ("probe", "row")

    def __init__(self, size: int = PAIRS_IN_BUFFER) -> None:
        self.probe = np.empty(size, np.int32)
        self.row = np.empty(size, np.int32)


@dataclass(slots=True)
class Keys:
    """Rows as an index stores them: ascending by key, unless they are ``unordered``, for an index that does not need that."""

    key: np.ndarray  # int64
    rows: np.ndarray  # int32: which row has the key
    beside: Codes = ()  # what the index keeps beside the key
    unordered: bool = False

    @property
    def size(self) -> int:
        return self.key.size

    @property
    def codes(self) -> Codes:
        return (self.key, *self.beside)

    def of(self, kept: np.ndarray) -> "Keys":
        """Those of the rows that a mask keeps."""
        beside = tuple(array[kept] for array in self.beside)
        return Keys(self.key[kept], self.rows[kept], beside, self.unordered)

    def in_order(self) -> "Keys":
        """The same, ascending by key."""
        return sorted_keys((self.key, *self.beside), self.rows) if self.unordered else self

    def rows_from(self, offset: int) -> np.ndarray:
        """The rows as offsets in a sub-window in which the first of them is at ``offset``."""
        return self.rows if offset == 0 else self.rows + np.int32(offset)


def sorted_keys(codes: Codes, rows: np.ndarray | None = None) -> Keys:
    """The rows with these codes in the order of their keys. ``rows``: their numbers, by default 0, 1, 2, ..."""
    if codes[0].size == 1:
        return Keys(codes[0], np.zeros(1, np.int32) if rows is None else rows, codes[1:])
    key, order = sort_keys(codes[0])
    beside = tuple(array[order] for array in codes[1:])
    return Keys(key, order if rows is None else rows[order], beside)


@dataclass(slots=True)
class Bounds:
    """What rows look for among the stored keys: ``lo <= key <= hi``. ``lo`` does not decrease, but where the index takes ``any_order``.

    ``hi`` may, where widths differ, if all candidates are compared again: an index may then give more of them.
    """

    lo: np.ndarray  # int64
    hi: np.ndarray
    rows: np.ndarray  # int32: which row is probing
    beside: tuple[np.ndarray, ...] = ()  # what the index needs beside them

    def share(self, i: int, parts: int) -> "Bounds":
        """One of ``parts`` equal parts."""
        return self.between(self.lo.size * i // parts, self.lo.size * (i + 1) // parts)

    def between(self, first: int, stop: int) -> "Bounds":
        """Those at the places [first, stop)."""
        if first == 0 and stop == self.lo.size:
            return self
        cut = slice(first, stop)
        return Bounds(self.lo[cut], self.hi[cut], self.rows[cut], tuple(array[cut] for array in self.beside))


def ascending(hi: np.ndarray) -> np.ndarray:
    """Upper ends for an index that wants them in order too: where one decreases, that of a probe before it."""
    return np.maximum.accumulate(hi)


class SortedRun(Protocol):
    """Rows in key order: a probe's matches are a <start, end> range, however many they are."""

    @property
    def rows(self) -> np.ndarray:
        """All of them."""

    def ranges(self, bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
        """Per probe <start, end> in ``rows``."""

    def buffered_pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        """The candidates that are in no range yet, as ``Index.pairs`` gives them."""

    def only(self, mask: np.ndarray) -> "RunPart":
        """A run of the rows that a mask by offset keeps; of those that are in ranges."""


class RunPart(SortedRun, Protocol):
    """Some rows of a run, in key order."""

    def pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        """As ``Index.pairs``."""


class Index(ABC):
    """One structure over one sub-window. Probing keeps no state in ``self``: several threads probe at once."""

    name: ClassVar[str]
    filled = 0  # rows of the sub-window that were offered to it: where several joins share it, the first one inserts
    shared = False  # whether others may see what one join no longer can
    sealed = False

    @abstractmethod
    def __init__(self, capacity: int) -> None:
        """An empty index for at most ``capacity`` rows."""

    @abstractmethod
    def insert(self, keys: Keys, offset: int) -> None:
        """Add rows; the first row of the block that the keys are from is at ``offset`` in the sub-window."""

    @abstractmethod
    def pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        """Yield ``n`` each time ``buffer[:n]`` holds candidates: all stored keys within the bounds.

        The consumer copies what it needs before it resumes the iterator.
        """

    def any_order(self) -> bool:
        """Whether bounds of the next probe may come in any order."""
        return False

    def near(self, bounds: Bounds) -> Bounds | None:
        """Of bounds, at least those within which there is a key; None: there is none. What is left out has no candidates."""
        return bounds

    @abstractmethod
    def seal(self) -> None:
        """No more rows will come."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held by the structure."""

    def sorted_run(self) -> SortedRun | None:
        """The rows in key order, where they are kept so and range results are possible."""
        return None

    def trim(self, first: int) -> bool:
        """Leave out the rows below offset ``first``, which nobody can see any more; False: this kind of index cannot."""
        return False

    def expect(self, probes: float) -> None:
        """About so many probes come at once: what each would have to look through can be put in order first. Nobody probes meanwhile."""
        return

    def successor(self, capacity: int) -> Self:
        """An empty index of the same kind for the next sub-window, which may learn from this one."""
        return type(self)(capacity)
