"""Values as signed 64-bit codes, which is all that blocks compare, and back; constants of a program as the codes of their column.

What stays true: codes compare as the values do, and one code is one value. Integers, booleans, dates and times are themselves, decimals
their unscaled value, floats their bits in order (-0.0 is 0.0), texts and binaries numbers from a table that are equal or not, no more.
"""

import struct
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from watersmeet.errors import FabricError
from watersmeet.fabric.operator import Attribute, Constant
from watersmeet.fabric.program import Chunk

BITS = 64
_SCALES = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_SAME = ("=", "<>", "<=>")
Schemas = Mapping[str, Mapping[str, pa.DataType]]


class Codes:
    """With the table of texts."""

    def __init__(self) -> None:
        self.texts: dict[Any, int] = {}

    def code(self, kind: pa.DataType, value: Any) -> int:
        """The code of a value that is not NULL."""
        if pa.types.is_floating(kind):
            return _float_code(float(value))
        if pa.types.is_decimal(kind):
            return int(Decimal(value).scaleb(kind.scale))
        if family(kind) == "text":
            return self.texts.setdefault(value, len(self.texts))
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            return int(value)
        return int(pa.scalar(value, kind).value)

    def value(self, kind: pa.DataType, code: int) -> Any:
        """The value of a code."""
        if pa.types.is_floating(kind):
            return _float_of(code)
        if pa.types.is_decimal(kind):
            return Decimal(code).scaleb(-kind.scale)
        if family(kind) == "text":
            return next(text for text, known in self.texts.items() if known == code)
        if pa.types.is_boolean(kind):
            return bool(code)
        if pa.types.is_integer(kind):
            return code
        return pa.array([code], pa.int64()).cast(_width(kind)).view(kind)[0].as_py()

    def term(self, chunk: Chunk, columns: tuple[Attribute, ...], schemas: Schemas) -> Chunk:
        """A comparison with its constant as a code; refused if codes do not say what it says."""
        left = columns[chunk.attribute - 1]
        kind = _type(left, schemas)
        what = f"a comparison of {left}, {kind}"
        if chunk.other:
            right = columns[chunk.other - 1]
            if family(kind) != family(_type(right, schemas)):
                raise FabricError(
                    f"{what}, on FQP must be with a column of the same sort and unit; got {right}, {_type(right, schemas)}; cast one, or"
                    " run it without hardware"
                )
        if family(kind) == "text" and chunk.condition not in _SAME:
            raise FabricError(
                f"{what}, on FQP must be by {', '.join(_SAME)}; got {chunk.condition}; run it without hardware"
            )
        if chunk.constant is None:
            return chunk
        code = self._offset(kind, chunk.constant) if chunk.other else self._constant(kind, chunk.constant)
        if code is None or not -(1 << BITS - 1) <= code < 1 << BITS - 1:
            raise FabricError(
                f"{what}, on FQP must have a constant that the column can have; got {chunk.constant.kind} {chunk.constant}; write it in"
                " the column's type, or run it without hardware"
            )
        raw = code.to_bytes(BITS // 8, "little", signed=True)
        return replace(chunk, constant=Constant("int", raw, text=chunk.constant.text))

    def _constant(self, kind: pa.DataType, constant: Constant) -> int | None:
        raw, sort = constant.raw, constant.kind
        if sort in ("int", "decimal"):
            number = Decimal(int.from_bytes(raw, "little", signed=True)).scaleb(-constant.scale)
            if pa.types.is_floating(kind):
                return _float_code(float(number))
            if not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
                return None
            scaled = number.scaleb(kind.scale if pa.types.is_decimal(kind) else 0)
            return int(scaled) if scaled == int(scaled) else None
        if sort == "float":
            return _float_code(struct.unpack("<d", raw)[0]) if pa.types.is_floating(kind) else None
        if sort in ("text", "binary"):
            value = raw.decode() if sort == "text" else raw
            return self.code(kind, value) if family(kind) == "text" else None
        if sort == "bool":
            return raw[0] if pa.types.is_boolean(kind) else None
        fits = {
            "date": pa.types.is_date32,
            "timestamp": pa.types.is_timestamp,
            "duration": pa.types.is_duration,
        }
        if (
            sort not in fits
            or not fits[sort](kind)
            or (sort != "date" and constant.scale != _SCALES[kind.unit])
        ):
            return None
        return int.from_bytes(raw, "little", signed=True)

    def _offset(self, kind: pa.DataType, constant: Constant) -> int | None:
        """What is added to a column: exact numbers to exact numbers, durations to times."""
        if pa.types.is_timestamp(kind) and constant.kind == "duration":
            same = constant.scale == _SCALES[kind.unit]
            return int.from_bytes(constant.raw, "little", signed=True) if same else None
        if constant.kind in ("int", "decimal") and (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            return self._constant(kind, constant)
        return None


def family(kind: pa.DataType) -> str:
    """Types of one family have codes that may be compared. Refused: what has none."""
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return "integer"
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_decimal128(kind) and kind.precision <= 18:
        return f"decimal {kind.scale}"
    if any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)):
        return "text"
    if any(
        test(kind)
        for test in (pa.types.is_boolean, pa.types.is_date32, pa.types.is_timestamp, pa.types.is_duration)
    ):
        return str(kind)
    raise FabricError(
        f"a column on FQP must have a type of at most 64 bits that codes can say, or be a text; got {kind}; cast it, or run it without"
        " hardware"
    )


def _type(attribute: Attribute, schemas: Schemas) -> pa.DataType:
    return schemas[attribute.leaf][attribute.name]


def _width(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def _float_code(value: float) -> int:
    if value != value:
        return 0x7FF8 << 48
    bits = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return int(bits if bits >= 0 else -(bits & (1 << 63) - 1))  # -0.0 + 0.0 is 0.0


def _float_of(code: int) -> float:
    bits = code if code >= 0 else (1 << 63 | -code) - (1 << 64)
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
