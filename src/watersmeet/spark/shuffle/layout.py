"""Which core gets which rows: a layout is a value, the same for every task of a batch, and rows are spread by nothing else.

- ``hash``: by the codes of the equalities; a row is on one core, and so are all of its partners.
- ``buckets`` (range and broadcast spreading): the home stream's rows lie once, in the bucket of their key; a row of the
  other stream goes to every bucket that its band touches, as a copy. A bucket belongs to one core or more: within
  it home rows are dealt out and copies go to all. Broadcast spreading is one bucket for all cores. Which stream of an inner join is
  at home is a matter of layout, so that a heavy key of either can be dealt out; of other joins it is the stream that is decided upon.
- ``counted``: every core gets every row in order. Of an inner join of two streams it stores its share of both, and the other rows only
  probe (SplitJoin's way); of other joins it takes its share of the home stream, and stores all of the others.
- ``shares`` (many streams): cores are the cells of a grid. A row has one place in each dimension that its stream is in (a class of
  equalities, or the stream itself dealt out), and is copied to all places of the others. The rows of a result agree in every dimension, and
  each dimension has one of them: so they meet in one cell, and no other. (Two streams dealt out in one dimension would not.)

So whatever the layout, a result is found on one core, and a home row of an outer, semi or anti join is decided on one that sees all of its
partners. In buckets that is the home row's core: other streams' rows go wherever a home row near enough could lie, or to all cores where
no band leads to the home stream. Dealing goes by a hash of the row's own values, not by its place: a map task that is run again deals the
same.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from watersmeet.codes import common_domain, mix
from watersmeet.spark.graph import Dimension
from watersmeet.spark.shuffle.shares import SOME, grid
from watersmeet.spark.spec import GUEST, Binding, Section
from watersmeet.sql.condition import Band

SPREADING = np.uint64(0x9E3779B97F4A7C15)  # odd: no two hashes become one


@dataclass(frozen=True)
class Layout:
    """How the rows of one section lie on its cores (numbered from 0)."""

    kind: str
    cores: int
    borders: tuple[int, ...] = ()  # key codes: bucket j holds [borders[j - 1], borders[j])
    groups: tuple[tuple[int, int], ...] = ()  # the cores [first, stop) of each bucket
    home: int = 0  # the stream whose rows lie once
    sizes: tuple[int, ...] = ()  # of the grid, by dimension

    @property
    def copies(self) -> bool:
        """Whether rows are copied, and stored rows say which are copies."""
        return self.kind in ("buckets", "shares")

    def deals(self, how: str, many: bool, k: int) -> bool:
        """Whether every core gets all rows of stream k and keeps a share of them. ``many``: of more than two streams."""
        return self.kind == "counted" and ((how == "inner" and not many) or k == self.home)

    def like(self, other: "Layout") -> bool:
        """Whether it differs at most by what is learnt from the data."""
        same = self.kind == other.kind and self.cores == other.cores
        return same and (
            self == other
            or (
                self.copies
                and len(self.sizes) == len(other.sizes)
                and bool(self.groups) == bool(other.groups)
            )
        )

    def to_json(self) -> list[Any]:
        groups = [list(group) for group in self.groups]
        grid = [list(self.sizes)] if self.sizes else []
        return [self.kind, self.cores, list(self.borders), groups, self.home, *grid]

    @classmethod
    def from_json(cls, data: list[Any]) -> "Layout":
        kind, cores, borders, groups, home, *grid = data
        pairs = tuple((first, stop) for first, stop in groups)
        return cls(kind, cores, tuple(borders), pairs, home, tuple(grid[0]) if grid else ())

    def __str__(self) -> str:
        if self.kind == "shares":
            return f"a grid of {' x '.join(str(size) for size in self.sizes if size > 1) or '1'} over {self.cores} cores"
        if self.kind != "buckets":
            return f"{self.kind} over {self.cores} cores"
        shared = sum(stop - first > 1 for first, stop in self.groups)
        return f"{len(self.groups)} buckets over {self.cores} cores" + (
            f", {shared} shared" if shared else ""
        )


KINDS = {"hash": "hash", "range": "buckets", "broadcast": "buckets", "counted": "counted"}
KINDS_OF_MANY = {**KINDS, "hash": "shares", "shares": "shares", "broadcast": "shares"}


def first_layouts(bound: Binding) -> tuple[Layout, ...]:
    """Before anything is known of the data: one bucket, shared by all cores; a grid for streams of equal size."""
    found = _first.get(bound)
    if found is None:
        found = _first[bound] = tuple(_first_layout(bound, section) for section in bound.sections)
    return found


_first: WeakKeyDictionary[Binding, tuple[Layout, ...]] = (
    WeakKeyDictionary()
)  # asked for by every task of every batch


def _first_layout(bound: Binding, section: Section) -> Layout:
    spec = bound.spec
    kind = (KINDS_OF_MANY if bound.many else KINDS)[spec.spread]
    groups = ((0, spec.cores),) if kind == "buckets" else ()
    even = [SOME for _ in spec.streams]
    sizes = grid(bound.dimensions, spec.cores, even, {}) if kind == "shares" else ()
    return Layout(kind, spec.cores, (), groups, section.home, sizes)


def digest(layouts: tuple[Layout, ...]) -> str:
    """A short name for layouts: tasks compare them by it."""
    text = json.dumps([layout.to_json() for layout in layouts])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


Share = tuple[int, np.ndarray | None, np.ndarray | None]
"""(core, positions of the rows it gets (None: all), which of them are copies (None: none))."""


class Router:
    """Spreads the rows of a batch."""

    def __init__(self, bound: Binding, layouts: tuple[Layout, ...]) -> None:
        self.bound, self.layouts = bound, layouts

    def shares(self, k: int, batch: pa.RecordBatch) -> Iterator[Share]:
        """Who gets which rows of a batch of stream k; a core is named once at most."""
        for section, layout in zip(self.bound.sections, self.layouts, strict=True):
            for core, rows, copies in self._section_shares(layout, k, batch):
                yield section.first + core, rows, copies

    def _section_shares(self, layout: Layout, k: int, batch: pa.RecordBatch) -> Iterator[Share]:
        if layout.kind == "counted":
            yield from ((core, None, None) for core in range(layout.cores))
        elif layout.kind == "hash":
            yield from by_core(self.hash_cores(k, batch, layout.cores), layout.cores)
        elif layout.kind == "shares":
            yield from self._cells(k, batch, layout)
        elif k == layout.home:
            yield from by_core(self.home_cores(k, batch, layout), layout.cores)
        else:
            yield from self._copies(k, batch, layout)

    def hash_cores(self, k: int, batch: pa.RecordBatch, cores: int) -> np.ndarray:
        """The core of each row. Rows without a key, which match nobody, are dealt out by their content."""
        bands = [one.bands[k] for one in self.bound.spanning]
        return key_hashes(bands, self.bound.spec.streams[k], batch) % np.uint64(cores)

    def _cells(self, k: int, batch: pa.RecordBatch, layout: Layout) -> Iterator[Share]:
        """Rows to all cells that agree with them in the dimensions that they are in. The first of these has the row itself."""
        stream, cells = self.bound.spec.streams[k], np.zeros(batch.num_rows, np.uint64)
        free, stride = [0], 1
        for place, (dimension, size) in enumerate(zip(self.bound.dimensions, layout.sizes, strict=True)):
            if size > 1 and k in dimension.bands:
                hashes = place_hashes(dimension, place, k, stream, batch)
                cells += hashes % np.uint64(size) * np.uint64(stride)
            elif size > 1:
                free = [cell + i * stride for i in range(size) for cell in free]
            stride *= size
        for core, rows, _ in by_core(cells, stride):
            places = np.arange(batch.num_rows) if rows is None else rows
            copies = np.ones(places.size, np.bool_)
            for cell in sorted(free):
                yield core + cell, places, (copies if cell else None)

    def home_cores(self, k: int, batch: pa.RecordBatch, layout: Layout) -> np.ndarray:
        """The core of each row of the home stream."""
        if layout.cores == 1:
            return np.zeros(batch.num_rows, np.uint64)
        tree = self.bound.tree
        if tree is None or not layout.borders:
            return contents(batch) % np.uint64(layout.cores)
        codes, valid = tree.bands[k].keys(self.bound.spec.streams[k], batch)
        bucket = np.searchsorted(layout.borders, codes, "right")
        firsts, sizes = _groups(layout)
        cores = firsts[bucket]
        if sizes.max() > 1:
            cores += contents(batch) % sizes[bucket]
        return cores if valid is None else np.where(valid, cores, contents(batch) % np.uint64(layout.cores))

    def _copies(self, k: int, batch: pa.RecordBatch, layout: Layout) -> Iterator[Share]:
        """Rows to every bucket that they touch. A row that touches none goes to the first: somebody must know that it came."""
        everywhere = np.arange(batch.num_rows)
        touched = self.touched(k, batch, layout)
        seen = np.zeros(batch.num_rows, np.bool_)
        rest = None if touched is None else ~np.logical_or.reduce(touched)
        for j, (first, stop) in enumerate(layout.groups):
            rows = everywhere
            if touched is not None and rest is not None:
                rows = np.flatnonzero(touched[j] | rest if j == 0 else touched[j])
            copies = seen[rows]
            seen[rows] = True
            for core in range(first, stop):
                if rows.size:
                    yield core, rows, (copies if core == first else np.ones(rows.size, np.bool_))

    def touched(self, k: int, batch: pa.RecordBatch, layout: Layout) -> list[np.ndarray] | None:
        """Which rows reach into each bucket; None: all into all."""
        tree = self.bound.tree
        if tree is None or not layout.borders or k not in tree.bands:
            return None
        codes, valid = tree.bands[k].keys(self.bound.spec.streams[k], batch)
        return touching(tree.bounds(k, layout.home, codes), valid, layout)


def key_hashes(bands: Sequence[Band], stream: str, batch: pa.RecordBatch) -> np.ndarray:
    """A hash of each row's keys; of rows without a key, which match nobody, of their content."""
    keys = [band.spreading_keys(stream, batch) for band in bands]
    hashes = mix([np.ascontiguousarray(codes) for codes, _ in keys]).view(np.uint64)
    for _, valid in keys:
        if valid is not None:
            hashes = np.where(valid, hashes, contents(batch))
    return hashes


def place_hashes(dimension: Dimension, place: int, k: int, stream: str, batch: pa.RecordBatch) -> np.ndarray:
    """What says where rows of a stream are in one dimension of a grid: another hash in each, or equal values in two would leave cells
    without rows."""
    bands = dimension.bands[k]
    hashes = key_hashes(bands, stream, batch) if bands else contents(batch)
    return (hashes ^ np.uint64(place)) * SPREADING >> np.uint64(11) if place else hashes


def touching(
    bounds: list[tuple[np.ndarray, np.ndarray]], valid: np.ndarray | None, layout: Layout
) -> list[np.ndarray]:
    """Per bucket, which rows' bounds reach into it."""
    spans = []
    for lo, hi in bounds:
        some = lo <= hi if valid is None else (lo <= hi) & valid
        spans.append(
            (np.searchsorted(layout.borders, lo, "right"), np.searchsorted(layout.borders, hi, "right"), some)
        )
    return [
        np.logical_or.reduce([(first <= j) & (j <= last) & some for first, last, some in spans])
        for j in range(len(layout.groups))
    ]


def by_core(cores: np.ndarray, count: int) -> Iterator[Share]:
    """Rows by core, each core's in their order."""
    if count == 1:
        yield 0, None, None
        return
    small = cores.astype(
        np.uint8 if count <= 256 else np.uint16
    )  # a stable sort of small numbers takes one pass
    order = np.argsort(small, kind="stable")
    ends = np.cumsum(np.bincount(small, minlength=count))
    for core in range(count):
        rows = order[ends[core - 1] if core else 0 : ends[core]]
        if rows.size:
            yield core, rows, None


def contents(batch: pa.RecordBatch) -> np.ndarray:
    """A hash of each row's own values (those of simple types): the same whenever and wherever the row is met."""
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.name == GUEST or pa.types.is_nested(field.type):
            continue
        domain = common_domain(field.type, field.type, ordered=False)
        if domain is not None:
            codes, _ = domain.codes(column, null_code=True)
            columns.append(np.ascontiguousarray(codes))
    if not columns:
        return np.zeros(batch.num_rows, np.uint64)
    return mix(columns).view(np.uint64) >> np.uint64(7)  # not the bits that hash spreading takes


def _groups(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    firsts = np.array([first for first, _ in layout.groups], np.uint64)
    return firsts, np.array([stop - first for first, stop in layout.groups], np.uint64)


class Dealing:
    """Counted layouts: arrival numbers of a whole stream, and of the share of it that a core keeps.

    Core i of n keeps the rows g with g % n == i; ``below(g)`` of them came before row g.
    """

    def __init__(self, cores: int = 1, core: int = 0) -> None:
        self.cores, self.core = cores, core

    def below(self, numbers: Any) -> Any:
        return (np.maximum(numbers, 0) - self.core + self.cores - 1) // self.cores

    def mine(self, first: int, count: int) -> np.ndarray:
        """Positions of this core's rows among ``count`` rows from number ``first`` on."""
        return np.arange((self.core - first) % self.cores, count, self.cores)


def dealings(bound: Binding, core: int) -> list[Dealing]:
    """How a core numbers what it keeps of each stream: its share where cores deal, else all that it gets."""
    section, counted = bound.section(core), bound.spec.spread == "counted"
    layout = Layout("counted" if counted else "", bound.spec.cores, home=section.home)
    share = Dealing(layout.cores, core - section.first)
    return [
        share if layout.deals(section.how.name, bound.many, k) else Dealing() for k in bound.stream_numbers
    ]
