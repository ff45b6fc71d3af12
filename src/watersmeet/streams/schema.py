"""What a stream's schema is: column names, and the type in which each column is kept; and how an open type is filled in.

Batches of one stream may differ in ways that say nothing about values: nullability, metadata, text as views, a dictionary or
run-end encoding. The schema has none of that, so that all stored rows have one schema. A column of type null is *open*: no value of it has
come yet, and the first one decides.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import OptionError, SchemaError

DONE = "__done"  # a column of flags that a snapshot adds to the rows
EXTRA = "__extra_"  # beginning of the names of further columns that are not the user's
INDEX = "__index_level_"  # how pandas' conversion to Arrow names an index that has no name


def stored_type(kind: pa.DataType) -> pa.DataType:
    """The type in which values of a type are kept.

    Arrow cannot gather views and runs. Dictionaries differ from batch to batch, and their index type may not have room for all
    of them together. A date64 counts milliseconds, which may be no whole day.
    """
    if pt.is_date64(kind):
        return pa.date32()
    if pt.is_string_view(kind):
        return pa.large_string()
    if pt.is_binary_view(kind):
        return pa.large_binary()
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return stored_type(kind.value_type)
    if pt.is_fixed_size_list(kind):
        return pa.list_(stored_type(kind.value_type), kind.list_size)
    if pt.is_list(kind) or pt.is_list_view(kind):
        return pa.list_(stored_type(kind.value_type))
    if pt.is_large_list(kind) or pt.is_large_list_view(kind):
        return pa.large_list(stored_type(kind.value_type))
    if pt.is_struct(kind):
        return pa.struct([(field.name, stored_type(field.type)) for field in kind])
    if pt.is_map(kind):
        return pa.map_(stored_type(kind.key_type), stored_type(kind.item_type))
    return kind


def is_open(kind: pa.DataType) -> bool:
    """Whether values must come before the type is known: null, or a nested type with null inside."""
    return pt.is_null(kind) or any(is_open(kind.field(i).type) for i in range(kind.num_fields))


def grown(kind: pa.DataType, seen: pa.DataType) -> pa.DataType:
    """An open type, filled in by the stored type of values that have come."""
    if pt.is_null(kind):
        return seen
    if not is_open(kind):
        return kind
    if pt.is_struct(kind) and pt.is_struct(seen):
        found = {field.name: field.type for field in seen}
        return pa.struct(
            [(field.name, grown(field.type, found.get(field.name, field.type))) for field in kind]
        )
    if pt.is_map(kind) and pt.is_map(seen):
        return pa.map_(grown(kind.key_type, seen.key_type), grown(kind.item_type, seen.item_type))
    if _is_list(kind) and _is_list(seen):
        inner = grown(kind.value_type, seen.value_type)
        if pt.is_fixed_size_list(kind):
            return pa.list_(inner, kind.list_size)
        return pa.large_list(inner) if pt.is_large_list(kind) else pa.list_(inner)
    return kind


def stored_schema(schema: pa.Schema, stream: str) -> pa.Schema:
    """The schema of a stream whose first batch, or ``schemas=``, has this one; refuses what cannot be kept."""
    kept = [field for field in schema if not field.name.startswith(INDEX)]
    _check_names([field.name for field in kept], stream)
    return pa.schema([(field.name, storable(field.type, field.name, stream)) for field in kept])


def given_schemas(schemas: Any, streams: Sequence[str]) -> dict[str, pa.Schema]:
    """The option ``schemas=``, checked: the stored schema of each stream that it names."""
    if not isinstance(schemas, Mapping):
        raise OptionError(f"schemas= must be a dict of Arrow schemas by stream; got {type(schemas).__name__}")
    found = {}
    for name, schema in schemas.items():
        if name not in streams:
            raise OptionError(f"schemas= must name the streams {', '.join(map(repr, streams))}; got {name!r}")
        try:
            arrow = schema if isinstance(schema, pa.Schema) else pa.schema(schema)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise SchemaError(
                f"the schema of stream {name!r} must be an Arrow schema; got {schema!r}: {error}"
            ) from error
        found[name] = stored_schema(arrow, name)
    return found


def added_columns(stream: str, columns: Any, schema: pa.Schema) -> pa.Schema:
    """Columns that a stream gets beside those that it has, checked."""
    if not isinstance(columns, Mapping | pa.Schema) or not len(columns):
        raise OptionError(
            f"add= must be new columns with their Arrow types, such as {{'venue': pa.string()}}; got {columns!r}"
        )
    try:
        arrow = columns if isinstance(columns, pa.Schema) else pa.schema(columns)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise SchemaError(
            f"the columns of stream {stream!r} must have Arrow types; got {columns!r}: {error}"
        ) from error
    there = [name for name in arrow.names if name in schema.names]
    if there:
        raise SchemaError(
            f"new columns of stream {stream!r} must have new names; got {there[0]!r}, which is there"
        )
    return stored_schema(arrow, stream)


def storable(kind: pa.DataType, name: str, stream: str) -> pa.DataType:
    """The type in which a column is kept; refused if Arrow cannot gather it."""
    kept = stored_type(kind)
    try:
        rows = pa.nulls(2, kept)
        pa.concat_arrays([rows.take(pa.array([1, None])), rows])
        if isinstance(kept, pa.BaseExtensionType) and pt.is_dictionary(kept.storage_type):
            values = pa.nulls(1, kept.storage_type.value_type)  # two batches seldom have the same
            pa.concat_arrays([values.dictionary_encode(), values.slice(1).dictionary_encode()])
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise SchemaError(
            f"column {name!r} of stream {stream!r} must have a type whose rows Arrow can gather; got {kind}: {error}; "
            "cast it, or leave the column out"
        ) from error
    return kept


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


def _check_names(names: list[str], stream: str) -> None:
    if not names:
        raise SchemaError(f"a batch of stream {stream!r} must have at least one column; got none")
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise SchemaError(
            f"column names of stream {stream!r} must be unique; got {', '.join(double)} more than once"
        )
    ours = [name for name in names if name == DONE or name.startswith(EXTRA)]
    if ours:
        raise SchemaError(
            f"column names of stream {stream!r} must not be {DONE!r} or begin with {EXTRA!r}, which saved states use; got "
            f"{', '.join(ours)}; rename"
        )
