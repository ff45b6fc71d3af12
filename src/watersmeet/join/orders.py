"""A plan for many streams, as values: for each arriving stream the order in which the others are probed, and by what.

An arriving block probes the other streams one after the other. Between the steps travel partial results: arrival numbers of the rows so
far. A step looks for rows of one more stream by the bands between it and the streams that are there: one band, or all equalities as one
key, drives the index; the other bands are compared on candidates. ``planner.py`` makes them.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from watersmeet.codes import mix
from watersmeet.index.base import Bounds, Codes, sorted_keys
from watersmeet.index.dense import Dense
from watersmeet.join.drivers import Cells, cut_ends, in_order, probing, rising
from watersmeet.join.learning import Edge
from watersmeet.kernels.composite import composite_keys
from watersmeet.sql.condition import Band, BoundCondition, Residual

Source = tuple[int, int]
"""A stream, and which of its code columns."""


@dataclass(frozen=True)
class Comparison:
    """A band as a step uses it: from a column of a stream that is there to a column of the stream that is looked for."""

    band: Band
    name: str  # of the stream that is there
    source: Source
    target: int  # column of the stream that is looked for
    text: str
    same: int | None = None  # of an equality: the columns that are all equal, by a number

    def ends(self, codes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """By interval: inclusive ends of the codes that rows with ``codes`` match."""
        return self.band.bounds(self.name, codes)


@dataclass(frozen=True)
class Arrangement:
    """An index over the segments of a stream."""

    # Whose codes are its key; several: mixed into one; none: every row has the same key.
    columns: tuple[int, ...]
    kinds: tuple[str, ...]  # of index that may serve
    text: str
    bands: tuple[Band, ...] = ()  # of a grid: the two whose plane has the cells
    cells: Cells | None = field(default=None, compare=False)
    shift: int | None = None  # of equalities and then a band, whose column is the last: how its codes are cut

    @property
    def dense(self) -> bool:
        """Whether its index is one of dense keys, which need not be in order."""
        return self.kinds == (Dense.name,)

    def keys(self, codes: Sequence[np.ndarray], rows: int) -> Codes:
        """The keys of rows, from the codes of all columns."""
        mine = [codes[column] for column in self.columns]
        if self.shift is not None:
            key = np.empty(rows, np.int64)
            composite_keys(mix(mine[:-1]), mine[-1], self.shift, key)
            return (key,)
        return (one_key(mine, rows),) if self.cells is None else self.cells.located(*mine)


def one_key(codes: Sequence[np.ndarray], rows: int) -> np.ndarray:
    if not codes:
        return np.zeros(rows, np.int64)
    return codes[0] if len(codes) == 1 else mix(codes)


@dataclass(frozen=True)
class Step:
    """Look for rows of one more stream."""

    stream: int
    by: int  # which arrangement of that stream
    drivers: tuple[
        Comparison, ...
    ]  # one band, or equalities, or those and then a band; none: every row is a candidate
    checks: tuple[Comparison, ...]  # compared on candidates
    residuals: tuple[Residual, ...]  # evaluated on the rows as soon as all their streams are there
    carried: tuple[int, ...]  # columns of this stream that later steps start from
    kept: tuple[Source, ...]  # of the streams that were there, the columns that later steps still start from
    exact: bool  # whether a key within the bounds is a match: nothing else has to be compared
    edge: Edge
    cells: Cells | None = None  # where two bands drive a grid
    shift: int | None = None  # where equalities and then a band drive: as in the arrangement

    def bounds(self, codes: Mapping[Source, np.ndarray], rows: int, unordered: bool = False) -> list[Bounds]:
        """What partial results look for among the keys; ``rows``: how many there are. ``unordered``: one key each, in any order."""
        if unordered:
            (comparison,) = self.drivers
            order = np.arange(rows, dtype=np.int32)
            return [Bounds(lo, hi, order) for lo, hi in comparison.ends(codes[comparison.source])]
        if self.cells is not None:
            mine = [codes[comparison.source] for comparison in self.drivers]
            return probing(self.cells, self.drivers[0].name, sorted_keys(self.cells.located(*mine)))
        if self.shift is not None:
            *equalities, band = self.drivers
            mixed = mix([codes[comparison.source] for comparison in equalities])
            order = np.arange(rows, dtype=np.int32)
            return [
                rising(first, last, order)
                for lo, hi in band.ends(codes[band.source])
                for first, last in cut_ends(mixed, lo, hi, self.shift)
            ]
        return _bounds(self.drivers, codes, rows)


def _bounds(drivers: Sequence[Comparison], codes: Mapping[Source, np.ndarray], rows: int) -> list[Bounds]:
    keys = sorted_keys((one_key([codes[comparison.source] for comparison in drivers], rows),))
    if len(drivers) != 1:
        return [Bounds(keys.key, keys.key, keys.rows)]
    return [in_order(lo, hi, keys.rows) for lo, hi in drivers[0].ends(keys.key)]


@dataclass(frozen=True)
class StashPlan:
    """Which pairs of rows are kept for which stream, and how it looks for them: see ``stash.py``."""

    hot: int
    pair: tuple[int, int]
    columns: tuple[Source, ...]  # of the pair, that other streams are linked by
    arrangement: Arrangement  # over these columns
    drivers: tuple[Comparison, ...]  # from the hot stream; targets are places in ``columns``
    checks: tuple[Comparison, ...]
    residuals: tuple[Residual, ...]  # complete with the hot row
    kept: tuple[Source, ...]  # of the hot stream, what the steps start from
    steps: tuple[Step, ...]  # to the other streams
    expected: float = field(compare=False)  # pairs in the windows, as estimated

    def bounds(self, codes: Mapping[Source, np.ndarray], rows: int) -> list[Bounds]:
        """What hot rows look for among the keys."""
        return _bounds(self.drivers, codes, rows)


@dataclass(frozen=True)
class Orders:
    """How a join of many streams finds its results."""

    condition: BoundCondition
    columns: tuple[
        tuple[tuple[Band, str], ...], ...
    ]  # by stream: a band that has the codes of each column, and the stream's name
    arrangements: tuple[tuple[Arrangement, ...], ...]  # by stream
    steps: tuple[tuple[Step, ...], ...]  # by arriving stream
    selectivity: dict[str, float] = field(default_factory=dict)  # share of pairs by band, as estimated
    # By arriving stream and step: partial results for each, as estimated.
    fanouts: tuple[tuple[float, ...], ...] = ()
    stash: StashPlan | None = None
    # Whether each step finds few candidates among all that is stored, most of which it may not see.
    finds_few: bool = False

    @property
    def index_identity(self) -> tuple[object, ...]:
        """Plans that have the same can use the same indexes."""
        return self.columns, self.arrangements

    def identities_of(self, k: int) -> list[Hashable]:
        """The same, of each index of one stream, across conditions: which keys it has, and of which rows."""
        name = self.condition.streams[k]
        columns = [band.identity_of(stream) for band, stream in self.columns[k]]
        rows = frozenset(columns), self.condition.filter_identity(name)
        return [
            (
                tuple(columns[column] for column in one.columns),
                tuple(band.text for band in one.bands),
                one.shift,
                one.kinds,
                *rows,
            )
            for one in self.arrangements[k]
        ]
