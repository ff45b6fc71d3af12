"""Joins and results as people see them: one line in a terminal, a small table in a notebook.

What stays true: showing changes nothing and stays cheap. Only the rows that are shown are gathered, however many
pairs there are, and every text from outside (names, conditions, values) is escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pyarrow as pa

from watersmeet.api.options import JoinOptions

SHOWN = 10  # rows of a result in a notebook
WIDEST = 80  # characters of a value or a condition


def counted(number: int, thing: str) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def join_line(streams: Mapping[str, tuple[Any, int]], options: JoinOptions, results: int, ended: str) -> str:
    """A join in one line. ``streams``: the window and the rows held, by name."""
    held = ", ".join(f"{name}={window} with {counted(n, 'row')}" for name, (window, n) in streams.items())
    parts = [held, *_run_by(options), counted(results, "result"), *([ended] if ended else [])]
    return f"<StreamJoin {options.how} on {_short(options.condition)!r}: {'; '.join(parts)}>"


def join_html(
    streams: Mapping[str, Mapping[str, Any]], options: JoinOptions, results: int, ended: str
) -> str:
    """A join as a table of its streams. ``streams``: window, rows held, arrived and late, by name."""
    about = [*_run_by(options), counted(results, "result"), *([ended] if ended else [])]
    head = f"<b>StreamJoin</b> {escape(options.how)} on <code>{escape(options.condition)}</code>"
    rows = [
        [name, str(s["window"]), *(f"{s[count]:,}" for count in ("rows", "arrived", "late"))]
        for name, s in streams.items()
    ]
    table = _table(["stream", "window", "rows held", "arrived", "late"], rows)
    return f"<div><div>{head}</div>{table}<div>{escape('; '.join(about))}</div></div>"


def result_line(count: int, late: Mapping[str, pa.RecordBatch]) -> str:
    """A result in one line: how many rows, how many late."""
    return f"<Result of {'; '.join([counted(count, 'row'), *_late(late)])}>"


def result_html(count: int, late: Mapping[str, pa.RecordBatch], first: pa.RecordBatch | str) -> str:
    """A result as a table of its first rows; a text says why there are none to show."""
    head = "; ".join([counted(count, "row"), *_late(late)])
    if isinstance(first, str):
        return f"<div><div><b>Result</b> of {escape(head)}</div><div>{escape(first)}</div></div>"
    titles = [f"{field.name}: {field.type}" for field in first.schema]
    rows = ([_value(column[i]) for column in first.columns] for i in range(first.num_rows))
    rest = f"<div>{count - first.num_rows:,} more</div>" if count > first.num_rows else ""
    return f"<div><div><b>Result</b> of {escape(head)}</div>{_table(first.schema.names, rows, titles)}{rest}</div>"


def _run_by(options: JoinOptions) -> list[str]:
    flow = [f"flow {options.flow}"] if options.flow is not None else []
    order = [f"order {options.order}"] if options.order != "none" else []
    return [*flow, *order, counted(options.cores, "core")]


def _late(late: Mapping[str, pa.RecordBatch]) -> list[str]:
    return [f"{counted(rows.num_rows, 'late row')} of {name}" for name, rows in late.items()]


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def _value(value: pa.Scalar) -> str:
    if not value.is_valid:
        return "NULL"
    try:
        return _short(str(value))
    except (
        ValueError,
        OverflowError,
        KeyError,
        pa.ArrowException,
    ):  # a date or zone that Python does not have
        return _short(str(value.cast(pa.string())))


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], titles: Sequence[str] | None = None) -> str:
    about = [f' title="{escape(title)}"' for title in titles] if titles else [""] * len(names)
    heads = "".join(f"<th{extra}>{escape(name)}</th>" for name, extra in zip(names, about, strict=True))
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
