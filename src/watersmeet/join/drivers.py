"""Drivers: what gives each row a key, and each probe the bounds on the other stream's keys.

One band, several equalities as one key, two bands as the cells of a plane, or equalities and then a band or an interval.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.codes import mix
from watersmeet.index.base import Bounds, Codes, Ends, Keys
from watersmeet.index.grid import CellPlane, Grid
from watersmeet.index.scan import Scan
from watersmeet.kernels.composite import (
    CLASSES,
    SALTS,
    begin_before,
    composite_ends,
    composite_keys,
    length_classes,
)
from watersmeet.kernels.sort import is_sorted, sort_keys
from watersmeet.sql.condition import Band

INT_BITS = 62  # more would leave no class for longer intervals


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


Read = Callable[
    [Band], tuple[np.ndarray, np.ndarray | None]
]  # of a stream's batch: a band's codes, and which rows have them


def reading(stream: str, batch: pa.RecordBatch) -> Read:
    """A batch's codes, each computed once: bands that give a stream's rows the same codes share them."""
    made: dict[Hashable, tuple[np.ndarray, np.ndarray | None]] = {}

    def read(band: Band) -> tuple[np.ndarray, np.ndarray | None]:
        source = band.sources[stream]
        if source not in made:
            made[source] = band.keys(stream, batch)
        return made[source]

    return read


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
    learns = (
        False  # whether rows that are coded change what is looked for: then nobody else can code them for it
    )

    @abstractmethod
    def codes(self, stream: str, batch: pa.RecordBatch) -> tuple[Codes, np.ndarray | None]:
        """The codes of a stream's rows in arrival order, and which rows have them (None: all)."""

    def codes_by(self, stream: str, batch: pa.RecordBatch, read: Read) -> tuple[Codes, np.ndarray | None]:
        """The same, of who has a way to read a band's codes once."""
        return self.codes(stream, batch)

    def likely(self, bands: Sequence[Band]) -> Sequence[Band]:
        """Bands, the most selective first, in the order in which candidates of this driver are likely to fail them."""
        return bands

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


class Reach(ABC):
    """What follows the equalities in a composite key: codes in order, of which a probe looks for a range, or for several.

    A float's code is near its logarithm: a cent is wider in codes at 20 than at 500. With a ``factor`` keys are cut from whole numbers
    proportional to the values, in which it is as wide everywhere. Any numbers that keep the order would do, as all is compared again.
    """

    bands: tuple[Band, ...]
    factor: float | None
    learns = False  # as a driver's

    @property
    def cut(self) -> Hashable:
        """What keys depend on besides the bands."""
        return self.factor

    def other_classes(self, samples: Mapping[str, pa.RecordBatch]) -> "Sequence[Reach]":
        """The same with stored rows in other kinds, where there is a choice."""
        return ()

    @abstractmethod
    def codes(self, stream: str, read: Read) -> tuple[Codes, np.ndarray | None]:
        """Of a stream's rows, the code under which they are stored, then what else a probe needs; and which rows have all."""

    def salt(self, stream: str, codes: Codes) -> np.ndarray | None:
        """What is mixed into the hash of stored rows, to keep several kinds of them apart; None: there is one kind."""
        return None

    @abstractmethod
    def ends(self, stream: str, codes: Codes) -> Iterator[tuple[np.int64, np.ndarray, np.ndarray]]:
        """What rows of a stream look for: for each kind of stored rows its salt, and the ends of the codes."""

    @abstractmethod
    def with_factor(self, factor: float) -> "Reach":
        """The same with keys proportional to the values, which are floats."""

    def _even(self, codes: np.ndarray) -> np.ndarray:
        return codes if self.factor is None else self.bands[0].domain.proportional(codes, self.factor)


class BandReach(Reach):
    """One band."""

    def __init__(self, band: Band, factor: float | None = None) -> None:
        self.bands, self.factor = (band,), factor

    def codes(self, stream: str, read: Read) -> tuple[Codes, np.ndarray | None]:
        codes, valid = read(self.bands[0])
        return (self._even(codes), codes), valid

    def ends(self, stream: str, codes: Codes) -> Iterator[tuple[np.int64, np.ndarray, np.ndarray]]:
        for lo, hi in self.bands[0].bounds(stream, codes[1]):
            yield np.int64(0), self._even(lo), self._even(hi)

    def with_factor(self, factor: float) -> "BandReach":
        return BandReach(self.bands[0], factor)


class Stabbing(Reach):
    """A point of one stream within an interval of the other: ``q.bid <= t.price AND t.price <= q.ask``.

    Each comparison alone lets half of the rows through. An interval looks for the points between its ends. A point looks for intervals by
    where they begin: one that is at most w codes long, and does not end before the point, begins at most w before it. So intervals
    are kept apart by their length, in classes of powers of sixteen: one long interval does not spoil it for the short ones. The first
    class has all below 2**bits codes. Which classes there are, and the longest interval of each, is learnt from the rows as they are
    coded, and never forgotten: a point looks in all of them, as far back as that.
    """

    learns = True

    def __init__(
        self, lower: Band, upper: Band, points: str, factor: float | None = None, bits: int = 0
    ) -> None:
        self.bands, self._points, self.factor, self._bits = (lower, upper), points, factor, bits
        self._longest = np.full(CLASSES, -1, np.int64)  # by class

    @property
    def cut(self) -> Hashable:
        return self.factor, self._bits

    def codes(self, stream: str, read: Read) -> tuple[Codes, np.ndarray | None]:
        lower, upper = self.bands
        begin, valid = read(lower)
        key = self._even(begin)
        if stream == self._points:
            return (key, begin), valid
        end, also_valid = read(upper)
        classes = np.empty(begin.size, np.int64)
        length_classes(key, self._even(end), self._bits, classes, self._longest)
        return (key, begin, end, classes), all_valid((valid, also_valid))

    def other_classes(self, samples: Mapping[str, pa.RecordBatch]) -> "list[Stabbing]":
        """The same where the first class has most intervals of a sample, or all: fewer classes, in which a point looks farther back."""
        lower, upper = self.bands
        stream = next(name for name in lower.streams if name != self._points)
        (key, _, end, _), valid = self.codes(stream, reading(stream, samples[stream]))
        lengths = self._even(end).astype(np.float64) - key
        lengths = np.sort(lengths if valid is None else lengths[valid])
        if not lengths.size:
            return []
        marks = {float(lengths[int(share * (lengths.size - 1))]) for share in (0.5, 0.9, 1.0)}
        found = {min(INT_BITS, int(mark).bit_length()) for mark in marks if mark >= 1}
        return [Stabbing(lower, upper, self._points, self.factor, bits) for bits in found]

    def salt(self, stream: str, codes: Codes) -> np.ndarray | None:
        return None if stream == self._points else SALTS[codes[3]]

    def ends(self, stream: str, codes: Codes) -> Iterator[tuple[np.int64, np.ndarray, np.ndarray]]:
        lower, upper = self.bands
        if stream != self._points:
            ((lo, _),), ((_, hi),) = lower.bounds(stream, codes[1]), upper.bounds(stream, codes[2])
            yield np.int64(0), self._even(lo), self._even(hi)
            return
        ((_, latest),), ((earliest, _),) = lower.bounds(stream, codes[1]), upper.bounds(stream, codes[1])
        latest, earliest = self._even(latest), self._even(earliest)
        for place in np.flatnonzero(self._longest >= 0).tolist():
            lo = np.empty_like(earliest)
            begin_before(earliest, self._longest[place], lo)
            yield SALTS[place], lo, latest

    def with_factor(self, factor: float) -> "Stabbing":
        lower, upper = self.bands
        return Stabbing(lower, upper, self._points, factor, self._bits)


class Composite(Driver):
    """Equalities, then a band or two: a key is some bits of the equal columns' hash, then some bits of a code.

    Rows with equal columns lie together, in the order of the code. A code x is cut to the bits [shift, shift + ``FIELD``) of x: a few
    cells are as wide as what a probe looks for, so that few rows beside it are candidates. Codes that differ in higher bits alone, and
    columns whose hashes share their bits, come out as candidates too: all bands are compared again. What a probe looks for may go
    beyond the last cell, and then goes on at the first: a second range. So ends need not ascend as keys do: they are sorted.
    """

    exact, key, small = False, None, Scan.name

    def __init__(self, equalities: Sequence[Band], reach: Reach, shift: int) -> None:
        self.bands, self.cut = (*equalities, *reach.bands), (shift, reach.cut)
        self.texts = (" AND ".join(one.text for one in self.bands),)
        self._equalities, self._reach, self._shift = tuple(equalities), reach, shift
        self.learns = reach.learns

    def codes(self, stream: str, batch: pa.RecordBatch) -> tuple[Codes, np.ndarray | None]:
        return self.codes_by(stream, batch, reading(stream, batch))

    def codes_by(self, stream: str, batch: pa.RecordBatch, read: Read) -> tuple[Codes, np.ndarray | None]:
        parts = [read(band) for band in self._equalities]
        reached, valid = self._reach.codes(stream, read)
        mixed = mix([codes for codes, _ in parts]) if parts else np.zeros(batch.num_rows, np.int64)
        salt = self._reach.salt(stream, reached)
        key = np.empty(mixed.size, np.int64)
        composite_keys(mixed if salt is None else mixed ^ salt, reached[0], self._shift, key)
        return (key, mixed, *reached), all_valid([valid, *(one for _, one in parts)])

    def likely(self, bands: Sequence[Band]) -> Sequence[Band]:
        """A candidate is near in the code, and as good as always equal. An interval that begins near a point may end before it."""
        near = tuple(reversed(self._reach.bands))
        others = [band for band in bands if band not in self.bands]
        return *near, *others, *self._equalities

    def ends(self, stream: str, codes: Codes) -> Sequence[Ends]:
        _, mixed, *reached = codes
        return [
            ends
            for salt, lo, hi in self._reach.ends(stream, tuple(reached))
            for ends in cut_ends(mixed ^ salt, lo, hi, self._shift)
        ]

    def bounds(self, ends: Ends, rows: np.ndarray) -> Bounds:
        lo, hi = ends
        return rising(lo, hi, rows)


def cut_ends(mixed: np.ndarray, lo: np.ndarray, hi: np.ndarray, shift: int) -> list[Ends]:
    """What rows look for among composite keys whose equal columns have this hash, and whose codes lie in [lo, hi]."""
    first, beyond = (np.empty((2, mixed.size), np.int64) for _ in range(2))
    wraps = composite_ends(mixed, lo, hi, shift, *first, *beyond)
    return [tuple(first), tuple(beyond)] if wraps else [tuple(first)]


def rising(lo: np.ndarray, hi: np.ndarray, rows: np.ndarray) -> Bounds:
    """Ends in any order as an index takes them, without those that match nothing."""
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
