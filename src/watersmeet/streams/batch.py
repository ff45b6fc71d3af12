"""Arrow in: whatever a user pushes becomes one record batch with the stream's schema, or is refused.

Anything with the Arrow PyCapsule interface is accepted (pyarrow, polars, duckdb), and so are pandas frames, dicts of lists or arrays,
and lists of row dicts. Values are never changed: what the column's type cannot hold exactly is refused by row.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from watersmeet.errors import SchemaError, WatersmeetError
from watersmeet.streams.columns import fitted, plain_objects, to_array
from watersmeet.streams.exact import exactly
from watersmeet.streams.schema import DONE, EXTRA, INDEX, grown, is_open, storable, stored_schema, stored_type


class Reader:
    """Reads the batches of one stream, whose schema is known or not (None). ``optional``: columns that a batch may leave out; then they
    are NULL."""

    def __init__(self, stream: str, schema: pa.Schema | None, optional: Collection[str] = ()) -> None:
        self.stream, self.schema, self._optional = stream, schema, frozenset(optional)
        self._names = [] if schema is None else schema.names
        self._named = set(self._names)
        self._kinds = [] if schema is None else schema.types
        self._plain = [plain_objects(kind) for kind in self._kinds]
        self._open = [is_open(kind) for kind in self._kinds]

    def read(self, data: Any) -> pa.RecordBatch | None:
        """``data`` as one record batch. Its schema is the stream's, or the stream's with types filled in that were open.

        None: no rows, and no columns either, of a stream whose columns are not known yet.
        """
        try:
            return self._read(data)
        except (MemoryError, WatersmeetError):
            raise
        except Exception as error:
            raise SchemaError(
                f"the batch of stream {self.stream!r} cannot be read as Arrow: {error}"
            ) from error

    def _read(self, data: Any) -> pa.RecordBatch | None:
        if isinstance(data, pa.RecordBatch):
            batch = data
        elif isinstance(data, Mapping):
            return self._from_mapping(data) if data else self._no_rows()
        elif isinstance(data, list):
            return self._from_mapping(_columns_of(data, self.stream)) if data else self._no_rows()
        else:
            batch = _imported(data, self.stream)
        if self.schema is not None and batch.schema.equals(self.schema):
            return batch
        if not batch.num_columns and not batch.num_rows:  # a poll that has brought nothing
            return self._no_rows()
        return self._conform(batch)

    def _no_rows(self) -> pa.RecordBatch | None:
        return None if self.schema is None else one_batch(self.schema.empty_table())

    # ---- a dict of columns --------------------------------------------------------------------------------------

    def _from_mapping(self, data: Mapping[str, Any]) -> pa.RecordBatch:
        if self.schema is None or data.keys() != self._named:
            if self._optional and data.keys() < self._named and data.keys() | self._optional == self._named:
                return self._some(data)
            return self._from_new_columns(data)
        arrays = [self._column(k, data[name]) for k, name in enumerate(self._names)]
        _check_lengths(self._names, arrays, self.stream)
        return self._batch(arrays)

    def _some(self, data: Mapping[str, Any]) -> pa.RecordBatch:
        """A dict that leaves optional columns out."""
        absent = self._named - data.keys()
        arrays = {
            name: self._column(k, data[name]) for k, name in enumerate(self._names) if name not in absent
        }
        _check_lengths(list(arrays), list(arrays.values()), self.stream)
        rows = len(next(iter(arrays.values())))
        return self._batch(
            [
                arrays[name] if name in arrays else pa.nulls(rows, kind)
                for name, kind in zip(self._names, self._kinds, strict=True)
            ]
        )

    def _from_new_columns(self, data: Mapping[str, Any]) -> pa.RecordBatch:
        odd = [name for name in data if not isinstance(name, str)]
        if odd:
            raise SchemaError(
                f"column names of stream {self.stream!r} must be texts; got {odd[0]!r} ({type(odd[0]).__name__})"
            )
        self._check_columns(list(data))
        arrays = [to_array(values, None, self._what(name)) for name, values in data.items()]
        _check_lengths(list(data), arrays, self.stream)
        return self._conform(pa.RecordBatch.from_arrays(arrays, names=list(data)))

    def _column(self, k: int, values: Any) -> pa.Array:
        kind, plain = self._kinds[k], self._plain[k]
        if plain is not None and type(values) is list and plain.issuperset(map(type, values)):
            try:
                return pa.array(values, kind)
            except (OverflowError, pa.ArrowInvalid, UnicodeError):
                pass  # an integer too large: it is refused by row
        array = to_array(values, kind, self._what(self._names[k]))
        return array if array.type.equals(kind) else self._fitted(k, values, array)

    # ---- in the stream's schema ---------------------------------------------------------------------------------

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = [name for name in batch.schema.names if not name.startswith(INDEX)]
        if self.schema is None:
            kept = stored_schema(batch.schema, self.stream)
            return Reader(self.stream, kept)._conform(batch)
        self._check_columns(names)
        double = [name for name in names if names.count(name) > 1]
        if double:
            raise SchemaError(
                f"column names of stream {self.stream!r} must be unique; got {double[0]} more than once"
            )
        arrays = []
        for k, name in enumerate(self._names):
            if name not in names:
                arrays.append(pa.nulls(batch.num_rows, self._kinds[k]))
                continue
            column = batch.column(name)
            arrays.append(column if column.type.equals(self._kinds[k]) else self._fitted(k, None, column))
        return self._batch(arrays)

    def _fitted(self, k: int, values: Any, array: pa.Array) -> pa.Array:
        kind, name = self._kinds[k], self._names[k]
        if self._open[k] and array.null_count < len(array):
            kind = storable(grown(kind, stored_type(array.type)), name, self.stream)
        return fitted(values, array, kind, self._what(name))

    def _batch(self, arrays: list[pa.Array]) -> pa.RecordBatch:
        if not any(self._open):
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return pa.RecordBatch.from_arrays(arrays, names=self._names)

    def _check_columns(self, names: list[str]) -> None:
        if self.schema is None:
            return
        missing = [name for name in self._names if name not in names and name not in self._optional]
        extra = [name for name in names if name not in self._names]
        if missing or extra:
            parts = [f"missing: {', '.join(missing)}"] * bool(missing) + [
                f"unexpected: {', '.join(extra)}"
            ] * bool(extra)
            raise SchemaError(
                f"batches of stream {self.stream!r} must have the columns {', '.join(self._names)}; {'; '.join(parts)}; "
                "a stream's schema is fixed by its first batch or by schemas="
            )

    def _what(self, name: str) -> str:
        return f"column {name!r} of stream {self.stream!r}"


def _check_lengths(names: list[str], arrays: list[pa.Array], stream: str) -> None:
    for name, array in zip(names, arrays, strict=True):
        if len(array) != len(arrays[0]):
            raise SchemaError(
                f"columns of a batch of stream {stream!r} must have the same length; got {names[0]!r} with {len(arrays[0]):,} and "
                f"{name!r} with {len(array):,} values"
            )


def _columns_of(rows: list[Any], stream: str) -> dict[str, list[Any]]:
    """The columns of a list of row dicts. Every row has the same keys: a key that is left out may be one that is misspelt."""
    names = rows[0].keys() if isinstance(rows[0], Mapping) else ()
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise SchemaError(
                f"a list pushed to stream {stream!r} must hold row dicts, such as [{{'k': 1}}]; got {type(row).__name__} in place {place}; "
                "push a dict of columns, or Arrow data"
            )
        if row.keys() != names:
            raise SchemaError(
                f"row dicts of stream {stream!r} must all have the keys {', '.join(map(str, names))}; got "
                f"{', '.join(map(str, row)) or 'none'} in row {place}; write None for a value that is not there"
            )
    return {name: [row[name] for row in rows] for name in names}


# ---- what other libraries have --------------------------------------------------------------------------------------


def _imported(data: Any, stream: str) -> pa.RecordBatch:
    if isinstance(data, pa.Table):
        return one_batch(data)
    if _is_frame(data):
        return _from_pandas(data, stream)
    if hasattr(data, "__arrow_c_array__") and not isinstance(data, pa.Array):
        return pa.record_batch(data)
    if hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.ChunkedArray):
        _check_objects(data, stream)
        return one_batch(pa.table(data))
    kind, hint = type(data).__name__, ""
    if hasattr(data, "collect"):
        hint = "; call .collect() on it first"
    elif hasattr(data, "to_table"):
        hint = "; call .to_table() on it first"
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes):
        hint = "; push each batch of it on its own, or rows as a list of dicts"
    raise SchemaError(
        f"the batch of stream {stream!r} must be Arrow data (pyarrow, polars, duckdb, ...), a pandas DataFrame, a dict of lists or "
        f"NumPy arrays, or a list of row dicts; got {kind}{hint}"
    )


def _check_objects(data: Any, stream: str) -> None:
    """Refuse what polars hands out as Arrow data that is none: columns of Python objects, as addresses."""
    if type(data).__module__.startswith("polars."):
        objects = [name for name, kind in data.schema.items() if str(kind) == "Object"]
        if objects:
            raise SchemaError(
                f"column {objects[0]!r} of stream {stream!r} must have a type that Arrow has; got polars' Object; cast it, or leave it out"
            )


def _is_frame(data: Any) -> bool:
    pandas = sys.modules.get("pandas")  # who has a frame has imported pandas
    return pandas is not None and isinstance(data, pandas.DataFrame)


def _from_pandas(frame: Any, stream: str) -> pa.RecordBatch:
    """A frame's columns, then the levels of its index that have a name. Whether an index is a range must not matter."""
    levels = [(place, name) for place, name in enumerate(frame.index.names) if name is not None]
    names = [*frame.columns, *(name for _, name in levels)]
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise SchemaError(
            f"column names of stream {stream!r} must be texts; got {odd[0]!r} ({type(odd[0]).__name__}) in a pandas frame; set "
            "frame.columns to texts"
        )
    double = [name for name in names if names.count(name) > 1]
    if double:
        raise SchemaError(
            f"column names of stream {stream!r}, with the names of a pandas index, must be unique; got {double[0]!r} more than once; "
            "rename, or call frame.reset_index(drop=True)"
        )
    series = [frame.iloc[:, place] for place in range(len(frame.columns))]
    series += [frame.index.get_level_values(place) for place, _ in levels]
    arrays = [
        to_array(values, None, f"column {name!r} of stream {stream!r}")
        for name, values in zip(names, series, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def retyped(table: pa.Table, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """Stored rows with ``columns`` in the types of ``schema``, and whatever further columns a snapshot has.

    Only open types change, so every column converts; a column that was not kept while it was open has no values.
    """
    arrays: dict[str, Any] = {}
    for name in columns:
        kind = schema.field(name).type
        if name in table.column_names:
            chunks = [exactly(chunk, kind) for chunk in table.column(name).chunks]
            arrays[name] = pa.chunked_array(chunks, kind)
        else:
            arrays[name] = pa.nulls(table.num_rows, kind)
    ours = [name for name in table.column_names if name == DONE or name.startswith(EXTRA)]
    return pa.table(arrays | {name: table.column(name) for name in ours})


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table's rows as one record batch."""
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_arrays(
            [pa.nulls(0, field.type) for field in table.schema], schema=table.schema
        )
    return pa.concat_batches(batches)
