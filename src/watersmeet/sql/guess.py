"""A text is bound while the type of a column is still open: as NULL, or as any type with which the text makes sense.

Every value of an open column is NULL, and NULL of one type gives what NULL of another does. So it does not matter which
type is taken; it matters that rows give their results at once, and that a text which no type can mend is refused at once.

Conjuncts and items of a list that share no open column are guessed apart. Within one group the types are searched for column by
column, in the order of the text; every operation is checked as soon as its columns have types. Where no type will do, the search
goes back to a column of an operation that failed, and passes over those between. A search that takes more than ``TRIES`` gives up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import ConditionError
from watersmeet.sql.bind import Binder
from watersmeet.sql.names import Names
from watersmeet.sql.syntax import Source, Syntax
from watersmeet.sql.tree import Expr

Bound = TypeVar("Bound")
Schemas = Mapping[str, pa.Schema]
Place = tuple[str, str]  # stream and column
Types = dict[Place, pa.DataType]

TRIES = 3000  # an operation is bound in far less than a millisecond
# One type of each family: whatever another of the family can be in, this one can.
_KINDS = (
    pa.int64(), pa.large_string(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.duration("us"), pa.bool_(),
    pa.time64("us"), pa.large_binary(),
)  # fmt: skip


class Text(Protocol):
    """A condition or a select list, and its parts: conjuncts, or expressions."""

    source: Source

    @property
    def parts(self) -> list[Syntax]:
        """In the order of the text."""

    @staticmethod
    def bind_part(binder: Binder, part: Syntax) -> Expr:
        """The typed tree of a part; it must be what a part of such a text must be."""


def bind_open(text: Text, bind: Callable[[Schemas], Bound], schemas: Schemas) -> Bound:
    """``bind(schemas)``, where columns may be open. ``schemas`` are those of the streams that the text may name."""
    try:
        return bind(schemas)
    except ConditionError:
        if not any(pt.is_null(field.type) for schema in schemas.values() for field in schema):
            raise
        try:
            with text.source.of_any_depth():
                guess = _guess(text, schemas)
        except ConditionError:
            guess = None
        if guess is None:
            raise
        return bind(_with(schemas, guess))


def _guess(text: Text, schemas: Schemas) -> Types | None:
    """Types with which every part binds; None if there are none."""
    found: Types = {}
    for parts in _groups(text, schemas):
        types = _Search(text, schemas, parts).types()
        if types is None:
            return None
        found |= types
    return found


def _groups(text: Text, schemas: Schemas) -> list[list[Syntax]]:
    """The parts, those together that share an open column."""
    groups: list[tuple[set[Place], list[Syntax]]] = []
    names = Names(text.source, schemas)
    for part in text.parts:
        places, parts, apart = set(_open(names, part)), [part], []
        for others in groups:
            if places.isdisjoint(others[0]):
                apart.append(others)
            else:
                places, parts = places | others[0], [*others[1], *parts]
        groups = [*apart, (places, parts)]
    return [parts for places, parts in groups if places]


def _open(names: Names, node: Syntax) -> Iterator[Place]:
    """The open columns that a text names, as often as it does."""
    if node.op == "column":
        column = names.column(node)
        if pt.is_null(column.type):
            yield column.stream, column.name
    for arg in node.args:
        yield from _open(names, arg)


def _inside(node: Syntax) -> Iterator[Syntax]:
    """All nodes of a text, the inner ones first."""
    for arg in node.args:
        yield from _inside(arg)
    yield node


def _with(schemas: Schemas, types: Types) -> Schemas:
    return {
        stream: pa.schema([(field.name, types.get((stream, field.name), field.type)) for field in schema])
        for stream, schema in schemas.items()
    }


class _Search:
    """Types for the open columns of parts that share them."""

    def __init__(self, text: Text, schemas: Schemas, parts: list[Syntax]) -> None:
        self.text, self.schemas, self.parts, self.left = text, schemas, parts, TRIES
        names = Names(text.source, schemas)
        self.columns = list(dict.fromkeys(place for part in parts for place in _open(names, part)))
        # What can be checked once a column has a type, and which columns are in it.
        self.checks: dict[Place, list[tuple[Syntax, set[Place]]]] = {place: [] for place in self.columns}
        for node in (node for part in parts for node in _inside(part)):
            places = set(_open(names, node))
            if places:
                self.checks[max(places, key=self.columns.index)].append((node, places))

    def types(self) -> Types | None:
        """The types found: none for columns that may stay NULL, else the same for all if that will do."""
        for same in ({}, *(dict.fromkeys(self.columns, kind) for kind in _KINDS)):
            if self._binds(self.parts, same):
                return same
        chosen: Types = {}
        return chosen if self._choose(0, chosen) is None else None

    def _choose(self, number: int, chosen: Types) -> set[Place] | None:
        """Types from this column on, into ``chosen``; if there are none, the columns before it of which one must change."""
        if number == len(self.columns):
            return None
        column, blamed = self.columns[number], set[Place]()
        for kind in _KINDS:
            chosen[column] = kind
            failed = self._failed(column, chosen)
            if failed is None:
                failed = self._choose(number + 1, chosen)
            if failed is None or column not in failed:  # in the second case no other type here mends it
                return failed
            blamed |= failed
        del chosen[column]
        return blamed - {column}

    def _failed(self, column: Place, chosen: Types) -> set[Place] | None:
        """The columns of an operation that cannot be with the types chosen; none when the tries are used up: nothing helps then."""
        for node, places in self.checks[column]:
            if self.left <= 0:
                return set()
            if not self._binds([node], chosen):
                return places
        return None

    def _binds(self, nodes: list[Syntax], types: Types) -> bool:
        self.left -= 1
        binder = Binder(self.text.source, _with(self.schemas, types))
        try:
            for node in nodes:
                self.text.bind_part(binder, node) if node in self.parts else binder.bind(node)
        except ConditionError:
            return False
        return True
