"""What a SELECT's expressions stand over: the branches of its FROM, filtered, and what its names mean in each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.query.instruction import Filter, Project, Rows, Source, Union
from watersmeet.query.statement import WindowCall
from watersmeet.sql import types
from watersmeet.sql.bind import Binder
from watersmeet.sql.tree import Column, Expr, substituted

Columns = Mapping[tuple[str, str], Expr]


@dataclass(frozen=True)
class Branch:
    """A part of a UNION ALL: a source, a predicate, named expressions."""

    source: Source
    names: tuple[str, ...]  # of the leaves, in the text
    predicate: Expr | None
    columns: tuple[tuple[str, Expr], ...]
    window: WindowCall | None = None  # of a scan: what the text says


@dataclass(frozen=True)
class Scope:
    """FROM and WHERE, bound. ``columns``: of each branch, what a name of an input stands for."""

    branches: tuple[Branch, ...]
    columns: tuple[Columns, ...]
    binder: Binder
    aliases: tuple[str, ...]

    def stored(self, expr: Expr) -> pa.DataType:
        """The type as which an expression over the inputs is stored: a plain column as it came."""
        if not isinstance(expr, Column):
            return expr.type
        return self.binder.names.schemas[expr.stream].field(expr.name).type

    def chosen(self, items: Sequence[tuple[str, Expr]]) -> list[Branch]:
        """The branches with these columns."""
        return [
            Branch(
                branch.source,
                branch.names,
                branch.predicate,
                tuple((name, substituted(expr, columns)) for name, expr in items),
                branch.window,
            )
            for branch, columns in zip(self.branches, self.columns, strict=True)
        ]

    def time(self, times: Mapping[str, str]) -> Column | None:
        """The column that is, in every branch, the time of its one stream; ``times``: which that is. None: there is none."""
        for alias in self.aliases:
            schema = self.binder.names.schemas[alias]
            for name in schema.names:
                found = [columns[alias, name] for columns in self.columns]
                if all(_is_time(expr, b.source, times) for expr, b in zip(found, self.branches, strict=True)):
                    return Column(types.logical(schema.field(name).type), alias, name)
        return None


def _is_time(expr: Expr, source: Source, times: Mapping[str, str]) -> bool:
    return (
        len(source.leaves) == 1
        and isinstance(expr, Column)
        and expr.stream == source.leaves[0]
        and times.get(expr.stream) == expr.name
    )


def rows_of(branches: Sequence[Branch]) -> Rows:
    """The plan that gives the rows of some branches."""
    plans = tuple(map(_project, branches))
    return plans[0] if len(plans) == 1 else Union(plans)


def _project(branch: Branch) -> Project:
    below = branch.source if branch.predicate is None else Filter(branch.source, branch.predicate)
    return Project(
        below, tuple(name for name, _ in branch.columns), tuple(expr for _, expr in branch.columns)
    )
