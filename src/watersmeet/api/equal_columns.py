"""Columns that the condition makes equal are gathered once: of ``t.sym = q.sym`` a result shows the same text twice.

Only types of which equal values are equal bytes: of floats -0.0 equals 0.0. Where a row has no partner, its column is the other's with
NULLs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.sql.condition import BoundCondition
from watersmeet.streams.gathering import Layout, only_where

MANY = 256  # rows: fewer are gathered a stream at a time, for which a column less is no help

ColumnKey = tuple[str, str]  # stream and name


@dataclass(frozen=True, slots=True)
class Copy:
    """A column that has the values of another one."""

    of: ColumnKey
    there: np.ndarray | None  # which rows have it; None: all

    def made(self, columns: Mapping[ColumnKey, pa.Array]) -> pa.Array:
        column = columns[self.of]
        return column if self.there is None else only_where(column, self.there)


class EqualColumns:
    """Which of a join's columns need not be gathered."""

    def __init__(
        self,
        streams: Sequence[str],
        schemas: Sequence[pa.Schema | None],
        shown: Mapping[str, Sequence[str]] | None,
        condition: BoundCondition | None,
    ) -> None:
        """``shown``: by stream, the columns that are wanted."""
        types = {name: schema for name, schema in zip(streams, schemas, strict=True) if schema is not None}
        self._pairs: list[tuple[tuple[int, ColumnKey], ...]] = []  # each with its stream's place
        if condition is None or shown is None:
            return
        for pair in condition.equal_columns:
            if all(stream in types and name in shown.get(stream, ()) for stream, name in pair):
                kinds = [types[stream].field(name).type for stream, name in pair]
                if kinds[0] == kinds[1] and _same_bytes(kinds[0]):
                    self._pairs.append(tuple((streams.index(key[0]), key) for key in pair))

    def copies(self, arrivals: Sequence[np.ndarray]) -> dict[ColumnKey, Copy]:
        """The columns that others stand for, where rows with these arrival numbers are wanted, by stream; below 0 there is no row."""
        found: dict[ColumnKey, Copy] = {}
        if not self._pairs or arrivals[0].size < MANY:
            return found
        absent = {place: bool(arrivals[place].min() < 0) for pair in self._pairs for place, _ in pair}
        for pair in self._pairs:
            if absent[pair[0][0]] and absent[pair[1][0]]:
                continue
            (_, first), (place, second) = sorted(pair, key=lambda one: absent[one[0]])
            of = found[first].of if first in found else first
            gathered = {of, *(copy.of for copy in found.values())}
            if second not in found and second not in gathered:
                found[second] = Copy(of, arrivals[place] >= 0 if absent[place] else None)
        return found


def _same_bytes(kind: pa.DataType) -> bool:
    """Whether equal values of a type are the same bytes, where kernels know them."""
    return Layout.of(kind) is not None and not pa.types.is_floating(kind)
