"""A join condition: SQL text to the normal form that the rest of the engine works with.

The text is a conjunction. What touches one stream is a filter on its rows; what compares two streams
in a way that an index can answer is a band; what is left, and every band whose codes do not decide it
alone, is a residual, checked on candidates as soon as all its streams are there. A combination of rows, one a
stream, satisfies the text iff all pass their filters, the keys satisfy all bands, and all residuals hold: always, also for
NULL (never true), NaN and overflow.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.codes import Domain, Interval, Side
from watersmeet.codes.interning import Interner, Texts
from watersmeet.codes.text import BytesDomain
from watersmeet.errors import ConditionError
from watersmeet.sql.atoms import atom_of, plain_column
from watersmeet.sql.bind import Binder
from watersmeet.sql.evaluate import evaluate
from watersmeet.sql.intervals import NANOSECONDS, Atom, intersected
from watersmeet.sql.names import check_streams
from watersmeet.sql.parse import parse_condition
from watersmeet.sql.program import Program, compiled
from watersmeet.sql.syntax import Source, Syntax
from watersmeet.sql.tree import (
    Column,
    Expr,
    Literal,
    columns_of,
    conjunction,
    conjuncts,
    negation_pushed,
    streams_of,
    walk,
)

SIDES: tuple[Side, Side] = ("left", "right")
_INT64 = np.iinfo(np.int64)
_FALSE = Literal(pa.bool_(), False)

_SOME_KEYS = np.array([-1, 0, 1_000_000])

Keys = tuple[np.ndarray, np.ndarray | None]
Bounds = list[tuple[np.ndarray, np.ndarray]]


class Condition:
    """The text of a join condition, its syntax checked.

    >>> schemas = {name: pa.schema([("x", pa.int64())]) for name in "rs"}
    >>> print(Condition("r.x BETWEEN s.x - 10 AND s.x + 10 AND r.x > 0").bind(schemas))
    band      r.x between s.x - 10 and s.x + 10
    filter r  r.x > 0
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._syntax = parse_condition(text)
        self.names = self._syntax.names()
        self.source = Source(text, "condition")

    def check_streams(self, streams: Sequence[str]) -> None:
        """Refuse a text that names another stream than these; nothing else need be known of them."""
        check_streams(self.source, [self._syntax], streams)

    @property
    def parts(self) -> list[Syntax]:
        """The conjuncts of the text."""
        return _conjuncts_of(self._syntax)

    @staticmethod
    def bind_part(binder: Binder, part: Syntax) -> Expr:
        """A conjunct must be true or false."""
        return binder.boolean(part)

    def bind(self, schemas: Mapping[str, pa.Schema]) -> BoundCondition:
        """The normal form for streams with these schemas; of two streams the one that is written first is the left one."""
        if len(schemas) < 2:
            raise ConditionError(
                f"a join must have at least two streams; got {len(schemas)}; give one schema for each"
            )
        with self.source.of_any_depth():
            bound = Binder(self.source, schemas).boolean(self._syntax)
            return BoundCondition(self.text, bound, list(schemas))


def _conjuncts_of(node: Syntax) -> list[Syntax]:
    return [part for arg in node.args for part in _conjuncts_of(arg)] if node.op == "and" else [node]


class Band:
    """Two key expressions, of two streams, and intervals: the left key lies in one of them around the right key."""

    def __init__(self, atom: Atom, streams: Sequence[str]) -> None:
        self.streams = tuple(streams)
        self.left, self.right = atom.left, atom.right
        self.domain: Domain = atom.domain
        self.intervals: tuple[Interval, ...] = atom.intervals
        first = self.intervals[0]
        self.equality = len(self.intervals) == 1 and first.is_equality and first.form != "difference"
        self.exact = atom.domain.exact and not atom.null_safe and not atom.slack
        self.width = _width(self.intervals)
        self.text = _band_text(atom)
        self.null_safe, self._slack = atom.null_safe, atom.slack
        self._sides = dict(zip(streams, (atom.left, atom.right), strict=True))
        self._plain = {stream: plain_column(side) for stream, side in self._sides.items()}
        # By stream: bands of one condition with the same give its rows the same codes.
        self.sources = {stream: self._source(stream) for stream in self._sides}
        self.interned = isinstance(self.domain, BytesDomain) and not self.domain.ordered
        self._bounders = {
            stream: [self.domain.bounder(interval, side) for interval in self.intervals]
            for stream, side in zip(streams, SIDES, strict=True)
        }
        # Equal values must have equal codes to be hashed. Where codes are rounded (wide decimals, decimal with float) they need not.
        self.hashable = self.equality and all(_single(self.bounds(stream, _SOME_KEYS)) for stream in streams)

    def __repr__(self) -> str:
        return f"<Band {self.text}>"

    @property
    def whole(self) -> bool:
        """Whether codes are proportional to the values: keys that lie close to one another have codes that do."""
        return self.domain.ordered and not self.domain.floating and not self.interned

    @property
    def halves(self) -> list[tuple[str, Expr, bool]]:
        """Of a comparison with one end: each stream with its key, and whether that key lies above the other one."""
        if len(self.intervals) != 1 or not self.domain.ordered or self.null_safe:
            return []
        low, high = self.intervals[0].low is not None, self.intervals[0].high is not None
        if low == high:
            return []
        (left, right), above = self.streams, low
        return [(left, self.left, above), (right, self.right, not above)]

    def identity_of(self, stream: str) -> Hashable:
        """Bands with the same give a stream's rows the same codes, whatever they are compared with."""
        # Codes of texts mean the same only where one interner has given them.
        interner = self.domain.interner if isinstance(self.domain, BytesDomain) else None
        return self.sources[stream], interner

    def _source(self, stream: str) -> Hashable:
        name, side, domain = self._plain[stream], self._sides[stream], self.domain
        return name or f"{side}: {side.type}", name is None, domain.name, domain.ordered, self.null_safe

    def keys(self, stream: str, columns: pa.RecordBatch) -> Keys:
        """The int64 key codes of one stream's rows, and which are valid (None: all). Do not write to them."""
        if self.null_safe:
            return self.domain.codes(self._column(stream, columns), null_code=True)
        return self.domain.codes(self._column(stream, columns))

    def spreading_keys(self, stream: str, columns: pa.RecordBatch) -> Keys:
        """The same in every process, for dealing rows out: rows that match have equal ones, others may."""
        if not isinstance(self.domain, BytesDomain):
            return self.keys(stream, columns)
        return self.domain.everywhere().codes(self._column(stream, columns), null_code=self.null_safe)

    def texts(self, stream: str, columns: pa.RecordBatch) -> Texts:
        """Of texts: what an interner has to know of a stream's rows."""
        assert isinstance(self.domain, BytesDomain)
        return self.domain.texts(self._column(stream, columns))

    def _column(self, stream: str, columns: pa.RecordBatch) -> pa.Array:
        name = self._plain[stream]
        return columns.column(name) if name is not None else self._computed(stream, columns)

    def _computed(self, stream: str, columns: pa.RecordBatch) -> pa.Array:
        expr = self._sides[stream]
        return evaluate(expr, _named(stream, columns, columns_of(expr)), columns.num_rows)

    def bounds(self, stream: str, keys: np.ndarray) -> Bounds:
        """Inclusive bounds on the other stream's codes for each key: one pair of arrays an interval.

        The ranges of one key do not overlap. Sorted keys give sorted bounds (see `Domain.bounds` for the
        one exception).
        """
        bounders = self._bounders[stream]
        if len(bounders) == 1 and not self._slack:
            return [bounders[0](keys)]
        found = [bounder(keys) for bounder in bounders]
        if self._slack:
            found = [_widened(lo, hi, self._slack) for lo, hi in found]
        if stream == next(
            iter(self._sides)
        ):  # seen from the left the right key is left - offset: the order turns round
            found.reverse()
        return _disjoint(found)


@dataclass(frozen=True)
class Residual:
    """What only the rows themselves can tell, of two streams or more."""

    expr: Expr
    streams: tuple[str, ...]
    columns: Mapping[str, list[str]]  # by stream, what it reads

    def holds(self, rows: Mapping[str, pa.RecordBatch]) -> np.ndarray:
        """Which of the aligned combinations (row i of each stream's batch) satisfy it."""
        named = {
            (stream, name): rows[stream].column(name)
            for stream in self.streams
            for name in self.columns[stream]
        }
        return _true(evaluate(self.expr, named, rows[self.streams[0]].num_rows))


class BoundCondition:
    """The normal form of a condition for some streams: bands, filters, residuals."""

    def __init__(
        self, text: str, condition: Expr, streams: list[str], interner: Interner | None = None
    ) -> None:
        """``interner``: of several conditions whose codes of texts must mean the same; None: one of its own."""
        self.text = text
        self.streams = streams
        filters: dict[str, list[Expr]] = {stream: [] for stream in streams}
        atoms: list[tuple[Atom, list[Expr]]] = []
        rest: list[Expr] = []
        for part in conjuncts(negation_pushed(condition)):
            touched = streams_of(part)
            atom = None
            if len(touched) == 2:
                left, right = (stream for stream in streams if stream in touched)
                atom = atom_of(part, left, right)
            if not touched:
                if evaluate(part, {}, 1)[0].as_py() is not True:
                    for stream in streams:
                        filters[stream].append(_FALSE)
            elif len(touched) == 1:
                filters[next(iter(touched))].append(part)
            elif atom is None:
                rest.append(part)
            else:
                _merge(atoms, atom, part)
        rest += [part for atom, parts in atoms if not atom.usable for part in parts]
        usable = [(atom, parts) for atom, parts in atoms if atom.usable]
        if any(not atom.intervals for atom, _ in usable):  # a contradiction: no pair can satisfy it
            filters = {stream: [_FALSE] for stream in streams}
        bands = [(Band(atom, _streams_of(atom)), parts) for atom, parts in usable if atom.intervals]
        self.bands = tuple(band for band, _ in bands)
        # Texts are compared by codes that mean the same in all bands.
        interned = any(band.interned for band in self.bands)
        self.interner = (Interner() if interner is None else interner) if interned else None
        for band in self.bands:
            if isinstance(band.domain, BytesDomain):
                band.domain.interner = self.interner
        inexact = [part for band, parts in bands if not band.exact for part in parts]
        unsaid = list(dict.fromkeys([*inexact, *rest]))
        self.residual = conjunction(unsaid)
        self.residuals = _by_streams(unsaid, streams)
        joined = {stream: conjunction(list(dict.fromkeys(parts))) for stream, parts in filters.items()}
        self.filters: dict[str, Expr] = {stream: expr for stream, expr in joined.items() if expr is not None}
        needed = [*self.filters.values(), *([self.residual] if self.residual is not None else [])]
        needed += [side for band in self.bands for side in (band.left, band.right)]
        self.columns = {stream: _columns_in(needed, stream) for stream in streams}
        self._filter_columns = {stream: columns_of(expr) for stream, expr in self.filters.items()}

    @cached_property
    def compiled(self) -> tuple[Program | None, Residual | None]:
        """The residual of two streams in two parts: what the machine of ``program.py`` can do, and the rest."""
        if self.residual is None:
            return None, None
        parts = [(part, compiled(part, self.streams)) for part in conjuncts(self.residual)]
        known = conjunction([part for part, program in parts if program is not None])
        program = None if known is None else compiled(known, self.streams)
        if program is None:
            return None, self.residuals[0]
        rest = _by_streams([part for part, made in parts if made is None], self.streams)
        return program, rest[0] if rest else None

    @property
    def equal_columns(self) -> list[tuple[tuple[str, str], ...]]:
        """Two columns, each a stream and a name, that are equal in all that satisfies the condition."""
        found = []
        for band in self.bands:
            names = [plain_column(side) for side in (band.left, band.right)]
            if band.equality and not band.null_safe and None not in names:
                found.append(
                    tuple((stream, str(name)) for stream, name in zip(band.streams, names, strict=True))
                )
        return found

    @property
    def impossible(self) -> bool:
        """Whether nothing can ever satisfy it: a contradiction."""
        return _FALSE in self.filters.values()

    def __str__(self) -> str:
        lines = [f"band      {band.text}" for band in self.bands]
        lines += [f"filter {stream}  {expr}" for stream, expr in self.filters.items()]
        lines += [f"residual  {self.residual}"] if self.residual is not None else []
        return "\n".join(lines)

    def filter_identity(self, stream: str) -> Hashable:
        """Conditions with the same let the same rows of a stream pass."""
        return str(self.filters[stream]) if stream in self.filters else None

    def passes(self, stream: str, columns: pa.RecordBatch) -> np.ndarray | None:
        """Which rows of a stream can match at all; None if there is no filter on it."""
        if stream not in self.filters:
            return None
        named = _named(stream, columns, self._filter_columns[stream])
        return _true(evaluate(self.filters[stream], named, columns.num_rows))

    def holds(self, *rows: pa.RecordBatch) -> np.ndarray:
        """Which of the aligned combinations (row i of each stream's batch) satisfy all residuals."""
        named = dict(zip(self.streams, rows, strict=True))
        holds = np.ones(rows[0].num_rows, np.bool_)
        for residual in self.residuals:
            holds &= residual.holds(named)
        return holds


def _streams_of(atom: Atom) -> tuple[str, str]:
    (left,), (right,) = streams_of(atom.left), streams_of(atom.right)
    return left, right


def _by_streams(parts: Sequence[Expr], streams: Sequence[str]) -> tuple[Residual, ...]:
    """A residual for each set of streams that is touched together, those of few streams first."""
    touched: dict[tuple[str, ...], list[Expr]] = {}
    for part in parts:
        read = streams_of(part)
        touched.setdefault(tuple(stream for stream in streams if stream in read), []).append(part)
    found = []
    for together, several in sorted(touched.items(), key=lambda item: len(item[0])):
        expr = conjunction(several)
        assert expr is not None
        found.append(Residual(expr, together, {stream: _columns_in([expr], stream) for stream in together}))
    return tuple(found)


def _single(bounds: Bounds) -> bool:
    """Whether every key is looked for in one place only."""
    return len(bounds) == 1 and bool((bounds[0][0] == bounds[0][1]).all())


def _merge(atoms: list[tuple[Atom, list[Expr]]], atom: Atom, part: Expr) -> None:
    """Adds an atom to the one with the same keys, if the two can be one; else as a band of its own."""
    for place, (other, parts) in enumerate(atoms):
        both = intersected(other, atom) if other.key == atom.key else None
        if both is not None:
            atoms[place] = (both, [*parts, part])
            return
    atoms.append((atom, [part]))


def _named(stream: str, batch: pa.RecordBatch, columns: list[Column]) -> dict[tuple[str, str], pa.Array]:
    return {(stream, column.name): batch.column(column.name) for column in columns}


def _columns_in(exprs: list[Expr], stream: str) -> list[str]:
    nodes = (node for expr in exprs for node in walk(expr))
    return list(
        dict.fromkeys(node.name for node in nodes if isinstance(node, Column) and node.stream == stream)
    )


def _true(values: pa.Array) -> np.ndarray:
    """NULL is not true."""
    filled = values.fill_null(False) if values.null_count else values
    mask: np.ndarray = filled.to_numpy(zero_copy_only=False)
    return mask


def _widened(lo: np.ndarray, hi: np.ndarray, slack: int) -> tuple[np.ndarray, np.ndarray]:
    lo = np.where(lo > _INT64.min + slack, lo - slack, _INT64.min)
    hi = np.where(hi < _INT64.max - slack, hi + slack, _INT64.max)
    return lo, hi


def _disjoint(found: Bounds) -> Bounds:
    """Ranges in ascending order with the overlaps cut off: the later range starts after the earlier ones.

    Disjoint intervals overlap in codes only where codes merge values, or sums round or saturate. At the top
    of int64, where nothing comes after, the earlier range gives way instead.
    """
    for place in range(len(found) - 2, -1, -1):
        lo, hi = found[place]
        if (hi == _INT64.max).any():
            starts = [np.where(a <= b, a, _INT64.max) for a, b in found[place + 1 :]]
            taken = np.logical_or.reduce([a <= b for a, b in found[place + 1 :]]) & (hi == _INT64.max)
            found[place] = (lo, np.where(taken, np.minimum.reduce(starts) - 1, hi))
    end = np.where(found[0][0] <= found[0][1], found[0][1], _INT64.min)
    seen = found[0][0] <= found[0][1]
    for place in range(1, len(found)):
        lo, hi = found[place]
        cut = seen & (lo <= end)
        lo = np.where(cut, np.minimum(end, _INT64.max - 1) + 1, lo)
        found[place] = (lo, hi)
        end, seen = np.where(lo <= hi, np.maximum(hi, end), end), seen | (lo <= hi)
    return found


def _width(intervals: tuple[Interval, ...]) -> float | None:
    if len(intervals) != 1:
        return None
    low, high = intervals[0].low, intervals[0].high
    return None if low is None or high is None else float(high - low)  # type: ignore[operator, arg-type]


def _band_text(atom: Atom) -> str:
    if atom.null_safe:
        return f"{atom.left} <=> {atom.right}"
    if len(atom.intervals) == 2 and (below := atom.intervals[0]).high_open and below.low is None:
        above = atom.intervals[1]
        if above.low_open and above.high is None and above.low == below.high:
            return f"{atom.left} <> {_end_text(atom, above.low)}"
    return " or ".join(_interval_text(atom, interval) for interval in atom.intervals)


def _interval_text(atom: Atom, interval: Interval) -> str:
    left, low, high = str(atom.left), _end_text(atom, interval.low), _end_text(atom, interval.high)
    if interval.low == interval.high:
        return f"{left} = {low}"
    if interval.low is None:
        return f"{left} {'<' if interval.high_open else '<='} {high}"
    if interval.high is None:
        return f"{left} {'>' if interval.low_open else '>='} {low}"
    if interval.low_open or interval.high_open:
        return (
            f"{low} {'<' if interval.low_open else '<='} {left} {'<' if interval.high_open else '<='} {high}"
        )
    return f"{left} between {low} and {high}"


def _span_text(micros: Any) -> str:
    """A span of time as SQL has it; a window may be longer than any of those."""
    if micros > timedelta.max // timedelta(microseconds=1):
        return f"{float(micros / 86_400_000_000):,.0f} days"
    return str(Literal(pa.duration("us"), timedelta(microseconds=float(micros))))


def _end_text(atom: Atom, offset: Any) -> str:
    if not offset:
        return str(atom.right)
    size, unit = abs(offset), atom.domain.unit
    if unit is not None:
        text = _span_text(size * NANOSECONDS[unit] / 1000)
    elif isinstance(size, float):
        text = repr(size).removesuffix(".0")
    else:
        text = str(Decimal(size.numerator) / Decimal(size.denominator))
    return f"{atom.right} {'+' if offset > 0 else '-'} {text}"
