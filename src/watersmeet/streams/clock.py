"""Time columns of time windows as codes: one axis for all streams, durations in its unit.

With T_r on r and T_s on s a pair is valid iff r.ts - T_s <= s.ts <= r.ts + T_r. That is a band between the two time
columns, so it uses the same domains and intervals as the condition does, rounding of float times included: sums are computed
on the side of the stream that is written first.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.codes import Domain, Interval, common_domain
from watersmeet.codes.integer import NANOSECONDS
from watersmeet.errors import DataError, OptionError, SchemaError, listed
from watersmeet.kernels.code import INT_MAX, INT_MIN
from watersmeet.streams.window import Duration, Window, nanoseconds

BOTTOM, TOP = INT_MIN, INT_MAX  # of time codes


class TimeAxis:
    """The common order of the streams' times. Codes of values a and b compare as a and b do."""

    def __init__(
        self, streams: Sequence[str], windows: Sequence[Window], schemas: Sequence[pa.Schema | None]
    ) -> None:
        self.streams = tuple(streams)
        self.columns = [window.time for window in windows]
        self.types = {
            stream: _time_type(stream, column, schema)
            for stream, column, schema in zip(streams, self.columns, schemas, strict=True)
            if column is not None and schema is not None
        }
        self.domain = _domain(self.types)
        self.duration: list[int | float] = [0] * len(self.columns)
        self.lateness: list[int | float] = [0] * len(self.columns)
        for k, window in enumerate(windows):
            if window.timed:
                self.duration[k] = self.length(streams[k], "duration", window.duration)
                self.lateness[k] = self.length(streams[k], "lateness", window.lateness)
        self._timed = [k for k, column in enumerate(self.columns) if column is not None]
        # By pair of streams: r.ts + T_r >= s.ts and r.ts - T_s <= s.ts, the sums computed on the left side, as the rule is written.
        self._valid = {
            (i, j): Interval(-self.duration[i], self.duration[j], form="add_left")
            for i, j in combinations(range(len(self.columns)), 2)
        }

    def codes(self, k: int, batch: pa.RecordBatch) -> np.ndarray:
        """The codes of stream k's times; a null or NaN time is refused by row."""
        column = batch.column(batch.schema.get_field_index(self.columns[k]))
        return self.column_codes(k, column)

    def column_codes(self, k: int, column: pa.Array) -> np.ndarray:
        """The same for the time column alone."""
        codes, unusable = self._read(column)
        for what, rows in unusable:
            raise self._unusable(k, what, int(np.flatnonzero(rows)[0]))
        return codes

    def timeless(self, k: int, batch: pa.RecordBatch) -> np.ndarray | None:
        """Which rows of stream k have no time that can be used; None: all have one, or the stream needs none."""
        if self.columns[k] is None:
            return None
        unusable = self._read(batch.column(batch.schema.get_field_index(self.columns[k])))[1]
        return np.logical_or.reduce([rows for _, rows in unusable]) if unusable else None

    def _read(self, column: pa.Array) -> tuple[np.ndarray, list[tuple[str, np.ndarray]]]:
        """Codes of a time column, and which rows cannot be used, by what they hold instead of a time."""
        codes, valid = self.domain.codes(column)
        found = []
        if valid is not None:
            found.append(("null", ~valid))
        if pa.types.is_floating(column.type):
            found.append(("NaN", pc.fill_null(pc.is_nan(column), False).to_numpy(zero_copy_only=False)))
        if not self.domain.exact:
            beyond = (codes == BOTTOM) | (codes == TOP)
            found.append((f"a time beyond the range of {self.domain.name}", beyond))
        return codes, [(what, rows) for what, rows in found if rows.any()]

    def _unusable(self, k: int, what: str, row: int) -> DataError:
        column = self.columns[k]
        assert column is not None
        return refuse_time(column, self.streams[k], what, row)

    def shift(self, codes: np.ndarray, delta: int | float) -> np.ndarray:
        """Codes of the times moved by ``delta``."""
        return self.domain.bounds(codes, Interval(low=delta), "right")[0]

    def bounds(self, k: int, j: int, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes [lo, hi] of stream j's times that a row of stream k may match."""
        if k < j:
            return self.domain.bounds(codes, self._valid[k, j], "left")
        return self.domain.bounds(codes, self._valid[j, k], "right")

    def earliest(self, k: int, now: int) -> int:
        """The smallest code of stream k that a row of another stream with code >= ``now`` may still match."""
        at = np.array([now])
        others = [j for j in self._timed if j != k]
        if not others:
            return int(self.shift(at, -self.duration[k])[0])
        return min(int(self.bounds(j, k, at)[0][0]) for j in others)

    def between(self, i: int, j: int) -> Interval:
        """Around stream j's time, where that of stream i lies if their rows may match; i comes before j."""
        return self._valid[i, j]

    def windows_of(self, k: int, first: int, last: int, held: bool = False) -> float:
        """How many times as long as stream k's window the time from code ``first`` to ``last`` is; ``held``: the window with its lateness,
        which is what is stored.
        """
        start, end = self.domain.values(np.array([first, last]))
        return float((end - start) / max(self.duration[k] + held * self.lateness[k], 1e-9))

    def windows_between(self, first: int, last: int, held: bool = False) -> float:
        """How many times as long as all windows together the time from code ``first`` to ``last`` is; ``held`` as in ``windows_of``."""
        start, end = self.domain.values(np.array([first, last]))
        return float((end - start) / max(sum(self.duration) + held * sum(self.lateness), 1e-9))

    def length(self, stream: str, what: str, length: Duration) -> int | float:
        """A length of time in the axis's unit."""
        unit = self.domain.unit
        if unit is None:
            if isinstance(length, int | float):
                return length if self.domain.name.startswith("float") else _whole(length)
            raise OptionError(
                f"the {what} of stream {stream!r} must be a number, as its time column is numeric; got {length!r}; "
                "give it in the unit of the column"
            )
        if isinstance(length, str | timedelta):
            return math.floor(nanoseconds(length) / NANOSECONDS[unit])
        if length == 0:
            return 0
        raise OptionError(
            f"the {what} of stream {stream!r} must be a text like '10 s' or a timedelta, as its time column counts "
            f"{unit}; got the number {length!r}"
        )

    def value(self, code: int) -> float:
        """A code as a number in the axis's unit."""
        return float(self.domain.values(np.array([code]))[0])

    def latest(self, codes: np.ndarray) -> str | None:
        """The latest of some timestamps, as a text; None: there is none."""
        code = int(codes.max(initial=BOTTOM))
        return None if code in (BOTTOM, TOP) or not self._of_timestamps else self.text(code)

    @property
    def _of_timestamps(self) -> bool:
        return self.domain.name.startswith("timestamp") and self.domain.unit is not None

    def text(self, code: int) -> str:
        """A code for people to read."""
        unit = self.domain.unit
        if self._of_timestamps:
            return str(np.array([int(self.value(code))]).astype(f"datetime64[{unit}]")[0])
        return f"{self.value(code):,.15g} {unit or ''}".rstrip()


def refuse_time(column: str, stream: str, what: str, row: int) -> DataError:
    """The error for a row that has no usable time."""
    return DataError(
        f"the time column {column!r} of stream {stream!r} must hold a time in every row; got {what} in row "
        f"{row} of the batch; the push was refused whole: fill the time or leave the row out"
    )


def _whole(length: float) -> int:
    # Integer times: a fraction of a unit cannot tell two of them apart.
    return math.floor(Fraction(length))


def _time_type(stream: str, column: str, schema: pa.Schema) -> pa.DataType:
    place = schema.get_field_index(column)
    if place < 0:
        raise SchemaError(
            f"the time column {column!r} of stream {stream!r} must be one of its columns: {', '.join(schema.names)}"
        )
    kind = schema.field(place).type
    fits = (pa.types.is_temporal, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if not any(fit(kind) for fit in fits):
        raise SchemaError(
            f"the time column {column!r} of stream {stream!r} must be a timestamp, date, time, duration or number; got {kind}"
        )
    return kind


def time_domain(left: pa.DataType, right: pa.DataType) -> Domain | None:
    """How times of two types compare; None if they cannot, or not without loss."""
    domain = common_domain(left, right, ordered=True)
    # Different units merge values only beyond the finer one's range; such times are refused when they come.
    temporal = pa.types.is_temporal(left) and pa.types.is_temporal(right)
    return domain if domain is not None and (domain.exact or temporal) else None


def axis_domain(types: Sequence[pa.DataType]) -> Domain | None:
    """How times of some types compare, all on one axis; None if they cannot, or not without loss."""
    domains = {}
    for i, j in combinations_with_replacement(range(len(types)), 2):
        domain = time_domain(types[i], types[j])
        if domain is None:
            return None
        domains[i, j] = domain
    for wanted in domains.values():
        alike = {pair: one for pair, one in domains.items() if one.name == wanted.name}
        if {place for pair in alike for place in pair} == set(range(len(types))):
            loose = [one for one in alike.values() if not one.exact]  # beyond whose ends times are refused
            return loose[0] if loose else wanted
    return None


def _domain(types: Mapping[str, pa.DataType]) -> Domain:
    domain = axis_domain(list(types.values()))
    if domain is None:
        raise SchemaError(
            f"the time columns of streams {listed([repr(name) for name in types])} must be comparable without loss; got "
            f"{listed([str(kind) for kind in types.values()])}; cast {'one' if len(types) == 2 else 'some'} of them"
        )
    return domain
