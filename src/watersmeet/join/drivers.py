"""Drivers: what gives each row a key, and each probe the bounds on the other stream's keys.

One band, several equalities as one key, two bands as the cells of a plane, or equalities and then a band.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.codes import mix
from watersmeet.index.base import Bounds, Codes, Ends, Keys
from watersmeet.index.grid import CellPlane, Grid
from watersmeet.index.scan import Scan
from watersmeet.kernels.composite import composite_ends, composite_keys
from watersmeet.kernels.sort import is_sorted, sort_keys
from watersmeet.sql.condition import Band


def all_valid(masks: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Conjunction of validity masks; None stands for all valid."""
    real = [mask for mask in masks if mask is not None]
    if not real:
        return None
    return real[0] if len(real) == 1 else np.logical_and.reduce(real)


class Key(Protocol):
    """One int64 code a row, and the ends of what it looks for among the other stream's codes: a band is one."""

    text: str
    exact: bool

    def keys(self, stream: str, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]: ...

    def bounds(self, stream: str, keys: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]: ...


class Driver(ABC):
    """What an index is built over: the keys under which rows are stored, and what probing rows look for among them.

    A probe needs codes and row numbers, and nothing else of the rows: ``probing(driver, stream, sorted_keys(codes, rows))``.
    """

    bands: tuple[Band, ...]
    texts: tuple[str, ...]
    exact: (
        bool  # whether all rows with a key within the bounds are matches, and nothing need be compared again
    )
    key: Key | None  # the one code behind the keys; None: there are more
    small: str  # the kind of index for few rows that are soon gone
    cut: Hashable = None  # how keys are cut from the bands' codes, where that is a choice

    @abstractmethod
    def codes(self, stream: str, batch: pa.RecordBatch) -> tuple[Codes, np.ndarray | None]:
        """The codes of a stream's rows in arrival order, and which rows have them (None: all)."""

    @abstractmethod
    def ends(self, stream: str, codes: Codes) -> Sequence[Ends]:
        """By row, for each interval: the ends of what rows of ``stream`` with these codes look for."""

    @abstractmethod
    def bounds(self, ends: Ends, rows: np.ndarray) -> Bounds:
        """The ends of rows that are in the order of their keys, as an index takes them."""


def probing(driver: Driver, stream: str, keys: Keys) -> list[Bounds]:
    """What rows of ``stream`` with these keys look for in an index over the other stream."""
    return [driver.bounds(ends, keys.rows) for ends in driver.ends(stream, keys.codes)]


def in_order(lo: np.ndarray, hi: np.ndarray, rows: np.ndarray) -> Bounds:
    """Sorted keys have sorted ends, but for probes that match nothing where int64 leaves no room to keep them in order."""
    if lo.size and (lo[0] > hi[0] or lo[-1] > hi[-1]):
        some = lo <= hi
        return Bounds(lo[some], hi[some], rows[some])
    return Bounds(lo, hi, rows)


class OneKey(Driver):
    """A key is one code: a band, several equalities as one, or nothing at all."""

    key: Key
    small = Scan.name

    def __init__(self, key: Key, bands: Sequence[Band]) -> None:
        self.key, self.bands = key, tuple(bands)
        self.texts, self.exact = (key.text,), key.exact

    def codes(self, stream: str, batch: pa.RecordBatch) -> tuple[Codes, np.ndarray | None]:
        keys, valid = self.key.keys(stream, batch)
        return (keys,), valid

    def ends(self, stream: str, codes: Codes) -> Sequence[Ends]:
        return self.key.bounds(stream, codes[0])

    def bounds(self, ends: Ends, rows: np.ndarray) -> Bounds:
        lo, hi = ends
        return in_order(lo, hi, rows)


class Cells(Driver):
    """A key is a cell of the plane of two bands, with both codes beside it: see ``index/grid.py``."""

    exact, key, small = False, None, Grid.name

    def __init__(self, first: Band, second: Band) -> None:
        self.bands, self.texts = (first, second), (first.text, second.text)
        self._plane = CellPlane((first, second))

    def codes(self, stream: str, batch: pa.RecordBatch) -> tuple[Codes, np.ndarray | None]:
        (x, valid), (y, also_valid) = (band.keys(stream, batch) for band in self.bands)
        return self.located(x, y), all_valid((valid, also_valid))

    def located(self, x: np.ndarray, y: np.ndarray) -> Codes:
        """The codes of rows whose codes in the two bands are known."""
        return self._plane.locate(x, y), x, y

    def ends(self, stream: str, codes: Codes) -> Sequence[Ends]:
        _, x, y = codes
        return [self._plane.ends(stream, x, y)]

    def bounds(self, ends: Ends, rows: np.ndarray) -> Bounds:
        return self._plane.bounds(ends, rows)


class Composite(Driver):
    """Equalities, then a band: a key is some bits of the equal columns' hash, then some bits of the band's code.

    Rows with equal columns lie together, in the order of the band. A code x is cut to the bits [shift, shift + ``FIELD``) of x: a few
    cells are as wide as what a probe looks for, so that few rows beside it are candidates. Codes that differ in higher bits alone, and
    columns whose hashes share their bits, come out as candidates too: all bands are compared again. What a probe looks for may go
    beyond the last cell, and then goes on at the first: a second range. So ends need not ascend as keys do: they are sorted.
    """

    exact, key, small = False, None, Scan.name

    def __init__(self, equalities: Sequence[Band], band: Band, shift: int) -> None:
        self.bands, self.band, self.cut = (*equalities, band), band, shift
        self.texts = (" AND ".join(one.text for one in self.bands),)
        self._equalities = tuple(equalities)

    def codes(self, stream: str, batch: pa.RecordBatch) -> tuple[Codes, np.ndarray | None]:
        parts = [band.keys(stream, batch) for band in self._equalities]
        x, valid = self.band.keys(stream, batch)
        mixed = mix([codes for codes, _ in parts])
        return (self.located(mixed, x), mixed, x), all_valid([valid, *(one for _, one in parts)])

    def located(self, mixed: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The keys of rows with these codes."""
        key = np.empty(x.size, np.int64)
        composite_keys(mixed, x, self.cut, key)
        return key

    def ends(self, stream: str, codes: Codes) -> Sequence[Ends]:
        _, mixed, x = codes
        ((lo, hi),) = self.band.bounds(stream, x)
        first, beyond = (np.empty((2, x.size), np.int64) for _ in range(2))
        if composite_ends(mixed, lo, hi, self.cut, *first, *beyond):
            return [tuple(first), tuple(beyond)]
        return [tuple(first)]

    def bounds(self, ends: Ends, rows: np.ndarray) -> Bounds:
        lo, hi = ends
        some = lo <= hi
        if not some.all():
            lo, hi, rows = lo[some], hi[some], rows[some]
        if not is_sorted(lo):
            lo, order = sort_keys(lo)
            hi, rows = hi[order], rows[order]
        return Bounds(lo, hi, rows)


class Everything:
    """No band: every stored row is a candidate of every probe. All keys are 0."""

    text = "every pair"
    exact = True

    def keys(self, stream: str, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]:
        return np.zeros(batch.num_rows, np.int64), None

    def bounds(self, stream: str, keys: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(keys, keys)]


class Equalities:
    """Equality on several columns as one hashed key; the columns are compared again on the candidates."""

    exact = False

    def __init__(self, bands: Sequence[Band]) -> None:
        self.bands = tuple(bands)
        self.text = " AND ".join(band.text for band in bands)

    def keys(self, stream: str, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]:
        parts = [band.keys(stream, batch) for band in self.bands]
        return mix([codes for codes, _ in parts]), all_valid([valid for _, valid in parts])

    def bounds(self, stream: str, keys: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(keys, keys)]
