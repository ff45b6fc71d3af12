"""Arrow in: whatever a user pushes becomes one record batch with the stream's schema, or is refused.

Anything with the Arrow PyCapsule interface is accepted (pyarrow, polars, pandas, duckdb), and so is a dict of NumPy arrays.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from watersmeet.errors import SchemaError


def to_batch(data: Any, stream: str, schema: pa.Schema | None) -> pa.RecordBatch:
    """``data`` as one record batch; with ``schema``, in its columns and types."""
    batch = data if isinstance(data, pa.RecordBatch) else _import(data, stream, schema)
    if schema is None:
        _check_names(batch.schema, stream)
        kept = pa.schema([field.with_type(_storable(field.type)) for field in batch.schema])
        return batch if kept.equals(batch.schema) else _conform(batch, stream, kept)
    if batch.schema is schema or batch.schema.equals(schema):
        return batch
    return _conform(batch, stream, schema)


def _import(data: Any, stream: str, schema: pa.Schema | None) -> pa.RecordBatch:
    try:
        if isinstance(data, Mapping):
            return _from_mapping(data, schema)
        if isinstance(data, pa.Table):
            return one_batch(data)
        if hasattr(data, "__arrow_c_array__"):
            return pa.record_batch(data)
        if hasattr(data, "__arrow_c_stream__"):
            return one_batch(pa.table(data))
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise SchemaError(f"the batch of stream {stream!r} cannot be read as Arrow: {error}") from error
    raise SchemaError(
        f"the batch of stream {stream!r} must be Arrow data (pyarrow, polars, pandas, duckdb, ...) or a dict of "
        f"NumPy arrays; got {type(data).__name__}"
    )


def _from_mapping(data: Mapping[str, Any], schema: pa.Schema | None) -> pa.RecordBatch:
    arrays = [_to_array(values, name, schema) for name, values in data.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(data))


def _to_array(values: Any, name: str, schema: pa.Schema | None) -> pa.Array:
    place = -1 if schema is None else schema.get_field_index(name)
    if place >= 0:
        try:
            return pa.array(values, schema.field(place).type)  # type: ignore[union-attr]
        except (pa.ArrowException, ValueError, TypeError):
            pass  # as it is: what does not fit the schema is refused by column below
    return pa.array(values)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table's rows as one record batch."""
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_arrays(
            [pa.array([], field.type) for field in table.schema], schema=table.schema
        )
    return pa.concat_batches(batches)


def _storable(kind: pa.DataType) -> pa.DataType:
    """The type in which rows are kept: views of texts (what polars hands out) as texts, since Arrow cannot gather views."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return kind


def _check_names(schema: pa.Schema, stream: str) -> None:
    if not schema.names:
        raise SchemaError(f"a batch of stream {stream!r} must have at least one column; got none")
    double = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if double:
        raise SchemaError(
            f"column names of stream {stream!r} must be unique; got {', '.join(double)} more than once"
        )


def _conform(batch: pa.RecordBatch, stream: str, schema: pa.Schema) -> pa.RecordBatch:
    missing = [name for name in schema.names if name not in batch.schema.names]
    extra = [name for name in batch.schema.names if name not in schema.names]
    if missing or extra:
        parts = [f"missing: {', '.join(missing)}"] * bool(missing) + [
            f"unexpected: {', '.join(extra)}"
        ] * bool(extra)
        raise SchemaError(
            f"batches of stream {stream!r} must have the columns {', '.join(schema.names)}; {'; '.join(parts)}; "
            "a stream's schema is fixed by its first batch or by schemas="
        )
    columns = [_cast(batch.column(field.name), field, stream) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field, stream: str) -> pa.Array:
    if column.type.equals(field.type):
        return column
    try:
        return column.cast(field.type, safe=True)
    except pa.ArrowException as error:
        raise SchemaError(
            f"column {field.name!r} of stream {stream!r} must be {field.type}; got {column.type}, whose values do not "
            f"fit: {error}"
        ) from error
