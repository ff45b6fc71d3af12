"""Exact sums of a column in each group: numbers, and their squares. Adding and taking away are inverse, bit for bit.

What is promised: SUM of floats is the double nearest to the exact sum (ties to even), AVG the one nearest to the exact quotient,
variances and standard deviations those nearest to the exact (n Q - S**2) / (n (n - 1)) and to its root: the same whatever the order,
the batches and the retractions. NaN and infinities are counted apart, so that they can go again. A finite sum that no double
can hold is infinite. Sums of integers and decimals are exact; what does not fit the result's type is NULL.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.aggregate.amounts import Amounts, whole_words
from watersmeet.aggregate.rows import ALL, Rows
from watersmeet.aggregate.slots import LEAST, Cells
from watersmeet.aggregate.table import Table
from watersmeet.aggregate.values import plain
from watersmeet.codes.column import raw
from watersmeet.kernels.groups import count_many
from watersmeet.kernels.limbs import (
    LIMIT,
    MINUS_INFINITY,
    NAN,
    NUMBER_LIMBS,
    PLUS_INFINITY,
    SQUARE_LIMBS,
    add_cells,
    add_float_squares,
    add_floats,
    add_limbs,
    add_word_squares,
    add_words,
    carry,
    float_span,
)
from watersmeet.kernels.magnitude import averages, decimals, doubles, variances
from watersmeet.kernels.narrow import WIDE, add_totals, total

FLOAT64, INT64 = np.dtype(np.float64), np.dtype(np.int64)
LOWEST = -1074  # the exponent of bit 0 of limb 0 for doubles
NO_WINDOW = -1
FEW = 4  # rows a group, from which on groups are few
NO_COUNTS = np.empty(0, np.int64)


class Limbs:
    """A column of limbs, of which only a window is kept: ``width`` of them, from ``base`` on."""

    def __init__(self, width: int = 0) -> None:
        self.base = 0
        self.data = np.zeros((LEAST, width), np.int64)
        self._added = 0  # numbers since the last carry

    @property
    def width(self) -> int:
        return int(self.data.shape[1])

    def count(self, numbers: int) -> None:
        """So many numbers are about to be added."""
        self._added += numbers
        if self._added > LIMIT and self.width:
            carry(self.data)
            self._added = numbers

    def cover(self, first: int, stop: int) -> None:
        """Widen the window to the limbs [first, stop)."""
        if self.width:
            first, stop = min(first, self.base), max(stop, self.base + self.width)
        if (first, stop) != (self.base, self.base + self.width):
            self.data, self.base = _moved(self.base, self.data, first, stop), first

    def take(self, slots: np.ndarray) -> Any:
        return self.base, self.data.take(slots, 0)

    def put(self, slots: np.ndarray, rows: Any) -> None:
        """Rows of an older window, which the present one covers."""
        base, saved = rows
        self.data[slots] = _moved(base, saved, self.base, self.base + self.width)

    def clear(self, slots: np.ndarray | slice) -> None:
        self.data[slots] = 0

    def saved(self, slots: np.ndarray) -> tuple[int, np.ndarray]:
        """Rows for a snapshot, and the window's base; NO_WINDOW: only zeros have come."""
        if not self.width:
            return NO_WINDOW, np.zeros((slots.size, 1), np.int64)
        rows = self.data[slots]
        carry(rows)
        return self.base, rows

    def load(self, first: int, rows: np.ndarray) -> None:
        """Rows of a snapshot, for the first slots."""
        if first != NO_WINDOW:
            self.cover(first, first + rows.shape[1])
            self.data[: len(rows)] = rows


def _moved(base: int, rows: np.ndarray, first: int, stop: int) -> np.ndarray:
    """Rows of a window at ``base`` in the window [first, stop)."""
    fresh = np.zeros((len(rows), stop - first), np.int64)
    if rows.shape[1]:
        fresh[:, base - first : base - first + rows.shape[1]] = rows
    return fresh


class FloatSums:
    """Of a column of floats; ``squares``: of their squares too."""

    def __init__(self, table: Table, squares: bool) -> None:
        self.counts: Cells = table.column()
        self._special = table.column(3)
        self._limbs = table.slots.add(Limbs())
        self._squares = table.slots.add(Limbs()) if squares else None

    def add(self, slots: np.ndarray, rows: Rows, name: str, sign: int) -> None:
        column, valid = rows.column(name), rows.valid(name)
        bits = raw(column if column.type == pa.float64() else pc.cast(column, pa.float64()), INT64)
        low, high = map(int, float_span(bits, valid))
        limbs, squares = self._limbs, self._squares
        if low <= high:
            limbs.cover((low - 1) >> 5, ((high - 1) >> 5) + NUMBER_LIMBS)
        limbs.count(bits.size)
        add_floats(slots, bits, valid, sign, limbs.base, limbs.data, self.counts.data, self._special.data)
        if squares is not None and low <= high:
            squares.cover((2 * low - 2) >> 5, ((2 * high - 2) >> 5) + SQUARE_LIMBS)
            squares.count(bits.size)
            add_float_squares(slots, bits, valid, sign, squares.base, squares.data)

    def add_amounts(self, slots: np.ndarray, amounts: Amounts) -> None:
        """What many numbers amount to, without squares."""
        limbs, width = self._limbs, amounts.limbs.shape[1]
        if width:
            limbs.cover(amounts.first, amounts.first + width)
            limbs.count(slots.size)
            add_limbs(slots, amounts.limbs, amounts.first - limbs.base, limbs.data)
        count_many(slots, ALL, amounts.counts, self.counts.data)
        if amounts.special.size:
            add_cells(slots, amounts.special, self._special.data)

    def sums(self, slots: np.ndarray, kind: pa.DataType) -> pa.Array:
        out = np.empty(slots.size, np.float64)
        doubles(self._limbs.data, slots, LOWEST + 32 * self._limbs.base, out)
        return self._finished(slots, out)

    def averages(self, slots: np.ndarray, kind: pa.DataType) -> pa.Array:
        out = np.empty(slots.size, np.float64)
        averages(self._limbs.data, slots, self.counts.data, LOWEST + 32 * self._limbs.base, out)
        return self._finished(slots, out)

    def variances(self, slots: np.ndarray, sample: int, root: bool) -> pa.Array:
        out, limbs, squares = np.empty(slots.size, np.float64), self._limbs, self._squares
        assert squares is not None
        bases, none = (limbs.base, squares.base), np.empty(0, np.uint64)
        variances(
            limbs.data, squares.data, slots, self.counts.data, *bases, 2 * LOWEST, sample, none, root, out
        )
        out[(self._special.data[slots] > 0).any(axis=1)] = np.nan
        return pa.array(out, mask=self.counts.data[slots] <= sample)

    def _finished(self, slots: np.ndarray, out: np.ndarray) -> pa.Array:
        special = self._special.data[slots] > 0
        out[special[:, PLUS_INFINITY]] = np.inf
        out[special[:, MINUS_INFINITY]] = -np.inf
        out[special[:, NAN] | (special[:, PLUS_INFINITY] & special[:, MINUS_INFINITY])] = np.nan
        return pa.array(out, mask=self.counts.data[slots] == 0)


class WholeSums:
    """Of a column of integers or decimals, as whole numbers of its last digit; ``squares``: of their squares too."""

    def __init__(self, table: Table, kind: pa.DataType, squares: bool) -> None:
        self._kind, self._table = kind, table
        self._words = 2 if pt.is_uint64(kind) else max(1, kind.bit_width // 64)
        self.counts: Cells = table.column()
        self._limbs = table.slots.add(Limbs(2 * self._words + 1))  # one more than a number has: for carries
        self._squares = table.slots.add(Limbs(4 * self._words + 1)) if squares else None

    def add(self, slots: np.ndarray, rows: Rows, name: str, sign: int) -> None:
        words, valid = whole_words(rows.column(name)), rows.valid(name)
        self._limbs.count(slots.size)
        if not self._add_totals(slots, words, valid, rows, sign):
            add_words(slots, words, valid, sign, self._limbs.data, self.counts.data)
        if self._squares is not None:
            self._squares.count(slots.size)
            add_word_squares(slots, words, valid, sign, self._squares.data)

    def _add_totals(
        self, slots: np.ndarray, words: np.ndarray, valid: np.ndarray, rows: Rows, sign: int
    ) -> bool:
        """Add up in one word a group, then add that; False: nothing was done, as groups are many or numbers large."""
        groups = self._table.used
        if groups * FEW > slots.size:
            return False
        totals, counts = np.zeros(groups, np.int64), np.zeros(groups if valid.size else 0, np.int64)
        sizes = int(total(slots, words.reshape(-1), words.shape[1], valid, totals, counts))
        if sizes == WIDE or (sizes + 1) * slots.size >= 2**63:
            return False
        add_totals(totals, sign, self._limbs.data)
        self.counts.data[:groups] += sign * (counts if valid.size else rows.tally(slots, groups))
        return True

    def add_amounts(self, slots: np.ndarray, amounts: Amounts) -> None:
        """What many numbers amount to, without squares."""
        self._limbs.count(slots.size)
        add_limbs(slots, amounts.limbs, 0, self._limbs.data)
        count_many(slots, ALL, amounts.counts, self.counts.data)

    def sums(self, slots: np.ndarray, kind: pa.DataType) -> pa.Array:
        return self._numbers(slots, kind, NO_COUNTS, 1)

    def averages(self, slots: np.ndarray, kind: pa.DataType) -> pa.Array:
        if pt.is_decimal(kind):
            scale = self._kind.scale if pt.is_decimal(self._kind) else 0
            return self._numbers(slots, kind, self.counts.data, 10 ** (kind.scale - scale))
        out = np.empty(slots.size, np.float64)
        averages(self._limbs.data, slots, self.counts.data, 0, out)
        return pa.array(out, mask=self.counts.data[slots] == 0)

    def _numbers(self, slots: np.ndarray, kind: pa.DataType, counts: np.ndarray, factor: int) -> pa.Array:
        """Sums, divided by their counts if there are some, as integers or decimals; NULL where they do not fit."""
        whole = not pt.is_decimal(kind)
        words = np.empty((slots.size, kind.bit_width // 64), np.int64)
        fits = np.empty(slots.size, np.bool_)
        most = 2**63 if whole else 10**kind.precision
        ends = _places(most), _places(most + whole)
        decimals(self._limbs.data, slots, counts, factor, *ends, words, fits)
        there = fits & (self.counts.data[slots] > 0)
        values = plain(words, kind)
        return values if there.all() else pc.if_else(pa.array(there), values, pa.scalar(None, kind))

    def variances(self, slots: np.ndarray, sample: int, root: bool) -> pa.Array:
        out, squares = np.empty(slots.size, np.float64), self._squares
        assert squares is not None
        scale = self._kind.scale if pt.is_decimal(self._kind) else 0
        divisors = np.array([10 ** min(9, k) for k in range(2 * scale, 0, -9)], np.uint64)
        variances(
            self._limbs.data, squares.data, slots, self.counts.data, 0, 0, 0, sample, divisors, root, out
        )
        return pa.array(out, mask=self.counts.data[slots] <= sample)


def _places(number: int) -> np.ndarray:
    """A number as a magnitude."""
    return np.array([number >> k & 0xFFFFFFFF for k in range(0, number.bit_length(), 32)], np.uint64)
