"""The texts of a join, and what they mean with the schemas that are known so far. Nothing of a running join is touched here.

A schema becomes known with the stream's first batch, and a column's type with its first value. So a join is bound more than once; what
it is bound to is a value, ``Known``, made anew each time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from watersmeet.join.outer import How
from watersmeet.sql.condition import BoundCondition, Condition
from watersmeet.sql.guess import bind_open
from watersmeet.sql.select import BoundSelect, Select
from watersmeet.streams.clock import TimeAxis
from watersmeet.streams.schema import given_schemas, is_open
from watersmeet.streams.window import Window

Schemas = tuple[pa.Schema | None, ...]  # by stream; None: not known yet


@dataclass(frozen=True)
class Known:
    """What is known of a join's streams."""

    schemas: Schemas
    usable: (
        Schemas  # the same, without a stream whose time column has no type yet: no row of it can have come
    )
    axis: TimeAxis | None = None
    condition: BoundCondition | None = None  # once both schemas are usable
    select: BoundSelect | None = None  # once those of the streams that it shows are
    columns: tuple[list[str], ...] = ()  # by stream, what must be kept; with the condition
    complete: bool = False  # whether the type of every column of both streams is known
    guessed: bool = False  # whether the condition names a column whose type is not


@dataclass(frozen=True)
class BoundTexts:
    """What texts mean with schemas that are known for good."""

    condition: BoundCondition
    select: BoundSelect
    axis: TimeAxis | None
    columns: tuple[list[str], ...]  # by stream, what must be kept


class Texts:
    """Condition and select list of a join, over its streams and their windows. Names of streams are checked when it is made."""

    def __init__(self, windows: Mapping[str, Window], condition: str, select: str, how: How) -> None:
        self.streams, self.windows = tuple(windows), tuple(windows.values())
        self.condition, self.select = Condition(condition), Select(select)
        self.shown = [self.streams[how.one_sided]] if how.one_sided is not None else list(self.streams)
        self.condition.check_streams(self.streams)
        self.select.check_streams(self.shown)

    def given(self, schemas: Mapping[str, Any]) -> Schemas:
        """The option ``schemas=``, by stream."""
        found = given_schemas(schemas, self.streams)
        return tuple(found.get(name) for name in self.streams)

    def timeless(self, k: int, schema: pa.Schema) -> bool:
        """Whether the time column of stream k has no type yet. No row can have come: a row without a time is refused."""
        window = self.windows[k]
        place = -1 if window.time is None else schema.get_field_index(window.time)
        return place >= 0 and is_open(schema.field(place).type)

    def bind(self, schemas: Schemas) -> Known:
        """All that these schemas tell. Texts that do not fit them are refused."""
        usable = tuple(
            None if schema is None or self.timeless(k, schema) else schema for k, schema in enumerate(schemas)
        )
        types = {
            name: schema for name, schema in zip(self.streams, usable, strict=True) if schema is not None
        }
        axis = condition = select = None
        if any(self.windows[self.streams.index(name)].timed for name in types):
            axis = TimeAxis(self.streams, self.windows, usable)
        if len(types) == len(self.streams):
            condition = bind_open(self.condition, self.condition.bind, types)
        if types.keys() >= set(
            self.shown
        ):  # a semi or anti join shows rows before the other stream has begun
            shown = {name: types[name] for name in self.shown}
            select = bind_open(self.select, self.select.bind, shown)
        if condition is None or select is None:
            return Known(schemas, usable, axis, None, select)
        unknown = [name.lower() for schema in types.values() for name in _open_columns(schema)]
        columns = tuple(
            self._needed(k, types[name], bool(unknown), condition, select)
            for k, name in enumerate(self.streams)
        )
        guessed = not self.condition.names.isdisjoint(unknown)
        return Known(schemas, usable, axis, condition, select, columns, not unknown, guessed)

    def bind_for_good(self, schemas: Sequence[pa.Schema]) -> BoundTexts:
        """With schemas that stay as they are: a column without a type is NULL in every row, and nothing is guessed."""
        types = dict(zip(self.streams, schemas, strict=True))
        condition, select = self.condition.bind(types), self.select.bind(types, self.shown)
        timed = any(window.timed for window in self.windows)
        axis = TimeAxis(self.streams, self.windows, schemas) if timed else None
        columns = tuple(self._needed(k, schema, False, condition, select) for k, schema in enumerate(schemas))
        return BoundTexts(condition, select, axis, columns)

    def _needed(
        self, k: int, schema: pa.Schema, some_open: bool, condition: BoundCondition, select: BoundSelect
    ) -> list[str]:
        """The columns of stream k that must be kept; at least one, so that rows can be counted."""
        stream, window = self.streams[k], self.windows[k]
        needed = {*condition.columns.get(stream, ()), *select.columns.get(stream, ())}
        if some_open:  # an open column binds as NULL, and others that are needed later may have gone with it
            named = self.condition.names | self.select.names
            needed |= {name for name in schema.names if "*" in named or name.lower() in named}
        if window.time is not None:
            needed.add(window.time)
        return [name for name in schema.names if name in needed] or schema.names[:1]


def _open_columns(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if is_open(field.type)]
