"""Rows as NDJSON, one object a line. Arrow reads it but does not write it.

JSON has numbers, texts, true, false and null. So NaN and the infinities become null; decimals, times and dates become
texts, as in CSV, since no digit may be lost; binary becomes base64.
"""

import json
import math
from base64 import b64encode
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds


class NdjsonWriter:
    """Writes tables to a binary file; closing it is up to its owner."""

    def __init__(self, sink: Any, schema: pa.Schema) -> None:
        self._sink = sink
        self._names = [json.dumps(name, ensure_ascii=False) for name in schema.names]

    def write_table(self, table: pa.Table) -> None:
        """Add a line for each row."""
        columns = [
            [f"{name}: {text}" for text in _texts(column)]
            for name, column in zip(self._names, table.columns, strict=True)
        ]
        lines = (f"{{{', '.join(row)}}}\n" for row in zip(*columns, strict=True))
        self._sink.write("".join(lines).encode())

    def close(self) -> None:
        """Nothing is held back."""


def _texts(column: pa.ChunkedArray) -> list[str]:
    """Every value as JSON."""
    kind = column.type
    if kinds.is_dictionary(kind):
        return _texts(column.cast(kind.value_type))
    if kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_null(kind):
        return pc.fill_null(pc.cast(column, pa.string()), "null").to_pylist()
    if kinds.is_floating(kind) or kinds.is_nested(kind) or _is_binary(kind):
        exact = column.cast(pa.float64()) if kinds.is_floating(kind) else column
        return [json.dumps(_plain(value), ensure_ascii=False) for value in exact.to_pylist()]
    texts = column if _is_text(kind) else pc.cast(column, pa.string())
    return ["null" if value is None else encode_basestring(value) for value in texts.to_pylist()]


def _is_text(kind: pa.DataType) -> bool:
    return kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return (
        kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_fixed_size_binary(kind)
        or kinds.is_binary_view(kind)
    )


def _plain(value: Any) -> Any:
    """A Python value as JSON has it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)
