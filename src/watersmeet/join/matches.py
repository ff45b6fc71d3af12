"""What a push found, as numbers: pairs of arrival numbers, counts, ranges over sorted runs, products of lists. Payload comes later."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from watersmeet.kernels.product import write_lists, write_repeated

NOBODY = -1
_EMPTY = np.empty(0, np.int64)
_NONE: list[Any] = []


@dataclass(slots=True)
class RangeRecords:
    """For each probing row of ``side``: its matches are ``run[start:end]``, arrival numbers of the other stream."""

    side: int
    probe: np.ndarray
    start: np.ndarray
    end: np.ndarray
    rows: np.ndarray  # offsets in key order; run = base + rows
    base: int
    scattered: np.ndarray | None = None  # arrival numbers by offset, where they do not follow on one another

    @property
    def count(self) -> int:
        return int((self.end - self.start).sum(dtype=np.int64))

    def arrivals(self) -> np.ndarray:
        """The run: arrival numbers in key order."""
        if self.scattered is not None:
            return self.scattered[self.rows]
        return self.rows.astype(np.int64) + self.base

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(left, right) arrival numbers, written out."""
        lengths = (self.end - self.start).astype(np.int64)
        probes = np.repeat(self.probe, lengths)
        before = np.cumsum(lengths) - lengths
        places = np.arange(probes.size) - np.repeat(before - self.start, lengths)
        stored = self.arrivals()[places]
        return (probes, stored) if self.side == 0 else (stored, probes)

    def first(self, limit: int) -> "RangeRecords":
        """The records of the first ``limit`` pairs: a few more may be in it, however many pairs there are."""
        lengths = np.minimum(self.end - self.start, limit)
        upto = int(np.searchsorted(np.cumsum(lengths, dtype=np.int64), limit)) + 1
        end = (self.start + lengths)[:upto]
        return replace(self, probe=self.probe[:upto], start=self.start[:upto], end=end)


@dataclass(slots=True)
class Lists:
    """For each of some combinations, rows of one more stream: ``numbers[start : start + length]``."""

    stream: int
    start: np.ndarray
    length: np.ndarray
    numbers: np.ndarray  # arrival numbers

    def of(self, places: np.ndarray) -> "Lists":
        """Those of these combinations."""
        return Lists(self.stream, self.start.take(places), self.length.take(places), self.numbers)


@dataclass(slots=True)
class Product:
    """Results of many streams: each combination of some rows, with every combination of what its lists have of further streams.

    What stands here grows with the lists, not with the results: those are written out when they are asked for.
    """

    there: dict[int, np.ndarray]  # arrival numbers, by stream
    lists: Sequence[Lists]  # of every other stream; none is empty
    count: int  # of results

    def write(self, columns: Sequence[np.ndarray], at: int) -> None:
        """Write the results out, a column a stream, from place ``at`` on: the last list's stream is the one that changes fastest."""
        times = reduce(np.multiply, (one.length for one in self.lists))
        inner = np.ones_like(times)
        for one in reversed(self.lists):
            write_lists(one.numbers, one.start, one.length, inner, times, at, columns[one.stream])
            inner = inner * one.length
        for stream, numbers in self.there.items():
            write_repeated(numbers, times, at, columns[stream])

    def first(self, limit: int) -> "Product":
        """The product of the first ``limit`` results: a few more may be in it, however many there are."""
        totals = reduce(np.multiply, (one.length.astype(np.float64) for one in self.lists))
        upto = int(np.searchsorted(np.cumsum(totals), limit)) + 1
        lists, places = [], np.arange(min(upto, totals.size))
        wanted = np.full(places.size, limit)
        for one in reversed(self.lists):
            length = np.minimum(one.length[places], wanted)
            wanted = -(-wanted // length)
            lists.append(Lists(one.stream, one.start[places], length, one.numbers))
        there = {stream: numbers[places] for stream, numbers in self.there.items()}
        return Product(there, lists[::-1], count_of([one.length for one in lists]))


def count_of(lengths: Sequence[np.ndarray]) -> int:
    """How many combinations lists of these lengths have, in all."""
    about = np.prod([column.astype(np.float64) for column in lengths], axis=0).sum()
    if about < 2.0**62:
        return int(np.prod(lengths, axis=0).sum())
    return sum(prod(several) for several in zip(*(column.tolist() for column in lengths), strict=True))


@dataclass(slots=True)
class Matches:
    """The results of one push. Tasks on several threads add to it: a list's append is atomic."""

    pairs: list[tuple[np.ndarray, ...]] = field(default_factory=list)  # arrival numbers, a column a stream
    ranges: list[RangeRecords] = field(default_factory=list)  # of two streams
    counts: list[int] = field(default_factory=list)  # matches that were only counted
    streams: int = 2
    products: list[Product] = field(default_factory=list)  # of many streams
    # Products and ranges, once they have been written out; what was added since makes it another number of rows.
    _written: tuple[np.ndarray, ...] | None = field(default=None, init=False, compare=False)

    def add_all(self, other: "Matches") -> None:
        """What was found elsewhere comes after what is here."""
        self.pairs += other.pairs
        self.ranges += other.ranges
        self.counts += other.counts
        self.products += other.products

    @staticmethod
    def of(columns: tuple[np.ndarray, ...]) -> "Matches":
        """These, and no more: nothing may be added."""
        return Matches([columns], _NONE, _NONE, len(columns), _NONE)

    @property
    def some(self) -> bool:
        """Whether anything was found."""
        return bool(self.pairs or self.ranges or self.counts or self.products)

    def add(self, side: int, probes: np.ndarray, stored: np.ndarray) -> None:
        self.pairs.append((probes, stored) if side == 0 else (stored, probes))

    @property
    def count(self) -> int:
        found = 0
        for columns in self.pairs:
            found += columns[0].size
        if not (self.counts or self.ranges or self.products):
            return found
        found += sum(self.counts)
        for records in self.ranges:
            found += records.count
        for product in self.products:
            found += product.count
        return found

    def columns(self) -> tuple[np.ndarray, ...]:
        """All results as a column a stream."""
        if self.products:
            return self._written_out()
        if self.ranges:
            return self._listed()
        return self._joined(self.pairs)

    def _listed(self) -> tuple[np.ndarray, ...]:
        """Ranges written out, once."""
        count, written = self.count, self._written
        if written is None or written[0].size != count:
            self._written = written = self._joined(self.pairs + [records.pairs() for records in self.ranges])
        return written

    def _joined(self, parts: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
        if not parts:
            return (_EMPTY,) * self.streams
        if len(parts) == 1:
            return parts[0]
        return tuple(np.concatenate([part[k] for part in parts]) for k in range(self.streams))

    def _written_out(self) -> tuple[np.ndarray, ...]:
        count, written = self.count, self._written
        if written is not None and written[0].size == count:
            return written
        columns, at = tuple(np.empty(count, np.int64) for _ in range(self.streams)), 0
        for part in self.pairs:
            for column, numbers in zip(columns, part, strict=True):
                column[at : at + numbers.size] = numbers
            at += part[0].size
        for product in self.products:
            product.write(columns, at)
            at += product.count
        self._written = columns
        return columns

    def first(self, limit: int) -> tuple[np.ndarray, ...]:
        """The first ``limit`` rows of ``columns()``; what lies behind them is not written out."""
        few, found = Matches(streams=self.streams), 0
        for columns in self.pairs:
            few.pairs.append(tuple(column[: limit - found] for column in columns))
            found += few.pairs[-1][0].size
        for records in self.ranges:
            if found < limit:
                few.ranges.append(records.first(limit - found))
                found += few.ranges[-1].count
        for product in self.products:
            if found < limit:
                few.products.append(product.first(limit - found))
                found += few.products[-1].count
        return tuple(column[:limit] for column in few.columns())
