"""From a condition's normal form to work: which band drives the index, and what is left to check on candidates.

A driver gives each row a key and each probe the bounds on the other stream's keys. Bands that do not drive are checked on the
candidates by their codes; the residual is evaluated on what then remains.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.codes import mix
from watersmeet.errors import OptionError
from watersmeet.index.base import Bounds, Codes, Ends, Keys
from watersmeet.index.grid import CellPlane, Grid
from watersmeet.index.scan import Scan
from watersmeet.kernels.sort import sort_keys
from watersmeet.sql.condition import Band, BoundCondition

INDEXES = ("auto", "scan", "hash", "rap_table", "wib_tree", "bi_sort", "grid")
FOR_RANGES = ("bi_sort", "rap_table", "wib_tree")  # those that look for a range of keys


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


@dataclass(frozen=True)
class Plan:
    """How one join finds its pairs."""

    condition: BoundCondition
    driver: Driver
    kinds: tuple[str, ...]  # the index kinds that may serve; the chooser picks among them per sub-window
    checks: tuple[Band, ...]  # bands compared by code on candidates
    selectivity: dict[str, float] = field(
        default_factory=dict
    )  # estimated share of pairs each band lets through

    @property
    def ranges_suffice(self) -> bool:
        """Whether a key range of the driver is the result: nothing has to be checked on candidates."""
        return self.driver.exact and not self.checks and self.condition.residual is None

    @property
    def index_identity(self) -> tuple[object, ...]:
        """Plans that have the same can use the same indexes."""
        return self.driver.bands, self.kinds, self.checks

    def identity_of(self, stream: str) -> Hashable:
        """The same, of one stream's index, across conditions: which keys it has, and of which rows."""
        driver = self.driver
        widths = () if driver.key is not None else driver.texts  # a grid's cells
        keys = tuple(band.identity_of(stream) for band in driver.bands)
        nulls = frozenset(band.identity_of(stream) for band in self.checks)
        return keys, widths, self.kinds, nulls, self.condition.filter_identity(stream)


def all_valid(masks: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Conjunction of validity masks; None stands for all valid."""
    real = [mask for mask in masks if mask is not None]
    if not real:
        return None
    return real[0] if len(real) == 1 else np.logical_and.reduce(real)


def make_plan(condition: BoundCondition, index: str, selectivity: dict[str, float], window: int) -> Plan:
    """Pick the driver for ``index`` (a name of INDEXES). ``selectivity``: share of pairs by band text, where known.

    ``window``: about how many rows a probe sees, for weighing the grid against a single band.
    """
    bands = sorted(condition.bands, key=lambda band: share_of(band, selectivity))
    ordered = [band for band in bands if band.domain.ordered or band.equality]
    equalities = [band for band in bands if band.hashable]
    two_sided = [band for band in bands if band.width is not None and band.domain.ordered]

    def plan(driver: Driver, kinds: tuple[str, ...], used: Sequence[Band]) -> Plan:
        kept = tuple(band for band in bands if band not in used)
        return Plan(condition, driver, kinds, kept, selectivity)

    def by_band(band: Band, kinds: tuple[str, ...]) -> Plan:
        return plan(OneKey(band, (band,)), kinds, (band,))

    def by_equalities(kinds: tuple[str, ...]) -> Plan:
        return plan(OneKey(Equalities(equalities), equalities), kinds, ())

    def by_nothing(used: Sequence[Band]) -> Plan:
        return plan(OneKey(Everything(), ()), ("scan",), used)

    if condition.impossible:
        return by_nothing(bands)
    if index == "grid" or (index == "auto" and _grid_pays(bands, two_sided, selectivity, window)):
        if len(two_sided) < 2:
            raise OptionError(_needs("grid", "two bands with both ends", condition))
        cells = Cells(two_sided[0], two_sided[1])
        return plan(cells, ("grid",), cells.bands)
    if index == "hash":
        if not equalities:
            raise OptionError(
                _needs("hash", "an equality between the streams whose types compare exactly", condition)
            )
        if len(equalities) > 1:
            return by_equalities(("hash",))
        return by_band(equalities[0], ("hash",))
    if index in FOR_RANGES:
        if not ordered:
            raise OptionError(_needs(index, "an equality, inequality or band between the streams", condition))
        return by_band(ordered[0], (index,))
    if index == "scan" or not bands:
        return by_band(bands[0], ("scan",)) if bands else by_nothing(())
    if len(equalities) > 1 and bands[0].hashable:
        return by_equalities(kinds_for(equalities))
    return by_band(bands[0], kinds_for(bands[:1]))


def kinds_for(bands: Sequence[Band]) -> tuple[str, ...]:
    """The kinds of index that may serve one band, or several equalities as one key."""
    if len(bands) > 1:
        return ("hash", "bi_sort")
    return (*FOR_RANGES, "hash") if bands[0].hashable else FOR_RANGES


def _needs(index: str, what: str, condition: BoundCondition) -> str:
    return f"index={index!r} needs {what}; got the condition {condition.text!r}; use index='auto' or 'scan'"


def share_of(band: Band, selectivity: Mapping[str, float]) -> float:
    """Estimated share of pairs; where nothing is known yet, by the kind of band."""
    if band.text in selectivity:
        return selectivity[band.text]
    if band.equality:
        return 0.001
    return 0.01 if band.width is not None else 0.5


GRID_CANDIDATES = (
    32  # with fewer candidates a probe, checking the second band one by one is cheaper than more cells
)


def _grid_pays(
    bands: Sequence[Band], two_sided: Sequence[Band], selectivity: dict[str, float], window: int
) -> bool:
    if len(two_sided) < 2 or bands[0] is not two_sided[0] or two_sided[0].equality:
        return False
    return share_of(two_sided[0], selectivity) * window > GRID_CANDIDATES


def estimate(
    band: Band, left: str, right: str, left_rows: pa.RecordBatch, right_rows: pa.RecordBatch
) -> float:
    """The share of pairs of two samples that the band lets through."""
    probes, valid = band.keys(left, left_rows)
    stored, stored_valid = band.keys(right, right_rows)
    probes = probes if valid is None else probes[valid]
    stored = stored if stored_valid is None else stored[stored_valid]
    pairs = left_rows.num_rows * right_rows.num_rows
    if not pairs:
        return 1.0
    stored, _ = sort_keys(np.ascontiguousarray(stored))
    found = 0
    for lo, hi in band.bounds(left, np.ascontiguousarray(probes)):
        counts = np.searchsorted(stored, hi, "right") - np.searchsorted(stored, lo, "left")
        found += int(np.maximum(counts, 0).sum())
    return min(1.0, (found + 0.5) / pairs)
