"""Values as the hardware has them: signed whole numbers that compare as the values do.

What stays true: of one ``Codes``, equal values have equal codes and smaller ones smaller codes, among all columns that may be compared;
NULL is the least code of a field. Whole numbers, dates, times and truth values are themselves, decimals without their point, texts their
rank among all texts there are (a dictionary, as everything that comes is known to who runs it), floats their bits in order.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError, FabricError
from watersmeet.fabric.operator import Constant

Name = tuple[str, str]  # stream and column
LEAST = -(1 << 63)
SIZES = (15, 31, 63)  # value bits of fields of 16, 32, 64 bits
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}


@dataclass(frozen=True)
class Kind:
    """What codes of a column mean: values with the same kind may be compared, and added if ``linear``."""

    name: str
    scale: int = 0
    unit: str = ""

    @property
    def linear(self) -> bool:
        """Whether sums of codes are codes of sums."""
        return self.name in ("number", "date", "timestamp", "duration")

    def __str__(self) -> str:
        return {"number": f"a number with {self.scale} places"}.get(
            self.name, f"{self.name}{' in ' + self.unit if self.unit else ''}"
        )


def kind_of(column: str, kind: pa.DataType) -> Kind:
    """How a column's values become codes."""
    types = pa.types
    if types.is_integer(kind):
        return Kind("number")
    if types.is_decimal(kind):
        return Kind("number", kind.scale)
    if types.is_boolean(kind):
        return Kind("bool")
    if types.is_date32(kind):
        return Kind("date")
    if types.is_timestamp(kind) or types.is_duration(kind):
        return Kind("timestamp" if types.is_timestamp(kind) else "duration", unit=kind.unit)
    if types.is_floating(kind):
        return Kind("float")
    if types.is_string(kind) or types.is_large_string(kind):
        return Kind("text")
    raise FabricError(
        f"a column in hardware must be a number, text, truth value, date or time; got {column} of type {kind}; leave it out of conditions"
    )


class Codes:
    """Codes of some columns, by their names, and of constants."""

    def __init__(self, columns: Mapping[Name, pa.ChunkedArray], texts: Iterable[str]) -> None:
        self._columns, self._found = columns, dict[Name, np.ndarray]()
        words: set[str | None] = set(texts)
        for column in columns.values():
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                words |= set(pc.unique(column).to_pylist())
        known = sorted((word for word in words if word is not None), key=str.encode)
        self._ranks = {word: rank for rank, word in enumerate(known)}
        self._words = known

    def __contains__(self, key: Name) -> bool:
        return key in self._columns

    def kind(self, key: Name) -> Kind:
        """What a column's codes mean."""
        return kind_of(".".join(key), self._columns[key].type)

    def values(self, key: Name) -> np.ndarray:
        """A column's codes."""
        if key not in self._found:
            self._found[key] = self._codes(key, self._columns[key])
        return self._found[key]

    def _codes(self, key: Name, column: pa.ChunkedArray) -> np.ndarray:
        """Codes as int64; NULL as the least."""
        kind, type_ = self.kind(key), column.type
        null = pc.is_null(column).to_numpy(zero_copy_only=False)
        if kind.name == "text":
            dictionary = column.combine_chunks().dictionary_encode()
            ranks = np.array(
                [self._ranks[word] for word in dictionary.dictionary.to_pylist()] or [0], np.int64
            )
            found = ranks[pc.fill_null(dictionary.indices, 0).to_numpy(zero_copy_only=False)]
        elif kind.name == "float":
            found = _ordered(pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy().copy(), ".".join(key))
        elif pa.types.is_decimal(type_):
            whole = (
                [0 if value is None else int(value.scaleb(type_.scale)) for value in column.to_pylist()]
                if (type_.precision > 18)
                else _unscaled(column)
            )
            found = np.array(whole, np.int64)
        elif kind.name == "date":
            found = pc.fill_null(column.cast(pa.int32()), 0).to_numpy().astype(np.int64)
        elif kind.name == "bool":
            found = pc.fill_null(column.cast(pa.int8()), 0).to_numpy().astype(np.int64)
        else:
            try:
                whole = column.cast(pa.int64())
            except pa.ArrowInvalid:
                raise DataError(
                    f"a column in hardware must fit 64 bits with a sign; got {'.'.join(key)} with more"
                ) from None
            found = pc.fill_null(whole, 0).to_numpy().copy()
        if found.size and found[~null].size and found[~null].min() == LEAST:
            raise DataError(
                f"a column in hardware must not have the least number of 64 bits, which means NULL; got it in {'.'.join(key)}"
            )
        found = found.astype(np.int64)
        found[null] = LEAST
        return found

    def size(self, key: Name) -> int:
        """The narrowest field that holds all values of a column, and NULL beside them."""
        known = self._known(key)
        low, high = (int(known.min()), int(known.max())) if known.size else (0, 0)
        return next(n for n, bits in enumerate(SIZES) if -(1 << bits) < low and high < 1 << bits)

    def _known(self, key: Name) -> np.ndarray:
        found = self.values(key)
        return found[found != LEAST]

    def nullable(self, key: Name) -> bool:
        """Whether a column has NULLs."""
        return bool((self.values(key) == LEAST).any())

    def bound(self, key: Name) -> int:
        """The largest magnitude of a column's codes."""
        known = self._known(key)
        return int(max(abs(int(known.min())), abs(int(known.max())))) if known.size else 0

    def constant(self, constant: Constant, kind: Kind) -> Fraction | None:
        """A constant as a code of this kind, maybe between two codes; None is NULL."""
        if constant.kind == "null":
            return None
        number = (
            int.from_bytes(constant.raw, "little", signed=True)
            if constant.kind not in ("text", "binary", "float")
            else 0
        )
        if kind.name == "number" and constant.kind in ("int", "decimal"):
            return Fraction(number) * 10**kind.scale / 10**constant.scale
        if kind.name == "bool" and constant.kind == "bool":
            return Fraction(constant.raw[0])
        if kind.name == "date" and constant.kind == "date":
            return Fraction(number)
        if (
            kind.name in ("timestamp", "duration")
            and constant.kind == kind.name
            and _UNITS[constant.scale] == kind.unit
        ):
            return Fraction(number)
        if kind.name == "text" and constant.kind == "text":
            return Fraction(self._ranks[constant.raw.decode()])
        if kind.name == "float" and constant.kind in ("float", "int", "decimal"):
            return Fraction(int(_ordered(np.array([_float(constant, number)]), "a constant")[0]))
        raise FabricError(
            f"a constant in hardware must be of its column's kind, {kind}; got {constant}; write it so, with a cast"
        )

    def value(self, code: int, kind: Kind) -> Any:
        """The value that a code means."""
        if code == LEAST:
            return None
        if kind.name == "text":
            return self._words[code]
        if kind.name == "number" and kind.scale:
            return Decimal(code).scaleb(-kind.scale)
        if kind.name == "float":
            bits = code if code >= 0 else code ^ ((1 << 63) - 1)
            return float(np.array([bits], np.int64).view(np.float64)[0])
        if kind.name == "bool":
            return bool(code)
        if kind.name in ("date", "timestamp", "duration"):
            types = {"date": pa.date32()}
            arrow = types.get(kind.name) or getattr(pa, kind.name)(kind.unit)
            return pa.scalar(code, pa.int32() if kind.name == "date" else pa.int64()).cast(arrow).as_py()
        return code


def _float(constant: Constant, number: int) -> float:
    if constant.kind == "float":
        return float(np.frombuffer(constant.raw, "<f8")[0])
    return float(Fraction(number, 10**constant.scale))


def _ordered(values: np.ndarray, what: str) -> np.ndarray:
    """Floats as whole numbers in the same order."""
    if np.isnan(values).any():
        raise DataError(f"a float in hardware must be a number; got NaN in {what}; filter it out before")
    values = values + 0.0  # one zero
    bits = values.view(np.int64)
    return np.where(bits >= 0, bits, bits ^ ((1 << 63) - 1))


def _unscaled(column: pa.ChunkedArray) -> np.ndarray:
    """Decimals of up to 18 digits without their point."""
    parts = []
    for chunk in column.chunks:
        low = np.frombuffer(chunk.buffers()[1], np.int64)[:: chunk.type.bit_width // 64]
        part = low[chunk.offset : chunk.offset + len(chunk)].copy()
        if chunk.null_count:
            part[pc.is_null(chunk).to_numpy(zero_copy_only=False)] = 0
        parts.append(part)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def settled(condition: str, bound: Fraction | None) -> tuple[str, int]:
    """The same comparison with a whole number: where the constant lies between two codes, or is NULL."""
    if bound is None:
        return ("<=>", LEAST) if condition == "<=>" else ("<", LEAST)
    if bound.denominator == 1:
        return condition, int(bound)
    below = bound.numerator // bound.denominator
    if condition in ("<", "<="):
        return "<=", below
    if condition in (">", ">="):
        return ">", below
    return (">", LEAST) if condition == "<>" else ("<", LEAST)
