"""What many rows amount to: of a column how many values there are, and their exact sum.

``Numbers`` is a column as sums read it, ``Amounts`` what some of them amount to, in slots: counts, sums in limbs, NaN and infinities
apart. Both are exact, so it does not matter in which order, or by which way, rows become amounts and amounts are added up:

- one by one (``Numbers.add``, with sign -1: taken away),
- each so many times (``add_times``),
- all of a stretch at once: as the difference of two running sums (``run_up``, ``add_spans``).

Amounts have one limb more than their numbers: it takes what is carried from the others, so that an amount added to another counts as one
number, however many it is made of (``kernels/limbs.py``: LIMIT).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.aggregate.rows import ALL
from watersmeet.aggregate.spec import Grouping
from watersmeet.aggregate.values import decimal_words
from watersmeet.codes.column import raw, validity
from watersmeet.kernels.groups import count_many, count_rows
from watersmeet.kernels.limbs import (
    EXPONENT,
    NUMBER_LIMBS,
    add_cells,
    add_floats,
    add_floats_times,
    add_limbs,
    add_spans,
    add_words,
    add_words_times,
    float_span,
    run_up,
)

INT64 = np.dtype(np.int64)
FUNCTIONS = ("count", "sum", "avg")  # of which amounts suffice
Span = tuple[int, int, bool]


def _no_words() -> np.ndarray:
    return np.empty((0, 0), np.int64)


def suffice(grouping: Grouping) -> bool:
    """Whether amounts are all that is asked for of rows."""
    return all(one.function in FUNCTIONS for one in grouping.aggregates)


def summed(grouping: Grouping) -> dict[str, bool]:
    """The columns whose amounts are asked for, and whether sums are: of the others only counts."""
    asked = [one for one in grouping.aggregates if one.column is not None]
    return {
        one.column: any(two.column == one.column and two.function != "count" for two in asked)
        for one in asked
        if one.column is not None
    }


@dataclass(slots=True)
class Amounts:
    """Of each slot. ``first``: which limb is the first; ``special``: counts of NaN and infinities, empty where there are none."""

    counts: np.ndarray
    limbs: np.ndarray
    first: int
    special: np.ndarray

    def run_up(self) -> None:
        """Each slot becomes what the slots up to it amount to."""
        np.cumsum(self.counts, out=self.counts)
        if self.limbs.size:
            run_up(self.limbs)
        if self.special.size:
            run_up(self.special)

    def add_spans(self, running: Amounts, start: np.ndarray, end: np.ndarray, slots: np.ndarray) -> None:
        """Add to each slot what lies between two places of running amounts. The same numbers must have been allowed for."""
        count_many(slots, ALL, running.counts[end] - running.counts[start], self.counts)
        if running.limbs.shape[1]:
            add_spans(running.limbs, start, end, slots, running.first - self.first, self.limbs)
        if running.special.size:
            add_cells(slots, running.special[end] - running.special[start], self.special)

    def of(self, kept: np.ndarray) -> Amounts:
        """Those of the slots that a mask keeps."""
        special = self.special[kept] if self.special.size else self.special
        return Amounts(self.counts[kept], self.limbs[kept], self.first, special)

    def add(self, other: Amounts, slots: np.ndarray) -> None:
        """Add other amounts, each to its slot."""
        count_many(slots, ALL, other.counts, self.counts)
        if other.limbs.shape[1]:
            add_limbs(slots, other.limbs, other.first - self.first, self.limbs)
        if other.special.size:
            add_cells(slots, other.special, self.special)


@dataclass(slots=True)
class Numbers:
    """A column of numbers; ``first``, ``stop``: the limbs that they need. ``floats`` None: only counted."""

    size: int
    valid: np.ndarray  # ALL: there is no NULL
    floats: bool | None = None
    words: np.ndarray = field(
        default_factory=_no_words
    )  # by row: the bits of a double, or the words of a whole number
    first: int = 0
    stop: int = 0
    special: bool = False  # whether there is NaN or infinity

    @classmethod
    def of(cls, column: pa.Array, is_summed: bool) -> Numbers:
        mask = validity(column)
        valid = ALL if mask is None else mask
        if not is_summed:
            return cls(len(column), valid)
        if not (pt.is_floating(column.type) or pt.is_null(column.type)):
            words = whole_words(column)
            return cls(len(column), valid, False, words, 0, 2 * words.shape[1])
        bits = raw(column if column.type == pa.float64() else pc.cast(column, pa.float64()), INT64)
        low, high = map(int, float_span(bits, valid))
        span = ((low - 1) >> 5, ((high - 1) >> 5) + NUMBER_LIMBS) if low <= high else (0, 0)
        special = bool(((bits >> 52 & EXPONENT) == EXPONENT).any())
        return cls(len(column), valid, True, bits, *span, special)

    @classmethod
    def joined(cls, parts: Sequence[Numbers]) -> Numbers:
        """One after the other; at least one."""
        if len(parts) == 1:
            return parts[0]
        some = any(part.valid.size for part in parts)
        masks = [part.valid if part.valid.size else np.ones(part.size, np.bool_) for part in parts if some]
        valid, size = np.concatenate(masks) if some else ALL, sum(part.size for part in parts)
        floats = parts[0].floats
        if floats is None:
            return cls(size, valid)
        words = np.concatenate([part.words for part in parts])
        return cls(size, valid, floats, words, *span_of([part.span for part in parts]))

    def take(self, rows: np.ndarray | slice) -> Numbers:
        """Those of some rows."""
        valid = self.valid[rows] if self.valid.size else ALL
        words = self.words if self.floats is None else self.words[rows]
        size = len(range(*rows.indices(self.size))) if isinstance(rows, slice) else rows.size
        return Numbers(size, valid, self.floats, words, self.first, self.stop, self.special)

    @property
    def span(self) -> Span:
        """The limbs that they need, and whether there is NaN or infinity."""
        return self.first, self.stop, self.special

    def amounts(self, slots: int) -> Amounts:
        """Slots with nothing in them, in which numbers like these have room."""
        return room_for([self.span], slots)

    def running(self, rows: np.ndarray) -> Amounts:
        """What they amount to in this order of rows, up to each of them; from nothing on."""
        sums = self.amounts(rows.size + 1)
        self.take(rows).add(np.arange(1, rows.size + 1), sums)
        sums.run_up()
        return sums

    def add(self, slots: np.ndarray, out: Amounts, sign: int = 1) -> None:
        """Add each number to its slot, or take it away."""
        if self.floats is None:
            count_rows(slots, self.valid, sign, out.counts)
        elif self.floats:
            add_floats(slots, self.words, self.valid, sign, out.first, out.limbs, out.counts, out.special)
        else:
            add_words(slots, self.words, self.valid, sign, out.limbs, out.counts)

    def add_times(self, slots: np.ndarray, times: np.ndarray, out: Amounts) -> None:
        """Add each number so many times, fewer than 2**31, to its slot."""
        if self.floats is None:
            count_many(slots, self.valid, times, out.counts)
        elif self.floats:
            args = (slots, self.words, self.valid, times, out.first, out.limbs, out.counts, out.special)
            add_floats_times(*args)
        else:
            add_words_times(slots, self.words, self.valid, times, out.limbs, out.counts)


def span_of(spans: Sequence[Span]) -> Span:
    """Of all of them."""
    filled = [(first, stop) for first, stop, _ in spans if first < stop]
    special = any(special for _, _, special in spans)
    if not filled:
        return 0, 0, special
    return min(first for first, _ in filled), max(stop for _, stop in filled), special


def room_for(spans: Sequence[Span], slots: int) -> Amounts:
    """Slots with nothing in them, in which numbers of any of these spans have room."""
    first, stop, special = span_of(spans)
    width = stop - first + 1 if first < stop else 0
    apart = np.zeros((slots if special else 0, 3), np.int64)
    return Amounts(np.zeros(slots, np.int64), np.zeros((slots, width), np.int64), first, apart)


def whole_words(column: pa.Array) -> np.ndarray:
    """Integers, and decimals as whole numbers of their last digit: rows of words, the lowest first, the last one signed."""
    if pt.is_decimal(column.type):
        return decimal_words(column)
    if not pt.is_uint64(column.type):
        whole = column if column.type == pa.int64() else pc.cast(column, pa.int64())
        return raw(whole, INT64).reshape(-1, 1)
    words = np.zeros((len(column), 2), np.int64)
    words[:, 0] = raw(column, INT64)
    return words
