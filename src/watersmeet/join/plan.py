"""From a condition's normal form to work: which band drives the index, and what is left to check on candidates.

A driver gives each row a key and each probe the bounds on the other stream's keys. Bands that do not drive are checked on the
candidates by their codes; the residual is evaluated on what then remains.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.index.base import Codes
from watersmeet.join.drivers import (
    BandReach,
    Cells,
    Composite,
    Driver,
    Equalities,
    Everything,
    OneKey,
    Reach,
    Stabbing,
    reading,
)
from watersmeet.kernels.composite import LAST
from watersmeet.kernels.sort import sort_keys
from watersmeet.sql.condition import Band, BoundCondition, Residual
from watersmeet.sql.program import Program

INDEXES = ("auto", "scan", "hash", "rap_table", "wib_tree", "bi_sort", "grid")
FOR_RANGES = ("bi_sort", "rap_table", "wib_tree")  # those that look for a range of keys
# What may serve equalities and a band together, by what the user wants. BI-Sort takes upper ends in any order; the others look for more.
FOR_COMPOSITES = {"auto": ("bi_sort",), **{kind: (kind,) for kind in FOR_RANGES}}


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
    program: Program | None = None  # what of the residual is computed from columns beside the codes
    residual: Residual | None = None  # what is evaluated on the rows
    share: float | None = None  # of pairs that a driver of several bands lets through, as estimated
    # Whether a probe finds few candidates among all that is stored, most of which it may not see.
    finds_few: bool = False

    def width(self, stream: str) -> int:
        """How many columns of codes a stream's rows have beside their keys."""
        return len(self.checks) + (0 if self.program is None else self.program.width(stream))

    @property
    def ranges_suffice(self) -> bool:
        """Whether a key range of the driver is the result: nothing has to be checked on candidates."""
        return self.driver.exact and not self.checks and self.condition.residual is None

    @property
    def index_identity(self) -> tuple[object, ...]:
        """Plans that have the same can use the same indexes."""
        return self.driver.bands, self.driver.cut, self.kinds, self.checks

    def identity_of(self, stream: str) -> Hashable:
        """The same, of one stream's index, across conditions: which keys it has, and of which rows."""
        driver = self.driver
        widths = () if driver.key is not None else (driver.cut or driver.texts)  # a grid's cells
        keys = tuple(band.identity_of(stream) for band in driver.bands)
        nulls = frozenset(band.identity_of(stream) for band in self.checks)
        return keys, widths, self.kinds, nulls, self.condition.filter_identity(stream)


@dataclass(frozen=True)
class Measured:
    """What samples say of a reach: how many codes wide what a row looks for is, the share of pairs that it lets through once codes are
    cut, and how many ranges a row looks for.
    """

    width: int
    share: float
    ranges: float


def make_plan(
    condition: BoundCondition,
    index: str,
    selectivity: dict[str, float],
    window: int,
    known: Sequence[tuple[Reach, Measured]] = (),
    nearby: Sequence[Band] = (),
) -> Plan:
    """Pick the driver for ``index`` (a name of INDEXES). ``selectivity``: share of pairs by band text, where known.

    ``window``: about how many rows a probe sees, for weighing drivers of several bands against a single one. ``known``: what may follow
    equalities in a key, and has been measured. ``nearby``: bands that all pairs satisfy which may see each other: they can drive, and
    are never compared again.
    """
    may_drive = [*condition.bands, *(nearby if index == "auto" else ())]
    bands = sorted(may_drive, key=lambda band: share_of(band, selectivity))
    equalities = [band for band in bands if band.hashable]
    two_sided = [band for band in bands if band.width is not None and band.domain.ordered]

    def plan(
        driver: Driver, kinds: tuple[str, ...], used: Sequence[Band], share: float | None = None
    ) -> Plan:
        kept = tuple(band for band in driver.likely(bands) if band not in used and band not in nearby)
        residual = condition.residuals[0] if condition.residuals else None
        through = share or min((share_of(band, selectivity) for band in driver.bands), default=1.0)
        few = through * window <= COMPOSITE_CANDIDATES or any(band in nearby for band in driver.bands)
        return Plan(
            condition, driver, kinds, kept, selectivity, residual=residual, share=share, finds_few=few
        )

    def by_band(band: Band, kinds: tuple[str, ...]) -> Plan:
        return plan(OneKey(band, (band,)), kinds, (band,))

    def by_equalities(kinds: tuple[str, ...]) -> Plan:
        return plan(OneKey(Equalities(equalities), equalities), kinds, ())

    def by_nothing(used: Sequence[Band]) -> Plan:
        return plan(OneKey(Everything(), ()), ("scan",), used)

    if condition.impossible:
        return by_nothing(bands)
    if index in FOR_COMPOSITES:
        together = _composite(bands, selectivity, window, known)
        if together is not None:
            return plan(together[0], FOR_COMPOSITES[index], (), together[1])
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
        if not bands:
            raise OptionError(_needs(index, "an equality, inequality or band between the streams", condition))
        return by_band(bands[0], (index,))
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


UNKNOWN = 65_536  # rows: so many a stream may well come to hold, where no window counts them
COMPOSITE_CANDIDATES = 8  # with fewer a probe, looking at each costs less than sorting by one band more
COMPOSITE_SHARE = 0.5  # a band that lets more through orders rows for nothing
CELLS = 3  # bits: what a probe looks for is so many cells wide, or a little more
RANGE = 24  # looking for one more range in all sub-windows costs as much as so many candidates
EVEN_BITS = 50  # of proportional codes that samples make use of


def reaches(condition: BoundCondition, stabbing: bool) -> list[Reach]:
    """What may follow equalities in a key: each band of one interval, and each two bands that say a point lies in an interval."""
    single = [band for band in condition.bands if not band.hashable and len(band.intervals) == 1]
    found: list[Reach] = [BandReach(band) for band in single]
    if stabbing:
        halves = [(band, half) for band in single for half in band.halves]
        found += [
            Stabbing(lower, upper, points)
            for lower, (points, point, above) in halves
            for upper, (points_too, same, below) in halves
            if above
            and not below
            and points == points_too
            and point == same
            and lower.domain.name == upper.domain.name
        ]
    return found


def evenly(reach: Reach, samples: Mapping[str, pa.RecordBatch]) -> Reach | None:
    """The same over numbers proportional to the values, where those are floats."""
    if not all(band.domain.floating for band in reach.bands):
        return None
    largest = 0.0
    for band in reach.bands:
        for stream in band.streams:
            codes, valid = band.keys(stream, samples[stream])
            values = np.abs(band.domain.values(codes if valid is None else codes[valid]))
            largest = max(largest, float(values.max(initial=0.0, where=np.isfinite(values))))
    return reach.with_factor(2.0 ** min(EVEN_BITS - math.frexp(largest)[1], 1000)) if largest else None


def measured(reach: Reach, samples: Mapping[str, pa.RecordBatch]) -> Measured | None:
    """By the newest rows of both streams; None: they have shown nothing yet."""
    left, right = reach.bands[0].streams
    codes = {stream: reach.codes(stream, reading(stream, samples[stream])) for stream in (left, right)}
    sides = [_Looks.of(reach, codes, *streams) for streams in ((left, right), (right, left))]
    widths = {width for side in sides for width in side.widths()}
    if not widths:
        return None
    cuts = {cut: max(side.share(cut) for side in sides) for cut in {cut_of(width) for width in widths}}
    width = min(widths, key=lambda one: (cuts[cut_of(one)], one))
    return Measured(width, cuts[cut_of(width)], sum(len(side.ranges) for side in sides) / 2)


@dataclass(frozen=True)
class _Looks:
    """What the rows of one sample look for among those of the other."""

    ranges: Sequence["_Range"]
    stored: Mapping[int, np.ndarray]  # keys by salt, in order
    rows: int

    @classmethod
    def of(
        cls, reach: Reach, codes: Mapping[str, tuple[Codes, np.ndarray | None]], stream: str, other: str
    ) -> "_Looks":
        mine, keys = (_there(*codes[name]) for name in (stream, other))
        salts = reach.salt(other, keys)
        kinds = {0: keys[0]} if salts is None else {int(one): keys[0][salts == one] for one in set(salts)}
        ranges = [_Range.of(int(salt), lo, hi) for salt, lo, hi in reach.ends(stream, mine)]
        return cls(ranges, {salt: np.sort(some) for salt, some in kinds.items()}, keys[0].size)

    def widths(self) -> Iterator[int]:
        """The median width of what is looked for, of each kind."""
        for one in self.ranges:
            if one.width is not None and self.rows:
                yield one.width

    def share(self, shift: int) -> float:
        """Of all pairs, those that come out as candidates if so many bits of a key are cut off."""
        found = pairs = 0
        for one in self.ranges:
            pairs = one.probes * self.rows
            keys = self.stored.get(one.salt)
            if keys is not None and keys.size:
                found += one.candidates(keys, shift)
        return min(1.0, (found + 0.5) / pairs) if pairs else 0.0


@dataclass(frozen=True)
class _Range:
    """What the rows of a sample look for under one salt. Rows that look for nothing are left out of the ends."""

    salt: int
    probes: int
    lo: np.ndarray
    hi: np.ndarray
    ordered: tuple[
        np.ndarray, np.ndarray
    ]  # the same, each in an order of its own: sorted ends are found faster
    width: int | None  # the median; None: nobody looks for anything
    widest: int

    @classmethod
    def of(cls, salt: int, lo: np.ndarray, hi: np.ndarray) -> "_Range":
        some = lo <= hi
        low, high = lo[some], hi[some]
        wide = high.view(np.uint64) - low.view(np.uint64)
        half = wide.size // 2
        width = int(np.partition(wide, half)[half]) if wide.size else None
        return cls(salt, lo.size, low, high, (np.sort(low), np.sort(high)), width, int(wide.max(initial=0)))

    def candidates(self, keys: np.ndarray, shift: int) -> int:
        """Pairs with keys, which are in order, if so many bits are cut off."""
        cut = keys >> shift
        if (self.widest >> shift) + 1 < LAST:
            low, high = (ends >> shift for ends in self.ordered)
            return int(np.searchsorted(cut, high, "right").sum() - np.searchsorted(cut, low).sum())
        low, high = self.lo >> shift, self.hi >> shift
        counts = np.searchsorted(cut, high, "right") - np.searchsorted(cut, low)
        wide = high.view(np.uint64) - low.view(np.uint64) >= np.uint64(LAST)
        return int(np.where(wide, keys.size, counts).sum())


def _there(codes: Codes, valid: np.ndarray | None) -> Codes:
    return codes if valid is None else tuple(column[valid] for column in codes)


def _composite(
    bands: Sequence[Band],
    selectivity: Mapping[str, float],
    window: int,
    known: Sequence[tuple[Reach, Measured]],
) -> tuple[Composite, float] | None:
    """All equalities, then what lets least through, where a single driver leaves many candidates; and the share of pairs that do."""
    equalities = [band for band in bands if band.hashable]
    useful = [(reach, facts) for reach, facts in known if equalities or len(reach.bands) > 1]
    if not useful:
        return None
    equal = min((share_of(band, selectivity) for band in equalities), default=1.0)
    reach, facts = min(useful, key=lambda one: RANGE * one[1].ranges + one[1].share * equal * window)
    alone = min(share_of(band, selectivity) for band in bands)
    if alone * window <= COMPOSITE_CANDIDATES or facts.share > COMPOSITE_SHARE:
        return None
    return Composite(equalities, reach, cut_of(facts.width)), facts.share * equal


def cut_of(width: int) -> int:
    """How many low bits of a code are cut off in a composite key, where what a row looks for is so many codes wide."""
    return max(0, width.bit_length() - CELLS)


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
