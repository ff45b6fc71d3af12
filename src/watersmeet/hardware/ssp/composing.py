"""Decomposer and composer (thesis 7.1.1): rows to words with what the hardware needs of them, and results back to rows.

What stays true: a row's words have its arrival number in its stream, and its columns by their codes; what was cut off stays in a table on
the host, found again by the arrival number; what a query selects is computed here, from both.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError, FabricError
from watersmeet.fabric.operator import Code, Flow, Operator
from watersmeet.hardware.ssp.codes import LEAST, Codes
from watersmeet.hardware.ssp.layout import NUMBER, Layout, Name, Place
from watersmeet.hardware.ssp.lowered import LAST
from watersmeet.hardware.ssp.words import CONTINUED, LANES

_BITS = (16, 32, 64)
RowOf = Callable[[str, int], int]  # which row of its stream has a number


def decomposed(
    stream: str, number: int, layout: Layout, codes: Codes, arrivals: np.ndarray
) -> list[list[int]]:
    """The words of every row of a stream, in order of arrival, with these numbers."""
    rows = len(arrivals)
    segments = layout.segments
    words = np.zeros((rows, segments), np.uint64)
    for (_, name), place in layout.places.items():
        found = arrivals if name == NUMBER else codes.values((stream, name))
        bits = _BITS[place.size]
        raw = np.where(found == LEAST, -(1 << bits - 1), found).astype(np.int64).view(np.uint64)
        for k, lane in enumerate(place.lanes):
            part = raw >> np.uint64(16 * k) & np.uint64(0xFFFF)
            words[:, lane // LANES] |= part << np.uint64(16 * (lane % LANES))
    columns = []
    for k in range(segments):
        header = (number if k == 0 else CONTINUED) << 64 | (LAST if k == segments - 1 else 0)
        columns.append([header | word for word in words[:, k].tolist()])
    return [list(row) for row in zip(*columns, strict=True)]


def rows_of(words: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Stream-ID and bits of each row that left."""
    stream, bits, at = 0, 0, 0
    for word in words:
        if word >> 79:
            raise DataError(
                "the hardware must have room for all groups, and for all rows that wait in a synchroniser; got more; "
                "build it with Sizes(groups=..., skew=...) larger"
            )
        if at == 0:
            stream = word >> 64 & CONTINUED
        bits |= (word & (1 << 64) - 1) << 64 * at
        at += 1
        if word & LAST:
            yield stream, bits
            bits, at = 0, 0


def code_at(bits: int, place: Place) -> int:
    """A field of a row."""
    size = _BITS[place.size]
    raw = bits >> 16 * place.lane & (1 << size) - 1
    if raw == 1 << size - 1:
        return LEAST
    return raw - (1 << size) if raw >> size - 1 else raw


class Composer:
    """What one query selects, from the rows of a flow."""

    def __init__(
        self,
        asked: Flow,
        flow: Flow,
        layout: Layout,
        codes: Codes,
        tables: Mapping[str, pa.Table],
        row_of: RowOf,
    ) -> None:
        self.layout, self.codes, self.tables, self.row_of = layout, codes, tables, row_of
        self.outputs: tuple[tuple[str, Callable[[int], Any]], ...] = ()
        if isinstance(asked, Operator) and asked.kind == "projection" and asked != flow:
            self.outputs = tuple((one.name, self._code(one.code)) for one in asked.outputs)
        else:
            self.outputs = tuple(
                (name, self._place(place)) for (leaf, name), place in layout.places.items() if name != NUMBER
            )
        self.numbers = [
            (leaf.split("#")[0], place) for (leaf, name), place in layout.places.items() if name == NUMBER
        ]

    def row(self, bits: int) -> tuple[Any, ...]:
        """The values of a result."""
        return tuple(value(bits) for _, value in self.outputs)

    def arrivals(self, bits: int) -> list[tuple[str, int]]:
        """The stream and arrival number of each row that a result is made of; none of a group."""
        return [(stream, self.row_of(stream, code_at(bits, place))) for stream, place in self.numbers]

    def _place(self, place: Place) -> Callable[[int], Any]:
        return lambda bits: self.codes.value(code_at(bits, place), place.kind)

    def _column(self, name: Name) -> Callable[[int], Any]:
        if name in self.layout.places:
            return self._place(self.layout.places[name])
        leaf, column = name
        if (leaf, NUMBER) in self.layout.places:  # cut off: back by the arrival number
            place = self.layout.places[leaf, NUMBER]
            stream = leaf.split("#")[0]
            values = self.tables[stream][column].to_pylist()
            return lambda bits: values[self.row_of(stream, code_at(bits, place))]
        if ("", f"{column}\0sum") in self.layout.places:
            return self._average(column)
        raise FabricError(f"a result must have {'.'.join(name)}; got {list(self.layout.places)}")

    def _average(self, column: str) -> Callable[[int], Any]:
        total, count = (self.layout.places["", f"{column}\0{part}"] for part in ("sum", "count"))

        def value(bits: int) -> Any:
            number, of = code_at(bits, total), code_at(bits, count)
            if of == 0 or number == LEAST:
                return None
            mean = Fraction(number, of * 10**total.kind.scale)
            if total.kind.scale == 0:
                return float(mean)
            places = Decimal(1).scaleb(-(total.kind.scale + 4))
            return (Decimal(mean.numerator) / Decimal(mean.denominator)).quantize(places, ROUND_HALF_UP)

        return value

    def _code(self, code: Code) -> Callable[[int], Any]:
        stack: list[Callable[[int], Any]] = []
        for token in code:
            if token.attribute is not None:
                stack.append(self._column((token.attribute.leaf, token.attribute.name)))
            elif token.constant is not None and token.constant.kind in ("int", "decimal"):
                number = int.from_bytes(token.constant.raw, "little", signed=True)
                scale = token.constant.scale
                constant: Any = Decimal(number).scaleb(-scale) if token.constant.kind == "decimal" else number
                stack.append(_always(constant))
            elif token.call in _CALLS and token.arity == 2:
                right, left = stack.pop(), stack.pop()
                stack.append(_called(_CALLS[token.call], left, right))
            else:
                raise FabricError(
                    f"what is composed from hardware's results must be columns, numbers, +, - and *; got {token}; select its columns"
                )
        (value,) = stack
        return value


_CALLS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


def _always(constant: Any) -> Callable[[int], Any]:
    return lambda bits: constant


def _called(
    call: Callable[[Any, Any], Any], left: Callable[[int], Any], right: Callable[[int], Any]
) -> Callable[[int], Any]:
    def value(bits: int) -> Any:
        a, b = left(bits), right(bits)
        return None if a is None or b is None else call(a, b)

    return value
