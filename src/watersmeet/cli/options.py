"""Options that several commands have, and the join that they make."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape as literal  # help texts are markup: what is in brackets must be escaped

from watersmeet.cli.texts import WINDOWS, window_of

if TYPE_CHECKING:
    from watersmeet.api.stream_join import StreamJoin

__all__ = [
    "JOB", "Condition", "Cores", "How", "Index", "JobWindows", "Select", "Tables", "Types", "Window", "literal", "stream_join", "windows",
]  # fmt: skip

Condition = Annotated[str, typer.Argument(help="SQL over the aliases r and s, such as 'r.x = s.a'.")]
Window = Annotated[str, typer.Option(help=literal(WINDOWS), rich_help_panel="Rows")]
How = Annotated[
    str,
    typer.Option(
        help="inner, left, right, full, semi, anti, right_semi or right_anti", rich_help_panel="Rows"
    ),
]
Select = Annotated[
    str, typer.Option(help="SQL select list over the aliases, such as 'r.x, s.*'.", rich_help_panel="Rows")
]
Index = Annotated[
    str,
    typer.Option(help="auto, scan, hash, rap_table, wib_tree, bi_sort or grid", rich_help_panel="Speed"),
]
Cores = Annotated[int, typer.Option(min=1, help="Threads that probe and merge.", rich_help_panel="Speed")]

JOB = "A job of queries"
JobWindows = Annotated[
    list[str] | None,
    typer.Option(help=literal(f"NAME=WINDOW of a stream of queries: {WINDOWS}."), rich_help_panel=JOB),
]
Tables = Annotated[
    list[str] | None,
    typer.Option(help="NAME=FILE: a static table that queries join with streams.", rich_help_panel=JOB),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        help=literal("NAME=COLUMN:TYPE,...: types of columns of a csv or ndjson file."), rich_help_panel=JOB
    ),
]


def windows(r: str, s: str) -> dict[str, Any]:
    """Both streams' windows from their texts."""
    return {"r": window_of(r), "s": window_of(s)}


def stream_join(
    condition: str,
    windows: Mapping[str, Any],
    how: str,
    select: str,
    index: str,
    cores: int,
    schemas: Mapping[str, Any],
) -> "StreamJoin":
    """The join of the streams r and s; what does not fit the schemas is refused here."""
    from watersmeet.api.stream_join import StreamJoin

    return StreamJoin(
        condition, windows=windows, schemas=schemas, how=how, select=select, index=index, cores=cores
    )
