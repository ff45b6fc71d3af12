"""Names in the text to streams and columns; what cannot be resolved is refused with a suggestion."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from watersmeet.sql import types
from watersmeet.sql.syntax import Source, Syntax
from watersmeet.sql.tree import Column


class Names:
    """The streams and columns that one text may speak of."""

    def __init__(self, source: Source, schemas: Mapping[str, pa.Schema]) -> None:
        self.source = source
        self.schemas = schemas

    def column(self, node: Syntax) -> Column:
        """The column that a name stands for."""
        stream, name = node.value
        if stream is None:
            return self._unqualified(node, name)
        return self._in_stream(node, self.stream(node, stream), name)

    def stream(self, node: Syntax, name: str) -> str:
        """The stream of that name."""
        found = resolve(name, list(self.schemas))
        if found is None:
            raise self.source.error(node.span, unknown("stream", name, list(self.schemas)))
        return found

    def _unqualified(self, node: Syntax, name: str) -> Column:
        owners = [
            stream for stream, schema in self.schemas.items() if resolve(name, schema.names) is not None
        ]
        if len(owners) > 1:
            choices = " or ".join(f"{stream}.{name}" for stream in owners)
            raise self.source.error(
                node.span,
                f"a column name must be of one stream; got {name!r}, which several have; write {choices}",
            )
        if not owners:
            names = [
                f"{stream}.{column}" for stream, schema in self.schemas.items() for column in schema.names
            ]
            raise self.source.error(node.span, unknown("column", name, names))
        return self._in_stream(node, owners[0], name)

    def _in_stream(self, node: Syntax, stream: str, name: str) -> Column:
        schema = self.schemas[stream]
        found = resolve(name, schema.names)
        if found is None:
            raise self.source.error(
                node.span, unknown("column", name, [f"{stream}.{known}" for known in schema.names])
            )
        if schema.names.count(found) > 1:
            raise self.source.error(
                node.span,
                f"a column name must occur once in its stream; got {found!r} twice in {stream}; rename one",
            )
        return Column(types.logical(schema.field(found).type), stream, found)


def check_streams(source: Source, nodes: Iterable[Syntax], streams: Sequence[str]) -> None:
    """Refuses a stream name that is none of ``streams``, before any schema is known."""
    for node in nodes:
        name = node.value[0] if node.op == "column" else node.value if node.op == "star" else None
        if name is not None and resolve(name, list(streams)) is None:
            raise source.error(node.span, unknown("stream", name, list(streams)))
        check_streams(source, node.args, streams)


def resolve(name: str, names: list[str]) -> str | None:
    """The name itself, or the only one that differs from it in case only (as in Spark)."""
    if name in names:
        return name
    same = [other for other in names if other.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def unknown(what: str, name: str, names: list[str]) -> str:
    """What to say of a name that is none of ``names`` (columns may have their stream in front)."""
    bare = [known.rpartition(".")[2] for known in names]
    close = difflib.get_close_matches(name, bare, 1)
    hint = f"did you mean {names[bare.index(close[0])]}?" if close else "correct the name"
    few = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return f"a {what} must be one of {few}; got {name!r}; {hint}"
