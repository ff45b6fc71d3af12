"""From a condition's normal form to work: which band drives the index, and what is left to check on candidates.

A driver gives each row one int64 key and each probe the bounds on the other stream's keys. Bands that do not drive are checked on the
candidates by their codes; the residual is evaluated on what then remains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.codes import mix
from watersmeet.errors import OptionError
from watersmeet.kernels.sort import sort_keys
from watersmeet.sql.condition import Band, BoundCondition

INDEXES = ("auto", "scan", "hash", "rap_table", "wib_tree", "bi_sort", "grid")
Bounds = list[tuple[np.ndarray, np.ndarray]]


class Driver(Protocol):
    """What an index is built over."""

    text: str
    exact: bool

    def keys(self, stream: str, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]: ...

    def bounds(self, stream: str, keys: np.ndarray) -> Bounds: ...


class Everything:
    """No band: every stored row is a candidate of every probe. All keys are 0."""

    text = "every pair"
    exact = True

    def keys(self, stream: str, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]:
        return np.zeros(batch.num_rows, np.int64), None

    def bounds(self, stream: str, keys: np.ndarray) -> Bounds:
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

    def bounds(self, stream: str, keys: np.ndarray) -> Bounds:
        return [(keys, keys)]


@dataclass(frozen=True)
class Plan:
    """How one join finds its pairs."""

    condition: BoundCondition
    driver: Driver
    kinds: tuple[str, ...]  # the index kinds that may serve; the chooser picks among them per sub-window
    checks: tuple[Band, ...]  # bands compared by code on candidates
    cells: tuple[Band, Band] | None = None  # the two bands of the grid
    selectivity: dict[str, float] = field(
        default_factory=dict
    )  # estimated share of pairs each band lets through

    @property
    def ranges_suffice(self) -> bool:
        """Whether a key range of the driver is the result: nothing has to be checked on candidates."""
        return (
            self.driver.exact and not self.checks and self.condition.residual is None and self.cells is None
        )

    def works_like(self, other: "Plan") -> bool:
        """Whether an index built for one serves the other."""
        mine, others = ((p.driver.text, p.kinds, p.checks, p.cells) for p in (self, other))
        return mine == others


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
    bands = sorted(condition.bands, key=lambda band: _share(band, selectivity))
    ordered = [band for band in bands if band.domain.ordered or band.equality]
    equalities = [band for band in bands if band.hashable]
    two_sided = [band for band in bands if band.width is not None and band.domain.ordered]

    def build(
        driver: Driver, kinds: tuple[str, ...], used: Sequence[Band], cells: tuple[Band, Band] | None = None
    ) -> Plan:
        kept = tuple(band for band in bands if band not in used)
        return Plan(condition, driver, kinds, kept, cells, selectivity)

    if condition.impossible:
        return build(Everything(), ("scan",), bands)
    if index == "grid" or (index == "auto" and _grid_pays(bands, two_sided, selectivity, window)):
        if len(two_sided) < 2:
            raise OptionError(_needs("grid", "two bands with both ends", condition))
        cells = (two_sided[0], two_sided[1])
        return build(two_sided[0], ("grid",), cells, cells)
    if index == "hash":
        if not equalities:
            raise OptionError(
                _needs("hash", "an equality between the streams whose types compare exactly", condition)
            )
        if len(equalities) > 1:
            return build(Equalities(equalities), ("hash",), ())
        return build(equalities[0], ("hash",), equalities)
    if index in ("rap_table", "wib_tree", "bi_sort"):
        if not ordered:
            raise OptionError(_needs(index, "an equality, inequality or band between the streams", condition))
        return build(ordered[0], (index,), ordered[:1])
    if index == "scan" or not bands:
        return build(bands[0], ("scan",), bands[:1]) if bands else build(Everything(), ("scan",), ())
    if len(equalities) > 1 and bands[0].hashable:
        return build(Equalities(equalities), ("hash", "bi_sort"), ())
    kinds = (
        ("bi_sort", "rap_table", "wib_tree", "hash")
        if bands[0].hashable
        else ("bi_sort", "rap_table", "wib_tree")
    )
    return build(bands[0], kinds, bands[:1])


def _needs(index: str, what: str, condition: BoundCondition) -> str:
    return f"index={index!r} needs {what}; got the condition {condition.text!r}; use index='auto' or 'scan'"


def _share(band: Band, selectivity: dict[str, float]) -> float:
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
    return _share(two_sided[0], selectivity) * window > GRID_CANDIDATES


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
