"""A select list over the streams of a join: which columns it needs, the schema it gives, and its rows.

A plain column comes out as it was stored. A name that comes from more than one stream becomes ``stream_name`` in
both; an expression without AS is called by its own text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from watersmeet.errors import ConditionError
from watersmeet.sql.bind import Binder
from watersmeet.sql.evaluate import Columns, Evaluation
from watersmeet.sql.names import Names, check_streams
from watersmeet.sql.parse import parse_select
from watersmeet.sql.syntax import Source, Syntax
from watersmeet.sql.tree import Column, Expr, columns_of, shared

Item = tuple[str, bool, Expr]
"""(name, whether the user gave it, expression)."""


class Select:
    """The text of a select list, its syntax checked.

    >>> schemas = {"r": pa.schema({"x": pa.int64()}), "s": pa.schema({"x": pa.int64(), "y": pa.int64()})}
    >>> Select("*, r.x + y AS z").bind(schemas).schema.names
    ['r_x', 's_x', 'y', 'z']
    """

    def __init__(self, text: str = "*") -> None:
        self.text = text
        self._items = parse_select(text)
        self.names: set[str] = set().union(*(item.names() for item in self._items))
        self.source = Source(text, "select list")

    def check_streams(self, streams: Sequence[str]) -> None:
        """Refuse a list that names another stream than these; nothing else need be known of them."""
        check_streams(self.source, self._items, streams)

    @property
    def parts(self) -> list[Syntax]:
        """The expressions of the list, without their names."""
        return [item.args[0] if item.op == "alias" else item for item in self._items if item.op != "star"]

    @staticmethod
    def bind_part(binder: Binder, part: Syntax) -> Expr:
        """An expression may have any type."""
        return binder.bind(part)

    def bind(self, schemas: Mapping[str, pa.Schema], streams: Sequence[str] | None = None) -> BoundSelect:
        """The list for streams with these schemas; ``*`` takes the streams in the order given."""
        order = list(schemas) if streams is None else list(streams)
        binder = Binder(self.source, {stream: schemas[stream] for stream in order})
        with self.source.of_any_depth():
            items = bound_items(binder, self._items, order)
        return BoundSelect(items, binder.names.schemas)


class BoundSelect:
    """A select list whose columns and types are known."""

    def __init__(self, items: list[tuple[str, Expr]], schemas: Mapping[str, pa.Schema]) -> None:
        self.expressions = shared(expr for _, expr in items)
        self.schema = pa.schema([_field(name, expr, schemas) for name, expr in items])
        self._types = self.schema.types  # a schema makes its fields anew each time it is asked for them
        needed = dict.fromkeys(column for expr in self.expressions for column in columns_of(expr))
        self.columns = {
            stream: [column.name for column in needed if column.stream == stream] for stream in schemas
        }

    def evaluate(self, columns: Columns, n: int) -> pa.RecordBatch:
        """The list's values for ``n`` aligned rows; ``columns`` maps (stream, column) to arrays."""
        values = Evaluation(columns, n)
        arrays = [
            self._array(expr, type_, columns, values)
            for expr, type_ in zip(self.expressions, self._types, strict=True)
        ]
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.nulls(n, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, expr: Expr, type_: pa.DataType, columns: Columns, values: Evaluation) -> pa.Array:
        if not isinstance(expr, Column):
            return values.of(expr)
        column = columns[expr.stream, expr.name]
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        return column if column.type == type_ else column.cast(type_)


def bound_items(binder: Binder, nodes: Sequence[Syntax], streams: list[str]) -> list[tuple[str, Expr]]:
    """The items of a list, each with its name; ``*`` takes the streams in the order given."""
    return _named([item for node in nodes for item in _items(binder, node, streams)], binder.source)


def _items(binder: Binder, node: Syntax, streams: list[str]) -> list[Item]:
    if node.op == "star":
        return _star(binder, node, streams)
    if node.op == "alias":
        return [(node.value, True, binder.bind(node.args[0]))]
    expr = binder.bind(node)
    return [(expr.name if isinstance(expr, Column) else str(expr), False, expr)]


def _star(binder: Binder, node: Syntax, streams: list[str]) -> list[Item]:
    chosen = streams if node.value is None else [binder.names.stream(node, node.value)]
    names = Names(binder.source, {stream: binder.names.schemas[stream] for stream in chosen})
    left_out: set[Column] = set()
    for column in node.args:
        found = names.column(column)
        if found in left_out:
            raise binder.source.error(
                column.span, f"EXCEPT must name a column once; got {found.name!r} again; leave one out"
            )
        left_out.add(found)
    columns = [
        names.column(Syntax("column", (), (stream, name), node.span))
        for stream in chosen
        for name in names.schemas[stream].names
    ]
    return [(column.name, False, column) for column in columns if column not in left_out]


def _named(items: list[Item], source: Source) -> list[tuple[str, Expr]]:
    """Names made different: plain columns that share a name get their stream in front."""
    shared = Counter(name for name, _, _ in items)
    result: list[tuple[str, Expr]] = []
    for name, given, expr in items:
        clash = shared[name] > 1 and not given and isinstance(expr, Column)
        result.append((f"{expr.stream}_{name}" if clash and isinstance(expr, Column) else name, expr))
    final = Counter(name for name, _ in result)
    for name, count in final.items():
        if count > 1:
            raise ConditionError(
                f"a select list must give each column its own name; got {name!r} {count} times; use AS\n"
                f"{source.underlined((0, len(source.text)))}"
            )
    return result


def _field(name: str, expr: Expr, schemas: Mapping[str, pa.Schema]) -> pa.Field:
    if isinstance(expr, Column):
        return pa.field(name, schemas[expr.stream].field(expr.name).type)
    return pa.field(name, expr.type)
