"""Which core gets which rows: a layout is a value, the same for every task of a batch, and rows are spread by nothing else.

- ``hash``: by the codes of the equalities; a row is on one core, and so are all of its partners.
- ``buckets`` (range and broadcast spreading): the home stream's rows lie once, in the bucket of their key; a row of the
  other stream goes to every bucket that its band touches, as a copy. A bucket belongs to one core or more: within
  it home rows are dealt out and copies go to all. Broadcast spreading is one bucket for all cores. Which stream of an inner join is
  at home is a matter of layout, so that a heavy key of either can be dealt out; of other joins it is the stream that is decided upon.
- ``counted``: every core gets every row in order. Of an inner join it stores its share of both streams, and the other rows only probe
  (SplitJoin's way); of other joins it takes its share of the home stream, and stores all of the other.

So whatever the layout, a pair is found on one core, and a home row of an outer, semi or anti join is decided on one that sees all of its
partners. Dealing goes by a hash of the row's
own values, not by its place: a map task that is run again deals the same.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.codes import common_domain, mix
from watersmeet.join.outer import How
from watersmeet.spark.spec import GUEST, Binding


@dataclass(frozen=True)
class Layout:
    """How the rows of one section lie on its cores (numbered from 0)."""

    kind: str
    cores: int
    borders: tuple[int, ...] = ()  # key codes: bucket j holds [borders[j - 1], borders[j])
    groups: tuple[tuple[int, int], ...] = ()  # the cores [first, stop) of each bucket
    home: int = 0  # the stream whose rows lie once

    @property
    def copies(self) -> bool:
        """Whether rows are copied, and stored rows say which are copies."""
        return self.kind == "buckets"

    def deals(self, how: How, k: int) -> bool:
        """Whether every core gets all rows of stream k and keeps a share of them."""
        return self.kind == "counted" and (how.name == "inner" or k == self.home)

    def to_json(self) -> list[Any]:
        groups = [list(group) for group in self.groups]
        return [self.kind, self.cores, list(self.borders), groups, self.home]

    @classmethod
    def from_json(cls, data: list[Any]) -> "Layout":
        kind, cores, borders, groups, home = data
        return cls(kind, cores, tuple(borders), tuple((first, stop) for first, stop in groups), home)

    def __str__(self) -> str:
        if self.kind != "buckets":
            return f"{self.kind} over {self.cores} cores"
        shared = sum(stop - first > 1 for first, stop in self.groups)
        return f"{len(self.groups)} buckets over {self.cores} cores" + (
            f", {shared} shared" if shared else ""
        )


KINDS = {"hash": "hash", "range": "buckets", "broadcast": "buckets", "counted": "counted"}


def first_layouts(bound: Binding) -> tuple[Layout, ...]:
    """Before anything is known of the data: one bucket, shared by all cores."""
    spec = bound.spec
    kind = KINDS[spec.spread]
    groups = ((0, spec.cores),) if kind == "buckets" else ()
    return tuple(Layout(kind, spec.cores, (), groups, section.home) for section in bound.sections)


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
        elif k == layout.home:
            yield from by_core(self.home_cores(k, batch, layout), layout.cores)
        else:
            yield from self._copies(k, batch, layout)

    def hash_cores(self, k: int, batch: pa.RecordBatch, cores: int) -> np.ndarray:
        """The core of each row. Rows without a key, which match nobody, are dealt out by their content."""
        stream = self.bound.spec.streams[k]
        keys = [band.spreading_keys(stream, batch) for band in self.bound.equalities]
        hashes = mix([np.ascontiguousarray(codes) for codes, _ in keys]).view(np.uint64)
        for _, valid in keys:
            if valid is not None:
                hashes = np.where(valid, hashes, contents(batch))
        return hashes % np.uint64(cores)

    def home_cores(self, k: int, batch: pa.RecordBatch, layout: Layout) -> np.ndarray:
        """The core of each row of the home stream."""
        if layout.cores == 1:
            return np.zeros(batch.num_rows, np.uint64)
        band = self.bound.band
        if band is None or not layout.borders:
            return contents(batch) % np.uint64(layout.cores)
        codes, valid = band.keys(self.bound.spec.streams[k], batch)
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
        band = self.bound.band
        if band is None or not layout.borders:
            return None
        stream = self.bound.spec.streams[k]
        codes, valid = band.keys(stream, batch)
        return touching(band.bounds(stream, np.ascontiguousarray(codes)), valid, layout)


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
    section = bound.section(core)
    layout = first_layouts(bound)[core // bound.spec.cores]
    share = Dealing(layout.cores, core - section.first)
    return [share if layout.deals(section.how, k) else Dealing() for k in bound.stream_numbers]
