"""Queries on a fabric in hardware, whatever it is made of: OP-Blocks (FQP) or bricks on switches (SSP).

What stays true: the same texts, rows and order of arrival give the same results on either, which are those of the processor in software.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.fabric.components import OpBlock
from watersmeet.fabric.fabric import Fabric
from watersmeet.hardware import fqp
from watersmeet.hardware.ssp import running as ssp
from watersmeet.streams.window import Window


@dataclass(frozen=True)
class QueryRun:
    """``results``: by query, its rows; ``agrees``: whether the processor in software gives the same; ``cycles``: to the last result."""

    fabric: str
    rows: int
    cycles: int
    results: Mapping[str, list[tuple[Any, ...]]]
    agrees: bool

    @property
    def cycles_a_row(self) -> float:
        """Cycles divided by the rows of all streams."""
        return self.cycles / max(1, self.rows)


def run_queries(
    fabric: Fabric,
    queries: Mapping[str, str],
    rows: Mapping[str, pa.Table],
    *,
    windows: Mapping[str, Window],
    order: Sequence[str] | None = None,
    simulator: str = "auto",
    **options: Any,
) -> QueryRun:
    """Run ``queries`` (name and SQL) over ``rows`` (Arrow tables by stream) on the hardware of ``fabric``, cycle by cycle.

    ``order``: the stream of each row, in the order of arrival; by default streams are mixed evenly. ``options``: ``sizes``, ``stalls`` and
    what else ``watersmeet.hardware.fqp.run`` or ``watersmeet.hardware.ssp.running.run`` takes, which also let queries come and go.
    """
    _check(queries, rows, windows)
    sequence = (
        list(order) if order is not None else ssp.mixed({name: len(table) for name, table in rows.items()})
    )
    name = fabric.topology.name
    if not any(isinstance(one, OpBlock) for one in fabric.topology.components):
        ran = ssp.run(fabric, queries, rows, windows=windows, order=sequence, simulator=simulator, **options)
        return QueryRun(name, ran.rows, ran.cycles, ran.results, ran.agrees)
    answer = fqp.run(
        fabric,
        [*(f"CREATE QUERY {query} AS {text}" for query, text in queries.items()), *_in_turn(rows, sequence)],
        schemas={stream: table.schema for stream, table in rows.items()},
        windows=windows,  # type: ignore[arg-type]  # others than Rows are refused there, by name
        simulator=simulator,
        **options,
    )
    found = {query: [tuple(row.values()) for row in answer.results.get(query, ())] for query in queries}
    return QueryRun(name, answer.rows, answer.cycles, found, answer.agrees)


def _check(queries: Any, rows: Any, windows: Any) -> None:
    """Refuses what has no stream: the processor would let such a query wait for ever, and nothing would be compared."""
    if not isinstance(queries, Mapping) or not queries:
        raise OptionError(f"queries must be SQL by name; got {queries!r}; write {{'name': 'SELECT ...'}}")
    if not isinstance(rows, Mapping):
        raise OptionError(
            f"rows must be Arrow tables by stream; got {type(rows).__name__}; write {{'stream': table}}"
        )
    for name, table in rows.items():
        if not isinstance(table, pa.Table):
            raise OptionError(
                f"rows must be Arrow tables by stream; got {type(table).__name__} for {name!r}; make it a pyarrow.Table"
            )
    if not isinstance(windows, Mapping) or set(windows) != set(rows):
        named = ", ".join(map(repr, windows)) if isinstance(windows, Mapping) else repr(windows)
        raise OptionError(
            f"windows must name the streams that have rows, {', '.join(map(repr, rows)) or 'none'}; got {named or 'none'}; "
            "a stream without rows has an empty table"
        )


def _in_turn(rows: Mapping[str, pa.Table], order: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows, each with its stream, in the order of arrival."""
    left = {name: iter(table.to_pylist()) for name, table in rows.items()}
    for name in order:
        row = next(left.get(name, iter(())), None)
        if row is None:
            raise OptionError(
                f"order must name the stream of each row once; got {name!r} more often than it has rows"
            )
        yield name, row
    if any(next(some, None) is not None for some in left.values()):
        raise OptionError("order must name the stream of each row once; got too few names")
