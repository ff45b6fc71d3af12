"""An aggregation's state as Arrow tables, and back.

Slots are numbered anew, without gaps, and so are the texts of each column; the groups, each multiset and each column's texts
are a table. A column of state is a list of int64 a row, as it lies in memory: words (see ``values.py``), counts, and limbs whose
first one is named in the field's metadata. What the snapshot is of stands in the metadata of the groups.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulators import Accumulators
from watersmeet.aggregate.slots import Cells, Column
from watersmeet.aggregate.table import Table
from watersmeet.aggregate.told import Told
from watersmeet.errors import StateError

VERSION = 1
GROUPS, TOLD = "groups", "told"
META = b"watersmeet.aggregate"
BASE = b"base"


def save(state: Accumulators, told: Told | None, about: Mapping[str, Any]) -> dict[str, pa.Table]:
    """All tables, by name."""
    held = state.groups.held()
    renamed: dict[int, np.ndarray] = {}  # columns of state whose rows are not saved as they are, by identity
    tables = {}
    for name, texts in state.dictionaries.items():
        holders = list(state.holders(name))
        used = np.unique(np.concatenate([np.empty(0, np.int64), *(c.data[s, at] for c, at, s in holders)]))
        used = used[used >= 0]
        for cells, at, slots in holders:
            rows = renamed.setdefault(id(cells), cells.data.copy())
            rows[slots, at] = np.where(
                rows[slots, at] < 0, rows[slots, at], np.searchsorted(used, rows[slots, at])
            )
        tables[f"texts of {name}"] = pa.table({name: texts.decode(used.reshape(-1, 1))})
    places = np.zeros(state.groups.slots.capacity, np.int64)
    places[held] = np.arange(held.size)
    for number, bag in enumerate(state.bags):
        rows = renamed.setdefault(id(bag.table.words), bag.table.words.data.copy())
        entries = bag.counted()
        rows[entries, 0] = places[rows[entries, 0]]
        tables[f"bag {number}"] = _saved(bag.table, entries, renamed)
    groups = _saved(state.groups, held, renamed)
    if told is not None:
        tables[TOLD], known, touched = told.saved(held)
        groups = groups.append_column("told", pa.array(known)).append_column("touched", pa.array(touched))
    meta = {META: json.dumps({"version": VERSION, **about}).encode()}
    return {GROUPS: groups.replace_schema_metadata(meta), **tables}


def about(tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """What a snapshot is of."""
    if GROUPS not in tables or META not in (tables[GROUPS].schema.metadata or {}):
        raise StateError(
            f"a snapshot must have a table {GROUPS!r} of an aggregation; got {', '.join(tables) or 'nothing'}"
        )
    found: dict[str, Any] = json.loads(tables[GROUPS].schema.metadata[META])
    if found["version"] != VERSION:
        raise StateError(f"a snapshot must be of version {VERSION}; got {found['version']}")
    return found


def load(tables: Mapping[str, pa.Table], state: Accumulators, told: Told | None) -> None:
    """Into an aggregation that has seen no rows."""
    for name, texts in state.dictionaries.items():
        for chunk in _table(tables, f"texts of {name}").column(0).chunks:
            texts.encode(chunk)
    groups = _table(tables, GROUPS)
    _load(state.groups, groups)
    for number, bag in enumerate(state.bags):
        _load(bag.table, _table(tables, f"bag {number}"))
        bag.restore()
    if told is not None:
        known, touched = (groups.column(name).to_numpy() for name in ("told", "touched"))
        told.load(_table(tables, TOLD), known, touched)


def _table(tables: Mapping[str, pa.Table], name: str) -> pa.Table:
    if name not in tables:
        raise StateError(f"a snapshot must have a table {name!r}; got {', '.join(tables)}")
    return tables[name]


def _saved(table: Table, slots: np.ndarray, renamed: Mapping[int, np.ndarray]) -> pa.Table:
    fields, arrays = [], []
    for number, column in enumerate(table.slots.columns):
        base, rows = _rows(column, slots, renamed)
        flat = pa.array(np.ascontiguousarray(rows).reshape(-1))
        arrays.append(pa.FixedSizeListArray.from_arrays(flat, rows.shape[1]))
        fields.append(pa.field(f"{number}", arrays[-1].type, metadata={BASE: str(base).encode()}))
    return pa.table(arrays, schema=pa.schema(fields))


def _rows(column: Column, slots: np.ndarray, renamed: Mapping[int, np.ndarray]) -> tuple[int, np.ndarray]:
    if id(column) in renamed:
        assert isinstance(column, Cells)
        return 0, renamed[id(column)][slots]
    return column.saved(slots)


def _load(table: Table, rows: pa.Table) -> None:
    def read(number: int) -> tuple[int, np.ndarray]:
        field = rows.schema.field(f"{number}")
        flat = rows.column(f"{number}").combine_chunks().flatten().to_numpy()
        return int(field.metadata[BASE]), flat.reshape(rows.num_rows, field.type.list_size)

    table.enter(np.ascontiguousarray(read(0)[1]))
    for number, column in enumerate(table.slots.columns):
        column.load(*read(number))
